//! Clean and tainted gigabytes: a plain model of memory, and cases worked by hand.

mod model;

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::superpageblocks::{Config, Superpageblocks};
use prairie_frames::placement::{Placement, Request};
use prairie_frames::table::{Owner, mobility_of};
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Order, Pfn, ZoneKind};
use proptest::prelude::*;

use MigrateType::{Movable, Reclaimable, Unmovable};

const GIB: u32 = 1 << 18;

struct Machine {
    table: FrameTable,
    placement: Superpageblocks,
    next_owner: Owner,
}

impl Machine {
    /// One zone of N GiB.
    fn new(gib: u32) -> Machine {
        Machine::with(gib, Config::default())
    }

    fn with(gib: u32, config: Config) -> Machine {
        let zone = ZoneSpan {
            node: 0,
            kind: ZoneKind::Normal,
            start: Pfn(0),
            spanned: u64::from(gib * GIB),
            managed: u64::from(gib * GIB),
            watermarks: Watermarks::default(),
            lowmem_reserve: [0; 6],
        };
        let layout = Layout::new(vec![zone]).unwrap();
        let mut machine = Machine {
            table: FrameTable::new(&layout),
            placement: Superpageblocks::new(&layout, config),
            next_owner: 0,
        };
        machine.placement.boot(&mut machine.table, &layout);
        machine
    }

    fn allocate(&mut self, of_order: u8, migrate_type: MigrateType) -> Option<Owner> {
        let order = Order::new(of_order).unwrap();
        let mobility = mobility_of(migrate_type);
        let request = Request { order, migrate_type, mobility, ..Request::default() };
        let owner = self.next_owner.next_multiple_of(order.frames() as u32);
        self.placement.allocate(&mut self.table, &request, owner)?;
        self.next_owner = owner + order.frames() as u32;
        Some(owner)
    }

    fn at(&self, owner: Owner) -> u32 {
        self.table.block_of(owner).unwrap().0
    }

    fn free(&mut self, owner: Owner) {
        let frame = Frame(self.at(owner));
        self.placement.free(&mut self.table, frame, 0);
    }

    fn counter(&self, name: &str) -> u64 {
        self.placement.counters().iter().find(|counter| counter.name == name).unwrap().value
    }

    fn validate(&self) {
        self.placement.validate(&self.table);
        // Clean is what has no unmovable frame.
        let blocks = self.table.blocks();
        let polluted =
            |gib: &[prairie_frames::BlockCounts]| gib.iter().any(|block| block.is_polluted());
        let with_unmovable = blocks.chunks(512).filter(|gib| polluted(gib)).count();
        assert!(with_unmovable <= self.placement.clean_and_tainted().1);
    }
}

/// Hands wake-ups to the worker between allocations.
struct Maintained(Superpageblocks, usize);

impl Placement for Maintained {
    fn seed(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        self.0.seed(table, frame, order);
    }
    fn start(&mut self, table: &mut FrameTable) {
        self.0.start(table);
    }
    fn allocate(&mut self, table: &mut FrameTable, r: &Request, owner: Owner) -> Option<Frame> {
        self.1 += 1;
        if self.1.is_multiple_of(3) {
            self.0.maintain(table);
            self.0.validate(table);
        }
        self.0.allocate(table, r, owner)
    }
    fn free(&mut self, table: &mut FrameTable, frame: Frame, cpu: u16) {
        self.0.free(table, frame, cpu);
    }
    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        self.0.free_blocks(zone)
    }
    fn free_frames(&self, zone: usize) -> u64 {
        self.0.free_frames(zone)
    }

    fn cached_frames(&self) -> u64 {
        self.0.cached_frames()
    }
    fn counters(&self) -> Vec<prairie_frames::placement::Counter> {
        self.0.counters()
    }
    fn validate(&self, table: &FrameTable) {
        self.0.validate(table);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn agrees_with_a_plain_model(steps in prop::collection::vec(model::step(10), 1..100)) {
        let layout = model::layout();
        let placement = Superpageblocks::new(&layout, Config::default());
        model::exercise(&mut Maintained(placement, 0), &layout, &steps, |_, _| {});
    }
}

#[test]
fn unmovable_memory_stays_in_tainted_gigabytes_and_movable_fills_clean_ones() {
    let mut m = Machine::new(4);
    let kernel = m.allocate(0, Unmovable).unwrap();
    assert_eq!(m.placement.clean_and_tainted(), (3, 1));
    let home = m.at(kernel) / GIB;
    let user = m.allocate(0, Movable).unwrap();
    assert_ne!(m.at(user) / GIB, home);
    // All clean gigabytes but the one begun stay untouched; the fullest is filled first.
    for _ in 0..511 {
        let page = m.allocate(9, Movable).unwrap();
        assert_eq!(m.at(page) / GIB, m.at(user) / GIB);
        let slab = m.allocate(4, Reclaimable).unwrap();
        assert_eq!(m.at(slab) / GIB, home);
    }
    assert_eq!((m.counter("taintings"), m.counter("failed")), (1, 0));
    m.validate();
    // Only when the tainted gigabyte is full is another one tainted.
    while m.counter("taintings") == 1 {
        m.allocate(9, Unmovable).unwrap();
    }
    let used: u32 = m.table.blocks()[home as usize * 512..][..512]
        .iter()
        .map(|block| u32::from(block.free))
        .sum();
    assert!(used < 2 * 512, "{used} frames free in the first: two pageblocks begun");
    m.validate();
}

#[test]
fn taint_goes_with_the_last_unmovable_pageblock() {
    let mut m = Machine::new(2);
    let pages: Vec<Owner> = (0..600).map(|_| m.allocate(0, Unmovable).unwrap()).collect();
    assert_eq!(m.placement.clean_and_tainted(), (1, 1));
    for &page in &pages[1..] {
        m.free(page);
    }
    assert_eq!(m.placement.clean_and_tainted(), (1, 1), "one page is enough");
    m.free(pages[0]);
    assert_eq!(m.placement.clean_and_tainted(), (2, 0));
    assert_eq!(m.counter("cleanings"), 1);
    m.validate();
}

#[test]
fn the_worker_frees_pageblocks_in_tainted_gigabytes() {
    let mut m = Machine::new(2);
    m.allocate(0, Unmovable).unwrap();
    // Users fill all of the clean gigabyte and most of the tainted one, then free every second page.
    let mut pages = Vec::new();
    while let Some(page) = m.allocate(0, Movable) {
        pages.push(page);
    }
    for &page in pages.iter().step_by(2) {
        m.free(page);
    }
    let before: Vec<u32> = pages.iter().skip(1).step_by(2).map(|&page| m.at(page)).collect();
    m.placement.maintain(&mut m.table);
    m.validate();
    assert_eq!(m.counter("pageblocks_emptied"), 2);
    assert_eq!(m.counter("pages_moved"), 512);
    let after: Vec<u32> = pages.iter().skip(1).step_by(2).map(|&page| m.at(page)).collect();
    assert_eq!(before.iter().zip(&after).filter(|(a, b)| a != b).count(), 512);
    // The next unmovable memory finds room there.
    m.next_owner = pages[0];
    m.allocate(0, Unmovable).unwrap();
    assert_eq!(m.counter("taintings"), 1);
}

/// A block that does not fit into what tainted gigabytes have free taints a clean one, unless the
/// request waits for a pageblock to be emptied.
#[test]
fn higher_orders_taint_or_wait() {
    for (evacuate_first, taintings, for_order, waited) in [(false, 2, 1, 0), (true, 1, 0, 1)] {
        let mut m = Machine::with(2, Config { evacuate_first, ..Config::default() });
        m.allocate(0, Unmovable).unwrap();
        let mut pages = Vec::new();
        while let Some(page) = m.allocate(0, Movable) {
            pages.push(page);
        }
        // Every second page of both gigabytes is free, and no two are neighbors.
        for &page in pages.iter().step_by(2) {
            m.free(page);
        }
        // Two neighbors in the clean one, for the case that taints it.
        m.free(pages[1]);
        m.next_owner = pages[0];
        m.allocate(1, Unmovable).unwrap();
        assert_eq!(m.counter("taintings"), taintings);
        assert_eq!(m.counter("taintings_for_order"), for_order);
        assert_eq!(m.counter("waited"), waited);
        assert_eq!(m.counter("pages_moved") > 0, evacuate_first);
        m.validate();
    }
}
