//! NUMA nodes as the heap counts them, and the node of an address.

use core::alloc::Layout;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering::Relaxed};

use crate::storage::Storage;
use crate::units::{HugePages, HugeRange};

/// Page heaps at most (chosen: four sockets that are divided by four). On machines with more
/// nodes, several share one.
pub const MAX_NODES: usize = 16;

/// The number of a node, from 0, among those that the process may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Node(u8);

impl Node {
    /// The first node: the only one on most machines.
    pub const FIRST: Node = Node(0);

    /// The node of a number below [`MAX_NODES`].
    pub const fn new(number: usize) -> Option<Node> {
        if number < MAX_NODES { Some(Node(number as u8)) } else { None }
    }

    /// All nodes of a machine with `count`, at most [`MAX_NODES`].
    pub fn all(count: usize) -> impl Iterator<Item = Node> {
        (0..count.min(MAX_NODES) as u8).map(Node)
    }

    /// The number as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which nodes there are, and which CPU belongs to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// The machine's: numbers of its nodes, rising.
    Machine {
        /// Numbers of the first nodes that the process may use, as the kernel counts them.
        numbers: [u16; MAX_NODES],
        /// Nodes that the process may use, perhaps more than have numbers here.
        allowed: usize,
    },
    /// For tests on machines of one node: CPUs belong to `count` nodes in turn.
    InTurn {
        /// Number of nodes, at most [`MAX_NODES`].
        count: usize,
    },
}

impl Topology {
    /// One node, about which nothing is known.
    pub const ONE: Topology = Topology::InTurn { count: 1 };

    /// The nodes of a mask: a bit for each node that the process may use.
    pub fn of_mask(mask: &[u64]) -> Topology {
        let (mut numbers, mut allowed) = ([0; MAX_NODES], 0);
        for number in 0..mask.len() * 64 {
            if mask[number / 64] >> (number % 64) & 1 == 1 {
                if let Some(place) = numbers.get_mut(allowed) {
                    *place = number as u16;
                }
                allowed += 1;
            }
        }
        Topology::Machine { numbers, allowed }
    }

    /// The number of page heaps.
    pub fn count(&self) -> usize {
        match *self {
            Topology::Machine { allowed, .. } => allowed.clamp(1, MAX_NODES),
            Topology::InTurn { count } => count.clamp(1, MAX_NODES),
        }
    }

    /// The node of a CPU, given the kernel's number of its node. A node that has no page heap (it
    /// has no memory, a cpuset forbids it, or there are too many) shares that of another, by its
    /// number.
    pub fn node_of(&self, cpu: u32, number: u32) -> Node {
        let count = self.count();
        let index = match self {
            Topology::Machine { numbers, .. } => {
                let known = numbers[..count].iter().position(|&known| u32::from(known) == number);
                known.unwrap_or(number as usize % count)
            }
            Topology::InTurn { .. } => cpu as usize % count,
        };
        Node(index as u8)
    }

    /// The kernel's number of the node whose memory a page heap gets. `None` if that is left to the
    /// first touch: if nodes share page heaps, and in tests.
    pub fn number_of(&self, node: Node) -> Option<u32> {
        match self {
            Topology::Machine { numbers, allowed } if *allowed <= MAX_NODES => {
                Some(numbers[node.index()].into())
            }
            _ => None,
        }
    }
}

/// Bits of an address that programs can have, on all architectures of this crate.
const ADDRESS_BITS: u32 = 48;
const ENTRIES: usize = 1 << (ADDRESS_BITS - HugePages::SHIFT);

/// The node of each huge page of the address space: a byte each, found with one load and without
/// touching an object. 128 MiB of address space, resident as far as it was written: a page covers
/// 8 GiB. It has no bytes while there is one node.
#[derive(Debug)]
pub struct NodeMap(AtomicPtr<AtomicU8>);

impl NodeMap {
    /// A map of a machine of one node.
    pub const fn new() -> NodeMap {
        NodeMap(AtomicPtr::new(null_mut()))
    }

    /// Makes room for several nodes. False if there is no storage. Called once, before anything is
    /// reserved.
    #[must_use]
    pub fn set_up<S: Storage>(&self) -> bool {
        let layout = Layout::new::<[AtomicU8; ENTRIES]>();
        let Some(bytes) = S::take(layout) else { return false };
        self.0.store(bytes.as_ptr().cast(), Relaxed);
        true
    }

    /// Notes the node of a range that was just reserved.
    pub fn note(&self, range: HugeRange, node: Node) {
        for huge_page in range.start.0..range.end().0 {
            if let Some(byte) = self.byte(huge_page) {
                byte.store(node.0, Relaxed);
            }
        }
    }

    /// The node of an address; the first one if it is not of the heap. O(1).
    #[inline]
    pub fn of(&self, address: u64) -> Node {
        let byte = self.byte(address >> HugePages::SHIFT);
        byte.map_or(Node::FIRST, |byte| Node(byte.load(Relaxed)))
    }

    #[inline]
    fn byte(&self, huge_page: u64) -> Option<&AtomicU8> {
        let bytes = self.0.load(Relaxed);
        if bytes.is_null() || huge_page >= ENTRIES as u64 {
            return None;
        }
        // SAFETY: one of `ENTRIES` bytes, which were taken for good.
        Some(unsafe { &*bytes.add(huge_page as usize) })
    }
}

impl Default for NodeMap {
    fn default() -> Self {
        NodeMap::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Mapped;
    use crate::units::HugePageId;

    #[test]
    fn nodes_of_a_machine_are_numbered_without_gaps() {
        let topology = Topology::of_mask(&[0b1001, 0, 1 << 5]);
        assert_eq!(topology.count(), 3);
        let numbers: Vec<_> = Node::all(3).map(|node| topology.number_of(node)).collect();
        assert_eq!(numbers, [Some(0), Some(3), Some(133)]);
        let nodes = [0, 3, 133].map(|number| topology.node_of(7, number).index());
        assert_eq!(nodes, [0, 1, 2]);
        // Nodes without memory, and forbidden ones.
        assert_eq!([1, 2, 8].map(|number| topology.node_of(7, number).index()), [1, 2, 2]);
    }

    #[test]
    fn one_node_or_none_is_one() {
        for mask in [[0u64], [1], [1 << 9]] {
            let topology = Topology::of_mask(&mask);
            assert_eq!((topology.count(), topology.node_of(3, 1)), (1, Node::FIRST));
        }
        assert_eq!((Topology::ONE.count(), Topology::ONE.number_of(Node::FIRST)), (1, None));
    }

    #[test]
    fn too_many_nodes_share_page_heaps_that_are_not_bound() {
        let topology = Topology::of_mask(&[(1 << 40) - 1]);
        assert_eq!(topology.count(), MAX_NODES);
        assert_eq!(topology.node_of(0, 39).index(), 39 % MAX_NODES);
        assert_eq!(topology.number_of(Node::FIRST), None);
    }

    #[test]
    fn an_address_has_the_node_of_its_range() {
        let map = NodeMap::new();
        let second = Node(1);
        let range = HugeRange { start: HugePageId(100), len: HugePages(3) };
        map.note(range, second);
        assert_eq!(map.of(101 << 21), Node::FIRST, "one node");
        assert!(map.set_up::<Mapped>());
        map.note(range, second);
        assert_eq!([100, 102].map(|page| map.of((page << 21) + 5)), [second; 2]);
        assert_eq!([99, 103].map(|page| map.of(page << 21)), [Node::FIRST; 2]);
        assert_eq!(map.of(u64::MAX), Node::FIRST);
    }
}
