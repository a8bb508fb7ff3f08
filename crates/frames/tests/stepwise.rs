//! Placements driven one attempt at a time: no attempt goes below its mark, and blocks taken by
//! their address come back.
#![allow(missing_docs)]

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::buddy::Buddy;
use prairie_frames::placement::linux::Linux;
use prairie_frames::placement::lists::{Division, Lists};
use prairie_frames::placement::regions::Regions;
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::zonelist::Depth;
use prairie_frames::placement::zones::{Kernelcore, Zones};
use prairie_frames::placement::{Placement, Request, gfp};
use prairie_frames::table::State;
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Mobility, Order, Pfn, ZoneKind};

const MARKS: Watermarks = Watermarks { min: 1024, low: 1280, high: 1536 };
const FRAMES: u64 = 64 * 512;

fn layout() -> Layout {
    let zone = ZoneSpan {
        node: 0,
        kind: ZoneKind::Normal,
        start: Pfn(0),
        spanned: FRAMES,
        managed: FRAMES,
        watermarks: MARKS,
        lowmem_reserve: [0; 6],
    };
    Layout::new(vec![zone]).unwrap()
}

fn machine<P: Stepwise>(make: impl Fn(&Layout) -> P) -> (FrameTable, P) {
    let layout = layout();
    let (mut table, mut placement) = (FrameTable::new(&layout), make(&layout));
    for start in (0..FRAMES as u32).step_by(1024) {
        table.add_memory(Frame(start), Order::LARGEST_FREE);
        placement.seed(&mut table, Frame(start), Order::LARGEST_FREE);
    }
    placement.start(&mut table);
    (table, placement)
}

fn movable() -> Request {
    Request {
        migrate_type: MigrateType::Movable,
        mobility: Mobility::Movable,
        gfp_flags: gfp::KERNEL & !gfp::KSWAPD_RECLAIM,
        ..Request::default()
    }
}

/// Allocates single frames until no attempt at `depth` succeeds; what is free is then just above
/// `mark`, give or take what per-CPU lists fetch at once.
fn stops_at_its_mark<P: Stepwise>(make: impl Fn(&Layout) -> P, slack: u64) {
    let (mut table, mut placement) = machine(make);
    let mut owner = 0;
    for (depth, mark) in [(Depth::Low, MARKS.low), (Depth::Min, MARKS.min), (Depth::All, 0)] {
        while placement.attempt(&mut table, &movable(), owner, depth).is_some() {
            owner += 1;
        }
        let free = placement.free_frames(0);
        assert!(free <= mark + slack && free + slack >= mark, "{depth:?}: {free} free at {mark}");
        assert!(
            depth == Depth::All
                || placement.watermark_ok(0, Order::BASE, mark / 2, ZoneKind::Normal)
        );
        placement.validate(&table);
    }
    assert!(!placement.watermark_ok(0, Order::BASE, 0, ZoneKind::Normal));
}

#[test]
fn attempts_stop_at_their_marks() {
    stops_at_its_mark(|layout| Buddy::new(layout, Order::LARGEST_FREE), 63);
    stops_at_its_mark(|layout| Linux::new(layout, Default::default()), 63);
    stops_at_its_mark(|layout| Lists::new(layout, Order::LARGEST_FREE, Division::TwoWay), 63);
    stops_at_its_mark(|layout| Zones::new(layout, Order::LARGEST_FREE, None), 63);
}

/// The movable region has its share of the marks, and the rest of memory is not its own.
#[test]
fn attempts_within_a_region_stop_at_its_share() {
    let (mut table, mut regions) = machine(|layout| Regions::new(layout, Default::default()));
    let mut left = Vec::new();
    let mut owner = 0;
    for depth in [Depth::Low, Depth::Min] {
        while regions.attempt(&mut table, &movable(), owner, depth).is_some() {
            owner += 1;
        }
        left.push(Placement::free_frames(&regions, 0));
        regions.validate(&table);
    }
    assert!(left[0] > left[1], "deeper with each depth: {left:?}");
}

fn taken_blocks_come_back<P: Stepwise>(make: impl Fn(&Layout) -> P) {
    let (mut table, mut placement) = machine(make);
    let before = (placement.free_frames(0), placement.free_counts(0));
    let head = (0..FRAMES as u32).map(Frame).find(|&f| table.state(f) == State::Free).unwrap();
    let order = placement.take_block(&mut table, head);
    assert_eq!(placement.free_frames(0), before.0 - order.frames());
    assert_eq!(placement.free_counts(0)[order.index()], before.1[order.index()] - 1);
    // Given back in halves, it merges again.
    let half = Order::new(order.get() - 1).unwrap();
    placement.give_block(&mut table, head, half);
    placement.give_block(&mut table, head.offset(half.frames()), half);
    assert_eq!((placement.free_frames(0), placement.free_counts(0)), before);
    placement.validate(&table);
}

#[test]
fn blocks_taken_by_address_come_back_whole() {
    taken_blocks_come_back(|layout| Buddy::new(layout, Order::LARGEST_FREE));
    taken_blocks_come_back(|layout| Linux::new(layout, Default::default()));
    taken_blocks_come_back(|layout| Regions::new(layout, Default::default()));
    taken_blocks_come_back(|layout| Lists::new(layout, Order::LARGEST_FREE, Division::TwoWay));
    let halves = Some(Kernelcore::Percent(50));
    taken_blocks_come_back(|layout| Zones::new(layout, Order::LARGEST_FREE, halves));
}

#[test]
fn draining_empties_per_cpu_lists() {
    let (mut table, mut buddy) = machine(|layout| Buddy::new(layout, Order::LARGEST_FREE));
    buddy.attempt(&mut table, &movable(), 0, Depth::Low).unwrap();
    let free = buddy.free_frames(0);
    assert!(free + 1 < FRAMES, "a batch went to the per-CPU list");
    buddy.drain(&mut table);
    assert_eq!(buddy.free_frames(0), FRAMES - 1);
    buddy.validate(&table);
}
