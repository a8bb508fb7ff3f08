//! `prairie survey` as it is run: the real command on a host worked out by hand, on a captured
//! one, on this one, and on nonsense.
#![allow(missing_docs)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use prairie_host::PageFlags as F;
use serde_json::Value;

use common::{is_root, prairie, run, stderr, stdout, wait_for_handler};

/// Standard output of a run that must succeed.
fn succeed(directory: &Path, arguments: &[&str]) -> String {
    let output = run(directory, arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

fn json(directory: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&succeed(directory, arguments)).unwrap()
}

/// A host of 16 pageblocks in one zone:
///
/// | block | what |
/// | --- | --- |
/// | 0 | reserved |
/// | 1–4 | anonymous |
/// | 5, 6 | page cache with 1 and 2 frames of slab |
/// | 7, 8 | page cache |
/// | 9–11 | free |
/// | 12 | half anonymous, half free |
/// | 13 | no flags |
/// | 14 | page tables |
/// | 15 | free but for its last frame, which is a driver's |
fn worked_host(directory: &Path) {
    let anonymous = F::UPTODATE | F::LRU | F::MMAP | F::ANON | F::SWAPBACKED;
    let file = F::UPTODATE | F::LRU | F::OWNER_2;
    let runs = [
        (512, F::RESERVED),
        (4 * 512, anonymous),
        (511, file),
        (1, F::SLAB),
        (510, file),
        (2, F::SLAB),
        (2 * 512, file),
        (3 * 512, F::BUDDY),
        (256, anonymous),
        (256, F::BUDDY),
        (512, F::NONE),
        (512, F::PGTABLE),
        (511, F::BUDDY),
        (1, F::MMAP),
    ];
    let words: Vec<u8> = runs
        .iter()
        .flat_map(|(frames, flags)| flags.0.to_ne_bytes().repeat(*frames as usize))
        .collect();
    assert_eq!(words.len(), 8 * 8192);
    let proc = directory.join("proc");
    fs::create_dir_all(proc.join("sys/kernel")).unwrap();
    fs::write(proc.join("kpageflags"), words).unwrap();
    fs::write(
        proc.join("zoneinfo"),
        "Node 0, zone   Normal\n  pages free     2303\n        min      10\n        low      20\n\
         \x20       high     30\n        spanned  8192\n        present  8192\n        \
         managed  7680\n  start_pfn:           0\n",
    )
    .unwrap();
    // Block 9; 10 and 11; half of 12; and 15 but for its last frame: 256 + 128 + … + 1.
    fs::write(proc.join("buddyinfo"), "Node 0, zone   Normal 1 1 1 1 1 1 1 1 2 1 1\n").unwrap();
    fs::write(proc.join("meminfo"), "AnonPages: 9216 kB\nAnonHugePages: 2048 kB\n").unwrap();
    fs::write(proc.join("vmstat"), "thp_fault_fallback 7\ncompact_stall 3\n").unwrap();
    fs::write(proc.join("iomem"), "00000000-01ffffff : System RAM\n").unwrap();
    fs::write(proc.join("sys/kernel/osrelease"), "6.1.0-test\n").unwrap();
    fs::write(proc.join("sys/kernel/arch"), "x86_64\n").unwrap();
    let thp = directory.join("sys/kernel/mm/transparent_hugepage");
    fs::create_dir_all(&thp).unwrap();
    fs::write(thp.join("enabled"), "always [madvise] never\n").unwrap();
}

fn worked() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    worked_host(directory.path());
    directory
}

/// A captured Linux 6.18, its first 8192 frames.
fn captured() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/fixtures/linux-6.18/proc")
}

fn files_in(directory: &Path) -> Vec<String> {
    let name = |entry: fs::DirEntry| entry.file_name().into_string().unwrap();
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

#[test]
fn a_host_worked_by_hand() {
    let host = worked();
    let found = json(host.path(), &["survey", "--proc", "proc", "--json"]);
    assert_eq!(found["schema"], "prairie-survey");
    assert_eq!(found["prairie_version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(found["schema_version"], 1);
    assert_eq!(found["kernel_release"], "6.1.0-test");
    assert_eq!(found["left_out"].as_array().unwrap().len(), 1, "pagetypeinfo");

    let lists = &found["free_lists"];
    assert_eq!(lists["free_frames"], 2303);
    let unusable = |order: usize| lists["indices"][order]["unusable_free_space_index"].as_f64();
    assert_eq!(unusable(0), Some(0.0));
    assert_eq!(unusable(9), Some(767.0 / 2303.0));
    assert_eq!(unusable(10), Some(1279.0 / 2303.0));

    let frames = &found["frames"];
    assert_eq!(frames["present_frames"], 8192);
    let by = &frames["by_mobility"];
    // 512 + 1 + 2 + 512 + 1.
    assert_eq!((&by["unmovable"], &by["unknown"]), (&1028.into(), &512.into()));
    assert_eq!((&by["free"], &by["movable"]), (&2303.into(), &4349.into()));
    let polluted = &frames["polluted"];
    assert_eq!((&polluted["whole_blocks"], &polluted["polluted_blocks"]), (&16.into(), &5.into()));
    // 1, 1, 2, 512, 512.
    assert_eq!(polluted["median_unmovable_frames"], 2);
    assert_eq!(frames["available"][0]["blocks"], 3);
    assert_eq!(frames["available"][1]["blocks"], 1);
    let potential = &frames["potential"][0];
    assert_eq!(potential["unknown_movable"]["blocks"], 11);
    assert_eq!(potential["unknown_unmovable"]["blocks"], 10);
    assert_eq!(frames["unmovable_sources"][0]["frames"], 512);
    let slab = frames["unmovable_sources"].as_array().unwrap();
    let slab = slab.iter().find(|source| source["class"] == "slab").unwrap();
    assert_eq!((&slab["frames"], &slab["blocks_alone"]), (&3.into(), &2.into()));
    assert_eq!(found["huge_pages"]["host"]["anonymous_coverage"], 2048.0 / 9216.0);
}

#[test]
fn the_report_begins_with_the_summary_and_keeps_to_its_width() {
    let host = worked();
    let arguments = ["survey", "--proc", "proc", "--full"];
    let text = succeed(host.path(), &arguments).replace('\u{202f}', " ");
    let summary = text.find("Summary").unwrap();
    let map = text.find("Map of memory").unwrap();
    let tables = text.find("Free memory by zone").unwrap();
    assert!(summary < map && map < tables, "{text}");
    for part in [
        "33.3 %  of free memory is in pieces smaller than 2 MiB",
        "31.2 % to 37.5 %  of pageblocks are polluted",
        "62.5 % to 68.8 %  of memory is in 2 MiB blocks without an unmovable frame",
        "22.2 %  of anonymous memory is on huge pages",
        "Free memory is slightly fragmented: of 9 MiB, 66.7 % can serve a 2 MiB request",
        "half of these blocks hold 2 or fewer of 512",
        "1028 unmovable frames (12.5 % of memory) in 5 of 16 blocks of 2 MiB (31.2 %).",
        "Not shown: free blocks and pageblocks by migrate type.",
        "only where a program asks with madvise(MADV_HUGEPAGE)",
        "page faults that wanted a huge page and got small ones",
    ] {
        // Prose is wrapped wherever a line ends.
        let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let part = part.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(flat.contains(&part), "{part:?} is not in:\n{text}");
    }
    assert!(!text.contains('\x1b'), "no color in a pipe");
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 100, "{widest} columns");
    let without = succeed(host.path(), &["survey", "--proc", "proc", "--full", "--no-map"]);
    assert!(!without.contains("Map of memory"));
}

#[test]
fn colors_are_used_where_they_are_wanted() {
    let host = worked();
    let mut command = prairie(host.path(), &["survey", "--proc", "proc", "--full"]);
    let output = command.env("CLICOLOR_FORCE", "1").env("COLORTERM", "truecolor").output().unwrap();
    // Headings are bold; the map of a pipe stays in letters.
    assert!(stdout(&output).contains("\x1b[1mMap of memory"), "{}", stdout(&output));
}

/// A document without its command line and inputs, which differ.
fn without_provenance(mut document: Value) -> Value {
    let provenance = document.as_object_mut().unwrap().remove("provenance");
    assert!(provenance.is_some(), "every document has its provenance");
    document
}

#[test]
fn the_first_screen_has_verdicts_and_fits() {
    let host = worked();
    let text = succeed(host.path(), &["survey", "--proc", "proc"]);
    assert!(text.lines().count() <= 24 && text.is_ascii(), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    for (value, verdict, better) in [
        ("33.3 %", "good", "lower"),
        ("31.2 %", "fair", "lower"),
        ("62.5 % to 68.8 %", "fair", "higher"),
        ("22.2 %", "poor", "higher"),
    ] {
        let line = text.lines().find(|line| line.trim_start().starts_with(value));
        let line = line.unwrap_or_else(|| panic!("no {value}:\n{text}"));
        assert!(line.contains(verdict) && line.contains(better), "{line}");
    }
    let sources: Vec<&str> =
        text.lines().filter(|line| line.contains("of polluted pageblocks")).collect();
    assert_eq!(sources.len(), 3, "{text}");
    assert!(text.trim_end().ends_with("--html FILE"), "{text}");
}

/// A machine soon after boot: the kernel has initialized one section of 128 MiB of eight.
#[test]
fn uninitialized_memory_is_apart() {
    let host = tempfile::tempdir().unwrap();
    worked_host(host.path());
    let proc = host.path().join("proc");
    let mut words = fs::read(proc.join("kpageflags")).unwrap();
    words.resize((8 * 32768) * 8, 0);
    fs::write(proc.join("kpageflags"), words).unwrap();
    fs::write(proc.join("iomem"), "00000000-3fffffff : System RAM\n").unwrap();
    let zone = fs::read_to_string(proc.join("zoneinfo")).unwrap();
    let zone = zone
        .replace("spanned  8192", "spanned  262144")
        .replace("present  8192", "present  262144");
    fs::write(proc.join("zoneinfo"), zone).unwrap();
    let found = json(host.path(), &["survey", "--proc", "proc", "--json"]);
    let initialized = &found["frames"]["initialized"];
    assert_eq!(initialized["share_of_memory"], 0.125, "{initialized}");
    // 5 of the 64 pageblocks of the section are polluted; the others of it have no unmovable frame.
    assert_eq!(initialized["polluted_share"], 5.0 / 64.0);
    assert_eq!(initialized["potential_2_mib_max"], 59.0 / 64.0);
    assert_eq!(initialized["potential_2_mib_min"], 10.0 / 64.0);
    let text = succeed(host.path(), &["survey", "--proc", "proc"]);
    assert!(
        text.contains("initialized memory; 87.5 % of all memory is not initialized yet"),
        "{text}"
    );
    let text = succeed(host.path(), &["survey", "--proc", "proc", "--section", "summary"]);
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("7.8 % to 84.4 % of initialized pageblocks are polluted"), "{text}");
    assert!(flat.contains("Unmovable frames are 3.1 % of initialized memory"), "{text}");
}

#[test]
fn sections_and_formats() {
    let host = worked();
    let sections = |names: &str, more: &[&str]| {
        let arguments = [&["survey", "--proc", "proc", "--section", names], more].concat();
        succeed(host.path(), &arguments)
    };
    let text = sections("huge,free", &[]);
    assert!(text.contains("Free memory by zone") && text.contains("Huge pages in use"), "{text}");
    assert!(!text.contains("Summary") && !text.contains("Memory by class"), "{text}");
    let narrow = sections("free", &["--width", "60"]);
    assert!(narrow.lines().all(|line| line.chars().count() <= 60), "{narrow}");
    let markdown = sections("polluted", &["--format", "md"]);
    assert!(markdown.starts_with("# ") && markdown.contains("| source |"), "{markdown}");
    let csv = sections("advice", &["--format", "csv"]);
    let row = "Verdicts and advice,Verdicts,pageblocks polluted by unmovable frames,value,";
    assert!(csv.contains(row), "{csv}");
    let csv = sections("polluted", &["--format", "csv"]);
    assert!(csv.starts_with("section,table,row,column,value\n"), "{csv}");
    assert!(csv.contains("Unmovable memory by source,slab,memory,12 KiB\n"), "{csv}");
    let as_json = json(host.path(), &["survey", "--proc", "proc", "--format", "json"]);
    assert_eq!(as_json["schema"], "prairie-survey");
    sections("free,map", &["--svg", "charts"]);
    let charts = files_in(&host.path().join("charts"));
    assert!(charts.len() == 2 && charts.iter().all(|name| name.ends_with(".svg")), "{charts:?}");
    // The first screen has none; these are of the whole report.
    for (folder, more) in [("first", None), ("full", Some("--full")), ("json", Some("--json"))] {
        let arguments = ["survey", "--proc", "proc", "--svg", folder];
        succeed(host.path(), &[&arguments[..], more.as_slice()].concat());
    }
    let names = |folder: &str| files_in(&host.path().join(folder));
    assert!(names("full").len() > 2, "{:?}", names("full"));
    assert_eq!((names("first"), names("json")), (names("full"), names("full")));
    let wrong = run(host.path(), &["survey", "--section", "fre"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("free"), "the nearest name: {}", stderr(&wrong));
}

#[test]
fn every_output_says_where_it_comes_from() {
    let host = worked();
    let here = host.path();
    succeed(here, &["survey", "--proc", "proc", "--save", "host.parquet"]);
    let found = json(here, &["survey", "--from", "host.parquet", "--html", "a b.html", "--json"]);
    let block = &found["provenance"];
    let command = block["command"].as_str().unwrap();
    assert!(command.ends_with("survey --from host.parquet --html 'a b.html' --json"), "{command}");
    assert_eq!(block["version"], env!("CARGO_PKG_VERSION"));
    let input = &block["inputs"][0];
    let bytes = fs::metadata(here.join("host.parquet")).unwrap().len();
    assert_eq!((&input["path"], &input["bytes"]), (&"host.parquet".into(), &bytes.into()));
    assert_eq!(input["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(block["seed"], Value::Null);
    let html = fs::read_to_string(here.join("a b.html")).unwrap();
    let (_, rest) = html.split_once("id=\"provenance\">").unwrap();
    let (embedded, _) = rest.split_once("</script>").unwrap();
    assert_eq!(serde_json::from_str::<Value>(embedded).unwrap(), *block);
    let parquet = fs::read(here.join("host.parquet")).unwrap();
    let file = String::from_utf8_lossy(&parquet);
    assert!(file.contains("prairie.provenance") && file.contains("--save host.parquet"));
}

#[test]
fn rows_are_repeated_until_interrupted() {
    let host = worked();
    let every = ["survey", "--proc", "proc", "--host", "h1", "--summary", "-", "--every", "10ms"];
    let mut child =
        prairie(host.path(), &every).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let rows: Vec<String> = lines.take(3).map(Result::unwrap).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(rows.iter().all(|row| row.contains("\"host\":\"h1\"")), "{rows:?}");
}

#[test]
fn a_summary_is_one_row() {
    let host = worked();
    let here = host.path();
    let labels = ["--label", "rack=r7", "--label", "role=a b"];
    let row = |file: &str| {
        let survey = ["survey", "--proc", "proc", "--host", "h1", "--summary", file];
        succeed(here, &[&survey[..], &labels[..]].concat())
    };
    let line = row("-");
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.len() < 1000, "{} bytes", line.len());
    let found: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(
        (&found["schema"], &found["kernel"]),
        (&"prairie-host-row".into(), &"6.1.0-test".into())
    );
    assert_eq!((&found["labels"]["rack"], &found["labels"]["role"]), (&"r7".into(), &"a b".into()));
    assert_eq!((&found["polluted_min"], &found["polluted_max"]), (&0.3125.into(), &0.375.into()));
    assert_eq!(found["unmovable_max"], 0.187988);
    fs::create_dir(here.join("rows")).unwrap();
    row("rows");
    assert_eq!(files_in(&here.join("rows")).len(), 1);
    let (json, parquet) = (row("rows/b.jsonl"), row("rows/c.parquet"));
    assert_eq!((json.as_str(), parquet.as_str()), ("", ""));
    let report = succeed(here, &["fleet", "report", "rows", "--by", "rack,kernel"]);
    assert!(
        report.contains("3 rows of 1 host, 1 group") && report.contains("r7 6.1.0-test"),
        "{report}"
    );
    let other = ["survey", "--proc", "proc", "--host", "h2", "--summary", "rows/d.jsonl"];
    succeed(here, &other);
    let report = succeed(here, &["fleet", "report", "rows"]);
    assert!(report.contains("4 rows of 2 hosts"), "{report}");
    for (wrong, expected) in [
        // Before anything is read.
        (&["--proc", "nowhere", "--summary", "-"][..], "expected --host"),
        (&["--summary", "rows.csv"][..], "rows.csv: unknown ending"),
        (&["--summary", "rows.jsonl", "--every", "1s"][..], "expected a directory or -"),
    ] {
        let output = run(here, &[&["survey"], wrong].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    }
    for wrong in ["rack", "=x", "a b=c"] {
        let output = run(here, &["survey", "--summary", "-", "--label", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
    }
}

#[test]
fn a_saved_survey_gives_the_same_report_elsewhere() {
    let host = worked();
    let now = ["survey", "--proc", "proc", "--save", "host.parquet", "--json"];
    let live = json(host.path(), &now);
    let later = json(host.path(), &["survey", "--from", "host.parquet", "--json"]);
    assert_eq!(without_provenance(live), without_provenance(later));
    let bytes = fs::metadata(host.path().join("host.parquet")).unwrap().len();
    assert!(bytes < 64 << 10, "{bytes} bytes for 16 blocks");

    let proc = captured();
    let proc = proc.to_str().unwrap();
    let live = json(host.path(), &["survey", "--proc", proc, "--save", "c.parquet", "--json"]);
    let later = json(host.path(), &["survey", "--from", "c.parquet", "--json"]);
    assert_eq!(later["zones"][0]["zone"], "DMA");
    assert_eq!(without_provenance(live), without_provenance(later));
}

#[test]
fn pages_and_pictures_are_written_whole() {
    let host = worked();
    let files = ["--html", "host.html", "--map", "host.svg"];
    let text = run(host.path(), &[&["survey", "--proc", "proc"], &files[..]].concat());
    assert_eq!(text.status.code(), Some(0), "{}", stderr(&text));
    assert_eq!(stderr(&text), "prairie: wrote host.html\nprairie: wrote host.svg\n");
    let html = fs::read_to_string(host.path().join("host.html")).unwrap();
    assert!(html.contains("Summary") && html.trim_end().ends_with("</html>"));
    let light = fs::read_to_string(host.path().join("host.svg")).unwrap();
    assert!(light.starts_with("<svg") && light.contains("polluted"));
    let dark =
        ["survey", "--proc", "proc", "--map", "dark.svg", "--theme", "dark", "--cell", "64K"];
    succeed(host.path(), &dark);
    let dark = fs::read_to_string(host.path().join("dark.svg")).unwrap();
    assert!(dark.len() > light.len() && dark.contains("64\u{202f}KiB"));
    succeed(host.path(), &["survey", "--proc", "proc", "--map", "host.png"]);
    let png = fs::read(host.path().join("host.png")).unwrap();
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n"));
    let names = ["dark.svg", "host.html", "host.png", "host.svg", "proc", "sys"];
    assert_eq!(files_in(host.path()), names, "nothing beside them");
}

#[test]
fn bad_input_gets_one_line() {
    let host = worked();
    let here = host.path();
    fs::create_dir(here.join("empty")).unwrap();
    fs::write(here.join("text.parquet"), "not Parquet").unwrap();
    succeed(here, &["survey", "--proc", "proc", "--save", "whole.parquet"]);
    let whole = fs::read(here.join("whole.parquet")).unwrap();
    fs::write(here.join("cut.parquet"), &whole[..whole.len() / 2]).unwrap();
    for (name, file, text) in [
        ("bad-buddy", "buddyinfo", "Node 0, zone Normal one two\n"),
        ("bad-zone", "zoneinfo", "Node 0, zone Elsewhere\n"),
        ("bad-flags", "kpageflags", "1234567"),
    ] {
        let proc = here.join(name).join("proc");
        worked_host(&here.join(name));
        fs::write(proc.join(file), text).unwrap();
    }
    let before = files_in(here);
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--from", "missing.parquet"], 1, "cannot read missing.parquet: No such file"),
        (&["--from", "text.parquet"], 1, "text.parquet: not a complete Parquet file"),
        (&["--from", "cut.parquet"], 1, "cut.parquet: not a complete Parquet file"),
        (&["--from", "proc"], 1, "proc: "),
        (&["--proc", "nowhere"], 1, "nowhere: no such directory, expected a /proc tree"),
        (&["--proc", "empty"], 1, "empty: no buddyinfo in it"),
        (
            &["--proc", "proc/buddyinfo"],
            1,
            "proc/buddyinfo: not a directory, expected a /proc tree",
        ),
        (&["--proc", "bad-buddy/proc"], 1, "proc/buddyinfo, line 1: expected"),
        (&["--proc", "bad-zone/proc"], 1, "proc/zoneinfo, line 1: expected"),
        (&["--proc", "bad-flags/proc"], 1, "kpageflags: ends at byte 7"),
        (&["--proc", "proc", "--html", "no/where.html"], 1, "there is no directory no"),
        (&["--proc", "proc", "--html", "empty"], 1, "cannot write empty: is a directory"),
        (&["--proc", "proc", "--save", "empty"], 1, "cannot write empty: "),
        (&["--proc", "proc", "--html", "/dev/full"], 1, "cannot write /dev/full: No space left"),
        (
            &["--proc", "proc", "--host", "h1", "--summary", "-", "--json"],
            2,
            "--summary - with --json: both print on standard output",
        ),
        (&["--proc", "proc", "--map", "map.jpeg"], 2, "a name that ends in .png or .svg"),
        (&["--proc", "proc", "--cell", "3M"], 2, "a power of two from 4K to 1T"),
        (&["--proc", "proc", "--threads", "0"], 2, "--threads"),
        (&["--proc", "proc", "--threads", "100000"], 2, "a number from 1 to 1024"),
        (&["--proc", "proc", "--from", "whole.parquet"], 2, "cannot be used with"),
        (&["--proc"], 2, "a value is required"),
        (&["--unheard-of"], 2, "--unheard-of"),
    ];
    for (arguments, code, message) in cases {
        let output = run(here, &[&["survey"], *arguments].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(*code), "{arguments:?}: {said}");
        assert!(said.contains(message), "{arguments:?}: {said}");
        if *code == 1 {
            assert!(said.starts_with("prairie: "), "{arguments:?}: {said}");
            assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
        }
        assert_eq!(files_in(here), before, "{arguments:?} left something behind");
    }
}

#[test]
fn a_newer_format_asks_for_a_newer_prairie() {
    let host = worked();
    succeed(host.path(), &["survey", "--proc", "proc", "--save", "host.parquet"]);
    let path = host.path().join("host.parquet");
    let mut bytes = fs::read(&path).unwrap();
    let key = b"prairie.schema_version";
    let Some(at) = bytes.windows(key.len()).position(|window| window == key) else {
        panic!("the file's metadata does not tell its version");
    };
    // The value follows its key after two bytes of framing.
    let digit = (at + key.len()..at + key.len() + 8).find(|&i| bytes[i].is_ascii_digit()).unwrap();
    bytes[digit] = b'9';
    fs::write(&path, bytes).unwrap();
    let output = run(host.path(), &["survey", "--from", "host.parquet"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("read it with a newer Prairie"), "{}", stderr(&output));
}

#[test]
fn an_interruption_leaves_nothing_behind() {
    let host = worked();
    // A sparse file, too large to read to its end.
    let flags = fs::File::options().write(true).open(host.path().join("proc/kpageflags")).unwrap();
    flags.set_len(1 << 40).unwrap();
    let before = files_in(host.path());
    let arguments =
        ["survey", "--proc", "proc", "--save", "s.parquet", "--html", "s.html", "--map", "s.png"];
    let mut child = prairie(host.path(), &arguments)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_handler(child.id());
    // By now it reads frames.
    sleep(Duration::from_millis(50));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(said, "prairie: interrupted\n");
    assert_eq!(files_in(host.path()), before);
}

#[test]
fn this_host_as_root() {
    if !is_root() || !Path::new("/proc/kpageflags").exists() {
        prairie_testing::skip("needs root and /proc/kpageflags");
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let live = ["survey", "--save", "host.parquet", "--html", "host.html", "--map", "host.svg"];
    let found = json(here.path(), &[&live[..], &["--json"]].concat());
    let later = json(here.path(), &["survey", "--from", "host.parquet", "--json"]);
    let found = without_provenance(found);
    assert!(found == without_provenance(later), "the saved state is another one");
    let present = found["cross_checks"].as_array().unwrap();
    let present = present.iter().find(|check| check["what"] == "frames that exist").unwrap();
    assert_eq!(present["by_flags_frames"], present["by_kernel_frames"]);
    for zone in found["zones"].as_array().unwrap() {
        assert_ne!(zone["extent"]["present_frames"], 0, "{}", zone["zone"]);
    }
}

/// Files that cannot be read although root asks, as in a container: root cannot become root.
#[test]
fn root_is_not_told_to_run_as_root() {
    let host = worked();
    let proc = host.path().join("proc");
    for file in ["kpageflags", "iomem", "vmstat", "pagetypeinfo"] {
        // The host lacks the last one.
        let _ = fs::remove_file(proc.join(file));
        fs::create_dir(proc.join(file)).unwrap();
    }
    let proc = proc.to_str().unwrap();
    for args in [["survey", "--proc", proc].as_slice(), &["survey", "--full", "--proc", proc]] {
        let output = run(host.path(), args);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let text = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(text.contains("run as root"), !is_root(), "{text}");
        assert_eq!(text.contains("with CAP_SYS_ADMIN"), is_root(), "{text}");
    }
}

#[test]
fn this_host_as_nobody() {
    if !is_root() {
        prairie_testing::skip("needs root to become another user");
        return;
    }
    // Where that user can reach it.
    let here = tempfile::tempdir().unwrap();
    fs::set_permissions(here.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = here.path().join("prairie");
    fs::copy(env!("CARGO_BIN_EXE_prairie"), &binary).unwrap();
    let output = Command::new(&binary)
        .args(["survey", "--full"])
        .uid(65534)
        .gid(65534)
        .current_dir("/")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("Not shown: "), "{text}");
    assert!(text.contains("To get it: run as root (sudo)"), "{text}");
    assert!(text.contains("of free memory is in pieces smaller than"), "{text}");
    assert!(!text.contains("Map of memory"));
}

#[test]
fn help_has_examples_and_exit_codes() {
    let here = tempfile::tempdir().unwrap();
    let help = succeed(here.path(), &["survey", "--help"]);
    for part in ["Examples:", "Exit codes:", "--save <FILE.parquet>", "--cell <SIZE>", "130"] {
        assert!(help.contains(part), "{part:?} is not in:\n{help}");
    }
}

/// A report over saved surveys has the bounds that the survey of each file has, skips and names
/// what it cannot read, and refuses it with `--strict`.
#[test]
fn a_fleet_report_has_the_bounds_of_its_surveys() {
    let host = worked();
    let here = host.path();
    fs::create_dir(here.join("surveys")).unwrap();
    let survey = json(here, &["survey", "--proc", "proc", "--save", "surveys/h.parquet", "--json"]);
    let found = json(here, &["fleet", "report", "surveys", "--json"]);
    let potential = &survey["frames"]["potential"];
    let blocks = |size: usize, unknown: &str| potential[size][unknown]["blocks"].clone();
    let row = &found["rows"][0];
    for (size, name) in [(0, "mib_2"), (1, "mib_32"), (2, "gib_1")] {
        assert_eq!(row["potential_min"][name], blocks(size, "unknown_unmovable"));
        assert_eq!(row["potential_max"][name], blocks(size, "unknown_movable"));
    }
    assert_ne!(row["potential_min"]["mib_2"], row["potential_max"]["mib_2"], "{row}");
    assert!(row.get("allocations").is_none(), "no counters of a simulation: {row}");
    assert_eq!(row["free_frames"], survey["frames"]["by_mobility"]["free"]);
    let share = |unknown: &str| potential[0][unknown]["share_of_memory"].as_f64().unwrap();
    let mean = &found["systems"][0]["potential"][0];
    assert!((mean["min"].as_f64().unwrap() - share("unknown_unmovable")).abs() < 1e-9);
    assert!((mean["max"].as_f64().unwrap() - share("unknown_movable")).abs() < 1e-9);
    let text = succeed(here, &["fleet", "report", "surveys"]);
    assert!(text.contains(" to ") && !text.contains("border"), "{text}");

    fs::write(here.join("surveys/text.parquet"), "not Parquet").unwrap();
    let found = json(here, &["fleet", "report", "surveys", "--json"]);
    assert_eq!(found["rows"].as_array().unwrap().len(), 1);
    assert_eq!(found["skipped"][0]["file"], "text.parquet");
    let output = run(here, &["fleet", "report", "surveys"]);
    assert!(stdout(&output).contains("skipped: 1 (text.parquet)"), "{}", stdout(&output));
    assert!(stderr(&output).contains("skipped text.parquet: "), "{}", stderr(&output));
    let output = run(here, &["fleet", "report", "surveys", "--strict"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("text.parquet"), "{}", stderr(&output));
}
