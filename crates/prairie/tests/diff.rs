//! `prairie diff`, and results over several seeds.
#![allow(missing_docs)]

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use common::{run, stderr, stdout};

fn survey(polluted: f64, coverage: f64) -> Value {
    json!({
        "schema": "prairie-survey",
        "frames": {"polluted": {"polluted_share": polluted}},
        "huge_pages": {"host": {"anonymous_coverage": coverage}},
        "counters": [{"name": "compact_stall", "value": 7}],
    })
}

fn write(folder: &Path, name: &str, document: &Value) {
    fs::write(folder.join(name), document.to_string()).unwrap();
}

#[test]
fn conditions_decide_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write(here, "a.json", &survey(0.20, 0.9));
    write(here, "b.json", &survey(0.25, 0.9));
    let diff = |condition: &str| run(here, &["diff", "a.json", "b.json", "--fail-if", condition]);
    let found = diff("polluted > 5 %");
    assert_eq!(found.status.code(), Some(3), "{}", stderr(&found));
    assert!(stderr(&found).contains("polluted_share changed by 25 %"), "{}", stderr(&found));
    assert!(stdout(&found).contains("+25.0 %"), "{}", stdout(&found));
    assert_eq!(diff("polluted > 30 %").status.code(), Some(0));
    let unknown = diff("unheard > 30 %");
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).contains("no row is named \"unheard\""), "{}", stderr(&unknown));
    let wrong = diff("polluted >");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("expected a number after 10 characters"), "{}", stderr(&wrong));
}

#[test]
fn repeated_documents_have_intervals() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for (side, shift) in [("before", 0.0), ("after", 0.1)] {
        fs::create_dir(here.join(side)).unwrap();
        for run in 0..4 {
            let noise = f64::from(run) / 100.0;
            let document = survey(0.2 + shift + noise, 0.5 + noise);
            write(&here.join(side), &format!("{run}.json"), &document);
        }
    }
    let output = run(here, &["diff", "before", "after", "--json"]);
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&found["documents_before"], &found["of"]), (&4.into(), &"prairie-survey".into()));
    let change = |name: &str| {
        let changes = found["changes"].as_array().unwrap();
        changes.iter().find(|change| change["name"] == name).unwrap().clone()
    };
    assert_eq!(change("frames.polluted.polluted_share")["exceeds_spread"], true);
    assert_eq!(change("huge_pages.host.anonymous_coverage")["exceeds_spread"], false);
    let listed = run(here, &["diff", "before/0.json,before/1.json", "after/2.json,after/3.json"]);
    assert!(
        stdout(&listed).contains("2 documents before, 2 documents after"),
        "{}",
        stdout(&listed)
    );
}

#[test]
fn bad_documents_get_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    write(here, "a.json", &survey(0.2, 0.9));
    write(here, "other.json", &json!({"schema": "prairie-lab-run", "x": 1}));
    write(here, "bare.json", &json!({"x": 1}));
    fs::write(here.join("text.json"), "not JSON").unwrap();
    fs::write(here.join("empty.json"), "").unwrap();
    fs::write(here.join("broken.parquet"), "PAR1 broken").unwrap();
    fs::write(here.join("binary.json"), [0xff, 0xfe]).unwrap();
    fs::create_dir(here.join("nothing")).unwrap();
    for (file, message) in [
        ("binary.json", "binary.json: not text, expected a JSON document"),
        (",", ",: no file named"),
        ("missing.json", "cannot read missing.json"),
        ("text.json", "text.json: not JSON"),
        ("empty.json", "empty.json: empty file, expected a JSON document, a saved survey, rows of"),
        ("bare.json", "bare.json: no field `schema`"),
        (
            "other.json",
            "documents of different kinds: prairie-survey before and prairie-lab-run after",
        ),
        ("broken.parquet", "expected a saved survey, rows of `prairie survey --summary`, or a log"),
        ("nothing", "nothing: no file to compare"),
    ] {
        let output = run(here, &["diff", "a.json", file]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{file}: {said}");
        assert!(said.contains(message) && said.lines().count() == 1, "{file}: {said}");
    }
}

/// Samples of a replay are no survey, nor is a log: the error names what the file is.
/// A command that does not look for a signal between its steps leaves ending it to the kernel.
#[test]
fn an_interruption_ends_it_at_once() {
    let here = tempfile::tempdir().unwrap();
    for name in ["before.json", "after.json"] {
        assert!(Command::new("mkfifo").arg(here.path().join(name)).status().unwrap().success());
    }
    for words in [&["diff", "before.json", "after.json"][..], &["fleet", "report", "before.json"]] {
        // A shell starts what runs in the background with SIGINT ignored, which is inherited.
        let mut prairie = Command::new("env");
        prairie.args(["--default-signal=INT", env!("CARGO_BIN_EXE_prairie")]).args(words);
        let mut running = prairie.current_dir(here.path()).spawn().unwrap();
        let pid = running.id().to_string();
        let deadline = Instant::now() + Duration::from_secs(30);
        // It waits for a writer of the first file, and may not have come there yet.
        let status = loop {
            assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
            sleep(Duration::from_millis(50));
            if let Some(status) = running.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                running.kill().unwrap();
                panic!("{words:?} still runs");
            }
        };
        assert_eq!(status.signal(), Some(2), "{words:?}");
    }
}

#[test]
fn files_of_another_kind_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/mixed.parquet");
    let trace = trace.to_str().unwrap();
    common::write_proc(here, &[("buddyinfo", "Node 0, zone Normal 1 1 1 1 1 1 1 1 2 1 1\n")]);
    for arguments in [
        &["replay", trace, "--systems", "linux", "--out", "samples.parquet"][..],
        &["log", "run", "log", "--once", "--proc", "proc"],
    ] {
        let output = run(here, arguments);
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let samples = "samples.parquet: samples of `prairie replay --out`, expected ";
    let log = ".parquet: a log of `prairie log run`, expected rows of `prairie survey --summary`";
    for (arguments, expected) in [
        (&["survey", "--from", "samples.parquet"][..], samples),
        (&["diff", "samples.parquet", "samples.parquet"], samples),
        (&["fleet", "report", "samples.parquet"], samples),
        (&["fleet", "report", "log"], log),
        (&["fleet", "report", "log", "--strict"], log),
        (&["replay", "samples.parquet"], "it holds samples of `prairie replay --out`"),
    ] {
        let output = run(here, arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(expected) && said.lines().count() == 1, "{arguments:?}: {said}");
        assert!(said.matches("samples.parquet").count() < 2, "{said}");
    }
}

#[test]
fn seeds_are_repeated_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let driver = ["heap", "driver", "--heap", "4M", "--time", "1s", "--seeds", "3"];
    let text = stdout(&run(here, &driver));
    assert!(text.contains("seeds 1 to 3") && text.contains("+/-"), "{text}");
    let output = run(here, &[&driver[..], &["--json"]].concat());
    fs::write(here.join("seeds.json"), &output.stdout).unwrap();
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(found["seeds"], json!([1, 2, 3]));
    assert_eq!(
        (found["runs"].as_array().unwrap().len(), &found["provenance"]["seed"]),
        (3, &1.into())
    );
    let diff = run(here, &["diff", "seeds.json", "seeds.json"]);
    assert!(stdout(&diff).contains("3 documents before"), "{}", stdout(&diff));
}

#[test]
fn each_of_several_runs_is_that_of_its_seed() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/small.toml");
    let scenario = fs::read_to_string(scenario).unwrap().replace("seed = 3", "seed = 1");
    fs::write(folder.path().join("small.toml"), scenario).unwrap();
    for command in [
        "lab explain small.toml",
        "migrate profile --stream memcached --requests 50",
        "heap driver --heap 4M --time 1s",
        "lab translation --memory 1G --visits 20000",
        "migrate sim --requests 10 --warm-up 1 --rate 1000",
    ] {
        let of = |more: &str| -> Value {
            let words = format!("{command} {more} --json");
            let output = run(folder.path(), &words.split(' ').collect::<Vec<_>>());
            assert!(output.status.success(), "{words}: {}", stderr(&output));
            serde_json::from_slice(&output.stdout).unwrap()
        };
        let several = of("--seeds 3");
        let single = |seed: u64| {
            let mut one = of(&format!("--seed {seed}"));
            one.as_object_mut().unwrap().remove("provenance");
            one
        };
        assert_eq!(several["seeds"], json!([1, 2, 3]), "{command}");
        assert_eq!(several["runs"], json!([single(1), single(2), single(3)]), "{command}");
        assert_ne!(several["runs"][0], several["runs"][1], "{command}: the seed has no effect");
    }
}

/// Two logs of the same host, before and after its free memory broke up.
#[test]
fn logs_are_compared_by_their_rows() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let proc = here.join("proc");
    fs::create_dir(&proc).unwrap();
    for (log, large) in [("before", 40), ("after", 0)] {
        for row in 0..4 {
            let free = format!("Node 0, zone   Normal 90 {row} 1 1 1 1 1 1 1 1 {large}\n");
            fs::write(proc.join("buddyinfo"), free).unwrap();
            fs::write(proc.join("vmstat"), format!("compact_stall {}\n", row * 1000)).unwrap();
            let output = run(here, &["log", "run", log, "--once", "--proc", "proc"]);
            assert!(output.status.success(), "{}", stderr(&output));
        }
    }
    let output = run(here, &["diff", "before", "after", "--json"]);
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!((&found["of"], &found["documents_after"]), (&"prairie-log".into(), &4.into()));
    let change = |name: &str| {
        let changes = found["changes"].as_array().unwrap();
        changes.iter().find(|change| change["name"] == name).unwrap().clone()
    };
    assert_eq!(change("unusable_free_space_order_9")["exceeds_spread"], true);
    let stalls = change("vmstat_compact_stall_per_second");
    assert_eq!(stalls["before"]["count"], 3, "{stalls}");
    let text = stdout(&run(here, &["diff", "before", "after", "--fail-if", "unusable > 10"]));
    assert!(text.contains("prairie-log: 4 rows before, 4 rows after"), "{text}");
    // One file, and the document of `log show`, have the same rows.
    let shown = run(here, &["log", "show", "before", "--json"]);
    fs::write(here.join("shown.json"), &shown.stdout).unwrap();
    let mut files: Vec<String> = common::files_in(&here.join("before"))
        .iter()
        .map(|path| path.display().to_string())
        .filter(|path| path.ends_with(".parquet"))
        .collect();
    // Two, if an hour began while the test ran.
    let file = files.remove(0);
    if files.is_empty() {
        let output = run(here, &["diff", &file, "shown.json", "--all"]);
        assert!(stdout(&output).contains("4 rows before, 4 rows after"), "{}", stderr(&output));
        assert!(stdout(&output).contains(" 0.0 %"), "{}", stdout(&output));
    }
    write(here, "survey.json", &survey(0.2, 0.9));
    let mixed = run(here, &["diff", "before", "survey.json"]);
    let message = "documents of different kinds: prairie-log before and prairie-survey after";
    assert!(stderr(&mixed).contains(message), "{}", stderr(&mixed));
}
