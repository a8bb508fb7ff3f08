//! A list of free blocks, linked through the frame table.

use crate::layout::Frame;
use crate::table::FrameTable;

/// Free blocks in the order in which they will be allocated: head first.
#[derive(Clone, Copy, Debug)]
pub struct FreeList {
    head: Frame,
    tail: Frame,
    len: u32,
}

impl FreeList {
    /// A list with nothing on it.
    pub const EMPTY: FreeList = FreeList { head: Frame::NONE, tail: Frame::NONE, len: 0 };

    /// Number of blocks.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether no block is on it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The block that would be allocated next.
    pub fn front(&self) -> Option<Frame> {
        (self.head != Frame::NONE).then_some(self.head)
    }

    /// Puts a block where it will be allocated next.
    #[inline]
    pub fn push_front(&mut self, table: &mut FrameTable, frame: Frame) {
        table.set_prev(frame, Frame::NONE);
        table.set_next(frame, self.head);
        match self.head {
            Frame::NONE => self.tail = frame,
            head => table.set_prev(head, frame),
        }
        self.head = frame;
        self.len += 1;
    }

    /// Puts a block where it will be allocated last.
    #[inline]
    pub fn push_back(&mut self, table: &mut FrameTable, frame: Frame) {
        table.set_prev(frame, self.tail);
        table.set_next(frame, Frame::NONE);
        match self.tail {
            Frame::NONE => self.head = frame,
            tail => table.set_next(tail, frame),
        }
        self.tail = frame;
        self.len += 1;
    }

    /// Removes a block from any position. The block must be on this list.
    #[inline]
    pub fn remove(&mut self, table: &mut FrameTable, frame: Frame) {
        let (prev, next) = (table.prev(frame), table.next(frame));
        match prev {
            Frame::NONE => self.head = next,
            prev => table.set_next(prev, next),
        }
        match next {
            Frame::NONE => self.tail = prev,
            next => table.set_prev(next, prev),
        }
        self.len -= 1;
    }

    /// Makes a block of this list its head; what stood before it goes behind the tail, in order.
    pub(crate) fn rotate_to(&mut self, table: &mut FrameTable, frame: Frame) {
        let last = table.prev(frame);
        if last == Frame::NONE {
            return;
        }
        table.set_next(self.tail, self.head);
        table.set_prev(self.head, self.tail);
        table.set_prev(frame, Frame::NONE);
        table.set_next(last, Frame::NONE);
        self.head = frame;
        self.tail = last;
    }

    /// The blocks from head to tail.
    pub fn iter<'a>(&self, table: &'a FrameTable) -> impl Iterator<Item = Frame> + 'a {
        let mut at = self.head;
        core::iter::from_fn(move || {
            let frame = at;
            if frame == Frame::NONE {
                return None;
            }
            at = table.next(frame);
            Some(frame)
        })
    }
}
