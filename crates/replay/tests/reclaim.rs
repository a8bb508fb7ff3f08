//! Simulated reclaim: what the record reclaimed stays until the allocator needs it, oldest first.
#![allow(missing_docs)]

mod common;

use std::collections::BTreeSet;

use common::empty_machine;
use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::Placement;
use prairie_frames::placement::buddy::Buddy;
use prairie_frames::placement::freebsd::FreeBsd;
use prairie_frames::placement::linux::Linux;
use prairie_frames::placement::regions::Regions;
use prairie_frames::{Layout, MigrateType, Order, Pfn, ZoneKind};
use prairie_replay::initial_state::InitialState;
use prairie_replay::replay::{Initial, Replay};
use prairie_trace::{Event, EventKind, GfpFlags, StackId, StallPoint};
use proptest::prelude::*;

/// 16 MiB.
const FRAMES: u64 = 4096;
const MARKS: Watermarks = Watermarks { min: 64, low: 128, high: 192 };

const KSWAPD: i32 = 40;
const PROGRAM: i32 = 7;

/// `GFP_KERNEL`, and a page of a file that is read ahead (`__GFP_HIGHMEM`, `__GFP_MOVABLE`,
/// `__GFP_HARDWALL`, `__GFP_NORETRY`, `__GFP_NOWARN`), in 6.1's numbers.
const KERNEL: GfpFlags = GfpFlags(0xcc0);
const ATOMIC: GfpFlags = GfpFlags(0xa20);
const READ_AHEAD: GfpFlags = GfpFlags(0x112_cca);
/// Memory of a process (`GFP_HIGHUSER_MOVABLE`, `__GFP_ZERO`).
const ANONYMOUS: GfpFlags = GfpFlags(0x100_dca);

fn event(pid: i32, what: EventKind) -> Event {
    Event { time_ns: 0, pid, cpu: 0, what }
}

fn alloc(pfn: u64, order: u8, gfp: GfpFlags) -> Event {
    let movable = gfp.contains(GfpFlags::MOVABLE);
    let migrate_type = if movable { MigrateType::Movable } else { MigrateType::Unmovable };
    let order = Order::new(order).unwrap();
    let stack = StackId::NONE;
    event(PROGRAM, EventKind::Alloc { pfn: Pfn(pfn), order, migrate_type, gfp, stack })
}

fn free(pid: i32, pfn: u64, order: u8) -> Event {
    event(pid, EventKind::Free { pfn: Pfn(pfn), order: Order::new(order).unwrap() })
}

fn stall(pid: i32, point: StallPoint) -> Event {
    let (order, gfp, stack) = (Order::BASE, KERNEL, StackId::NONE);
    event(pid, EventKind::Stall { point, task: pid, order, gfp, stack, value: 0 })
}

fn reclaiming<P: Placement>(make: impl Fn(&Layout) -> P, marks: Watermarks) -> Replay<P> {
    let found = empty_machine(FRAMES, marks);
    let mut replay = Replay::reclaiming(&found, make(&found.layout), Initial::AsFound);
    replay.learn_kswapd(KSWAPD);
    replay
}

fn buddy() -> Replay<Buddy> {
    // Without watermarks nothing is reclaimed in the background.
    reclaiming(|layout| Buddy::new(layout, Order::LARGEST_FREE), Watermarks::default())
}

fn used<P: Placement>(replay: &Replay<P>) -> u64 {
    replay.table().blocks().iter().map(|b| u64::from(b.present() - b.free)).sum()
}

/// Whether the memory that the record allocated as this frame, and reclaimed, is in use.
fn is_left<P: Placement>(replay: &Replay<P>, pfn: u64) -> bool {
    replay.table().block_containing((pfn + replay.layout().frames()) as u32).is_some()
}

#[test]
fn what_the_record_reclaims_stays() {
    let mut replay = buddy();
    replay.apply(&alloc(100, 0, READ_AHEAD));
    replay.apply(&alloc(101, 0, ANONYMOUS));
    replay.apply(&alloc(102, 0, KERNEL));
    replay.apply(&alloc(103, 0, READ_AHEAD));
    for pfn in 100..103 {
        replay.apply(&free(KSWAPD, pfn, 0));
    }
    // The kernel's own memory, such as slabs, is freed as in the record; so is a program's.
    replay.apply(&free(PROGRAM, 103, 0));
    replay.validate();
    assert_eq!(used(&replay), 2);
    assert_eq!([100, 101, 102, 103].map(|pfn| is_left(&replay, pfn)), [true, true, false, false]);
    assert_eq!(replay.counts().reclaims_left_out, 2);
    // The record uses the frame for something else: both have memory.
    replay.apply(&alloc(100, 0, KERNEL));
    replay.validate();
    assert_eq!(used(&replay), 3);
    replay.apply(&free(PROGRAM, 100, 0));
    assert!(is_left(&replay, 100));
    assert_eq!(replay.counts().frees_of_unknown, 0);
}

#[test]
fn direct_reclaim_is_between_its_events() {
    let mut replay = buddy();
    for pfn in 100..104 {
        replay.apply(&alloc(pfn, 0, READ_AHEAD));
    }
    replay.apply(&free(PROGRAM, 100, 0));
    replay.apply(&stall(PROGRAM, StallPoint::ReclaimBegin));
    replay.apply(&free(PROGRAM, 101, 0));
    // Within a cgroup's limit: any allocator would have to.
    replay.apply(&stall(8, StallPoint::CgroupReclaimBegin));
    replay.apply(&free(8, 102, 0));
    replay.apply(&stall(PROGRAM, StallPoint::ReclaimEnd));
    replay.apply(&free(PROGRAM, 103, 0));
    replay.validate();
    assert_eq!([100, 101, 102, 103].map(|pfn| is_left(&replay, pfn)), [false, true, false, false]);
}

/// The end of direct reclaim may be among lost events, or the process that reclaimed has ended and its
/// number is another's.
#[test]
fn direct_reclaim_ends_with_lost_events_and_with_the_process() {
    for ends in [EventKind::Lost { count: 1 }, EventKind::Exit] {
        let mut replay = buddy();
        replay.apply(&alloc(100, 0, READ_AHEAD));
        replay.apply(&stall(PROGRAM, StallPoint::ReclaimBegin));
        replay.apply(&event(PROGRAM, ends));
        replay.apply(&free(PROGRAM, 100, 0));
        assert!(!is_left(&replay, 100), "{ends:?}");
        replay.validate();
    }
}

#[test]
fn of_two_reclaimed_pages_with_one_frame_the_older_goes() {
    let mut replay = buddy();
    replay.apply(&alloc(512, 9, READ_AHEAD));
    replay.apply(&free(KSWAPD, 512, 9));
    assert_eq!(used(&replay), 512);
    replay.apply(&alloc(600, 0, READ_AHEAD));
    replay.apply(&free(KSWAPD, 600, 0));
    replay.validate();
    assert_eq!((used(&replay), replay.counts().reclaimed_in_background), (1, 512));
}

/// Memory is full of what the record has reclaimed, page cache, and a process's memory.
fn full() -> Replay<Buddy> {
    let mut replay = buddy();
    for pfn in 0..1024 {
        replay.apply(&alloc(pfn, 0, READ_AHEAD));
    }
    for pfn in 1024..FRAMES {
        replay.apply(&alloc(pfn, 0, ANONYMOUS));
    }
    for pfn in (0..512).rev() {
        replay.apply(&free(KSWAPD, pfn, 0));
    }
    replay.validate();
    replay
}

#[test]
fn what_is_pinned_is_not_reclaimed() {
    let mut replay = buddy();
    for pfn in 0..FRAMES {
        replay.apply(&alloc(pfn, 0, READ_AHEAD));
    }
    let pin = |pfn| EventKind::Pin { pfn: Pfn(pfn), order: Order::BASE };
    let unpin = |pfn| EventKind::Unpin { pfn: Pfn(pfn), order: Order::BASE };
    replay.apply(&event(PROGRAM, pin(1)));
    for pfn in 64..68 {
        replay.apply(&free(KSWAPD, pfn, 0));
    }
    // The request reclaims what the record has, and of the page cache all but the pinned page.
    replay.apply(&alloc(64, 2, KERNEL));
    replay.validate();
    assert_eq!(replay.counts().reclaimed_by_requests, 32);
    let lies = |replay: &Replay<Buddy>, pfn| replay.table().block_containing(pfn).is_some();
    assert_eq!([0, 1, 2].map(|pfn| lies(&replay, pfn)), [false, true, false]);
    replay.apply(&event(PROGRAM, unpin(1)));
    replay.validate();
}

#[test]
fn a_request_reclaims_the_oldest_first() {
    let mut replay = full();
    let before = *replay.counts();
    assert_eq!(before.failed_allocations, 0);
    replay.apply(&alloc(0, 0, ATOMIC));
    assert_eq!(replay.counts().failed_allocations, 1, "it may not wait");
    replay.apply(&alloc(1, 0, KERNEL));
    assert_eq!(replay.counts().failed_allocations, 1);
    assert_eq!(replay.counts().reclaimed_by_requests, 32);
    // The record reclaimed them from the highest on.
    assert!((480..512).all(|pfn| !is_left(&replay, pfn)) && (0..480).all(|p| is_left(&replay, p)));
    replay.validate();
    // Then the page cache in the order of its allocation; its frees find nothing.
    for pfn in 0..600 {
        replay.apply(&alloc(pfn, 0, KERNEL));
    }
    replay.validate();
    assert_eq!(replay.counts().failed_allocations, 1);
    let lies = |replay: &Replay<Buddy>, pfn: u32| replay.table().block_containing(pfn).is_some();
    assert!((0..512).all(|pfn| !is_left(&replay, pfn)));
    assert!(lies(&replay, 1023) && lies(&replay, 1024));
    replay.apply(&free(PROGRAM, 700, 0));
    assert_eq!(replay.counts().frees_of_unknown, 0);
    // Nothing is left to be reclaimed but a process's memory.
    let mut replay = full();
    for pfn in 0..1024 {
        replay.apply(&alloc(pfn, 0, KERNEL));
    }
    assert_eq!(replay.counts().failed_allocations, 0);
    replay.apply(&alloc(0, 9, KERNEL));
    assert_eq!(replay.counts().failed_huge_allocations, 1);
    replay.validate();
}

#[test]
fn the_background_keeps_the_watermarks() {
    let mut replay = reclaiming(|layout| Linux::new(layout, Default::default()), MARKS);
    // Page cache comes and is reclaimed by the record, again and again.
    for round in 0..8 {
        for pfn in 0..2048 {
            replay.apply(&alloc(2048 * (round % 2) + pfn, 0, READ_AHEAD));
        }
        for pfn in 0..2048 {
            replay.apply(&free(KSWAPD, 2048 * (round % 2) + pfn, 0));
        }
        replay.validate();
    }
    let counts = replay.counts();
    assert_eq!((counts.failed_allocations, counts.frees_of_unknown), (0, 0));
    assert!(counts.reclaimed_in_background > 8 * 1024, "{counts:?}");
    assert_eq!(counts.reclaimed_by_requests, 0, "{counts:?}");
    assert!(used(&replay) > FRAMES * 3 / 4, "memory stays full: {}", used(&replay));
}

/// A lower zone whose memory is out of reach of movable requests, as ZONE_DMA is, does not count as
/// enough (`pgdat_balanced`).
#[test]
fn a_zone_that_keeps_its_memory_does_not_satisfy_the_background() {
    let zone = |kind, start, frames, reserve| ZoneSpan {
        node: 0,
        kind,
        start: Pfn(start),
        spanned: frames,
        managed: frames,
        watermarks: MARKS,
        lowmem_reserve: [0, 0, reserve, reserve, reserve, 0],
    };
    let zones = vec![zone(ZoneKind::Dma32, 0, 1024, 4096), zone(ZoneKind::Normal, 1024, 3072, 0)];
    let found = InitialState::empty(zones).unwrap();
    let linux = Linux::new(&found.layout, Default::default());
    let mut replay = Replay::reclaiming(&found, linux, Initial::AsFound);
    for pfn in 1024..3072 + 1024 - MARKS.min {
        replay.apply(&alloc(pfn, 0, READ_AHEAD));
    }
    replay.validate();
    let counts = replay.counts();
    assert!(counts.reclaimed_in_background > 0, "{counts:?}");
}

fn any_event() -> impl Strategy<Value = Event> {
    let order = prop_oneof![6 => Just(0u8), 3 => 1..4u8, 2 => 4..=9u8];
    let gfp = prop::sample::select(&[KERNEL, ATOMIC, READ_AHEAD, ANONYMOUS]);
    let pid = prop::sample::select(&[KSWAPD, PROGRAM]);
    (0..FRAMES, order, gfp, pid, 0..12u8).prop_map(|(pfn, order, gfp, pid, kind)| {
        let pfn = pfn & !((1 << order) - 1);
        match kind {
            0..=4 => alloc(pfn, order, gfp),
            5..=7 => free(pid, pfn, order),
            8 => event(pid, EventKind::FreeBatched { pfn: Pfn(pfn) }),
            9 => event(pid, EventKind::Pin { pfn: Pfn(pfn), order: Order::BASE }),
            10 => event(pid, EventKind::Unpin { pfn: Pfn(pfn), order: Order::BASE }),
            _ => stall(pid, [StallPoint::ReclaimBegin, StallPoint::ReclaimEnd][pfn as usize % 2]),
        }
    })
}

/// What is in use is what the record uses, without what was reclaimed early, and with what the
/// record has reclaimed and this allocator has not.
fn check<P: Placement>(make: impl Fn(&Layout) -> P, events: &[Event]) {
    let mut replay = reclaiming(make, MARKS);
    let mut model: BTreeSet<u64> = BTreeSet::new();
    for (at, event) in events.iter().enumerate() {
        let failed_before = replay.counts().failed_allocations;
        replay.apply(event);
        let failed = replay.counts().failed_allocations > failed_before;
        match event.what {
            EventKind::Alloc { pfn, order, .. } if !failed => {
                model.extend(pfn.0..pfn.0 + order.frames());
            }
            EventKind::Alloc { pfn, order, .. } | EventKind::Free { pfn, order } => {
                model.retain(|frame| !(pfn.0..pfn.0 + order.frames()).contains(frame));
            }
            EventKind::FreeBatched { pfn } => {
                model.remove(&pfn.0);
            }
            _ => {}
        }
        if at % 64 == 0 {
            replay.validate();
        }
    }
    replay.validate();
    let lies = |owner: u64| replay.table().block_containing(owner as u32).is_some();
    let live = model.iter().filter(|frame| lies(**frame)).count() as u64;
    let raised = replay.layout().frames();
    let left = (raised..2 * raised).filter(|owner| lies(*owner)).count() as u64;
    assert_eq!(used(&replay), live + left);
    let counts = replay.counts();
    let reclaimed = counts.reclaimed_in_background + counts.reclaimed_by_requests;
    let gone = model.len() as u64 - live;
    assert!(reclaimed >= counts.reclaims_left_out - left + gone, "{counts:?}, {left}, {gone}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn any_events_leave_what_the_record_holds_and_what_it_reclaimed(
        events in prop::collection::vec(any_event(), 1..400),
    ) {
        check(|layout| Buddy::new(layout, Order::LARGEST_FREE), &events);
        check(|layout| Linux::new(layout, Default::default()), &events);
        check(|layout| Regions::new(layout, Default::default()), &events);
        check(|layout| FreeBsd::new(layout, Default::default()), &events);
    }
}
