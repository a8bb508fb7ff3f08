//! Pins in recorded traces: from a tracing tool's text through a file into each system.

mod common;

use std::fmt::Write;

use common::empty_machine;
use prairie_frames::layout::Watermarks;
use prairie_frames::placement::Placement;
use prairie_frames::placement::buddy::Buddy;
use prairie_frames::placement::freebsd::FreeBsd;
use prairie_frames::placement::linux::Linux;
use prairie_frames::placement::regions::{Config, Regions};
use prairie_frames::{Layout, Mobility, Order};
use prairie_replay::initial_state::InitialState;
use prairie_replay::replay::{Counts, Initial, Replay};
use prairie_trace::{Columns, EventSource, Reader};

const FRAMES: u64 = 1 << 16;

fn found() -> InitialState {
    empty_machine(FRAMES, Watermarks { min: 128, low: 160, high: 192 })
}

fn line(text: &mut String, at: u64, event: &str) {
    writeln!(text, "rdma-77 [001] d.... {}.{:06}: {event}", at / 1000, at % 1000 * 1000).unwrap();
}

/// 64 MiB of a process, in pages and in four huge ones; one page in 64 and a tail page of each huge
/// page are pinned, the former by a probe and twice, the latter as a debugging kernel tells.
fn text(unpinned: bool) -> String {
    let movable = "migratetype=1 gfp_flags=GFP_HIGHUSER_MOVABLE|__GFP_ZERO";
    let mut text = String::new();
    let mut at = 0;
    let mut next = || {
        at += 1;
        at
    };
    for pfn in 1024..16_384 {
        line(&mut text, next(), &format!("mm_page_alloc: page=0x0 pfn={pfn:#x} order=0 {movable}"));
    }
    for pfn in (16_384..18_432).step_by(512) {
        line(&mut text, next(), &format!("mm_page_alloc: page=0x0 pfn={pfn:#x} order=9 {movable}"));
    }
    let probe = |name: &str, pfn: u64| {
        format!(
            "{name}: (gup+0x0/0x90) page={:#x} base=0xffea000000000000",
            (0xffea << 48) + 64 * pfn
        )
    };
    let reference = |pfn: u64, name: &str, val: i64| {
        format!("{name}: pfn={pfn:#x} flags=0x0 count=2 mapcount=1 mapping=0 mt=1 val={val}")
    };
    for pfn in (1024..16_384).step_by(64) {
        for _ in 0..2 {
            line(&mut text, next(), &probe("prairie_pin", pfn));
        }
    }
    for pfn in (16_384 + 77..18_432).step_by(512) {
        line(&mut text, next(), &reference(pfn, "page_ref_mod", 1024));
    }
    // A page that is not in use.
    line(&mut text, next(), &probe("prairie_pin", 40_000));
    for pfn in (1024..16_384).step_by(64) {
        line(&mut text, next(), &probe("prairie_unpin", pfn));
    }
    if unpinned {
        for pfn in (1024..16_384).step_by(64) {
            line(&mut text, next(), &probe("prairie_unpin", pfn));
        }
        for pfn in (16_384 + 77..18_432).step_by(512) {
            line(&mut text, next(), &reference(pfn, "page_ref_mod_and_test", -1024));
        }
    }
    text
}

/// Converts the text, reads the file, and replays it under one placement.
fn replay<P: Placement>(unpinned: bool, make: impl Fn(&Layout) -> P) -> Replay<P> {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("t.txt"), directory.path().join("t.parquet"));
    std::fs::write(&from, text(unpinned)).unwrap();
    prairie_trace::import::convert(&from, &to).unwrap();
    let found = found();
    let mut replay = Replay::new(&found, make(&found.layout), Initial::AsFound);
    let reader = Reader::open(&to).unwrap();
    let mut events = reader.events(Columns::ALL);
    while let Some(batch) = events.next_batch().unwrap() {
        replay.apply_all(batch);
    }
    replay.validate();
    replay
}

/// Pageblocks that something unmovable keeps from being a huge page.
fn polluted<P: Placement>(replay: &Replay<P>) -> usize {
    replay.table().blocks().iter().filter(|block| block.is_polluted()).count()
}

fn mobility<P: Placement>(replay: &Replay<P>, pfn: u64) -> Mobility {
    let (_, block) = replay.table().block_containing(pfn as u32).unwrap();
    replay.table().mobility(block)
}

const PINNED: usize = 15_360 / 64;

#[test]
fn pins_pollute_memory_where_nothing_moves_before() {
    let counts =
        |counts: &Counts| (counts.pins, counts.pins_of_unknown, counts.pins_refused, counts.unpins);
    let expected = (2 * PINNED as u64 + 5, 1, 0, PINNED as u64);
    let buddy = replay(false, |layout| Buddy::new(layout, Order::LARGEST_FREE));
    let linux = replay(false, |layout| Linux::new(layout, Default::default()));
    let freebsd = replay(false, |layout| FreeBsd::new(layout, Default::default()));
    assert_eq!(counts(buddy.counts()), expected);
    // 15,360 pages lie in 30 blocks or a few more, the huge ones in four.
    for polluted in [polluted(&buddy), polluted(&linux), polluted(&freebsd)] {
        assert!((34..=40).contains(&polluted), "{polluted}");
    }
    let in_place = Config { pin_migration: false, ..Config::default() };
    let regions = replay(false, |layout| Regions::new(layout, in_place.clone()));
    assert!((34..=40).contains(&polluted(&regions)), "{}", polluted(&regions));
    // Pinned twice and unpinned once is pinned.
    assert_eq!(mobility(&linux, 1024), Mobility::Unmovable);
    assert_eq!(mobility(&linux, 1025), Mobility::Movable);
    // A tail pins its huge page.
    assert_eq!(mobility(&linux, 16_384), Mobility::Unmovable);
}

#[test]
fn regions_move_what_is_pinned_together() {
    let regions = replay(false, |layout| Regions::new(layout, Config::default()));
    let counts = regions.counts();
    assert_eq!((counts.pins_refused, counts.pins_of_unknown), (0, 1));
    // 240 pages and 2,048 frames of huge pages are five pageblocks' worth.
    let least = (PINNED + 2048).div_ceil(512);
    assert!((least..=least + 2).contains(&polluted(&regions)), "{}", polluted(&regions));
    for pfn in (1024..18_432).filter(|pfn| pfn % 64 == 0 || *pfn >= 16_384) {
        assert_eq!(mobility(&regions, pfn), Mobility::Unmovable, "{pfn}");
    }
    let moved = regions.counters().into_iter().find(|counter| counter.name == "pinned").unwrap();
    assert!(moved.value >= PINNED as u64 + 4, "{moved:?}");
}

#[test]
fn the_last_pin_off_lets_go() {
    let linux = replay(true, |layout| Linux::new(layout, Default::default()));
    assert_eq!(polluted(&linux), 0);
    let buddy = replay(true, |layout| Buddy::new(layout, Order::LARGEST_FREE));
    assert_eq!(polluted(&buddy), 0);
    // A block whose move would not help the border stays, counted as unmovable.
    let regions = replay(true, |layout| Regions::new(layout, Config::default()));
    assert!(polluted(&regions) <= (PINNED + 2048).div_ceil(512) + 2);
    assert_eq!(regions.counts().pins_ended_by_free, 0);
}

/// What Debian's kernel 6.1 reported about a program that let another system call read eight of its pages,
/// which pins them for a moment, and registered 32 more with io_uring, which pins them until they are
/// unregistered: probes as `docs/src/guide/import.md` sets them, beside the page events.
#[test]
fn a_real_kernels_probes_report_pins() {
    let from = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/pins-6.1.txt");
    let mut imported = prairie_trace::import::Imported::open(from.as_ref()).unwrap();
    let found = found();
    let mut replay =
        Replay::new(&found, Regions::new(&found.layout, Config::default()), Initial::AsFound);
    let mut most = 0;
    while let Some(batch) = imported.next_batch().unwrap() {
        for event in batch {
            replay.apply(event);
            let pinned = replay.counts().pins - replay.counts().unpins;
            most = most.max(pinned);
        }
    }
    replay.validate();
    let counts = replay.counts();
    assert_eq!((counts.pins, counts.unpins, most), (40, 40, 32));
    // All of them were allocated while the kernel was traced, movable, and live to their unpin.
    let unlike = (counts.pins_of_unknown, counts.pins_of_unmovable, counts.pins_ended_by_free);
    assert_eq!(unlike, (0, 0, 0));
    let counter = |name: &str| {
        replay.counters().into_iter().find(|counter| counter.name == name).unwrap().value
    };
    assert_eq!(counter("pinned"), 40, "each was moved before it was pinned");
}
