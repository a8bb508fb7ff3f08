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
