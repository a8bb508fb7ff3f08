//! 1 GiB pages while the machine runs: a range is emptied by migration, and allocated whole
//! (`alloc_contig_pages`, `alloc_contig_range`).
//!
//! No free list has blocks of that size. Ranges are tried from the highest zone down, each from its
//! end; one that contains anything which cannot be moved is passed over. Pages of the range are
//! moved elsewhere one by one, and its free blocks are taken off their lists first, so that they
//! cannot be allocated meanwhile.

use std::time::Duration;

use prairie_frames::placement::{Request, gfp};
use prairie_frames::table::State;
use prairie_frames::{Frame, MigrateType, Mobility, Order, ZoneKind};

use super::Machine;
use super::page::{Flags, PageId, Use};
use prairie_model::allocator::MachinePlacement;

/// Isolated blocks of a range: off the free lists and not in use.
type IsolatedRange = Vec<(Frame, Order)>;

impl Machine {
    /// One attempt at a page of 1 GiB from outside, as [`Machine::allocate_huge`] is one at a huge
    /// page: how long it took, if there was one. It is kept until [`Machine::free_gigantic`].
    pub fn attempt_gigantic(&mut self) -> Option<Duration> {
        let found = self.allocate_gigantic();
        let waited = self.slice.wait_until_ns.saturating_sub(self.clock.now_ns());
        found.then(|| Duration::from_nanos(self.slice.spent_ns + waited))
    }

    /// A page of 1 GiB, which is kept until [`Machine::free_gigantic`]; whether there was one. Only
    /// Linux's allocator does it.
    pub fn allocate_gigantic(&mut self) -> bool {
        self.slice = super::Slice::default();
        if !matches!(self.memory.placement, MachinePlacement::Linux(_)) {
            return false;
        }
        let order = Order::GIGANTIC;
        let zones = self.memory.layout.zonelist(0, ZoneKind::Movable);
        for zone in zones {
            let span = &self.memory.layout.zones()[zone];
            if span.interleaved {
                continue;
            }
            let first = u64::from(span.start.0).next_multiple_of(order.frames());
            let end = u64::from(span.end.0);
            let starts = (first..).step_by(order.frames() as usize);
            let starts: Vec<u64> = starts.take_while(|at| at + order.frames() <= end).collect();
            for start in starts.into_iter().rev() {
                let start = Frame(start as u32);
                if self.is_movable_range(start, order) && self.take_range(start, order) {
                    return true;
                }
            }
        }
        false
    }

    /// Frees 1 GiB pages until at most `keep` are left.
    pub fn free_gigantic(&mut self, keep: usize) {
        self.slice = super::Slice::default();
        for id in self.gigantic.split_off(keep.min(self.gigantic.len())) {
            self.free(id);
        }
    }

    /// Whether nothing in a range is known to stay where it is (`pfn_range_valid_contig`,
    /// `has_unmovable_pages`).
    fn is_movable_range(&self, start: Frame, order: Order) -> bool {
        let first = start.pageblock();
        let blocks = (order.frames() >> Order::HUGE.get()) as usize;
        let counts = &self.memory.table.blocks()[first..first + blocks];
        let can_move = counts.iter().all(|b| b.is_whole() && b.unmovable == 0 && b.unknown == 0);
        // Linux 6.1 and 6.12 put no such page into the movable zone.
        let zones = self.memory.layout.zones();
        let is_kernels = |block: usize| {
            let zone = self.memory.placement.zone_at(Frame((block << Order::HUGE.get()) as u32));
            zone.is_none_or(|zone| !zones[zone].interleaved)
        };
        can_move && (first..first + blocks).all(is_kernels)
    }

    /// Empties a range and makes one page of it, or leaves it to its users.
    fn take_range(&mut self, start: Frame, order: Order) -> bool {
        self.memory.placement.drain(&mut self.memory.table);
        let end = start.offset(order.frames());
        self.memory.placement.give_up(&mut self.memory.table, start..end);
        let mut taken = IsolatedRange::new();
        let emptied = self.empty_range(start, end, &mut taken);
        if !emptied {
            for (frame, order) in taken {
                self.memory.placement.give_block(&mut self.memory.table, frame, order);
            }
            return false;
        }
        let id = self.memory.pages.begin(order, true);
        let owner = self.memory.pages.owner_of(id);
        self.memory.table.allocate(start, order, Mobility::Unmovable, owner);
        self.memory.pages.set_use(id, Use::HugeTlb, 0, 0);
        self.gigantic.push(id);
        true
    }

    /// Takes what is free in a range, and moves what is not; false if something stays.
    fn empty_range(&mut self, start: Frame, end: Frame, taken: &mut IsolatedRange) -> bool {
        let mut at = start;
        // Free blocks first, so that no page of the range moves into it.
        while at < end {
            let order = self.memory.table.order(at);
            if self.memory.table.state(at) == State::Free {
                self.memory.placement.take_block(&mut self.memory.table, at);
                taken.push((at, order));
            }
            at = at.offset(order.frames());
        }
        let range = start..end;
        let mut at = start;
        let mut known = std::mem::take(taken).into_iter().peekable();
        while at < end {
            if let Some(block) = known.next_if(|&(frame, _)| frame == at) {
                taken.push(block);
                at = at.offset(block.1.frames());
                continue;
            }
            if self.memory.table.state(at) == State::Cached {
                self.memory.placement.drain(&mut self.memory.table);
            }
            let (state, order) = (self.memory.table.state(at), self.memory.table.order(at));
            let gone = match state {
                State::Allocated => {
                    let page = self.memory.page_at(at).expect("a block in use");
                    self.move_away(page, at, order, &range)
                }
                // Freed by reclaim in the meantime.
                State::Free => {
                    let whole = self.memory.placement.take_block(&mut self.memory.table, at);
                    debug_assert_eq!(whole, order);
                    true
                }
                _ => false,
            };
            if !gone {
                taken.extend(known);
                return false;
            }
            taken.push((at, order));
            at = at.offset(order.frames());
        }
        true
    }

    /// Moves one block of a page out of a range; its old place is then isolated.
    fn move_away(
        &mut self,
        page: PageId,
        from: Frame,
        order: Order,
        range: &std::ops::Range<Frame>,
    ) -> bool {
        let known = self.memory.pages[page];
        if !known.is_lru() {
            return false;
        }
        if known.flags.has(Flags::WRITEBACK) {
            self.wait_for_writeback(page);
        }
        let request = Request {
            order,
            migrate_type: MigrateType::Movable,
            mobility: Mobility::Movable,
            highest_zone: ZoneKind::Movable,
            gfp_flags: gfp::KERNEL | gfp::RETRY_MAYFAIL,
            ..Request::default()
        };
        // Reclaim may have put frames of the range back on the free lists: these will not do.
        let mut refused = Vec::new();
        let target = loop {
            match self.allocate(&request) {
                Some(id) if range.contains(&self.memory.frame(id)) => refused.push(id),
                found => break found,
            }
        };
        for id in refused {
            self.memory.give(id, self.slice.cpu);
        }
        let Some(target) = target else { return false };
        // Reclaim may have taken the page itself.
        if self.memory.table.state(from) != State::Allocated
            || self.memory.page_at(from) != Some(page)
        {
            self.memory.give(target, self.slice.cpu);
            return false;
        }
        self.relocate(from, order, target);
        true
    }

    /// Waits for the disk to have written a page, as a migration for a range does (`MIGRATE_SYNC`).
    pub(super) fn wait_for_writeback(&mut self, page: PageId) {
        let now = self.clock.now_ns();
        let done = now + self.disk.backlog_ns(now);
        self.slice.wait_until_ns = self.slice.wait_until_ns.max(done);
        self.clean(page);
    }

    /// Puts a block where another has just been allocated, whose number ends. Its old place is then
    /// isolated.
    pub(super) fn relocate(&mut self, from: Frame, order: Order, target: PageId) {
        let owner = self.memory.table.owner(from);
        let (to, mobility) = (self.memory.frame(target), self.memory.table.mobility(from));
        let super::memory::Memory { table, pages, .. } = &mut self.memory;
        table.release(to);
        pages.end(target);
        table.release(from);
        table.allocate(to, order, mobility, owner);
        let costs = &self.scenario.costs;
        self.slice.spent_ns += costs.migrate_ns + costs.copy_frame_ns * order.frames();
        self.counters.pgmigrate_success += order.frames();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::scenario;

    /// Each range has page cache under writeback: a range is available when that has ended.
    #[test]
    fn writeback_is_waited_for() {
        let text = r#"
            [machine]
            memory = "3G"
            kernel = "8M"
            [vm]
            thp = "never"
            [disk]
            bandwidth = "8G"
            [[files]]
            name = "data"
            count = 64
            size = "48M"
            [[process]]
            name = "reader"
            cpu = "2s"
            files = "data"
            read = "3G"
            [[phase]]
            name = "read"
            duration = "4s"
            run = { reader = 1 }
        "#;
        let scenario = scenario::parse(text).unwrap();
        let mut machine = Machine::new(&scenario, &"linux".parse().unwrap()).unwrap();
        machine.begin(&scenario.phases[0]);
        machine.run_for(Duration::from_secs(4));
        let pages = &machine.memory.pages;
        let cached: Vec<PageId> =
            pages.in_use().filter(|&id| pages[id].used_as == Use::File).collect();
        for id in cached.into_iter().step_by(64) {
            machine.dirty(id);
            machine.memory.pages[id].flags.set(Flags::WRITEBACK);
        }
        let now = machine.now_ns();
        let done = machine.disk.submit(now, 1 << 20) - now;
        let took = machine.attempt_gigantic().expect("the disk is waited for");
        assert!(took.as_nanos() >= u128::from(done), "{took:?}, {done} ns");
        machine.validate();
    }
}
