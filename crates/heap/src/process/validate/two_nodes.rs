//! Heaps of two NUMA nodes that the machine need not have: the topology and the binding of memory
//! are passed in.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use proptest::prelude::*;

use crate::front::cache::{Cache, Lower, Stacks};
use crate::front::choice::SystemClock;
use crate::front::heap::{ClassTable, Heap, Tables};
use crate::front::page_map::Reach;
use crate::front::size_class::SizeClass;
use crate::front::slab::Slab;
use crate::front::thread::ThreadStacks;
use crate::front::thread::tests::stacks_of_nobody;
use crate::memory::node::{Node, NodeMap, Topology};
use crate::memory::{OnNode, Placement, SystemMemory};
use crate::page_heap::Temeraire;
use crate::storage::Mapped;
use crate::units::{HugeRange, PageId, Pages};

type TestHeap = Heap<Temeraire<OnNode<SystemMemory>, SystemClock>>;

/// CPUs of the machine, as many on either node.
const CPUS: usize = 4;
/// The kernel's numbers of the nodes.
const NUMBERS: [u32; 2] = [0, 2];
/// Huge pages bound to either node, by all tests of the process.
static BOUND: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

fn bind(range: HugeRange, number: u32) {
    let node = NUMBERS.iter().position(|&known| known == number).expect("a node that there is");
    BOUND[node].fetch_add(range.len.0, Relaxed);
}

/// Two heaps, and for each CPU the caches for the objects of either.
struct Machine {
    map: &'static NodeMap,
    heaps: [&'static TestHeap; 2],
    caches: [[ThreadStacks; 2]; CPUS],
}

impl Machine {
    fn new() -> Machine {
        let map: &NodeMap = Box::leak(Box::new(NodeMap::new()));
        assert!(map.set_up::<Mapped>());
        // SAFETY: tables are made of integers, pointers and options, for which zero is valid.
        let tables: &Tables = Box::leak(unsafe { Box::<Tables>::new_zeroed().assume_init() });
        // SAFETY: as above.
        let classes: &ClassTable = Box::leak(unsafe { Box::new_zeroed().assume_init() });
        let first: &TestHeap = Box::leak(Box::new(Heap::new(tables)));
        let second = Heap::beside(first, classes, Node::new(1).unwrap());
        let heaps = [first, Box::leak(Box::new(second))];
        for heap in heaps {
            let node = heap.node();
            let number = Machine::topology().number_of(node);
            let memory = OnNode::at(SystemMemory::new(), Placement { node, number, bind, map });
            let page_heap = Temeraire::new(memory, SystemClock).unwrap();
            heap.set_up(page_heap, Reach { down: 1, up: 1 });
        }
        assert!(first.open_window());
        first.join(heaps[1]);
        let caches = [(); CPUS].map(|()| [stacks_of_nobody(), stacks_of_nobody()]);
        Machine { map, heaps, caches }
    }

    /// Nodes 0 and 2 of four.
    fn topology() -> Topology {
        Topology::of_mask(&[0b101])
    }

    /// The node of a CPU: CPUs 0 and 1 are on node 0, 2 and 3 on node 2.
    fn node_of(cpu: usize) -> Node {
        Machine::topology().node_of(cpu as u32, NUMBERS[cpu / 2])
    }

    /// The cache of a CPU for objects of a node.
    fn cache(&self, cpu: usize, node: Node) -> Cache<'_, &ThreadStacks, TestHeap> {
        let (stacks, lower) = (&self.caches[cpu][node.index()], self.heaps[node.index()]);
        Cache { stacks, lower, budget: 2 << 20 }
    }

    fn allocate(&self, cpu: usize, size: usize) -> (*mut u8, Option<SizeClass>) {
        let node = Machine::node_of(cpu);
        let class = SizeClass::of_size(size);
        let object = match class {
            Some(class) => self.cache(cpu, node).allocate(class),
            None => self.heaps[node.index()].allocate_large(size, 16, None).unwrap().start,
        };
        assert!(!object.is_null());
        assert_eq!(self.map.of(object as u64), node);
        (object, class)
    }

    fn free(&self, cpu: usize, (object, class): (*mut u8, Option<SizeClass>)) {
        let node = self.map.of(object as u64);
        let heap = self.heaps[node.index()];
        match class {
            Some(class) => self.cache(cpu, node).free(class, object),
            None => {
                let span = heap.page_map().span(PageId::containing(object as u64));
                // SAFETY: the span of an object that is live, and used by this thread alone.
                unsafe { heap.free_large(span) };
            }
        }
    }

    /// What a decline of the heap does: all caches give up what they hold, to the heap of its node.
    fn drain(&self) {
        for cpu in 0..CPUS {
            self.heaps.iter().for_each(|heap| self.cache(cpu, heap.node()).drain());
        }
        self.heaps.iter().for_each(|heap| heap.empty_transfers(|cache| cache.len()));
    }

    fn slabs(&self, node: Node) -> impl Iterator<Item = &Slab> {
        self.caches.iter().filter_map(move |caches| caches[node.index()].slab())
    }

    fn validate(&self) -> Result<(), String> {
        let node_of = |object: *mut u8| self.map.of(object as u64);
        self.heaps
            .iter()
            .try_for_each(|heap| super::heap(heap, node_of, || self.slabs(heap.node())))
    }

    fn reserved(&self) -> [u64; 2] {
        self.heaps.map(|heap| {
            let state = heap.page_state(|page_heap| page_heap.components().huge_allocator);
            state.unwrap().1.reserved_huge_pages.0
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    /// Whatever CPUs allocate and free crosswise, each level holds what lies on its node.
    #[test]
    fn objects_go_back_to_their_node(
        steps in prop::collection::vec((0..8u8, 0..CPUS, 1..60_000usize, 1..40usize), 1..60)
    ) {
        let machine = Machine::new();
        let mut held = Vec::new();
        for (step, cpu, size, count) in steps {
            match step {
                0 => machine.drain(),
                1 => held.push(machine.allocate(cpu, size * count)),
                2..5 => held.extend((0..count).map(|_| machine.allocate(cpu, size))),
                _ => {
                    let kept = held.len().saturating_sub(3 * count);
                    held.drain(kept..).for_each(|object| machine.free(cpu, object));
                }
            }
            prop_assert_eq!(machine.validate(), Ok(()));
        }
        held.drain(..).for_each(|object| machine.free(0, object));
        machine.drain();
        prop_assert_eq!(machine.validate(), Ok(()));
        prop_assert!(machine.heaps.iter().all(|heap| heap.live_pages() == Pages::ZERO));
    }
}

#[test]
fn each_reservation_is_bound_to_its_node() {
    let before = [0, 1].map(|node| BOUND[node].load(Relaxed));
    let machine = Machine::new();
    machine.allocate(0, 100 << 20);
    machine.allocate(3, 300 << 20);
    let reserved = machine.reserved();
    assert!(reserved[0] >= 50 && reserved[1] >= 150);
    // Other tests may run beside this one.
    assert!((0..2).all(|node| BOUND[node].load(Relaxed) - before[node] >= reserved[node]));
}

#[test]
fn an_object_on_the_wrong_node_is_found() {
    let class = SizeClass::of_size(100).unwrap();
    let on_second = |machine: &Machine| machine.allocate(3, 100).0;
    let found = |machine: &Machine| {
        let error = machine.validate().unwrap_err();
        assert!(error.contains("for another node"), "{error}");
    };
    // In a cache for objects of the first node, and in its transfer cache.
    let machine = Machine::new();
    let object = on_second(&machine);
    machine.cache(3, Node::FIRST).free(class, object);
    found(&machine);
    let machine = Machine::new();
    machine.heaps[0].give(class, &[on_second(&machine)]);
    found(&machine);
    // A span in the central free list of the first node.
    let machine = Machine::new();
    let span = machine.heaps[1].page_map().span(PageId::containing(on_second(&machine) as u64));
    // SAFETY: the span lives, and this test ends with it in two lists.
    unsafe { machine.heaps[0].levels(class).central.lock().unwrap().add(span) };
    assert!(machine.validate().is_err());
}
