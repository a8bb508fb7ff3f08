//! `prairie heap run` and `prairie heap stats`, on the library that Cargo has built beside this
//! test.

mod schema;

use std::env;
use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

fn library() -> PathBuf {
    env::current_exe().unwrap().with_file_name("libprairie_heap.so")
}

fn heap(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prairie"));
    command.arg("heap").args(arguments).stdin(Stdio::null());
    command
}

fn run(options: &[&str], program: &[&str]) -> Command {
    let mut command = heap(&["run"]);
    command.arg("--library").arg(library()).args(options).arg("--").args(program);
    command
}

fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_program_runs_on_the_heap_and_ends_as_it_does() {
    let program = ["bash", "-c", "echo $PRAIRIE_PAGE_HEAP; exit 7"];
    let output = run(&["--page-heap", "legacy", "--stats", "text"], &program).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(output.stdout, b"legacy\n");
    assert!(messages(&output).contains("page heap legacy"), "{}", messages(&output));
}

#[test]
fn what_cannot_run_is_said_in_one_line() {
    let output = run(&[], &["/no/such/program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(messages(&output).starts_with("prairie: /no/such/program: "), "{}", messages(&output));
    assert_eq!(messages(&output).lines().count(), 1);
    let output = heap(&["run", "--library", "/no/such/library.so", "--", "true"]).output().unwrap();
    assert!(messages(&output).contains("/no/such/library.so"), "{}", messages(&output));
}

/// What `prairie heap stats` prints of a shell that has allocated something and then waits, as JSON
/// and as text.
fn stats_of_a_shell(numa: &str) -> (serde_json::Value, String) {
    let words = "x=; i=0; while [ $i -lt 3000 ]; do x=$x.$i; i=$((i+1)); done; echo; read y";
    let mut program = run(&[], &["bash", "-c", words])
        .env("PRAIRIE_HEAP_NUMA", numa)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = program.id().to_string();
    let looked = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        let output = heap(&["stats", &pid, "--json"]).output().unwrap();
        output.status.success().then_some(output.stdout)
    });
    let json: serde_json::Value = serde_json::from_slice(&looked.expect("statistics")).unwrap();
    assert_eq!(schema::check(&json), "prairie-heap-stats");
    let text = heap(&["stats", &pid]).output().unwrap();
    program.kill().unwrap();
    program.wait().unwrap();
    (json, String::from_utf8(text.stdout).unwrap())
}

#[test]
fn the_heap_of_a_running_process_can_be_looked_at() {
    let (json, text) = stats_of_a_shell("0");
    assert_eq!(json["page_heap"]["page_heap"], "temeraire");
    assert!(json["small"]["live_bytes"].as_u64().unwrap() > 0);
    assert!(json.get("nodes").is_none());
    assert!(text.contains(" s old, ") && text.contains("HugeFiller"), "{text}");
}

#[test]
fn page_heaps_of_nodes_are_shown_and_add_up() {
    let (json, text) = stats_of_a_shell("2");
    let nodes = json["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2);
    let live: u64 = nodes.iter().map(|node| node["live_bytes"].as_u64().unwrap()).sum();
    let pages = json["page_heap"]["backing"]["live"].as_u64().unwrap();
    assert_eq!(live, pages * 8192);
    assert!(text.contains("node 0: ") && text.contains("node 1: "), "{text}");
}

#[test]
fn a_process_on_another_malloc_gets_its_own_error() {
    let mut program = Command::new("sleep").arg("60").spawn().unwrap();
    let output = heap(&["stats", &program.id().to_string()]).output().unwrap();
    program.kill().unwrap();
    program.wait().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(messages(&output).contains("runs on another malloc"), "{}", messages(&output));
    let output = heap(&["stats", "4294967295"]).output().unwrap();
    assert!(messages(&output).contains("/proc/4294967295/maps"), "{}", messages(&output));
}

/// Names of the files in a folder, in order.
fn files(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A shell that ends before its children do, one of which is another program and one is forked.
const FAMILY: [&str; 3] =
    ["bash", "-c", "x=$(seq 100000); (sleep 0.3; exit) & sort /dev/null; exit"];

#[test]
fn children_leave_the_files_of_the_program_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [stats, profile] = ["stats.json", "profile.gz"].map(|name| folder.path().join(name));
    let stats = format!("json:{}", stats.display());
    let options = ["--stats", &stats, "--profile", profile.to_str().unwrap()];
    // By the command, and by the environment alone.
    let mut by_environment = Command::new(FAMILY[0]);
    by_environment
        .args(&FAMILY[1..])
        .env("LD_PRELOAD", library())
        .env("PRAIRIE_HEAP_STATS", &stats)
        .env("PRAIRIE_HEAP_PROFILE", &profile);
    for mut command in [run(&options, &FAMILY), by_environment] {
        let before = files(folder.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", messages(&output));
        assert_eq!(files(folder.path()), ["profile.gz", "stats.json"], "after {before:?}");
        let text = std::fs::read(folder.path().join("stats.json")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
        // The shell holds the numbers, `sleep`, which ends last, does not.
        assert!(json["large"]["bytes"].as_u64().unwrap() > 500_000, "{json}");
        files(folder.path())
            .iter()
            .for_each(|name| std::fs::remove_file(folder.path().join(name)).unwrap());
    }
}

#[test]
fn file_names_contain_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let stats = format!("json:{}/%c.%p.100%%.json", folder.path().display());
    let output = run(&["--stats", &stats], &FAMILY).output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    let names = files(folder.path());
    let of = |program: &str| names.iter().filter(|name| name.starts_with(program)).count();
    assert!(of("bash.") >= 1 && of("sort.") == 1, "{names:?}");
    assert!(names.iter().all(|name| name.ends_with(".100%.json")), "{names:?}");
    assert!(names[0].split('.').nth(1).unwrap().parse::<u32>().is_ok(), "{names:?}");
    // A relative name is one of the folder that the command runs in.
    let mut command = run(&["--stats", "json:%c.json"], &["bash", "-c", "cd /; exit"]);
    assert!(command.current_dir(folder.path()).status().unwrap().success());
    assert!(files(folder.path()).contains(&"bash.json".to_owned()));
}

#[test]
fn wrong_values_are_refused_by_the_command_line() {
    let long = format!("text:/{}", "a".repeat(600));
    let wrong: [(&str, &str); 6] = [
        ("--release", "10Q"),
        ("--release", "-1"),
        ("--stats", "xml"),
        ("--stats", "json:/tmp/%q"),
        ("--stats", &long),
        ("--profile", "/tmp/%"),
    ];
    for (option, value) in wrong {
        let output = run(&[&format!("{option}={value}")], &["true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{option} {value}: {}", messages(&output));
        assert!(messages(&output).contains("expected"), "{}", messages(&output));
    }
}

#[test]
fn a_program_needs_no_dashes_before_it() {
    let library = library();
    let library = library.to_str().unwrap();
    let words =
        ["run", "--library", library, "--check", "bash", "-c", "echo $0 $*", "-x", "--check"];
    for dashes in [&[][..], &["--"]] {
        let mut arguments = words.to_vec();
        arguments.splice(4..4, dashes.iter().copied());
        let output = heap(&arguments).output().unwrap();
        assert_eq!(output.stdout, b"-x --check\n", "{}", messages(&output));
    }
    assert_eq!(heap(&["run", "--no-such-option", "true"]).output().unwrap().status.code(), Some(2));
}

/// The page-heap calls of a program are recorded, even if a signal ends it, and played back.
#[test]
fn a_program_is_recorded_and_played_back() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("shell.parquet");
    let trace = trace.to_str().unwrap();
    let words = "x=$(seq 200000); y=$x$x$x; unset x; kill -9 $$";
    let output = run(&["--trace", trace], &["bash", "-c", words]).output().unwrap();
    assert_eq!(output.status.code(), Some(128 + 9), "{}", messages(&output));
    assert!(messages(&output).contains("calls of the page heap"), "{}", messages(&output));
    // No other file is left next to the trace.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let played = heap(&["playback", trace, "--json"]).output().unwrap();
    assert!(played.status.success(), "{}", messages(&played));
    let json: serde_json::Value = serde_json::from_slice(&played.stdout).unwrap();
    let systems = json["systems"].as_array().expect("systems");
    for system in systems {
        // Some copies of 1.3 MB were live.
        let peak = system["totals"]["peak_resident_pages"].as_u64().unwrap();
        assert!(peak > 2 * (1_300_000 / 8192), "{system}");
    }
    let output = run(&["--trace", trace], &["/no/such/program"]).output().unwrap();
    assert!(messages(&output).contains("/no/such/program"), "{}", messages(&output));
}

/// A shell that holds `bytes` bytes of text and waits; its first line of output says that it does.
fn holding(bytes: &str, options: &[&str]) -> Child {
    let words = format!(
        "x=$(head -c {bytes} /dev/zero | tr '\\0' x); for i in $(seq 300); do y=$y$i$i$i; done; echo; read z"
    );
    let mut program = run(options, &["bash", "-c", &words])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0];
    program.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    program
}

fn end(mut program: Child) {
    program.kill().unwrap();
    program.wait().unwrap();
}

#[test]
fn an_experiment_compares_both_page_heaps() {
    let program = ["bash", "-c", "a=$(printf %1000000s); sleep 0.6"];
    let mut command = heap(&["experiment", "--rounds", "2", "--json", "--library"]);
    let output = command.arg(library()).arg("--").args(program).output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema::check(&json), "prairie-heap-experiment");
    let found = &json["programs"][0];
    assert_eq!(found["program"], "bash");
    let arms: Vec<(&str, u64)> = found["arms"].as_array().unwrap().iter().map(arm).collect();
    assert_eq!(arms, [("temeraire", 2), ("legacy", 2)]);
}

fn arm(arm: &serde_json::Value) -> (&str, u64) {
    (arm["page_heap"].as_str().unwrap(), arm["processes"].as_u64().unwrap())
}

#[test]
fn all_heaps_are_in_one_table() {
    let program = holding("3000000", &["--page-heap", "legacy"]);
    let pid = program.id();
    let output = heap(&["stats", "--all", "--json"]).output().unwrap();
    let text = heap(&["stats", "--all"]).output().unwrap();
    end(program);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema::check(&json), "prairie-heap-stats-all");
    let of_ours = |process: &&serde_json::Value| process["pid"] == pid;
    let ours = json["processes"].as_array().unwrap().iter().find(of_ours).expect("the program");
    assert_eq!(ours["name"], "bash");
    assert_eq!(ours["statistics"]["page_heap"]["page_heap"], "legacy");
    let text = String::from_utf8(text.stdout).unwrap();
    let row = text.lines().find(|line| line.contains(&pid.to_string())).expect("a row");
    assert!(row.contains("bash") && row.contains("legacy"), "{text}");
    let output = heap(&["stats", "--all", "1"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", messages(&output));
}

/// A program appears under its name, and its parts are no more than its memory.
#[test]
fn heaps_of_running_processes_are_exported() {
    let program = holding("3000000", &[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_prairie"));
    let output = command.args(["export", "--heaps", "--frames-budget", "0"]).output().unwrap();
    end(program);
    let text = String::from_utf8(output.stdout).unwrap();
    let value = |sample: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {sample} in\n{text}")).parse().unwrap()
    };
    assert!(value("prairie_heap_processes{name=\"bash\"}") >= 1.0);
    let part = |part| value(&format!("prairie_heap_bytes{{name=\"bash\",part=\"{part}\"}}"));
    assert!(part("live") > 0.0, "{text}");
    let sum: f64 = ["live", "caches", "spans", "free_pages"].map(part).into_iter().sum();
    let backed = value("prairie_heap_backed_bytes{name=\"bash\"}");
    assert!(sum <= backed * 1.01, "{sum} of {backed}: {text}");
}

/// The estimate of what a program holds, by the samples in its memory while it runs.
#[test]
fn a_running_programs_samples_become_a_profile() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("heap.pb.gz");
    let program = holding("30000000", &["--sample"]);
    let pid = program.id().to_string();
    let output = heap(&["profile", &pid, "--out", file.to_str().unwrap()]).output().unwrap();
    end(program);
    assert!(output.status.success(), "{}", messages(&output));
    let file = std::fs::File::open(file).unwrap();
    let mut profile = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut profile).unwrap();
    let has = |text: &[u8]| profile.windows(text.len()).any(|part| part == text);
    assert!(has(b"inuse_space") && has(b"bash"), "{}", profile.len());
    let told = messages(&output);
    // A text of 30 MB is one object, which stands for itself: `stand for about 28.6 MiB`.
    let bytes = told.split("about ").nth(1).and_then(|rest| rest.split(' ').next());
    let mebibytes: f64 = bytes.and_then(|number| number.parse().ok()).expect("an estimate");
    assert!((28.0..64.0).contains(&mebibytes) && told.contains("MiB of live objects"), "{told}");
}

#[test]
fn a_program_without_samples_gets_its_own_error() {
    let program = holding("300000", &[]);
    let pid = program.id().to_string();
    let outputs = [&["profile", &pid, "--out", "/dev/null"][..], &["lifetimes", &pid]]
        .map(|arguments| heap(arguments).output().unwrap());
    end(program);
    for output in outputs {
        let told = messages(&output);
        assert_eq!(output.status.code(), Some(1));
        assert!(told.contains("does not sample its allocations"), "{told}");
    }
}

/// Objects of 4,000 bytes are freed after 20 ms, objects of 300,000 bytes after 200 ms; 8 MB are
/// kept. A pause is never shorter than asked for, and on a busy machine longer.
const LIVES: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
enum { SMALL = 2000, LARGE = 10, TURNS = 40 };
int main(void) {
    static void *small[SMALL], *large[10][LARGE], *kept[8];
    for (int i = 0; i < 8; i++) memset(kept[i] = malloc(1000000), 1, 1000000);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < LARGE; i++) {
            free(large[turn % 10][i]);
            memset(large[turn % 10][i] = malloc(300000), 1, 300000);
        }
        for (int i = 0; i < SMALL; i++) memset(small[i] = malloc(4000), 1, 4000);
        usleep(20000);
        for (int i = 0; i < SMALL; i++) free(small[i]);
    }
    puts("done");
    fflush(stdout);
    getchar();
    return 0;
}
"#;

/// The lifetimes of a program that allocates by the clock, and the driver that stands for it.
#[test]
fn lifetimes_are_those_of_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(path("lives.c"), LIVES).unwrap();
    let compiled =
        Command::new("cc").args(["-O1", "-o", &path("lives"), &path("lives.c")]).status().unwrap();
    assert!(compiled.success());
    let mut command = run(&["--sample"], &[&path("lives")]);
    let started = std::time::Instant::now();
    let mut program = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    program.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    let ran = started.elapsed().as_secs_f64();
    let pid = program.id().to_string();
    let text = heap(&["lifetimes", &pid, "--out", &path("lives.toml")]).output().unwrap();
    let output = heap(&["lifetimes", &pid, "--json"]).output().unwrap();
    end(program);
    assert!(text.status.success() && output.status.success(), "{}", messages(&text));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(schema::check(&json), "prairie-heap-lifetimes");
    assert_eq!(json["name"], "lives");
    let number = |value: &serde_json::Value| value.as_f64().expect("a number");
    let near = |value: f64, wanted: f64, by: f64| (value / wanted - 1.0).abs() < by;
    let of_size = |bytes: f64| {
        let is_it = |size: &&serde_json::Value| near(number(&size["object_bytes"]), bytes, 1e-6);
        json["sizes"].as_array().unwrap().iter().find(is_it).expect("a size of the program")
    };
    let (small, large, kept) = (of_size(4e3), of_size(3e5), of_size(1e6));
    // 610 samples of the small ones are expected, and 174 of the 400 large ones: five standard
    // deviations are 20 and 28 %.
    assert!(near(number(&small["allocated_bytes"]), 40.0 * 2000.0 * 4e3, 0.2), "{small}");
    assert!(near(number(&large["allocated_bytes"]), 40.0 * 10.0 * 3e5, 0.28), "{large}");
    assert_eq!(number(&small["live_bytes"]), 0.0, "{small}");
    assert!(kept["freed_lifetime_seconds"].is_null(), "{kept}");
    // What slows the program down makes each turn longer.
    let slower = ran / 0.8;
    let lifetime = |size: &serde_json::Value| number(&size["freed_lifetime_seconds"]);
    assert!((0.019..0.03 * slower).contains(&lifetime(small)), "{small}, {ran} s");
    assert!((0.195..0.25 * slower).contains(&lifetime(large)), "{large}, {ran} s");
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("Objects of lives") && text.contains("Spans"), "{text}");
    assert!(text.contains("prairie heap driver --sizes"), "{text}");
    let driven = heap(&["driver", "--sizes", &path("lives.toml"), "--heap", "20M", "--time", "5s"]);
    let driven = { driven }.output().unwrap();
    assert!(driven.status.success(), "{}", messages(&driven));
}

#[test]
fn a_missing_preset_names_the_known_ones() {
    let output = heap(&["driver", "--sizes", "figure-6", "--time", "1s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let expected = "figure-6: no such file or preset, expected a TOML file or figure-4, figure-5";
    assert!(messages(&output).contains(expected), "{}", messages(&output));
}
