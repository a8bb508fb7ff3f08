//! Runs of compactd over the domains of a machine.

use alloc::collections::BTreeMap;

use super::FreeBsd;
use crate::compaction::two_finger::compactd::{Compactd, Progress, fmfi};
use crate::compaction::two_finger::index::number;
use crate::compaction::two_finger::{SUPERPAGE, compact_region};
use crate::compaction::{Cost, Pages};
use crate::free_area::ORDERS;
use crate::indices::FreeBlocks;
use crate::table::FrameTable;

/// The result of compactd's check of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactdRun {
    /// The index before, in thousandths.
    pub before: i64,
    /// The index after.
    pub after: i64,
    /// Rounds over the best regions; none if there was nothing to do.
    pub rounds: u32,
    /// Its cost.
    pub cost: Cost,
    /// How long it rests before it looks again, in milliseconds.
    pub rest_ms: u64,
}

impl FreeBsd {
    /// Free blocks of a domain by order, by the kernel's number for the node.
    pub fn domain_counts(&self, node: u16) -> [u64; ORDERS] {
        let of_node = self.lists.iter().filter(|lists| lists.zone.span.node == node);
        of_node.map(|lists| lists.area.counts()).fold([0; ORDERS], |sum, counts| {
            core::array::from_fn(|order| sum[order] + counts[order])
        })
    }

    /// The fragmentation index of a domain at the order of a superpage, in thousandths
    /// (`vm.phys_frag_idx`).
    pub fn fragmentation(&self, node: u16) -> i64 {
        fmfi(FreeBlocks { counts: &self.domain_counts(node) }, SUPERPAGE)
    }

    /// Lets the daemon of one domain look at it, and compact it if it is fragmented: the best
    /// regions, again and again, until the index is good or nothing is gained any more. Returns
    /// what it did; `None` if there is no such node.
    pub fn compactd(
        &mut self,
        table: &mut FrameTable,
        pages: &mut impl Pages,
        node: u16,
        daemon: &Compactd,
    ) -> Option<CompactdRun> {
        let domain = self.domains.iter().position(|domain| domain.node == node)?;
        let before = self.fragmentation(node);
        let mut ran =
            CompactdRun { before, after: before, rounds: 0, cost: Cost::default(), rest_ms: 0 };
        if !daemon.wants(before) {
            ran.rest_ms = daemon.rest_ms(None);
            return Some(ran);
        }
        let mut progress = Progress::new(before);
        self.spares_reservations = daemon.spare_reservations;
        loop {
            for region in self.domains[domain].regions.best() {
                ran.cost += compact_region(table, self, pages, region);
            }
            ran.rounds += 1;
            ran.after = self.fragmentation(node);
            if !daemon.goes_on(&mut progress, ran.after) {
                break;
            }
        }
        self.counts.compactd_runs += 1;
        self.counts.pages_moved += ran.cost.moved;
        ran.rest_ms = daemon.rest_ms(Some(!daemon.wants(ran.after)));
        Some(ran)
    }

    /// # Panics
    /// If a region counts other free frames, or other single ones, than its memory's free lists have.
    pub(super) fn validate_regions(&self, table: &FrameTable) {
        let mut free: BTreeMap<(usize, usize), (u32, u32)> = BTreeMap::new();
        for lists in &self.lists {
            for (kind, order) in (0..2).flat_map(|kind| {
                crate::Order::up_to(lists.area.largest()).map(move |order| (kind, order))
            }) {
                for frame in lists.area.list(order, kind).iter(table) {
                    let region = free.entry((lists.domain, number(frame))).or_default();
                    region.0 += order.frames() as u32;
                    region.1 += u32::from(order == crate::Order::BASE);
                }
            }
        }
        for (domain, kept) in self.domains.iter().enumerate() {
            for (start, counted) in kept.regions.each() {
                let found = free.remove(&(domain, number(start))).unwrap_or_default();
                assert_eq!(counted, found, "free frames and singles of the region at {start:?}");
            }
        }
        assert!(free.is_empty(), "free frames of no region: {free:?}");
    }
}
