//! Trees by class: a plain model of memory, and cases worked by hand.

mod model;

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::classes::{Classes, Config};
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::{Placement, Request};
use prairie_frames::table::{Owner, mobility_of};
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Mobility, Order, Pfn, ZoneKind};
use proptest::prelude::*;

use MigrateType::{Movable, Reclaimable, Unmovable};

/// Frames of a tree of 32 pageblocks.
const TREE: u32 = 32 * 512;

struct Machine {
    table: FrameTable,
    placement: Classes,
    next_owner: Owner,
}

impl Machine {
    /// One zone of `trees` trees.
    fn new(trees: u32) -> Machine {
        let zone = ZoneSpan {
            node: 0,
            kind: ZoneKind::Normal,
            start: Pfn(0),
            spanned: u64::from(trees * TREE),
            managed: u64::from(trees * TREE),
            watermarks: Watermarks::default(),
            lowmem_reserve: [0; 6],
        };
        let layout = Layout::new(vec![zone]).unwrap();
        let mut machine = Machine {
            table: FrameTable::new(&layout),
            placement: Classes::new(&layout, Config::default()),
            next_owner: 0,
        };
        machine.placement.boot(&mut machine.table, &layout);
        machine
    }

    fn allocate(&mut self, of_order: u8, migrate_type: MigrateType, cpu: u16) -> Option<Owner> {
        let order = Order::new(of_order).unwrap();
        let mobility = mobility_of(migrate_type);
        let request = Request { order, migrate_type, mobility, cpu, ..Request::default() };
        let owner = self.next_owner.next_multiple_of(order.frames() as u32);
        self.placement.allocate(&mut self.table, &request, owner)?;
        self.next_owner = owner + order.frames() as u32;
        self.placement.validate(&self.table);
        Some(owner)
    }

    /// The tree of what an owner has.
    fn tree(&self, owner: Owner) -> u32 {
        self.table.block_of(owner).unwrap().0 / TREE
    }

    fn free(&mut self, owner: Owner) {
        let frame = self.table.block_of(owner).unwrap();
        self.placement.free(&mut self.table, frame, 0);
        self.placement.validate(&self.table);
    }

    fn counter(&self, name: &str) -> u64 {
        self.placement.counters().iter().find(|counter| counter.name == name).unwrap().value
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn agrees_with_a_plain_model(
        steps in prop::collection::vec(model::step(10), 1..100),
        tree in 10..=18u8,
    ) {
        let layout = model::layout();
        let config = Config { tree: Order::new(tree).unwrap() };
        model::exercise(&mut Classes::new(&layout, config), &layout, &steps, |_, _| {});
    }
}

#[test]
fn classes_and_cpus_have_trees_of_their_own() {
    let mut m = Machine::new(8);
    let kernel = m.allocate(0, Unmovable, 0).unwrap();
    let slab = m.allocate(2, Reclaimable, 0).unwrap();
    let page = m.allocate(0, Movable, 0).unwrap();
    let huge = m.allocate(9, Movable, 0).unwrap();
    let elsewhere = m.allocate(0, Unmovable, 1).unwrap();
    assert_eq!(m.tree(kernel), m.tree(slab));
    let trees = [kernel, page, huge, elsewhere].map(|owner| m.tree(owner));
    assert!((1..4).all(|i| !trees[..i].contains(&trees[i])), "{trees:?}");
    assert_eq!(m.placement.trees(), [2, 1, 1, 4]);
    // A tree is used up before the CPU goes for another.
    for _ in 0..30 {
        let next = m.allocate(9, Movable, 0).unwrap();
        assert_eq!(m.tree(next), m.tree(huge));
    }
    let last = m.allocate(9, Movable, 0).unwrap();
    assert_eq!(m.tree(last), m.tree(huge), "the thirty-second");
    let over = m.allocate(9, Movable, 0).unwrap();
    assert_ne!(m.tree(over), m.tree(huge));
}

#[test]
fn a_tree_that_is_empty_again_is_anybodys_once_its_cpu_has_left_it() {
    let mut m = Machine::new(4);
    let first: Vec<Owner> = (0..32).map(|_| m.allocate(9, Unmovable, 0).unwrap()).collect();
    first.iter().for_each(|&owner| m.free(owner));
    assert_eq!(m.placement.trees(), [1, 0, 0, 3], "still reserved");
    let first: Vec<Owner> = (0..33).map(|_| m.allocate(9, Unmovable, 0).unwrap()).collect();
    assert_eq!(m.placement.trees(), [2, 0, 0, 2]);
    first[..32].iter().for_each(|&owner| m.free(owner));
    assert_eq!(m.placement.trees(), [1, 0, 0, 3]);
}

/// Of own trees, one that is more than half full is taken before an emptier one, and that before
/// one that is nearly full.
#[test]
fn the_tree_that_suits_best_is_reserved_next() {
    let mut m = Machine::new(6);
    let blocks: Vec<Owner> = (0..4 * 32).map(|_| m.allocate(9, Unmovable, 0).unwrap()).collect();
    // Tree 0 gets 25 free blocks, tree 1 ten, tree 2 none; the CPU sits in tree 3, which is full.
    blocks[..25].iter().for_each(|&owner| m.free(owner));
    blocks[32..42].iter().for_each(|&owner| m.free(owner));
    let next = m.allocate(9, Unmovable, 0).unwrap();
    assert_eq!(m.tree(next), 1);
    for _ in 0..9 {
        let next = m.allocate(9, Unmovable, 0).unwrap();
        assert_eq!(m.tree(next), 1, "until it is full");
    }
    let next = m.allocate(9, Unmovable, 0).unwrap();
    assert_eq!(m.tree(next), 0);
    assert_eq!(m.placement.trees(), [4, 0, 0, 2], "no wholly free tree was touched");
}

#[test]
fn classes_steal_from_below_and_demote_from_above() {
    let mut m = Machine::new(3);
    let kernel = m.allocate(0, Unmovable, 0).unwrap();
    let page = m.allocate(0, Movable, 0).unwrap();
    let huge: Vec<Owner> = (0..32).map(|_| m.allocate(9, Movable, 0).unwrap()).collect();
    // Three trees, three classes. The huge one is full: a huge page is stolen from movable pages'
    // tree and the kernel's, the freest first, and both stay what they are.
    let more = m.allocate(9, Movable, 0).unwrap();
    assert_ne!(m.tree(more), m.tree(huge[0]));
    assert_eq!((m.counter("stolen"), m.placement.trees()), (1, [1, 1, 1, 0]));
    // Other CPUs share what is reserved before they take from another class.
    let shared = m.allocate(0, Unmovable, 5).unwrap();
    assert_eq!(m.tree(shared), m.tree(kernel));
    // When the kernel's tree is full, the movable one becomes the kernel's, pages and all.
    while m.counter("demoted") == 0 {
        m.allocate(3, Unmovable, 0).unwrap();
    }
    assert_eq!(m.placement.trees(), [2, 0, 1, 0]);
    let last = m.allocate(3, Unmovable, 0).unwrap();
    assert_eq!(m.tree(last), m.tree(page));
}

/// Compaction may fill a wholly free tree block by block, and what it returns is free again.
#[test]
fn blocks_are_taken_and_given_back_by_their_address() {
    let mut m = Machine::new(2);
    let order = m.placement.take_block(&mut m.table, Frame(TREE));
    assert_eq!(order, Order::LARGEST_FREE);
    assert_eq!(m.placement.free_frames(0), u64::from(2 * TREE) - 1024);
    m.table.allocate(Frame(TREE), order, Mobility::Movable, 0);
    m.next_owner = 1024;
    m.placement.validate(&m.table);
    let page = m.allocate(0, Movable, 0).unwrap();
    assert_eq!(m.tree(page), 1, "beside what was moved there");
    m.free(0);
    assert_eq!(m.placement.trees(), [0, 1, 0, 1]);
    assert!(m.placement.watermark_ok(0, Order::LARGEST_FREE, 0, ZoneKind::Normal));
    assert_eq!(m.placement.free_counts(0)[10], 31);
}
