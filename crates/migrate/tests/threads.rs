//! Several threads find what one finds.

use std::num::NonZeroUsize;

use prairie_migrate::check::{Finding, Layer, Result, Shape, german, safety};
use prairie_migrate::checker::search::Limits;
use prairie_migrate::protocol::design::Design;
use prairie_migrate::protocol::variant::Variant;

fn threads(n: usize) -> Limits {
    Limits { threads: NonZeroUsize::new(n).unwrap(), ..Limits::default() }
}

fn counts(found: &Finding) -> (u64, u64, u32, u64) {
    assert_eq!(found.result, Result::Holds);
    (found.states, found.transitions, found.depth, found.widest)
}

#[test]
fn german_has_the_known_numbers_of_states_by_any_number_of_threads() {
    for n in [2, 3, 8] {
        let found = german(4, false, threads(n), &mut |_| true).unwrap();
        let (states, transitions, ..) = counts(&found);
        assert_eq!((states, transitions), (1_105_353, 5_921_856), "{n} threads");
    }
    let of = |n| counts(&german(5, true, threads(n), &mut |_| true).unwrap());
    assert_eq!(of(1), of(2));
}

fn found(layer: Layer, size: (u8, u8, u8), design: Design, n: usize) -> Finding {
    let (cores, devices, lines) = size;
    safety(layer, Shape { cores, devices, lines }, design, threads(n), &mut |_| true).unwrap()
}

#[test]
fn both_layers_have_the_same_states_steps_and_levels() {
    let base = Design::default();
    for (layer, size, design) in [
        (Layer::Transaction, (2, 1, 1), base),
        (Layer::Transaction, (2, 1, 1), Design { again: true, partial: true, ..base }),
        (Layer::Transaction, (2, 1, 2), Design { coarse: true, ..base }),
        (Layer::Message, (1, 1, 1), base),
        (Layer::Message, (2, 0, 1), base),
    ] {
        let one = counts(&found(layer, size, design, 1));
        for n in [2, 3] {
            assert_eq!(one, counts(&found(layer, size, design, n)), "{n} threads of {design:?}");
        }
    }
}

/// Every injected bug, by one thread and by two: of the same depth, and each step of it possible, for
/// it is replayed on the model.
#[test]
fn a_counterexample_is_as_short() {
    for &variant in Variant::ALL.iter().filter(|v| !v.is_about_liveness()) {
        let (layer, size) = match variant.is_of_messages() {
            true => (Layer::Message, variant.shape_of_messages()),
            false => (Layer::Transaction, variant.shape()),
        };
        let steps = |n| match found(layer, size, variant.design(), n).result {
            Result::Broken(found) => found.steps.len(),
            other => panic!("{variant} is not found by {n}: {other:?}"),
        };
        assert_eq!(steps(1), steps(2), "{variant}");
    }
}

/// Asked to stop by who watches, all threads stop.
#[test]
fn all_threads_stop_when_asked() {
    let mut looks = 0;
    let found = german(4, false, threads(2), &mut |_| {
        looks += 1;
        looks < 5
    });
    let found = found.unwrap();
    assert_eq!((found.result, looks), (Result::Stopped, 5));
    assert!(found.states < 1_105_353);
}
