//! `prairie lab` as it is run: a scenario, a benchmark, and what is refused.
#![allow(missing_docs)]

mod common;

use std::fs;
use std::path::Path;

use serde_json::Value;

use common::{files_in, run, stderr};

fn scenario() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/small.toml");
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_scenario_under_two_systems_and_the_same_again() {
    let here = tempfile::tempdir().unwrap();
    let ran = |seed: &str| -> Value {
        let arguments =
            ["lab", "run", &scenario(), "--systems", "buddy,linux", "--json", "--seed", seed];
        let output = run(here.path(), &[&arguments[..], &["--out", "samples.parquet"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let first = ran("1");
    assert_eq!(first["schema"], "prairie-lab-run");
    assert_eq!(first, ran("1"));
    assert_ne!(first["systems"], ran("2")["systems"]);
    let linux = &first["systems"][1];
    assert_eq!(linux["system"], "linux");
    assert!(linux["counters"]["pgfault"].as_u64().unwrap() > 1000);
    assert!(linux["moments"].as_array().unwrap().len() > 100);
    assert!(fs::read(here.path().join("samples.parquet")).unwrap().starts_with(b"PAR1"));
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let here = tempfile::tempdir().unwrap();
    let good = fs::read_to_string(scenario()).unwrap();
    let broken = [
        (good.replace("swap =", "swpa ="), "did you mean `swap`"),
        (good.replace("\"64M\"\ncpus", "\"1M\"\ncpus"), "machine.memory"),
        (good.replace("seed = 3", "seed = \"three\""), "line 3"),
        (good.replace("lifetime = { mean = \"200ms\" }", "lifetime = \"-1s\""), "no time"),
        (good.replace("files = \"tree\"", "files = \"forest\""), "`forest`"),
    ];
    for (text, expected) in broken {
        assert_ne!(text, good, "{expected}");
        fs::write(here.path().join("broken.toml"), text).unwrap();
        let output = run(here.path(), &["lab", "run", "broken.toml", "--out", "never.parquet"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected) && said.trim_end().lines().count() == 1, "{said}");
    }
    assert_eq!(files_in(here.path()).len(), 1, "nothing half-written");
    let large = ["lab", "run", &scenario(), "--systems", "zones+kernelcore=1G"];
    let said = stderr(&run(here.path(), &large));
    assert!(said.contains("kernelcore") && said.contains("67108864"), "{said}");
}

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
    assert!(simulate("parts", "0/2").contains("there already"));
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
    for (arguments, expected) in [
        (&["fleet", "run", "--out", "s", "--workloads", "wbe"][..], "ci, web, cache-a, cache-b"),
        (&["fleet", "run", "--out", "s", "--workloads", "broken.toml"], "did you mean `boot`"),
        (&["fleet", "run", "--out", "s", "--workloads", "gone.toml"], "cannot read gone.toml"),
        (&["fleet", "run", "--out", "s", "--days", "0"], "--days 0"),
        (&["fleet", "report", "empty"], "no .parquet file"),
        (&["fleet", "report", "nowhere"], "cannot read the folder nowhere"),
    ] {
        let output = run(here.path(), arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(expected) && said.trim_end().lines().count() == 1, "{said}");
    }
    for shard in ["4/4", "x", "1/0"] {
        let output = run(here.path(), &["fleet", "run", "--out", "s", "--shard", shard]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    }
}
