//! Any JSON document has rows, and each of them is found by its name.
#![cfg_attr(fuzzing, no_main)]

use prairie_compare::rows::{named, rows};
use prairie_fuzz::fuzz_target;

fuzz_target!(|text: &str| {
    let Ok(document) = serde_json::from_str(text) else { return };
    let rows = rows(&document);
    for name in rows.keys().take(16) {
        assert!(!named(rows.keys(), name).is_empty() || name.is_empty());
    }
});
