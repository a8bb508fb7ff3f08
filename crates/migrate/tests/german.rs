//! The checker, believed only because independent checkers count the same.

use prairie_migrate::checker::german::German;
use prairie_migrate::checker::search::{Limits, search};

fn states<const N: usize>(symmetry: bool) -> (u64, u64) {
    let outcome = search(&German::<N> { symmetry }, Limits::default(), &mut |_| true);
    assert!(outcome.holds());
    (outcome.states, outcome.transitions)
}

#[test]
fn german_has_the_known_numbers_of_states() {
    assert_eq!(states::<3>(false).0, 58_077);
    assert_eq!(states::<4>(false), (1_105_353, 5_921_856));
}

#[test]
fn german_has_the_known_numbers_of_states_with_symmetry() {
    assert_eq!(states::<4>(true).0, 56_161);
    assert_eq!(states::<5>(true).0, 262_203);
}

#[test]
fn two_keys_count_the_same() {
    let count = |key| {
        let limits = Limits { key, ..Limits::default() };
        search(&German::<3>::default(), limits, &mut |_| true).states
    };
    assert_eq!(count(1), count(2));
}
