//! Memory blocks that change zones (`mm/memory_hotplug.c`): `offline`, then `online_kernel` or
//! `online_movable`.
//!
//! ```text
//! isolate   what is free in the block moves to the isolated lists, and what is freed follows
//! (whoever has the block's pages moves them elsewhere)
//! online    the block, all free, goes to the lists of the other zone
//! ```
//!
//! The zones interleave: ZONE_MOVABLE of a node spans its other zones, and each pageblock says whose
//! it is. A memory block is a multiple of the largest free block, so that buddies never belong to
//! two zones.
//!
//! With each block the sizes, watermarks, reserves, and per-CPU limits of all zones follow, by the
//! rules since 6.12, where ZONE_MOVABLE has no share of `min_free_kbytes`.

use alloc::vec::Vec;
use core::ops::Range;

use super::{Linux, Pageset};
use crate::compaction::Compactable;
use crate::free_area::End;
use crate::layout::{Frame, Layout, Watermarks, Zone};
use crate::placement::zonelist::Zonelists;
use crate::placement::{Placement, Request, gfp};
use crate::table::{FrameTable, Owner, State};
use crate::{BlockCounts, MigrateType, Mobility, Order, ZoneKind};

/// What changes zones, and by which rules sizes follow.
#[derive(Clone, Debug)]
pub(super) struct Hotplug {
    /// Of all zones, those without memory included.
    zonelists: Zonelists,
    /// The sum of the min watermarks at boot.
    min: u64,
    /// `vm.watermark_scale_factor`, in ten-thousandths.
    scale: u64,
    /// `vm.lowmem_reserve_ratio` of ZONE_DMA, ZONE_DMA32 and ZONE_NORMAL.
    ratios: [u64; 3],
    isolated: Option<Isolated>,
}

/// A block that is about to leave its zone.
#[derive(Clone, Debug)]
struct Isolated {
    range: Range<Frame>,
    /// Whether its zone had isolated pageblocks before.
    had_isolated: bool,
}

/// The kernel's `vm.lowmem_reserve_ratio`.
const RATIOS: [u64; 3] = [256, 256, 32];

impl Hotplug {
    /// For a layout with interleaved zones; `None` for any other.
    pub(super) fn new(layout: &Layout) -> Option<Hotplug> {
        let zones = layout.zones();
        zones.iter().any(|zone| zone.interleaved).then(|| {
            let spans = zones.iter().map(|zone| &zone.span).filter(|span| span.managed > 0);
            let scale = spans.clone().filter_map(|span| {
                let step = span.watermarks.low.saturating_sub(span.watermarks.min);
                (step > span.watermarks.min / 4).then(|| step * 10_000 / span.managed)
            });
            Hotplug {
                zonelists: Zonelists::new(layout),
                min: spans.clone().map(|span| span.watermarks.min).sum(),
                scale: scale.max().unwrap_or(10),
                ratios: RATIOS,
                isolated: None,
            }
        })
    }
}

impl Linux {
    /// Whether memory blocks can change zones: whether the layout has interleaved zones.
    pub fn has_hotplug(&self) -> bool {
        self.hotplug.is_some()
    }

    /// The zones as they are now.
    pub fn live_zones(&self) -> impl ExactSizeIterator<Item = &Zone> {
        self.zones.iter().map(|zone| &zone.zone)
    }

    /// Free frames that the per-CPU lists of one zone hold.
    pub fn cached_frames_of(&self, zone: usize) -> u64 {
        self.zones[zone].cached_frames()
    }

    /// Requests that the kernel would have reclaimed or compacted for: of kernel memory, and of
    /// memory that may come from ZONE_MOVABLE.
    pub fn stalls(&self) -> [u64; 2] {
        self.counts.stalls
    }

    /// Begins to take a memory block offline: its free memory is isolated, and so is what is freed
    /// in it from now on (`start_isolate_page_range`). One block at a time.
    ///
    /// # Panics
    /// If another block is isolated, or the block is not of one zone.
    pub fn isolate(&mut self, table: &mut FrameTable, range: Range<Frame>) {
        self.drain_all(table);
        let zone = self.zone_of(range.start);
        let hotplug = self.hotplug.as_mut().expect("a layout with interleaved zones");
        assert!(hotplug.isolated.is_none(), "{range:?}: another block is isolated");
        let had_isolated = self.zones[zone].has_isolated;
        hotplug.isolated = Some(Isolated { range: range.clone(), had_isolated });
        for pageblock in pageblocks(&range) {
            assert_eq!(self.zone_of(pageblock), zone, "{range:?} is of two zones");
            if self.blocks.get(pageblock) == MigrateType::HighAtomic {
                let reserved = &mut self.zones[zone].reserved_highatomic;
                *reserved = reserved.saturating_sub(u64::from(BlockCounts::FRAMES));
            }
            self.blocks.set(pageblock, MigrateType::Isolate);
        }
        let (zone, mut context) = self.at(table, zone);
        zone.has_isolated = true;
        for pageblock in pageblocks(&range) {
            zone.move_free_blocks(&mut context, pageblock, MigrateType::Isolate);
        }
    }

    /// Leaves the isolated block in its zone (`undo_isolate_page_range`).
    ///
    /// # Panics
    /// If no block is isolated.
    pub fn end_isolation(&mut self, table: &mut FrameTable) {
        let Isolated { range, had_isolated } = self.take_isolated();
        for pageblock in pageblocks(&range) {
            self.blocks.set(pageblock, MigrateType::Movable);
        }
        let zone = self.zone_of(range.start);
        let free = self.take_free(table, &range);
        self.give_all(table, zone, free, None);
        self.zones[zone].has_isolated = had_isolated;
    }

    /// Whether nothing in the isolated block is in use any more.
    pub fn is_offline(&self, table: &FrameTable) -> bool {
        let isolated = self.hotplug.as_ref().and_then(|hotplug| hotplug.isolated.as_ref());
        isolated.is_some_and(|isolated| {
            let blocks = isolated.range.start.pageblock()..isolated.range.end.pageblock();
            table.blocks()[blocks].iter().all(|block| block.free == BlockCounts::FRAMES)
        })
    }

    /// Puts the isolated block, which must be offline, online in `zone`. Its memory is used last, as
    /// that of a zone that has just grown (`generic_online_page`).
    ///
    /// # Panics
    /// If no block is isolated, or something in it is in use.
    pub fn online(&mut self, table: &mut FrameTable, zone: usize) {
        assert!(self.is_offline(table), "something in the block is in use");
        let Isolated { range, had_isolated } = self.take_isolated();
        let from = self.zone_of(range.start);
        let free = self.take_free(table, &range);
        self.zones[from].has_isolated = had_isolated;
        for pageblock in pageblocks(&range) {
            self.blocks.set(pageblock, MigrateType::Movable);
            self.blocks.set_zone(pageblock, zone);
        }
        self.give_all(table, zone, free, Some(End::Tail));
        let frames = u64::from(range.end.0 - range.start.0);
        self.zones[from].zone.span.managed -= frames.min(self.zones[from].zone.span.managed);
        self.zones[zone].zone.span.managed += frames;
        self.refresh();
    }

    /// Sets `vm.lowmem_reserve_ratio` of ZONE_DMA, ZONE_DMA32 and ZONE_NORMAL; 0 for no reserve.
    pub fn set_reserve_ratios(&mut self, ratios: [u64; 3]) {
        let hotplug = self.hotplug.as_mut().expect("a layout with interleaved zones");
        if hotplug.ratios != ratios {
            hotplug.ratios = ratios;
            self.refresh();
        }
    }

    fn take_isolated(&mut self) -> Isolated {
        let hotplug = self.hotplug.as_mut().expect("a layout with interleaved zones");
        hotplug.isolated.take().expect("an isolated block")
    }

    /// Takes all that is free in a range off the lists.
    fn take_free(&mut self, table: &mut FrameTable, range: &Range<Frame>) -> Vec<(Frame, Order)> {
        let zone = self.zone_of(range.start);
        let (mut free, mut at) = (Vec::new(), range.start);
        while at < range.end {
            let order = match table.state(at) {
                State::Free => {
                    let order = self.zones[zone].area.remove(table, at);
                    free.push((at, order));
                    order
                }
                State::Allocated | State::Cached => table.order(at),
                State::Absent | State::Reserved | State::Inside => Order::BASE,
            };
            at = at.offset(order.frames());
        }
        free
    }

    /// Puts free blocks on the lists of a zone.
    fn give_all(
        &mut self,
        table: &mut FrameTable,
        zone: usize,
        free: Vec<(Frame, Order)>,
        end: Option<End>,
    ) {
        for (frame, order) in free {
            let (zone, mut context) = self.at(table, zone);
            zone.free_one(&mut context, frame, order, MigrateType::Movable, end);
        }
    }

    /// Computes what depends on the zones' sizes again (`init_per_zone_wmark_min`).
    fn refresh(&mut self) {
        let Some(hotplug) = &self.hotplug else { return };
        let is_kernel = |zone: &Zone| zone.span.kind < ZoneKind::Movable;
        let sizes: Vec<(u16, ZoneKind, u64)> =
            self.live_zones().map(|z| (z.span.node, z.span.kind, z.span.managed)).collect();
        let low: u64 = self.live_zones().filter(|z| is_kernel(z)).map(|z| z.span.managed).sum();
        // What khugepaged recommends is at most a twentieth of low memory
        // (`set_recommended_min_free_kbytes`), and never less than the square root says.
        let least = (low * 4 * 16).isqrt() / 4;
        let min = hotplug.min.min((low / 20).max(least));
        for zone in &mut self.zones {
            let managed = zone.zone.span.managed;
            let share = managed * min / low.max(1);
            let kept = match is_kernel(&zone.zone) {
                true => share,
                false => (managed / 1024).clamp(32, 128).min(managed),
            };
            let step = (share / 4).max(managed * hotplug.scale / 10_000);
            let span = &mut zone.zone.span;
            span.watermarks = Watermarks { min: kept, low: kept + step, high: kept + 2 * step };
            if let Some(&ratio) = hotplug.ratios.get(span.kind as usize) {
                for highest in ZoneKind::ALL {
                    let above = sizes.iter().filter(|(node, kind, _)| {
                        *node == span.node && *kind > span.kind && *kind <= highest
                    });
                    let frames: u64 = above.map(|(.., managed)| managed).sum();
                    span.lowmem_reserve[highest as usize] = frames.checked_div(ratio).unwrap_or(0);
                }
            }
            zone.pageset = Pageset::of_zone(span, self.config.cpus_per_node);
        }
        let populated: Vec<bool> = sizes.iter().map(|(.., managed)| *managed > 0).collect();
        self.zonelists = hotplug.zonelists.retaining(|zone| populated[zone]);
    }

    /// Moves what is to be pinned out of ZONE_MOVABLE first (`check_and_migrate_movable_pages`,
    /// `mm/gup.c`), in pieces where there is no block as large; false if there is no room.
    pub(super) fn pin_outside(
        &mut self,
        table: &mut FrameTable,
        owner: Owner,
        order: Order,
    ) -> bool {
        let (mut at, end) = (owner, owner + order.frames() as Owner);
        while at < end {
            let from = table.block_of(at).expect("what is pinned lies somewhere");
            let (order, zone) = (table.order(from), self.zone_of(from));
            if !self.zones[zone].zone.interleaved {
                table.release(from);
                table.allocate(from, order, Mobility::Unmovable, at);
                at += order.frames() as Owner;
                continue;
            }
            let request = Request {
                order,
                node: self.zones[zone].zone.span.node,
                gfp_flags: gfp::KERNEL,
                ..Request::default()
            };
            if self.allocate(table, &request, at).is_some() {
                self.free(table, from, 0);
                self.counts.moved_for_pins += order.frames();
                at += order.frames() as Owner;
            } else if order > Order::BASE {
                table.split_allocated(from);
            } else {
                return false;
            }
        }
        true
    }

    /// The zone of `frame`; of a frame outside all zones, such as the first of a machine, that of the
    /// memory behind it in its pageblock.
    pub(super) fn zone_around(&self, frame: Frame) -> usize {
        let first = self.blocks.first_zone(frame);
        let is_there = |at: &usize| {
            let zone = &self.zones[*at].zone;
            (*at == first || !zone.interleaved) && zone.contains(frame)
        };
        (first..self.zones.len()).find(is_there).unwrap_or(first)
    }

    /// Whether the pageblock at `block` is of a zone, where zones interleave.
    pub(super) fn has_pageblock(&self, zone: usize, block: Frame) -> bool {
        let owner = self.blocks.first_zone(block);
        owner == zone || !(self.zones[owner].zone.interleaved || self.zone(zone).interleaved)
    }
}

/// The first frames of the pageblocks of a range.
fn pageblocks(range: &Range<Frame>) -> impl Iterator<Item = Frame> + use<> {
    (range.start.0..range.end.0).step_by(usize::from(BlockCounts::FRAMES)).map(Frame)
}
