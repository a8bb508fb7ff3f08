//! The work of a placement off the allocation path: Contiguitas moves its border by the pressure
//! that the machine feels, superpageblocks are cleaned, FreeBSD's compactd compacts.

use prairie_frames::Mobility;
use prairie_frames::compaction::two_finger::compactd::Compactd;
use prairie_frames::placement::regions::{Decision, Region};

use super::Machine;
use super::clock::Next;
use super::compact::Movable;
use prairie_model::allocator::MachinePlacement;

/// The interval of upkeep of the border and the gigabytes.
const TICK_NS: u64 = 100_000_000;
/// Pressure is averaged over ten seconds, as PSI does (`avg10`): what of an average one tick leaves,
/// exp(-0.1 / 10).
const DECAY: f64 = 0.990_05;

/// Time lost to reclaim and compaction, by the region that a request wanted memory of.
#[derive(Clone, Debug)]
pub(super) struct Upkeep {
    /// Since the last look.
    stalled_ns: [u64; 2],
    /// Shares of time, by node.
    pressure: Vec<[f64; 2]>,
    /// Frames moved by then.
    moved: u64,
    /// Decisions about the border with their times, if recorded.
    decisions: Option<Vec<(u64, Decision)>>,
}

impl Upkeep {
    pub(super) fn new(nodes: u16) -> Upkeep {
        Upkeep {
            stalled_ns: [0; 2],
            pressure: vec![[0.0; 2]; usize::from(nodes)],
            moved: 0,
            decisions: None,
        }
    }
}

impl Upkeep {
    /// Time lost since the last look, of all requests.
    pub(super) fn stalled_ns(&self) -> u64 {
        self.stalled_ns.iter().sum()
    }
}

impl Machine {
    /// Records decisions about the border from now on, for [`Machine::decisions`].
    pub fn note_decisions(&mut self) {
        if let MachinePlacement::Regions(regions) = &mut self.memory.placement {
            regions.note_decisions();
            self.upkeep.decisions.get_or_insert_default();
        }
    }

    /// The resizer's inputs and decisions since [`Machine::note_decisions`], with nanoseconds since
    /// boot.
    pub fn decisions(&self) -> &[(u64, Decision)] {
        self.upkeep.decisions.as_deref().unwrap_or_default()
    }

    /// Takes note that a request waited for memory (`psi_memstall_enter`), by its region.
    pub(super) fn note_stall(&mut self, mobility: Mobility, ns: u64) {
        self.upkeep.stalled_ns[Region::of(mobility) as usize] += ns;
    }

    /// One round.
    pub(super) fn run_upkeep(&mut self, node: u16) -> Next {
        let now = self.clock.now_ns();
        match &self.memory.placement {
            MachinePlacement::FreeBsd(_) => self.run_compactd(node),
            MachinePlacement::Regions(_) => {
                self.report_pressure(node);
                self.maintain_placement(node);
                Next::SleepUntil(now + TICK_NS)
            }
            MachinePlacement::Superpageblocks(_) => {
                self.maintain_placement(node);
                Next::SleepUntil(now + TICK_NS)
            }
            MachinePlacement::Linux(_) | MachinePlacement::Other(_) => Next::Wait,
        }
    }

    /// Tells the border's owner what share of the time tasks lost for either kind of memory. A
    /// machine of several nodes tells all of them the same.
    fn report_pressure(&mut self, node: u16) {
        let average = &mut self.upkeep.pressure[usize::from(node)];
        for (average, stalled) in average.iter_mut().zip(self.upkeep.stalled_ns) {
            let share = (stalled as f64 / TICK_NS as f64).min(1.0);
            *average = *average * DECAY + share * (1.0 - DECAY);
        }
        let thousandths = average.map(|share| (share * 1000.0).round() as u32);
        if let MachinePlacement::Regions(regions) = &mut self.memory.placement {
            regions.report_pressure(node, thousandths);
        }
    }

    /// The placement's own upkeep, for all nodes at once; what it moves costs what migration does.
    fn maintain_placement(&mut self, node: u16) {
        if node + 1 < self.scenario.machine.nodes {
            return;
        }
        self.upkeep.stalled_ns = [0; 2];
        self.memory.placement.maintain(&mut self.memory.table);
        if let MachinePlacement::Regions(regions) = &mut self.memory.placement
            && let Some(told) = &mut self.upkeep.decisions
        {
            let now = self.clock.now_ns();
            told.extend(regions.take_decisions().into_iter().map(|decision| (now, decision)));
        }
        let counters = self.memory.placement.counters();
        let moved: u64 = counters.iter().filter(|c| c.name == "pages_moved").map(|c| c.value).sum();
        let more = moved - std::mem::replace(&mut self.upkeep.moved, moved);
        let costs = &self.scenario.costs;
        self.slice.spent_ns += more * (costs.migrate_ns + costs.copy_frame_ns);
        self.counters.pgmigrate_success += more;
    }

    /// FreeBSD's daemon of one domain, which says itself how long it rests.
    fn run_compactd(&mut self, node: u16) -> Next {
        let super::memory::Memory { table, placement, pages, .. } = &mut self.memory;
        let MachinePlacement::FreeBsd(freebsd) = placement else { return Next::Wait };
        let pages = &mut Movable { pages };
        let Some(ran) = freebsd.compactd(table, pages, node, &Compactd::default()) else {
            return Next::Wait;
        };
        self.pay(ran.cost);
        let rest_ns = ran.rest_ms * 1_000_000;
        Next::SleepUntil(self.clock.now_ns() + self.slice.spent_ns + rest_ns)
    }
}
