//! Replaying to the frame what no kernel ever action: it is counted as wrong, and nothing panics.

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::Request;
use prairie_frames::placement::linux::{Config, Pageset, Tuning};
use prairie_frames::{Frame, KernelVersion, Layout, MigrateType, Order, Pfn, ZoneKind};
use prairie_replay::exact::act::{Act, Action, Edge, Resized};
use prairie_replay::exact::compare;
use prairie_replay::exact::machine::Machine;
use prairie_replay::exact::opening::Opening;
use prairie_replay::exact::probes::ListReading;
use prairie_replay::exact::recording::Recording;
use prairie_replay::exact::snapshot::Snapshot;
use prairie_replay::exact::threads::By;
use prairie_trace::{Event, EventKind, EventSource, GfpFlags, Texts};
use proptest::prelude::*;

const FRAMES: u64 = 4096;

const ZONEINFO: &str = "\
Node 0, zone    DMA32
  pages free     100
        spanned  4096
        present  4096
        managed  4000
        protection: (0, 0)
  pagesets
    cpu: 0
              count: 3
              high:  20
              batch: 3
    cpu: 1
              count: 0
              high:  20
              batch: 3
  start_pfn:           0
";

const PAGETYPEINFO: &str = "\
Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1      2      3      4      5      6      7      8      9     10
Node    0, zone    DMA32, type    Unmovable      0      0      0      0      0      0      0      0      0      0      0
Node    0, zone    DMA32, type      Movable      0      0      0      0      0      0      0      0      0      1      2

Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic      Isolate
Node 0, zone    DMA32             1            7            0            0            0
";

fn layout() -> Layout {
    let watermarks = Watermarks::default();
    let (node, kind, lowmem_reserve) = (0, ZoneKind::Dma32, [0; 6]);
    let (start, spanned, managed) = (Pfn(0), FRAMES, FRAMES);
    Layout::new(vec![ZoneSpan { node, kind, start, spanned, managed, watermarks, lowmem_reserve }])
        .unwrap()
}

fn recording(
    acts: Vec<Act>,
    free: &[bool],
    reclaim: Option<usize>,
    version: KernelVersion,
) -> Recording {
    let flags: Vec<u8> = (0..FRAMES as usize)
        .flat_map(|f| (u64::from(free[f % free.len()]) << 10).to_ne_bytes())
        .collect();
    let snapshot = Snapshot::new("only", [PAGETYPEINFO, ZONEINFO], Some(&flags)).unwrap();
    Recording {
        acts,
        snapshots: vec![snapshot],
        cpus: 2,
        reclaim,
        readings: vec![(0, READING)],
        names_limits: version > KernelVersion::V6_1,
        ..Recording::empty(layout(), version)
    }
}

const VERSIONS: [KernelVersion; 3] =
    [KernelVersion::V6_1, KernelVersion::new(6, 12), KernelVersion::new(7, 3)];

const RESIZED: [Resized; 6] = [
    Resized::Boot,
    Resized::HugePages,
    Resized::Caches,
    Resized::Watermarks { min_free_kib: 4000, scale_factor: 10 },
    Resized::Fraction(8),
    Resized::Online,
];

const READING: ListReading = ListReading {
    zone: 1,
    count: 7,
    high: 40,
    limits: Pageset { batch: 3, high: 20, high_max: 250, keeps_batch: true },
    alloc_factor: 2,
    free_count: 5,
    freed_larger: true,
};

fn act() -> impl Strategy<Value = Act> {
    let types = || prop::sample::select(&MigrateType::ALL[..]);
    let action = prop_oneof![
        4 => types().prop_map(Action::Locked),
        4 => types().prop_map(|t| Action::Alloc(t, GfpFlags(0))),
        4 => Just(Action::Free),
        1 => Just(Action::HandOver),
        2 => Just(Action::Listed),
        1 => any::<bool>().prop_map(|to_tail| Action::PastLists { to_tail }),
        3 => types().prop_map(Action::Drain),
        2 => any::<bool>().prop_map(|searched| Action::Isolated { searched }),
        1 => types().prop_map(Action::Retyped),
        1 => Just(Action::Picked),
        1 => (types(), any::<u32>()).prop_map(|(t, gfp)| Action::Alloc(t, GfpFlags(gfp))),
        1 => (types(), any::<u32>()).prop_map(|(t, gfp)| Action::Refused(t, GfpFlags(gfp))),
        1 => Just(Action::CompactMemory),
        1 => (types(), 0u32..200, proptest::option::of(0u16..3)).prop_map(|(migrate_type, frames, node)| {
            Action::Bulk { migrate_type, frames, node, returns: false }
        }),
        1 => (0usize..2).prop_map(Action::Decay),
        1 => prop::sample::select(&RESIZED[..]).prop_map(Action::Resized),
        1 => (types(), types(), 0u8..11, any::<bool>()).prop_map(|(wanted, from, found, change_ownership)| {
            let found = Order::new(found).unwrap();
            Action::Fallback { wanted, from, found, change_ownership }
        }),
    ];
    let orders = prop_oneof![6 => Just(0u8), 2 => 1u8..4, 1 => 4u8..11];
    let by = prop::sample::select(&[By::Program, By::Kswapd, By::DirectReclaim, By::Compaction]);
    (0u16..2, 0..FRAMES as u32, orders, action, by, any::<u32>(), 0i32..3).prop_map(
        |(cpu, frame, order, action, by, time_ns, thread)| {
            let order = Order::new(order).unwrap();
            let aside = matches!(
                action,
                Action::Refused(..)
                    | Action::CompactMemory
                    | Action::Bulk { .. }
                    | Action::Decay(_)
                    | Action::Resized(_)
            );
            let block = Frame(frame % 700).align_down(order);
            let frame = if aside { Frame::NONE } else { block };
            Act { cpu, frame, order, action, by, time_ns: time_ns.into(), thread }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nonsense_is_wrong_and_no_more(
        acts in prop::collection::vec(act(), 1..400),
        end in any::<prop::sample::Index>(),
        reclaim in prop::option::of(any::<prop::sample::Index>()),
        free in prop::collection::vec(any::<bool>(), 1..20),
        version in prop::sample::select(&VERSIONS[..]),
    ) {
        let mut acts = acts;
        let end = end.index(acts.len());
        for edge in [Edge::End, Edge::Begin] {
            let action = Action::Snapshot(0, edge);
            acts.insert(end, Act::aside(action, 0));
        }
        let reclaim = reclaim.map(|reclaim| reclaim.index(acts.len()));
        let count = |acts: &[Act], of: fn(&Action) -> bool| {
            acts.iter().filter(|act| of(&act.action)).count() as u64
        };
        let (before, after) = acts.split_at(reclaim.unwrap_or(acts.len()));
        let allocations = count(before, |action| matches!(action, Action::Alloc(..)));
        let locked = count(after, |action| matches!(action, Action::Locked(_)));
        let isolated = count(after, |action| matches!(action, Action::Isolated { .. }));
        let fidelity = compare(&recording(acts, &free, reclaim, version));
        prop_assert_eq!(fidelity.through_reclaim.is_some(), reclaim.is_some());
        if let Some(through) = fidelity.through_reclaim {
            prop_assert_eq!(through.zone_locked.total, locked);
            prop_assert_eq!(through.isolated.total, isolated);
            prop_assert_eq!(through.driven.snapshots.len(), 1);
        }
        prop_assert_eq!(fidelity.followed.total, allocations);
        // A block can have been taken before the first reclaim and its allocation logged after it.
        let taken = allocations..=allocations + fidelity.hidden.reordered;
        prop_assert!(taken.contains(&fidelity.corrected.total));
        prop_assert_eq!(fidelity.free_running.total, fidelity.corrected.total);
        prop_assert!(fidelity.followed.right <= allocations);
    }
}

/// Events in memory.
struct Events {
    left: Option<Vec<Event>>,
    batch: Vec<Event>,
    texts: Texts,
}

impl EventSource for Events {
    fn next_batch(&mut self) -> prairie_trace::Result<Option<&[Event]>> {
        self.batch = self.left.take().unwrap_or_default();
        Ok(Some(&*self.batch).filter(|batch| !batch.is_empty()))
    }

    fn texts(&self) -> &Texts {
        &self.texts
    }
}

#[test]
fn a_cpu_that_no_machine_has_is_an_error() {
    let read = |cpu: u16, of_pages: bool| {
        let mut texts = Texts::default();
        let mut marker = |text: &str| EventKind::Marker { text: texts.intern(text) };
        let edges = ["begin", "end"].map(|edge| marker(&format!("snapshot only {edge}")));
        let (pfn, order) = (Pfn(4), Order::BASE);
        let named = match of_pages {
            true => EventKind::Free { pfn, order },
            false => marker("prairie_fraction: (a <- b) fraction=8"),
        };
        let kinds = [named, edges[0], edges[1]];
        let event = |what| Event { time_ns: 0, pid: 1, cpu, what };
        let left = Some(kinds.map(event).to_vec());
        let flags = vec![0; FRAMES as usize * 8];
        let snapshot = Snapshot::new("only", [PAGETYPEINFO, ZONEINFO], Some(&flags)).unwrap();
        let mut events = Events { left, batch: Vec::new(), texts };
        let read = Recording::read(&mut events, vec![snapshot], KernelVersion::new(7, 3));
        read.unwrap_err().to_string()
    };
    for of_pages in [true, false] {
        let error = "CPU 65535 in the trace: expected less than 8192, the most that Linux supports";
        assert_eq!(read(u16::MAX, of_pages), error);
        assert!(read(8191, of_pages).starts_with("the trace has no mm_page_alloc"));
    }
}

/// A machine of which most memory is not initialized yet is not short of memory: watermarks are set
/// later.
#[test]
fn there_are_no_watermarks_before_the_record_sets_them() {
    let snapshots = |edge| Act::aside(Action::Snapshot(0, edge), 0);
    let acts = vec![snapshots(Edge::Begin), snapshots(Edge::End)];
    let mut recorded = recording(acts, &[true], None, KernelVersion::new(6, 12));
    let marks = Watermarks { min: 2 * FRAMES, low: 3 * FRAMES, high: 4 * FRAMES };
    let mut span = recorded.layout.zones()[0].span.clone();
    span.watermarks = marks;
    recorded.layout = Layout::new(vec![span]).unwrap();
    // Lists grow with a refill, but not while a zone is below its high watermark.
    let limit_after_a_refill = |recorded: &Recording| {
        let config = Config { cpus_per_node: 2, ..Config::of(recorded.version) };
        let opening = Opening::of(recorded);
        let Machine { mut table, mut linux, .. } = Machine::open(recorded, config, &opening);
        linux.set_pageset(0, READING.limits);
        linux.set_tuning(0, 0, Tuning { high: READING.limits.high, ..linux.tuning(0, 0) });
        linux.allocate_in(&mut table, 0, &Request::default(), 0, false);
        linux.tuning(0, 0).high
    };
    assert_eq!(limit_after_a_refill(&recorded), READING.limits.high + READING.limits.batch);
    recorded.names_limits = false;
    assert_eq!(limit_after_a_refill(&recorded), READING.limits.high);
}
