//! The per-CPU lists of Linux 6.1, worked out by hand.

mod machine;

use machine::{Machine, zone};
use prairie_frames::MigrateType::{HighAtomic, Isolate, Movable, Unmovable};
use prairie_frames::layout::Watermarks;
use prairie_frames::placement::Placement;
use prairie_frames::placement::linux::{Config, Linux, Pageset};
use prairie_frames::{Frame, Layout, Order, ZoneKind};

fn machine(blocks: u64) -> Machine {
    Machine::new(blocks, Config::default())
}

#[test]
fn limits_follow_from_the_zone() {
    let limits = |managed: u64, low: u64, cpus: u16| {
        let mut span = zone(ZoneKind::Normal, 0, managed);
        span.watermarks = Watermarks { min: 0, low, high: 0 };
        let pageset = Pageset::of_zone(&span, cpus);
        (pageset.batch, pageset.high)
    };
    assert_eq!(limits(1 << 20, 21_120, 2), (63, 10_560), "4 GiB");
    assert_eq!(limits(1 << 17, 1000, 2), (31, 500), "512 MiB");
    assert_eq!(limits(1 << 17, 0, 2), (31, 124), "at least four batches");
    assert_eq!(limits(3840, 0, 4), (1, 4), "a DMA zone");
    // What zoneinfo says counts.
    let layout = Layout::new(vec![zone(ZoneKind::Normal, 0, 2048)]).unwrap();
    let mut linux = Linux::new(&layout, Config::default());
    linux.set_pageset(0, Pageset::fixed(7, 28));
    assert_eq!(linux.pageset(0), Pageset::fixed(7, 28));
}

#[test]
fn a_refill_hands_out_in_physical_order() {
    let mut machine = machine(8);
    machine.set_pageset(4, 64);
    machine.fill(0..3, Movable);
    assert_eq!(machine.linux.cached_frames(), 1);
    assert!(machine.is_cached(3));
    // Freed last, allocated first.
    machine.free_all([0, 2]);
    assert_eq!([0; 4].map(|_| machine.allocate(0, Movable)), [2, 0, 3, 4]);
    assert_eq!(machine.counter("pcp_refill"), 2);
}

#[test]
fn a_refill_is_a_batch_of_frames_but_two_blocks_at_least() {
    for (order, blocks) in [(0, 63), (1, 31), (2, 15), (3, 7), (9, 2)] {
        let mut machine = machine(8);
        machine.set_pageset(63, 10_000);
        machine.allocate(order, Movable);
        assert_eq!(machine.linux.cached_frames(), (blocks - 1) << order, "order {order}");
    }
    let mut machine = machine(8);
    machine.set_pageset(1, 4);
    machine.allocate(3, Movable);
    assert_eq!(machine.linux.cached_frames(), 0, "a batch of one is one");
    machine.allocate(4, Movable);
    assert_eq!(machine.linux.cached_frames(), 0, "orders 4 to 8 and 10 have no lists");
}

#[test]
fn without_huge_pages_order_nine_has_no_list() {
    let mut machine = Machine::new(8, Config { huge_pages: false, ..Config::default() });
    machine.allocate(9, Movable);
    assert_eq!(machine.linux.cached_frames(), 0);
}

#[test]
fn every_cpu_has_its_own_lists() {
    let mut machine = machine(8);
    machine.set_pageset(4, 64);
    machine.allocate(0, Movable);
    let on_cpu_3 = prairie_frames::placement::Request {
        migrate_type: Movable,
        mobility: prairie_frames::Mobility::Movable,
        cpu: 3,
        ..Default::default()
    };
    assert_eq!(machine.request(on_cpu_3), Some(4));
    machine.linux.drain_cpu(&mut machine.table, 0);
    assert_eq!(machine.linux.cached_frames(), 3);
    machine.linux.drain_all(&mut machine.table);
    assert_eq!(machine.linux.cached_frames(), 0);
}

/// Four unmovable frames and two movable ones on a CPU's lists; the sixth overflows. Three are
/// freed: both of the list that overflowed, then, all lists above being empty, the tail of the
/// first.
#[test]
fn draining_goes_round_the_lists() {
    let mut machine = machine(8);
    machine.set_pageset(1, 0);
    let unmovable = [0; 4].map(|_| machine.allocate(0, Unmovable));
    let movable = [0; 2].map(|_| machine.allocate(0, Movable));
    assert_eq!(machine.linux.cached_frames(), 0);
    machine.set_pageset(3, 6);
    machine.free_all(unmovable);
    machine.free_all(movable);
    let cached = |frames: &[u32]| frames.iter().map(|&f| machine.is_cached(f)).collect::<Vec<_>>();
    assert_eq!(cached(&movable), [false, false]);
    assert_eq!(cached(&unmovable), [false, true, true, true]);
}

#[test]
fn draining_takes_the_longest_unused_first() {
    let mut machine = machine(8);
    machine.set_pageset(1, 0);
    machine.fill(0..16, Movable);
    machine.set_pageset(2, 8);
    // Odd frames only, so that nothing merges and the free list shows what came when.
    machine.free_all([1, 3, 5, 7, 9, 11, 13, 15]);
    assert_eq!(machine.list(0, Movable), [3, 1]);
    assert!([5, 7, 9, 11, 13, 15].into_iter().all(|frame| machine.is_cached(frame)));
}

#[test]
fn frees_in_a_row_free_more_each_time() {
    let mut machine = machine(8);
    machine.set_pageset(1, 0);
    machine.fill(0..200, Movable);
    machine.set_pageset(2, 20);
    let mut drains = Vec::new();
    for frame in 0..100 {
        let before = machine.linux.cached_frames();
        machine.free(frame);
        let freed = before + 1 - machine.linux.cached_frames();
        if freed > 0 {
            drains.push(freed);
        }
    }
    // Doubling, but a batch stays behind.
    assert_eq!(drains, [2, 4, 8, 16, 18, 18, 18]);
    // It has doubled four times; an allocation leaves two of these, a second leaves one.
    machine.allocate(0, Movable);
    machine.allocate(0, Movable);
    let mut frame = 100;
    while machine.linux.cached_frames() < 19 {
        machine.free(frame);
        frame += 1;
    }
    machine.free(frame);
    assert_eq!(machine.linux.cached_frames(), 20 - 4);
}

#[test]
fn a_larger_block_in_a_row_of_frees_flushes_everything() {
    let mut machine = machine(8);
    machine.set_pageset(1, 0);
    let pairs = [0; 2].map(|_| machine.allocate(1, Movable));
    let singles: Vec<u32> = (0..18).map(|_| machine.allocate(0, Movable)).collect();
    machine.set_pageset(2, 20);
    machine.free(pairs[0]);
    assert_eq!(machine.linux.cached_frames(), 2, "nothing was freed in a row before");
    machine.free_all(singles);
    assert_eq!(machine.linux.cached_frames(), 2 + 18 - 2);
    machine.free(pairs[1]);
    assert_eq!(machine.linux.cached_frames(), 0);
}

#[test]
fn huge_pages_do_not_flush() {
    let mut machine = machine(8);
    machine.set_pageset(1, 0);
    let huge = machine.allocate(9, Movable);
    machine.fill(512..612, Movable);
    machine.set_pageset(2, 20);
    machine.free_all(512..532);
    machine.set_pageset(2, 2000);
    machine.free(huge);
    assert_eq!(machine.linux.cached_frames(), 18 + 512);
    assert!(machine.is_cached(huge));
}

#[test]
fn reclaim_keeps_the_lists_short() {
    let mut machine = machine(8);
    machine.set_pageset(1, 0);
    machine.fill(0..32, Movable);
    machine.set_pageset(4, 1000);
    machine.free_all(0..15);
    assert_eq!(machine.linux.cached_frames(), 15);
    machine.linux.set_reclaim_active(0, true);
    machine.free(15);
    assert_eq!(machine.linux.cached_frames(), 12, "four batches are too many");
}

/// A frame goes back to the list of the type that its pageblock had when it was freed.
#[test]
fn a_drain_goes_by_the_type_of_then() {
    let types = [HighAtomic];
    let zones = vec![zone(ZoneKind::Normal, 0, 2048)];
    let mut machine = Machine::with_zones(zones, Config::default(), &types);
    machine.set_pageset(1, 0);
    let frame = {
        let request = prairie_frames::placement::Request {
            order: Order::new(1).unwrap(),
            gfp_flags: prairie_frames::placement::gfp::ATOMIC_REQUEST,
            ..Default::default()
        };
        // The fast path serves it from an ordinary pageblock.
        machine.request(request).unwrap()
    };
    assert_eq!(machine.type_of(frame), Unmovable);
    machine.set_pageset(2, 100);
    machine.free(frame);
    // Held back as unmovable; its pageblock is retyped meanwhile.
    machine.linux.mark_pageblock(Frame(frame).pageblock(), Movable);
    machine.linux.drain_all(&mut machine.table);
    assert!(!machine.is_cached(frame));
    let stale = (0..=10).any(|order| machine.list(order, Unmovable).contains(&(frame & !511)));
    assert!(stale, "the whole pageblock merged onto the unmovable list");
}

/// What lies in an isolated pageblock is freed past the per-CPU lists, and what they hold of it
/// goes to the isolated list in the end, from where nothing is allocated.
#[test]
fn isolated_pageblocks_are_left_alone() {
    let mut machine = machine(4);
    machine.set_pageset(1, 0);
    machine.fill(0..512, Movable);
    machine.set_pageset(4, 100);
    machine.free(0);
    machine.linux.mark_pageblock(0, Isolate);
    machine.free(2);
    assert!(machine.is_cached(0));
    assert_eq!(machine.list(0, Isolate), [2]);
    machine.linux.drain_all(&mut machine.table);
    assert_eq!(machine.list(0, Isolate), [0, 2]);
}

/// Frames of a reserved pageblock share the movable list, and keep their type there.
#[test]
fn reserved_frames_pass_through_the_movable_list() {
    let mut machine = machine(4);
    machine.set_pageset(1, 0);
    machine.fill(0..4, Movable);
    machine.set_pageset(4, 100);
    machine.linux.mark_pageblock(0, HighAtomic);
    machine.free_all([0, 2]);
    assert_eq!(machine.allocate(0, Movable), 2, "as in the kernel, any movable request gets it");
    machine.linux.drain_all(&mut machine.table);
    assert_eq!(machine.list(0, HighAtomic), [0]);
}
