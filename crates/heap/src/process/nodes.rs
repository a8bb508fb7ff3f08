//! The heaps of the NUMA nodes.
//!
//! A machine of one node has the heap of [`shared`](super::shared) and nothing of this. Where there
//! are several, each node has a heap of its own: a thread allocates from that of the node that it
//! runs on, and an object goes back to that of its address.

use core::alloc::Layout;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

use super::shared::{HEAP, ProcessHeap};
use crate::front::choice::PageHeapChoice;
use crate::front::control::CONTROL;
use crate::front::cpu::CpuCaches;
use crate::front::heap::{ClassTable, Heap};
use crate::front::page_map::Reach;
use crate::memory::node::{MAX_NODES, Node, NodeMap, Topology};
use crate::memory::{OnNode, Placement, SystemMemory};
use crate::numa;
use crate::storage::{Mapped, Storage};

/// How many heaps there are besides the first one.
static OTHERS: AtomicUsize = AtomicUsize::new(0);
/// The heaps of nodes other than the first.
static HEAPS: [AtomicPtr<ProcessHeap>; MAX_NODES] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_NODES];
/// The topology, if there are several nodes.
static TOPOLOGY: AtomicPtr<Topology> = AtomicPtr::new(core::ptr::null_mut());
static MAP: NodeMap = NodeMap::new();

/// Whether there are several nodes.
#[inline]
pub fn are_several() -> bool {
    OTHERS.load(Relaxed) != 0
}

/// The number of heaps.
pub fn count() -> usize {
    1 + OTHERS.load(Relaxed)
}

/// The topology.
pub fn topology() -> &'static Topology {
    // SAFETY: stored once, in storage that is never given back.
    unsafe { TOPOLOGY.load(Acquire).as_ref() }.unwrap_or(&Topology::ONE)
}

/// The heap of a node.
#[inline]
pub fn heap(node: Node) -> &'static ProcessHeap {
    // SAFETY: heaps live as long as the process.
    unsafe { HEAPS[node.index()].load(Acquire).as_ref() }.unwrap_or(&HEAP)
}

/// The node of an address.
#[inline]
pub fn of(object: *mut u8) -> Node {
    MAP.of(object as u64)
}

/// The heap that an object belongs to.
#[inline]
pub fn heap_of(object: *mut u8) -> &'static ProcessHeap {
    if are_several() { heap(of(object)) } else { &HEAP }
}

/// The heap that the thread allocates from.
pub fn heap_here() -> &'static ProcessHeap {
    if are_several() { heap(here()) } else { &HEAP }
}

/// The node of the CPU that the thread runs on. There are several nodes.
pub fn here() -> Node {
    // SAFETY: several nodes are set up only where an area is registered.
    unsafe { CpuCaches::at(&CONTROL.rseq_offset) }.node_here(topology())
}

/// The caches for objects of a node, if the thread can use them. There are several nodes.
pub fn caches(node: Node) -> Option<CpuCaches> {
    // SAFETY: as above, and the tables were made with the heaps.
    let caches = unsafe { CpuCaches::of_node(&CONTROL.rseq_offset, node) };
    caches.make_slab_of::<Mapped>(node, topology()).then_some(caches)
}

/// The memory of a node; without bounds on a machine of one node.
pub fn memory(topology: &Topology, node: Node) -> OnNode<SystemMemory> {
    let memory = SystemMemory::new();
    if topology.count() == 1 {
        return OnNode::anywhere(memory);
    }
    let number = topology.number_of(node);
    OnNode::at(memory, Placement { node, number, bind: numa::prefer, map: &MAP })
}

/// Makes room to tell nodes apart. False if there is no storage.
pub fn set_up_map() -> bool {
    MAP.set_up::<Mapped>()
}

/// Sets up the heaps of all nodes but the first, whose heap is set up, and whose memory notes its
/// node. Without storage for all of them, the first one serves all. Called once, before anything is
/// allocated.
// Apart, as a process with one node should not have the stack of this resident.
#[cold]
#[inline(never)]
pub fn set_up(topology: Topology, choice: PageHeapChoice, reach: Reach) {
    let count = topology.count();
    let Some(place) = forever(topology) else { return };
    for node in Node::all(count).skip(1) {
        let Some(heap) = new_heap(&topology, node, choice, reach) else { return };
        HEAPS[node.index()].store((&raw const *heap).cast_mut(), Release);
    }
    if !HEAP.open_window() || !CpuCaches::set_up_nodes::<Mapped>(count) {
        return;
    }
    TOPOLOGY.store((&raw const *place).cast_mut(), Release);
    for node in Node::all(count) {
        heap(node).set_node_number(topology.number_of(node).unwrap_or(node.index() as u32));
    }
    // From the last to the second, as each goes right behind the first.
    (1..count).rev().filter_map(Node::new).for_each(|node| HEAP.join(heap(node)));
    OTHERS.store(count - 1, Release);
}

fn new_heap(
    topology: &Topology,
    node: Node,
    choice: PageHeapChoice,
    reach: Reach,
) -> Option<&'static ProcessHeap> {
    let classes = Mapped::take(Layout::new::<ClassTable>())?.cast::<ClassTable>();
    // SAFETY: zeroed storage for good; levels that hold nothing are all zeros.
    let heap = forever(Heap::beside(&HEAP, unsafe { classes.as_ref() }, node))?;
    heap.set_up(choice.make(memory(topology, node))?, reach);
    Some(heap)
}

/// Keeps a value for as long as the process lives.
fn forever<T>(value: T) -> Option<&'static T> {
    let place = Mapped::take(Layout::new::<T>())?.cast::<T>();
    // SAFETY: storage of the value's layout, which is never given back.
    unsafe {
        place.write(value);
        Some(place.as_ref())
    }
}
