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
    assert_eq!(found["decider"], "simulation");
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

/// The decisions of a kernel with a border, as tracefs prints them.
fn kernel_trace() -> String {
    let event = |ms: u64, event: &str| {
        let time = format!("{}.{:06}", 100 + ms / 1000, ms % 1000 * 1000);
        format!("       kcontigd0-45      [001] .....   {time}: contiguitas_{event}\n")
    };
    let decide = |ms, size: u64, free: u64, pressure, resize| {
        event(
            ms,
            &format!(
                "decide: node=0 size={size} available={free},300000 low=9216,6144 high=36864 \
                 pressure={pressure} resize={resize} beyond=0 border=0x20000"
            ),
        )
    };
    let moved = |ms, pages: u64, direction| {
        let rest = format!("pages={pages} direction={direction} error=0 ns=31000000");
        event(ms, &format!("move: node=0 start=0x20000 {rest}"))
    };
    [
        "# tracer: nop\n".to_owned(),
        decide(0, 126_976, 20_000, "0,0", "stay"),
        event(900, "wait: node=0 pages=1 moved=1 ns=900000"),
        decide(1000, 126_976, 4000, "12,0", "grow"),
        moved(1031, 2048, "up"),
        moved(1062, 2048, "up"),
        decide(2000, 131_072, 40_000, "8,0", "shrink"),
        moved(2010, 1024, "down"),
        decide(3000, 130_048, 30_000, "5,0", "stay"),
    ]
    .concat()
}

/// Runs successfully in a folder, and returns what it printed.
fn printed(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_trace_of_a_kernel_is_drawn() {
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("border.txt"), kernel_trace()).unwrap();
    let found = explained(here.path().join("border.txt").to_str().unwrap(), &[]);
    let column = |name: &str| {
        let wake_ups = found["wake_ups"].as_array().unwrap().iter();
        wake_ups.map(|wake_up| wake_up[name].clone()).collect::<Vec<_>>()
    };
    assert_eq!(found["decider"], "kernel");
    assert_eq!(column("time_ns"), [0, 1_000_000_000, 2_000_000_000, 3_000_000_000_u64]);
    assert_eq!(column("action"), ["stay", "grow", "shrink", "stay"]);
    assert_eq!(column("pageblocks"), [0, 8, 2, 0]);
    assert_eq!(column("waited"), [0, 1, 0, 0]);
    assert_eq!(column("pressure_unmovable"), [0.0, 0.012, 0.008, 0.005]);
    printed(here.path(), &["import", "border.txt", "--output", "border.parquet"]);
    let recording = explained(here.path().join("border.parquet").to_str().unwrap(), &[]);
    assert_eq!(recording["wake_ups"], found["wake_ups"], "a recording has the same notes");
    let text = printed(here.path(), &["lab", "explain", "border.txt", "--picture", "border.svg"]);
    // The column may be too narrow for the whole reason.
    assert!(text.contains("grown") && text.contains("unmovable memory"), "{text}");
    assert!(text.contains("decisions of the kernel"), "{text}");
    let svg = fs::read_to_string(here.path().join("border.svg")).unwrap();
    assert!(svg.contains("grown (1)") && svg.contains("requests waited (1)"), "{svg}");
}

#[test]
fn an_event_that_no_kernel_prints_is_named() {
    let here = tempfile::tempdir().unwrap();
    let bad = kernel_trace().replace("available=4000,", "available=");
    fs::write(here.path().join("bad.txt"), bad).unwrap();
    printed(here.path(), &["import", "bad.txt", "--output", "bad.parquet"]);
    // The first event of the recording is the name of the thread.
    for (input, place) in [("bad.txt", "line 4"), ("bad.parquet", "event 4")] {
        let output = run(here.path(), &["lab", "explain", input]);
        assert_eq!(output.status.code(), Some(1));
        let expected = format!("{input}: {place}: expected available= and two numbers");
        assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
    }
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
