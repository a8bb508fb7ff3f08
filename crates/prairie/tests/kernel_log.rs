//! `prairie explain` as it is run: on files, pipes, gzipped files, and nonsense.
#![allow(missing_docs)]

mod common;

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use common::{prairie, run, stderr, stdout};
use serde_json::Value;

fn fixture(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/fixtures/kernel-logs");
    root.join(name).to_str().unwrap().to_owned()
}

fn json(arguments: &[&str]) -> Value {
    let here = tempfile::tempdir().unwrap();
    let output = run(here.path(), &[&["explain", "--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn a_report_says_why_and_what_helps() {
    let here = tempfile::tempdir().unwrap();
    let output = run(here.path(), &["explain", &fixture("3.10-atomic-order-4.log")]);
    // Lines wrap.
    let text = stdout(&output).split_whitespace().collect::<Vec<_>>().join(" ");
    for said in [
        "order 4",
        "swapper/3",
        "GFP_ATOMIC|__GFP_COMP (0x4020)",
        "Why: fragmentation: enough memory was free, in blocks too small.",
        "min 55648 kB",
        "__GFP_HIGH: half of min",
        "example_rx_refill",
        "vm.min_free_kbytes",
        "Free blocks of zone Normal",
    ] {
        assert!(text.contains(said), "{said:?} is missing:\n{text}");
    }
}

#[test]
fn documents_have_the_arithmetic() {
    let document = json(&[&fixture("6.18-oom.log")]);
    assert_eq!(document["schema"], "prairie-explain");
    assert_eq!(document["lines"], 46);
    let incident = &document["incidents"][0];
    assert_eq!(incident["kind"], "out_of_memory");
    assert_eq!(incident["diagnosis"]["verdict"], "low_memory");
    assert_eq!(incident["victim"]["name"], "ld");
    let normal = &incident["diagnosis"]["zones"][2]["watermark"];
    assert_eq!((&normal["free_kib"], &normal["min_kib"]), (&43012.into(), &43100.into()));
    assert_eq!(incident["advice"][0]["remedy"], "swap");
}

#[test]
fn pipes_and_gzipped_files() {
    let here = tempfile::tempdir().unwrap();
    let text = fs::read(fixture("4.9-slab-order-3.log")).unwrap();
    let mut child = prairie(here.path(), &["explain", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&text).unwrap();
    let piped: Value = serde_json::from_str(&stdout(&child.wait_with_output().unwrap())).unwrap();
    let path = here.path().join("kern.log.1.gz");
    let mut gzip = flate2::write::GzEncoder::new(
        fs::File::create(&path).unwrap(),
        flate2::Compression::fast(),
    );
    gzip.write_all(&text).unwrap();
    gzip.finish().unwrap();
    let gzipped = json(&[path.to_str().unwrap()]);
    assert_eq!(piped["incidents"], gzipped["incidents"]);
    assert_eq!(piped["incidents"][0]["slab_cache"]["name"], "kmalloc-4096");
}

/// A log is often cut where a disk was full or a copy ended. What can be read holds the report.
#[test]
fn the_readable_part_of_a_damaged_archive_is_explained() {
    let here = tempfile::tempdir().unwrap();
    let mut text = fs::read(fixture("4.9-slab-order-3.log")).unwrap();
    let reported = text.iter().filter(|&&byte| byte == b'\n').count();
    // What follows compresses badly, so that half of the archive holds the whole report.
    let noise = (0..20_000_u32).map(|n| format!("[  {n}.0] {:x}\n", n.wrapping_mul(0x9e37_79b9)));
    text.extend(noise.collect::<String>().bytes());
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&text).unwrap();
    let whole = gzip.finish().unwrap();
    let half = whole.len() / 2;
    let mut damaged = whole.clone();
    damaged[half..].fill(0xff);
    for (name, bytes) in [("cut.gz", &whole[..half]), ("damaged.gz", &damaged[..])] {
        fs::write(here.path().join(name), bytes).unwrap();
        let output = run(here.path(), &["explain", name, "--json"]);
        let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(found["incidents"][0]["slab_cache"]["name"], "kmalloc-4096", "{name}");
        assert!(found["lines"].as_u64().unwrap() > reported as u64, "{name}");
        assert!(found["damage"].is_string(), "{name}");
        let said = stderr(&output);
        assert!(said.contains("damaged, read only its first"), "{name}: {said}");
        assert_eq!(said.lines().count(), 1, "{name}: {said}");
    }
    // Without a single line there is nothing to explain.
    fs::write(here.path().join("head.gz"), &whole[..12]).unwrap();
    let output = run(here.path(), &["explain", "head.gz"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot read head.gz"), "{}", stderr(&output));
}

#[test]
fn logs_without_reports_and_files_that_are_none() {
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("quiet.log"), "[    0.000000] Linux version 6.1.0\n").unwrap();
    let output = run(here.path(), &["explain", "quiet.log"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stdout(&output).contains("No page allocation failure and no OOM report"));
    fs::write(here.path().join("binary"), b"PAR1\0\0").unwrap();
    for (arguments, said) in [
        (&["explain", "missing.log"][..], "missing.log"),
        (&["explain", "binary"], "binary data, expected a kernel log"),
        (&["explain", "."], "is a directory, expected a kernel log"),
    ] {
        let output = run(here.path(), arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let line = stderr(&output);
        assert!(line.contains(said) && line.lines().count() == 1, "{line}");
    }
}

/// cron, ssh, and Ansible give an empty standard input, which is no log without reports.
#[test]
fn an_empty_standard_input_is_no_log() {
    let here = tempfile::tempdir().unwrap();
    let output = run(here.path(), &["explain"]);
    let (text, said) = (stdout(&output), stderr(&output));
    match output.status.code() {
        Some(0) => assert!(text.contains("this host's kernel log"), "{text}"),
        _ => assert!(said.contains("/dev/kmsg") && said.lines().count() == 1, "{said}"),
    }
    let output = run(here.path(), &["explain", "-"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let expected = "prairie: standard input: empty input, expected a kernel log\n";
    assert_eq!(stderr(&output), expected);
    // A file may be what is left of a failed copy.
    fs::write(here.path().join("empty.log"), "").unwrap();
    let output = run(here.path(), &["explain", "empty.log"]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert_eq!(stderr(&output), "prairie: empty.log: empty input, expected a kernel log\n");
}

#[test]
fn text_of_another_kind_is_no_log() {
    let here = tempfile::tempdir().unwrap();
    fs::write(here.path().join("notes.txt"), "Buy milk.\n\nHost down: reboot\n").unwrap();
    let output = run(here.path(), &["explain", "notes.txt"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let expected = "prairie: notes.txt: does not look like a kernel log, expected ";
    assert!(said.starts_with(expected) && said.lines().count() == 1, "{said}");
    // Without any prefix, as of `dmesg -t`.
    let first = "java invoked oom-killer: gfp_mask=0x201da, order=0, oom_score_adj=0\n";
    for text in [first, "Linux version 6.1.0 (x) #1\n", "kern  :info  : usb 1-1: new device\n"] {
        fs::write(here.path().join("kern.log"), text).unwrap();
        let output = run(here.path(), &["explain", "kern.log"]);
        assert_eq!(output.status.code(), Some(0), "{text}: {}", stderr(&output));
    }
}

#[test]
fn similar_reports_are_one_group() {
    let here = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(fixture("3.10-atomic-order-4.log")).unwrap();
    let other = text.replace("swapper/3", "swapper/11");
    let log =
        format!("{text}{other}{text}{}", fs::read_to_string(fixture("4.14-stall.log")).unwrap());
    fs::write(here.path().join("kern.log"), log).unwrap();
    let output = run(here.path(), &["explain", "kern.log", "--top", "1", "--html", "page.html"]);
    let text = stdout(&output);
    assert!(text.contains("the largest 1 of 2 groups"), "{text}");
    assert!(text.contains("waited 12 s") && !text.contains("2. order"), "{text}");
    assert!(here.path().join("page.html").is_file());
}
