//! FreeBSD's reservations: cases worked by hand, and a plain model that foretells each of them.

use prairie_frames::compaction::Plain;
use prairie_frames::compaction::two_finger::compact_region;
use prairie_frames::compaction::two_finger::compactd::{Compactd, Reading};
use prairie_frames::kstack::{self, Indexing, Stacks};
use prairie_frames::kva::{self, kernel_page};
use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::freebsd::{Config, FreeBsd, Pool, Reservation, SetAside};
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::{ObjectPage, Placement, Request};
use prairie_frames::table::{Owner, State, mobility_of};
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Order, Pfn, ZoneKind};
use proptest::prelude::*;

use MigrateType::{Movable, Unmovable};

const NO_CACHES: Config = Config {
    cache_batch: 0,
    reservations: true,
    nofree: true,
    batch: true,
    stacks: prairie_frames::kstack::Indexing::Packed,
};

/// Anonymous memory: it may grow.
fn anonymous(object: u64, index: u64) -> ObjectPage {
    ObjectPage { object, index, pages: u64::MAX }
}

fn request(order: u8, migrate_type: MigrateType, page: Option<ObjectPage>) -> Request {
    let (order, mobility) = (Order::new(order).unwrap(), mobility_of(migrate_type));
    Request { order, migrate_type, mobility, page, ..Request::default() }
}

struct Machine {
    table: FrameTable,
    freebsd: FreeBsd,
    free_owners: Vec<Owner>,
}

impl Machine {
    fn new(frames: u32, config: Config) -> Machine {
        let zone = ZoneSpan {
            node: 0,
            kind: ZoneKind::Normal,
            start: Pfn(0),
            spanned: u64::from(frames),
            managed: u64::from(frames),
            watermarks: Watermarks::default(),
            lowmem_reserve: [0; 6],
        };
        let layout = Layout::new(vec![zone]).unwrap();
        let mut table = FrameTable::with_owners(u64::from(frames), u64::from(frames) * 8);
        let mut freebsd = FreeBsd::new(&layout, config);
        for start in (0..frames).step_by(512) {
            table.add_memory(Frame(start), Order::HUGE);
            freebsd.seed(&mut table, Frame(start), Order::HUGE);
        }
        freebsd.start(&mut table);
        // Eight owners apart, so that blocks up to order 3 have theirs.
        let free_owners = (0..frames).rev().map(|at| at * 8).collect();
        Machine { table, freebsd, free_owners }
    }

    /// The owner and the frame of a new block.
    fn allocate(&mut self, request: &Request) -> Option<(Owner, u32)> {
        let owner = self.free_owners.pop()?;
        let frame = self.freebsd.allocate(&mut self.table, request, owner);
        if frame.is_none() {
            self.free_owners.push(owner);
        }
        frame.map(|frame| (owner, frame.0))
    }

    /// A page of an object; returns its frame.
    fn fault(&mut self, object: u64, index: u64) -> u32 {
        self.allocate(&request(0, Movable, Some(anonymous(object, index)))).expect("memory").1
    }

    fn kernel(&mut self, order: u8) -> Option<u32> {
        self.allocate(&request(order, Unmovable, None)).map(|(_, frame)| frame)
    }

    fn free_frame(&mut self, frame: u32) {
        let owner = self.table.owner(Frame(frame));
        self.freebsd.free(&mut self.table, Frame(frame), 0);
        self.free_owners.push(owner);
    }

    /// Superpages and more that are free in one block.
    fn free_superpages(&self) -> u64 {
        let counts = self.freebsd.domain_counts(0);
        counts.iter().enumerate().skip(9).map(|(order, count)| count << (order - 9)).sum()
    }

    fn at(&self, frame: u32) -> Option<Reservation> {
        self.freebsd.reservation_at(Frame(frame))
    }

    fn counter(&self, name: &str) -> u64 {
        let counters = self.freebsd.counters();
        counters.iter().find(|counter| counter.name == name).expect("a counter").value
    }

    fn validate(&self) {
        self.freebsd.validate(&self.table);
    }
}

#[test]
fn the_first_fault_sets_a_superpage_aside_for_its_neighbors() {
    let mut machine = Machine::new(4096, NO_CACHES);
    // Page 700 is in its object's second stretch: frame 188 of a superpage.
    let first = machine.fault(7, 700);
    assert_eq!(first % 512, 188);
    let start = first - 188;
    let reservation = Reservation { object: 7, first: 512, start: Frame(start), populated: 1 };
    assert_eq!(machine.at(first), Some(reservation));
    // Whoever faults in between gets memory elsewhere, in whatever order.
    let other = machine.fault(8, 700);
    assert_ne!(other / 512, first / 512);
    let kernel = machine.kernel(0).unwrap();
    assert!(machine.at(kernel).is_none());
    for index in [1023, 512, 701, 600] {
        assert_eq!(machine.fault(7, index), start + index as u32 - 512);
    }
    assert_ne!(machine.fault(7, 1024) / 512, first / 512, "another stretch");
    machine.validate();
    // What is set aside is free memory, and on no list: 8 superpages, of which one is broken up.
    assert_eq!(machine.freebsd.free_frames(0), 4096 - 8);
    let counts = machine.freebsd.domain_counts(0);
    let listed: u64 = counts.iter().enumerate().map(|(order, count)| count << order).sum();
    let aside = SetAside { partial: 3, free_frames: 3 * 512 - 7, full: 0 };
    assert_eq!(machine.freebsd.set_aside(), aside);
    assert_eq!(listed, 5 * 512 - 1);
    assert_eq!(machine.freebsd.cached_frames(), aside.free_frames);
}

#[test]
fn a_full_reservation_is_a_superpage_and_an_empty_one_goes_back_whole() {
    let mut machine = Machine::new(2048, NO_CACHES);
    let start = machine.fault(1, 0);
    (1..512).for_each(|index| assert_eq!(machine.fault(1, index), start + index as u32));
    let full = SetAside { full: 1, ..SetAside::default() };
    assert_eq!((machine.freebsd.set_aside(), machine.counter("reservations_filled")), (full, 1));
    assert_eq!(machine.free_superpages(), 3);
    // A page that leaves opens it: its frame waits for the same page.
    machine.free_frame(start + 77);
    assert_eq!(machine.table.state(Frame(start + 77)), State::Cached);
    assert_eq!(machine.counter("superpages_opened"), 1);
    assert_eq!(machine.fault(1, 77), start + 77);
    assert_eq!(machine.counter("reservations_filled"), 2);
    (0..512).for_each(|slot| machine.free_frame(start + slot));
    machine.validate();
    assert_eq!(machine.free_superpages(), 4);
    assert_eq!(machine.counter("reservations_freed"), 1);
    assert_eq!(machine.counter("reservations_broken"), 0);
}

#[test]
fn under_pressure_the_one_that_changed_least_recently_is_broken() {
    let mut machine = Machine::new(3 * 512, NO_CACHES);
    let [a, b, c] = [1, 2, 3].map(|object| machine.fault(object, 0));
    // All memory is set aside; `a` changes again, and `b` loses its oldest page's neighbors.
    let second = machine.fault(1, 1);
    assert_eq!(second, a + 1);
    assert_eq!(machine.free_superpages(), 0);
    let kernel = machine.kernel(0).unwrap();
    assert_eq!(kernel / 512, b / 512, "out of the oldest");
    assert_eq!(machine.counter("reservations_broken"), 1);
    assert_eq!(machine.table.state(Frame(b)), State::Allocated, "its page stays");
    assert!(machine.at(b).is_none() && machine.at(a).is_some() && machine.at(c).is_some());
    // What was free of it, 511 frames behind the first, came to one block of each order below a
    // superpage's; the kernel's pool took the largest of them and put its halves beside.
    let counts = machine.freebsd.domain_counts(0);
    assert_eq!(counts[..10], [2, 2, 2, 2, 2, 2, 2, 2, 0, 0]);
    // Its object gets no superpage for these pages any more, even if there is one …
    (0..510).for_each(|_| assert!(machine.kernel(0).is_some()));
    assert_eq!(machine.counter("reservations_broken"), 1);
    machine.free_frame(c);
    assert_eq!(machine.free_superpages(), 1);
    let loose = machine.fault(2, 5);
    assert_eq!((loose / 512, loose % 512), (c / 512, 0), "any frame at all");
    machine.free_frame(loose);
    assert_eq!(machine.free_superpages(), 1);
    // … until the last of them is gone.
    machine.free_frame(b);
    assert_eq!(machine.fault(2, 5), c / 512 * 512 + 5);
    machine.validate();
}

#[test]
fn the_tail_of_a_file_has_no_superpage_and_the_tail_of_anonymous_memory_has() {
    let mut machine = Machine::new(8 * 512, NO_CACHES);
    let file = |index| request(0, Movable, Some(ObjectPage { object: 1, index, pages: 700 }));
    let (_, head) = machine.allocate(&file(3)).unwrap();
    let (_, tail) = machine.allocate(&file(600)).unwrap();
    assert!(machine.at(head).is_some() && machine.at(tail).is_none());
    let grows = machine.fault(2, 600);
    assert!(machine.at(grows).is_some());
    // Without reservations, or without an object, any frame does.
    let mut plain = Machine::new(4 * 512, Config { reservations: false, ..NO_CACHES });
    assert_eq!([plain.fault(1, 9), plain.fault(2, 9)], [0, 1]);
    assert_eq!(plain.freebsd.set_aside(), SetAside::default());
}

#[test]
fn pages_of_reservations_go_past_the_cache_and_the_cache_is_used_first() {
    let mut machine = Machine::new(2 * 512, Config::default());
    let kernel = machine.kernel(0).unwrap();
    let [a, second] = [0, 1].map(|index| machine.fault(1, index));
    assert_eq!(machine.freebsd.cached_frames(), 63 + 510);
    machine.free_frame(second);
    assert_eq!(machine.freebsd.cached_frames(), 63 + 511, "back to the reservation");
    assert_eq!(machine.freebsd.set_aside().free_frames, 511);
    machine.free_frame(kernel);
    // The lists and the cache have 512; then the reservation is broken, for the whole batch.
    for _ in 0..512 {
        assert!(machine.kernel(0).is_some());
        assert_eq!(machine.counter("reservations_broken"), 0);
    }
    assert_eq!(machine.kernel(0).unwrap() / 512, a / 512);
    assert_eq!(machine.counter("reservations_broken"), 1);
    machine.validate();
}

#[test]
fn a_block_comes_from_the_oldest_reservation_that_has_room_for_it() {
    let mut machine = Machine::new(2 * 512, NO_CACHES);
    // The older one has a page in each block of eight.
    let sparse = machine.fault(1, 0);
    (1..64).for_each(|at| assert_eq!(machine.fault(1, 8 * at), sparse + 8 * at as u32));
    let young = machine.fault(2, 0);
    let block = machine.kernel(3).unwrap();
    assert_eq!(block / 512, young / 512);
    assert!(machine.at(sparse).is_some());
    while machine.kernel(2).is_some_and(|frame| frame / 512 == young / 512) {}
    assert!(machine.at(sparse).is_none(), "blocks of four it has");
    // Nothing has a superpage, and nothing is broken without effect.
    let mut machine = Machine::new(512, NO_CACHES);
    machine.fault(1, 0);
    assert_eq!(machine.kernel(9), None);
    assert_eq!(machine.counter("reservations_broken"), 0);
    machine.validate();
}

#[test]
fn pages_that_are_never_freed_find_room_in_reservations_last() {
    let mut machine = Machine::new(2 * 512, NO_CACHES);
    let nofree = |machine: &mut Machine| {
        let owner = machine.free_owners.pop().unwrap();
        let wanted = request(0, Unmovable, None);
        let frame = machine.freebsd.alloc_nofree(&mut machine.table, &wanted, owner);
        machine.validate();
        frame.unwrap().0
    };
    let a = machine.fault(1, 0);
    let superpage = nofree(&mut machine);
    assert_ne!(superpage / 512, a / 512);
    (1..512).for_each(|at| assert_eq!(nofree(&mut machine), superpage + at));
    // No superpage is left for the next ones: single frames of a broken reservation.
    assert_eq!(nofree(&mut machine) / 512, a / 512);
    assert_eq!(machine.counter("reservations_broken"), 1);
}

/// 16 objects with 128 pages each in the upper half of 64 MiB, and movable single pages in every
/// second frame of the lower half.
fn reserved_and_broken() -> Machine {
    let mut machine = Machine::new(16_384, NO_CACHES);
    let mut singles: Vec<u32> =
        (0..8192).map(|_| machine.allocate(&request(0, Movable, None)).unwrap().1).collect();
    singles.sort_unstable();
    assert_eq!(singles.last(), Some(&8191), "the lower half");
    for object in 0..16 {
        for index in 0..128 {
            machine.fault(object, 4 * index);
        }
    }
    singles.iter().step_by(2).for_each(|&frame| machine.free_frame(frame));
    machine
}

#[test]
fn moving_pages_out_of_reservations_gives_nobody_a_block_until_the_last_is_out() {
    // As the code under review has it, pages of reservations move like others: into holes below.
    let run = |spare_reservations| {
        let mut machine = reserved_and_broken();
        let daemon = Compactd { reading: Reading::AsWritten, spare_reservations, threshold: 300 };
        let ran = machine.freebsd.compactd(&mut machine.table, &mut Plain, 0, &daemon).unwrap();
        machine.validate();
        (ran.cost.moved, machine.free_superpages(), machine.freebsd.set_aside())
    };
    // 2,048 pages of objects fill half of the 4,096 holes from below, and then the fingers go on
    // with what is left: pages 8,191 … down into holes 4,096 … up.
    let (moved, superpages, aside) = run(false);
    assert_eq!(aside, SetAside::default(), "all sixteen are given up by their pages");
    assert_eq!((moved, superpages), (2_048 + 1_024, 20));
    // Spared, they keep their superpages, of which one page in four is in use.
    let (moved, superpages, aside) = run(true);
    assert_eq!(aside, SetAside { partial: 16, free_frames: 16 * 384, full: 0 });
    assert_eq!((moved, superpages), (2_048, 8));
}

#[test]
fn a_range_that_is_emptied_by_address_has_no_reservations() {
    let mut machine = Machine::new(4 * 512, NO_CACHES);
    let partial = machine.fault(1, 0);
    let full = machine.fault(2, 0);
    for index in 1..512 {
        machine.fault(2, index);
    }
    machine.freebsd.give_up(&mut machine.table, Frame(0)..Frame(4 * 512));
    machine.validate();
    assert_eq!(machine.freebsd.set_aside(), SetAside::default());
    assert_eq!(machine.table.state(Frame(partial + 1)), State::Free);
    assert_eq!(machine.table.state(Frame(full + 1)), State::Allocated);
}

/// A device that reaches low memory alone gets none of a superpage above it.
#[test]
fn a_request_that_needs_low_memory_gets_low_memory() {
    let zone = |kind, start: u64| ZoneSpan {
        node: 0,
        kind,
        start: Pfn(start),
        spanned: 1024,
        managed: 1024,
        watermarks: Watermarks::default(),
        lowmem_reserve: [0; 6],
    };
    let layout = Layout::new(vec![zone(ZoneKind::Dma32, 0), zone(ZoneKind::Normal, 1024)]).unwrap();
    let mut table = FrameTable::new(&layout);
    let mut freebsd = FreeBsd::new(&layout, NO_CACHES);
    for start in [0, 1024] {
        table.add_memory(Frame(start), Order::LARGEST_FREE);
        freebsd.seed(&mut table, Frame(start), Order::LARGEST_FREE);
    }
    let mut fault = |index, highest_zone, owner| {
        let wanted = request(0, Movable, Some(anonymous(1, index)));
        let wanted = Request { highest_zone, ..wanted };
        freebsd.allocate(&mut table, &wanted, owner).unwrap().0
    };
    assert_eq!(fault(0, ZoneKind::Normal, 0), 1024);
    assert!(fault(1, ZoneKind::Dma32, 1) < 1024);
    assert_eq!(fault(2, ZoneKind::Normal, 2), 1026);
    freebsd.validate(&table);
}

/// Kernel memory in runs of three pages, of which half are freed again, with every second page of a
/// process between: through the kernel's address space it fills superpages of its own.
#[test]
fn the_kernels_object_keeps_kernel_memory_together() {
    let polluted = |through_object: bool| {
        let mut machine = Machine::new(64 * 512, NO_CACHES);
        let mut arena = kva::Arena::default();
        for round in 0..1024u64 {
            let start = arena.take(3);
            for page in start..start + 3 {
                let page = through_object.then(|| kernel_page(page));
                machine.allocate(&request(0, Unmovable, page)).unwrap();
            }
            for _ in 0..4 {
                // Pages of files that nobody maps: no object that has reservations.
                machine.allocate(&request(0, Movable, None)).unwrap();
            }
            assert_eq!(arena.in_use(), 3 * (round + 1));
        }
        machine.validate();
        let blocks = machine.table.blocks();
        (blocks.iter().filter(|block| block.is_polluted()).count(), machine.freebsd.set_aside())
    };
    // 1,024 runs of three: 170 to a superpage of address space, whose last two pages stay free.
    let (superpages, aside) = polluted(true);
    assert_eq!(superpages, 1024usize.div_ceil(170));
    assert_eq!(aside.partial, superpages as u64);
    let (superpages, _) = polluted(false);
    assert_eq!(superpages, 3072usize.div_ceil(512), "the pools keep them apart as well");
}

/// The stacks of threads, page by page through the allocator, hold as many superpages as the plain
/// enumeration of their object's pages says, under either index.
#[test]
fn stacks_hold_the_superpages_that_their_indices_say() {
    for indexing in [Indexing::Linear, Indexing::Packed] {
        let stacks = Stacks::AMD64;
        let mut machine = Machine::new(16 * 512, NO_CACHES);
        let mut arena = kstack::Arena::new(stacks, indexing);
        let mut frames_of: Vec<Vec<u32>> = Vec::new();
        for _ in 0..1024 {
            let first = arena.take() * stacks.stride();
            let pages = (first..first + stacks.stride()).filter_map(|p| stacks.index(p, indexing));
            let frame = |index| {
                let wanted = request(0, Unmovable, Some(anonymous(99, index)));
                machine.allocate(&wanted).unwrap().1
            };
            frames_of.push(pages.map(frame).collect());
        }
        let held = arena.held();
        let aside = machine.freebsd.set_aside();
        assert_eq!(aside.partial + aside.full, held.superpages, "{indexing:?}");
        assert_eq!(aside.free_frames, held.unused_frames(), "{indexing:?}");
        for place in (0..1024).filter(|place| place % 8 != 3) {
            arena.give(place);
            frames_of[place as usize].iter().for_each(|&frame| machine.free_frame(frame));
        }
        machine.validate();
        let (held, aside) = (arena.held(), machine.freebsd.set_aside());
        assert_eq!(aside.partial + aside.full, held.superpages, "{indexing:?}");
        assert_eq!(aside.free_frames, held.unused_frames(), "{indexing:?}");
    }
}

/// What a plain model knows of a reservation.
#[derive(Clone, Debug)]
struct Plainly {
    key: (u64, u64),
    start: u32,
    slots: Vec<bool>,
}

impl Plainly {
    fn count(&self) -> usize {
        self.slots.iter().filter(|&&used| used).count()
    }

    fn has_room(&self, order: u8) -> bool {
        self.slots.chunks(1 << order).any(|block| block.iter().all(|&used| !used))
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// Faults of an object: consecutive pages from a first one on.
    Fault { object: u64, index: u64, pages: u64 },
    /// A block for the kernel.
    Kernel { order: u8 },
    /// Frees a part of what is in use.
    Free { which: Vec<prop::sample::Index> },
    /// Two fingers over all memory, pages in reservations spared or not.
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>();
    prop_oneof![
        4 => (0..4u64, 0..1500u64, 1..40u64)
            .prop_map(|(object, index, pages)| Step::Fault { object, index, pages }),
        1 => (0..4u64, 0..3u64)
            .prop_map(|(object, at)| Step::Fault { object, index: at * 512, pages: 512 }),
        3 => (0..=9u8).prop_map(|order| Step::Kernel { order: order.min(3) }),
        2 => prop::collection::vec(index, 1..200).prop_map(|which| Step::Free { which }),
        1 => Just(Step::Compact),
    ]
}

/// The model: reservations in the order of their last change, and where each page in use is.
#[derive(Default)]
struct Model {
    reservations: Vec<Plainly>,
    /// Object, index and owner of each page of an object; orders of the kernel's blocks.
    pages: Vec<((u64, u64), Owner)>,
    kernel: Vec<Owner>,
    broken: u64,
}

impl Model {
    fn of_frame(&self, frame: u32) -> Option<usize> {
        self.reservations.iter().position(|held| held.start == frame / 512 * 512)
    }

    /// It changed: to the end of the queue, or away if nothing of it is in use.
    fn touch(&mut self, at: usize) {
        let held = self.reservations.remove(at);
        if held.count() > 0 {
            self.reservations.push(held);
        }
    }

    fn leave(&mut self, frame: u32) {
        if let Some(at) = self.of_frame(frame) {
            assert!(std::mem::replace(
                &mut self.reservations[at].slots[frame as usize % 512],
                false
            ));
            self.touch(at);
        }
    }

    /// Breaks what has to be broken for a block, if lists that have blocks of `free` sizes do not.
    fn make_room(&mut self, free: &[u64], order: u8) -> bool {
        if free[usize::from(order)..].iter().any(|&count| count > 0) {
            return true;
        }
        let partial = |held: &Plainly| held.count() < 512 && held.has_room(order);
        let Some(at) = self.reservations.iter().position(partial) else { return false };
        self.reservations.remove(at);
        self.broken += 1;
        true
    }

    /// Foretells the frame of a page if it comes from a reservation: `None` if it does not.
    fn fault(&mut self, machine: &Machine, page: (u64, u64)) -> Option<u32> {
        let (key, slot) = ((page.0, page.1 / 512), (page.1 % 512) as usize);
        if let Some(at) = self.reservations.iter().position(|held| held.key == key) {
            let frame = self.reservations[at].start + slot as u32;
            if std::mem::replace(&mut self.reservations[at].slots[slot], true) {
                return None;
            }
            self.touch(at);
            return Some(frame);
        }
        let elsewhere = self.pages.iter().any(|&((o, i), _)| (o, i / 512) == key);
        let whole = |j| {
            machine
                .freebsd
                .free_list(&machine.table, 0, Order::new(j).unwrap(), Pool::Default)
                .next()
        };
        // The smallest block of a superpage or more, its own pool's first.
        let kernels = |j| {
            machine
                .freebsd
                .free_list(&machine.table, 0, Order::new(j).unwrap(), Pool::Direct)
                .next()
        };
        let start = (9..=12).find_map(whole).or_else(|| (9..=12).rev().find_map(kernels))?;
        if elsewhere {
            return None;
        }
        let mut slots = vec![false; 512];
        slots[slot] = true;
        self.reservations.push(Plainly { key, start: start.0, slots });
        Some(start.0 + slot as u32)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn reservations_match_a_plain_model(
        steps in prop::collection::vec(step(), 1..60),
        spare in any::<bool>(),
    ) {
        let mut machine = Machine::new(6 * 512, NO_CACHES);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Fault { object, index, pages } => {
                    for index in index..index + pages {
                        if model.pages.iter().any(|&(page, _)| page == (object, index)) {
                            continue;
                        }
                        let free = machine.freebsd.domain_counts(0);
                        let expected = model.fault(&machine, (object, index));
                        let room = expected.is_some() || model.make_room(&free, 0);
                        let page = Some(anonymous(object, index));
                        let given = machine.allocate(&request(0, Movable, page));
                        prop_assert_eq!(given.is_some(), room);
                        let Some((owner, frame)) = given else { continue };
                        match expected {
                            Some(expected) => prop_assert_eq!(frame, expected),
                            None => prop_assert!(machine.at(frame).is_none()),
                        }
                        model.pages.push(((object, index), owner));
                    }
                }
                Step::Kernel { order } => {
                    let room = model.make_room(&machine.freebsd.domain_counts(0), order);
                    let given = machine.allocate(&request(order, Unmovable, None));
                    prop_assert_eq!(given.is_some(), room);
                    model.kernel.extend(given.map(|(owner, _)| owner));
                }
                Step::Free { which } => {
                    for which in which {
                        let (pages, kernel) = (model.pages.len(), model.kernel.len());
                        if pages + kernel == 0 {
                            break;
                        }
                        let at = which.index(pages + kernel);
                        let owner = if at < pages {
                            model.pages.swap_remove(at).1
                        } else {
                            model.kernel.swap_remove(at - pages)
                        };
                        let frame = machine.table.block_of(owner).unwrap().0;
                        model.leave(frame);
                        machine.free_frame(frame);
                    }
                }
                Step::Compact => {
                    let place = |machine: &Machine, owner| machine.table.block_of(owner).unwrap().0;
                    let before: Vec<u32> =
                        model.pages.iter().map(|&(_, owner)| place(&machine, owner)).collect();
                    if spare {
                        // Only the daemon is told; a domain of one region is what it compacts.
                        let daemon = Compactd {
                            threshold: -1_000_000, reading: Reading::AsWritten, spare_reservations: true,
                        };
                        machine.freebsd.compactd(&mut machine.table, &mut Plain, 0, &daemon).unwrap();
                    } else {
                        let whole = Frame(0)..Frame(6 * 512);
                        compact_region(&mut machine.table, &mut machine.freebsd, &mut Plain, whole);
                    }
                    // The scan finger goes down: pages leave from above.
                    let mut left: Vec<u32> = before
                        .iter()
                        .zip(&model.pages)
                        .filter(|&(&from, &(_, owner))| place(&machine, owner) != from)
                        .map(|(&from, _)| from)
                        .collect();
                    left.sort_unstable();
                    for from in left.into_iter().rev() {
                        prop_assert!(!spare || model.of_frame(from).is_none());
                        model.leave(from);
                    }
                }
            }
            machine.validate();
            prop_assert_eq!(machine.counter("reservations_broken"), model.broken);
            for start in (0..6 * 512).step_by(512) {
                let expected = model.of_frame(start).map(|at| &model.reservations[at]);
                let found = machine.at(start);
                prop_assert_eq!(
                    found.map(|r| ((r.object, r.first / 512), r.populated as usize)),
                    expected.map(|held| (held.key, held.count())),
                    "at {}", start
                );
                for (slot, &used) in expected.iter().flat_map(|held| held.slots.iter().enumerate()) {
                    let state = machine.table.state(Frame(start + slot as u32));
                    prop_assert_eq!(state == State::Allocated, used, "{} at {}", slot, start);
                }
            }
        }
        // Everything freed, all of memory is whole again.
        for (_, owner) in std::mem::take(&mut model.pages) {
            let frame = machine.table.block_of(owner).unwrap().0;
            machine.free_frame(frame);
        }
        for owner in std::mem::take(&mut model.kernel) {
            let frame = machine.table.block_of(owner).unwrap().0;
            machine.free_frame(frame);
        }
        machine.validate();
        prop_assert_eq!(machine.free_superpages(), 6);
        prop_assert_eq!(machine.freebsd.set_aside(), SetAside::default());
    }
}
