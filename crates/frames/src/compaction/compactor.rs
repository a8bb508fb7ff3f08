//! All zones of a machine: compaction for a request, by the daemon, and without being asked.

use alloc::vec::Vec;

use super::hints::Hints;
use super::suitable::{EXTFRAG_THRESHOLD, Suitable, suitable, suitable_in_blocks};
use super::{Compactable, Control, Cost, Memory, Mode, Outcome, Pages, compact_zone};
use crate::layout::Layout;
use crate::table::FrameTable;
use crate::{MigrateType, Order, ZoneKind};

/// How hard a request has compaction try (`enum compact_priority`), hardest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// The whole zone, skip bits and deferral ignored (`COMPACT_PRIO_SYNC_FULL`).
    SyncFull,
    /// May wait (`COMPACT_PRIO_SYNC_LIGHT`).
    SyncLight,
    /// Never waits (`COMPACT_PRIO_ASYNC`).
    Async,
}

/// A request that waits for compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direct {
    /// The block wanted.
    pub order: Order,
    /// Its type.
    pub migrate_type: MigrateType,
    /// The highest zone that will do.
    pub highest_zone: ZoneKind,
    /// How hard to try.
    pub priority: Priority,
}

/// What all zones of a machine remember of compaction.
#[derive(Clone, Debug)]
pub struct Compactor {
    hints: Vec<Hints>,
    /// The fragmentation index up to which a failure counts as lack of memory.
    pub extfrag_threshold: i64,
    /// Whether kcompactd works until the high watermark is met in whole pageblocks
    /// (`vm.defrag_mode`, 6.15).
    pub in_blocks: bool,
}

impl Compactor {
    /// A machine where nothing was compacted yet.
    pub fn new(layout: &Layout) -> Compactor {
        let hints = layout.zones().iter().map(Hints::new).collect();
        Compactor { hints, extfrag_threshold: EXTFRAG_THRESHOLD, in_blocks: false }
    }

    /// The state of a zone.
    pub fn hints(&self, zone: usize) -> &Hints {
        &self.hints[zone]
    }

    /// The same, to be changed: an allocation that succeeds resets the deferral.
    pub fn hints_mut(&mut self, zone: usize) -> &mut Hints {
        &mut self.hints[zone]
    }

    /// Compacts the zones of a request, best first, until one has a block
    /// (`try_to_compact_pages`).
    pub fn direct<P: Compactable, S: Pages>(
        &mut self,
        table: &mut FrameTable,
        placement: &mut P,
        pages: &mut S,
        zonelist: &[usize],
        request: Direct,
    ) -> (Outcome, Cost) {
        if !placement.compacts_for(request.migrate_type) {
            return (Outcome::Skipped, Cost::default());
        }
        let full = request.priority == Priority::SyncFull;
        let patient = request.priority != Priority::Async;
        let control = Control {
            order: Some(request.order),
            migrate_type: request.migrate_type,
            highest_zone: request.highest_zone,
            mode: if patient { Mode::SyncLight } else { Mode::Async },
            direct: true,
            whole_zone: full,
            ignore_skip_hint: full,
            ignore_block_type: full,
            until_blocks: None,
            until_score: None,
            extfrag_threshold: self.extfrag_threshold,
        };
        let (mut best, mut cost) = (Outcome::Skipped, Cost::default());
        for &zone in zonelist {
            let hints = &mut self.hints[zone];
            if !full && hints.deferral.is_deferred(request.order) {
                best = best.max(Outcome::Deferred);
                continue;
            }
            let mut memory = Memory { table, placement, pages, zone };
            let (outcome, spent) = compact_zone(&mut memory, hints, &control);
            cost += spent;
            best = best.max(outcome);
            match outcome {
                Outcome::Success => {
                    hints.deferral.reset(request.order, false);
                    break;
                }
                Outcome::Complete | Outcome::PartialSkipped if patient => {
                    hints.deferral.defer(request.order);
                }
                _ => {}
            }
        }
        (best, cost)
    }

    /// Whether kcompactd would compact some zone for blocks of `order`: otherwise it is not woken
    /// (`kcompactd_node_suitable`).
    pub fn is_worth_waking(
        &self,
        placement: &impl Compactable,
        mut zones: impl Iterator<Item = usize>,
        order: Order,
    ) -> bool {
        zones.any(|zone| self.kcompactd_verdict(placement, zone, order) == Suitable::Compact)
    }

    fn kcompactd_verdict(
        &self,
        placement: &impl Compactable,
        zone: usize,
        order: Order,
    ) -> Suitable {
        let (highest, threshold) = (placement.zone(zone).span.kind, self.extfrag_threshold);
        if !self.in_blocks {
            return suitable(placement, zone, order, highest, threshold);
        }
        let wanted = wanted_in_blocks(placement, zone, order);
        suitable_in_blocks(placement, zone, order, highest, threshold, wanted)
    }

    /// Compacts the zones of a node, lowest first, for blocks of `order` (`kcompactd_do_work`).
    /// Returns the result of each zone that was tried.
    pub fn kcompactd<P: Compactable, S: Pages>(
        &mut self,
        table: &mut FrameTable,
        placement: &mut P,
        pages: &mut S,
        zones: impl Iterator<Item = usize>,
        order: Order,
    ) -> (Vec<(usize, Outcome)>, Cost) {
        let (mut outcomes, mut cost) = (Vec::new(), Cost::default());
        for zone in zones {
            if self.hints[zone].deferral.is_deferred(order)
                || self.kcompactd_verdict(placement, zone, order) != Suitable::Compact
            {
                continue;
            }
            let until_blocks = self.in_blocks.then(|| wanted_in_blocks(placement, zone, order));
            let highest_zone = placement.zone(zone).span.kind;
            let hints = &mut self.hints[zone];
            let control = Control {
                order: Some(order),
                highest_zone,
                mode: Mode::SyncLight,
                whole_zone: false,
                ignore_skip_hint: false,
                until_blocks,
                extfrag_threshold: self.extfrag_threshold,
                ..Control::default()
            };
            let mut memory = Memory { table, placement, pages, zone };
            let (outcome, spent) = compact_zone(&mut memory, hints, &control);
            cost += spent;
            outcomes.push((zone, outcome));
            match outcome {
                Outcome::Success => hints.deferral.reset(order, false),
                Outcome::Complete | Outcome::PartialSkipped => hints.deferral.defer(order),
                _ => {}
            }
        }
        (outcomes, cost)
    }

    /// Compacts whole zones, each until its score is no more than `until_score`, or as far as it
    /// goes (`proactive_compact_node`, `compact_node`).
    pub fn whole<P: Compactable, S: Pages>(
        &mut self,
        table: &mut FrameTable,
        placement: &mut P,
        pages: &mut S,
        zones: impl Iterator<Item = usize>,
        until_score: Option<u32>,
    ) -> Cost {
        let mode = if until_score.is_some() { Mode::SyncLight } else { Mode::Sync };
        let control = Control { until_score, mode, ..Control::default() };
        let mut cost = Cost::default();
        for zone in zones {
            let mut memory = Memory { table, placement, pages, zone };
            cost += compact_zone(&mut memory, &mut self.hints[zone], &control).1;
        }
        cost
    }
}

/// Frames that kcompactd wants free in whole pageblocks, in defrag mode.
fn wanted_in_blocks(placement: &impl Compactable, zone: usize, order: Order) -> u64 {
    let high = placement.zone(zone).span.watermarks.high;
    high + placement.boost(zone) + order.frames() - 1
}
