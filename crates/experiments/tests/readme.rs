//! The README's headline numbers are those of stored results.
#![allow(missing_docs)]

use std::fs;

use experiments::root;
use experiments::stored::Stored;

/// A cell of a stored result, by the first cell of its row and the name of its column.
fn cell(result: &str, row: &str, column: &str) -> String {
    let stored =
        Stored::read(&root(), result).unwrap().unwrap_or_else(|| panic!("no result {result}"));
    let at = stored.columns.iter().position(|known| known.name == column).expect("a column");
    let row = stored.rows.iter().find(|cells| cells[0].to_string().trim_matches('"') == row);
    row.unwrap_or_else(|| panic!("no row in {result}"))[at].to_string().trim_matches('"').to_owned()
}

/// `64017` as the README has it: `64,017`.
fn grouped(number: &str) -> String {
    let digits: Vec<char> = number.chars().rev().collect();
    let groups: Vec<String> = digits.chunks(3).map(|three| three.iter().collect()).collect();
    groups.join(",").chars().rev().collect()
}

#[test]
fn headline_numbers_are_results() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let agent = |row: &str, column: &str| grouped(&cell("offload-agents", row, column));
    let frames = |column: &str| grouped(&cell("fidelity-frames", "files", column));
    for expected in [
        format!(
            "{} of {} reclaimed pages refaulted",
            agent("prairie-6.1", "refaulted"),
            agent("prairie-6.1", "pages reclaimed")
        ),
        format!(
            "{} of {}",
            agent("published-0.005-6.1", "refaulted"),
            agent("published-0.005-6.1", "pages reclaimed")
        ),
        format!("{} MiB", cell("offload-agents", "prairie-6.1", "580 s")),
        format!("{} times out of {}", frames("open-loop, right"), frames("allocations")),
    ] {
        assert!(readme.contains(&expected), "README.md does not say `{expected}`");
    }
}

/// The README states a bound: decoding and replay of each of the demo's three allocators, added up.
#[test]
fn the_replay_of_the_shipped_trace_takes_the_stated_time() {
    let number = |row: &str, column: &str| -> f64 {
        cell("speed-replay", row, column).parse().expect("a number")
    };
    let nanoseconds: f64 = ["buddy", "linux", "contiguitas"]
        .iter()
        .map(|row| number(row, "events") * (number(row, "decoding") + number(row, "replay")))
        .sum();
    assert!(nanoseconds < 1e9, "{nanoseconds} ns");
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let events = format!("{:.1} million events", number("linux", "events") / 1e6);
    for expected in [events.as_str(), "less than a second of CPU time"] {
        assert!(readme.contains(expected), "README.md does not say `{expected}`");
    }
}
