//! Replays of synthetic event streams, compared with a plain model of frame owners.

use std::collections::BTreeSet;

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::Placement;
use prairie_frames::placement::buddy::Buddy;
use prairie_frames::placement::freebsd::FreeBsd;
use prairie_frames::placement::linux::Linux;
use prairie_frames::placement::regions::Regions;
use prairie_frames::placement::superpageblocks::Superpageblocks;
use prairie_frames::{Frame, Layout, MigrateType, Order, Pfn, ZoneKind};
use prairie_host::texts::zoneinfo::{Watermarks as Marks, ZoneInfo};
use prairie_host::{FrameRun, PageFlags, ZoneId};
use prairie_replay::initial_state::InitialState;
use prairie_replay::replay::{Initial, Replay};
use prairie_trace::{Event, EventKind, GfpFlags, StackId};
use proptest::prelude::*;

const END: u64 = 16 << 10;

/// A machine of 64 MiB: a DMA32 zone and a Normal zone behind it.
fn zones() -> Vec<ZoneSpan> {
    let zone = |kind, start: u64, end: u64| ZoneSpan {
        node: 0,
        kind,
        start: Pfn(start),
        spanned: end - start,
        managed: end - start,
        watermarks: Watermarks { min: 16, low: 20, high: 24 },
        lowmem_reserve: [0; 6],
    };
    vec![zone(ZoneKind::Dma32, 1, 4096), zone(ZoneKind::Normal, 4096, END)]
}

fn run(start: u64, end: u64, flags: PageFlags) -> FrameRun {
    FrameRun { start: Pfn(start), frames: end - start, flags, read_at_ns: 0 }
}

/// The machine with some of everything in it: reserved, slab, a THP of 512 frames, page cache,
/// frames without flags, and free memory between.
fn found() -> InitialState {
    let lru = PageFlags::LRU;
    let thp = PageFlags::ANON.union(PageFlags::LRU).union(PageFlags::THP);
    let runs = [
        run(0, 1, PageFlags::RESERVED),
        run(1, 64, PageFlags::RESERVED),
        run(64, 300, PageFlags::BUDDY),
        run(300, 400, PageFlags::SLAB),
        run(400, 512, lru),
        run(512, 4608, PageFlags::BUDDY),
        run(4608, 4609, thp.union(PageFlags::COMPOUND_HEAD)),
        run(4609, 5120, thp.union(PageFlags::COMPOUND_TAIL)),
        run(5120, 5220, PageFlags(0)),
        run(5220, 6000, lru),
        run(6000, END, PageFlags::BUDDY),
    ];
    found_with(zones(), &runs)
}

fn found_with(zones: Vec<ZoneSpan>, runs: &[FrameRun]) -> InitialState {
    let info = |zone: &ZoneSpan| ZoneInfo {
        id: ZoneId { node: 0, kind: zone.kind },
        start: zone.start,
        spanned_frames: zone.spanned,
        present_frames: zone.spanned,
        managed_frames: zone.managed,
        free_frames: 0,
        watermarks: Marks { boost: 0, min: 0, low: 0, high: 0 },
        lowmem_reserve_frames: Vec::new(),
        per_cpu_lists: Vec::new(),
        counters: Default::default(),
        node_counters: Default::default(),
    };
    let infos: Vec<ZoneInfo> = zones.iter().map(info).collect();
    let spans = prairie_host::layout::Layout::new(&infos, &[]).unwrap();
    InitialState::new(zones, &spans, runs).unwrap()
}

/// Frames that are in use in [`found`].
fn in_use() -> BTreeSet<u64> {
    (300..512).chain(4608..6000).collect()
}

fn event(what: EventKind) -> Event {
    Event { time_ns: 0, pid: 0, cpu: 0, what }
}

fn alloc(pfn: u64, order: u8, migrate_type: MigrateType) -> Event {
    let gfp = match migrate_type {
        MigrateType::Movable => GfpFlags::MOVABLE.with(GfpFlags::HIGHMEM),
        _ => GfpFlags(0),
    };
    let order = Order::new(order).unwrap();
    event(EventKind::Alloc { pfn: Pfn(pfn), order, migrate_type, gfp, stack: StackId::NONE })
}

fn pin(pfn: u64, order: u8) -> Event {
    event(EventKind::Pin { pfn: Pfn(pfn), order: Order::new(order).unwrap() })
}

fn unpin(pfn: u64, order: u8) -> Event {
    event(EventKind::Unpin { pfn: Pfn(pfn), order: Order::new(order).unwrap() })
}

fn free(pfn: u64, order: u8) -> Event {
    event(EventKind::Free { pfn: Pfn(pfn), order: Order::new(order).unwrap() })
}

/// Any events, sensible or not: frees of what nobody holds, allocations of what somebody holds,
/// blocks that are misaligned or outside the machine.
fn any_event() -> impl Strategy<Value = Event> {
    let order = prop_oneof![6 => Just(0u8), 3 => 1..4u8, 1 => 4..=10u8];
    let pfn = prop_oneof![8 => 1..END, 1 => 290..520u64, 1 => 4600..6010u64, 1 => 0..2 * END];
    let migrate_type = prop::sample::select(&[
        MigrateType::Unmovable,
        MigrateType::Movable,
        MigrateType::Reclaimable,
    ]);
    (pfn, order, migrate_type, 0..12u8).prop_map(|(pfn, order, migrate_type, kind)| {
        // One event in eight keeps its misalignment.
        let aligned = if kind == 0 { pfn } else { pfn & !((1 << order) - 1) };
        match kind {
            0..=4 => alloc(aligned, order, migrate_type),
            5..=6 => free(aligned, order),
            8..=9 => pin(pfn, if kind == 8 { 0 } else { order }),
            10..=11 => unpin(pfn, if kind == 10 { 0 } else { order }),
            _ => event(EventKind::FreeBatched { pfn: Pfn(pfn) }),
        }
    })
}

/// The frames in use by a plain reading of the events, compared with the replay.
fn check<P: Placement>(make: impl Fn(&Layout) -> P, initial: Initial, events: &[Event]) {
    let found = found();
    let mut replay = Replay::new(&found, make(&found.layout), initial);
    replay.validate();
    let mut model = in_use();
    assert_eq!(replay.counts().initial_frames, model.len() as u64);
    assert_eq!(replay.counts().initial_without_place, 0);
    let (mut outside, mut misaligned) = (0, 0);
    for event in events {
        let failed_before = replay.counts().failed_allocations;
        replay.apply(event);
        let failed = replay.counts().failed_allocations > failed_before;
        match event.what {
            EventKind::Alloc { pfn, order, .. } | EventKind::Free { pfn, order } => {
                let block = pfn.0..pfn.0 + order.frames();
                let in_one_zone = (1..4096).contains(&block.start) && block.end <= 4096
                    || (4096..END).contains(&block.start) && block.end <= END;
                if !pfn.is_aligned(order) {
                    misaligned += 1;
                } else if !in_one_zone {
                    outside += 1;
                } else if matches!(event.what, EventKind::Alloc { .. }) && !failed {
                    model.extend(block);
                } else {
                    model.retain(|frame| !block.contains(frame));
                }
            }
            EventKind::FreeBatched { pfn } => {
                model.remove(&pfn.0);
            }
            _ => {}
        }
    }
    replay.validate();
    let held: u64 = replay.table().blocks().iter().map(|b| u64::from(b.present() - b.free)).sum();
    let fixed = 63;
    assert_eq!(held - fixed, model.len() as u64, "{:?}", replay.counts());
    for frame in model {
        assert!(replay.table().block_containing(frame as u32).is_some(), "frame {frame} is lost");
    }
    assert_eq!((replay.counts().outside_zones, replay.counts().misaligned), (outside, misaligned));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_events_leave_exactly_the_held_frames(
        events in prop::collection::vec(any_event(), 1..300),
        initial in prop::sample::select(&[Initial::AsFound, Initial::Replaced]),
    ) {
        check(|layout| Buddy::new(layout, Order::LARGEST_FREE), initial, &events);
        check(|layout| Linux::new(layout, Default::default()), initial, &events);
        check(|layout| Regions::new(layout, Default::default()), initial, &events);
        check(|layout| FreeBsd::new(layout, Default::default()), initial, &events);
        check(|layout| Superpageblocks::new(layout, Default::default()), initial, &events);
    }
}

fn buddy() -> Replay<Buddy> {
    let found = found();
    let placement = Buddy::new(&found.layout, Order::LARGEST_FREE);
    Replay::new(&found, placement, Initial::AsFound)
}

#[test]
fn a_block_may_be_freed_in_parts_and_parts_as_a_block() {
    let mut replay = buddy();
    replay.apply(&alloc(8192, 9, MigrateType::Movable));
    for part in [free(8192, 0), free(8200, 3), free(8448, 8)] {
        replay.apply(&part);
        replay.validate();
    }
    // The rest is freed at once: parts that were freed before count as unknown.
    replay.apply(&free(8192, 9));
    assert_eq!(replay.counts().frees_of_unknown, 1 + 8 + 256);
    for single in 0..8 {
        replay.apply(&alloc(8192 + single, 0, MigrateType::Movable));
    }
    replay.apply(&free(8192, 3));
    replay.validate();
    assert_eq!(replay.counts().frees_of_unknown, 265);
}

#[test]
fn two_frees_of_one_block_and_two_allocations_are_counted() {
    let mut replay = buddy();
    replay.apply(&alloc(8192, 2, MigrateType::Unmovable));
    replay.apply(&alloc(8192, 2, MigrateType::Unmovable));
    assert_eq!(replay.counts().frees_implied, 4);
    replay.apply(&free(8192, 2));
    replay.apply(&free(8192, 2));
    assert_eq!(replay.counts().frees_of_unknown, 4);
    replay.validate();
}

#[test]
fn what_was_found_lies_where_it_was() {
    let replay = buddy();
    let table = replay.table();
    assert_eq!(
        table.block_of(4608).map(|frame| (frame, table.order(frame))),
        Some((Frame(4608), Order::HUGE))
    );
    assert_eq!(table.block_of(301), Some(Frame(301)));
    assert_eq!(table.block_of(64), None);
    assert_eq!(table.blocks()[0].unmovable, 63 + 100);
}

#[test]
fn memory_joins_when_it_is_named() {
    let section = 1 << 15;
    let mut zones = zones();
    zones[1].spanned = 3 * section - 4096;
    let runs = [run(0, 4096, PageFlags::BUDDY), run(4096, 3 * section, PageFlags(0))];
    let found = found_with(zones, &runs);
    let placement = Buddy::new(&found.layout, Order::LARGEST_FREE);
    let mut replay = Replay::new(&found, placement, Initial::AsFound);
    let present = |replay: &Replay<Buddy>| -> u64 {
        replay.table().blocks().iter().map(|b| u64::from(b.present())).sum()
    };
    let before = present(&replay);
    replay.apply(&alloc(section + 5, 0, MigrateType::Movable));
    assert_eq!(replay.counts().joined_frames, section);
    assert_eq!(present(&replay), before + section);
    replay.apply(&alloc(section + 6, 0, MigrateType::Movable));
    assert_eq!(replay.counts().joined_frames, section);
    replay.validate();
}
