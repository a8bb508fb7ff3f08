//! Taking sections of memory offline (`offline_pages`): every page in them is reclaimed, or moved
//! elsewhere where the system can move pages.

use prairie_frames::table::State;
use prairie_frames::{Frame, Mobility, Order};

use super::Machine;
use super::page::{Flags, PageId, Use};

impl Machine {
    /// Tries to offline each aligned section of `order` and restores all at the end; returns the
    /// number of sections and of successes.
    pub fn offline_sections(&mut self, order: Order) -> (u64, u64) {
        self.slice = super::Slice::default();
        self.memory.placement.drain(&mut self.memory.table);
        let (mut sections, mut taken) = (0, Vec::new());
        for zone in 0..self.memory.layout.zones().len() {
            let (start, end) = {
                let zone = &self.memory.layout.zones()[zone];
                if zone.interleaved {
                    continue;
                }
                (zone.start, zone.end)
            };
            let mut at = Frame(start.0.next_multiple_of(order.frames() as u32));
            while at.offset(order.frames()) <= end {
                sections += 1;
                if self.offline(at, order) {
                    taken.push(at);
                }
                at = at.offset(order.frames());
            }
        }
        let offlined = taken.len() as u64;
        for section in taken {
            for block in 0..order.frames() >> Order::LARGEST_FREE.get() {
                let frame = section.offset(block << Order::LARGEST_FREE.get());
                self.memory.placement.give_block(
                    &mut self.memory.table,
                    frame,
                    Order::LARGEST_FREE,
                );
            }
        }
        (sections, offlined)
    }

    /// Empties a section and takes it off the free lists; if that fails, what was emptied stays
    /// free.
    fn offline(&mut self, section: Frame, order: Order) -> bool {
        let blocks = (order.frames() >> Order::HUGE.get()) as usize;
        let counts = &self.memory.table.blocks()[section.pageblock()..section.pageblock() + blocks];
        if counts.iter().any(|block| block.unmovable > 0 || !block.is_whole()) {
            return false;
        }
        let end = section.offset(order.frames());
        self.memory.placement.give_up(&mut self.memory.table, section..end);
        let mut at = section;
        while at < end {
            if self.memory.table.state(at) == State::Allocated {
                let id = self.memory.page_at(at).expect("a block in use");
                let next = at.offset(self.memory.table.order(at).frames());
                if !self.move_out(id) {
                    return false;
                }
                at = next;
            } else {
                at = at.offset(self.memory.table.order(at).frames());
            }
        }
        self.memory.placement.drain(&mut self.memory.table);
        self.take_free(section, end)
    }

    /// Gets a page out of the way for good: to the disk or to swap.
    fn move_out(&mut self, id: PageId) -> bool {
        let page = self.memory.pages[id];
        let fits = page.used_as != Use::Anonymous || self.swap.available() >= page.frames();
        if !page.is_lru() || !fits {
            return false;
        }
        let Some(lists) = self.lru.remove(&mut self.memory.pages, id) else { return false };
        if page.flags.has(Flags::DIRTY) {
            // Written now, and waited for.
            let done = self.disk.submit(self.clock.now_ns(), page.frames());
            self.slice.wait_until_ns = self.slice.wait_until_ns.max(done);
            self.clean(id);
        }
        self.evict(lists, id);
        true
    }

    /// Takes all free blocks of a range off their lists. False, and nothing taken, if not all of
    /// it is free.
    fn take_free(&mut self, start: Frame, end: Frame) -> bool {
        let all_free = {
            let blocks = &self.memory.table.blocks()[start.pageblock()..end.pageblock()];
            blocks.iter().all(|block| block.free == prairie_frames::BlockCounts::FRAMES)
        };
        if !all_free {
            return false;
        }
        let mut at = start;
        while at < end {
            debug_assert_eq!(self.memory.table.mobility(at), Mobility::Free);
            let order = self.memory.placement.take_block(&mut self.memory.table, at);
            at = at.offset(order.frames());
        }
        true
    }
}
