//! What is known of all stalls of a machine.

use std::collections::{BTreeMap, HashMap};

use prairie_frames::Order;

use super::{Cause, Matcher, Mismatches, Stall, Tally};
use crate::{Event, EventKind, StackId, Texts};

/// The number of stalls that [`Stalls::worst`] keeps.
const WORST: usize = 32;

/// The name of processes that are not known by name.
const UNNAMED: &str = "unknown";

/// Names and cgroups that are kept apart: an exporter watches for months.
const MAX_NAMES: usize = 4096;

/// The name of all others.
const OTHERS: &str = "others";

/// The kernel thread that turns small pages into huge ones.
const KHUGEPAGED: &str = "khugepaged";

/// All stalls so far: distributions by cause, order, process and cgroup, and the longest.
///
/// Processes of equal names count as one, and their number is kept: a build starts thousands.
#[derive(Clone, Debug, Default)]
pub struct Stalls {
    matcher: Matcher,
    by_cause_and_order: BTreeMap<(Cause, Order), Tally>,
    by_process: BTreeMap<String, ProcessStalls>,
    by_cgroup: BTreeMap<String, Tally>,
    /// The longest and the names of their processes, longest first.
    worst: Vec<(Stall, String)>,
    processes: HashMap<i32, Process>,
    stacks: HashMap<StackId, String>,
    huge_pages: HugePages,
    lost: u64,
    first_ns: Option<u64>,
    last_ns: u64,
}

/// The stalls of all processes of one name.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ProcessStalls {
    /// All of them, background work included.
    pub all: Tally,
    /// Nanoseconds by cause ([`Cause::ALL`]).
    pub ns_by_cause: [u64; Cause::ALL.len()],
    /// Processes that stalled at least once.
    pub processes: u64,
    /// Nanoseconds during which at least one thread of a process stalled, over all processes.
    pub stalled_ns: u64,
    /// Nanoseconds that those processes ran, from their start or the first event to their end or
    /// the last event.
    pub ran_ns: u64,
    /// Allocations of huge pages (order 9 and above) that succeeded and that failed. Only where
    /// the events have them.
    pub huge_pages: HugePages,
}

impl ProcessStalls {
    /// The share of its run time that a process stalled, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.ran_ns == 0 { 0.0 } else { self.stalled_ns as f64 / self.ran_ns as f64 }
    }

    /// Nanoseconds that requests waited, without background work.
    pub fn waited_ns(&self) -> u64 {
        let by_cause = Cause::ALL.iter().zip(self.ns_by_cause);
        by_cause.filter(|(cause, _)| !cause.is_background()).map(|(_, ns)| ns).sum()
    }
}

/// Requests for pages of order 9 and above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct HugePages {
    /// Got one.
    pub allocated: u64,
    /// Got none.
    pub failed: u64,
}

impl HugePages {
    fn add(&mut self, failed: bool) {
        if failed { self.failed += 1 } else { self.allocated += 1 }
    }
}

/// What is known of a running process.
#[derive(Clone, Debug, Default)]
struct Process {
    name: String,
    cgroup: Option<String>,
    /// When it was first heard of.
    began_ns: u64,
    has_stalled: bool,
    /// Threads that stall now, and since when at least one has.
    stalling: u32,
    stalling_since_ns: u64,
    stalled_ns: u64,
    huge_pages: HugePages,
}

impl Stalls {
    /// Takes the next event, in the order of time; `texts` is the table of its texts. Events that
    /// have nothing to do with stalls are passed over.
    pub fn event(&mut self, event: &Event, texts: &Texts) {
        let now_ns = event.time_ns;
        self.last_ns = self.last_ns.max(now_ns);
        let first_ns = *self.first_ns.get_or_insert(now_ns);
        match event.what {
            EventKind::Process { name } => {
                let name = texts.get(name).to_owned();
                let process = self
                    .processes
                    .entry(event.pid)
                    .or_insert_with(|| Process { began_ns: now_ns, ..Process::default() });
                if process.name != name {
                    // `exec`: what it did before counts under its former name.
                    let before = std::mem::replace(
                        process,
                        Process {
                            name,
                            cgroup: process.cgroup.clone(),
                            began_ns: now_ns,
                            ..Process::default()
                        },
                    );
                    self.close(before, now_ns);
                }
            }
            EventKind::Cgroup { path } => {
                let path = texts.get(path).to_owned();
                self.process(event.pid, first_ns).cgroup = Some(path);
            }
            EventKind::Exit => {
                if let Some(process) = self.processes.remove(&event.pid) {
                    self.close(process, now_ns);
                }
            }
            EventKind::Stack { id, folded } => {
                self.stacks.insert(id, texts.get(folded).to_owned());
            }
            EventKind::Alloc { order, .. } if order >= Order::HUGE => {
                self.huge_page(event.pid, first_ns, false);
            }
            EventKind::AllocFailed { order, .. } if order >= Order::HUGE => {
                self.huge_page(event.pid, first_ns, true);
            }
            EventKind::Lost { count } => {
                self.lost += count;
                self.matcher.event(event);
                self.processes.values_mut().for_each(|process| process.stalling = 0);
            }
            EventKind::Stall { task, .. } => {
                let was_stalling = self.matcher.is_stalling(task);
                let ended = self.matcher.event(event);
                let is_stalling = self.matcher.is_stalling(task);
                if was_stalling != is_stalling {
                    self.process(event.pid, first_ns).follow(is_stalling, now_ns);
                }
                if let Some(stall) = ended {
                    self.add(&stall);
                }
            }
            _ => {}
        }
    }

    /// Ends the observation: stalls that go on count up to `now_ns`.
    pub fn finish(&mut self, now_ns: u64) {
        self.last_ns = self.last_ns.max(now_ns);
        self.first_ns.get_or_insert(now_ns);
        for stall in self.matcher.finish(now_ns) {
            self.add(&stall);
        }
        for (_, process) in std::mem::take(&mut self.processes) {
            self.close(process, now_ns);
        }
    }

    /// The observation began at this time; without this, with the first event.
    pub fn begin(&mut self, now_ns: u64) {
        self.first_ns.get_or_insert(now_ns);
        self.last_ns = self.last_ns.max(now_ns);
    }

    /// The observation lasted until this time at least, whether or not anything happened.
    pub fn advance(&mut self, now_ns: u64) {
        self.last_ns = self.last_ns.max(now_ns);
    }

    /// When the observation began.
    pub fn began_ns(&self) -> u64 {
        self.first_ns.unwrap_or(self.last_ns)
    }

    /// Nanoseconds observed.
    pub fn observed_ns(&self) -> u64 {
        self.last_ns.saturating_sub(self.began_ns())
    }

    /// Distributions by cause and order; durations are own time, without stalls nested within.
    pub fn by_cause_and_order(&self) -> &BTreeMap<(Cause, Order), Tally> {
        &self.by_cause_and_order
    }

    /// The distribution of one cause.
    pub fn of_cause(&self, cause: Cause) -> Tally {
        self.together(|&(own, _)| own == cause)
    }

    /// The distribution of all stalls for which `wanted` holds.
    pub fn together(&self, wanted: impl Fn(&(Cause, Order)) -> bool) -> Tally {
        let mut sum = Tally::default();
        for (_, tally) in self.by_cause_and_order.iter().filter(|(key, _)| wanted(key)) {
            sum.add_all(tally);
        }
        sum
    }

    /// Stalls for which a task waited: all but background work.
    pub fn waited(&self) -> Tally {
        self.together(|(cause, _)| !cause.is_background())
    }

    /// By name of process. Run times are known after [`Stalls::finish`].
    pub fn by_process(&self) -> &BTreeMap<String, ProcessStalls> {
        &self.by_process
    }

    /// By cgroup, of processes whose cgroup is known; background work does not count.
    pub fn by_cgroup(&self) -> &BTreeMap<String, Tally> {
        &self.by_cgroup
    }

    /// The longest stalls for which a task waited, longest first, with the name of the process and
    /// the folded call chain, which may be empty.
    pub fn worst(&self) -> impl Iterator<Item = (&Stall, &str, &str)> {
        let stack = |stall: &Stall| self.stacks.get(&stall.stack).map_or("", String::as_str);
        self.worst.iter().map(move |(stall, name)| (stall, name.as_str(), stack(stall)))
    }

    /// Requests for huge pages, where the events have them.
    pub fn huge_pages(&self) -> HugePages {
        self.huge_pages
    }

    /// Lost events.
    pub fn lost_events(&self) -> u64 {
        self.lost
    }

    /// Points without a counterpart.
    pub fn mismatches(&self) -> Mismatches {
        self.matcher.mismatches()
    }

    fn process(&mut self, pid: i32, began_ns: u64) -> &mut Process {
        self.processes.entry(pid).or_insert_with(|| Process {
            name: UNNAMED.to_owned(),
            began_ns,
            ..Process::default()
        })
    }

    fn huge_page(&mut self, pid: i32, first_ns: u64, failed: bool) {
        self.huge_pages.add(failed);
        self.process(pid, first_ns).huge_pages.add(failed);
    }

    fn add(&mut self, stall: &Stall) {
        let own_ns = stall.own_ns();
        let process = self.processes.get_mut(&stall.pid);
        let (name, cgroup) = match process {
            Some(process) => {
                process.has_stalled = true;
                (process.name.clone(), process.cgroup.clone())
            }
            None => (UNNAMED.to_owned(), None),
        };
        let name = bounded(&self.by_process, name);
        let cause = if name == KHUGEPAGED { Cause::Khugepaged } else { stall.cause };
        self.by_cause_and_order.entry((cause, stall.order)).or_default().add(own_ns);
        let of_process = self.by_process.entry(name.clone()).or_default();
        of_process.all.add(own_ns);
        of_process.ns_by_cause[cause as usize] += own_ns;
        if cause.is_background() {
            return;
        }
        if let Some(cgroup) = cgroup {
            let cgroup = bounded(&self.by_cgroup, cgroup);
            self.by_cgroup.entry(cgroup).or_default().add(own_ns);
        }
        let at = self.worst.partition_point(|(other, _)| other.own_ns() >= own_ns);
        if at < WORST {
            self.worst.insert(at, (*stall, name));
            self.worst.truncate(WORST);
        }
    }

    /// A process ended, or took another name.
    fn close(&mut self, mut process: Process, now_ns: u64) {
        if process.stalling > 0 {
            process.stalling = 1;
            process.follow(false, now_ns);
        }
        let asked = process.huge_pages != HugePages::default();
        if !process.has_stalled && !asked {
            return;
        }
        let name = bounded(&self.by_process, process.name);
        let of_name = self.by_process.entry(name).or_default();
        of_name.huge_pages.allocated += process.huge_pages.allocated;
        of_name.huge_pages.failed += process.huge_pages.failed;
        if process.has_stalled {
            of_name.processes += 1;
            of_name.stalled_ns += process.stalled_ns;
            of_name.ran_ns += now_ns.saturating_sub(process.began_ns);
        }
    }
}

/// `name`, or [`OTHERS`] where it is new and the map is full.
fn bounded<T>(map: &BTreeMap<String, T>, name: String) -> String {
    if map.len() < MAX_NAMES || map.contains_key(&name) { name } else { OTHERS.to_owned() }
}

impl Process {
    /// One of its threads began to stall, or ended.
    fn follow(&mut self, begins: bool, now_ns: u64) {
        if begins {
            if self.stalling == 0 {
                self.stalling_since_ns = now_ns;
            }
            self.stalling += 1;
        } else if self.stalling > 0 {
            self.stalling -= 1;
            if self.stalling == 0 {
                self.stalled_ns += now_ns.saturating_sub(self.stalling_since_ns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GfpFlags, StallPoint};

    fn event(time_ns: u64, pid: i32, what: EventKind) -> Event {
        Event { time_ns, pid, cpu: 0, what }
    }

    fn point(time_ns: u64, pid: i32, task: i32, point: StallPoint, order: u8) -> Event {
        let order = Order::new(order).unwrap();
        let (gfp, stack) = (GfpFlags(0), StackId(1));
        event(time_ns, pid, EventKind::Stall { point, task, order, gfp, stack, value: 0 })
    }

    use StallPoint::*;

    #[test]
    fn a_machine_in_small() {
        let mut texts = Texts::default();
        let (web, batch, path) = (texts.intern("web"), texts.intern("batch"), texts.intern("/a"));
        let (khugepaged, folded) = (texts.intern("khugepaged"), texts.intern("main;alloc"));
        let order = Order::HUGE;
        let history = [
            event(0, -1, EventKind::Stack { id: StackId(1), folded }),
            event(0, 7, EventKind::Process { name: web }),
            event(0, 8, EventKind::Process { name: batch }),
            event(0, 9, EventKind::Process { name: khugepaged }),
            event(5, 7, EventKind::Cgroup { path }),
            // Two threads of one process at once: 10 to 40 is stalled, 40 of own time.
            point(10, 7, 70, ReclaimBegin, 0),
            point(20, 7, 71, ReclaimBegin, 3),
            point(30, 7, 70, ReclaimEnd, 0),
            point(40, 7, 71, ReclaimEnd, 0),
            event(
                50,
                8,
                EventKind::AllocFailed {
                    order,
                    migrate_type: prairie_frames::MigrateType::Movable,
                    gfp: GfpFlags(0),
                    stack: StackId::NONE,
                },
            ),
            point(60, 9, 9, CompactRequest, 9),
            point(60, 9, 9, CompactBegin, 0),
            point(90, 9, 9, CompactEnd, 0),
            event(100, 7, EventKind::Exit),
            // The number is used again.
            event(110, 7, EventKind::Process { name: batch }),
            point(120, 7, 7, CompactRequest, 9),
            point(120, 7, 7, CompactBegin, 0),
        ];
        let mut stalls = Stalls::default();
        history.iter().for_each(|event| stalls.event(event, &texts));
        stalls.finish(200);
        assert_eq!(stalls.observed_ns(), 200);
        let waited = stalls.waited();
        assert_eq!((waited.count(), waited.total_ns(), waited.max_ns()), (3, 120, 80));
        let process = |name: &str| &stalls.by_process()[name];
        let web = process("web");
        assert_eq!((web.processes, web.stalled_ns, web.ran_ns), (1, 30, 100));
        assert_eq!((web.waited_ns(), web.share()), (40, 0.3));
        let batch = process("batch");
        assert_eq!((batch.processes, batch.stalled_ns, batch.ran_ns), (1, 80, 90));
        assert_eq!(batch.huge_pages, HugePages { allocated: 0, failed: 1 });
        assert_eq!(process("khugepaged").waited_ns(), 0);
        assert_eq!(stalls.of_cause(Cause::Khugepaged).total_ns(), 30);
        assert_eq!(stalls.by_cgroup()["/a"].total_ns(), 40);
        let (worst, name, stack) = stalls.worst().next().unwrap();
        assert_eq!((worst.pid, worst.cause, name), (7, Cause::HugePage, "batch"));
        assert_eq!(stack, "main;alloc");
        assert_eq!(stalls.mismatches().unfinished, 1);
        let metrics = stalls.metrics();
        assert_eq!(metrics.iter().map(|histogram| histogram.count).sum::<u64>(), 4);
        for histogram in metrics {
            assert!(histogram.buckets.is_sorted() && histogram.buckets[0] == histogram.count);
        }
    }

    #[test]
    fn losses_are_counted_and_end_what_is_open() {
        let texts = Texts::default();
        let mut stalls = Stalls::default();
        stalls.event(&point(10, 7, 7, ReclaimBegin, 0), &texts);
        stalls.event(&event(20, -1, EventKind::Lost { count: 3 }), &texts);
        stalls.event(&point(30, 7, 7, ReclaimEnd, 0), &texts);
        stalls.finish(40);
        assert_eq!((stalls.lost_events(), stalls.waited().count()), (3, 0));
        assert!(stalls.by_process().is_empty());
    }
}
