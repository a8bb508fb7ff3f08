//! The shipped recordings of kernels newer than 6.1, replayed under the rules of their releases.

mod shipped;

use prairie_frames::placement::linux::Config;
use prairie_replay::exact::{Fidelity, compare, compare_with};
use shipped::{USUAL, recording};

/// What leaves the free lists, and what they hold at each snapshot.
fn assert_buddy_level(fidelity: &Fidelity) {
    let zone_locked = &fidelity.zone_locked;
    assert!(zone_locked.is_perfect(), "{:#?}", zone_locked.misses);
    assert!(fidelity.fallbacks.is_perfect(), "{:#?}", fidelity.fallbacks.misses);
    assert!(zone_locked.total > 20_000 && fidelity.fallbacks.total > 5);
}

#[test]
fn every_frame_is_that_of_6_12() {
    for (name, allocations) in [("boot-files-6.12", 74_034), ("boot-processes-2cpu-6.12", 42_703)] {
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
fn allocations_are_those_of_6_18() {
    let fidelity = compare(&recording("boot-files-6.18", &USUAL));
    assert_buddy_level(&fidelity);
    assert!(fidelity.followed.share() >= 0.9999, "{:#?}", fidelity.followed.misses);
    assert!(fidelity.corrected.share() >= 0.999, "{:#?}", fidelity.corrected.misses);
    assert!(fidelity.snapshots.iter().all(|at| at.followed.is_empty()));
}

/// Corrected replay has causes left to find: see the page on fidelity.
#[test]
fn allocations_are_those_of_7_3_where_the_record_is_followed() {
    let fidelity = compare(&recording("boot-files-7.3", &USUAL));
    assert_buddy_level(&fidelity);
    assert!(fidelity.followed.share() >= 0.9999, "{:#?}", fidelity.followed.misses);
    assert!(fidelity.corrected.share() >= 0.99, "{:#?}", fidelity.corrected.misses);
}
