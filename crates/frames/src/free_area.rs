//! The binary buddy system of one range of frames: free lists by order, split and merge.
//!
//! The rules are those of `mm/page_alloc.c`: a split allocates the low half and puts each upper
//! half at the head of its list (`expand`); a freed block merges upward while its buddy is free at
//! the same order (`__free_one_page`). What a policy adds (several lists by type, what may merge,
//! head or tail) it passes in. Every operation takes time proportional to the number of orders it
//! crosses.

use core::ops::Range;

use crate::free_list::FreeList;
use crate::layout::Frame;
use crate::table::{FrameTable, State};
use crate::{Order, indices::FreeBlocks};

/// Orders that an area can have: one more than the largest order of any machine in the papers
/// (12, the POWER5 of the 2006 paper).
pub const ORDERS: usize = 13;

/// At which end of a list a freed block goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Handed out next.
    Head,
    /// Handed out last.
    Tail,
}

/// Free lists by order and by `LISTS` kinds, for the frames of one range.
#[derive(Clone, Debug)]
pub struct FreeArea<const LISTS: usize> {
    range: Range<u32>,
    largest: Order,
    lists: [[FreeList; ORDERS]; LISTS],
    /// For each kind, bit `j` is set if the list of order `j` is not empty.
    nonempty: [u16; LISTS],
    free_frames: u64,
}

impl<const LISTS: usize> FreeArea<LISTS> {
    /// An area over `range` with nothing free. Blocks are at most of order `largest`.
    ///
    /// # Panics
    /// If `largest` is not below [`ORDERS`].
    pub fn new(range: Range<Frame>, largest: Order) -> Self {
        assert!(largest.index() < ORDERS, "order {largest} is more than an area can have");
        FreeArea {
            range: range.start.0..range.end.0,
            largest,
            lists: [[FreeList::EMPTY; ORDERS]; LISTS],
            nonempty: [0; LISTS],
            free_frames: 0,
        }
    }

    /// The largest order of a block.
    pub fn largest(&self) -> Order {
        self.largest
    }

    /// Whether `frame` is of this area.
    pub fn contains(&self, frame: Frame) -> bool {
        self.range.contains(&frame.0)
    }

    /// Free frames on all lists.
    pub fn free_frames(&self) -> u64 {
        self.free_frames
    }

    /// One list.
    pub fn list(&self, order: Order, list: usize) -> &FreeList {
        &self.lists[list][order.index()]
    }

    /// Orders at which `list` holds a block: bit `j` stands for order `j`.
    pub(crate) fn occupied(&self, list: usize) -> u16 {
        self.nonempty[list]
    }

    /// Orders at which any list holds a block.
    #[inline]
    pub(crate) fn occupied_by_any(&self) -> u16 {
        self.nonempty.iter().fold(0, |all, bits| all | bits)
    }

    /// Blocks of one order on all lists.
    #[inline]
    pub fn blocks(&self, order: usize) -> u64 {
        self.lists.iter().map(|kind| u64::from(kind[order].len())).sum()
    }

    /// Free frames on `list`, over all orders. Takes a step for each order, none if there are none.
    pub(crate) fn frames_on(&self, list: usize) -> u64 {
        if self.nonempty[list] == 0 {
            return 0;
        }
        self.lists[list].iter().enumerate().map(|(j, list)| u64::from(list.len()) << j).sum()
    }

    /// Whether any list holds a block of `order` or larger.
    pub fn has_block(&self, order: Order) -> bool {
        self.occupied_by_any() >> order.get() != 0
    }

    /// The smallest order from `order` up at which `list` holds a block.
    pub(crate) fn smallest(&self, order: Order, list: usize) -> Option<Order> {
        let bits = u32::from(self.nonempty[list]) & (u32::MAX << order.get());
        if bits == 0 { None } else { Order::new(bits.trailing_zeros() as u8) }
    }

    /// Free blocks by order over all kinds of list.
    pub fn counts(&self) -> [u64; ORDERS] {
        core::array::from_fn(|order| self.blocks(order))
    }

    /// Puts a block on a list. It must be on none.
    #[inline]
    pub fn insert(
        &mut self,
        table: &mut FrameTable,
        frame: Frame,
        order: Order,
        list: usize,
        end: End,
    ) {
        debug_assert_eq!(frame.align_down(order), frame, "order {order}");
        table.set_free(frame, order, list as u8);
        let entry = &mut self.lists[list][order.index()];
        match end {
            End::Head => entry.push_front(table, frame),
            End::Tail => entry.push_back(table, frame),
        }
        self.nonempty[list] |= 1 << order.get();
        self.free_frames += order.frames();
    }

    /// Makes a free block the head of its list; what stood before it goes behind the tail.
    pub(crate) fn rotate_to(&mut self, table: &mut FrameTable, frame: Frame) {
        let (order, list) = (table.order(frame), table.list(frame));
        self.lists[usize::from(list)][order.index()].rotate_to(table, frame);
    }

    /// The block behind a free block on its list.
    pub fn after(&self, table: &FrameTable, frame: Frame) -> Option<Frame> {
        let next = table.next(frame);
        (next != Frame::NONE).then_some(next)
    }

    /// Takes a block off its list and returns its order. Its first frame is then
    /// [`State::Inside`].
    pub fn remove(&mut self, table: &mut FrameTable, frame: Frame) -> Order {
        debug_assert_eq!(table.state(frame), State::Free, "{frame:?}");
        let (order, list) = (table.order(frame), table.list(frame));
        self.detach(table, frame, order, usize::from(list));
        order
    }

    /// Takes a block off a list that it is known to be on.
    #[inline]
    fn detach(&mut self, table: &mut FrameTable, frame: Frame, order: Order, list: usize) {
        let entry = &mut self.lists[list][order.index()];
        entry.remove(table, frame);
        if entry.is_empty() {
            self.nonempty[list] &= !(1 << order.get());
        }
        table.set_inside(frame);
        self.free_frames -= order.frames();
    }

    /// Takes the first block of the smallest sufficient order from `list` and splits it down to
    /// `order` (`__rmqueue_smallest`). The remainders stay on `list`.
    #[inline]
    pub fn take_smallest(
        &mut self,
        table: &mut FrameTable,
        order: Order,
        list: usize,
    ) -> Option<Frame> {
        let found = self.smallest(order, list)?;
        let frame = self.lists[list][found.index()].front()?;
        self.detach(table, frame, found, list);
        self.expand(table, frame, found, order, list);
        Some(frame)
    }

    /// Does what [`take_smallest`](FreeArea::take_smallest) does again and again, up to `wanted`
    /// times and within the first block that it finds. Returns the first block of `order` and how
    /// many there are in a row; `None` if there is nothing.
    ///
    /// All lists between `order` and the order found are empty, so that a block is used up from its
    /// start and the rest stays in the largest blocks that fit: there is no need to split and take
    /// one by one.
    #[inline]
    pub fn take_run(
        &mut self,
        table: &mut FrameTable,
        order: Order,
        list: usize,
        wanted: u32,
    ) -> Option<(Frame, u32)> {
        let found = self.smallest(order, list)?;
        let start = self.lists[list][found.index()].front()?;
        self.detach(table, start, found, list);
        if let Some(next) = self.lists[list][found.index()].front() {
            table.prefetch_frame(next);
        }
        let taken = wanted.min(1 << (found.get() - order.get()));
        let mut offset = u64::from(taken) << order.get();
        while offset < found.frames() {
            let rest = Order::new(offset.trailing_zeros() as u8).expect("below the order found");
            self.insert(table, start.offset(offset), rest, list, End::Head);
            offset += rest.frames();
        }
        Some((start, taken))
    }

    /// Gives back the upper halves of a block of order `from` until order `to` is left
    /// (`expand`).
    #[inline]
    pub fn expand(
        &mut self,
        table: &mut FrameTable,
        frame: Frame,
        from: Order,
        to: Order,
        list: usize,
    ) {
        let mut order = from;
        while order > to {
            order = order.halved();
            self.insert(table, frame.offset(order.frames()), order, list, End::Head);
        }
    }

    /// Merges a block that is on no list with its free buddies, as far up as `may_merge(buddy,
    /// order)` allows, and returns the resulting block, which is on no list either.
    #[inline]
    pub fn merge(
        &mut self,
        table: &mut FrameTable,
        mut frame: Frame,
        mut order: Order,
        may_merge: impl Fn(&FrameTable, Frame, Order) -> bool,
    ) -> (Frame, Order) {
        while order < self.largest {
            let buddy = frame.buddy(order);
            if !self.is_free_here(table, buddy, order) || !may_merge(table, buddy, order) {
                break;
            }
            let list = table.list(buddy);
            self.detach(table, buddy, order, usize::from(list));
            frame = Frame(frame.0 & buddy.0);
            order = order.doubled();
        }
        (frame, order)
    }

    /// Whether a free block of exactly `order` starts at `frame`, in this area.
    #[inline]
    pub(crate) fn is_free_here(&self, table: &FrameTable, frame: Frame, order: Order) -> bool {
        self.contains(frame) && table.is_free_block(frame, order)
    }

    /// Compares lists, bits and totals with the frame table.
    ///
    /// # Panics
    /// If any of them contradict each other.
    pub fn validate(&self, table: &FrameTable) {
        let mut free_frames = 0;
        for (kind, by_order) in self.lists.iter().enumerate() {
            for (j, list) in by_order.iter().enumerate() {
                let order = Order::new(j as u8).expect("a small order");
                let mut len = 0;
                for frame in list.iter(table) {
                    assert!(self.contains(frame), "{frame:?} is of another area");
                    assert!(table.is_free_block(frame, order), "{frame:?} on the list of {order}");
                    assert_eq!(usize::from(table.list(frame)), kind, "{frame:?} on a foreign list");
                    len += 1;
                }
                assert_eq!(len, list.len(), "length of list {kind} of order {order}");
                assert_eq!(self.nonempty[kind] >> j & 1 == 1, len > 0, "bit of order {order}");
                free_frames += u64::from(len) << j;
            }
        }
        assert_eq!(free_frames, self.free_frames, "free frames");
        let counts = self.counts();
        assert_eq!(FreeBlocks { counts: &counts }.frames(), free_frames);
    }
}
