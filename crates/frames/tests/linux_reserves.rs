//! Watermarks and the reserve for atomic requests, worked out by hand: of Linux 6.1, and how later
//! releases differ.

mod machine;

use machine::{BARE, Machine, order, zone};
use prairie_frames::MigrateType::{HighAtomic, Movable, Unmovable};
use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::linux::Config;
use prairie_frames::placement::{Request, gfp};
use prairie_frames::{KernelVersion, Order, ZoneKind};

fn with_marks(kind: ZoneKind, start: u64, frames: u64, min: u64, low: u64) -> ZoneSpan {
    let watermarks = Watermarks { min, low, high: low + low / 4 };
    ZoneSpan { watermarks, ..zone(kind, start, frames) }
}

/// One zone of four pageblocks, filled with movable frames but for `free` at its end.
fn nearly_full(min: u64, low: u64, free: u32, config: Config) -> Machine {
    let zones = vec![with_marks(ZoneKind::Normal, 0, 2048, min, low)];
    let mut machine = Machine::with_zones(zones, config, &[]);
    machine.fill(0..2048 - free, Movable);
    machine
}

#[test]
fn the_low_watermark_sends_requests_to_the_next_zone() {
    let zones = vec![
        with_marks(ZoneKind::Dma32, 0, 2048, 0, 0),
        with_marks(ZoneKind::Normal, 2048, 2048, 50, 100),
    ];
    let mut machine = Machine::with_zones(zones, BARE, &[]);
    // At 101 free frames the last is given; at 100 no more.
    machine.fill(2048..4096 - 100, Movable);
    assert_eq!(machine.allocate(0, Movable), 0);
    assert_eq!(machine.counter("below_low"), 0);
}

#[test]
fn a_lower_zone_keeps_its_reserve_from_those_with_a_choice() {
    let mut dma32 = with_marks(ZoneKind::Dma32, 0, 2048, 0, 0);
    dma32.lowmem_reserve = [0, 0, 2040, 2040, 2040, 0];
    let zones = vec![dma32, with_marks(ZoneKind::Normal, 2048, 2048, 0, 0)];
    let mut machine = Machine::with_zones(zones, BARE, &[]);
    machine.fill(2048..4096, Movable);
    machine.fill(0..8, Movable);
    assert_eq!(machine.counter("below_min"), 0);
    machine.allocate(0, Movable);
    assert_eq!(machine.counter("below_min"), 1, "the reserve is all that is left");
    let request = Request { highest_zone: ZoneKind::Dma32, ..Request::default() };
    assert!(machine.request(request).is_some());
    assert_eq!(machine.counter("below_min"), 1, "without a choice there is no reserve");
}

#[test]
fn requests_dig_as_deep_as_they_may() {
    // 40 frames are free: below low, above min for an ordinary request.
    let mut machine = nearly_full(32, 64, 40, BARE);
    machine.allocate(0, Movable);
    assert_eq!((machine.counter("below_low"), machine.counter("kswapd_wake_low")), (25, 25));
    for _ in 0..7 {
        machine.allocate(0, Movable);
    }
    assert_eq!((machine.counter("below_low"), machine.counter("below_min")), (32, 0));
    // At 32 it would have to reclaim, while an atomic request may take until 32/2 − 16/4 = 12.
    machine.allocate(0, Movable);
    assert_eq!(machine.counter("below_min"), 1);
    for _ in 12..31 {
        assert!(machine.atomic(0).is_some());
    }
    assert_eq!(machine.counter("below_min_atomic"), 0);
    assert!(machine.atomic(0).is_some());
    assert_eq!(machine.counter("below_min_atomic"), 1);
}

#[test]
fn larger_requests_need_a_block_that_fits() {
    let mut machine = Machine::new(4, BARE);
    machine.fill(0..2048, Movable);
    machine.free_all((0..2048).step_by(2));
    let request = Request { order: order(1), migrate_type: Movable, ..Request::default() };
    assert_eq!(machine.request(request), None);
    assert_eq!(machine.counter("failed"), 1);
    machine.free(1);
    assert_eq!(machine.request(request), Some(0));
    assert_eq!(machine.request(Request { order: Order::MIB_32, ..request }), None);
}

#[test]
fn a_large_atomic_request_reserves_its_pageblock() {
    let mut machine = nearly_full(200, 1000, 700, BARE);
    let before = machine.counter("highatomic_reserve");
    let frame = machine.atomic(1).unwrap();
    assert_eq!((before, machine.counter("highatomic_reserve")), (0, 1));
    assert_eq!(machine.type_of(frame), HighAtomic);
    // The next such request is served from it, and it is not reserved twice.
    let next = machine.atomic(1).unwrap();
    assert_eq!(machine.type_of(next), HighAtomic);
    assert_eq!(next / 512, frame / 512);
    assert_eq!(machine.counter("highatomic_reserve"), 1);
    // Others do not touch it, not even by fallback.
    let other = machine.allocate(0, Unmovable);
    assert_ne!(other / 512, frame / 512);
    let machine = nearly_full(200, 1000, 700, Config { highatomic: false, ..BARE });
    assert_eq!(machine.counter("highatomic_reserve"), 0);
}

#[test]
fn a_request_above_the_low_watermark_reserves_nothing() {
    let mut machine = nearly_full(200, 300, 700, BARE);
    assert!(machine.atomic(1).is_some());
    assert_eq!(machine.counter("highatomic_reserve"), 0);
}

/// A hundredth of 2,048 frames and one pageblock: the second reservation is the last.
#[test]
fn the_reserve_is_limited() {
    let mut machine = nearly_full(0, 2048, 2048, BARE);
    // Blocks larger than half a pageblock, so that each comes from another one.
    for _ in 0..4 {
        machine.atomic(9).unwrap();
    }
    assert_eq!(machine.counter("highatomic_reserve"), 2);
}

/// The rules of a release `6.minor` without per-CPU lists.
fn bare(minor: u8) -> Config {
    Config { per_cpu_lists: false, ..Config::of(KernelVersion::new(6, minor)) }
}

/// In 6.7 a hundredth and one pageblock more, even of small zones.
#[test]
fn since_6_8_the_reserve_is_a_hundredth_in_whole_pageblocks() {
    let reserved = |minor, pageblocks: u64| {
        let frames = pageblocks * 512;
        let zones = vec![with_marks(ZoneKind::Normal, 0, frames, 0, frames)];
        let mut machine = Machine::with_zones(zones, bare(minor), &[]);
        for _ in 0..4 {
            machine.atomic(9).unwrap();
        }
        machine.counter("highatomic_reserve")
    };
    assert_eq!([99, 100, 150].map(|pageblocks| reserved(7, pageblocks)), [2, 2, 3]);
    assert_eq!([99, 100, 150].map(|pageblocks| reserved(8, pageblocks)), [0, 1, 2]);
}

/// A block of order 10 is two pageblocks. 6.9 counts one and leaves the other to all.
#[test]
fn since_6_10_a_larger_block_joins_the_reserve_whole() {
    let types = |minor| {
        let zones = vec![with_marks(ZoneKind::Normal, 0, 512 * 200, 0, 512 * 200)];
        let mut machine = Machine::with_zones(zones, bare(minor), &[]);
        let frame = machine.atomic(10).unwrap();
        let types = [0, 512].map(|at| machine.type_of(frame + at));
        // A hundredth, 1,024 frames, is reserved now, or half of it.
        machine.atomic(10).unwrap();
        (types, machine.counter("highatomic_reserve"))
    };
    assert_eq!(types(9), ([HighAtomic, Unmovable], 2));
    assert_eq!(types(10), ([HighAtomic, HighAtomic], 1));
}

/// Free frames of the reserve are out of reach in both releases. 6.11 subtracts its used frames
/// as well, although they are not free.
#[test]
fn since_6_12_used_frames_of_the_reserve_do_not_count_against_the_watermark() {
    let below_low = |minor| {
        let zones = vec![with_marks(ZoneKind::Normal, 0, 2048, 0, 1100)];
        let mut machine = Machine::with_zones(zones, bare(minor), &[HighAtomic]);
        // Until 1,612 frames are free, 512 of them in the reserve.
        let frames: Vec<u32> = (0..436).map(|_| machine.allocate(0, Movable)).collect();
        let above = machine.counter("below_low");
        let reserved = machine.atomic(9).unwrap();
        assert_eq!(machine.type_of(reserved), HighAtomic);
        let at = machine.counter("below_low");
        // Then 1,200 are free, none of them in the reserve.
        machine.free_all(frames.into_iter().take(100));
        machine.allocate(0, Movable);
        [above, at, machine.counter("below_low")]
    };
    assert_eq!(below_low(11), [0, 1, 2]);
    assert_eq!(below_low(12), [0, 1, 1]);
}

#[test]
fn the_reserve_is_given_back_before_a_request_fails() {
    let mut machine = nearly_full(0, 2048, 512, BARE);
    let atomic = machine.atomic(1).unwrap();
    assert_eq!(machine.type_of(atomic), HighAtomic);
    // All that is free is reserved: 510 frames.
    assert!(machine.list(8, Movable).is_empty() && machine.list(8, Unmovable).is_empty());
    let timid = Request { gfp_flags: gfp::KERNEL | gfp::NORETRY, ..Request::default() };
    assert_eq!(machine.request(timid), None, "the last reserved pageblock stays");
    assert!(machine.request(Request::default()).is_some());
    assert_eq!(machine.counter("highatomic_unreserve"), 1);
    assert_eq!(machine.type_of(atomic), Unmovable);
}

#[test]
fn an_atomic_frame_comes_from_the_reserve_in_the_end() {
    let mut machine = nearly_full(0, 2048, 512, BARE);
    let atomic = machine.atomic(1).unwrap();
    let single = machine.atomic(0).unwrap();
    assert_eq!(single / 512, atomic / 512);
    assert_eq!(machine.type_of(atomic), HighAtomic);
}

#[test]
fn frames_on_per_cpu_lists_are_had_before_a_request_fails() {
    let config = Config { per_cpu_lists: true, ..BARE };
    let mut machine = Machine::new(4, config);
    machine.set_pageset(1, 0);
    machine.fill(0..2048, Movable);
    machine.set_pageset(63, 1000);
    machine.free_all(0..16);
    let request = Request { order: order(4), migrate_type: Movable, ..Request::default() };
    assert_eq!(machine.request(Request { gfp_flags: gfp::ATOMIC_REQUEST, ..request }), None);
    assert_eq!(machine.request(request), Some(0));
}

/// A fallback has raised the lowest mark to 544. Such a request must leave three eighths of it, 204,
/// and 150 frames are free. The request names `__GFP_HIGH` as `GFP_ATOMIC` of 6.3 does, without the flag that went with it before.
#[test]
fn since_6_3_urgent_requests_for_a_frame_ignore_raised_watermarks() {
    let below_min = |minor| {
        let rules = Config::of(KernelVersion::new(6, minor));
        let config = Config { keep_boost: true, per_cpu_lists: false, nofragment: false, ..rules };
        let mut machine = nearly_full(32, 64, 151, config);
        machine.allocate(0, Unmovable);
        assert_eq!(machine.counter("watermark_boost"), 1);
        let gfp_flags = gfp::HIGH | gfp::KSWAPD_RECLAIM;
        assert!(machine.request(Request { gfp_flags, ..Request::default() }).is_some());
        machine.counter("below_min_atomic")
    };
    assert_eq!((below_min(2), below_min(3)), (1, 0));
}
