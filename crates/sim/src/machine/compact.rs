//! Compaction on a machine that lives: on behalf of requests (`__alloc_pages_direct_compact`), by
//! kcompactd, and without being asked (`vm.compaction_proactiveness`).
//!
//! The algorithm is `prairie_frames::compaction`. This file supplies the state of pages, decides when
//! compaction runs, and counts its costs as the kernel does.

use prairie_frames::compaction::kcompactd::Kcompactd;
use prairie_frames::compaction::score::{Proactive, node_score};
use prairie_frames::compaction::suitable::is_ready;
use prairie_frames::compaction::{self, Compactor, Cost, Direct, Mode, Outcome, Priority};
use prairie_frames::indices::FreeBlocks;
use prairie_frames::placement::zonelist::Depth;
use prairie_frames::placement::{Request, gfp};
use prairie_frames::table::Owner;
use prairie_frames::{Frame, FrameTable, Layout, Order, ZoneKind};

use super::Machine;
use super::clock::{Actor, Next};
use super::compactable::compactable;
use super::page::{Flags, PageId, Pages};
use super::scenario::Scenario;

/// The state of compaction.
pub(super) struct Compaction {
    compactor: Compactor,
    /// By node.
    daemons: Vec<Daemon>,
}

struct Daemon {
    asked: Kcompactd,
    awake: bool,
    proactive: Proactive,
}

/// The interval of the checks of the score (`HPAGE_FRAG_CHECK_INTERVAL_MSEC`).
const INTERVAL_NS: u64 = 500_000_000;

impl Compaction {
    pub(super) fn new(layout: &Layout, scenario: &Scenario, in_blocks: bool) -> Compaction {
        let mut compactor = Compactor::new(layout);
        compactor.extfrag_threshold = scenario.vm.extfrag_threshold;
        compactor.in_blocks = in_blocks;
        let daemon = |_| Daemon {
            asked: Kcompactd::new(ZoneKind::Movable),
            awake: false,
            proactive: Proactive::new(scenario.vm.compaction_proactiveness as u32),
        };
        Compaction { compactor, daemons: (0..scenario.machine.nodes).map(daemon).collect() }
    }

    /// The compactor.
    pub(super) fn compactor(&mut self) -> &mut Compactor {
        &mut self.compactor
    }
}

/// The machine's view of pages that compaction would move.
pub(super) struct Movable<'a> {
    pub(super) pages: &'a Pages,
}

impl compaction::Pages for Movable<'_> {
    /// Pages on an LRU list; pages under writeback only in synchronous mode.
    fn can_isolate(&self, table: &FrameTable, frame: Frame, mode: Mode) -> bool {
        let page = &self.pages[self.pages.of_owner(table.owner(frame))];
        page.is_lru() && (mode == Mode::Sync || !page.flags.has(Flags::WRITEBACK))
    }

    fn copy(&mut self, owner: Owner, _from: Frame, _to: Frame, mode: Mode) -> bool {
        let page = &self.pages[self.pages.of_owner(owner)];
        mode == Mode::Sync || !page.flags.has(Flags::WRITEBACK)
    }
}

impl Machine {
    /// Compacts for a request, and takes the block if there is one then.
    pub(super) fn direct_compact(
        &mut self,
        request: &Request,
        priority: Priority,
    ) -> (Option<PageId>, Outcome) {
        if !self.system.settings.policies.compaction || request.order == Order::BASE {
            return (None, Outcome::Skipped);
        }
        let zonelist = self.memory.layout.zonelist(request.node, request.highest_zone);
        if !self.system.settings.policies.deferral {
            for &zone in &zonelist {
                self.compaction.compactor.hints_mut(zone).deferral = Default::default();
            }
        }
        let direct = Direct {
            order: request.order,
            migrate_type: request.migrate_type,
            highest_zone: request.highest_zone,
            priority,
        };
        let super::memory::Memory { table, placement, pages, .. } = &mut self.memory;
        let compactor = &mut self.compaction.compactor;
        let pages = &mut Movable { pages };
        let ran = compactable!(placement, placement => {
            compactor.direct(table, placement, pages, &zonelist, direct)
        });
        let Some((outcome, cost)) = ran else { return (None, Outcome::Skipped) };
        self.pay(cost);
        self.counters.compact_migrate_scanned += cost.migrate_scanned;
        self.counters.compact_free_scanned += cost.free_scanned;
        if outcome == Outcome::Skipped {
            return (None, outcome);
        }
        self.counters.compact_stall += 1;
        let id = self.memory.take(request, Depth::Min);
        match id {
            Some(id) => {
                self.counters.compact_success += 1;
                let zone = self.memory.zone(id);
                self.compaction.compactor.hints_mut(zone).deferral.reset(request.order, true);
            }
            None => self.counters.compact_fail += 1,
        }
        (id, outcome)
    }

    /// Simulated time and counters of a run.
    pub(super) fn pay(&mut self, cost: Cost) {
        let costs = &self.scenario.costs;
        let scanned = cost.migrate_scanned + cost.free_scanned;
        let moved = cost.moved * (costs.migrate_ns + costs.copy_frame_ns);
        let spent = scanned * costs.scan_frame_ns + moved;
        self.spend(spent);
        self.counters.compact_isolated += cost.isolated;
        self.counters.pgmigrate_success += cost.moved;
        self.counters.pgmigrate_fail += cost.failed;
    }

    /// Asks the daemon of a node for blocks of `order` (`wakeup_kcompactd`).
    pub(super) fn wake_kcompactd(&mut self, node: u16, order: Order) {
        let daemon = &mut self.compaction.daemons[usize::from(node)];
        if !self.system.settings.policies.kcompactd || order == Order::BASE {
            return;
        }
        daemon.asked.ask(order, ZoneKind::Movable);
        if !self.is_worth_waking(node, order) {
            return;
        }
        let daemon = &mut self.compaction.daemons[usize::from(node)];
        if !daemon.awake {
            daemon.awake = true;
            self.clock.wake(self.clock.now_ns(), Actor::Kcompactd(node));
        }
    }

    fn is_worth_waking(&mut self, node: u16, order: Order) -> bool {
        let zones = self.zones_of(node).into_iter();
        let compactor = &self.compaction.compactor;
        let worth = compactable!(&mut self.memory.placement, placement => {
            compactor.is_worth_waking(placement, zones, order)
        });
        worth.unwrap_or(false)
    }

    /// What waits is done; then the daemon sleeps (`kcompactd_do_work`).
    pub(super) fn run_kcompactd(&mut self, node: u16) -> Next {
        let zones = self.zones_of(node);
        let at = usize::from(node);
        self.compaction.daemons[at].awake = false;
        let Some((order, highest)) = self.compaction.daemons[at].asked.work() else {
            return Next::Wait;
        };
        self.counters.compact_daemon_wake += 1;
        let super::memory::Memory { table, placement, pages, .. } = &mut self.memory;
        let compactor = &mut self.compaction.compactor;
        let pages = &mut Movable { pages };
        let ran = compactable!(placement, placement => {
            compactor.kcompactd(table, placement, pages, zones.into_iter(), order)
        });
        if let Some((outcomes, cost)) = ran {
            let failed = |outcome| matches!(outcome, Outcome::Complete | Outcome::PartialSkipped);
            if outcomes.iter().any(|&(_, outcome)| failed(outcome)) {
                self.memory.placement.drain(&mut self.memory.table);
            }
            self.pay_daemon(cost);
        }
        self.compaction.daemons[at].asked.done(order, highest);
        Next::Wait
    }

    fn pay_daemon(&mut self, cost: Cost) {
        self.pay(cost);
        self.counters.compact_daemon_migrate_scanned += cost.migrate_scanned;
        self.counters.compact_daemon_free_scanned += cost.free_scanned;
        self.counters.compact_migrate_scanned += cost.migrate_scanned;
        self.counters.compact_free_scanned += cost.free_scanned;
    }

    /// A node's fragmentation score (`fragmentation_score_node`).
    fn score(&self, node: u16) -> u32 {
        let zones = self.zones_of(node);
        let counts: Vec<_> = zones
            .iter()
            .map(|&zone| {
                let present = self.memory.layout.zones()[zone].span.managed;
                (self.memory.placement.movable_counts(zone), present)
            })
            .collect();
        node_score(counts.iter().map(|(counts, present)| (FreeBlocks { counts }, *present)))
    }

    /// Checks the score, and compacts if it is too high (`kcompactd`'s timeout).
    pub(super) fn run_proactive(&mut self, node: u16) -> Next {
        let now = self.clock.now_ns();
        let at = usize::from(node);
        if !self.system.settings.policies.proactive {
            return Next::Wait;
        }
        let before = self.score(node);
        let busy = self.is_kswapd_awake(node);
        let daemon = &self.compaction.daemons[at];
        let mut run = None;
        if daemon.proactive.should_compact(before, busy) {
            let until = Some(daemon.proactive.low_score());
            let zones = self.zones_of(node);
            let super::memory::Memory { table, placement, pages, .. } = &mut self.memory;
            let compactor = &mut self.compaction.compactor;
            let pages = &mut Movable { pages };
            let cost = compactable!(placement, placement => {
                compactor.whole(table, placement, pages, zones.into_iter(), until)
            });
            if let Some(cost) = cost {
                self.pay_daemon(cost);
            }
            run = Some((before, self.score(node)));
        }
        let daemon = &mut self.compaction.daemons[at];
        daemon.proactive.finished(run);
        match daemon.proactive.sleep_ms() {
            Some(ms) => Next::SleepUntil(now + (ms * 1_000_000).max(INTERVAL_NS)),
            None => Next::Wait,
        }
    }

    /// Whether a request may use compaction at all.
    pub(super) fn may_compact(&self, request: &Request) -> bool {
        self.system.settings.policies.compaction && request.gfp_flags & gfp::DIRECT_RECLAIM != 0
    }

    /// Whether compaction could go to work on some zone of a request with room for others above
    /// the high mark, or need not (`compaction_ready`): reclaim then has done enough for a costly
    /// order.
    pub(super) fn is_ready_to_compact(&mut self, order: Order, highest: ZoneKind) -> bool {
        let threshold = self.scenario.vm.extfrag_threshold;
        let zonelist = self.memory.layout.zonelist(0, highest);
        let ready = compactable!(&mut self.memory.placement, placement => {
            zonelist.into_iter().any(|zone| is_ready(placement, zone, order, highest, threshold))
        });
        ready.unwrap_or(false)
    }

    /// Clears stale skip bits as kswapd of a node goes to sleep (`reset_isolation_suitable`).
    pub(super) fn forget_skips(&mut self, node: u16) {
        for zone in self.zones_of(node) {
            let super::memory::Memory { table, placement, pages, .. } = &mut self.memory;
            let hints = self.compaction.compactor.hints_mut(zone);
            let pages = &mut Movable { pages };
            compactable!(placement, placement => {
                hints.forget_skips(&compaction::Memory { table, placement, pages, zone });
            });
        }
    }
}
