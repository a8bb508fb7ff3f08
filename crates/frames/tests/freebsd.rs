//! FreeBSD's allocator, batches, compaction and its daemon: a plain model of memory, and cases
//! worked by hand.

// Ranges of frames are what a batch returns: one is a list of one.
#![allow(clippy::single_range_in_vec_init)]

mod model;

use std::collections::BTreeSet;
use std::ops::Range;

use prairie_frames::compaction::two_finger::compact_region;
use prairie_frames::compaction::two_finger::compactd::{Compactd, Reading};
use prairie_frames::compaction::{Mode, Pages, Plain};
use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::freebsd::{Config, FreeBsd, LARGEST, Pool};
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::zonelist::Depth;
use prairie_frames::placement::{Placement, Request};
use prairie_frames::table::{Owner, State, mobility_of};
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Mobility, Order, Pfn, ZoneKind};
use proptest::prelude::*;

use MigrateType::{Movable, Unmovable};

const NO_CACHES: Config = Config {
    cache_batch: 0,
    reservations: true,
    nofree: true,
    batch: true,
    stacks: prairie_frames::kstack::Indexing::Packed,
};

fn order(value: u8) -> Order {
    Order::new(value).unwrap()
}

fn request(of_order: u8, migrate_type: MigrateType) -> Request {
    let mobility = mobility_of(migrate_type);
    Request { order: order(of_order), migrate_type, mobility, ..Request::default() }
}

fn layout(zones: &[Range<u64>]) -> Layout {
    let zone = |range: &Range<u64>| ZoneSpan {
        node: 0,
        kind: ZoneKind::Normal,
        start: Pfn(range.start),
        spanned: range.end - range.start,
        managed: range.end - range.start,
        watermarks: Watermarks::default(),
        lowmem_reserve: [0; 6],
    };
    Layout::new(zones.iter().map(zone).collect()).unwrap()
}

struct Machine {
    table: FrameTable,
    freebsd: FreeBsd,
    next_owner: Owner,
}

impl Machine {
    fn new(frames: u64, config: Config) -> Machine {
        Machine::with(&layout(&[0..frames]), config)
    }

    fn with(layout: &Layout, config: Config) -> Machine {
        let mut machine = Machine {
            table: FrameTable::new(layout),
            freebsd: FreeBsd::new(layout, config),
            next_owner: 0,
        };
        machine.freebsd.boot(&mut machine.table, layout);
        machine
    }

    fn allocate(&mut self, of_order: u8, migrate_type: MigrateType) -> Option<u32> {
        let request = request(of_order, migrate_type);
        let owner = self.next_owner.next_multiple_of(request.order.frames() as u32);
        let frame = self.freebsd.allocate(&mut self.table, &request, owner)?;
        self.next_owner = owner + request.order.frames() as u32;
        Some(frame.0)
    }

    fn batch(&mut self, count: u32, migrate_type: MigrateType) -> Vec<Range<u32>> {
        let mut runs = Vec::new();
        let request = request(0, migrate_type);
        let (table, owner) = (&mut self.table, self.next_owner);
        let done = self.freebsd.alloc_batch(table, &request, owner, count, &mut runs);
        self.next_owner += done;
        self.validate();
        let runs: Vec<Range<u32>> = runs.into_iter().map(|run| run.start.0..run.end.0).collect();
        assert_eq!(runs.iter().map(|run| run.end - run.start).sum::<u32>(), done);
        runs
    }

    fn free(&mut self, frame: u32) {
        self.freebsd.free(&mut self.table, Frame(frame), 0);
    }

    fn list(&self, of_order: u8, pool: Pool) -> Vec<u32> {
        let list = self.freebsd.free_list(&self.table, 0, order(of_order), pool);
        list.map(|frame| frame.0).collect()
    }

    fn compactd(&mut self, daemon: &Compactd) -> prairie_frames::placement::freebsd::CompactdRun {
        self.freebsd.compactd(&mut self.table, &mut Plain, 0, daemon).unwrap()
    }

    fn validate(&self) {
        self.freebsd.validate(&self.table);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn agrees_with_a_plain_model(
        steps in prop::collection::vec(model::step(12), 1..120),
        cache_batch in prop::sample::select(&[0u32, 3, 64]),
    ) {
        let layout = model::layout();
        let mut freebsd = FreeBsd::new(&layout, Config { cache_batch, ..Config::default() });
        model::exercise(&mut freebsd, &layout, &steps, |_, _| {});
    }
}

#[test]
fn freed_blocks_and_remainders_wait_at_the_end_of_their_lists() {
    let mut machine = Machine::new(2 * LARGEST.frames(), NO_CACHES);
    assert_eq!(machine.list(12, Pool::Default), [0, 4096], "16 MiB, in the order handed over");
    assert_eq!(machine.allocate(0, Movable), Some(0));
    for half in 0..12 {
        assert_eq!(machine.list(half, Pool::Default), [1 << half]);
    }
    for frame in 1..8 {
        assert_eq!(machine.allocate(0, Movable), Some(frame));
    }
    for frame in [2, 0, 6] {
        machine.free(frame);
    }
    assert_eq!(machine.list(0, Pool::Default), [2, 0, 6], "first in, first out");
    machine.free(3);
    assert_eq!(machine.list(1, Pool::Default), [2]);
    assert_eq!(machine.list(0, Pool::Default), [0, 6]);
}

#[test]
fn a_pool_that_is_empty_takes_the_largest_block_of_the_other() {
    let mut machine = Machine::new(2 * LARGEST.frames(), NO_CACHES);
    assert_eq!(machine.allocate(0, Movable), Some(0));
    // All memory is the default pool's; its largest block, not its smallest, changes pools.
    assert_eq!(machine.allocate(0, Unmovable), Some(4096));
    assert_eq!(machine.list(11, Pool::Direct), [4096 + 2048]);
    assert_eq!(machine.list(11, Pool::Default), [2048]);
    // A block that is freed takes the buddies that it merges with along.
    machine.free(0);
    assert_eq!(machine.list(12, Pool::Default), [0]);
    assert_eq!(machine.allocate(11, Movable), Some(0));
    assert_eq!(machine.allocate(11, Movable), Some(2048));
    assert_eq!(machine.allocate(11, Movable), Some(4096 + 2048), "from the kernel's pool");
    machine.free(4096);
    assert_eq!(machine.list(11, Pool::Direct), [4096]);
    machine.free(4096 + 2048);
    assert_eq!(machine.list(12, Pool::Default), [4096]);
    machine.validate();
}

/// A batch to owners that do not follow one another stops at the reserve that `depth` leaves.
#[test]
fn a_batch_leaves_the_reserve() {
    let marks = Watermarks { min: 100, low: 300, high: 400 };
    let plain = layout(&[0..1024]);
    let mut spans: Vec<_> = plain.zones().iter().map(|zone| zone.span.clone()).collect();
    spans[0].watermarks = marks;
    let layout = Layout::new(spans).unwrap();
    let mut machine = Machine::with(&layout, NO_CACHES);
    let owners: Vec<u32> = (0..1024).map(|at| at * 7 % 1024).collect();
    let mut left = 1024;
    for (depth, reserve) in [(Depth::Low, 300), (Depth::Min, 100), (Depth::All, 0)] {
        let next = &owners[1024 - left as usize..];
        let table = &mut machine.table;
        let found = machine.freebsd.attempt_singles(table, &request(0, Movable), next, depth);
        assert_eq!(found, left - reserve, "{depth:?}");
        left -= found;
        machine.validate();
    }
    let frames: Vec<u32> =
        owners.iter().map(|&owner| machine.table.block_of(owner).unwrap().0).collect();
    assert!((0..724).eq(frames[..724].iter().copied()), "the first batch is one run");
    assert_eq!(BTreeSet::from_iter(frames).len(), 1024, "each owner has a frame of its own");
}

#[test]
fn a_batch_comes_in_as_few_runs_as_can_be() {
    let mut machine = Machine::new(4 * LARGEST.frames(), NO_CACHES);
    assert_eq!(machine.batch(1, Movable), [0..1]);
    assert_eq!(machine.batch(100, Movable), [128..228], "the smallest block that holds it");
    assert_eq!(machine.list(2, Pool::Default), [4, 228]);
    assert_eq!(machine.batch(1000, Unmovable), [1024..2024]);
    // Five thousand are more than any block: the largest is used up, and the rest comes from the
    // smallest that holds it.
    assert_eq!(machine.batch(5000, Movable), [4096..8192, 2048..2952]);
    assert_eq!(machine.batch(8192, Movable), [8192..16_384], "two blocks, and one run");
    // One by one, the caches allocate what the last free left; a batch ignores them.
    let mut cached = Machine::new(4 * LARGEST.frames(), Config::default());
    let first = cached.allocate(0, Movable).unwrap();
    cached.free(first);
    assert_eq!(cached.freebsd.cached_frames(), 64);
    assert_eq!(cached.batch(64, Movable), [64..128]);
    // Memory that runs out gives what there is.
    let mut small = Machine::new(512, NO_CACHES);
    assert_eq!(small.batch(400, Movable), [0..400]);
    assert_eq!(small.batch(112, Movable), [448..512, 416..448, 400..416], "the largest first");
    assert_eq!(small.batch(1, Movable), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// What a batch allocates is what single allocations would be: frames of their own.
    #[test]
    fn frames_of_a_batch_are_single_frames(
        holes in prop::collection::btree_set(0..16_384u32, 0..400),
        batches in prop::collection::vec((1..3000u32, any::<bool>()), 1..6),
        freed in prop::collection::vec(any::<prop::sample::Index>(), 0..400),
    ) {
        let mut machine = Machine::new(16_384, Config { cache_batch: 8, ..Config::default() });
        machine.batch(16_384, Movable);
        // Holes and whole blocks: everything above the middle is free.
        for frame in (0..16_384).filter(|f| holes.contains(f) || *f >= 8192) {
            machine.free(frame);
        }
        machine.freebsd.drain(&mut machine.table);
        machine.next_owner = 0;
        let mut table_free = holes.iter().filter(|&&f| f < 8192).count() + 8192;
        // The owners of what stayed are taken: new ones lie above.
        machine.next_owner = 16_384;
        let mut live = Vec::new();
        for (count, movable) in batches {
            let kind = if movable { Movable } else { Unmovable };
            let first = machine.next_owner;
            let runs = machine.batch(count, kind);
            let given: Vec<u32> = runs.iter().cloned().flatten().collect();
            prop_assert_eq!(given.len(), (count as usize).min(table_free));
            table_free -= given.len();
            for (at, frame) in given.into_iter().enumerate() {
                let owner = first + at as u32;
                prop_assert_eq!(machine.table.block_of(owner), Some(Frame(frame)));
                prop_assert_eq!(machine.table.order(Frame(frame)), Order::BASE);
                prop_assert_eq!(machine.table.mobility(Frame(frame)), mobility_of(kind));
                live.push(owner);
            }
        }
        for which in freed {
            if !live.is_empty() {
                let owner = live.swap_remove(which.index(live.len()));
                let frame = machine.table.block_of(owner).unwrap();
                machine.freebsd.free(&mut machine.table, frame, 1);
            }
        }
        machine.validate();
    }
}

#[test]
fn pages_that_are_never_freed_share_a_superpage() {
    let mut machine = Machine::new(LARGEST.frames(), NO_CACHES);
    let nofree = |machine: &mut Machine| {
        let owner = machine.next_owner;
        machine.next_owner += 1;
        let wanted = request(0, Unmovable);
        let frame = machine.freebsd.alloc_nofree(&mut machine.table, &wanted, owner);
        machine.validate();
        frame.map(|frame| frame.0)
    };
    assert_eq!(machine.allocate(0, Movable), Some(0));
    for at in 0..512 {
        assert_eq!(nofree(&mut machine), Some(2048 + at), "ascending in one superpage");
        // Others do not come between.
        if at < 100 {
            assert!(machine.allocate(0, Unmovable).unwrap() >= 2560);
        }
    }
    let polluted = || machine.table.blocks().iter().filter(|block| block.is_polluted()).count();
    assert_eq!(polluted(), 2, "one by those, one by the kernel's other pages");
    let next = nofree(&mut machine).unwrap();
    assert_eq!(next % 512, 0, "the next superpage");
    assert_eq!(machine.freebsd.cached_frames(), 511);
    // Where no superpage is left they come from anywhere.
    while machine.allocate(9, Movable).is_some() {}
    for _ in 0..511 {
        nofree(&mut machine).unwrap();
    }
    assert!(nofree(&mut machine).is_some());
}

/// 256 MiB of single movable pages, of which every second is free.
fn broken(config: Config) -> Machine {
    let mut machine = Machine::new(65_536, config);
    machine.batch(65_536, Movable);
    (0..65_536).step_by(2).for_each(|frame| machine.free(frame));
    machine.freebsd.drain(&mut machine.table);
    machine
}

#[test]
fn two_fingers_meet_in_the_middle() {
    let mut machine = broken(NO_CACHES);
    let (table, freebsd) = (&mut machine.table, &mut machine.freebsd);
    let cost = compact_region(table, freebsd, &mut Plain, Frame(0)..Frame(32_768));
    // A quarter of the region's pages move from its upper half into the holes of its lower one.
    assert_eq!((cost.moved, cost.failed), (8_192, 0));
    machine.validate();
    let mut whole = machine.list(12, Pool::Default);
    whole.sort_unstable();
    assert_eq!(whole, [16_384, 20_480, 24_576, 28_672]);
    // Every page of the region is scanned once, by one finger or the other.
    assert_eq!(cost.free_scanned + cost.migrate_scanned + 2 * cost.moved, 32_768);
    // The other region is as it was.
    assert!(
        (32_768..65_536).all(|f| (machine.table.state(Frame(f)) == State::Free) == (f % 2 == 0))
    );
}

#[test]
fn compactd_works_from_the_threshold_up_and_stops_when_it_is_good() {
    let mut machine = broken(NO_CACHES);
    assert_eq!(machine.freebsd.fragmentation(0), 998, "1 - (32,768/512)/32,768");
    let daemon = Compactd::default();
    let ran = machine.compactd(&daemon);
    assert_eq!((ran.before, ran.rounds, ran.cost.moved), (998, 1, 16_384));
    assert!(ran.after < 0 && ran.rest_ms == 125, "{ran:?}");
    machine.validate();
    let again = machine.compactd(&daemon);
    assert_eq!((again.rounds, again.rest_ms), (0, 1000), "nothing to do");
    // The slide's daemon sleeps while memory is fragmented and works without effect while it is
    // not.
    let presented = Compactd { reading: Reading::AsPresented, ..daemon };
    assert_eq!(broken(NO_CACHES).compactd(&presented).rounds, 0);
    assert!(machine.compactd(&presented).rounds > 0);
}

#[test]
fn compactd_gives_up_after_ten_rounds_and_rests_as_its_source_says() {
    // Unmovable pages everywhere.
    let pollute = || {
        let mut machine = Machine::new(65_536, NO_CACHES);
        machine.batch(65_536, Unmovable);
        (0..65_536).step_by(2).for_each(|frame| machine.free(frame));
        machine
    };
    for (reading, rest_ms) in [(Reading::AsIntended, 2000), (Reading::AsWritten, 125)] {
        let daemon = Compactd { reading, ..Compactd::default() };
        let ran = pollute().compactd(&daemon);
        assert_eq!((ran.rounds, ran.cost.moved, ran.rest_ms), (10, 0, rest_ms));
    }
}

#[test]
fn sparse_memory_is_compacted_where_it_is() {
    // 64 MiB, a hole of 3 GiB and a half, 32 MiB.
    let parts = [0..16_384, 1_000_448..1_008_640];
    let layout = layout(&parts);
    let mut machine = Machine::with(&layout, NO_CACHES);
    let frames = parts.iter().map(|part| part.end - part.start).sum::<u64>() as u32;
    let taken: Vec<u32> = machine.batch(frames, Movable).into_iter().flatten().collect();
    assert_eq!(taken.len() as u32, frames);
    taken.iter().filter(|frame| *frame % 4 != 0).for_each(|&frame| machine.free(frame));
    assert!(machine.freebsd.fragmentation(0) > 990);
    let ran = machine.compactd(&Compactd::default());
    assert!(ran.after < 0, "{ran:?}");
    machine.validate();
    // All of memory's free part but a quarter's rim lies in superpages.
    let counts = machine.freebsd.domain_counts(0);
    let large: u64 = counts.iter().enumerate().skip(9).map(|(j, count)| count << j).sum();
    assert_eq!(large, u64::from(frames) * 3 / 4);
}

/// Pages of which some cannot be taken, others fail at the last moment; and what each holds.
struct Content {
    held: Vec<Option<Owner>>,
    pinned: BTreeSet<Owner>,
    busy: BTreeSet<Owner>,
}

impl Pages for Content {
    fn can_isolate(&self, table: &FrameTable, frame: Frame, _: Mode) -> bool {
        table.mobility(frame) == Mobility::Movable && !self.pinned.contains(&table.owner(frame))
    }

    fn copy(&mut self, owner: Owner, from: Frame, to: Frame, _: Mode) -> bool {
        if self.busy.contains(&owner) {
            return false;
        }
        assert_eq!(self.held[from.index()].take(), Some(owner), "content elsewhere");
        assert_eq!(self.held[to.index()].replace(owner), None, "onto somebody's content");
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn fingers_keep_all_content_and_leave_no_hole_below_a_page(
        freed in prop::collection::btree_set(0..8192u32, 200..6000),
        unmovable in prop::collection::btree_set(0..8192u32, 0..30),
        stuck in prop::collection::btree_set(0..8192u32, 0..60),
    ) {
        let mut machine = Machine::new(8192, NO_CACHES);
        machine.batch(8192, Movable);
        for &frame in &unmovable {
            let owner = machine.table.owner(Frame(frame));
            machine.table.release(Frame(frame));
            machine.table.allocate(Frame(frame), Order::BASE, Mobility::Unmovable, owner);
        }
        freed.iter().for_each(|&frame| machine.free(frame));
        let content = |table: &FrameTable| -> Vec<Option<Owner>> {
            let used = |&f: &u32| table.state(Frame(f)) == State::Allocated;
            (0..8192).map(|f| Some(f).filter(used).map(|f| table.owner(Frame(f)))).collect()
        };
        let before = content(&machine.table);
        let (pinned, busy): (BTreeSet<u32>, BTreeSet<u32>) = stuck.iter().partition(|f| *f % 2 == 0);
        let mut pages = Content { held: before.clone(), pinned, busy };
        let (table, freebsd) = (&mut machine.table, &mut machine.freebsd);
        let cost = compact_region(table, freebsd, &mut pages, Frame(0)..Frame(8192));
        machine.validate();
        prop_assert_eq!(&content(&machine.table), &pages.held);
        let moved = (0..8192).filter(|&f| before[f].is_some() && pages.held[f] != before[f]).count();
        prop_assert_eq!(moved as u64, cost.moved);
        for (frame, owner) in before.iter().enumerate() {
            let Some(owner) = owner else { continue };
            if pages.pinned.contains(owner) || pages.busy.contains(owner) || unmovable.contains(owner) {
                prop_assert_eq!(pages.held[frame], Some(*owner), "it cannot move");
            }
        }
        // No hole lies below a page that could have gone there.
        let movable = |f: &u32| {
            machine.table.state(Frame(*f)) == State::Allocated
                && pages.can_isolate(&machine.table, Frame(*f), Mode::Async)
                && !pages.busy.contains(&machine.table.owner(Frame(*f)))
        };
        if let Some(highest) = (0..8192).rev().find(movable) {
            let mut holes = 0;
            let mut at = Frame(0);
            while at.0 < highest {
                let order = machine.table.order(at);
                let is_hole = machine.table.state(at) == State::Free && order < Order::HUGE;
                holes += if is_hole { order.frames() } else { 0 };
                at = at.offset(order.frames());
            }
            prop_assert_eq!(holes, 0, "below {}, {:?}", highest, cost);
        }
    }
}
