//! Pressure stall information: the share of time that tasks lost for lack of a resource.
//!
//! Two answers to the same question stand side by side. [`Potential`] is the definition (TMO,
//! section 3.2): exact, over any schedule. [`kernel`] is Linux's arithmetic, which approximates it
//! with integers and has blind spots that a controller must know of.

pub mod kernel;

/// A resource that tasks wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// A CPU: runnable, and none is free.
    Cpu,
    /// Memory: reclaiming, or waiting for a page that was taken away.
    Memory,
    /// Block input and output of any kind.
    Io,
}

/// The state of a task at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Sleeping voluntarily: not counted.
    Idle,
    /// On a CPU and getting on with its work.
    Productive,
    /// Held up for lack of a resource.
    Stalled(Resource),
}

/// Lost time as a share, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pressure {
    /// How much of what could have been computed was delayed: the latency added to some task.
    pub some: f64,
    /// How much of it was lost altogether: no task made progress.
    pub full: f64,
}

/// Pressure at an instant, from what each task is doing, on a machine or container with this many
/// CPUs.
///
/// No more tasks can be productive at once than there are CPUs, nor than there are tasks that
/// want to: this number is the *compute potential*. `some` is the share of it that is delayed,
/// `full` the share that is not used productively (TMO, section 3.2.1; the definition in words of
/// `kernel/sched/psi.c`).
pub fn pressure_now(tasks: &[Task], cpus: u32, resource: Resource) -> Pressure {
    let count = |wanted: &dyn Fn(Task) -> bool| tasks.iter().filter(|task| wanted(**task)).count();
    let active = count(&|task| task != Task::Idle);
    let potential = active.min(cpus as usize) as f64;
    if potential == 0.0 {
        return Pressure::default();
    }
    let delayed = count(&|task| task == Task::Stalled(resource)) as f64;
    // A task that waits for something else is not stalled by this resource.
    let elsewhere = active as f64 - delayed;
    Pressure {
        some: (delayed / potential).min(1.0),
        full: (potential - elsewhere.min(potential)) / potential,
    }
}

/// Pressure over a stretch of time: the mean of what it was at each instant.
#[derive(Clone, Debug)]
pub struct Potential {
    cpus: u32,
    resource: Resource,
    some_ns: f64,
    full_ns: f64,
    elapsed_ns: u64,
}

impl Potential {
    /// Nothing seen yet.
    pub fn new(cpus: u32, resource: Resource) -> Potential {
        Potential { cpus, resource, some_ns: 0.0, full_ns: 0.0, elapsed_ns: 0 }
    }

    /// Lets the tasks do the same for `duration_ns`.
    pub fn pass(&mut self, tasks: &[Task], duration_ns: u64) {
        let now = pressure_now(tasks, self.cpus, self.resource);
        self.some_ns += now.some * duration_ns as f64;
        self.full_ns += now.full * duration_ns as f64;
        self.elapsed_ns += duration_ns;
    }

    /// The pressure of all the time that passed.
    pub fn pressure(&self) -> Pressure {
        let elapsed = self.elapsed_ns.max(1) as f64;
        Pressure { some: self.some_ns / elapsed, full: self.full_ns / elapsed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STALLED: Task = Task::Stalled(Resource::Memory);
    const RUNS: Task = Task::Productive;

    fn over(cpus: u32, schedule: &[(&[Task], u64)]) -> Pressure {
        let mut potential = Potential::new(cpus, Resource::Memory);
        for (tasks, duration) in schedule {
            potential.pass(tasks, *duration);
        }
        potential.pressure()
    }

    /// TMO, Figure 7, whose unit is a sixteenth of the whole time, 6.25 %: in the first quarter A
    /// and B stall one after the other, 12.5 % of the time in all.
    #[test]
    fn figure_7_first_quarter() {
        let quarter: [(&[Task], u64); 4] =
            [(&[STALLED, RUNS], 1), (&[RUNS, RUNS], 1), (&[RUNS, STALLED], 1), (&[RUNS, RUNS], 13)];
        let Pressure { some, full } = over(1, &quarter);
        assert_eq!((some, full), (0.125, 0.0));
    }

    /// In the second quarter both tasks stall at once for 6.25 % of the time, and at least one for
    /// 18.75 %.
    #[test]
    fn figure_7_second_quarter() {
        let quarter: [(&[Task], u64); 4] = [
            (&[STALLED, RUNS], 1),
            (&[STALLED, STALLED], 1),
            (&[RUNS, STALLED], 1),
            (&[RUNS, RUNS], 13),
        ];
        let Pressure { some, full } = over(1, &quarter);
        assert_eq!((some, full), (0.1875, 0.0625));
    }

    /// On more CPUs than one, a task that is held up costs its share of what could be computed:
    /// the two examples with which `kernel/sched/psi.c` explains the potential, 256 tasks on 257
    /// CPUs and 257 on 256.
    #[test]
    fn the_potential_is_bounded_by_tasks_and_by_cpus() {
        let tasks = |all, stalled| {
            let mut tasks = vec![RUNS; all];
            tasks[..stalled].fill(STALLED);
            tasks
        };
        let now = |all, stalled, cpus| pressure_now(&tasks(all, stalled), cpus, Resource::Memory);
        assert_eq!(now(256, 1, 257), Pressure { some: 1.0 / 256.0, full: 1.0 / 256.0 });
        assert_eq!(now(257, 1, 256), Pressure { some: 1.0 / 256.0, full: 0.0 });
        assert_eq!(now(2, 2, 8), Pressure { some: 1.0, full: 1.0 });
        assert_eq!(now(8, 4, 2), Pressure { some: 1.0, full: 0.0 });
    }

    #[test]
    fn nobody_there_is_no_pressure() {
        assert_eq!(pressure_now(&[], 4, Resource::Io), Pressure::default());
        assert_eq!(pressure_now(&[Task::Idle; 3], 4, Resource::Io), Pressure::default());
    }

    fn task() -> impl Strategy<Value = Task> {
        prop_oneof![Just(Task::Idle), Just(RUNS), Just(STALLED), Just(Task::Stalled(Resource::Io)),]
    }

    proptest! {
        #[test]
        fn full_is_never_more_than_some(
            tasks in prop::collection::vec(task(), 0..12), cpus in 1..6u32
        ) {
            for resource in [Resource::Memory, Resource::Io] {
                let Pressure { some, full } = pressure_now(&tasks, cpus, resource);
                prop_assert!(0.0 <= full && full <= some && some <= 1.0);
                let any = tasks.contains(&Task::Stalled(resource));
                prop_assert_eq!(some > 0.0, any);
            }
        }
    }
}
