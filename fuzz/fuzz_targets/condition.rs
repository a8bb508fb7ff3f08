//! Conditions of `prairie diff --fail-if`: what parses can be judged.
#![cfg_attr(fuzzing, no_main)]

use prairie_compare::rows::Rows;
use prairie_compare::{Comparison, Condition};
use prairie_fuzz::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(condition) = Condition::parse(text) {
        let rows = |value| Rows::from([("a".to_owned(), value), ("b[c].d_share".to_owned(), 0.5)]);
        let comparison = Comparison::new(&[rows(0.0)], &[rows(1.0)]);
        let _ = condition.judge(&comparison);
    }
});
