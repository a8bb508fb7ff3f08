//! Per-CPU lists: a few free blocks in front of the zone's free lists.

use alloc::collections::VecDeque;
use core::ops::Range;

use super::flags::AllocFlags;
use super::pageset::{LISTS, Pageset, PerCpuPages, list_of, order_of};
use super::slow_path::COSTLY;
use super::taken_from::TakenFrom;
use super::tuning::{BATCH_SCALE_MAX, Surroundings};
use super::zone::LinuxZone;
use super::{Config, Context};
use crate::layout::Frame;
use crate::run::Run;
use crate::table::{FrameTable, Owner, State};
use crate::{MigrateType, Mobility, Order};

impl Config {
    /// Whether blocks of an order go through per-CPU lists (`pcp_allowed_order`).
    #[inline]
    pub(super) fn goes_through_cpu(&self, order: Order) -> bool {
        order <= COSTLY || (order == Order::HUGE && self.huge_pages)
    }
}

impl LinuxZone {
    /// CPUs seen so far.
    pub(super) fn cpus(&self) -> u16 {
        self.per_cpu.len() as u16
    }

    /// Free frames on the lists of all CPUs.
    pub(super) fn cached_frames(&self) -> u64 {
        self.per_cpu.iter().map(|pages| u64::from(pages.count)).sum()
    }

    /// The lists of a CPU, which may be new.
    #[inline(always)]
    pub(super) fn per_cpu_pages(&mut self, cpu: u16) -> &mut PerCpuPages {
        let cpu = usize::from(cpu);
        if cpu >= self.per_cpu.len() {
            self.per_cpu.resize_with(cpu + 1, PerCpuPages::default);
        }
        &mut self.per_cpu[cpu]
    }

    /// Allocates through a CPU's list (`rmqueue_pcplist`). Even a failed attempt halves what is
    /// freed at once.
    #[inline]
    pub(super) fn take_through_cpu(
        &mut self,
        context: &mut Context<'_>,
        order: Order,
        migrate_type: MigrateType,
        flags: AllocFlags,
        cpu: u16,
    ) -> Option<Frame> {
        let pages = self.per_cpu_pages(cpu);
        pages.free_factor >>= 1;
        pages.tuning.allocated();
        self.take_first(context, order, migrate_type, flags, cpu)
    }

    /// Takes the first block of a list, which is refilled if empty (`__rmqueue_pcplist`).
    #[inline]
    pub(super) fn take_first(
        &mut self,
        context: &mut Context<'_>,
        order: Order,
        migrate_type: MigrateType,
        flags: AllocFlags,
        cpu: u16,
    ) -> Option<Frame> {
        let list = list_of(migrate_type, order);
        if self.per_cpu_pages(cpu).lists[list].is_empty() {
            if context.config.buddy_reserve && flags.has(AllocFlags::HIGHATOMIC) {
                // A refill would leave nothing for the reserve.
                self.refill_size(context, order, cpu);
                return None;
            }
            self.refill(context, order, migrate_type, flags, cpu);
        }
        let pages = &mut self.per_cpu[usize::from(cpu)];
        let frame = pages.lists[list].pop_front()?;
        if let Some(&later) = pages.lists[list].get(4) {
            context.table.prefetch_frame(later);
        }
        pages.count -= order.frames() as u32;
        Some(frame)
    }

    /// Allocates the first single frames of a list to `owners`, as many as there are of both, as if
    /// each had been asked for by itself; returns how many.
    pub(super) fn take_listed(
        &mut self,
        table: &mut FrameTable,
        migrate_type: MigrateType,
        cpu: u16,
        owners: Range<Owner>,
        mobility: Mobility,
    ) -> u32 {
        let pages = self.per_cpu_pages(cpu);
        let list = &mut pages.lists[list_of(migrate_type, Order::BASE)];
        let taken = list.len().min(owners.len());
        table.prefetch_rows(list.range(..taken).copied());
        table.allocate_cached(list.drain(..taken), mobility, owners.start);
        // Each attempt halves it.
        pages.free_factor = pages.free_factor.checked_shr(taken as u32).unwrap_or(0);
        let freed = &mut pages.tuning.free_count;
        *freed = freed.checked_shr(taken as u32).unwrap_or(0);
        pages.count -= taken as u32;
        taken as u32
    }

    /// Appends blocks to a list in the order in which they come (`rmqueue_bulk`): a batch of
    /// frames, at least two blocks.
    fn refill(
        &mut self,
        context: &mut Context<'_>,
        order: Order,
        migrate_type: MigrateType,
        flags: AllocFlags,
        cpu: u16,
    ) {
        let wanted = self.refill_size(context, order, cpu);
        let list = list_of(migrate_type, order);
        let mut blocks = core::mem::take(&mut self.per_cpu[usize::from(cpu)].lists[list]);
        let (mut left, mut found) = (wanted, TakenFrom::default());
        while left > 0 {
            // Balancing with the contiguous memory allocator's areas is decided block by block.
            if !flags.has(AllocFlags::CMA) {
                let (table, list) = (&mut *context.table, migrate_type.index());
                if let Some((start, taken)) = self.area.take_run(table, order, list, left) {
                    if order == Order::BASE {
                        table.set_run_cached(&Run::upward(start, taken), list as u8);
                    }
                    for at in 0..taken {
                        let frame = start.offset(u64::from(at) << order.get());
                        if order > Order::BASE {
                            table.set_cached(frame, order, list as u8);
                        }
                        blocks.push_back(frame);
                    }
                    left -= taken;
                    continue;
                }
            }
            let taken = self.take_typed(context, order, migrate_type, flags, &mut found);
            let Some((frame, from)) = taken else { break };
            let stored = if context.config.hygiene { migrate_type } else { from };
            context.table.set_cached(frame, order, stored as u8);
            blocks.push_back(frame);
            left -= 1;
        }
        context.counts.pcp_refills += 1;
        let pages = &mut self.per_cpu[usize::from(cpu)];
        pages.count += (blocks.len() as u32) << order.get();
        pages.lists[list] = blocks;
    }

    /// Blocks that a refill fetches: a batch, but at least two, until 6.7.
    fn refill_size(&mut self, context: &Context<'_>, order: Order, cpu: u16) -> u32 {
        if context.config.adaptive_lists {
            return self.plan_refill(order, cpu);
        }
        match self.pageset.batch {
            0 | 1 => 1,
            batch => (batch >> order.get()).max(2),
        }
    }

    /// Blocks that a refill of lists that adapt fetches (`nr_pcp_alloc`).
    pub(super) fn plan_refill(&mut self, order: Order, cpu: u16) -> u32 {
        let around = self.surroundings();
        let pages = self.per_cpu_pages(cpu);
        pages.tuning.refill(around, order, pages.count)
    }

    /// Frames that go back after a block came to lists that adapt.
    pub(super) fn plan_free(&mut self, config: &Config, order: Order, cpu: u16) -> u32 {
        let around = self.surroundings();
        let pages = self.per_cpu_pages(cpu);
        pages.tuning.freed(config, around, order, pages.count)
    }

    fn surroundings(&self) -> Surroundings {
        let LinuxZone { pageset: limits, below_high, reclaim_active, .. } = *self;
        Surroundings { limits, below_high, reclaim_active }
    }

    /// Puts a freed block first on its list and gives some back once there are too many
    /// (`free_unref_page_commit`). The type of its pageblock goes with it.
    #[inline]
    pub(super) fn free_through_cpu(
        &mut self,
        context: &mut Context<'_>,
        frame: Frame,
        order: Order,
        migrate_type: MigrateType,
        cpu: u16,
    ) {
        context.table.set_cached(frame, order, migrate_type as u8);
        let (list, reclaim_active) = (list_of(migrate_type, order), self.reclaim_active);
        let Pageset { batch, high, .. } = self.pageset;
        let around = self.surroundings();
        let pages = self.per_cpu_pages(cpu);
        pages.lists[list].push_front(frame);
        pages.count += order.frames() as u32;

        if context.config.adaptive_lists {
            let frames = pages.tuning.freed(context.config, around, order, pages.count);
            self.give_back(context, frames, cpu, list);
            return;
        }
        // Larger blocks that are only freed, never allocated, would fragment memory here.
        let flush = pages.free_factor > 0 && order > Order::BASE && order <= COSTLY;
        let high = if reclaim_active { high.min(batch.saturating_mul(4)) } else { high };
        if flush || pages.count >= high {
            let frames = if flush { pages.count } else { pages.frames_to_free(high, batch) };
            self.drain_frames(context, frames, cpu, list);
        }
    }

    /// Frees the single frames of a run within a pageblock through a CPU's list, as
    /// [`free_through_cpu`](LinuxZone::free_through_cpu) would one after another.
    pub(super) fn free_run_through_cpu(
        &mut self,
        context: &mut Context<'_>,
        mut run: Run,
        migrate_type: MigrateType,
        cpu: u16,
    ) {
        context.table.release_to_cache(&run, migrate_type as u8);
        let list = list_of(migrate_type, Order::BASE);
        let Pageset { batch, high, .. } = self.pageset;
        let high = if self.reclaim_active { high.min(batch.saturating_mul(4)) } else { high };
        while run.frames() > 0 {
            let around = self.surroundings();
            let pages = self.per_cpu_pages(cpu);
            if context.config.adaptive_lists {
                // The list is checked when it is full.
                let part = run.take(pages.tuning.room(around, pages.count) + 1);
                part.iter().for_each(|frame| pages.lists[list].push_front(frame));
                pages.tuning.freed_below_high(batch, part.frames() - 1);
                pages.count += part.frames();
                let frames = pages.tuning.freed(context.config, around, Order::BASE, pages.count);
                self.give_back(context, frames, cpu, list);
                continue;
            }
            // The list is checked when it is full.
            let part = run.take(high.saturating_sub(pages.count).max(1));
            part.iter().for_each(|frame| pages.lists[list].push_front(frame));
            pages.count += part.frames();
            if pages.count >= high {
                let frames = pages.frames_to_free(high, batch);
                self.drain_frames(context, frames, cpu, list);
            }
        }
    }

    /// Drains what a free has found to be too much (`free_unref_page_commit`, 6.7).
    fn give_back(&mut self, context: &mut Context<'_>, frames: u32, cpu: u16, list: usize) {
        if frames == 0 {
            return;
        }
        let at_once = if context.config.drains_by_batch { self.pageset.batch } else { frames };
        self.drain_in_parts(context, (cpu, list), frames, at_once);
        if self.below_high {
            self.end_below_high();
        }
    }

    /// Gives frames of a CPU's lists back, beginning with `list`, at most N `at_once`.
    fn drain_in_parts(
        &mut self,
        context: &mut Context<'_>,
        (cpu, list): (u16, usize),
        mut frames: u32,
        at_once: u32,
    ) {
        while frames > 0 && self.per_cpu_pages(cpu).count > 0 {
            let part = frames.min(at_once.max(1));
            self.drain_frames(context, part, cpu, list);
            frames -= part;
        }
    }

    /// Sets the high mark of a CPU's lists and drains what is then too much.
    pub(super) fn lower_to(&mut self, context: &mut Context<'_>, cpu: u16, high: u32) {
        let pages = self.per_cpu_pages(cpu);
        pages.tuning.high = high;
        let frames = pages.count.saturating_sub(high);
        self.drain_by_batch(context, cpu, frames);
    }

    /// Gives a batch of a CPU's lists back (`drain_zone_pages`): those for a zone of another node,
    /// three updates of statistics after they were last used. The high mark stays.
    pub(super) fn drain_batch(&mut self, context: &mut Context<'_>, cpu: u16) {
        let frames = self.per_cpu_pages(cpu).count.min(self.pageset.batch);
        self.drain_frames(context, frames, cpu, 0);
    }

    /// Gives frames of a CPU's lists back, a batch at a time (`decay_pcp_high`).
    pub(super) fn drain_by_batch(&mut self, context: &mut Context<'_>, cpu: u16, frames: u32) {
        self.drain_in_parts(context, (cpu, 0), frames, self.pageset.batch);
    }

    /// Gives a part back of what a free to `list` found to be too much; the `last` one may show that
    /// the zone has enough free frames again.
    pub(super) fn drain_part(
        &mut self,
        context: &mut Context<'_>,
        (cpu, list): (u16, usize),
        (frames, last): (u32, bool),
    ) {
        if frames > 0 && self.per_cpu_pages(cpu).count > 0 {
            match last {
                true => self.give_back(context, frames, cpu, list),
                false => self.drain_frames(context, frames, cpu, list),
            }
        }
    }

    /// Gives everything on a CPU's lists back, some batches at a time (`drain_pages_zone`).
    pub(super) fn drain(&mut self, context: &mut Context<'_>, cpu: u16) {
        self.drain_up_to(context, cpu, u32::MAX);
    }

    /// The same until `most` frames are back. Returns how many are left of them.
    pub(super) fn drain_up_to(&mut self, context: &mut Context<'_>, cpu: u16, most: u32) -> u32 {
        let at_once = self.pageset.batch.saturating_mul(1 << BATCH_SCALE_MAX).max(1);
        let mut left = most;
        while let Some(count) = self.per_cpu.get(usize::from(cpu)).map(|pages| pages.count)
            && count > 0
            && left > 0
        {
            self.drain_frames(context, at_once.min(left), cpu, 0);
            left = left.saturating_sub(count - self.per_cpu_pages(cpu).count);
        }
        left
    }

    /// Frees at least `frames` frames from the tails of the lists, or all there are: starting with
    /// `list`, each list that is reached until it is empty (`free_pcppages_bulk`). Lists found
    /// empty at either end of the range are left out of the next round.
    fn drain_frames(&mut self, context: &mut Context<'_>, frames: u32, cpu: u16, list: usize) {
        let cpu = usize::from(cpu);
        let mut left = i64::from(frames.min(self.per_cpu[cpu].count));
        let (mut first, mut last) = (0, LISTS - 1);
        let mut list = list;
        while left > 0 {
            while self.per_cpu[cpu].lists[list].is_empty() {
                last -= usize::from(list == last);
                first += usize::from(list == first);
                list = if list < last { list + 1 } else { first };
            }
            let order = order_of(list);
            while left > 0
                && let Some(frame) = self.per_cpu[cpu].lists[list].pop_back()
            {
                fetch_ahead(context.table, &self.per_cpu[cpu].lists[list]);
                if order > Order::BASE {
                    // A recording that is wrong can have put a block of another order there.
                    let order = context.table.order(frame);
                    left -= order.frames() as i64;
                    self.per_cpu[cpu].count -= order.frames() as u32;
                    self.free_cached(context, frame, order);
                    continue;
                }
                let list = &mut self.per_cpu[cpu].lists[list];
                let run = run_at_tail(context.table, frame, list, left - 1);
                left -= i64::from(run.frames());
                self.per_cpu[cpu].count -= run.frames();
                self.free_run(context, run);
            }
            list = if list < last { list + 1 } else { first };
        }
    }

    /// Frees frames that left a per-CPU list one after another, in the largest blocks that they make.
    fn free_run(&mut self, context: &mut Context<'_>, mut run: Run) {
        while let Some((frame, order)) = run.next_part() {
            let rest = Run::upward(frame.offset(1), order.frames() as u32 - 1);
            context.table.set_run_inside(&rest);
            self.free_cached(context, frame, order);
            context.counts.pcp_drained += order.frames() - 1;
        }
    }

    /// Frees a block that left a per-CPU list, to the list of the type it had when it came there.
    #[inline]
    fn free_cached(&mut self, context: &mut Context<'_>, frame: Frame, order: Order) {
        let stored = MigrateType::ALL[usize::from(context.table.list(frame))];
        let follows_block = self.has_isolated || context.config.hygiene;
        let migrate_type = if follows_block { context.blocks.get(frame) } else { stored };
        context.table.set_inside(frame);
        self.free_one(context, frame, order, migrate_type, None);
        context.counts.pcp_drained += 1;
    }

    /// Compares the lists with their counts and with the table.
    ///
    /// # Panics
    /// If they contradict each other.
    pub(super) fn validate_per_cpu(&self, table: &FrameTable) {
        for pages in &self.per_cpu {
            let mut count = 0;
            for (list, blocks) in pages.lists.iter().enumerate() {
                for &frame in blocks {
                    assert!(self.zone.contains(frame), "{frame:?} is of another zone");
                    assert_eq!(table.state(frame), State::Cached, "{frame:?}");
                    assert_eq!(table.order(frame), order_of(list), "{frame:?}");
                    let stored = MigrateType::ALL[usize::from(table.list(frame))];
                    let alike = list_of(stored, order_of(list)) == list;
                    // A block that a movable request takes from an area keeps the area's type.
                    assert!(alike, "{frame:?} of type {stored} on list {list}");
                    count += table.order(frame).frames();
                }
            }
            assert_eq!(count, u64::from(pages.count), "frames on a per-CPU list");
        }
    }
}

/// The frames in a row and of one type that begin with `first`, which has just left the tail of
/// `list`; up to `more` of them leave it as well.
fn run_at_tail(table: &FrameTable, first: Frame, list: &mut VecDeque<Frame>, more: i64) -> Run {
    let mut run = Run::of(first);
    let stored = table.list(first);
    while i64::from(run.frames()) <= more
        && let Some(&frame) = list.back()
        && table.list(frame) == stored
        && run.extend(frame)
    {
        list.pop_back();
        fetch_ahead(table, list);
    }
    run
}

/// Has the host fetch what draining the next blocks from a list's tail will touch: they have lain
/// there for long, and each takes a few misses of its own.
#[inline]
fn fetch_ahead(table: &FrameTable, list: &VecDeque<Frame>) {
    let from_tail = |distance: usize| {
        let at = list.len().checked_sub(distance)?;
        // The neighbors of the previous frame are already in the cache.
        let before = list.get(at + 1).copied().unwrap_or(Frame::NONE);
        Some(list[at]).filter(|frame| !frame.shares_line(before))
    };
    if let Some(frame) = from_tail(24) {
        table.prefetch_frame(frame);
    }
    if let Some(frame) = from_tail(16) {
        table.prefetch_buddies(frame);
    }
    if let Some(frame) = from_tail(8) {
        table.prefetch_neighbors(frame);
    }
}

impl PerCpuPages {
    /// The number of frames to drain (`nr_pcp_free`): a batch, twice as many each time nothing was
    /// allocated in between, and always leaving a batch.
    fn frames_to_free(&mut self, high: u32, batch: u32) -> u32 {
        if high < batch {
            return 1;
        }
        let most = high - batch;
        let scaled = batch.saturating_mul(1 << self.free_factor);
        if scaled < most && self.free_factor < BATCH_SCALE_MAX {
            self.free_factor += 1;
        }
        scaled.max(batch).min(most)
    }
}
