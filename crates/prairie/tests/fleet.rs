//! `prairie fleet`: simulated fleets in shards, and reports on saved surveys.

mod common;
mod schema;

use std::fs;
use std::path::Path;

use common::{prairie, run, stderr, stdout};
use serde_json::Value;

#[test]
fn a_fleet_in_shards_is_the_fleet_whole() {
    let here = tempfile::tempdir().unwrap();
    let study = ["--servers", "3", "--memory", "256M", "--days", "0.02", "--systems", "linux"];
    let simulate = |out: &str, shard: &str| {
        let arguments = ["fleet", "run", "--out", out, "--shard", shard];
        let output = run(here.path(), &[&arguments[..], &study].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stderr(&output)
    };
    simulate("whole", "0/1");
    simulate("parts", "1/2");
    simulate("parts", "0/2");
    assert!(simulate("parts", "0/2").contains("exists already"));
    let report = |folder: &str| -> Value {
        let output = run(here.path(), &["fleet", "report", folder, "--json", "--html", "f.html"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let rows = |report: &Value| -> Vec<Value> {
        let mut rows = report["rows"].as_array().unwrap().clone();
        rows.sort_by_key(|row| row["server"].as_u64());
        rows
    };
    let (whole, parts) = (report("whole"), report("parts"));
    assert_eq!(rows(&whole).len(), 3);
    assert_eq!(rows(&whole), rows(&parts));
    assert_eq!(whole["systems"][0]["servers"], 3);
}

#[test]
fn a_fleet_that_cannot_be_is_refused_in_one_line() {
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("broken.toml"), "name = \"x\"\nbot = 0.1\n").unwrap();
    fs::create_dir(here.path().join("empty")).unwrap();
    for (arguments, expected, code) in [
        (&["fleet", "run", "--out", "s", "--workloads", "wbe"][..], "ci, web, cache-a, cache-b", 2),
        (&["fleet", "run", "--out", "s", "--workloads", "broken.toml"], "did you mean `boot`", 1),
        (&["fleet", "run", "--out", "s", "--workloads", "gone.toml"], "cannot read gone.toml", 1),
        (&["fleet", "run", "--out", "s", "--days", "0"], "--days 0", 2),
        (&["fleet", "report", "empty"], "no file to read", 1),
        (&["fleet", "report", "nowhere"], "cannot read nowhere", 1),
    ] {
        let output = run(here.path(), arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(expected) && said.trim_end().lines().count() == 1, "{said}");
    }
    for shard in ["4/4", "x", "1/0"] {
        let output = run(here.path(), &["fleet", "run", "--out", "s", "--shard", shard]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
}

const SMALL: [&str; 8] =
    ["--servers", "2", "--memory", "256M", "--days", "0.02", "--systems", "linux"];

fn simulate(here: &Path, more: &[&str]) -> std::process::Output {
    run(here, &[&["fleet", "run", "--out", "study"], &SMALL[..], more].concat())
}

/// A folder with one study keeps it: another seed, size, or split is refused by name, and nothing is
/// written.
#[test]
fn a_folder_holds_one_study() {
    let here = tempfile::tempdir().unwrap();
    let first = simulate(here.path(), &[]);
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    let part = here.path().join("study/part-00000-of-00001.parquet");
    let before = fs::read(&part).unwrap();
    for (more, expected) in [
        (&["--seed", "2"][..], "different seed (1 and 2)"),
        (&["--days", "0.03"], "days"),
        (&["--pins", "1"], "pinned_shares"),
        (&["--shard", "0/2"], "into 1 and into 2 parts"),
    ] {
        let more: Vec<&str> = more.to_vec();
        // A later option of the same name would be a conflict for clap.
        let base = ["fleet", "run", "--out", "study", "--servers", "2", "--memory", "256M"];
        let days: &[&str] = if more[0] == "--days" { &[] } else { &["--days", "0.02"] };
        let output = run(here.path(), &[&base[..], &["--systems", "linux"], days, &more].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected) && said.trim_end().lines().count() == 1, "{said}");
    }
    assert_eq!(fs::read(&part).unwrap(), before);
    assert_eq!(fs::read_dir(here.path().join("study")).unwrap().count(), 1);
    assert!(stderr(&simulate(here.path(), &[])).contains("nothing to do"));
}

/// Several seeds: a study for each, and the spread of what their reports find.
#[test]
fn several_seeds_show_the_spread() {
    let here = tempfile::tempdir().unwrap();
    let output = simulate(here.path(), &["--seeds", "3", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["seeds"], serde_json::json!([1, 2, 3]));
    let potential = "systems[linux].potential.2_mib";
    let rows = document["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == potential).expect(potential);
    // As the reports say, study by study.
    let of_seed = |seed: u32| {
        let folder = format!("study/seed-{seed}");
        let output = run(here.path(), &["fleet", "report", &folder, "--json"]);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        report["systems"][0]["potential"][0]["min"].as_f64().unwrap()
    };
    let values = [1, 2, 3].map(of_seed);
    assert!(values[0] != values[1], "{values:?}");
    let mean = values.iter().sum::<f64>() / 3.0;
    assert!((row["mean"].as_f64().unwrap() - mean).abs() < 1e-12, "{row} {values:?}");

    // What was written is not simulated again, and gives the same.
    let again = simulate(here.path(), &["--seeds", "3"]);
    assert!(stdout(&again).contains("potential.2_mib"), "{}", stdout(&again));
    for (more, expected) in [
        (&["--seeds", "2", "--shard", "0/2"][..], "whole ones"),
        (&["--seeds", "2", "--identity"], "expected no --seeds"),
        (&["--json"], "expected --seeds 2 or more"),
    ] {
        let output = simulate(here.path(), more);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
}

/// Parts that came together by copying are not added up either.
/// Of a host on which nearly half of memory is not initialized, both take shares of the rest.
#[test]
fn a_report_on_a_saved_survey_has_the_shares_of_its_row() {
    let here = tempfile::tempdir().unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/mixed.parquet");
    let (data, name) = (data.to_str().unwrap(), "host.parquet");
    let saved = run(here.path(), &["survey", "--from", data, "--save", name, "--summary", "-"]);
    let row: Value = serde_json::from_slice(&saved.stdout).unwrap();
    let output = run(here.path(), &["fleet", "report", name, "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let summary = &report["systems"][0];
    assert!(row["initialized"].as_f64().unwrap() < 0.6, "{row}");
    for (name, [min, max]) in [
        ("polluted", ["polluted_min", "polluted_max"]),
        ("unmovable", ["unmovable_min", "unmovable_max"]),
    ] {
        let of_row = [&row[min], &row[max]].map(|share| share.as_f64().unwrap());
        let of_report = ["min", "max"].map(|end| summary[name][end].as_f64().unwrap());
        let apart = |at: usize| (of_row[at] - of_report[at]).abs();
        assert!(apart(0) < 0.001 && apart(1) < 0.001, "{name}: {of_row:?} {of_report:?}");
    }
}

#[test]
fn a_report_refuses_parts_of_different_studies() {
    let here = tempfile::tempdir().unwrap();
    for (out, more) in [
        ("one", ["--seed", "1", "--shard", "0/1"]),
        ("two", ["--seed", "2", "--shard", "0/1"]),
        ("half", ["--seed", "1", "--shard", "1/2"]),
    ] {
        let arguments = [&["fleet", "run", "--out", out], &SMALL[..], &more].concat();
        assert_eq!(run(here.path(), &arguments).status.code(), Some(0));
    }
    let one = here.path().join("one/part-00000-of-00001.parquet");
    for (from, expected) in [
        ("two/part-00000-of-00001.parquet", "seed (1 and 2)"),
        ("half/part-00001-of-00002.parquet", "into 1 and into 2 parts"),
        ("one/part-00000-of-00001.parquet", "shard 0/1 twice"),
    ] {
        let mixed = tempfile::tempdir().unwrap();
        fs::copy(&one, mixed.path().join("a.parquet")).unwrap();
        fs::copy(here.path().join(from), mixed.path().join("b.parquet")).unwrap();
        let output = run(mixed.path(), &["fleet", "report", "."]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("different studies") && said.contains(expected), "{said}");
    }
    // Half a study is reported as half a study.
    let output = run(here.path(), &["fleet", "report", "half", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["missing_shards"], serde_json::json!([0]));
    let text = run(here.path(), &["fleet", "report", "half"]);
    assert!(stdout(&text).contains("missing"), "{}", stdout(&text));
}

/// Runners of shards first read what identifies the study.
#[test]
fn the_identity_is_printed_without_simulating() {
    let here = tempfile::tempdir().unwrap();
    let identity = |more: &[&str]| -> Value {
        let output = simulate(here.path(), &[&["--identity"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let one = identity(&[]);
    assert_eq!(one["study"]["seed"], 1);
    assert_eq!(one["hash"], identity(&["--shard", "1/2", "--threads", "1"])["hash"]);
    assert_ne!(one["hash"], identity(&["--seed", "2"])["hash"]);
    assert!(!here.path().join("study").exists());
}

/// A program in place of DuckDB: it knows one store, and prints its rows.
const DUCKDB: &str = "#!/bin/sh
case \"$*\" in
    *\"read_text('s3://bucket/it''s/*.jsonl')\"*) cat host.jsonl; echo ;;
    *) echo 'HTTP Error: no such bucket' >&2; exit 1 ;;
esac
";

#[test]
fn rows_of_an_object_store_come_through_duckdb() {
    let here = tempfile::tempdir().unwrap();
    let host = ["survey", "--summary", "host.jsonl", "--label", "rack=r7"];
    assert!(run(here.path(), &host).status.success());
    fs::write(here.path().join("duckdb"), DUCKDB).unwrap();
    let report = |path: &str, address: &str| {
        let mut command = prairie(here.path(), &["fleet", "report", address, "--by", "rack"]);
        command.env("PATH", path).output().unwrap()
    };
    let path = format!("{}:/usr/bin:/bin", here.path().display());
    let refused = |path: &str, address: &str, expected: &str| {
        let output = report(path, address);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected) && said.trim_end().lines().count() == 1, "{said}");
    };
    refused("/nowhere", "s3://bucket/a.jsonl", "duckdb is not installed");
    refused("/nowhere", "s3://bucket/rows", "ends in .jsonl or .parquet");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(here.path().join("duckdb"), mode).unwrap();
    let output = report(&path, "s3://bucket/it's/*.jsonl");
    let text = stdout(&output);
    assert!(text.contains("1 row of 1 host") && text.contains("r7"), "{text}{}", stderr(&output));
    refused(
        &path,
        "gs://gone/*.parquet",
        "gs://gone/*.parquet: duckdb: HTTP Error: no such bucket",
    );
}

/// A misspelled label would put all hosts into one group.
#[test]
fn a_label_that_no_row_has_is_refused() {
    let here = tempfile::tempdir().unwrap();
    fs::create_dir(here.path().join("rows")).unwrap();
    for (file, label) in [("rows/1.jsonl", "site=s1"), ("rows/2.jsonl", "rack=r1")] {
        let row = ["survey", "--summary", file, "--label", label];
        assert!(run(here.path(), &row).status.success());
    }
    let report = |by: &str| run(here.path(), &["fleet", "report", "rows", "--by", by]);
    let said = stderr(&report("kernel,rakc"));
    let expected = "prairie: rows: no row has the label rakc, expected --by with any of: \
                    kernel, rack, site\n";
    assert_eq!(said, expected);
    // A label of some rows is one. The latest row of a host counts.
    assert!(stdout(&report("rack")).contains("r1"));
}

/// A bad line, such as one half written, costs its row and no other.
#[test]
fn a_report_skips_bad_lines_only() {
    let here = tempfile::tempdir().unwrap();
    common::write_proc(
        here.path(),
        &[("buddyinfo", "Node 0, zone Normal 1 1 1 1 1 1 1 1 2 1 1\n")],
    );
    let row = run(here.path(), &["survey", "--proc", "proc", "--host", "h1", "--summary", "-"]);
    let good = stdout(&row);
    assert_eq!(good.lines().count(), 1, "{}", stderr(&row));
    let other = good.replace("\"h1\"", "\"h2\"");
    let half = &good[..good.len() / 2];
    fs::write(here.path().join("rows.jsonl"), format!("{good}{half}\n\n{other}nonsense\n"))
        .unwrap();
    let report = run(here.path(), &["fleet", "report", "rows.jsonl", "--json"]);
    let document: Value = serde_json::from_slice(&report.stdout).unwrap();
    schema::check(&document);
    assert_eq!(document["rows"], 2, "{document}");
    let skipped = &document["skipped"];
    assert_eq!((&skipped[0]["file"], &skipped[0]["lines"]), (&"rows.jsonl".into(), &2.into()));
    let said = stderr(&report);
    let expected = "prairie: rows.jsonl: skipped 2 of 4 lines, the first is line 2: ";
    assert!(said.starts_with(expected) && said.lines().count() == 1, "{said}");
    let text = stdout(&run(here.path(), &["fleet", "report", "rows.jsonl"]));
    assert!(text.contains("no row, skipped: 2 (rows.jsonl)"), "{text}");

    fs::write(here.path().join("bad.json"), "{\n  \"a\": 1\n}\n").unwrap();
    let mut wrong: Value = serde_json::from_str(&good).unwrap();
    wrong["unusable_2_mib"] = 7.5.into();
    fs::write(here.path().join("wrong.json"), format!("{wrong}\n")).unwrap();
    let share =
        "prairie: wrong.json: line 1: unusable_2_mib is 7.5, expected a share from 0 to 1\n";
    for (arguments, expected) in [
        (&["fleet", "report", "wrong.json", "--strict"][..], share),
        (&["fleet", "report", "rows.jsonl", "--strict"][..], "prairie: rows.jsonl: line 2: "),
        (&["fleet", "report", "bad.json"], "prairie: bad.json: line 1: "),
        (&["fleet", "report", "bad.json", "--strict"], "prairie: bad.json: line 1: "),
    ] {
        let output = run(here.path(), arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with(expected) && said.lines().count() == 1, "{said}");
        assert_eq!(said.matches(arguments[2]).count(), 1, "{said}");
    }
}
