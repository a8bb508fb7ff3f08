//! What happened between the events of short handmade recordings.

use std::ops::Range;

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::linux::{Config, Pageset};
use prairie_frames::{Frame, KernelVersion, Layout, MigrateType, Order, Pfn, ZoneKind};
use prairie_replay::exact::act::{Act, Action, Edge, Resized};
use prairie_replay::exact::follow::Inconsistencies;
use prairie_replay::exact::opening::Opening;
use prairie_replay::exact::probes::ListReading;
use prairie_replay::exact::recording::Recording;
use prairie_replay::exact::snapshot::Snapshot;
use prairie_replay::exact::step::Step;
use prairie_replay::exact::threads::By;
use prairie_replay::exact::{Fidelity, compare, follow};
use prairie_trace::GfpFlags;

/// Frames of each zone.
const FRAMES: u64 = 4096;

/// A zone of two CPUs, whose lists have a batch and 50 frames at most.
fn zone(node: u16, start: u64, batch: u32) -> String {
    format!(
        "\
Node {node}, zone    DMA32
  pages free     100
        min      80
        low      100
        high     120
        spanned  4096
        present  4096
        managed  4096
        protection: (0, 0)
  pagesets
    cpu: 0
              count: 0
              high:  50
              batch: {batch}
    cpu: 1
              count: 0
              high:  50
              batch: {batch}
  start_pfn:           {start}
"
    )
}

const PAGETYPEINFO: &str = "\
Page block order: 9
Pages per block:  512

Free pages count per migrate type at order       0      1      2      3      4      5      6      7      8      9     10
Node    0, zone    DMA32, type      Movable      0      0      0      0      0      0      0      0      0      0      1

Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic      Isolate
Node 0, zone    DMA32             0            8            0            0            0
";

/// A recording of a machine with `nodes` nodes of one zone each, whose first 1024 frames of each are
/// free.
fn recording(nodes: u16, batch: u32, acts: Vec<Act>, version: KernelVersion) -> Recording {
    let span = |node: u16| ZoneSpan {
        node,
        kind: ZoneKind::Dma32,
        start: Pfn(u64::from(node) * FRAMES),
        spanned: FRAMES,
        managed: FRAMES,
        watermarks: Watermarks { min: 80, low: 100, high: 120 },
        lowmem_reserve: [0; 6],
    };
    let layout = Layout::new((0..nodes).map(span).collect()).unwrap();
    let flags: Vec<u8> = (0..FRAMES * u64::from(nodes))
        .flat_map(|frame| (u64::from(frame % FRAMES < 1024) << 10).to_ne_bytes())
        .collect();
    let zones: String =
        (0..nodes).map(|node| zone(node, u64::from(node) * FRAMES, batch)).collect();
    let snapshot = Snapshot::new("only", [PAGETYPEINFO, &zones], Some(&flags)).unwrap();
    let mut acts = acts;
    acts.extend([Edge::Begin, Edge::End].map(|edge| Act::aside(Action::Snapshot(0, edge), 0)));
    let names_limits = acts.iter().any(|act| act.action == Action::Resized(Resized::Boot));
    let snapshots = vec![snapshot];
    Recording { acts, snapshots, cpus: 2, names_limits, ..Recording::empty(layout, version) }
}

fn act(cpu: u16, thread: i32, action: Action, frame: u32) -> Act {
    let (order, by) = (Order::BASE, By::Program);
    Act { cpu, frame: Frame(frame), order, action, by, time_ns: 0, thread }
}

/// Drains of lists for another node that the replay finds, by zone.
fn remote_drains(recording: &Recording) -> Vec<usize> {
    let opening = Opening::of(recording);
    let all = 0..recording.acts.len();
    let followed = follow::follow(recording, &opening, Config::default(), all);
    let remote = |(_, step): (usize, &Step)| match *step {
        Step::DrainRemote { zone, .. } => Some(zone),
        _ => None,
    };
    followed.script.steps().filter_map(remote).collect()
}

/// CPU 0 frees `frames` of each zone that were in use before.
fn frees(zones: &[u32], frames: u32) -> Vec<Act> {
    let of = |&zone: &u32| {
        let first = zone * FRAMES as u32 + 2048;
        (first..first + frames).map(|frame| act(0, 1, Action::Free, frame))
    };
    zones.iter().flat_map(of).collect()
}

/// Thread `thread` drains the first frames that [`frees`] freed of a zone.
fn drains(zone: u32, frames: u32, thread: i32) -> impl Iterator<Item = Act> {
    let first = zone * FRAMES as u32 + 2048;
    let drain = move |frame| act(0, thread, Action::Drain(MigrateType::Movable), frame);
    (first..first + frames).map(drain)
}

/// Before watermarks are set the high mark is four batches. A free that reaches it drains a batch.
#[test]
fn a_batch_that_a_free_drains_is_no_drain_of_lists_for_another_node() {
    let acts = frees(&[1], 12).into_iter().chain(drains(1, 3, 1)).collect();
    assert_eq!(remote_drains(&recording(2, 3, acts, KernelVersion::V6_1)), [0; 0]);
}

/// An update of statistics drains the lists of one zone after the other.
#[test]
fn lists_for_another_node_go_back_batch_by_batch() {
    let acts = frees(&[0, 1], 8).into_iter().chain(drains(0, 3, 9)).chain(drains(1, 3, 9));
    assert_eq!(remote_drains(&recording(2, 3, acts.collect(), KernelVersion::V6_1)), [0, 1]);
}

const TYPE: MigrateType = MigrateType::Movable;

/// A refill of blocks of two frames leaves more on the lists than their high mark, until a free drains
/// them. That does not show that frames were taken unseen.
#[test]
fn a_refill_can_raise_the_lists_above_their_high_mark() {
    let pair = |action, frame| Act { order: Order::new(1).unwrap(), ..act(0, 0, action, frame) };
    let taken = Action::Alloc(TYPE, GfpFlags(0));
    let mut acts = frees(&[0], 11);
    acts.extend([0, 2].map(|frame| pair(Action::Locked(TYPE), frame)));
    acts.push(pair(taken, 0));
    acts.push(act(0, 1, Action::Free, 2059));
    acts.extend(drains(0, 3, 1));
    acts.push(alloc(0, 2059));
    let fidelity = compare(&recording(1, 3, acts, KernelVersion::V6_1));
    assert_eq!(fidelity.hidden.bulk, 0);
    assert_eq!(fidelity.odd, Inconsistencies::default());
    assert_exact(&fidelity, 2);
}

/// A CPU's thread refills its list.
fn refill(cpu: u16, frames: Range<u32>) -> impl Iterator<Item = Act> {
    frames.map(move |frame| act(cpu, cpu.into(), Action::Locked(TYPE), frame))
}

fn alloc(cpu: u16, frame: u32) -> Act {
    act(cpu, cpu.into(), Action::Alloc(TYPE, GfpFlags(0)), frame)
}

/// Whether all allocations are right at every level.
fn assert_exact(fidelity: &Fidelity, allocations: u64) {
    for score in [&fidelity.followed, &fidelity.corrected, &fidelity.free_running] {
        assert!(score.is_perfect(), "{:?}", score.misses);
        assert_eq!(score.total, allocations);
    }
}

/// What is freed in memory that is to go offline comes to no list of a CPU.
#[test]
fn a_free_in_an_isolated_pageblock_goes_to_its_free_lists() {
    let pageblock = |action| Act { order: Order::HUGE, ..act(0, 0, action, 0) };
    let mut acts: Vec<Act> = refill(0, 0..3).chain((0..3).map(|frame| alloc(0, frame))).collect();
    acts.push(pageblock(Action::Isolates));
    acts.extend((0..3).map(|frame| act(0, 0, Action::Free, frame)));
    acts.extend([pageblock(Action::Removed)]);
    acts.extend(refill(0, 512..515).chain([alloc(0, 512)]));
    let fidelity = compare(&recording(1, 3, acts, KernelVersion::V6_1));
    assert_eq!((fidelity.odd.removed_used, fidelity.hidden.direct_frees), (0, 0));
    assert_exact(&fidelity, 4);
}

/// A thread frees two frames, and then empties the lists because memory is to go offline. The memory stays.
#[test]
fn lists_that_are_emptied_for_memory_that_stays_are_not_drained_by_a_free() {
    let resized = |resized| Act::aside(Action::Resized(resized), 0);
    let mut acts: Vec<Act> = vec![bulk(), resized(Resized::Boot)];
    acts.extend(frees(&[0], 2).into_iter().chain([resized(Resized::Disabled(0))]));
    acts.extend(drains(0, 2, 1).chain([resized(Resized::Enabled)]));
    acts.extend(refill(0, 2048..2050).chain(refill(0, 0..2)).chain([alloc(0, 2048)]));
    let fidelity = compare(&recording(1, 4, acts, KernelVersion::new(7, 3)));
    assert_eq!(fidelity.odd, Inconsistencies::default());
    assert_exact(&fidelity, 1);
}

/// An interrupt frees past the lists while they are emptied because memory is to go offline.
#[test]
fn an_interrupt_frees_while_lists_are_emptied() {
    let resized = |resized| Act::aside(Action::Resized(resized), 0);
    let of_list = |action| move |frame| act(0, 1, action, frame);
    let mut acts: Vec<Act> = vec![bulk(), resized(Resized::Boot)];
    acts.extend([2048, 2050].map(of_list(Action::Free)));
    acts.extend([resized(Resized::Disabled(0)), of_list(Action::Drain(TYPE))(2048)]);
    let past = Action::PastLists { to_tail: false };
    acts.extend([Action::Free, past].map(|action| of_list(action)(2060)));
    acts.extend([of_list(Action::Drain(TYPE))(2050), resized(Resized::Enabled)]);
    acts.extend([2050, 2060, 2048, 0].into_iter().flat_map(|frame| refill(0, frame..frame + 1)));
    acts.push(alloc(0, 2050));
    let fidelity = compare(&recording(1, 4, acts, KernelVersion::new(7, 3)));
    assert_eq!(fidelity.odd, Inconsistencies::default());
    assert_exact(&fidelity, 1);
}

/// CPU 1 finds the size of a refill, then limits change, then it gets the lock of the free lists.
#[test]
fn a_refill_can_have_the_size_of_limits_that_have_changed_meanwhile() {
    let mut acts: Vec<Act> = refill(0, 0..3).collect();
    acts.extend([alloc(0, 0), Act::aside(Action::Resized(Resized::Boot), 0)]);
    acts.extend(refill(1, 3..6));
    acts.extend([alloc(1, 3), alloc(0, 1), alloc(0, 2)]);
    acts.extend(refill(0, 6..20));
    acts.push(alloc(0, 6));
    let fidelity = compare(&recording(1, 7, acts, KernelVersion::new(6, 12)));
    assert_eq!(fidelity.odd.resized, 0);
    assert_exact(&fidelity, 5);
}

/// A frame whose arrival no probe reported was on a list if it leaves one.
#[test]
fn a_frame_that_leaves_a_list_was_not_freed_past_it() {
    let mut acts: Vec<Act> = refill(0, 0..3).collect();
    acts.extend([alloc(0, 0), alloc(0, 1)]);
    acts.extend(
        [(Action::Free, 0), (Action::Free, 1), (Action::Listed, 1)]
            .map(|(action, frame)| act(0, 0, action, frame)),
    );
    acts.extend([1, 0, 2].map(|frame| alloc(0, frame)));
    let recording = recording(1, 3, acts, KernelVersion::new(7, 3));
    let fidelity = compare(&Recording { lists_from: Some(0), ..recording });
    assert_exact(&fidelity, 5);
}

/// A frame whose arrival no probe reported was on a list if it is freed again: it was allocated in bulk,
/// and leaves the free lists only with an event. The allocation may be the one whose probe an interrupt
/// with these frees finds running.
#[test]
fn a_frame_that_is_freed_again_was_not_freed_past_a_list() {
    let free = |frame| act(0, 0, Action::Free, frame);
    let listed = |frame| act(0, 0, Action::Listed, frame);
    let bulk = Action::Bulk { migrate_type: TYPE, frames: 1, node: None, returns: false };
    let bulk = || Act::aside(bulk, 0);
    let before = [free(0), free(1), listed(1), alloc(0, 1), bulk(), alloc(0, 2)];
    let within = [bulk(), free(1), free(0), alloc(0, 1), alloc(0, 2)];
    for acts in [before.to_vec(), within.to_vec()] {
        let acts = refill(0, 0..3).chain([alloc(0, 0), alloc(0, 1)]).chain(acts);
        let acts = acts.chain([free(0), listed(0), alloc(0, 0)]).collect();
        let recording = recording(1, 3, acts, KernelVersion::new(7, 3));
        let fidelity = compare(&Recording { lists_from: Some(0), ..recording });
        assert_eq!((fidelity.odd.freed_free, fidelity.hidden.direct_frees), (0, 0));
        assert_exact(&fidelity, 5);
    }
}

/// An interrupt frees two frames, and no probe reports where they go. One leaves a list, so the other one
/// came to it, too; it is allocated in bulk and not freed any more.
#[test]
fn a_frame_that_an_interrupt_frees_comes_to_its_list_with_others() {
    let free = |frame| act(0, 0, Action::Free, frame);
    let bulk = Action::Bulk { migrate_type: TYPE, frames: 1, node: None, returns: false };
    let acts = refill(0, 0..4).chain((0..3).map(|frame| alloc(0, frame)));
    let acts = acts.chain([free(0), free(1), free(2), act(0, 0, Action::Listed, 2)]);
    let acts = acts.chain([alloc(0, 2), alloc(0, 1), Act::aside(bulk, 0), alloc(0, 3)]).collect();
    let recording = recording(1, 4, acts, KernelVersion::new(7, 3));
    let fidelity = compare(&Recording { lists_from: Some(0), ..recording });
    assert_eq!(fidelity.hidden.direct_frees, 0);
    assert_eq!(fidelity.odd, Inconsistencies::default());
    assert_exact(&fidelity, 6);
}

/// A frame comes to a list and stays, and a refill finds the list of movable frames empty: its pageblock
/// has another type.
#[test]
fn a_refill_shows_the_type_of_a_pageblock_whose_frames_stay() {
    let freed = [Action::Free, Action::Listed].map(|action| act(0, 0, action, 2048)).into_iter();
    let acts = freed.chain(refill(0, 0..4)).chain([alloc(0, 0)]).collect();
    let recording = recording(1, 4, acts, KernelVersion::new(7, 3));
    let fidelity = compare(&Recording { lists_from: Some(0), ..recording });
    assert_eq!(fidelity.hidden.bulk, 0);
    assert_eq!(fidelity.odd, Inconsistencies::default());
    assert_exact(&fidelity, 1);
}

/// A thread begins an allocation in bulk of two frames on a CPU, or returns.
fn bulk_of(cpu: u16, thread: i32, returns: bool) -> Act {
    let bulk = Action::Bulk { migrate_type: TYPE, frames: 2, node: None, returns };
    Act { cpu, thread, ..Act::aside(bulk, 0) }
}

/// Thread 5 begins an allocation in bulk on CPU 0, where another thread takes what is on the list, and
/// returns on CPU 1, from whose list it took two frames. They are freed later.
#[test]
fn an_allocation_in_bulk_can_move_to_another_cpu() {
    let mut acts: Vec<Act> = refill(0, 0..4).chain([alloc(0, 0)]).collect();
    acts.extend(refill(1, 4..8).chain([alloc(1, 4), bulk_of(0, 5, false)]));
    acts.extend([alloc(0, 1), alloc(0, 2), alloc(0, 3), bulk_of(1, 5, true), alloc(1, 7)]);
    acts.extend([5, 6].map(|frame| act(1, 1, Action::Free, frame)));
    acts.extend([alloc(1, 6), alloc(1, 5)]);
    let fidelity = compare(&recording(1, 4, acts, KernelVersion::new(7, 3)));
    assert_eq!(fidelity.odd, Inconsistencies::default());
    assert_exact(&fidelity, 8);
}

/// Thread 5 begins an allocation in bulk, and thread 6 preempts it, with one of its own. It takes the
/// first two frames, and two more one by one. Then thread 5 takes its frames.
#[test]
fn an_allocation_in_bulk_can_preempt_another() {
    let mut acts: Vec<Act> = refill(0, 0..8).chain([alloc(0, 0)]).collect();
    acts.extend([bulk_of(0, 5, false), bulk_of(0, 6, false), alloc(0, 3), alloc(0, 4)]);
    acts.extend([bulk_of(0, 5, true), alloc(0, 7)]);
    acts.extend([6, 5, 2, 1].map(|frame| act(0, 1, Action::Free, frame)));
    acts.extend([1, 2, 5, 6].map(|frame| alloc(0, frame)));
    let fidelity = compare(&recording(1, 8, acts, KernelVersion::new(7, 3)));
    assert_eq!(fidelity.odd, Inconsistencies::default());
    assert_exact(&fidelity, 8);
}

/// Thread 5 begins an allocation in bulk on CPU 0, and returns on CPU 1, from whose list it took two frames:
/// later an allocation gets what was behind them. What CPU 0 has, thread 6 takes in bulk.
#[test]
fn an_allocation_in_bulk_can_leave_frames_to_a_later_one() {
    for told in [false, true] {
        let free = |cpu, frame| {
            let listed = told.then(|| act(cpu, 1, Action::Listed, frame));
            [act(cpu, 1, Action::Free, frame)].into_iter().chain(listed)
        };
        let mut acts: Vec<Act> = free(0, 2048).chain(free(0, 2049)).collect();
        acts.extend((2056..2060).flat_map(|frame| free(1, frame)).chain([alloc(1, 2059)]));
        acts.extend([bulk_of(0, 5, false), bulk_of(1, 5, true), bulk_of(0, 6, false)]);
        acts.extend(refill(0, 0..4).chain([alloc(0, 0), alloc(1, 2056)]));
        acts.extend([2048, 2049].into_iter().flat_map(|frame| free(0, frame)));
        acts.extend([2057, 2058].into_iter().flat_map(|frame| free(1, frame)));
        acts.extend([alloc(1, 2058), alloc(1, 2057), alloc(0, 2049)]);
        let recording = recording(1, 4, acts, KernelVersion::new(7, 3));
        let fidelity = compare(&Recording { lists_from: told.then_some(0), ..recording });
        assert_eq!(fidelity.odd, Inconsistencies::default());
        assert_exact(&fidelity, 6);
    }
}

/// Threads 1 and 2 are preempted before they log the blocks that they took. Thread 3 frees two blocks,
/// and takes one of them.
#[test]
fn two_threads_can_log_their_allocations_late() {
    let alloc = |thread, frame| Act { thread, ..alloc(0, frame) };
    let mut acts: Vec<Act> = refill(0, 0..4).collect();
    acts.push(alloc(0, 0));
    acts.extend([2048, 2049].map(|frame| act(0, 3, Action::Free, frame)));
    acts.extend([alloc(3, 2049), alloc(1, 1), alloc(2, 2), alloc(2, 2048), alloc(2, 3)]);
    assert_exact(&compare(&recording(1, 4, acts, KernelVersion::new(7, 3))), 6);
}

/// Thread 5 takes a block on CPU 0, and logs it on CPU 1. Meanwhile blocks come ahead of it to the list
/// of CPU 0, and CPU 1 takes a block that its own list has had for longer.
#[test]
fn a_block_that_is_logged_late_on_another_cpu_left_the_list_that_had_it() {
    let of_thread = |thread, act| Act { thread, ..act };
    let mut acts: Vec<Act> = refill(0, 0..4).chain([alloc(0, 0)]).collect();
    acts.extend(refill(1, 4..8).chain([alloc(1, 4)]));
    acts.extend((2048..2051).map(|frame| act(0, 3, Action::Free, frame)));
    acts.extend([of_thread(3, alloc(0, 2050)), alloc(1, 5), of_thread(5, alloc(1, 1))]);
    acts.extend([2049, 2048, 2].map(|frame| alloc(0, frame)));
    let fidelity = compare(&recording(1, 4, acts, KernelVersion::new(7, 3)));
    assert_eq!(fidelity.hidden.migrated, 1);
    assert_exact(&fidelity, 8);
}

/// Thread 3 is preempted after it logs a free, and the block comes to the list after those that thread 4
/// frees. Then thread 3 frees another one, or does nothing more.
#[test]
fn a_block_that_is_freed_can_come_to_its_list_late() {
    for more in [false, true] {
        let free = |thread, frame| act(0, thread, Action::Free, frame);
        let mut acts = vec![free(3, 2048), free(4, 2049), free(4, 2050)];
        acts.extend(more.then(|| free(3, 2051)));
        let got = [2051, 2048, 2050, 2049];
        acts.extend(got[usize::from(!more)..].iter().map(|&frame| alloc(0, frame)));
        let fidelity = compare(&recording(1, 4, acts, KernelVersion::new(7, 3)));
        assert_eq!(fidelity.odd, Inconsistencies::default());
        assert_exact(&fidelity, 3 + u64::from(more));
    }
}

/// A thread refills its list for a block that it logs late. Another CPU refills its own list meanwhile,
/// and frees put other blocks ahead of the first.
#[test]
fn a_refill_comes_before_what_happened_until_its_block_is_logged() {
    for others in [false, true] {
        let mut acts: Vec<Act> =
            refill(0, 0..4).chain((0..4).map(|frame| alloc(0, frame))).collect();
        acts.extend(refill(0, 4..12).chain(refill(1, 12..16)));
        acts.push(alloc(1, 12));
        acts.extend([2048, 2049].map(|frame| act(0, 3, Action::Free, frame)));
        let other = Act { thread: 3, ..alloc(0, 2049) };
        let late = alloc(0, 4);
        acts.extend(if others { [other, late] } else { [late, other] });
        acts.push(alloc(0, 2048));
        let recording = recording(1, 4, acts, KernelVersion::new(7, 3));
        assert_exact(&compare(&recording), 8);
    }
}

/// Thread 1 frees three blocks as a batch, which fills the lists. Thread 2 takes the last of them, and
/// logs it after thread 3, which takes the one before: not while the lists were in use.
#[test]
fn nothing_is_taken_between_two_blocks_of_a_batch() {
    let batch = |action| (3000..3003).map(move |frame| act(0, 1, action, frame));
    let alloc_of = |thread, frame| Act { thread, ..alloc(0, frame) };
    let mut acts = vec![bulk(), Act::aside(Action::Resized(Resized::Boot), 0)];
    acts.extend(frees(&[0], 47));
    acts.extend(batch(Action::Free).chain(batch(Action::Listed)));
    acts.extend(drains(0, 46, 1));
    acts.extend([alloc_of(3, 3001), alloc_of(2, 3002), alloc(0, 3000), alloc(0, 2094)]);
    acts.extend(refill(0, 2092..2094).chain(refill(0, 2088..2090)).chain([alloc(0, 2092)]));
    let fidelity = compare(&recording(1, 4, acts, KernelVersion::new(7, 3)));
    assert_eq!(fidelity.odd, Inconsistencies::default());
    assert_exact(&fidelity, 5);
}

/// A free fills the lists and drains them. Thread 2 takes the freed block, and logs it after thread 3,
/// which takes the one before: that was on its list when the lists were full.
#[test]
fn a_drain_shows_that_a_block_was_not_taken_before() {
    let alloc_of = |thread, frame| Act { thread, ..alloc(0, frame) };
    let mut acts = vec![bulk(), Act::aside(Action::Resized(Resized::Boot), 0)];
    acts.extend(frees(&[0], 50).into_iter().chain(drains(0, 46, 1)));
    acts.extend([alloc_of(3, 2096), alloc_of(2, 2097), alloc(0, 2095), alloc(0, 2094)]);
    acts.extend(refill(0, 2092..2094).chain(refill(0, 2088..2090)).chain([alloc(0, 2092)]));
    let fidelity = compare(&recording(1, 4, acts, KernelVersion::new(7, 3)));
    assert_eq!(fidelity.odd, Inconsistencies::default());
    assert_exact(&fidelity, 5);
}

const READING: ListReading = ListReading {
    zone: 0,
    count: 0,
    high: 50,
    limits: Pageset { batch: 4, high: 50, ..Pageset::BOOT },
    alloc_factor: 0,
    free_count: 0,
    freed_larger: false,
};

/// A probe that reports bulk allocations: of none, here.
fn bulk() -> Act {
    Act::aside(Action::Bulk { migrate_type: TYPE, frames: 0, node: None, returns: false }, 0)
}

/// Before there are readings, an update of statistics drains the only block on the lists, which is larger
/// than their high mark. Later a refill splits it.
#[test]
fn an_update_of_statistics_can_drain_all_there_is() {
    let huge = |act: Act| Act { order: Order::HUGE, ..act };
    let mut acts = frees(&[0], 1);
    acts.push(alloc(0, 2048));
    acts.extend(refill(0, 0..1).chain([alloc(0, 0)]).map(huge));
    acts.extend(refill(0, 512..513).map(huge));
    acts.push(huge(act(0, 9, Action::Drain(TYPE), 512)));
    acts.extend(refill(0, 512..515).chain([alloc(0, 512)]));
    assert_exact(&compare(&recording(1, 3, acts, KernelVersion::new(7, 3))), 3);
}

/// Allocations that a thread made before an update of statistics that finds `count` frames on its list.
/// Before the update, the list gets three more frames and a block of two. `logged` comes after it.
fn taken_before_update(told: bool, count: u32, logged: &[Act]) -> usize {
    let mut acts: Vec<Act> = told.then(bulk).into_iter().collect();
    acts.extend(refill(0, 0..4).chain([alloc(0, 0)]));
    acts.extend([8, 10].map(|frame| of_two(act(0, 0, Action::Locked(TYPE), frame))));
    acts.push(of_two(alloc(0, 8)));
    acts.push(Act { thread: 9, ..Act::aside(Action::Decay(0), 0) });
    acts.extend(logged);
    let reading = ListReading { count, ..READING };
    let recording = recording(1, 4, acts, KernelVersion::new(7, 3));
    let recording = Recording { readings: vec![(0, reading)], ..recording };
    let (opening, all) = (Opening::of(&recording), 0..recording.acts.len());
    let followed = follow::follow(&recording, &opening, Config::of(recording.version), all);
    let update = |(_, step): &(usize, &Step)| matches!(step, Step::Decay { .. });
    let before = followed.script.steps().take_while(|step| !update(step));
    before.filter(|(_, step)| matches!(step, Step::Alloc { .. })).count()
}

fn of_two(act: Act) -> Act {
    Act { order: Order::new(1).unwrap(), ..act }
}

/// A thread takes a block, and logs it after an update of statistics that found the list without it,
/// maybe after another thread that takes the next block, or one of another list.
#[test]
fn an_update_of_statistics_shows_that_a_block_is_logged_late() {
    let (late, other) = (Act { thread: 1, ..alloc(0, 1) }, Act { thread: 2, ..alloc(0, 2) });
    let larger = Act { thread: 1, ..of_two(alloc(0, 10)) };
    for told in [false, true] {
        let taken = |count, logged: &[Act]| taken_before_update(told, count, logged);
        assert_eq!([5, 4].map(|count| taken(count, &[late])), [2, 3]);
        assert_eq!([5, 4].map(|count| taken(count, &[other, late])), [2, 3]);
    }
    let taken = |count| taken_before_update(true, count, &[other, larger]);
    assert_eq!([5, 3].map(taken), [2, 3]);
}

/// Thread 2 takes a block before a free that would fill the list with it, and logs it after, maybe
/// after the allocation of the freed block.
#[test]
fn a_free_that_does_not_drain_shows_that_a_block_is_logged_late() {
    let (late, other) = (Act { thread: 2, ..alloc(0, 2096) }, alloc(0, 2097));
    for logged in [[late, other], [other, late]] {
        let mut acts = vec![bulk(), Act::aside(Action::Resized(Resized::Boot), 0)];
        acts.extend(frees(&[0], 49));
        acts.push(act(0, 1, Action::Free, 2097));
        acts.extend(logged);
        acts.extend((2048..2096).rev().map(|frame| alloc(0, frame)));
        let fidelity = compare(&recording(1, 4, acts, KernelVersion::new(7, 3)));
        assert_eq!(fidelity.odd, Inconsistencies::default());
        assert_exact(&fidelity, 50);
    }
}

/// Thread 2 takes a frame before the frees that would fill the lists with it, and logs it after thread 3,
/// which takes a larger block after them. The frame is behind what was freed.
#[test]
fn a_free_that_does_not_drain_is_explained_by_a_block_that_others_stand_ahead_of() {
    let locked = |frame| act(0, 0, Action::Locked(TYPE), frame);
    let free = |frame| act(0, 1, Action::Free, frame);
    let mut acts = vec![bulk(), Act::aside(Action::Resized(Resized::Boot), 0)];
    acts.extend([locked(0), locked(2), alloc(0, 0)].map(of_two));
    acts.extend([free(2100)].into_iter().chain(frees(&[0], 51)).chain([free(3000)]));
    acts.extend(drains(0, 50, 1));
    acts.push(of_two(Act { thread: 3, ..alloc(0, 2) }));
    acts.extend([Act { thread: 2, ..alloc(0, 2100) }, alloc(0, 3000), alloc(0, 2098)]);
    let fidelity = compare(&recording(1, 4, acts, KernelVersion::new(7, 3)));
    assert_eq!(fidelity.odd, Inconsistencies::default());
    assert_exact(&fidelity, 5);
}

/// An interrupt frees 54 frames while its thread has taken a larger block that it logs later, maybe
/// after another thread. What the last free drains depends on how many were freed since a block was
/// taken.
#[test]
fn a_block_that_is_logged_after_an_interrupt_was_taken_before_all_of_its_frees() {
    let locked = |frame| act(0, 0, Action::Locked(TYPE), frame);
    let (late, other) = (of_two(alloc(0, 2)), Act { thread: 2, ..alloc(0, 2101) });
    for logged in [[late, other], [other, late]] {
        let mut acts = vec![bulk(), Act::aside(Action::Resized(Resized::Boot), 0)];
        acts.extend([locked(0), locked(2), alloc(0, 0)].map(of_two));
        acts.extend((2048..2102).map(|frame| act(0, 0, Action::Free, frame)));
        acts.extend(drains(0, 50, 0));
        acts.extend(logged.into_iter().chain([2100, 2099, 2098].map(|frame| alloc(0, frame))));
        acts.extend([2096, 2097, 4, 5].map(locked));
        acts.push(alloc(0, 2096));
        let fidelity = compare(&recording(1, 4, acts, KernelVersion::new(7, 3)));
        assert_eq!(fidelity.odd, Inconsistencies::default());
        assert_exact(&fidelity, 7);
    }
}

/// An update of statistics finds 9 of 59 frames too many. CPU 1 takes the first batch that goes back.
#[test]
fn an_update_of_statistics_drains_batch_by_batch() {
    let mut acts = vec![Act::aside(Action::Resized(Resized::Boot), 0)];
    for frames in [0..4, 4..12, 12..28] {
        acts.extend(refill(0, frames.clone()).chain(frames.map(|frame| alloc(0, frame))));
    }
    acts.extend(refill(0, 28..60).chain([alloc(0, 28)]));
    acts.extend((0..28).map(|frame| act(0, 0, Action::Free, frame)));
    acts.push(Act { thread: 9, ..Act::aside(Action::Decay(0), 0) });
    let drain = |frame| act(0, 9, Action::Drain(TYPE), frame);
    acts.extend([59, 58, 57, 56].map(drain));
    acts.extend(refill(1, 56..60).chain((56..60).map(|frame| alloc(1, frame))));
    acts.extend([55, 54, 53, 52, 51].map(drain));
    let recording = recording(1, 4, acts, KernelVersion::new(7, 3));
    let readings = vec![(0, ListReading { count: 59, high: 57, ..READING })];
    let fidelity = compare(&Recording { readings, ..recording });
    assert_eq!((&fidelity.odd, fidelity.readings), (&Inconsistencies::default(), [0, 1]));
    assert_exact(&fidelity, 33);
}

/// A free finds 10 frames too many, and drains them in batches of 4, 4, and 2; the first is a block of
/// 8. Before the last batch, another thread preempts it, and CPU 1 takes the second.
#[test]
fn a_free_drains_batch_by_batch() {
    let free = |frame| act(0, 3, Action::Free, frame);
    let drain = |frame| act(0, 3, Action::Drain(TYPE), frame);
    let of_eight = |act: Act| Act { order: Order::new(3).unwrap(), ..act };
    let mut acts = vec![Act::aside(Action::Resized(Resized::Boot), 0)];
    acts.extend((2056..2060).chain(2052..2054).chain(2064..2104).map(free));
    acts.extend((2100..2104).rev().map(|frame| alloc(0, frame)));
    acts.push(of_eight(free(2120)));
    acts.push(of_eight(drain(2120)));
    acts.extend((2056..2060).map(drain));
    acts.push(alloc(0, 2099));
    acts.extend(refill(1, 2056..2060).chain([alloc(1, 2056)]));
    acts.extend([2052, 2053].map(drain));
    acts.push(alloc(0, 2098));
    let recording = recording(1, 4, acts, KernelVersion::new(7, 3));
    let fidelity = compare(&recording);
    assert_eq!(fidelity.odd, Inconsistencies::default());
    assert_exact(&fidelity, 7);
    assert_eq!(lowered(&recording), 0);
}

/// A free finds 46 of 50 frames too many. The last block that it drains is larger than what is left to
/// drain, and empties the lists. So what the thread drains later is on account of a later free.
#[test]
fn a_free_drains_nothing_more_once_the_lists_are_empty() {
    let of_eight = |act: Act| Act { order: Order::new(3).unwrap(), ..act };
    let mut acts = vec![Act::aside(Action::Resized(Resized::Boot), 0)];
    acts.push(of_eight(act(0, 1, Action::Free, 2120)));
    acts.extend(frees(&[0], 42).into_iter().chain(drains(0, 42, 1)));
    acts.push(of_eight(act(0, 1, Action::Drain(TYPE), 2120)));
    acts.extend((3000..3054).map(|frame| act(0, 1, Action::Free, frame)));
    acts.extend((3000..3050).map(|frame| act(0, 1, Action::Drain(TYPE), frame)));
    acts.extend((3050..3054).rev().map(|frame| alloc(0, frame)));
    acts.extend(refill(0, 3048..3050).chain(refill(0, 2088..2090)).chain([alloc(0, 3048)]));
    let fidelity = compare(&recording(1, 4, acts, KernelVersion::new(7, 3)));
    assert_eq!(fidelity.odd, Inconsistencies::default());
    assert_exact(&fidelity, 5);
}

/// A free fills the lists. Before it drains them, an interrupt frees two blocks past them, which a probe
/// reports, or misses, or which later leave the free lists.
#[test]
fn a_free_drains_after_an_interrupt_freed_past_the_lists() {
    let free = |frame| act(0, 1, Action::Free, frame);
    let listed = |frame| act(0, 1, Action::Listed, frame);
    let past = |frame| act(0, 1, Action::PastLists { to_tail: false }, frame);
    let interrupts =
        [vec![free(3000), past(3000), free(3002), past(3002)], vec![free(3000), free(3002)]];
    for (interrupt, probes) in [(0, true), (1, true), (1, false)] {
        let mut acts = vec![bulk(), Act::aside(Action::Resized(Resized::Boot), 0)];
        for frame in 2048..2098 {
            acts.extend([free(frame)].into_iter().chain(probes.then(|| listed(frame))));
        }
        acts.extend(interrupts[interrupt].clone());
        acts.extend(drains(0, 46, 1));
        acts.extend((2094..2098).rev().map(|frame| alloc(0, frame)));
        if probes {
            acts.extend([free(2097), listed(2097), alloc(0, 2097)]);
        } else {
            let isolated = Action::Isolated { searched: false };
            acts.extend([3000, 3002].map(|frame| act(1, 2, isolated, frame)));
        }
        let recording = recording(1, 4, acts, KernelVersion::new(6, 18));
        let recording = Recording { lists_from: probes.then_some(0), ..recording };
        let fidelity = compare(&recording);
        assert_eq!(fidelity.odd, Inconsistencies::default(), "{interrupt} {probes}");
        assert_exact(&fidelity, if probes { 5 } else { 4 });
        assert_eq!(fidelity.hidden.direct_frees, 2);
        assert_eq!(lowered(&recording), 0);
    }
}

/// Drains that the replay takes for those of an update of statistics without a reading.
fn lowered(recording: &Recording) -> usize {
    let all = 0..recording.acts.len();
    let config = Config::of(recording.version);
    let followed = follow::follow(recording, &Opening::of(recording), config, all);
    let lowers = |(_, step): &(usize, &Step)| matches!(step, Step::Lower { .. });
    followed.script.steps().filter(lowers).count()
}

/// Lists shrink without a free as statistics are updated. From the first reading on, each update has one.
#[test]
fn no_update_of_statistics_drains_without_a_reading_once_there_are_readings() {
    let lowered_after = |read: bool| {
        let mut acts = vec![Act::aside(Action::Resized(Resized::Boot), 0)];
        acts.extend(read.then(|| Act::aside(Action::Decay(0), 0)));
        acts.extend(frees(&[0], 40).into_iter().chain(drains(0, 3, 9)));
        let recording = recording(1, 3, acts, KernelVersion::new(6, 18));
        lowered(&Recording { readings: vec![(0, READING)], ..recording })
    };
    assert_eq!([false, true].map(lowered_after), [1, 0]);
}

/// An update of statistics lowers the high mark from 54 to 50 before there are readings, and drains
/// nothing. A refill raises it to 58, with which a free drains. The first reading shows it.
#[test]
fn the_first_reading_shows_that_a_high_mark_was_lowered_before() {
    let mut acts = vec![Act::aside(Action::Resized(Resized::Boot), 0)];
    acts.extend(refill(0, 0..4).chain((0..4).map(|frame| alloc(0, frame))));
    acts.extend(refill(0, 4..12).chain([alloc(0, 4)]));
    acts.extend(frees(&[0], 51));
    acts.extend((5..12).rev().map(|frame| act(0, 1, Action::Drain(TYPE), frame)));
    acts.extend(drains(0, 44, 1));
    acts.extend((2092..2099).rev().map(|frame| alloc(0, frame)));
    acts.extend(refill(0, 5..8).chain(refill(0, 2088..2089)).chain([alloc(0, 5)]));
    acts.push(Act { thread: 9, ..Act::aside(Action::Decay(0), 0) });
    let recording = recording(1, 4, acts, KernelVersion::new(7, 3));
    let readings = vec![(0, ListReading { count: 3, high: 62, ..READING })];
    let fidelity = compare(&Recording { readings, ..recording });
    assert_eq!((&fidelity.odd, fidelity.readings), (&Inconsistencies::default(), [1, 1]));
    assert_exact(&fidelity, 13);
}
