//! PSI as Linux computes it (`kernel/sched/psi.c`, 6.1 and 6.12), integers and all.
//!
//! Each CPU counts its tasks by state and times how long each condition held; now and then the
//! CPUs are aggregated, each weighed by how long it was not idle, **in whole jiffies**. A CPU that
//! was busy for less than a jiffy since the last look weighs nothing, and what it lost is gone:
//! who reads the file often makes the pressure vanish. That, the truncations of the averages, and
//! that `some` is any task on a CPU rather than a share of the potential, are where it departs
//! from [`Potential`](super::Potential).

use super::{Resource, Task};

/// Nanoseconds of a jiffy at `CONFIG_HZ=250`, Debian's.
pub const JIFFY_NS: u64 = 4_000_000;

/// Nanoseconds between two samples of the averages: one jiffy more than two seconds
/// (`PSI_FREQ`).
pub const PERIOD_NS: u64 = 501 * JIFFY_NS;

/// Decay of the averages over 10, 60 and 300 seconds from one period to the next, in 2048ths
/// (`EXP_10s`, `EXP_60s`, `EXP_300s`).
const DECAY: [u64; 3] = [1677, 1981, 2034];

/// One, in the fixed point of the averages (`FIXED_1`).
const ONE: u64 = 1 << 11;

/// One line of a pressure file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Line {
    /// `some`.
    Some,
    /// `full`.
    Full,
}

/// Tasks of one group on one CPU by state (`enum psi_task_count`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskCounts {
    /// Waiting for block I/O.
    pub io_waiting: u32,
    /// In a memory stall, running or not.
    pub memory_stalled: u32,
    /// On the run queue, the one on the CPU included.
    pub runnable: u32,
    /// Of these, in a memory stall: reclaimers, which burn CPU and get nowhere.
    pub runnable_stalled: u32,
    /// Whether a task of the group is on the CPU.
    pub on_cpu: bool,
    /// Whether that one is in a memory stall.
    pub on_cpu_stalled: bool,
}

impl TaskCounts {
    /// The counts of some tasks that share a CPU; the first productive one is on it.
    pub fn of(tasks: &[Task]) -> TaskCounts {
        let mut counts = TaskCounts::default();
        for task in tasks {
            match task {
                Task::Idle => {}
                Task::Productive => {
                    counts.runnable += 1;
                    counts.on_cpu = true;
                }
                Task::Stalled(Resource::Cpu) => counts.runnable += 1,
                Task::Stalled(Resource::Memory) => counts.memory_stalled += 1,
                Task::Stalled(Resource::Io) => counts.io_waiting += 1,
            }
        }
        counts
    }

    /// Whether a line of a resource's file grows (`test_state`).
    fn holds(&self, resource: Resource, line: Line) -> bool {
        match (resource, line) {
            (Resource::Io, Line::Some) => self.io_waiting > 0,
            (Resource::Io, Line::Full) => self.io_waiting > 0 && self.runnable == 0,
            (Resource::Memory, Line::Some) => self.memory_stalled > 0,
            (Resource::Memory, Line::Full) => {
                let nobody_else = self.runnable == self.runnable_stalled;
                self.memory_stalled > 0 && (nobody_else || self.on_cpu_stalled)
            }
            (Resource::Cpu, Line::Some) => self.runnable > u32::from(self.on_cpu),
            (Resource::Cpu, Line::Full) => self.runnable > 0 && !self.on_cpu,
        }
    }

    fn is_idle(&self) -> bool {
        self.io_waiting == 0 && self.memory_stalled == 0 && self.runnable == 0
    }
}

/// A group's share of one CPU.
#[derive(Clone, Debug, Default)]
struct Cpu {
    counts: TaskCounts,
    since_ns: u64,
    stalled_ns: [u64; 2],
    active_ns: u64,
}

/// The pressure of one resource in one group: what a pressure file shows.
#[derive(Clone, Debug)]
pub struct Group {
    resource: Resource,
    cpus: Vec<Cpu>,
    total_ns: [u64; 2],
    /// What `total_ns` was at the last sample of the averages.
    sampled_ns: [u64; 2],
    averages: [[u64; 3]; 2],
    last_sample_ns: u64,
    next_sample_ns: u64,
}

impl Group {
    /// A group that starts empty at time 0.
    pub fn new(resource: Resource, cpus: usize) -> Group {
        Group {
            resource,
            cpus: vec![Cpu::default(); cpus],
            total_ns: [0; 2],
            sampled_ns: [0; 2],
            averages: [[0; 3]; 2],
            last_sample_ns: 0,
            next_sample_ns: PERIOD_NS,
        }
    }

    /// Says what the group's tasks do on a CPU from `now_ns` on (`psi_group_change`).
    ///
    /// # Panics
    /// If the CPU does not exist, or time runs backwards.
    pub fn set(&mut self, now_ns: u64, cpu: usize, counts: TaskCounts) {
        self.cpus[cpu].account(now_ns, self.resource);
        self.cpus[cpu].counts = counts;
    }

    /// Reads the file: aggregates the CPUs (`collect_percpu_times`), and brings the averages up to
    /// date if a period is over (`update_averages`).
    pub fn read(&mut self, now_ns: u64) -> PressureFile {
        self.aggregate(now_ns);
        if now_ns >= self.next_sample_ns {
            self.sample(now_ns);
        }
        PressureFile { total_us: self.total_ns.map(|ns| ns / 1000), averages: self.averages }
    }

    fn aggregate(&mut self, now_ns: u64) {
        let (mut weighed, mut weights) = ([0u64; 2], 0);
        for cpu in &mut self.cpus {
            cpu.account(now_ns, self.resource);
            let jiffies = std::mem::take(&mut cpu.active_ns) / JIFFY_NS;
            weights += jiffies;
            for (sum, stalled) in weighed.iter_mut().zip(std::mem::take(&mut cpu.stalled_ns)) {
                *sum += stalled * jiffies;
            }
        }
        for (total, weighed) in self.total_ns.iter_mut().zip(weighed) {
            *total += weighed / weights.max(1);
        }
    }

    fn sample(&mut self, now_ns: u64) {
        let missed = (now_ns - self.next_sample_ns) / PERIOD_NS;
        self.next_sample_ns += (1 + missed) * PERIOD_NS;
        let period = now_ns - (self.last_sample_ns + missed * PERIOD_NS);
        self.last_sample_ns = now_ns;
        for line in 0..2 {
            // More than fits a period comes from late delivery; it is left to the next one.
            let stalled = (self.total_ns[line] - self.sampled_ns[line]).min(period);
            self.sampled_ns[line] += stalled;
            for (average, decay) in self.averages[line].iter_mut().zip(DECAY) {
                for _ in 0..missed {
                    *average = decayed(*average, decay, 0);
                }
                *average = decayed(*average, decay, stalled * 100 / period.max(1) * ONE);
            }
        }
    }
}

impl Cpu {
    /// Adds the time since the last change to all that held (`record_times`).
    fn account(&mut self, now_ns: u64, resource: Resource) {
        let elapsed = now_ns.checked_sub(self.since_ns).expect("time does not run backwards");
        self.since_ns = now_ns;
        for (sum, line) in self.stalled_ns.iter_mut().zip([Line::Some, Line::Full]) {
            *sum += if self.counts.holds(resource, line) { elapsed } else { 0 };
        }
        self.active_ns += if self.counts.is_idle() { 0 } else { elapsed };
    }
}

/// One step of an exponentially weighted average (`calc_load`): rounded up while it rises.
fn decayed(average: u64, decay: u64, sample: u64) -> u64 {
    let round_up = if sample >= average { ONE - 1 } else { 0 };
    (average * decay + sample * (ONE - decay) + round_up) / ONE
}

/// The values of a pressure file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PressureFile {
    total_us: [u64; 2],
    averages: [[u64; 3]; 2],
}

impl PressureFile {
    /// `total=`: microseconds.
    pub fn total_us(&self, line: Line) -> u64 {
        self.total_us[line as usize]
    }

    /// `avg10=`, `avg60=`, `avg300=` in hundredths of a percent, cut off as the file cuts them.
    pub fn hundredths(&self, line: Line) -> [u64; 3] {
        self.averages[line as usize].map(|a| a / ONE * 100 + a % ONE * 100 / ONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::psi::Potential;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;
    const WAITS: Task = Task::Stalled(Resource::Memory);

    fn memory(cpus: usize) -> Group {
        Group::new(Resource::Memory, cpus)
    }

    #[test]
    fn one_task_that_stalls_a_tenth_of_the_time() {
        let mut group = memory(1);
        for tenth in 0..100 {
            let at = tenth * SECOND / 10;
            group.set(at, 0, TaskCounts::of(&[WAITS]));
            group.set(at + SECOND / 100, 0, TaskCounts::of(&[Task::Productive]));
        }
        let shown = group.read(10 * SECOND);
        assert_eq!(shown.total_us(Line::Some), 1_000_000);
        assert_eq!(shown.total_us(Line::Full), 1_000_000);
    }

    /// What a controller with a threshold of 0.1 % must know: a CPU that is busy for less than a
    /// jiffy between two reads weighs nothing, so a reader every few milliseconds sees no stall
    /// where one that reads once sees all of it.
    #[test]
    fn frequent_reading_erases_the_pressure() {
        let stall = |group: &mut Group, at: u64| {
            group.set(at, 0, TaskCounts::of(&[WAITS]));
            group.set(at + 3_000_000, 0, TaskCounts::default());
        };
        let (mut rarely, mut often) = (memory(1), memory(1));
        for step in 0..100 {
            stall(&mut rarely, step * 10_000_000);
            stall(&mut often, step * 10_000_000);
            often.read(step * 10_000_000 + 5_000_000);
        }
        assert_eq!(rarely.read(SECOND).total_us(Line::Some), 300_000);
        assert_eq!(often.read(SECOND).total_us(Line::Some), 0);
    }

    /// An idle CPU does not dilute the pressure of a busy one; two busy ones share it.
    #[test]
    fn cpus_weigh_as_much_as_they_were_busy() {
        let mut group = memory(2);
        group.set(0, 0, TaskCounts::of(&[WAITS]));
        assert_eq!(group.read(SECOND).total_us(Line::Some), 1_000_000);
        group.set(SECOND, 1, TaskCounts::of(&[Task::Productive]));
        assert_eq!(group.read(2 * SECOND).total_us(Line::Some), 1_500_000);
    }

    /// A constant stall of 50 %: each average rises towards it, the fastest first, and `avg10`
    /// cannot show what is less than one percent of a period.
    #[test]
    fn averages_move_towards_the_pressure() {
        let mut group = memory(1);
        let mut last = [0; 3];
        for step in 0..150 {
            let at = step * PERIOD_NS;
            group.set(at, 0, TaskCounts::of(&[WAITS]));
            group.set(at + PERIOD_NS / 2, 0, TaskCounts::of(&[Task::Productive]));
            let shown = group.read(at + PERIOD_NS).hundredths(Line::Some);
            assert!((0..3).all(|i| shown[i] >= last[i]) && shown.is_sorted_by(|a, b| a >= b));
            last = shown;
        }
        assert_eq!(last[0], 5_000);
        assert!(last[2] < 4_000, "{last:?}");

        let mut group = memory(1);
        for step in 0..150 {
            let at = step * PERIOD_NS;
            group.set(at, 0, TaskCounts::of(&[WAITS]));
            group.set(at + PERIOD_NS / 200, 0, TaskCounts::of(&[Task::Productive]));
            assert_eq!(group.read(at + PERIOD_NS).hundredths(Line::Some), [0; 3]);
        }
        assert!(group.read(150 * PERIOD_NS).total_us(Line::Some) > 1_500_000);
    }

    /// By hand, from the rule: (0·1677 + 2048·100·(2048 − 1677) + 2047) / 2048 = 37 100 and a
    /// bit, which is 18.11 %.
    #[test]
    fn the_first_sample_of_a_full_stall() {
        let mut group = memory(1);
        group.set(0, 0, TaskCounts::of(&[WAITS]));
        assert_eq!(group.read(PERIOD_NS).hundredths(Line::Some), [1811, 327, 68]);
    }

    #[test]
    fn missed_periods_decay() {
        let mut group = memory(1);
        group.set(0, 0, TaskCounts::of(&[WAITS]));
        let first = group.read(PERIOD_NS).hundredths(Line::Some)[0];
        group.set(PERIOD_NS, 0, TaskCounts::default());
        let later = group.read(31 * PERIOD_NS).hundredths(Line::Some)[0];
        assert!(first > 1_800 && later < 5, "{first} then {later}");
    }

    /// Reclaimers burn CPU, and the kernel does not take that for progress.
    #[test]
    fn a_reclaimer_on_the_cpu_is_a_full_stall() {
        let counts = TaskCounts {
            memory_stalled: 1,
            runnable: 2,
            runnable_stalled: 1,
            on_cpu: true,
            on_cpu_stalled: true,
            ..TaskCounts::default()
        };
        assert!(counts.holds(Resource::Memory, Line::Full));
        let other_on_cpu = TaskCounts { on_cpu_stalled: false, ..counts };
        assert!(!other_on_cpu.holds(Resource::Memory, Line::Full));
        assert!(other_on_cpu.holds(Resource::Memory, Line::Some));
    }

    proptest! {
        /// On one CPU, read once, the kernel's total is the definition's, to the microsecond.
        #[test]
        fn agrees_with_the_definition_on_one_cpu(
            schedule in prop::collection::vec((0..4u8, 1..50_000_000u64), 1..40)
        ) {
            let tasks = |state| match state {
                0 => [Task::Productive, Task::Idle],
                1 => [WAITS, Task::Productive],
                2 => [WAITS, WAITS],
                _ => [WAITS, Task::Idle],
            };
            let (mut group, mut potential) = (memory(1), Potential::new(1, Resource::Memory));
            let mut now = 0;
            for &(state, duration) in &schedule {
                group.set(now, 0, TaskCounts::of(&tasks(state)));
                potential.pass(&tasks(state), duration);
                now += duration;
            }
            prop_assume!(now >= JIFFY_NS);
            let (shown, exact) = (group.read(now), potential.pressure());
            for (line, share) in [(Line::Some, exact.some), (Line::Full, exact.full)] {
                let expected = share * now as f64 / 1000.0;
                prop_assert!((shown.total_us(line) as f64 - expected).abs() <= 1.0);
            }
        }
    }
}
