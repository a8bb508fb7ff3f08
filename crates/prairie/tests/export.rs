//! `prairie export`, `prairie top --once`, and `prairie log` as they are run, and what packaging
//! says about them.
#![allow(missing_docs)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use common::{prairie, run, stderr, stdout, wait_for_handler};

/// A captured Linux 6.18, its first 8192 frames, with memory pressure beside it.
fn host(directory: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/fixtures/linux-6.18/proc");
    let proc = directory.join("proc");
    fs::create_dir_all(proc.join("pressure")).unwrap();
    for file in ["buddyinfo", "zoneinfo", "vmstat", "meminfo", "iomem", "kpageflags"] {
        fs::copy(from.join(file), proc.join(file)).unwrap();
    }
    let line = |kind| format!("{kind} avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\n");
    fs::write(proc.join("pressure/memory"), line("some") + &line("full")).unwrap();
    let pool = directory.join("sys/kernel/mm/hugepages/hugepages-2048kB");
    fs::create_dir_all(&pool).unwrap();
    fs::write(pool.join("nr_hugepages"), "8\n").unwrap();
    fs::write(pool.join("free_hugepages"), "3\n").unwrap();
    proc
}

/// What such a host exports whose kernel has a movable border.
fn exported(arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    host(directory.path());
    common::write_regions(directory.path(), 0);
    let all = [&["export", "--proc", "proc", "--frames-budget", "100"], arguments].concat();
    let output = run(directory.path(), &all);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

/// The names of the samples of a text.
fn names(text: &str) -> BTreeSet<String> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.map(|line| line.split(['{', ' ']).next().unwrap().to_owned()).collect()
}

fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in\n{text}")).parse().unwrap()
}

#[test]
fn metrics_are_those_of_the_survey() {
    let directory = tempfile::tempdir().unwrap();
    host(directory.path());
    let text = exported(&[]);
    let output = run(directory.path(), &["survey", "--proc", "proc", "--json"]);
    let survey: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let frames = &survey["frames"];
    let polluted = value(&text, "prairie_polluted_pageblocks{unknown=\"movable\"}");
    assert_eq!(Some(polluted), frames["polluted"]["polluted_blocks"].as_f64());
    assert!(polluted > 0.0);
    for class in frames["by_class"].as_array().unwrap() {
        let name = class["class"].as_str().unwrap().replace("uninitialised", "uninitialized");
        let mobility = class["mobility"].as_str().unwrap();
        let sample = format!("prairie_class_bytes{{class=\"{name}\",mobility=\"{mobility}\"}}");
        assert_eq!(Some(value(&text, &sample) / 4096.0), class["frames"].as_f64(), "{name}");
    }
    for (at, size) in frames["potential"].as_array().unwrap().iter().enumerate() {
        let bytes = size["block_bytes"].as_u64().unwrap();
        for unknown in ["movable", "unmovable"] {
            let sample = format!(
                "prairie_potential_contiguity_bytes{{block_bytes=\"{bytes}\",unknown=\"{unknown}\"}}"
            );
            let blocks = size[format!("unknown_{unknown}")]["blocks"].as_f64().unwrap();
            assert_eq!(value(&text, &sample), blocks * bytes as f64, "{at}");
        }
    }
    for zone in survey["zones"].as_array().unwrap() {
        let (node, kind) = (&zone["node"], zone["zone"].as_str().unwrap());
        let Some(indices) = zone["free_lists"]["indices"].as_array() else { continue };
        for index in indices {
            let order = &index["order"];
            let sample = format!(
                "prairie_unusable_free_space_ratio{{node=\"{node}\",zone=\"{kind}\",order=\"{order}\"}}"
            );
            let found = value(&text, &sample);
            assert!((found - index["unusable_free_space_index"].as_f64().unwrap()).abs() < 1e-9);
        }
    }
    for counter in survey["counters"].as_array().unwrap() {
        let sample = format!("prairie_vmstat_{}_total", counter["name"].as_str().unwrap());
        assert_eq!(Some(value(&text, &sample)), counter["value"].as_f64(), "{sample}");
    }
    assert_eq!(value(&text, "prairie_memory_pressure_seconds_total{kind=\"full\"}"), 1.5);
    assert_eq!(value(&text, "prairie_hugetlb_free_pages{page_bytes=\"2097152\"}"), 3.0);
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn regions_are_exported_where_the_kernel_has_them() {
    let text = exported(&[]);
    for (sample, expected) in [
        ("border_bytes{node=\"0\"}", f64::from(128 << 20)),
        ("region_bytes{node=\"0\",region=\"movable\"}", f64::from(256 << 20)),
        ("available_bytes{node=\"0\",region=\"unmovable\"}", f64::from(16 << 20)),
        ("low_mark_bytes{node=\"0\",region=\"movable\"}", f64::from(2 << 20)),
        ("retired_bytes{node=\"0\"}", f64::from(4 << 20)),
        ("pressure_seconds_total{region=\"unmovable\"}", 0.25),
        ("node_pressure_seconds_total{node=\"0\",region=\"movable\"}", 0.75),
        ("moved_pageblocks_total{node=\"0\",direction=\"grow\"}", 7.0),
        ("failed_moves_total{node=\"0\",direction=\"shrink\"}", 2.0),
        ("waits_total{node=\"0\"}", 9.0),
        ("wait_seconds_total{node=\"0\"}", 0.5),
        ("longest_handover_seconds{node=\"0\"}", 0.031),
    ] {
        assert_eq!(value(&text, &format!("prairie_contiguitas_{sample}")), expected, "{sample}");
    }
    let directory = tempfile::tempdir().unwrap();
    host(directory.path());
    let output = run(directory.path(), &["export", "--proc", "proc", "--frames-budget", "0"]);
    assert!(output.status.success() && !stdout(&output).contains("contiguitas"));
    // A file that the kernel would not write is named.
    common::write_regions(directory.path(), 0);
    let file = directory.path().join("sys/kernel/mm/contiguitas/node0/border_pfn");
    fs::write(file, "0x8000\n").unwrap();
    let output = run(directory.path(), &["export", "--proc", "proc", "--frames-budget", "0"]);
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(error.contains("sys/kernel/mm/contiguitas/node0/border_pfn, line 1"), "{error}");
}

/// The rules of Prometheus for names, and of OpenMetrics for descriptors.
#[test]
fn names_follow_the_rules() {
    let text = exported(&[]);
    let mut described = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        assert!(described.insert(name), "{name} is described twice");
        let letters = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(name.starts_with("prairie") && name.chars().all(letters), "{name}");
        assert!(!name.ends_with("_total") && !name.contains("__"), "{name}");
        for unit in ["_kb", "_kib", "_mb", "_ms", "_us", "_ns", "_percent", "_pages_bytes"] {
            assert!(!name.ends_with(unit), "{name}: base units only");
        }
        assert!(["gauge", "counter", "info"].contains(&kind), "{line}");
        let help = format!("# HELP {name} ");
        let help = text.lines().find_map(|line| line.strip_prefix(&help)).unwrap();
        assert!(help.starts_with(|c: char| c.is_ascii_uppercase() || c.is_ascii_digit()), "{help}");
        for unit in ["bytes", "seconds", "ratio"] {
            let has_unit = text.contains(&format!("# UNIT {name} {unit}\n"));
            assert_eq!(has_unit, name.ends_with(&format!("_{unit}")), "{name}");
        }
    }
    for name in names(&text) {
        let is_described = ["", "_total", "_info"]
            .iter()
            .any(|suffix| name.strip_suffix(suffix).is_some_and(|stem| described.contains(stem)));
        assert!(is_described, "{name}");
    }
    let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let unique: BTreeSet<&str> =
        samples.iter().map(|line| line.rsplit_once(' ').unwrap().0).collect();
    assert_eq!(unique.len(), samples.len(), "a sample comes twice");
}

/// The program, if it is installed.
fn installed(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").canonicalize().unwrap()
}

#[test]
fn promtool_finds_nothing_to_say() {
    if !installed("promtool") {
        return prairie_testing::skip_without("promtool");
    }
    let text = exported(&["--encoding", "prometheus"]);
    prairie_testing::check_metrics(&text);
    for arguments in
        [["check", "rules", "prairie.rules.yml"], ["test", "rules", "prairie.rules.test.yml"]]
    {
        let mut promtool = Command::new("promtool");
        let output =
            promtool.args(arguments).current_dir(packaging().join("prometheus")).output().unwrap();
        assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    }
}

/// The words of a text that begin like a metric.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = text.split(|c: char| !is_word(c));
    words.filter(|word| word.starts_with("prairie_")).map(str::to_owned).collect()
}

#[test]
fn dashboards_rules_and_guide_name_metrics_that_exist() {
    let mut exists = names(&exported(&[]));
    // No file is missing in the captured host, which also has one counter of this kind only.
    exists.insert("prairie_unreadable_file".to_owned());
    exists.extend(
        prairie_host::survey::counters::names().map(|name| format!("prairie_vmstat_{name}_total")),
    );
    exists.extend(OF_STALLS.into_iter().chain(OF_HEAPS).map(str::to_owned));
    let mut used = BTreeSet::new();
    for file in ["prometheus/prairie.rules.yml", "prometheus/prairie.rules.test.yml"] {
        used.extend(metrics_in(&fs::read_to_string(packaging().join(file)).unwrap()));
    }
    for file in ["prairie-host.json", "prairie-fleet.json"] {
        let text = fs::read_to_string(packaging().join("grafana").join(file)).unwrap();
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        check_dashboard(file, &dashboard);
        let mut expressions = Vec::new();
        collect(&dashboard, &mut expressions);
        assert!(expressions.len() >= 15, "{file}");
        used.extend(expressions.iter().flat_map(|expression| metrics_in(expression)));
    }
    assert!(used.len() > 20, "{used:?}");
    let missing: Vec<&String> = used.difference(&exists).collect();
    assert!(missing.is_empty(), "named in packaging, but not exported: {missing:?}");

    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/guide/export.md");
    let guide = metrics_in(&fs::read_to_string(guide).unwrap());
    let documented: BTreeSet<String> =
        exists.into_iter().filter(|name| !name.starts_with("prairie_vmstat_")).collect();
    let undocumented: Vec<&String> = documented.difference(&guide).collect();
    assert!(undocumented.is_empty(), "not in the guide: {undocumented:?}");
    let gone: Vec<&String> =
        guide.difference(&documented).filter(|name| !name.contains("NAME")).collect();
    assert!(gone.is_empty(), "in the guide, but not exported: {gone:?}");
}

/// Everything that Prometheus is asked for.
fn collect<'a>(value: &'a Value, found: &mut Vec<&'a str>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(text) if name == "expr" || name == "definition" => {
                        found.push(text);
                    }
                    value => collect(value, found),
                }
            }
        }
        _ => {}
    }
}

/// Panels have a title, numbers of their own, a place on the grid of 24 columns, and do not overlap.
fn check_dashboard(file: &str, dashboard: &Value) {
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        assert!(!title.is_empty() && ids.insert(panel["id"].as_u64().unwrap()), "{file}: {title}");
        let place = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{file}: {title}");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(cells.insert((x, y)), "{file}: {title} covers another panel");
            }
        }
        if panel["type"] != "row" {
            assert!(!panel["targets"].as_array().unwrap().is_empty(), "{file}: {title}");
        }
    }
    assert!(dashboard["uid"].as_str().unwrap().starts_with("prairie-"));
}

#[test]
fn units_and_pods_call_the_command_with_options_that_it_has() {
    let mut checked = 0;
    let mut check = |file: &Path, words: &[&str]| {
        let here = tempfile::tempdir().unwrap();
        let command: Vec<&str> = words
            .iter()
            .copied()
            .take_while(|word| word.starts_with(char::is_alphabetic))
            .collect();
        let help = stdout(&run(here.path(), &[&command[..], &["--help"]].concat()));
        for option in words.iter().filter(|word| word.starts_with("--")) {
            let name = option.split('=').next().unwrap();
            assert!(
                help.contains(&format!("{name} ")) || help.contains(&format!("{name}\n")),
                "{}: {name} of {command:?}",
                file.display()
            );
            checked += 1;
        }
    };
    for entry in fs::read_dir(packaging().join("systemd")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let mine = text.lines().filter_map(|line| line.strip_prefix("ExecStart=/usr/bin/prairie "));
        for line in mine {
            check(&path, &line.split_whitespace().collect::<Vec<_>>());
        }
    }
    for file in ["kubernetes/daemonset.yaml", "helm/prairie/templates/daemonset.yaml"] {
        let path = packaging().join(file);
        let text = fs::read_to_string(&path).unwrap();
        let arguments = text.lines().map(str::trim).skip_while(|line| *line != "args:").skip(1);
        let arguments = arguments.take_while(|line| line.starts_with(['-', '#']));
        let words: Vec<&str> = arguments.filter_map(|line| line.strip_prefix("- ")).collect();
        assert_eq!(words.first(), Some(&"export"), "{file}");
        check(&path, &words);
    }
    assert!(checked >= 12, "{checked} options");
}

/// The manifest that is shipped is what the chart makes of its defaults.
#[test]
fn the_manifest_is_the_chart() {
    if !installed("helm") && Command::new("helm").arg("version").output().is_err() {
        return prairie_testing::skip_without("helm");
    }
    let chart = packaging().join("helm/prairie");
    // Built by `go install`, helm assumes a Kubernetes older than the chart accepts.
    let kubernetes = ["--kube-version", "1.34.0"];
    let output = Command::new("helm").arg("lint").args(kubernetes).arg(&chart).output().unwrap();
    assert!(output.status.success(), "{}", stdout(&output));
    let template = ["template", "prairie", "--namespace", "monitoring"];
    let mut helm = Command::new("helm");
    let output = helm.args(template).args(kubernetes).arg(&chart).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let plain = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && *line != "---");
        lines.map(str::to_owned).collect()
    };
    let shipped = fs::read_to_string(packaging().join("kubernetes/daemonset.yaml")).unwrap();
    assert_eq!(plain(&stdout(&output)), plain(&shipped));
}

#[test]
fn the_textfile_appears_whole_and_in_the_older_format() {
    let directory = tempfile::tempdir().unwrap();
    host(directory.path());
    let arguments = ["export", "--proc", "proc", "--textfile", "out.prom"];
    let output = run(directory.path(), &arguments);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = fs::read_to_string(directory.path().join("out.prom")).unwrap();
    assert!(text.contains("# TYPE prairie_vmstat_compact_stall_total counter\n"), "{text}");
    assert!(!text.contains("# EOF") && !text.contains("# UNIT"));
    // A directory without write permission, or none at all, is named.
    let output = run(directory.path(), &["export", "--proc", "proc", "--textfile", "no/out.prom"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no/out.prom"), "{}", stderr(&output));
}

#[test]
fn bad_input_is_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let proc = host(directory.path());
    let refused = |arguments: &[&str], code: i32, expected: &str| {
        let output = run(directory.path(), arguments);
        let error = stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
        assert!(error.contains(expected), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    };
    refused(&["export", "--listen", "0.0.0.0:9"], 2, "loopback address or --allow-remote");
    refused(&["export", "--listen", "here"], 2, "--listen");
    refused(&["export", "--stalls"], 2, "--listen");
    refused(&["export", "--frames-budget", "200"], 2, "0 to 100");
    refused(&["export", "--proc", "sys"], 1, "no buddyinfo");
    refused(&["export", "--proc", "none"], 1, "none");
    refused(&["top", "--proc", "proc"], 1, "--once");
    refused(&["top", "--once", "--at", "soon", "--log", "proc"], 2, "not a time");
    refused(&["top", "--json", "--proc", "proc"], 2, "--once");
    refused(&["top", "--once", "--svg", "d", "--proc", "proc"], 2, "prints no report");
    refused(&["top", "--once", "--log", "proc"], 2, "only with --at");
    refused(&["survey", "--proc", "proc", "--html", "-"], 2, "expected a file");
    refused(&["export", "--textfile", "x.prom", "--interval", "1ms"], 2, "at least 1s");
    refused(&["top", "--once", "--at", "1h", "--log", "proc"], 1, "no log in it");
    refused(&["log", "show", "proc"], 1, "no log in it");
    refused(&["log", "show", "gone"], 1, "gone: no such directory, expected the directory of");
    refused(&["log", "show", "proc/buddyinfo"], 1, "buddyinfo: not a directory, expected the");
    refused(&["log", "run", "log", "--interval", "1ms"], 2, "at least 1s");
    refused(&["log", "run", "proc/buddyinfo"], 1, "buddyinfo: not a directory, expected the");
    fs::create_dir(directory.path().join("empty")).unwrap();
    refused(&["log", "run", "log", "--once", "--proc", "empty"], 1, "empty: no buddyinfo in it");
    refused(&["top", "--once", "--proc", "empty"], 1, "empty: no buddyinfo in it");
    fs::write(proc.join("buddyinfo"), "Node 0, zone Normal many\n").unwrap();
    refused(&["export", "--proc", "proc"], 1, "proc/buddyinfo, line 1");
    refused(&["log", "run", "log", "--proc", "proc", "--once"], 1, "proc/buddyinfo, line 1");
}

/// An exporter that answers requests, and its address.
struct Listening {
    child: Child,
    address: String,
}

impl Listening {
    fn start(directory: &Path, arguments: &[&str]) -> Listening {
        let arguments = [&["export", "--listen", "127.0.0.1:0"], arguments].concat();
        let mut command = prairie(directory, &arguments);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = [0; 256];
        let read = child.stderr.as_mut().unwrap().read(&mut line).unwrap();
        let line = String::from_utf8_lossy(&line[..read]).into_owned();
        let address = line.split("http://").nth(1).unwrap_or_else(|| panic!("{line}"));
        let address = address.split('/').next().unwrap().to_owned();
        wait_for_handler(child.id());
        Listening { child, address }
    }

    fn get(&self, accept: &str) -> String {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(stream, "GET /metrics HTTP/1.0\r\nAccept: {accept}\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// Ends it by a signal, which is a success.
    fn stop(mut self) {
        let pid = rustix::process::Pid::from_raw(self.child.id().cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn requests_are_answered_until_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    host(directory.path());
    let exporter = Listening::start(directory.path(), &["--proc", "proc"]);
    let mut text = exporter.get("application/openmetrics-text");
    // The first walk is on its way.
    for _ in 0..200 {
        if text.contains("prairie_walk_timestamp_seconds ") {
            break;
        }
        sleep(Duration::from_millis(20));
        text = exporter.get("application/openmetrics-text");
    }
    assert!(text.contains("prairie_walk_timestamp_seconds "), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert!(exporter.get("text/plain").contains("version=0.0.4"));
    exporter.stop();
}

/// Metrics of `--stalls`, which only a host that can be watched has.
const OF_STALLS: [&str; 6] = [
    "prairie_stall_seconds",
    "prairie_stall_seconds_bucket",
    "prairie_stall_seconds_count",
    "prairie_stall_seconds_sum",
    "prairie_huge_page_requests_total",
    "prairie_stall_lost_events_total",
];

/// Metrics of `--heaps`.
const OF_HEAPS: [&str; 5] = [
    "prairie_heap_backed_bytes",
    "prairie_heap_bytes",
    "prairie_heap_huge_bytes",
    "prairie_heap_processes",
    "prairie_heap_unreadable_processes",
];

#[test]
fn stalls_are_exported_where_they_can_be_watched() {
    let directory = tempfile::tempdir().unwrap();
    let watched = run(directory.path(), &["stalls", "--for", "10ms"]);
    if !watched.status.success() {
        prairie_testing::skip("needs root and tracefs to watch stalls");
        return;
    }
    let exporter = Listening::start(directory.path(), &["--stalls", "--frames-budget", "0"]);
    let text = exporter.get("text/plain");
    assert!(text.contains("# TYPE prairie_stall_seconds histogram"), "{text}");
    for result in ["allocated", "failed"] {
        let name = format!("prairie_huge_page_requests_total{{result=\"{result}\"}} ");
        assert!(text.contains(&name), "{text}");
    }
    assert!(text.contains("prairie_stall_lost_events_total 0"), "{text}");
    exporter.stop();
}

#[test]
fn a_log_is_written_shown_and_looked_back_into() {
    let directory = tempfile::tempdir().unwrap();
    host(directory.path());
    let succeed = |arguments: &[&str]| {
        let output = run(directory.path(), arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output)
    };
    for _ in 0..2 {
        let budget = ["--frames-budget", "100"];
        succeed(&[&["log", "run", "log", "--once", "--proc", "proc"], &budget[..]].concat());
    }
    let shown = succeed(&["log", "show", "log", "--json", "--html", "log.html"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let rows = shown["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    let survey = succeed(&["survey", "--proc", "proc", "--json"]);
    let survey: Value = serde_json::from_str(&survey).unwrap();
    let polluted = &survey["frames"]["polluted"];
    assert_eq!(rows[0]["polluted_pageblocks"], polluted["polluted_blocks"]);
    assert_eq!(rows[0]["whole_pageblocks"], polluted["whole_blocks"]);
    assert_eq!(rows[1]["vmstat_compact_stall"], survey_counter(&survey, "compact_stall"));
    assert!(fs::read_to_string(directory.path().join("log.html")).unwrap().contains("Polluted"));

    let past = succeed(&["top", "--once", "--at", "0s", "--log", "log"]);
    assert!(past.contains("sample 2 of 2"), "{past}");
    let live = succeed(&["top", "--once", "--proc", "proc", "--interval", "100ms"]);
    let document = succeed(&["top", "--once", "--json", "--at", "0s", "--log", "log"]);
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["figures"], rows[1], "the last row of the log");
    assert!(document["rates"]["vmstat_compact_stall"].is_f64(), "{}", document["rates"]);
    // The panels Map and Zones are the same, live and in the log.
    let map = |text: &str| {
        text.split("\nUnmovable\n").next().unwrap().split("\nMap\n").nth(1).unwrap().to_owned()
    };
    assert_eq!(map(&past), map(&live));
    assert!(live.lines().all(|line| line.chars().count() <= 80), "{live}");
    let wide = ["top", "--once", "--proc", "proc", "--interval", "100ms", "--width", "120"];
    let widest = succeed(&wide).lines().map(|line| line.chars().count()).max().unwrap();
    assert!((81..=120).contains(&widest), "{widest}");
}

/// One damaged day, as `head -c 1000` leaves it, is named and left out.
#[test]
fn a_damaged_day_of_a_log_is_skipped() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    host(here);
    let run_once = ["log", "run", "log", "--once", "--proc", "proc"];
    assert!(run(here, &run_once).status.success());
    let log = here.join("log");
    let is_row = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "parquet");
    let rows = common::files_in(&log).into_iter().find(is_row).unwrap();
    let day = fs::read(&rows).unwrap();
    fs::write(log.join("prairie-2000-01-01.parquet"), &day[..1000]).unwrap();
    for arguments in [
        &["log", "show", "log"][..],
        &["log", "show", "log", "--json"],
        &["diff", "log", "log"],
        &["top", "--once", "--at", "0s", "--log", "log"],
    ] {
        let output = run(here, arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        let is_top = arguments[0] == "top";
        let named = "prairie: skipped log/prairie-2000-01-01.parquet: damaged or not a log: ";
        assert!(is_top || said.lines().all(|line| line.starts_with(named)), "{said}");
        assert!(is_top || !said.is_empty(), "{arguments:?}");
    }
    // `log run` sets it aside as soon as it has to be written again.
    let old = log.join("prairie-2000-01-01.parquet");
    fs::rename(&old, log.join("prairie-2000-01-01.parquet.2.damaged")).unwrap();
    let said = stderr(&run(here, &["log", "show", "log"]));
    let expected =
        "prairie: log/prairie-2000-01-01.parquet.2.damaged: damaged, set aside by `log run`\n";
    assert_eq!(said, expected);
    fs::rename(log.join("prairie-2000-01-01.parquet.2.damaged"), &old).unwrap();
    fs::remove_file(rows).unwrap();
    for arguments in [&["log", "show", "log"][..], &["diff", "log", "log"]] {
        let output = run(here, arguments);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).lines().count() == 1, "{}", stderr(&output));
    }
    let output = run(here, &["top", "--once", "--at", "0s", "--log", "log"]);
    assert!(stderr(&output).contains("damaged or not a log"), "{}", stderr(&output));
}

fn survey_counter(survey: &Value, name: &str) -> Value {
    let counters = survey["counters"].as_array().unwrap();
    counters.iter().find(|counter| counter["name"] == name).unwrap()["value"].clone()
}
