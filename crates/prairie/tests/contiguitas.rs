//! What the commands show of a kernel with a movable border between unmovable and movable memory.
#![allow(missing_docs)]

mod common;
mod schema;

use std::fs;
use std::path::Path;

use serde_json::Value;

use common::{run, stderr, stdout, write_proc, write_regions};

/// A host of 384 MiB: slab, unknown, and free frames below the border, anonymous memory above it.
fn host(folder: &Path) {
    let zone = |name: &str, start: u64, frames: u64| {
        format!(
            "Node 0, zone {name}\n  pages free 4096\n spanned {frames}\n present {frames}\n \
             managed {frames}\n start_pfn: {start}\n"
        )
    };
    let zones = zone("Normal", 0, 1 << 15) + &zone("Movable", 1 << 15, 1 << 16);
    let free =
        "Node 0, zone Normal 1 1 1 1 1 1 1 1 2 1 1\nNode 0, zone Movable 0 0 0 0 0 0 0 0 0 4 9\n";
    let files =
        [("buddyinfo", free), ("zoneinfo", zones.as_str()), ("meminfo", "MemTotal: 393216 kB\n")];
    let proc = write_proc(folder, &files);
    // Bits of Documentation/admin-guide/mm/pagemap.rst.
    let (lru, slab, buddy, anonymous) = (1u64 << 5, 1u64 << 7, 1u64 << 10, 1u64 << 12);
    let runs = [
        (1 << 14, slab),
        (1 << 13, 0),
        (1 << 13, buddy),
        (1 << 15, lru | anonymous),
        (1 << 15, buddy),
    ];
    let words = runs.iter().flat_map(|(frames, flags)| vec![*flags; *frames]);
    let bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).collect();
    fs::write(proc.join("kpageflags"), bytes).unwrap();
    write_regions(folder, 0);
}

fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

fn document(folder: &Path, arguments: &[&str]) -> Value {
    let document = serde_json::from_str(&succeed(folder, arguments)).unwrap();
    schema::check(&document);
    document
}

#[test]
fn a_survey_shows_both_regions() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    host(here);
    let screen = succeed(here, &["survey", "--proc", "proc"]);
    assert!(screen.lines().count() < 24, "{screen}");
    for line in [
        "Unmovable region  128 MiB, 16 MiB free, 50.0 % to 75.0 % unmovable",
        "Movable region    256 MiB, 64 MiB free, 0 % unmovable",
    ] {
        assert!(screen.lines().any(|shown| shown == line), "{line}:\n{screen}");
    }
    let section = succeed(here, &["survey", "--proc", "proc", "--section", "regions"]);
    for text in ["Border", "0x8000", "pageblocks_grown", "oom_rescues", "1.5 %", "128 MiB"] {
        assert!(section.contains(text), "{text}:\n{section}");
    }
    let survey = document(here, &["survey", "--proc", "proc", "--json"]);
    let node = &survey["contiguitas"]["nodes"][0];
    assert_eq!(node["border_pfn"], 32_768);
    assert_eq!(node["unmovable"]["frames"]["unmovable"], 1 << 14);
    assert_eq!(node["movable"]["pressure"]["total_us"], 750_000);
    assert_eq!(survey["contiguitas"]["unmovable_pressure"]["total_us"], 250_000);
    // A saved state has the regions, too.
    succeed(here, &["survey", "--proc", "proc", "--save", "host.parquet", "--map", "map.svg"]);
    let saved = document(here, &["survey", "--from", "host.parquet", "--json"]);
    assert_eq!(saved["contiguitas"], survey["contiguitas"]);
    let map = fs::read_to_string(here.join("map.svg")).unwrap();
    assert!(map.contains("Movable, above the border"), "{map}");
    // The same host with another kernel.
    fs::remove_dir_all(here.join("sys")).unwrap();
    let survey = document(here, &["survey", "--proc", "proc", "--json"]);
    assert!(survey["contiguitas"].is_null());
    let screen = succeed(here, &["survey", "--proc", "proc"]);
    assert!(!screen.contains("region"), "{screen}");
}

#[test]
fn top_shows_border_and_regions() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    host(here);
    let arguments = ["top", "--once", "--proc", "proc", "--interval", "100ms"];
    let text = succeed(here, &arguments);
    let meter = "Border  128 MiB; below 16 MiB of 128 MiB free, above 64 MiB of 256 MiB free";
    assert!(text.lines().any(|line| line == meter), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    let row = text.lines().find(|line| line.contains(" movable ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells[..4], ["0", "movable", "0x8000", "256"], "{row}");
    let shown = document(here, &[&arguments[..], &["--json"]].concat());
    assert_eq!(shown["regions"][0]["border_pfn"], 32_768);
    assert_eq!(shown["figures"]["movable_region_available_bytes"], 64 << 20);
    assert_eq!(shown["rates"]["border_waits"], 0.0);
}

#[test]
fn a_log_is_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    host(here);
    for moved in [0, 4, 4, 12] {
        write_regions(here, moved);
        succeed(here, &["log", "run", "log", "--once", "--proc", "proc", "--frames-budget", "0"]);
    }
    let shown = document(here, &["log", "show", "log", "--json"]);
    let column = |name: &str| {
        let rows = shown["rows"].as_array().unwrap();
        rows.iter().map(|row| row[name].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(column("border_grown_pageblocks"), [7, 11, 11, 19]);
    assert_eq!(column("unmovable_region_bytes"), [64, 68, 68, 76].map(|blocks| blocks << 21));
    let report = succeed(here, &["log", "show", "log"]);
    assert!(report.contains("Regions of node 0"), "{report}");
    let picture =
        ["regions", "explain", "log", "--picture", "regions.svg", "--html", "regions.html"];
    let report = succeed(here, &picture);
    for text in ["Address of the border", "Share of time stalled", "border moved up"] {
        assert!(report.contains(text), "{text}:\n{report}");
    }
    let picture = fs::read_to_string(here.join("regions.svg")).unwrap();
    for text in ["Border", "movable region", "border moved up (2)", "requests waited (0)"] {
        assert!(picture.contains(text), "{text}");
    }
    let day = common::files_in(&here.join("log"));
    let day = day.iter().find(|path| path.extension().is_some_and(|end| end == "parquet")).unwrap();
    succeed(here, &["regions", "explain", day.to_str().unwrap()]);
    // Without a border there is nothing to explain.
    fs::remove_dir_all(here.join("sys")).unwrap();
    succeed(here, &["log", "run", "stock", "--once", "--proc", "proc", "--frames-budget", "0"]);
    let report = succeed(here, &["log", "show", "stock"]);
    assert!(!report.contains("Regions"), "{report}");
    let output = run(here, &["regions", "explain", "stock"]);
    assert_eq!(output.status.code(), Some(1));
    let expected = "stock: a log without regions, expected one of a kernel with a movable border";
    assert!(stderr(&output).contains(expected), "{}", stderr(&output));
}
