//! Linux's compaction around a placement: for requests that may wait, by kcompactd when it was
//! asked, and when memory is too fragmented.
//!
//! A server of a fleet has no clock finer than its steps. A wake-up of the placement's upkeep
//! stands for one of the daemon; it comes every thousand operations, some seconds apart.

use prairie_frames::compaction::kcompactd::Kcompactd;
use prairie_frames::compaction::score::{Proactive, node_score};
use prairie_frames::compaction::{
    COSTLY, Compactable, Compactor, Cost, Direct, Outcome, Plain, Priority,
};
use prairie_frames::indices::FreeBlocks;
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::zonelist::Depth;
use prairie_frames::placement::{Counter, Placement, Request, forward, gfp};
use prairie_frames::table::Owner;
use prairie_frames::{Frame, FrameTable, Layout, Order, ZoneKind};

/// Times in a row that a request in defrag mode is sent back to reclaim. Half as often as a server
/// of a fleet asks again, so that none fails for it.
const REFUSALS: u32 = 8;

/// A placement with compaction. If it has no memory for a request that may wait, the caller is to
/// reclaim some and ask again.
#[derive(Clone, Debug)]
pub struct Compacting<P> {
    placement: P,
    layout: Layout,
    compactor: Compactor,
    asked: Kcompactd,
    proactive: Proactive,
    /// Looks at the score that are skipped yet.
    skipped: u64,
    /// Whether requests would rather have memory compacted than break up foreign pageblocks
    /// (`vm.defrag_mode`).
    defrag_mode: bool,
    /// How often in a row a request in defrag mode is sent back to reclaim.
    refusals: u32,
    /// Requests in a row that were sent back to reclaim.
    refused: u32,
    moved: u64,
    scanned: u64,
    stalls: u64,
}

impl<P: Compactable> Compacting<P> {
    /// Compaction around `placement`, which was made for `layout`.
    pub fn new(layout: &Layout, placement: P, defrag_mode: bool) -> Compacting<P> {
        let mut compactor = Compactor::new(layout);
        compactor.in_blocks = defrag_mode;
        Compacting {
            placement,
            layout: layout.clone(),
            compactor,
            asked: Kcompactd::new(ZoneKind::Movable),
            proactive: Proactive::default(),
            skipped: 0,
            defrag_mode,
            refusals: REFUSALS,
            refused: 0,
            moved: 0,
            scanned: 0,
            stalls: 0,
        }
    }

    /// The same in a world without reclaim: no request is sent back to it.
    pub fn without_reclaim(self) -> Compacting<P> {
        Compacting { refusals: 0, ..self }
    }

    /// The inner placement.
    pub fn placement(&self) -> &P {
        &self.placement
    }

    /// The same, to be changed.
    pub fn placement_mut(&mut self) -> &mut P {
        &mut self.placement
    }

    fn pay(&mut self, cost: Cost) {
        self.moved += cost.moved;
        self.scanned += cost.migrate_scanned + cost.free_scanned;
    }

    /// Compacts for a request that found nothing and may wait (`__alloc_pages_direct_compact`), in
    /// defrag mode for a whole pageblock that could be its own.
    fn compact_for(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        let order = if self.defrag_mode { request.order.max(Order::HUGE) } else { request.order };
        if order == Order::BASE {
            return None;
        }
        let costly = request.order > COSTLY;
        let priority = if costly { Priority::Async } else { Priority::SyncLight };
        let (migrate_type, highest_zone) = (request.migrate_type, request.highest_zone);
        let direct = Direct { order, migrate_type, highest_zone, priority };
        let zones = self.layout.zonelist(request.node, highest_zone);
        let (outcome, cost) =
            self.compactor.direct(table, &mut self.placement, &mut Plain, &zones, direct);
        self.pay(cost);
        if matches!(outcome, Outcome::Skipped | Outcome::Deferred) {
            return None;
        }
        self.stalls += 1;
        let frame = self.placement.attempt(table, request, owner, Depth::Min)?;
        let zone = self.placement.zone_at(frame).or_else(|| self.layout.zone_of(frame));
        if let Some(zone) = zone {
            self.compactor.hints_mut(zone).deferral.reset(order, true);
        }
        Some(frame)
    }

    /// In defrag mode, whether a request that may wait should reclaim and ask again before it breaks
    /// up a foreign pageblock: some times in a row.
    fn should_reclaim_first(&mut self) -> bool {
        let refuses = self.defrag_mode && self.refused < self.refusals;
        self.refused = if refuses { self.refused + 1 } else { 0 };
        refuses
    }

    fn score(&self) -> u32 {
        let zones = 0..self.layout.zones().len();
        let counts: Vec<_> = zones
            .map(|at| (self.placement.movable_counts(at), self.placement.zone(at).span.managed))
            .collect();
        node_score(counts.iter().map(|(counts, present)| (FreeBlocks { counts }, *present)))
    }

    /// The request to kcompactd (`kcompactd_do_work`).
    fn kcompactd(&mut self, table: &mut FrameTable) {
        let Some((order, highest)) = self.asked.work() else { return };
        let zones = 0..self.layout.zones().len();
        let (outcomes, cost) =
            self.compactor.kcompactd(table, &mut self.placement, &mut Plain, zones, order);
        self.pay(cost);
        let failed = |outcome| matches!(outcome, Outcome::Complete | Outcome::PartialSkipped);
        if outcomes.iter().any(|&(_, outcome)| failed(outcome)) {
            self.placement.drain(table);
        }
        self.asked.done(order, highest);
    }

    /// A check of the score (`proactive_compact_node`). Without progress the next 63 are skipped.
    fn proactive(&mut self, table: &mut FrameTable) {
        if self.skipped > 0 {
            self.skipped -= 1;
            return;
        }
        let before = self.score();
        let runs = self.proactive.should_compact(before, false);
        if runs {
            let (zones, until) = (0..self.layout.zones().len(), Some(self.proactive.low_score()));
            let cost = self.compactor.whole(table, &mut self.placement, &mut Plain, zones, until);
            self.pay(cost);
        }
        self.proactive.finished(runs.then(|| (before, self.score())));
        let usual = Proactive::default().sleep_ms().expect("eager by default");
        self.skipped = self.proactive.sleep_ms().map_or(0, |ms| ms / usual - 1);
    }
}

impl<P: Compactable> Placement for Compacting<P> {
    forward! {
        self => self.placement;
        mark_pageblock, seed, start, allocate_listed, free, free_singles, observe, pin_block,
        unpin_block, free_for, free_blocks, pageblocks, free_frames, cached_frames, validate,
    }

    fn allocate(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        if let Some(frame) = self.placement.attempt(table, request, owner, Depth::Low) {
            return Some(frame);
        }
        if request.gfp_flags & gfp::KSWAPD_RECLAIM != 0 {
            let least = if self.defrag_mode { Order::HUGE } else { Order::BASE };
            self.asked.ask(request.order.max(least), ZoneKind::Movable);
        }
        if request.gfp_flags & gfp::DIRECT_RECLAIM == 0 {
            // The placement itself handles requests that cannot wait.
            self.refused = 0;
            return self.placement.allocate(table, request, owner);
        }
        if let Some(frame) = self.placement.attempt(table, request, owner, Depth::Min) {
            return Some(frame);
        }
        if let Some(frame) = self.compact_for(table, request, owner) {
            return Some(frame);
        }
        if self.should_reclaim_first() {
            return None;
        }
        self.placement.allocate(table, request, owner)
    }

    fn maintain(&mut self, table: &mut FrameTable) {
        self.placement.maintain(table);
        self.kcompactd(table);
        self.proactive(table);
        // kswapd has gone to sleep since: stale skip bits are forgotten.
        for zone in 0..self.layout.zones().len() {
            let placement = &mut self.placement;
            let memory =
                prairie_frames::compaction::Memory { table, placement, pages: &mut Plain, zone };
            self.compactor.hints_mut(zone).forget_skips(&memory);
        }
    }

    /// When the boost has been reclaimed, kcompactd is woken for a pageblock.
    fn take_boost(&mut self) -> u64 {
        let mut boost = 0;
        for zone in 0..self.layout.zones().len() {
            boost += self.placement.boost(zone);
            self.placement.end_boost(zone);
        }
        if boost > 0 {
            self.asked.ask(Order::HUGE, ZoneKind::Movable);
        }
        boost
    }

    fn counters(&self) -> Vec<Counter> {
        let counter = |name, meaning, value| Counter { name, meaning, value };
        let mut counters = self.placement.counters();
        counters.extend([
            counter("pages_moved", "pages that compaction moved", self.moved),
            counter("pages_scanned", "pages that compaction looked at", self.scanned),
            counter("compact_stalls", "requests that waited for compaction", self.stalls),
        ]);
        counters
    }
}

impl<P: Compactable + 'static> Stepwise for Compacting<P> {
    forward! {
        self => self.placement;
        attempt, free_counts, movable_counts, watermark_ok, drain, may_mix, take_block,
        give_block, give_up, is_spared, zone_at, pageblock_type, boost, end_boost,
        set_reclaim_active,
    }
}
