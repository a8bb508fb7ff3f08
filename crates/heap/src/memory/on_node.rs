//! The memory of one NUMA node.

use super::Memory;
use super::node::{Node, NodeMap};
use crate::units::{HugePages, HugeRange, PageRange};

/// Memory whose reservations all belong to one node: each range is bound to the node and noted in
/// the map once, before any of it is used.
#[derive(Debug)]
pub struct OnNode<M> {
    memory: M,
    placement: Option<Placement>,
}

/// Where reservations are placed.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    /// The node.
    pub node: Node,
    /// The kernel's number of the node to bind ranges to; `None` leaves that to the first touch.
    pub number: Option<u32>,
    /// Binds a range to the node of a number.
    pub bind: fn(HugeRange, u32),
    /// The map of nodes.
    pub map: &'static NodeMap,
}

impl<M> OnNode<M> {
    /// Memory of a machine of one node.
    pub const fn anywhere(memory: M) -> OnNode<M> {
        OnNode { memory, placement: None }
    }

    /// Memory of a node.
    pub const fn at(memory: M, placement: Placement) -> OnNode<M> {
        OnNode { memory, placement: Some(placement) }
    }
}

impl<M: Memory> Memory for OnNode<M> {
    type Storage = M::Storage;

    fn reserve(&mut self, len: HugePages) -> Option<HugeRange> {
        let range = self.memory.reserve(len)?;
        if let Some(Placement { node, number, bind, map }) = self.placement {
            if let Some(number) = number {
                bind(range, number);
            }
            map.note(range, node);
        }
        Some(range)
    }

    fn back(&mut self, range: HugeRange) {
        self.memory.back(range);
    }

    fn release(&mut self, range: PageRange) -> bool {
        self.memory.release(range)
    }

    fn unreserve(&mut self, range: HugeRange) -> bool {
        self.memory.unreserve(range)
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::super::CountingMemory;
    use super::*;
    use crate::storage::Mapped;

    static BOUND: AtomicU64 = AtomicU64::new(0);
    static MAP: NodeMap = NodeMap::new();

    fn bind(range: HugeRange, number: u32) {
        assert_eq!(number, 7);
        BOUND.fetch_add(range.len.0, Relaxed);
    }

    #[test]
    fn each_reservation_is_bound_and_noted_once() {
        assert!(MAP.set_up::<Mapped>());
        let node = Node::all(2).last().unwrap();
        let placement = Placement { node, number: Some(7), bind, map: &MAP };
        let mut memory = OnNode::at(CountingMemory::limited(HugePages(5)), placement);
        let range = memory.reserve(HugePages(3)).unwrap();
        assert_eq!(memory.reserve(HugePages(9)), None);
        assert_eq!(BOUND.load(Relaxed), 3);
        assert_eq!(MAP.of(range.end().address() - 1), node);
        assert_eq!(MAP.of(range.end().address()), Node::FIRST);
    }
}
