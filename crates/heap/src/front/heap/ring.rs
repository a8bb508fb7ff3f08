//! The heaps of several NUMA nodes, in a ring.

use core::sync::atomic::Ordering::*;

use super::{Heap, Observer};
use crate::front::span::Span;
use crate::memory::node::Node;
use crate::page_heap::PageHeap;
use crate::units::Pages;

impl<P: PageHeap, O: Observer<P>> Heap<P, O> {
    /// Opens the page map's window, before the heaps of several nodes can make room in it at once.
    /// False if memory is short.
    #[must_use]
    pub fn open_window(&self) -> bool {
        let Some((span, _)) = self.new_span(Pages::ONE, Pages::ONE, |range| Span::large(range, 0))
        else {
            return false;
        };
        // SAFETY: just made, and known to no other thread.
        unsafe { self.delete_spans(&[span]) };
        true
    }

    /// Puts another node's heap behind this one in the ring of all. Called before the other is used.
    pub fn join(&'static self, other: &'static Heap<P, O>) {
        let next = self.next.load(Relaxed);
        let next = if next.is_null() { (&raw const *self).cast_mut() } else { next };
        other.next.store(next, Relaxed);
        self.next.store((&raw const *other).cast_mut(), Release);
    }

    /// The heaps of all nodes, this one first.
    pub fn all(&self) -> impl Iterator<Item = &Heap<P, O>> {
        let mut next = Some(self);
        core::iter::from_fn(move || {
            let heap = next?;
            // SAFETY: heaps in the ring live as long as the process.
            let behind = unsafe { heap.next.load(Acquire).as_ref() };
            next = behind.filter(|&behind| !core::ptr::eq(behind, self));
            Some(heap)
        })
    }

    /// The node whose memory it hands out.
    #[inline]
    pub fn node(&self) -> Node {
        self.node
    }

    /// The kernel's number of that node.
    pub fn node_number(&self) -> u32 {
        self.number.load(Relaxed)
    }

    /// Sets the kernel's number of the node.
    pub fn set_node_number(&self, number: u32) {
        self.number.store(number, Relaxed);
    }
}
