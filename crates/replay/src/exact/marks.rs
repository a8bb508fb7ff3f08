//! What a trace says between the events of pages: snapshots, signs of reclaim, and probes.

use std::collections::HashMap;

use prairie_frames::{Order, Pfn};
use prairie_trace::{Event, EventKind, EventSource};

use super::act::{Action, Edge};
use super::probes::{ListReading, ProbeReading, Probes};
use super::snapshot::Snapshot;
use super::threads::{By, Threads};

/// What stands between the events of pages.
pub enum Mark {
    /// A snapshot, by its place among those given.
    Snapshot(usize, Edge),
    /// A sign of reclaim or compaction.
    Reclaim,
    /// A probe on a CPU; for a block that compaction took, whether no scan did.
    Probe { cpu: u16, told: ProbeReading, searched: bool },
    /// All memory was compacted on request.
    CompactMemory,
    /// Something without a block, on a CPU and in a thread.
    Aside((u16, i32), Action),
    /// A freed block reached its list, on a CPU and in a thread.
    Returned { cpu: u16, thread: i32, block: (Pfn, Order), action: Action },
}

/// Signs of reclaim and compaction among the markers of an imported trace.
const RECLAIM: [&str; 4] = [
    "mm_vmscan_kswapd_wake",
    "mm_vmscan_direct_reclaim_begin",
    "mm_compaction_isolate_freepages",
    "mm_compaction_end",
];

/// All of a trace.
#[derive(Default)]
pub struct Told {
    /// The events of pages.
    pub events: Vec<Event>,
    /// On whose account each of them is.
    pub accounts: Vec<By>,
    /// What stands between them, with the number of events before.
    pub marks: Vec<(usize, Mark)>,
    /// The kernel's numbers of per-CPU lists, which `Action::Decay` refers to.
    pub readings: Vec<(usize, ListReading)>,
    /// The largest number of a CPU.
    pub last_cpu: u16,
}

/// What has begun and is to be reported later.
#[derive(Default)]
struct Open {
    /// By thread: marks of the blocks that compaction took and no scan has reported yet.
    taken: HashMap<i32, Vec<usize>>,
    /// Allocations in bulk, by thread: their mark, and the events before.
    bulks: HashMap<i32, (usize, usize)>,
    /// Marks of all allocations in bulk, with what they asked for.
    asked: Vec<(usize, u32)>,
    /// Whether the return of any is reported.
    answered: bool,
}

impl Told {
    /// Reads all of a trace beside the snapshots that were taken meanwhile.
    ///
    /// # Errors
    /// If reading fails.
    pub fn read(source: &mut dyn EventSource, given: &[Snapshot]) -> prairie_trace::Result<Told> {
        let (mut told, mut open) = (Told::default(), Open::default());
        let (mut probes, mut threads) = (Probes::default(), Threads::default());
        while let Some(batch) = source.next_batch()? {
            let batch = batch.to_vec();
            for event in batch {
                told.last_cpu = told.last_cpu.max(event.cpu);
                let EventKind::Marker { text } = event.what else {
                    told.accounts.push(threads.event(&event));
                    told.events.push(event);
                    continue;
                };
                let text = source.texts().get(text);
                if threads.marker(event.pid, text) {
                    told.mark(Mark::CompactMemory);
                }
                if let Some((snapshot, edge)) = mark_of(text, given) {
                    told.mark(Mark::Snapshot(snapshot, edge));
                    continue;
                }
                if RECLAIM.iter().any(|sign| text.starts_with(sign)) {
                    told.mark(Mark::Reclaim);
                }
                if let Some(reading) = probes.take(event.pid, text) {
                    told.probe(&mut open, (event.cpu, event.pid), reading);
                }
            }
        }
        if !open.answered {
            assume_granted(&mut told.marks, &open.asked);
        }
        Ok(told)
    }

    fn mark(&mut self, mark: Mark) {
        self.marks.push((self.events.len(), mark));
    }

    /// A probe reports, on a CPU and in a thread.
    fn probe(&mut self, open: &mut Open, place: (u16, i32), reading: ProbeReading) {
        let (cpu, thread) = place;
        match reading {
            ProbeReading::Bulk { migrate_type, frames, node } => {
                open.bulks.insert(thread, (self.marks.len(), self.events.len()));
                open.asked.push((self.marks.len(), frames));
                let bulk = Action::Bulk { migrate_type, frames: 0, node, returns: false };
                self.mark(Mark::Aside(place, bulk));
            }
            ProbeReading::Bulked { frames } => {
                if let Some(begun) = open.bulks.remove(&thread) {
                    open.answered = true;
                    self.bulked(begun, place, frames);
                }
            }
            ProbeReading::Decay(lists) => {
                self.mark(Mark::Aside(place, Action::Decay(self.readings.len())));
                self.readings.push((0, lists));
            }
            ProbeReading::Resized(resized) => {
                self.mark(Mark::Aside(place, Action::Resized(resized)));
            }
            ProbeReading::Listed { pfn, order } => {
                let (block, action) = ((pfn, order), Action::Listed);
                self.mark(Mark::Returned { cpu, thread, block, action });
            }
            ProbeReading::PastLists { pfn, order, to_tail } => {
                let (block, action) = ((pfn, order), Action::PastLists { to_tail });
                self.mark(Mark::Returned { cpu, thread, block, action });
            }
            ProbeReading::Scanned { frames } => {
                mark_scanned(&mut self.marks, open.taken.entry(thread).or_default(), frames);
            }
            told => {
                if let ProbeReading::Isolated { .. } = told {
                    open.taken.entry(thread).or_default().push(self.marks.len());
                }
                self.mark(Mark::Probe { cpu, told, searched: true });
            }
        }
    }

    /// An allocation in bulk returns with `frames`, some of which have an event of their own. If other
    /// threads ran on its CPU meanwhile, or an interrupt freed in the thread's name, it may have taken
    /// them only now. So it may if it moved from another CPU: it takes them from the lists of the CPU
    /// that it runs on when it locks them (`pcp_spin_trylock`).
    fn bulked(&mut self, (mark, from): (usize, usize), place: (u16, i32), frames: u32) {
        let meanwhile = &self.events[from..];
        let named = reported_allocations(meanwhile, place.1);
        let own = |event: &Event| {
            let frees =
                matches!(event.what, EventKind::Free { .. } | EventKind::FreeBatched { .. });
            event.pid == place.1 && !frees
        };
        let preempted = meanwhile.iter().any(|event| event.cpu == place.0 && !own(event));
        let Mark::Aside(begun_on, Action::Bulk { migrate_type, frames: taken, node, .. }) =
            &mut self.marks[mark].1
        else {
            return;
        };
        *taken = frames.saturating_sub(named);
        let (migrate_type, frames, node) = (*migrate_type, *taken, *node);
        if preempted || *begun_on != place {
            let bulk = Action::Bulk { migrate_type, frames, node, returns: true };
            self.mark(Mark::Aside(place, bulk));
        }
    }
}

/// A scan that took a number of frames has ended: the last blocks taken were found by it, those
/// before by searches.
fn mark_scanned(marks: &mut [(usize, Mark)], taken: &mut Vec<usize>, mut frames: u64) {
    for at in taken.drain(..).rev() {
        if let (_, Mark::Probe { told: ProbeReading::Isolated { order, .. }, searched, .. }) =
            &mut marks[at]
        {
            *searched = frames < order.frames();
            frames = frames.saturating_sub(order.frames());
        }
    }
}

/// Without probes of their results, assumes that bulk allocations got the number that they
/// requested. A single frame has an event.
fn assume_granted(marks: &mut [(usize, Mark)], asked: &[(usize, u32)]) {
    for &(mark, frames) in asked {
        if let (_, Mark::Aside(_, Action::Bulk { frames: taken, node: Some(_), .. })) =
            &mut marks[mark]
        {
            *taken = if frames > 1 { frames } else { 0 };
        }
    }
}

/// Single frames that a thread was given with an event.
fn reported_allocations(events: &[Event], pid: i32) -> u32 {
    let told = |event: &&Event| {
        event.pid == pid
            && matches!(event.what, EventKind::Alloc { order, .. } if order == Order::BASE)
    };
    events.iter().filter(told).count() as u32
}

/// `snapshot NAME begin` or `snapshot NAME end`.
fn mark_of(text: &str, given: &[Snapshot]) -> Option<(usize, Edge)> {
    let mut words = text.split_whitespace();
    if words.next() != Some("snapshot") {
        return None;
    }
    let name = words.next()?;
    let edge = match words.next()? {
        "begin" => Edge::Begin,
        "end" => Edge::End,
        _ => return None,
    };
    Some((given.iter().position(|snapshot| snapshot.name == name)?, edge))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_frames::MigrateType;

    /// Marks of an allocation in bulk of thread 7 that returns on a CPU after it began on CPU 0, by the
    /// event that came meanwhile.
    fn returns_after(cpu: u16, pid: i32, what: EventKind) -> usize {
        let (mut told, mut open) = (Told::default(), Open::default());
        let migrate_type = MigrateType::Unmovable;
        let begins = ProbeReading::Bulk { migrate_type, frames: 4, node: None };
        told.probe(&mut open, (0, 7), begins);
        told.events.push(Event { time_ns: 0, pid, cpu: 0, what });
        let place = (cpu, 7);
        told.probe(&mut open, place, ProbeReading::Bulked { frames: 4 });
        let returns = |(_, mark): &&(usize, Mark)| {
            let Mark::Aside(on, Action::Bulk { returns: true, frames: 4, .. }) = mark else {
                return false;
            };
            *on == place
        };
        told.marks.iter().filter(returns).count()
    }

    #[test]
    fn an_interrupt_can_free_before_an_allocation_in_bulk_takes_its_frames() {
        let (pfn, order) = (Pfn(1), Order::BASE);
        let locked = EventKind::ZoneLocked { pfn, order, migrate_type: MigrateType::Unmovable };
        let free = EventKind::Free { pfn, order };
        assert_eq!([returns_after(0, 7, locked), returns_after(0, 8, locked)], [0, 1]);
        assert_eq!(returns_after(0, 7, free), 1);
    }

    #[test]
    fn a_thread_can_move_to_another_cpu_before_it_takes_frames_in_bulk() {
        let (pfn, order) = (Pfn(1), Order::BASE);
        assert_eq!(returns_after(1, 8, EventKind::Free { pfn, order }), 1);
    }
}
