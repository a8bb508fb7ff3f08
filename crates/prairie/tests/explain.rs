//! `prairie lab explain` as it is run: over a scenario, over a recording, and what is refused.
#![allow(missing_docs)]

mod common;

use std::fs;
use std::path::Path;

use serde_json::Value;

use common::{files_in, run, stderr};

fn data(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data").join(name);
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

fn explained(input: &str, extra: &[&str]) -> Value {
    let here = tempfile::tempdir().unwrap();
    let output = run(here.path(), &[&["lab", "explain", input, "--json"], extra].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// From one wake-up to the next the region changes by what the decision says and by what was done
/// for requests that waited, and by nothing else.
#[test]
fn each_change_of_the_border_is_explained() {
    let found = explained(&data("small.toml"), &[]);
    assert_eq!(found["schema"], "prairie-lab-explain");
    let wake_ups = found["wake_ups"].as_array().unwrap();
    assert!(wake_ups.len() > 30, "{} wake-ups in six seconds", wake_ups.len());
    let number = |w: &Value, key: &str| w[key].as_u64().unwrap();
    for pair in wake_ups.windows(2) {
        let (before, after) = (number(&pair[0], "region_bytes"), number(&pair[1], "region_bytes"));
        assert!(number(&pair[0], "time_ns") < number(&pair[1], "time_ns"));
        let may_change = pair[0]["pageblocks"] != 0 || pair[1]["waited"] != 0;
        assert!(before == after || may_change, "{} {}", pair[0], pair[1]);
        if pair[1]["waited"] == 0 {
            let blocks = number(&pair[0], "pageblocks") << 21;
            let expected = match pair[0]["action"].as_str().unwrap() {
                "grow" => before + blocks,
                "shrink" | "yield" => before - blocks,
                _ => before,
            };
            // Strays that were there at boot are cleared away before the border moves.
            assert!(after <= expected.max(before) && after >= expected.min(before));
        }
    }
    assert_eq!(found, explained(&data("small.toml"), &[]), "the same again");
    assert_ne!(found["wake_ups"], explained(&data("small.toml"), &["--seed", "9"])["wake_ups"]);
}

#[test]
fn a_recording_is_drawn() {
    let here = tempfile::tempdir().unwrap();
    let arguments =
        ["lab", "explain", &data("mixed.parquet"), "--picture", "b.svg", "--html", "b.html"];
    let output = run(here.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("wake-ups") && text.contains("requests that waited"), "{text}");
    let svg = fs::read_to_string(here.path().join("b.svg")).unwrap();
    for word in ["Region", "Free memory", "Time stalled", "grown (", "reversal delayed ("] {
        assert!(svg.contains(word), "{word}");
    }
    assert!(fs::read_to_string(here.path().join("b.html")).unwrap().contains("Node 0 over time"));
}

#[test]
fn what_cannot_be_explained_is_refused_in_one_line() {
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("broken.toml"), "name = 3").unwrap();
    for (arguments, expected) in [
        (vec!["lab", "explain", "none.toml"], "none.toml"),
        (vec!["lab", "explain", "broken.toml", "--picture", "x.png"], "broken.toml"),
        (vec!["lab", "explain", &data("mixed.parquet"), "--seed", "1"], "--seed"),
    ] {
        let output = run(here.path(), &arguments);
        let said = stderr(&output);
        // A scenario's option for a recording is a usage error.
        let code = if arguments.contains(&"--seed") { 2 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(expected) && said.trim_end().lines().count() == 1, "{said}");
    }
    assert_eq!(files_in(here.path()).len(), 1, "nothing half-written");
}
