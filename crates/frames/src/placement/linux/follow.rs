//! The allocator's steps one by one, for who replays a recorded kernel and holds each step against
//! the record: what leaves and enters the free lists, what a per-CPU list holds, and how to put
//! things right after a difference, so that one is not counted a hundred times.

use super::fallback::Fallback;
use super::flags::AllocFlags;
use super::pageblocks::is_mergeable;
use super::pageset::list_of;
use super::taken_from::TakenFrom;
use super::{Linux, Pageset, Tuning};
use crate::free_area::End;
use crate::layout::{Frame, Watermarks};
use crate::placement::Request;
use crate::placement::zonelist::Depth;
use crate::table::{FrameTable, Owner, State};
use crate::{MigrateType, Order, ZoneKind};

impl Linux {
    /// Whether a free block is only ever on a list of its pageblock's type (6.10).
    pub fn lists_by_type(&self) -> bool {
        self.config.hygiene
    }

    /// The zone of the layout that `frame` lies in, which must be one of its zones' frames.
    pub fn zone_index(&self, frame: Frame) -> usize {
        self.zone_of(frame)
    }

    /// Gives the pageblock of `frame` a type and leaves what is free in it where it is
    /// (`set_pageblock_migratetype`).
    pub fn set_pageblock_type(&mut self, frame: Frame, migrate_type: MigrateType) {
        self.blocks.set(frame, migrate_type);
    }

    /// Gives the pageblock of `frame` a type and moves what is free in it to the lists of that
    /// type, as where it joins or leaves the atomic reserve (`reserve_highatomic_pageblock`).
    pub fn move_pageblock(
        &mut self,
        table: &mut FrameTable,
        frame: Frame,
        migrate_type: MigrateType,
    ) {
        self.blocks.set(frame, migrate_type);
        let zone = self.zone_of(frame);
        let (zone, mut context) = self.at(table, zone);
        zone.move_free_blocks(&mut context, frame, migrate_type);
    }

    /// Turns the free list of a free block so that the block is its head; what stood before it goes
    /// behind the tail. Compaction's searches of the free lists leave them so, that the next does
    /// not meet the same blocks again (`move_freelist_head`).
    pub fn turn_list(&mut self, table: &mut FrameTable, frame: Frame) {
        let zone = self.zone_of(frame);
        self.zones[zone].area.rotate_to(table, frame);
    }

    /// Turns the free list of a free block so that the block is its tail
    /// (`move_freelist_tail`).
    pub fn turn_list_past(&mut self, table: &mut FrameTable, frame: Frame) {
        let zone = self.zone_of(frame);
        if let Some(next) = self.zones[zone].area.after(table, frame) {
            self.zones[zone].area.rotate_to(table, next);
        }
    }

    /// Puts a block that is on no list at the end of a free list, as it is: nothing merges.
    pub fn put(
        &mut self,
        table: &mut FrameTable,
        frame: Frame,
        order: Order,
        migrate_type: MigrateType,
    ) {
        let zone = self.zone_of(frame);
        self.zones[zone].area.insert(table, frame, order, migrate_type.index(), End::Tail);
    }

    /// Takes a block from the free lists of a zone, from those of other types if need be
    /// (`__rmqueue`); from the atomic reserve and the like only what is there. The block is then
    /// on no list.
    pub fn take_from_lists(
        &mut self,
        table: &mut FrameTable,
        zone: usize,
        order: Order,
        migrate_type: MigrateType,
    ) -> Option<Frame> {
        let (zone, mut context) = self.at(table, zone);
        if !is_mergeable(migrate_type) {
            return zone.area.take_smallest(context.table, order, migrate_type.index());
        }
        let found = &mut TakenFrom::default();
        let taken = zone.take_typed(&mut context, order, migrate_type, AllocFlags::NONE, found);
        taken.map(|(frame, _)| frame)
    }

    /// Frees a block that is on no list into the lists of a type (`__free_one_page`), at the usual
    /// end or at a given one.
    pub fn give_to_lists(
        &mut self,
        table: &mut FrameTable,
        frame: Frame,
        order: Order,
        migrate_type: MigrateType,
        end: Option<End>,
    ) {
        let zone = self.zone_of(frame);
        let (zone, mut context) = self.at(table, zone);
        zone.free_one(&mut context, frame, order, migrate_type, end);
    }

    /// Frees a block that is on no list into the lists of a type, unless that completes a block of a
    /// `wanted` order: then it is returned, and on no list (`compaction_capture`).
    pub fn give_or_capture(
        &mut self,
        table: &mut FrameTable,
        ((frame, order), migrate_type, end): ((Frame, Order), MigrateType, Option<End>),
        wanted: Order,
    ) -> Option<Frame> {
        let zone = self.zone_of(frame);
        let (zone, mut context) = self.at(table, zone);
        let smaller = |_: &FrameTable, _, order| order < wanted;
        let (frame, order) = zone.area.merge(context.table, frame, order, smaller);
        if order == wanted {
            return Some(frame);
        }
        zone.free_one(&mut context, frame, order, migrate_type, end);
        None
    }

    /// Cuts a block out of the free block that contains it, whichever that is; the rest stays on
    /// the same list, in the largest pieces that fit. False if not all of it is in one free block.
    pub fn carve(&mut self, table: &mut FrameTable, frame: Frame, order: Order) -> bool {
        let zone = self.zone_of(frame);
        let area = &mut self.zones[zone].area;
        let around = (order.get()..=area.largest().get()).find_map(|larger| {
            let larger = Order::new(larger)?;
            let start = frame.align_down(larger);
            area.is_free_here(table, start, larger).then_some((start, larger))
        });
        let Some((mut start, mut found)) = around else { return false };
        let list = usize::from(table.list(start));
        area.remove(table, start);
        while found > order {
            found = found.halved();
            let upper = start.offset(found.frames());
            let (keep, rest) = if frame >= upper { (upper, start) } else { (start, upper) };
            area.insert(table, rest, found, list, End::Head);
            start = keep;
        }
        true
    }

    /// Puts a block that is on no list on a per-CPU list: at the head as a free does, at the tail
    /// as a refill does. `list` says which list, `stored` the type that goes with the block.
    pub fn cache_block(
        &mut self,
        table: &mut FrameTable,
        cpu: u16,
        block: (Frame, Order),
        (list, stored): (MigrateType, MigrateType),
        end: End,
    ) {
        let (frame, order) = block;
        let zone = self.zone_of(frame);
        table.set_cached(frame, order, stored as u8);
        let pages = self.zones[zone].per_cpu_pages(cpu);
        match end {
            End::Head => pages.lists[list_of(list, order)].push_front(frame),
            End::Tail => pages.lists[list_of(list, order)].push_back(frame),
        }
        pages.count += order.frames() as u32;
    }

    /// Takes a block off the per-CPU list of `cpu` that holds it, wherever it stands there; false
    /// if none does. The block is then on no list.
    pub fn uncache(&mut self, table: &mut FrameTable, cpu: u16, frame: Frame) -> bool {
        if table.state(frame) != State::Cached {
            return false;
        }
        let order = table.order(frame);
        let zone = self.zone_of(frame);
        let pages = self.zones[zone].per_cpu_pages(cpu);
        for list in &mut pages.lists {
            if let Some(at) = list.iter().position(|&cached| cached == frame) {
                list.remove(at);
                pages.count -= order.frames() as u32;
                table.set_inside(frame);
                return true;
            }
        }
        false
    }

    /// The blocks on a per-CPU list from its head to its tail.
    pub fn cached(
        &self,
        zone: usize,
        cpu: u16,
        order: Order,
        migrate_type: MigrateType,
    ) -> impl DoubleEndedIterator<Item = Frame> + '_ {
        let pages = self.zones[zone].per_cpu.get(usize::from(cpu));
        pages.into_iter().flat_map(move |p| p.lists[list_of(migrate_type, order)].iter().copied())
    }

    /// Free frames on the lists of one CPU for one zone (`pcp->count`).
    pub fn cached_count(&self, zone: usize, cpu: u16) -> u64 {
        let pages = self.zones[zone].per_cpu.get(usize::from(cpu));
        pages.map_or(0, |pages| u64::from(pages.count))
    }

    /// How the lists of one CPU for one zone have adapted.
    pub fn tuning(&self, zone: usize, cpu: u16) -> Tuning {
        let pages = self.zones[zone].per_cpu.get(usize::from(cpu));
        pages.map_or(Tuning::default(), |pages| pages.tuning)
    }

    /// Says how the lists of one CPU for one zone have adapted.
    pub fn set_tuning(&mut self, zone: usize, cpu: u16, tuning: Tuning) {
        self.zones[zone].per_cpu_pages(cpu).tuning = tuning;
    }

    /// Takes note of a refill and returns its blocks, without moving any.
    pub fn plan_refill(&mut self, zone: usize, cpu: u16, order: Order) -> u32 {
        self.zones[zone].plan_refill(order, cpu)
    }

    /// Takes note of an attempt to allocate from a CPU's lists.
    pub fn plan_allocation(&mut self, zone: usize, cpu: u16) {
        self.zones[zone].per_cpu_pages(cpu).tuning.allocated();
    }

    /// Takes note of a block that came to a CPU's lists, and returns how many frames go back.
    pub fn plan_free(&mut self, zone: usize, cpu: u16, order: Order) -> u32 {
        let config = self.config;
        self.zones[zone].plan_free(&config, order, cpu)
    }

    /// Lowers the high mark of one CPU's lists as an update of statistics does (`decay_pcp_high`).
    /// Returns how many frames are too many then, and go back next.
    pub fn lower_high(&mut self, zone: usize, cpu: u16) -> u32 {
        let limits = self.zones[zone].pageset;
        let pages = self.zones[zone].per_cpu_pages(cpu);
        pages.tuning.decay(limits, pages.count)
    }

    /// Gives frames of one CPU's lists back, a batch at a time.
    pub fn drain_by_batch(&mut self, table: &mut FrameTable, zone: usize, cpu: u16, frames: u32) {
        let (zone, mut context) = self.at(table, zone);
        zone.drain_by_batch(&mut context, cpu, frames);
    }

    /// Gives frames of one CPU's lists back, of those that [`plan_free`](Linux::plan_free) named for
    /// a free to the list of a type and size; the `last` of them a batch at a time.
    pub fn drain_part(
        &mut self,
        table: &mut FrameTable,
        (zone, cpu): (usize, u16),
        (migrate_type, order): (MigrateType, Order),
        (frames, last): (u32, bool),
    ) {
        let (zone, mut context) = self.at(table, zone);
        zone.drain_part(&mut context, (cpu, list_of(migrate_type, order)), (frames, last));
    }

    /// Lowers the high mark of one CPU's lists to a given one, and gives back what is too much then.
    pub fn lower_to(&mut self, table: &mut FrameTable, zone: usize, cpu: u16, high: u32) {
        let (zone, mut context) = self.at(table, zone);
        zone.lower_to(&mut context, cpu, high);
    }

    /// Gives what is on all CPUs' lists for a zone back, CPU by CPU, until `most` frames are back
    /// (`drain_pages_zone`).
    pub fn drain_zone(&mut self, table: &mut FrameTable, zone: usize, most: u32) {
        let cpus = self.zones[zone].per_cpu.len() as u16;
        let (zone, mut context) = self.at(table, zone);
        let mut left = most;
        for cpu in 0..cpus {
            left = zone.drain_up_to(&mut context, cpu, left);
        }
    }

    /// Takes note that a pageblock has no memory any more, until it is marked again.
    pub fn forget_pageblock(&mut self, frame: Frame) {
        self.blocks.forget(frame);
    }

    /// Gives a batch of one CPU's lists for a zone of another node back (`drain_zone_pages`).
    pub fn drain_batch(&mut self, table: &mut FrameTable, zone: usize, cpu: u16) {
        let (zone, mut context) = self.at(table, zone);
        zone.drain_batch(&mut context, cpu);
    }

    /// Sets the watermarks of one zone, which the layout gave it at first.
    pub fn set_watermarks(&mut self, zone: usize, watermarks: Watermarks) {
        self.zones[zone].zone.span.watermarks = watermarks;
    }

    /// Sets the size of one zone and its reserves, which the layout gave it at first.
    pub fn set_size(
        &mut self,
        zone: usize,
        managed: u64,
        lowmem_reserve: [u64; ZoneKind::ALL.len()],
    ) {
        let span = &mut self.zones[zone].zone.span;
        (span.managed, span.lowmem_reserve) = (managed, lowmem_reserve);
    }

    /// Takes the first block of a per-CPU list for `owner`, refilling the list if it is empty, as
    /// an allocation in bulk does (`__rmqueue_pcplist`): what is freed at once is not halved.
    pub fn take_bulk(
        &mut self,
        table: &mut FrameTable,
        zone: usize,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        let migrate_type = self.type_of(request);
        let (order, cpu) = (request.order, request.cpu);
        let flags = AllocFlags::fast(request, migrate_type, &self.config);
        let (zone, mut context) = self.at(table, zone);
        let frame = zone.take_first(&mut context, order, migrate_type, flags, cpu)?;
        table.allocate(frame, order, request.mobility, owner);
        Some(frame)
    }

    /// Allocates from one zone, whatever its watermarks (`rmqueue`); past the per-CPU list if
    /// `locked`, as where an interrupt finds that list in use (`rmqueue_buddy`).
    pub fn allocate_in(
        &mut self,
        table: &mut FrameTable,
        zone: usize,
        request: &Request,
        owner: Owner,
        locked: bool,
    ) -> Option<Frame> {
        let migrate_type = self.type_of(request);
        let flags = AllocFlags::fast(request, migrate_type, &self.config);
        let (zone, mut context) = self.at(table, zone);
        if context.config.adaptive_lists {
            zone.check_high(request.order, request.highest_zone, flags);
        }
        let frame = if locked {
            zone.take_from_buddy(&mut context, request.order, migrate_type, flags)?
        } else {
            zone.take(&mut context, request, migrate_type, flags, Depth::Low)?
        };
        table.allocate(frame, request.order, request.mobility, owner);
        Some(frame)
    }

    /// Frees an allocated block through a per-CPU list under a type that was looked up earlier,
    /// as where frames are freed as a list (`free_unref_page_list`).
    pub fn free_as(
        &mut self,
        table: &mut FrameTable,
        frame: Frame,
        cpu: u16,
        migrate_type: MigrateType,
    ) {
        let order = table.release(frame);
        let zone = self.zone_of(frame);
        let (zone, mut context) = self.at(table, zone);
        zone.free_through_cpu(&mut context, frame, order, migrate_type, cpu);
    }

    /// Lets two blocks of one size change places on the per-CPU lists: `out`, which a list of
    /// `cpu` holds, leaves it, and `into`, which is on no list, stands where it stood. False if no
    /// list holds `out`.
    pub fn exchange_cached(
        &mut self,
        table: &mut FrameTable,
        cpu: u16,
        out: Frame,
        into: Frame,
    ) -> bool {
        let zone = self.zone_of(out);
        if table.state(out) != State::Cached || self.zone_of(into) != zone {
            return false;
        }
        let (order, stored) = (table.order(out), table.list(out));
        let pages = self.zones[zone].per_cpu_pages(cpu);
        for list in &mut pages.lists {
            if let Some(at) = list.iter().position(|&cached| cached == out) {
                list[at] = into;
                table.set_inside(out);
                table.set_cached(into, order, stored);
                return true;
            }
        }
        false
    }

    /// The last fallback to a foreign list, and how many there were.
    pub fn last_fallback(&self) -> (u64, Option<Fallback>) {
        (self.counts.extfrag, self.counts.last_fallback)
    }

    /// Sets the limits of the per-CPU lists of all zones of the layout at once.
    pub fn set_pagesets(&mut self, pagesets: &[Pageset]) {
        for (zone, &pageset) in pagesets.iter().enumerate() {
            self.set_pageset(zone, pageset);
        }
    }
}
