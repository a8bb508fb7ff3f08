//! A memory shared with an observer.

use std::cell::RefCell;
use std::rc::Rc;

use super::Memory;
use crate::units::{HugePages, HugeRange, PageRange};

/// A memory that the page heap uses while another observes it: playback touches what the page heap
/// hands out, and tests make the memory refuse.
#[derive(Debug, Default)]
pub struct Shared<M>(Rc<RefCell<M>>);

impl<M> Shared<M> {
    /// Shares a memory.
    pub fn new(memory: M) -> Shared<M> {
        Shared(Rc::new(RefCell::new(memory)))
    }

    /// The memory, for as long as `act` takes.
    #[inline]
    pub fn with<T>(&self, act: impl FnOnce(&mut M) -> T) -> T {
        act(&mut self.0.borrow_mut())
    }
}

impl<M> Clone for Shared<M> {
    fn clone(&self) -> Self {
        Shared(Rc::clone(&self.0))
    }
}

impl<M: Memory> Memory for Shared<M> {
    type Storage = M::Storage;

    fn reserve(&mut self, len: HugePages) -> Option<HugeRange> {
        self.with(|memory| memory.reserve(len))
    }

    fn back(&mut self, range: HugeRange) {
        self.with(|memory| memory.back(range))
    }

    fn release(&mut self, range: PageRange) -> bool {
        self.with(|memory| memory.release(range))
    }

    fn unreserve(&mut self, range: HugeRange) -> bool {
        self.with(|memory| memory.unreserve(range))
    }
}
