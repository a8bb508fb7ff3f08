//! A new allocator in one file and one entry: compiled, validated, and compared with `buddy` in a
//! replay.
//!
//! The page "Adding an allocator" of the book shows this file.

mod common;

use std::sync::atomic::AtomicBool;

use common::empty_machine;
use prairie_frames::free_area::{End, FreeArea};
use prairie_frames::layout::{Frame, Layout, Watermarks, Zone};
use prairie_frames::placement::{Counter, Placement, Request};
use prairie_frames::table::{FrameTable, Owner};
use prairie_frames::{MigrateType, Mobility, Order};
use prairie_model::allocator::{Allocator, Build, Entry, Settings, Worlds};
use prairie_replay::initial_state::InitialState;
use prairie_replay::replay::Initial;
use prairie_replay::run::{Options, run};
use prairie_trace::Texts;
use prairie_trace::generate::{Batches, Workload};

// ANCHOR: policy
/// Keeps unmovable memory at one end of each free list: unmovable requests take the block at the
/// head, and what they free returns there; everything else is freed to the tail.
struct Ends {
    areas: Vec<FreeArea<1>>,
}

impl Ends {
    fn new(layout: &Layout) -> Ends {
        let area = |zone: &Zone| FreeArea::new(zone.start..zone.end, Order::LARGEST_FREE);
        Ends { areas: layout.zones().iter().map(area).collect() }
    }

    fn put(&mut self, table: &mut FrameTable, frame: Frame, order: Order, end: End) {
        let area = self.areas.iter_mut().find(|area| area.contains(frame)).expect("a zone");
        let (frame, order) = area.merge(table, frame, order, |_, _, _| true);
        area.insert(table, frame, order, 0, end);
    }
}

impl Placement for Ends {
    fn seed(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        self.put(table, frame, order, End::Tail);
    }

    fn allocate(&mut self, table: &mut FrameTable, r: &Request, owner: Owner) -> Option<Frame> {
        let mut areas = self.areas.iter_mut().rev();
        let frame = areas.find_map(|area| area.take_smallest(table, r.order, 0))?;
        table.allocate(frame, r.order, r.mobility, owner);
        Some(frame)
    }

    fn free(&mut self, table: &mut FrameTable, frame: Frame, _cpu: u16) {
        let unmovable = table.mobility(frame) == Mobility::Unmovable;
        let order = table.release(frame);
        self.put(table, frame, order, if unmovable { End::Head } else { End::Tail });
    }

    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        vec![(MigrateType::Movable, self.areas[zone].counts()[..=10].to_vec())]
    }

    fn free_frames(&self, zone: usize) -> u64 {
        self.areas[zone].free_frames()
    }

    fn cached_frames(&self) -> u64 {
        0
    }

    fn counters(&self) -> Vec<Counter> {
        Vec::new()
    }

    fn validate(&self, table: &FrameTable) {
        self.areas.iter().for_each(|area| area.validate(table));
    }
}
// ANCHOR_END: policy

// ANCHOR: entry
static ENDS: Entry = Entry {
    name: "ends",
    description: "one free list per order, unmovable memory at its head",
    purpose: "separate ends of memory without migrate types",
    not_modeled: "per-CPU lists",
    options: &[],
    versions: false,
    worlds: Worlds::PLACEMENT,
    compacts_in_replay: false,
    settings: Settings::default,
    build: Build::Placement(|_, site| Box::new(Ends::new(site.layout))),
};
// ANCHOR_END: entry

/// A machine of 512 MiB with nothing in use.
fn machine() -> InitialState {
    empty_machine(1 << 17, Watermarks { min: 256, low: 320, high: 384 })
}

#[test]
fn a_new_policy_is_replayed_beside_the_others() {
    let events = Workload::typical(1 << 17, 7).events().take(30_000);
    let options = Options {
        systems: vec![Allocator::named("buddy"), Allocator::plain(&ENDS)],
        initial: Initial::AsFound,
        sample_every_ns: None,
        expected_ns: None,
        kernelcore: None,
        parallel: false,
        compact: false,
        reclaim: false,
    };
    let mut source = Batches::new(events, Texts::default());
    let results =
        run(&machine(), &mut source, &options, &mut |_| {}, &AtomicBool::new(false)).unwrap();
    let [buddy, ends] = results.systems.as_slice() else { panic!("two allocators ran") };
    assert_eq!(ends.system, "ends");
    assert_eq!(ends.counts.failed_allocations, 0);
    // The same demand: as much is free at every instant, at any position.
    let free = |result: &prairie_replay::run::SystemResult| -> Vec<u64> {
        result.samples.iter().map(|sample| sample.free_frames).collect()
    };
    assert_eq!(free(buddy), free(ends));
    assert_ne!(buddy.blocks_at_end, ends.blocks_at_end, "the policy places differently");
}

#[test]
fn the_policy_validates_after_every_step() {
    let layout = Layout::new(vec![machine().layout.zones()[0].span.clone()]).unwrap();
    let (mut table, mut policy) = (FrameTable::new(&layout), Ends::new(&layout));
    policy.boot(&mut table, &layout);
    let all = policy.free_frames(0);
    for owner in 0..64 {
        let order = Order::new(owner as u8 % 4).unwrap();
        let request = Request { order, ..Request::default() };
        policy.allocate(&mut table, &request, owner * 8).expect("there is memory");
        policy.validate(&table);
    }
    for owner in 0..64 {
        let frame = table.block_of(owner * 8).expect("it was allocated");
        policy.free(&mut table, frame, 0);
        policy.validate(&table);
    }
    assert_eq!(policy.free_frames(0), all);
}
