//! Replays with compaction: requests for huge pages find scattered free memory joined.

mod common;

use std::sync::atomic::AtomicBool;

use common::empty_machine;
use prairie_frames::layout::Watermarks;
use prairie_frames::placement::gfp;
use prairie_frames::{Frame, MigrateType, Mobility, Order, Pfn};
use prairie_model::allocator::{Allocator, Site, World};
use prairie_replay::initial_state::{Content, InitialState, Stretch};
use prairie_replay::replay::{Initial, Replay};
use prairie_replay::run::{Options, Results, SystemResult, run};
use prairie_trace::generate::Batches;
use prairie_trace::{Event, EventKind, GfpFlags, StackId, Texts};

/// 128 MiB that can be allocated.
const FRAMES: u64 = 1 << 15;
const HUGE_PAGES: u64 = 16;
/// Their recorded frames lie where nothing is ever placed: a recorded frame is a name.
const NAMES: u64 = HUGE_PAGES * 512;

fn machine() -> InitialState {
    let mut found = empty_machine(FRAMES + NAMES, Watermarks { min: 64, low: 80, high: 96 });
    found.stretches[0].frames = FRAMES;
    let content = Content::Fixed(Mobility::Unmovable);
    let start = Frame(FRAMES as u32);
    found.stretches.push(Stretch { start, frames: NAMES, content, slab: false });
    found
}

fn event(what: EventKind) -> Event {
    Event { time_ns: 0, pid: 0, cpu: 0, what }
}

fn alloc(pfn: u64, order: Order) -> Event {
    let gfp = GfpFlags(gfp::DIRECT_RECLAIM | gfp::KSWAPD_RECLAIM);
    event(EventKind::Alloc {
        pfn: Pfn(pfn),
        order,
        migrate_type: MigrateType::Movable,
        gfp,
        stack: StackId::NONE,
    })
}

/// Movable pages in nearly all of memory, of which every second one goes; then huge pages.
fn scattered() -> Vec<Event> {
    let singles = FRAMES - 1024;
    let fills = (0..singles).map(|pfn| alloc(pfn, Order::BASE));
    let free = |pfn| event(EventKind::Free { pfn: Pfn(pfn), order: Order::BASE });
    let frees = (0..singles).step_by(2).map(free);
    let huge = (0..HUGE_PAGES).map(|number| alloc(FRAMES + number * 512, Order::HUGE));
    fills.chain(frees).chain(huge).collect()
}

fn replayed(compact: bool) -> Results {
    let options = Options {
        systems: Allocator::all(World::Replay),
        initial: Initial::AsFound,
        sample_every_ns: None,
        expected_ns: None,
        kernelcore: None,
        parallel: false,
        compact,
        reclaim: false,
    };
    let mut source = Batches::new(scattered().into_iter(), Texts::default());
    run(&machine(), &mut source, &options, &mut |_| {}, &AtomicBool::new(false)).unwrap()
}

fn count(system: &SystemResult, name: &str) -> Option<u64> {
    system.counters.iter().find(|count| count.name == name).map(|count| count.value)
}

#[test]
fn compaction_serves_huge_pages_from_scattered_memory() {
    let (plain, compacted) = (replayed(false), replayed(true));
    assert!(!plain.compacted && compacted.compacted);
    let mut compactable = Vec::new();
    for (before, after) in plain.systems.iter().zip(&compacted.systems) {
        let name = &before.system;
        assert_eq!(count(before, "compact_stalls"), None, "{name}");
        let Some(stalls) = count(after, "compact_stalls") else {
            assert_eq!(before.counts, after.counts, "{name}: nothing compacts it");
            continue;
        };
        assert!(before.counts.failed_huge_allocations > HUGE_PAGES / 2, "{name}: {before:?}");
        // Compaction for a huge page is asynchronous, and deferred after it has failed.
        assert!(after.counts.failed_allocations <= HUGE_PAGES / 4, "{name}: {:?}", after.counts);
        // Each huge page took the places of about 256 pages in use.
        let moved = count(after, "pages_moved");
        assert!(stalls > 0 && moved >= Some(HUGE_PAGES * 128), "{name}: {moved:?}");
        assert!(after.parts.contains("compacted"), "{}", after.parts);
        let more = before.counts.failed_allocations - after.counts.failed_allocations;
        assert_eq!(before.end().free_frames, after.end().free_frames + more * 512, "{name}");
        compactable.push(name.as_str());
    }
    assert_eq!(compactable, ["linux", "linux-defrag"]);
}

#[test]
fn everything_agrees_after_compaction() {
    let found = machine();
    for allocator in Allocator::all(World::Replay).iter().filter(|it| it.compacts_in_replay()) {
        let site = Site { compacts: true, ..Site::new(&found.layout, World::Replay) };
        let mut replay = Replay::new(&found, allocator.build(&site), Initial::AsFound);
        for events in scattered().chunks(1000) {
            replay.apply_all(events);
            replay.validate();
        }
    }
}
