//! Where the border stands, and how a pageblock changes sides.
//!
//! Growing takes the pageblock above the border. Its free blocks change sides first, so that
//! nothing can be migrated into it; then its movable blocks are migrated to the far end of the
//! movable region. What cannot be moved stays, and now lies where it belongs. Shrinking gives the
//! pageblock below the border back, if nothing is allocated in it. Both take time linear in the
//! blocks of that one pageblock.

use alloc::vec::Vec;
use core::ops::Range;

use super::space::Pick;
use super::{Limits, Node, PER_REGION, Region, RegionZone, Regions};
use crate::layout::{Frame, Zone};
use crate::placement::Placement;
use crate::table::{FrameTable, State};
use crate::{Mobility, Order, ZoneKind};

/// Frames in a pageblock.
pub(super) const PAGEBLOCK: u64 = Order::HUGE.frames();

/// The first frame of the pageblock after the one that contains `frame`'s predecessor.
fn align_up(frame: Frame) -> Frame {
    Frame(frame.0.next_multiple_of(PAGEBLOCK as u32))
}

/// Whether the border may enter a zone. No unmovable request may use the others.
fn may_hold_unmovable(zone: &Zone) -> bool {
    !matches!(zone.span.kind, ZoneKind::Movable | ZoneKind::Device)
}

/// The lowest border below which a node, given by its zones in ascending order, has `frames`.
pub(super) fn initial<'a>(zones: impl Iterator<Item = &'a Zone>, frames: u64) -> Frame {
    let mut border = Frame(0);
    let mut left = frames;
    for (at, zone) in zones.enumerate() {
        if at == 0 {
            border = zone.start.align_down(Order::HUGE);
        }
        if left == 0 || !may_hold_unmovable(zone) {
            break;
        }
        let here = left.min(u64::from(zone.end.0 - zone.start.0));
        border = align_up(zone.start.offset(here));
        left -= here;
    }
    border
}

/// Frames of memory of a zone in a range that begins and ends with pageblocks or with the zone. Of a
/// pageblock with holes that two zones share, each has at most its part.
fn memory_in(table: &FrameTable, zone: &Zone, range: Range<Frame>) -> u64 {
    let (start, end) = (range.start.max(zone.start), range.end.min(zone.end));
    let pageblocks = (start.align_down(Order::HUGE).0..end.0).step_by(PAGEBLOCK as usize);
    let frames = pageblocks.map(Frame).map(|pageblock| {
        let part = pageblock.offset(PAGEBLOCK).min(end).0 - pageblock.max(start).0;
        u64::from(part.min(u32::from(table.block(pageblock).present())))
    });
    frames.sum()
}

/// The first frame of the free or allocated block that contains `frame`, or `frame` itself.
fn head_of(table: &FrameTable, frame: Frame) -> Frame {
    if u64::from(frame.0) >= table.frames() || table.state(frame) != State::Inside {
        return frame;
    }
    // A frame that is not inside a block is the first of one, and no block contains another.
    let mut starts = Order::up_to(Order::GIGANTIC).map(|order| frame.align_down(order));
    starts.find(|&start| table.state(start) != State::Inside).unwrap_or(frame)
}

/// Splits the allocated block that reaches across `at`, so that none does.
pub(super) fn split_allocated_at(table: &mut FrameTable, at: Frame) {
    let mut head = head_of(table, at);
    while head < at && table.state(head) == State::Allocated {
        table.split_allocated(head);
        head = head_of(table, at);
    }
}

/// What a pageblock next to the border holds of its node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contents {
    pub(super) free: u64,
    pub(super) movable: u64,
    /// In use, and cannot be moved: above the border, all of it is inherited.
    fixed: u64,
    /// Whether a block of the wanted order would be free if the movable frames were gone.
    pub(super) fits: bool,
    /// Whether every frame is free or can be moved.
    pub(super) clear: bool,
}

impl Regions {
    /// Sets what each region may give out of each zone of `node`, by its share of the zone's memory.
    pub(super) fn set_limits(&mut self, node: usize) {
        self.nodes[node].near = self.band(node);
        for &zone in &self.nodes[node].zones {
            let zone = &mut self.zones[zone];
            let all: u64 = zone.memory.iter().sum();
            zone.limits = zone.memory.map(|part| {
                let share = |mark: u64| {
                    (u128::from(mark) * u128::from(part) / u128::from(all.max(1))) as u64
                };
                let marks = &zone.zone.span.watermarks;
                Limits {
                    min: share(marks.min),
                    low: share(marks.low),
                    high: share(marks.high),
                    reserve: zone.zone.span.lowmem_reserve.map(share),
                }
            });
        }
    }

    /// The two ends of the band around a node's border.
    fn band(&self, node: usize) -> [Frame; PER_REGION] {
        let Node { zones, border, .. } = &self.nodes[node];
        let start = zones.first().map_or(*border, |&zone| self.zones[zone].zone.start);
        let end = zones.last().map_or(*border, |&zone| self.zones[zone].zone.end);
        let widths = [border.0.saturating_sub(start.0), end.0.saturating_sub(border.0)];
        let share = |region: Region| {
            let share = self.config.band_per_1024[region as usize].min(1024);
            (u64::from(widths[region as usize]) * share / 1024) as u32
        };
        [
            Frame(border.0 - share(Region::Unmovable)),
            border.offset(u64::from(share(Region::Movable))),
        ]
    }

    fn set_border(&mut self, table: &FrameTable, node: usize, border: Frame) {
        let before = core::mem::replace(&mut self.nodes[node].border, border);
        let passed = before.min(border)..before.max(border);
        for &zone in &self.nodes[node].zones {
            let zone = &mut self.zones[zone];
            let frames = memory_in(table, &zone.zone, passed.clone());
            let [from, to] = if border > before { [1, 0] } else { [0, 1] };
            zone.memory[from] -= frames;
            zone.memory[to] += frames;
        }
        self.set_limits(node);
    }

    /// Counts the memory of each zone below and above the border.
    pub(super) fn count_memory(&mut self, table: &FrameTable) {
        for at in 0..self.zones.len() {
            self.zones[at].memory = self.memory_of(table, at);
        }
        for node in 0..self.nodes.len() {
            self.set_limits(node);
        }
    }

    /// Memory of a zone below and above the border, in time linear in the zone.
    fn memory_of(&self, table: &FrameTable, zone: usize) -> [u64; PER_REGION] {
        let RegionZone { zone, node, .. } = &self.zones[zone];
        let border = self.nodes[*node].border.clamp(zone.start, zone.end);
        [zone.start..border, border..zone.end].map(|part| memory_in(table, zone, part))
    }

    /// # Panics
    /// If a count of memory is wrong.
    pub(super) fn check_memory(&self, table: &FrameTable) {
        for at in 0..self.zones.len() {
            assert_eq!(self.zones[at].memory, self.memory_of(table, at), "of zone {at}");
        }
    }

    /// The pageblock that growing would take next when the border is at `border`, and its zone.
    pub(super) fn next_pageblock(&self, node: usize, border: Frame) -> Option<(Frame, &Zone)> {
        let zones = self.nodes[node].zones.iter().map(|&zone| &self.zones[zone].zone);
        let zone = zones.filter(|zone| may_hold_unmovable(zone)).find(|zone| border < zone.end)?;
        Some((border.max(zone.start.align_down(Order::HUGE)), zone))
    }

    /// The pageblock that shrinking would give back next, and its zone.
    pub(super) fn last_pageblock(&self, node: usize) -> Option<(Frame, &Zone)> {
        let border = self.nodes[node].border;
        let mut zones = self.nodes[node].zones.iter().rev().map(|&zone| &self.zones[zone].zone);
        let zone = zones.find(|zone| zone.start < border)?;
        let end = border.min(align_up(zone.end));
        Some((Frame(end.0 - PAGEBLOCK as u32), zone))
    }

    /// The first frames of the blocks that have a frame in a pageblock, of this node's memory. The
    /// first block may start, and the last may end, outside.
    fn heads<'a>(
        &'a self,
        table: &'a FrameTable,
        node: usize,
        pageblock: Frame,
    ) -> impl Iterator<Item = Frame> + 'a {
        let end = pageblock.offset(PAGEBLOCK);
        let mut at = head_of(table, pageblock);
        core::iter::from_fn(move || {
            let head = at;
            if head >= end {
                return None;
            }
            at = at.offset(table.order(head).frames());
            Some(head)
        })
        .filter(move |&head| self.zone_of(head).is_some_and(|zone| self.zones[zone].node == node))
    }

    /// Looks at a pageblock above the border, for a request of `order`.
    pub(super) fn contents(
        &self,
        table: &FrameTable,
        node: usize,
        pageblock: Frame,
        order: Order,
    ) -> Contents {
        let end = pageblock.offset(PAGEBLOCK);
        let mut contents = Contents::default();
        if table.block(pageblock).present() == 0 {
            return contents;
        }
        // The usable frames so far without a gap.
        let mut run = pageblock..pageblock;
        let fits = |run: &core::ops::Range<Frame>| {
            let first = run.start.0.next_multiple_of(order.frames().min(PAGEBLOCK) as u32);
            order <= Order::HUGE && u64::from(first) + order.frames() <= u64::from(run.end.0)
        };
        for head in self.heads(table, node, pageblock) {
            let start = head.max(pageblock);
            let stop = head.offset(table.order(head).frames()).min(end);
            let frames = u64::from(stop.0 - start.0);
            match (table.state(head), table.mobility(head)) {
                (State::Free, _) => contents.free += frames,
                (State::Allocated, Mobility::Movable) => contents.movable += frames,
                (State::Allocated, _) => {
                    contents.fixed += frames;
                    continue;
                }
                _ => continue,
            }
            if run.end != start {
                contents.fits |= fits(&run);
                run.start = start;
            }
            run.end = stop;
        }
        contents.fits |= fits(&run);
        contents.clear = contents.free + contents.movable == PAGEBLOCK;
        contents
    }

    pub(super) fn free_in(&self, node: usize, region: Region) -> u64 {
        self.nodes[node].zones.iter().map(|&zone| self.zones[zone].space.frames(region)).sum()
    }

    /// Moves the border up over one pageblock, whose movable pages are migrated: beyond `until`,
    /// where growth is going to stop, if there is room. Returns the frames that the unmovable
    /// region can now use; `None` if there is no pageblock left or the movable region has no room
    /// for the pages in the way.
    pub(super) fn grow(
        &mut self,
        table: &mut FrameTable,
        node: usize,
        until: Frame,
    ) -> Option<u64> {
        let (start, _) = self.next_pageblock(node, self.nodes[node].border)?;
        let contents = self.contents(table, node, start, Order::BASE);
        let room = self.free_in(node, Region::Movable) - contents.free;
        if contents.movable > room {
            return None;
        }
        let border = start.offset(PAGEBLOCK);
        self.change_sides(table, node, start, border);
        let movable = self.movable_in(table, node, start);
        for &head in &movable {
            self.migrate(table, node, head, until);
        }
        // What is fixed and larger than the pageblock stays, each part in its region.
        split_allocated_at(table, border);
        self.outsiders.settle(start.pageblock(), contents.fixed as u16);
        self.counts.growths += 1;
        self.counts.blocks_emptied += u64::from(!movable.is_empty());
        Some(contents.free + contents.movable)
    }

    /// Migrates the movable strays out of one pageblock of the unmovable region, the one furthest
    /// from the border that has any: as good as growth, and the border stays. Returns the frames
    /// gained; `None` if there are no strays or no room for them. Looking for strays takes time
    /// linear in the region over the whole life of the machine, since none are ever added.
    pub(super) fn evict_strays(
        &mut self,
        table: &mut FrameTable,
        node: usize,
        until: Frame,
    ) -> Option<u64> {
        let Node { border, mut stray_search, .. } = self.nodes[node];
        while stray_search < border && self.outsiders.strays_in(stray_search.pageblock()) == 0 {
            stray_search = stray_search.offset(PAGEBLOCK);
        }
        self.nodes[node].stray_search = stray_search;
        if stray_search >= border {
            return None;
        }
        let before = self.outsiders.strays();
        for head in self.movable_in(table, node, stray_search) {
            if table.order(head).frames() > self.free_in(node, Region::Movable) {
                break;
            }
            self.forget_outsider(table, head);
            self.migrate(table, node, head, until);
        }
        let gained = before - self.outsiders.strays();
        self.counts.strays_evicted += gained;
        (gained > 0).then_some(gained)
    }

    /// The movable blocks in a pageblock.
    fn movable_in(&self, table: &FrameTable, node: usize, pageblock: Frame) -> Vec<Frame> {
        self.heads(table, node, pageblock)
            .filter(|&head| table.state(head) == State::Allocated)
            .filter(|&head| table.mobility(head) == Mobility::Movable)
            .collect()
    }

    /// Moves the border down over one pageblock. Returns the frames that the movable region
    /// gained; `None` if something is allocated in it that cannot be moved.
    pub(super) fn shrink(&mut self, table: &mut FrameTable, node: usize) -> Option<u64> {
        let (start, _) = self.last_pageblock(node)?;
        let counts = *table.block(start);
        if self.outsiders.is_empty(start.pageblock(), &counts) {
            self.change_sides(table, node, start, start);
            self.counts.shrinks += 1;
            return Some(u64::from(counts.free));
        }
        if !self.moves_unmovable() {
            return None;
        }
        // By hardware: all of it but what stays truly fixed, if the region has room below.
        let reserved = self.outsiders.reserved_in(start.pageblock());
        let in_use = u64::from(counts.present() - counts.free - reserved);
        let room = self.free_in(node, Region::Unmovable) - u64::from(counts.free);
        let fixed = self.heads(table, node, start).any(|head| {
            table.state(head) == State::Allocated && table.mobility(head) != Mobility::Unmovable
        });
        if fixed || in_use > room {
            return None;
        }
        split_allocated_at(table, start);
        self.change_sides(table, node, start, start);
        let heads = self.heads(table, node, start);
        let heads = heads.filter(|&head| table.state(head) == State::Allocated);
        for head in heads.collect::<Vec<_>>() {
            self.migrate_by_hardware(table, node, head);
        }
        self.counts.shrinks += 1;
        self.counts.blocks_emptied += 1;
        Some(u64::from(counts.free) + in_use)
    }

    /// Sets the border, and hands the free blocks of the pageblock that it passes to the region
    /// where they now lie.
    fn change_sides(&mut self, table: &mut FrameTable, node: usize, start: Frame, border: Frame) {
        debug_assert_eq!(self.cached_frames(), 0, "a frame on a list would keep its region");
        let free = self.heads(table, node, start);
        let free = free.filter(|&head| table.state(head) == State::Free);
        let free: Vec<(Frame, Order)> = free.map(|head| (head, table.order(head))).collect();
        for &(head, _) in &free {
            let zone = self.zone_of(head).expect("memory of this node");
            self.zones[zone].space.remove(table, head);
        }
        self.set_border(table, node, border);
        for (head, order) in free {
            self.give(table, head, order);
        }
    }

    /// Moves an allocated block out of the unmovable region to the far end of the movable one,
    /// as a whole if there is a free block of its size, in halves if not. Its owners keep it.
    fn migrate(&mut self, table: &mut FrameTable, node: usize, from: Frame, until: Frame) {
        let order = table.order(from);
        let far = Pick::Beyond(self.nodes[node].near[Region::Movable as usize].max(until));
        // A movable page has no zone limit of its own; the kernel's migration knows of none.
        let zones: Vec<usize> = self.eligible(node, Region::Movable, ZoneKind::Device).collect();
        let to = zones
            .into_iter()
            .find_map(|zone| self.zones[zone].space.take(table, Region::Movable, order, far));
        let Some(to) = to else {
            table.split_allocated(from);
            self.counts.moved_blocks_split += 1;
            let upper = from.offset(order.frames() / 2);
            self.migrate(table, node, from, until);
            if upper < self.nodes[node].border {
                self.migrate(table, node, upper, until);
            }
            return;
        };
        self.relocate(table, from, to, Mobility::Movable);
    }
}
