//! The shipped recordings of real kernels, replayed to the very frame; and whether the replay
//! would notice if it were wrong.

mod shipped;

use prairie_frames::placement::linux::Config;
use prairie_frames::{Frame, Order};
use prairie_replay::exact::act::Action;
use prairie_replay::exact::follow::Inconsistencies;
use prairie_replay::exact::recording::Recording;
use prairie_replay::exact::threads::By;
use prairie_replay::exact::{Fidelity, compare, compare_with};
use shipped::{USUAL, recording};

/// Fifteen thousand files on a disk's file system, on one CPU of a machine of 512 MiB.
const FILES: &str = "boot-files";
/// A few hundred short processes on two CPUs.
const PROCESSES: &str = "boot-processes-2cpu";

/// Huge pages asked for in memory full of page cache, on two CPUs of a machine of 384 MiB:
/// reclaim, direct compaction, kcompactd.
const HUGE: &str = "boot-huge-2cpu";

fn assert_exact(fidelity: &Fidelity) {
    for (name, score) in [
        ("buddy level", &fidelity.zone_locked),
        ("fallbacks", &fidelity.fallbacks),
        ("followed", &fidelity.followed),
        ("corrected", &fidelity.corrected),
        ("open-loop", &fidelity.free_running),
    ] {
        assert!(
            score.is_perfect(),
            "{name}: {} of {}: {:#?}",
            score.right,
            score.total,
            score.misses
        );
    }
    assert_eq!(fidelity.odd, Inconsistencies::default());
    assert_eq!(fidelity.unknown_frees, 0);
    assert_eq!(fidelity.snapshots.len(), 3);
    for at in &fidelity.snapshots {
        assert_eq!(at.followed, [], "{} where the record is followed", at.name);
        assert_eq!(at.free_running.as_deref(), Some(&[][..]), "{} open-loop", at.name);
        assert_eq!(
            (&at.kernel.free_blocks, at.kernel.unusable),
            (&at.replay.free_blocks, at.replay.unusable)
        );
    }
}

#[test]
fn every_frame_is_the_kernels_on_one_cpu() {
    let fidelity = compare(&recording(FILES, &USUAL));
    assert_exact(&fidelity);
    assert_eq!(fidelity.zone_locked.total, 44_748);
    assert_eq!(fidelity.free_running.total, 72_401);
    assert_eq!(fidelity.fallbacks.total, 11);
}

#[test]
fn every_frame_is_the_kernels_on_two_cpus() {
    let fidelity = compare(&recording(PROCESSES, &USUAL));
    assert_exact(&fidelity);
    assert_eq!(fidelity.zone_locked.total, 22_213);
    assert_eq!(fidelity.free_running.total, 41_499);
    assert_eq!(fidelity.fallbacks.total, 17);
}

fn huge() -> Recording {
    recording(HUGE, &["early", "huge1", "compacted1", "huge2", "compacted2", "end"])
}

/// FromFirstReclaim reclaim and compaction the replay follows the record, and memory stays the kernel's.
#[test]
fn memory_is_the_kernels_through_reclaim_and_compaction() {
    let fidelity = compare(&huge());
    assert!(fidelity.zone_locked.is_perfect() && fidelity.free_running.is_perfect());
    let through = fidelity.through_reclaim.unwrap();
    assert!(through.zone_locked.total > 10_000, "{}", through.zone_locked.total);
    assert!(through.zone_locked.share() > 0.999, "{:#?}", through.zone_locked.misses);
    assert!(through.followed.share() > 0.999, "{:#?}", through.followed.misses);
    assert!(through.fallbacks.is_perfect(), "{:#?}", through.fallbacks.misses);
    assert!(through.isolated.total > 100, "{}", through.isolated.total);
    assert!(through.isolated.is_perfect(), "{:#?}", through.isolated.misses);
    assert_eq!(fidelity.snapshots.iter().filter(|at| at.after_reclaim).count(), 5);
    for at in &fidelity.snapshots {
        let (kernel, replay) = (&at.kernel, &at.replay);
        assert_eq!(at.followed, [], "{}", at.name);
        assert_eq!((kernel.pageblocks, kernel.fallbacks), (replay.pageblocks, replay.fallbacks));
        assert!((kernel.unusable - replay.unusable).abs() < 1e-9, "{}", at.name);
        let potential = kernel.potential.unwrap() - replay.potential.unwrap();
        assert!(potential.abs() < 0.02, "{}: {potential}", at.name);
    }
    let potential = |at: usize| fidelity.snapshots[at].kernel.potential.unwrap();
    assert!((potential(0) - potential(5)).abs() > 0.02, "it would be no test if nothing changed");
}

/// The machine's own reclaim and compaction, given the demand alone, leave memory much as the
/// kernel left it. F_u(9) is not part of this: where 10 MiB are free, one block decides it.
#[test]
fn memory_is_like_the_kernels_when_the_machine_reclaims_and_compacts_itself() {
    let fidelity = compare(&huge());
    let through = fidelity.through_reclaim.unwrap();
    let driven = &through.driven;
    let sum = |[kswapd, direct]: [u64; 2]| (kswapd + direct) as f64;
    let reclaimed = sum(driven.reclaimed) / sum(driven.recorded_reclaimed);
    assert!(sum(driven.recorded_reclaimed) > 5_000.0 && driven.recorded_moved > 1_000);
    assert!((0.9..1.1).contains(&reclaimed), "{:?}", driven);
    assert!(driven.moved > 500, "{}", driven.moved);
    assert_eq!(driven.unmet, 0);
    assert_eq!(driven.snapshots.len(), 6);
    for (at, machine) in fidelity.snapshots.iter().zip(&driven.snapshots) {
        let potential = at.kernel.potential.unwrap() - machine.potential.unwrap();
        assert!(potential.abs() < 0.05, "{}: {potential}", at.name);
        for (kernel, machine) in at.kernel.pageblocks.iter().zip(machine.pageblocks) {
            assert!(kernel.abs_diff(machine) <= 1 + kernel / 10, "{}", at.name);
        }
    }
    assert_eq!(compare(&huge()).through_reclaim.unwrap().driven.snapshots, driven.snapshots);
}

/// Without reclaim and compaction the same demand has another result.
#[test]
fn without_who_frees_for_whom_the_machine_goes_astray() {
    let mut recording = huge();
    for act in &mut recording.acts {
        act.by = By::Program;
    }
    let driven = compare(&recording).through_reclaim.unwrap().driven;
    assert_eq!(driven.recorded_reclaimed, [0, 0]);
    let [kswapd, direct] = driven.reclaimed;
    assert!(kswapd + direct < 5_000, "what reclaim freed was given back: {driven:?}");
}

/// What compaction takes is seen by the probes alone: without them the replay goes astray.
#[test]
fn probe_readings_are_needed() {
    let mut recording = huge();
    recording.acts.retain(|act| !matches!(act.action, Action::Isolated { .. }));
    let through = compare(&recording).through_reclaim.unwrap();
    assert!(through.odd.freed_free > 100, "{:?}", through.odd);
    assert!(!through.zone_locked.is_perfect());
}

/// Each of these rules decides some frames of the recording: without it the replay goes wrong.
#[test]
fn a_rule_that_is_taken_away_is_missed() {
    let recording = recording(FILES, &USUAL);
    let without = |config| compare_with(&recording, config);
    let no_tail = without(Config { merge_likely_to_tail: false, ..Config::default() });
    assert!(!no_tail.zone_locked.is_perfect());
    assert!(no_tail.free_running.share() < 0.9, "{}", no_tail.free_running.share());
    let no_lists = without(Config { per_cpu_lists: false, ..Config::default() });
    assert!(no_lists.free_running.share() < 0.9, "{}", no_lists.free_running.share());
    let no_types = without(Config { grouping: false, ..Config::default() });
    assert!(no_types.snapshots.iter().any(|at| !at.followed.is_empty()));
}

/// A record that differs from the kernel's actions is detected.
#[test]
fn a_falsified_record_is_noticed() {
    let mut recording = recording(PROCESSES, &USUAL);
    let locked = |action: &Action| matches!(action, Action::Locked(_));
    let single: Vec<usize> = (0..recording.acts.len())
        .filter(|&act| {
            locked(&recording.acts[act].action) && recording.acts[act].order == Order::BASE
        })
        .collect();
    let (a, b) = (single[single.len() / 2], single[single.len() / 2 + 100]);
    let (first, second) = (recording.acts[a].frame, recording.acts[b].frame);
    recording.acts[a].frame = second;
    recording.acts[b].frame = first;
    let fidelity = compare(&recording);
    assert!(!fidelity.zone_locked.is_perfect());
    let miss = &fidelity.zone_locked.misses[0];
    assert_eq!(miss.act, a);
    assert_eq!(miss.guessed, Some(recording.layout.pfn(first).0));
    assert_eq!(miss.recorded, recording.layout.pfn(second).0);
}

/// A lost event is detected too, without a panic.
#[test]
fn lost_events_are_noticed() {
    let mut recording = recording(PROCESSES, &USUAL);
    let middle = recording.acts.len() / 2;
    let lost = middle..middle + 40;
    recording.acts.drain(lost);
    let fidelity = compare(&recording);
    let odd = fidelity.odd != Inconsistencies::default() || fidelity.unknown_frees > 0;
    assert!(odd || !fidelity.free_running.is_perfect());
    assert!(fidelity.zone_locked.share() > 0.9, "one gap does not affect all the rest");
}

/// Frames of actions are frames of the machine, even in damaged traces.
#[test]
fn acts_lie_in_zones() {
    let recording = recording(FILES, &USUAL);
    assert_eq!(recording.outside, 0);
    for act in recording.acts.iter().filter(|act| act.frame != Frame::NONE) {
        assert!(recording.layout.zone_of(act.frame).is_some());
    }
}
