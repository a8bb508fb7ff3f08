//! Linux 6.15: a fallback claims a pageblock or takes a single block, and in defrag mode waits until
//! nothing else is left. The same states as in `linux_fallback.rs`, so that the difference shows.

mod machine;

use machine::{BARE, Machine, movable_single, order, zone};
use prairie_frames::MigrateType::{Movable, Unmovable};
use prairie_frames::compaction::Compactable;
use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::linux::Config;
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::zonelist::Depth;
use prairie_frames::placement::{Placement, Request, gfp};
use prairie_frames::{Frame, Layout, Order, ZoneKind};

const HYGIENE: Config = Config { hygiene: true, ..BARE };

/// A machine full of movable frames, of which some are then freed.
fn with_free(config: Config, frames: std::ops::Range<u32>) -> Machine {
    let mut machine = Machine::new(4, config);
    machine.fill(0..2048, Movable);
    machine.free_all(frames);
    machine
}

#[test]
fn a_pageblock_is_claimed_at_half() {
    let mut machine = with_free(HYGIENE, 768..1024);
    assert_eq!(machine.allocate(0, Unmovable), 768);
    assert_eq!(machine.type_of(768), Unmovable);
    assert_eq!(machine.list(7, Unmovable), [896], "all that was free went along");
    assert_eq!(machine.counter("steal_claim"), 1);
    assert_eq!(machine.counter("extfrag_change_ownership"), 1);
}

/// 6.1 moves all 255 free frames of this pageblock to the unmovable lists without claiming it.
#[test]
fn below_half_a_single_block_goes_and_the_rest_stays() {
    let mut machine = with_free(HYGIENE, 769..1024);
    assert_eq!(machine.allocate(1, Unmovable), 770, "the smallest that fits");
    assert_eq!(machine.type_of(769), Movable);
    assert_eq!(machine.list(0, Movable), [769]);
    assert_eq!(machine.list(7, Movable), [896]);
    for order in 0..=10 {
        assert!(machine.list(order, Unmovable).is_empty(), "order {order}");
    }
    assert_eq!((machine.counter("steal_single"), machine.counter("steal_block")), (1, 0));
    assert_eq!(machine.counter("extfrag_change_ownership"), 0);
}

/// A frame that went to a per-CPU list while its pageblock was movable comes back to what the
/// pageblock is by then.
#[test]
fn drains_follow_the_pageblock() {
    let config = Config { hygiene: true, per_cpu_lists: true, ..BARE };
    let mut machine = Machine::new(4, config);
    machine.set_pageset(4, 16);
    machine.fill(0..2048, Movable);
    machine.free(512);
    assert!(machine.is_cached(512));
    machine.linux.mark_pageblock(1, Unmovable);
    machine.linux.drain_all(&mut machine.table);
    assert_eq!(machine.list(0, Unmovable), [512]);
}

/// 255 free frames, in blocks of orders 0 to 7, cannot be claimed. The first frame of a refill is looked
/// for among the unmovable and tries to claim with each of the eight orders, which raises the watermarks
/// each time; the other three frames are stolen at once.
#[test]
fn a_refill_that_steals_does_not_try_to_claim_again() {
    let config = Config { per_cpu_lists: true, ..HYGIENE };
    let zones = vec![ZoneSpan {
        watermarks: Watermarks { min: 0, low: 0, high: 2048 },
        ..zone(ZoneKind::Normal, 0, 2048)
    }];
    let mut machine = Machine::with_zones(zones, config, &[]);
    machine.set_pageset(1, 0);
    machine.fill(0..2048, Movable);
    machine.free_to_buddy(769..1024);
    machine.set_pageset(4, 64);
    let before = machine.counter("watermark_boost");
    assert_eq!(machine.allocate(0, Unmovable), 769);
    assert_eq!(machine.linux.cached_frames(), 3);
    assert_eq!(machine.counter("steal_single"), 4);
    assert_eq!(machine.counter("watermark_boost") - before, 8);
}

/// A machine whose first zone ends amid a pageblock, where the next begins: the upper half of that
/// pageblock is free, all else movable and in use.
fn cut_pageblock(config: Config) -> Machine {
    let zones = vec![zone(ZoneKind::Dma32, 0, 768), zone(ZoneKind::Normal, 768, 1280)];
    let mut machine = Machine::of_layout(Layout::new(zones).unwrap(), config, &[], order(8));
    machine.fill(768..2048, Movable);
    machine.fill(512..768, Movable);
    machine.fill(0..512, Movable);
    machine.free_all(768..1024);
    machine
}

/// 6.1 begins at the first frame of the zone.
#[test]
fn since_6_10_a_pageblock_cut_by_the_zones_start_is_not_claimed() {
    let allocated = |config| {
        let mut machine = cut_pageblock(config);
        let frame = machine.allocate(0, Unmovable);
        (frame, machine.type_of(frame), machine.counter("steal_claim"))
    };
    assert_eq!(allocated(BARE), (768, Unmovable, 1));
    assert_eq!(allocated(HYGIENE), (768, Movable, 0));
}

#[test]
fn defrag_mode_spares_foreign_pageblocks_until_fallback_is_allowed() {
    let mut machine = with_free(Config { defrag_mode: true, ..HYGIENE }, 600..1024);
    let request = Request { gfp_flags: gfp::KERNEL, ..Request::default() };
    let attempt = |machine: &mut Machine| {
        machine.linux.attempt(&mut machine.table, &request, 4000, Depth::Min)
    };
    // 424 frames are free, more than enough to claim; but no pageblock is wholly free.
    assert_eq!(attempt(&mut machine), None);
    machine.linux.may_mix(true);
    assert!(attempt(&mut machine).is_some());
    assert_eq!(machine.counter("steal_claim"), 1);
}

#[test]
fn defrag_mode_takes_whole_pageblocks_gladly() {
    let mut machine = with_free(Config { defrag_mode: true, ..HYGIENE }, 512..1024);
    assert_eq!(machine.allocate(0, Unmovable), 512);
    assert_eq!(machine.type_of(512), Unmovable);
    assert_eq!(machine.counter("nofragment_retry"), 0);
}

/// Compaction takes a large free block out of an unmovable pageblock for movable pages: what else
/// is free in there changes lists as well.
#[test]
fn isolation_takes_the_pageblocks_free_blocks_along() {
    let mut machine =
        Machine::with_zones(vec![zone(ZoneKind::Normal, 0, 4096)], HYGIENE, &[Movable, Unmovable]);
    machine.request(Request { order: order(0), ..Request::default() }).expect("memory");
    let taken = machine.list(0, Unmovable)[0] - 1;
    let half = Frame(machine.list(8, Unmovable)[0]);
    let isolated = machine.linux.isolate_free(&mut machine.table, 0, half);
    assert_eq!(isolated, Order::new(8));
    assert_eq!(machine.type_of(taken), Movable);
    assert_eq!(machine.list(0, Movable), [taken + 1]);
    assert!(machine.list(0, Unmovable).is_empty());
    machine.linux.give_block(&mut machine.table, half, order(8));
    assert!(machine.request(movable_single()).is_some());
}
