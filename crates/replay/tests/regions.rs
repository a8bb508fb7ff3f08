//! Replays under Linux with the regions daemon: memory blocks change zones as the trace's time passes,
//! whatever lay where when it began.

mod common;

use std::sync::atomic::AtomicBool;

use common::empty_machine;
use prairie_frames::layout::Watermarks;
use prairie_frames::placement::gfp::names::bits;
use prairie_frames::{Frame, MigrateType, Mobility, Order, Pfn};
use prairie_model::allocator::{Allocator, Site, World};
use prairie_replay::initial_state::{Content, InitialState, Stretch};
use prairie_replay::replay::{Initial, Replay};
use prairie_replay::run::{Options, Results, run};
use prairie_trace::generate::Batches;
use prairie_trace::{Event, EventKind, GfpFlags, StackId, Texts};

/// 2 GiB, blocks of 128 MiB.
const FRAMES: u64 = 1 << 19;
const BLOCK: u64 = 1 << 15;

/// Every fourth block has an unmovable frame in its middle, and the others some movable memory.
fn machine() -> InitialState {
    let mut found = empty_machine(FRAMES, Watermarks { min: 4096, low: 5120, high: 6144 });
    found.stretches.clear();
    let mut add = |start: u64, frames: u64, content| {
        let start = Frame(start as u32);
        found.stretches.push(Stretch { start, frames, content, slab: false });
    };
    for block in 0..FRAMES / BLOCK {
        let (start, half) = (block * BLOCK, BLOCK / 2);
        let unmovable = block % 4 == 0;
        let mobility = if unmovable { Mobility::Unmovable } else { Mobility::Movable };
        let held = if unmovable { 1 } else { 5000 };
        add(start, half, Content::Free);
        add(start + half, held, Content::Held(mobility));
        add(start + half + held, half - held, Content::Free);
    }
    found
}

/// Kernel memory that grows to 640 MiB in two minutes and goes again, beside movable memory.
fn events() -> Vec<Event> {
    const GROWS: u64 = 640 * 256;
    let event = |time_ns, what| Event { time_ns, pid: 0, cpu: 0, what };
    let alloc = |pfn, migrate_type| {
        let movable = migrate_type == MigrateType::Movable;
        EventKind::Alloc {
            pfn: Pfn(pfn),
            order: Order::BASE,
            migrate_type,
            gfp: GfpFlags(bits(if movable { "GFP_HIGHUSER_MOVABLE" } else { "GFP_KERNEL" })),
            stack: StackId::NONE,
        }
    };
    // Names of frames that the machine has free.
    let free = (0..FRAMES).filter(|pfn| pfn % BLOCK < BLOCK / 2);
    let (kernel, user): (Vec<u64>, Vec<u64>) = free.partition(|pfn| pfn % 4 < 3);
    let step = 120_000_000_000 / GROWS;
    let mut events = Vec::new();
    for (at, pfn) in kernel.iter().take(GROWS as usize).enumerate() {
        let now = 1 + at as u64 * step;
        events.push(event(now, alloc(*pfn, MigrateType::Unmovable)));
        if at % 8 == 0 {
            events.push(event(now, alloc(user[at / 8], MigrateType::Movable)));
        }
    }
    let end = events.last().map_or(0, |event| event.time_ns);
    for (at, pfn) in kernel.iter().take(GROWS as usize).enumerate() {
        let what = EventKind::Free { pfn: Pfn(*pfn), order: Order::BASE };
        // Ten minutes: the kernel region shrinks some time after it has too much.
        events.push(event(end + at as u64 * step * 5, what));
    }
    events
}

fn allocator(name: &str) -> Allocator {
    name.parse().unwrap()
}

fn replayed(initial: Initial, compact: bool) -> Results {
    let options = Options {
        systems: vec![allocator("linux"), allocator("linux+regions")],
        initial,
        sample_every_ns: None,
        expected_ns: None,
        kernelcore: None,
        parallel: false,
        compact,
        reclaim: false,
    };
    let mut source = Batches::new(events().into_iter(), Texts::default());
    run(&machine(), &mut source, &options, &mut |_| {}, &AtomicBool::new(false)).unwrap()
}

#[test]
fn blocks_change_zones_in_place_and_replaced() {
    for (initial, compact) in [(Initial::AsFound, false), (Initial::Replaced, true)] {
        let results = replayed(initial, compact);
        let [linux, regions] = &results.systems[..] else { panic!("two systems") };
        let count = |name: &str| {
            let found = regions.counters.iter().find(|count| count.name == name);
            found.unwrap_or_else(|| panic!("no counter {name}")).value
        };
        // A fifth stays the kernel's at first: four blocks of 16, and those that cannot leave are of
        // them. It grows, and most of the growth is back when the trace ends.
        let (grown, left) = (count("blocks_to_kernel"), count("blocks_to_movable"));
        assert!(grown >= 3, "{initial:?}: {grown}");
        assert!(left > 12 && (left - grown) * 4 >= 3 * 12, "{initial:?}: {left} - {grown}");
        assert_eq!(regions.counts.failed_allocations, 0, "{initial:?}");
        // Both hold the same memory at the same instants.
        let seen = |system: &prairie_replay::run::SystemResult| -> Vec<(u64, u64)> {
            system.samples.iter().map(|s| (s.time_ns, s.free_frames)).collect()
        };
        assert_eq!(seen(regions), seen(linux), "{initial:?}");
        assert!(regions.parts.contains("`prairie regions` with memory blocks of 128 MiB"));
    }
}

#[test]
fn everything_agrees_after_each_step() {
    let found = machine();
    for initial in [Initial::AsFound, Initial::Replaced] {
        let site = Site::new(&found.layout, World::Replay);
        let allocator = allocator("linux+regions");
        let mut replay = Replay::new(&found, allocator.build(&site), initial);
        replay.validate();
        for events in events().chunks(20_000) {
            replay.apply_all(events);
            replay.validate();
        }
    }
}
