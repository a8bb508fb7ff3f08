//! The list-based strategy of the 2006 paper: a plain model of memory, and cases worked by hand.

mod model;

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::lists::{Division, Lists, Reclaimability};
use prairie_frames::placement::{Placement, Request};
use prairie_frames::table::{Owner, mobility_of};
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Order, Pfn, ZoneKind};
use proptest::prelude::*;

use Reclaimability::{EasyRclm, KernNoRclm, KernRclm};

fn order(value: u8) -> Order {
    Order::new(value).unwrap()
}

/// One zone without watermarks, small enough that a per-CPU list holds a single frame at a time.
struct Machine {
    table: FrameTable,
    lists: Lists,
    next_owner: Owner,
}

impl Machine {
    fn new(blocks: u32, division: Division) -> Machine {
        let zone = ZoneSpan {
            node: 0,
            kind: ZoneKind::Normal,
            start: Pfn(0),
            spanned: u64::from(blocks * 1024),
            managed: u64::from(blocks * 1024),
            watermarks: Watermarks::default(),
            lowmem_reserve: [0; 6],
        };
        let layout = Layout::new(vec![zone]).unwrap();
        let mut machine = Machine {
            table: FrameTable::new(&layout),
            lists: Lists::new(&layout, Order::LARGEST_FREE, division),
            next_owner: 0,
        };
        machine.lists.boot(&mut machine.table, &layout);
        machine
    }

    fn try_allocate(&mut self, of_order: u8, migrate_type: MigrateType) -> Option<u32> {
        let order = order(of_order);
        let mobility = mobility_of(migrate_type);
        let request = Request { order, migrate_type, mobility, ..Request::default() };
        let owner = self.next_owner.next_multiple_of(order.frames() as u32);
        let frame = self.lists.allocate(&mut self.table, &request, owner)?;
        self.next_owner = owner + order.frames() as u32;
        self.lists.validate(&self.table);
        Some(frame.0)
    }

    fn allocate(&mut self, of_order: u8, migrate_type: MigrateType) -> u32 {
        self.try_allocate(of_order, migrate_type).expect("memory enough")
    }

    fn free(&mut self, frame: u32) {
        self.lists.free(&mut self.table, Frame(frame), 0);
        self.lists.validate(&self.table);
    }

    fn list(&self, of_order: u8, reclaimability: Reclaimability) -> Vec<u32> {
        let list = self.lists.free_list(&self.table, 0, order(of_order), reclaimability);
        list.map(|frame| frame.0).collect()
    }

    fn counter(&self, name: &str) -> u64 {
        self.lists.counters().iter().find(|counter| counter.name == name).unwrap().value
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn agrees_with_a_plain_model(
        steps in prop::collection::vec(model::step(10), 1..120),
        three_way in any::<bool>(),
        largest in prop::sample::select(&[10u8, 12]),
    ) {
        let layout = model::layout();
        let division = if three_way { Division::ThreeWay } else { Division::TwoWay };
        let mut lists = Lists::new(&layout, order(largest), division);
        model::exercise(&mut lists, &layout, &steps, |_, _| {});
    }
}

#[test]
fn memory_begins_on_the_kernels_lists_and_is_stolen_in_the_largest_blocks() {
    let mut machine = Machine::new(3, Division::TwoWay);
    let kernel = machine.list(10, KernNoRclm);
    assert_eq!(kernel, [2048, 1024, 0], "each freed block goes to the head");
    assert_eq!(machine.list(10, EasyRclm), [0u32; 0]);
    // The first user page steals a block of order 10 and keeps its rest.
    assert_eq!(machine.allocate(3, MigrateType::Movable), 2048);
    assert_eq!(machine.list(10, KernNoRclm), [1024, 0]);
    for of_order in 3..=9 {
        assert_eq!(machine.list(of_order, EasyRclm), [2048 + (1 << of_order)]);
        assert_eq!(machine.list(of_order, KernNoRclm), [0u32; 0]);
    }
    assert_eq!((machine.counter("stolen_by_easy"), machine.counter("claimed_by_easy")), (1, 1));
    // The next one finds its own; the kernel's pages come from the kernel's blocks.
    assert_eq!(machine.allocate(3, MigrateType::Movable), 2056);
    assert_eq!(machine.allocate(3, MigrateType::Unmovable), 1024);
    assert_eq!(machine.allocate(3, MigrateType::Reclaimable), 1032);
    assert_eq!((machine.counter("stolen_by_easy"), machine.counter("stolen_by_kernel")), (1, 0));
}

#[test]
fn a_stolen_page_carries_the_thiefs_mark_and_returns_to_its_lists() {
    let mut machine = Machine::new(1, Division::TwoWay);
    // Two halves of order 9: one easily reclaimed, one the kernel's.
    assert_eq!(machine.allocate(9, MigrateType::Movable), 0);
    assert_eq!(machine.lists.mark(Frame(511)), EasyRclm);
    assert_eq!(machine.list(9, EasyRclm), [512]);
    // The kernel has nothing of its own: it steals, and the mark of the page is its own.
    assert_eq!(machine.allocate(9, MigrateType::Unmovable), 512);
    assert_eq!(machine.counter("stolen_by_kernel"), 1);
    assert_eq!(machine.lists.mark(Frame(512)), KernNoRclm);
    machine.free(512);
    assert_eq!((machine.list(9, KernNoRclm), machine.list(9, EasyRclm)), (vec![512], vec![]));
    // Buddies merge whatever list they are on; the whole goes where the last one freed belongs.
    machine.free(0);
    assert_eq!((machine.list(10, KernNoRclm), machine.list(10, EasyRclm)), (vec![], vec![0]));
}

#[test]
fn the_rest_of_a_small_stolen_block_stays_with_its_owner() {
    // Eleven orders: from order 5 on, the thief keeps the rest.
    for (found, claimed) in [(4, 0), (5, 1)] {
        let mut machine = Machine::new(1, Division::TwoWay);
        // All memory is the kernel's; of it, only one block of order `found` stays free.
        assert_eq!(machine.allocate(9, MigrateType::Unmovable), 0);
        for of_order in found..=8 {
            machine.allocate(of_order, MigrateType::Unmovable);
        }
        let free = 512 + (1u32 << found);
        assert_eq!(machine.list(found, KernNoRclm), [free]);
        assert_eq!(machine.allocate(2, MigrateType::Movable), free);
        let heir = if claimed == 1 { EasyRclm } else { KernNoRclm };
        for of_order in 2..found {
            assert_eq!(machine.list(of_order, heir), [free + (1 << of_order)]);
        }
        let counters = (machine.counter("stolen_by_easy"), machine.counter("claimed_by_easy"));
        assert_eq!(counters, (1, claimed), "order {found}");
        // The page itself is the thief's all the same.
        machine.free(free);
        assert_eq!(machine.lists.mark(Frame(free)), EasyRclm);
    }
}

#[test]
fn kernel_pages_leak_everywhere_once_their_lists_are_empty() {
    let mut machine = Machine::new(4, Division::TwoWay);
    let easy: Vec<u32> = (0..8).map(|_| machine.allocate(9, MigrateType::Movable)).collect();
    // Every other user block is freed: 2 MiB each, on the user's lists.
    for &frame in easy.iter().step_by(2) {
        machine.free(frame);
    }
    assert_eq!(machine.list(9, EasyRclm).len(), 4);
    // Each kernel page of 256 KiB takes what it can, though all memory was the user's.
    for _ in 0..4 * 8 {
        machine.allocate(6, MigrateType::Unmovable);
    }
    assert_eq!(machine.counter("stolen_by_kernel"), 4, "a block claimed serves seven more");
    assert_eq!(machine.try_allocate(0, MigrateType::Movable), None);
    assert_eq!(machine.counter("failed"), 1);
}

#[test]
fn per_cpu_lists_keep_types_apart() {
    let mut machine = Machine::new(2, Division::TwoWay);
    let easy = machine.allocate(0, MigrateType::Movable);
    let kernel = machine.allocate(0, MigrateType::Unmovable);
    assert_ne!(easy >> 10, kernel >> 10, "from different blocks of order 10");
    machine.free(easy);
    // A single list would hand the user's page to the kernel now.
    assert_ne!(machine.allocate(0, MigrateType::Unmovable), easy);
    assert_eq!(machine.allocate(0, MigrateType::Movable), easy);
}

#[test]
fn parts_of_a_block_find_their_lists() {
    let mut machine = Machine::new(1, Division::TwoWay);
    let frame = Frame(machine.allocate(1, MigrateType::Movable));
    machine.table.split_allocated(frame);
    machine.free(frame.0 + 1);
    assert_eq!(machine.table.list(Frame(frame.0 + 1)), EasyRclm as u8);
}

#[test]
fn three_ways_keep_kernel_caches_apart_and_prefer_to_steal_from_the_kernel() {
    let mut machine = Machine::new(3, Division::ThreeWay);
    let pinned = machine.allocate(4, MigrateType::Unmovable);
    let cache = machine.allocate(4, MigrateType::Reclaimable);
    let user = machine.allocate(4, MigrateType::Movable);
    let mut blocks = [pinned >> 10, cache >> 10, user >> 10];
    blocks.sort_unstable();
    assert_eq!(blocks, [0, 1, 2], "a block of order 10 for each");
    assert_eq!(machine.lists.mark(Frame(cache)), KernRclm);
    // What is left of the kernel's own block is taken first, down to one block of order 4; then
    // the kernel's caches are stolen from, and only in the end the user's pages.
    for of_order in 5..=9 {
        assert_eq!(machine.allocate(of_order, MigrateType::Unmovable) >> 10, pinned >> 10);
    }
    assert_eq!(machine.allocate(4, MigrateType::Unmovable) >> 10, pinned >> 10);
    assert_eq!(machine.allocate(9, MigrateType::Unmovable) >> 10, cache >> 10);
    assert_eq!(machine.allocate(9, MigrateType::Unmovable) >> 10, user >> 10);
    assert_eq!(machine.counter("stolen_by_kernel"), 3, "the caches' first block is the other");
}

#[test]
fn what_was_found_in_use_is_marked_by_whether_it_can_move() {
    let zone = ZoneSpan {
        node: 0,
        kind: ZoneKind::Normal,
        start: Pfn(0),
        spanned: 1024,
        managed: 1024,
        watermarks: Watermarks::default(),
        lowmem_reserve: [0; 6],
    };
    let layout = Layout::new(vec![zone]).unwrap();
    let mut table = FrameTable::new(&layout);
    let mut lists = Lists::new(&layout, Order::LARGEST_FREE, Division::TwoWay);
    for (half, migrate_type) in [(0, MigrateType::Movable), (512, MigrateType::Unmovable)] {
        table.add_memory(Frame(half), Order::HUGE);
        table.allocate(Frame(half), Order::HUGE, mobility_of(migrate_type), half);
    }
    lists.start(&mut table);
    lists.free(&mut table, Frame(0), 0);
    assert_eq!(lists.free_list(&table, 0, Order::HUGE, EasyRclm).collect::<Vec<_>>(), [Frame(0)]);
    lists.free(&mut table, Frame(512), 0);
    let whole = lists.free_list(&table, 0, Order::LARGEST_FREE, KernNoRclm);
    assert_eq!(whole.collect::<Vec<_>>(), [Frame(0)]);
}
