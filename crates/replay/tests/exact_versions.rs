//! The shipped recordings of kernels newer than 6.1, replayed under the rules of their releases.

mod shipped;

use prairie_frames::placement::linux::Config;
use prairie_replay::exact::act::Action;
use prairie_replay::exact::opening::Opening;
use prairie_replay::exact::simulate::{Mode, simulate};
use prairie_replay::exact::{Fidelity, compare, compare_with, follow};
use shipped::{USUAL, recording};

/// What leaves the free lists, and what they hold at each snapshot.
fn assert_buddy_level(fidelity: &Fidelity) {
    let zone_locked = &fidelity.zone_locked;
    assert!(zone_locked.is_perfect(), "{:#?}", zone_locked.misses);
    assert!(fidelity.fallbacks.is_perfect(), "{:#?}", fidelity.fallbacks.misses);
    assert!(zone_locked.total > 4_000 && fidelity.fallbacks.total > 5);
}

/// Every frame at every level, and every count at every snapshot.
fn assert_exact(name: &str, allocations: u64) {
    let fidelity = compare(&recording(name, &USUAL));
    assert_buddy_level(&fidelity);
    for score in [&fidelity.followed, &fidelity.corrected, &fidelity.free_running] {
        assert!(score.is_perfect(), "{name}: {:#?}", score.misses);
        assert_eq!(score.total, allocations, "{name}");
    }
    assert_eq!(fidelity.unknown_frees, 0);
    for at in &fidelity.snapshots {
        assert_eq!(at.followed, [], "{name} {}", at.name);
        assert_eq!(at.free_running.as_deref(), Some(&[][..]), "{name} {}", at.name);
    }
}

#[test]
fn every_frame_is_that_of_6_12() {
    assert_exact("boot-files-6.12", 74_034);
    assert_exact("boot-processes-2cpu-6.12", 42_703);
}

/// The kernel's own numbers of its lists are those of lists that nothing corrects but their limits.
#[test]
fn lists_of_6_12_adapt_as_the_kernels() {
    let [alike, all] = compare(&recording("boot-files-6.12", &USUAL)).readings;
    assert_eq!((alike, all), (240, 240));
}

#[test]
fn rules_of_6_1_are_not_those_of_6_12() {
    let recording = recording("boot-files-6.12", &USUAL);
    let old = compare_with(&recording, Config::default());
    assert!(old.free_running.share() < 0.9, "{}", old.free_running.share());
    let fixed = Config { adaptive_lists: false, ..Config::of(recording.version) };
    assert!(compare_with(&recording, fixed).free_running.share() < 0.9);
}

#[test]
fn every_frame_is_that_of_6_18() {
    assert_exact("boot-files-6.18", 73_347);
    assert_exact("boot-network-6.18", 11_225);
}

/// What is left of a pageblock pair that was claimed before the first event is on the list of the
/// claim's type. No event names it: the counts of the first snapshot do.
#[test]
fn a_free_pageblock_that_no_event_names_is_on_the_list_where_it_is_counted() {
    let recording = recording("boot-network-6.18", &USUAL);
    let config = Config { keep_boost: true, ..Config::of(recording.version) };
    let opening = Opening::of(&recording);
    let end = recording.until_reclaim();
    let followed = follow::follow(&recording, &opening, config, 0..end);
    assert!(!followed.zone_locked.is_perfect(), "it would be no test");
    let wrong = followed.snapshots[0].differences.len();
    assert!(wrong > 0);
    let mut moved = opening.clone();
    assert!(moved.move_unshown(&recording.layout, &followed.snapshots[0].differences));
    assert_eq!(moved.free.len(), opening.free.len());
    let changed = moved.free.iter().zip(&opening.free).filter(|(now, before)| now != before);
    assert_eq!(changed.count(), 1);
}

/// One wrong block at the beginning costs the corrected replay the frames of its refill, not all
/// that follow.
#[test]
fn corrected_replay_recovers_from_a_block_on_the_wrong_list() {
    let recording = recording("boot-network-6.18", &USUAL);
    let config = Config { keep_boost: true, ..Config::of(recording.version) };
    let opening = Opening::of(&recording);
    let end = recording.until_reclaim();
    let script = follow::follow(&recording, &opening, config, 0..end).script;
    let corrected = simulate(&recording, &opening, config, &script, Mode::Corrected).allocations;
    assert!(!corrected.is_perfect(), "it would be no test");
    assert!(corrected.share() > 0.97, "{} of {}", corrected.right, corrected.total);
}

#[test]
fn every_frame_is_that_of_7_3() {
    assert_exact("boot-files-7.3", 73_604);
}

/// Lists that requests for the atomic reserve find empty, and runs of frames that `vfree` returns as
/// larger blocks. A thread is preempted before a block that it frees comes to its list.
#[test]
fn every_frame_is_that_of_7_3_while_it_transfers() {
    assert_exact("boot-network-7.3", 11_623);
}

/// Probes report when each freed block reaches its list; nothing about it is inferred.
#[test]
fn every_frame_is_that_of_7_3_while_it_transfers_where_probes_report_arrivals() {
    assert_exact("listed-network-7.3", 11_710);
}

#[test]
fn reports_of_arrivals_are_needed() {
    let mut recording = recording("listed-network-7.3", &USUAL);
    let from = recording.lists_from.expect("the recording has the probes");
    let arrives = |action| matches!(action, Action::Listed | Action::PastLists { .. });
    let reported = recording.acts.iter().filter(|act| arrives(act.action)).count();
    assert!(reported > 9_000 && from < recording.acts.len() / 10, "{reported} from {from} on");
    assert_eq!(recording.reclaim, None);
    recording.acts.retain(|act| !arrives(act.action));
    recording.lists_from = None;
    let fidelity = compare(&recording);
    assert!(!fidelity.followed.is_perfect() && !fidelity.corrected.is_perfect());
}
