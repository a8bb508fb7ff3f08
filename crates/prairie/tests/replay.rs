//! `prairie replay` as it is run: on the recording in `data/`, on activity recorded here and now
//! where this machine lets itself be recorded, on another tool's trace, and on nonsense.
#![allow(missing_docs)]

mod common;

use std::fs;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

use common::{files_in, run, stderr};

const RECORDING: &str = "../../data/mixed.parquet";

/// The document of a replay with `--json`.
fn replayed(directory: &Path, arguments: &[&str]) -> Value {
    let output = run(directory, &[&["replay", "--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn project(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

fn systems(replay: &Value) -> &[Value] {
    replay["systems"].as_array().unwrap()
}

fn end(system: &Value) -> &Value {
    system["samples"].as_array().unwrap().last().unwrap()
}

fn potential_1_gib(replay: &Value, name: &str) -> u64 {
    let system = systems(replay).iter().find(|system| system["system"] == name).unwrap();
    end(system)["potential_blocks"]["gib_1"].as_u64().unwrap()
}

#[test]
fn the_recording_that_ships_under_three_systems() {
    let here = tempfile::tempdir().unwrap();
    let recording = project(RECORDING);
    let replay = replayed(here.path(), &[&recording, "--out", "samples.parquet"]);
    assert_eq!(
        (&replay["schema"], &replay["interrupted"]),
        (&"prairie-replay".into(), &false.into())
    );
    let names: Vec<&Value> = systems(&replay).iter().map(|system| &system["system"]).collect();
    assert_eq!(names, ["buddy", "linux", "contiguitas"]);
    let first = &systems(&replay)[0];
    let instants = |system: &Value| -> Vec<(u64, u64)> {
        let samples = system["samples"].as_array().unwrap().iter();
        samples.map(|s| (s["time_ns"].as_u64().unwrap(), s["events"].as_u64().unwrap())).collect()
    };
    for system in systems(&replay) {
        for count in ["allocations", "allocated_frames", "frees", "frees_of_unknown"] {
            assert_eq!(system["counts"][count], first["counts"][count], "{count}");
        }
        // data/README.md names these figures.
        assert_eq!(system["counts"]["allocations"], 521_776);
        assert_eq!(system["counts"]["frees"], 606_865);
        assert_eq!(system["counts"]["failed_allocations"], 0);
        assert_eq!(instants(system), instants(first));
        assert_eq!(end(system)["events"], replay["events"]);
        for figure in ["frames", "free_frames", "unmovable_frames"] {
            assert_eq!(end(system)[figure], end(first)[figure], "{figure}");
        }
    }
    let zones = replay["distance_to_kernel"].as_array().unwrap();
    assert_eq!(zones.len(), 3);

    let rows: usize = systems(&replay).iter().map(|system| instants(system).len()).sum();
    let file = fs::File::open(here.path().join("samples.parquet")).unwrap();
    let samples = SerializedFileReader::new(file).unwrap();
    assert_eq!(samples.metadata().file_metadata().num_rows(), rows as i64);
    assert_eq!(samples.get_row_iter(None).unwrap().count(), rows);

    // Results depend neither on threads nor on chance.
    let results = |mut replay: Value| {
        // It names the command line.
        replay["provenance"].take();
        replay
    };
    let replay = results(replay);
    let in_turn = replayed(here.path(), &[&recording, "--in-turn"]);
    assert!(replay == results(in_turn), "in turn it differs");
    assert!(replay == results(replayed(here.path(), &[&recording])), "a second time it differs");
}

#[test]
fn without_a_burdened_past_contiguitas_keeps_more_gigantic_pages() {
    let here = tempfile::tempdir().unwrap();
    let recording = project(RECORDING);
    let arguments = [&recording, "--initial", "replaced", "--systems", "linux,contiguitas"];
    let replay = replayed(here.path(), &arguments);
    assert_eq!(replay["systems"][0]["initial"], "replaced");
    assert_eq!(replay["systems"][0]["counts"]["initial_without_place"], 0);
    assert!(potential_1_gib(&replay, "contiguitas") > potential_1_gib(&replay, "linux"));
    // The kernel's state says nothing about memory that was re-placed.
    assert_eq!(replay["distance_to_kernel"], Value::Array(Vec::new()));
}

/// Runs what must fail with one line and leave no file behind.
fn refused(directory: &Path, arguments: &[&str], why: &str) {
    let before = files_in(directory);
    let output = run(directory, &[&["replay"], arguments].concat());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    assert!(said.starts_with("prairie: ") && said.lines().count() == 1, "{arguments:?}: {said}");
    assert!(said.contains(why), "{arguments:?}: {said}");
    assert_eq!(files_in(directory), before, "{arguments:?}");
}

#[test]
fn what_cannot_be_replayed() {
    let here = tempfile::tempdir().unwrap();
    let directory = here.path();
    let recording = project(RECORDING);
    let whole = fs::read(&recording).unwrap();
    for (name, length) in
        [("cut-4", 4), ("cut-5", 5), ("cut-half", whole.len() / 2), ("cut-1", whole.len() - 1)]
    {
        fs::write(directory.join(name), &whole[..length]).unwrap();
        refused(directory, &[name, "--out", "samples.parquet"], "not a complete Parquet file");
    }
    fs::write(directory.join("prose"), "It was a dark and stormy night.\n").unwrap();
    fs::write(directory.join("empty"), "").unwrap();
    let failed = "x-1 [000] 1.5: mm_page_alloc: page=(nil) pfn=-1 order=9 migratetype=1 \
                  gfp_flags=GFP_TRANSHUGE\n";
    fs::write(directory.join("frameless"), failed).unwrap();
    let freed = "x-1 [000] 1.5: mm_page_free: page=(nil) pfn=-1 order=0\n";
    fs::write(directory.join("beyond"), freed).unwrap();
    for (arguments, why) in [
        (&["missing"][..], "cannot read missing: No such file or directory\n"),
        (&["prose"], "no event of the page allocator"),
        (&["empty"], "empty"),
        (&["frameless"], "frameless: no frame numbers in the trace, expected --memory SIZE\n"),
        (
            &["beyond"],
            "beyond: the zones span 18446744073709551615 frames; at most 4294967295 (16 TiB) fit",
        ),
        (&["."], "cannot read ."),
        (&[&recording, "--out", "no/such/a.parquet"], "no/such"),
        (&[&recording, "--html", "no/such/a.html"], "no/such"),
    ] {
        refused(directory, arguments, why);
    }
}

#[test]
fn command_lines_that_are_not_understood() {
    let here = tempfile::tempdir().unwrap();
    for (arguments, said) in [
        (&["a", "--kernelcore", "101%"][..], "a share from 1% to 100%"),
        (&["a", "--kernelcore", "much"][..], "a size such as"),
        (&["a", "--systems", "best"][..], "`best`: unknown allocator; known are buddy, lists, "),
        (&["a", "--systems", "linux,buddy,linux"], "`linux` is named twice"),
        (&["a", "--systems", "linux+no-kcompactd"], "no effect in a replay"),
        (&["a", "--memory", "nonsense"], "a size such as 512M or 64G"),
        (&["a", "--memory", "0"], "at least 2M"),
        (&["a", "--initial", "empty"], "as-found, replaced"),
        (&["a", "--every", "often"], "--every"),
        (&["a", "--survey"], "--html"),
        (&[], "<FILE>"),
    ] {
        let output = run(here.path(), &[&["replay"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(said), "{arguments:?}: {}", stderr(&output));
    }
    assert!(files_in(here.path()).is_empty());
}

#[test]
fn another_tools_trace() {
    let here = tempfile::tempdir().unwrap();
    let event = |at: u32, what: &str| format!("cc 7 [000] 10.{at:06}: kmem:{what}\n");
    let alloc = |at, pfn: &str, order| {
        let fields = "migratetype=1 gfp_flags=GFP_HIGHUSER_MOVABLE";
        event(at, &format!("mm_page_alloc: page={pfn} pfn={pfn} order={order} {fields}"))
    };
    let free = |at, pfn: &str, order| {
        event(at, &format!("mm_page_free: page={pfn} pfn={pfn} order={order}"))
    };
    let text = [
        alloc(1, "0x233832", 0),
        alloc(2, "0x234000", 9),
        free(3, "0x233832", 0),
        alloc(4, "0x233832", 0),
        free(5, "0x234001", 0),
        free(6, "0x150000", 0),
    ];
    fs::write(here.path().join("perf.txt"), text.concat()).unwrap();
    let replay = replayed(here.path(), &["perf.txt", "--memory", "16G"]);
    // The name of the process is a row of its own.
    assert_eq!((&replay["events"], &replay["duration_ns"]), (&7.into(), &5_000.into()));
    for system in systems(&replay) {
        let counts = &system["counts"];
        assert_eq!((&counts["allocations"], &counts["frees"]), (&3.into(), &3.into()));
        // One frame of the huge page is freed separately; 0x150000 was not in use.
        assert_eq!(counts["frees_of_unknown"], 1);
        assert_eq!(end(system)["frames"], 4_u64 << 20);
        assert_eq!(end(system)["free_frames"], (4_u64 << 20) - 512);
    }
    // Without a size the machine ends where the trace does, above which nothing is outside.
    let replay = replayed(here.path(), &["perf.txt", "--systems", "linux"]);
    assert_eq!(end(&systems(&replay)[0])["frames"], 0x234200);
    assert_eq!(systems(&replay)[0]["counts"]["outside_zones"], 0);
    let replay = replayed(here.path(), &["perf.txt", "--systems", "linux", "--memory", "8G"]);
    assert_eq!(systems(&replay)[0]["counts"]["outside_zones"], 5);
}

#[test]
fn recorded_here_and_replayed() {
    let here = tempfile::tempdir().unwrap();
    let work =
        "i=0; while [ $i -lt 300 ]; do head -c 200000 /dev/zero >f; sh -c :; i=$((i+1)); done";
    let record = ["record", "-o", "a.parquet", "--", "sh", "-c", work];
    let zoneinfo_before = fs::read_to_string("/proc/zoneinfo").unwrap();
    let reclaimed_before = reclaimed();
    let output = run(here.path(), &record);
    if !output.status.success() {
        // To be root is not enough in a container.
        prairie_testing::skip(stderr(&output).trim_end());
        return;
    }
    let zoneinfo_after = fs::read_to_string("/proc/zoneinfo").unwrap();
    let reclaims = reclaimed() != reclaimed_before;
    let replay = replayed(here.path(), &["a.parquet", "--systems", "linux"]);
    let counts = &systems(&replay)[0]["counts"];
    assert!(counts["allocations"].as_u64() > Some(1000), "{counts}");
    eprintln!("{} of {} on the same frame", counts["same_frame"], counts["allocations"]);
    let zones = replay["distance_to_kernel"].as_array().unwrap();
    let buddyinfo = fs::read_to_string("/proc/buddyinfo").unwrap();
    assert_eq!(zones.len(), buddyinfo.lines().count());
    let mut total = [0.0; 3];
    for zone in zones {
        let of = |figure: &str| zone[figure].as_f64().unwrap();
        let (kernel, replay) = (of("kernel_free_frames"), of("replay_free_frames"));
        eprintln!(
            "{}: free frames {kernel} and {replay}, F_u(9) {:.3} and {:.3}",
            zone["zone"],
            of("kernel_unusable_2_mib"),
            of("replay_unusable_2_mib")
        );
        let blocks = |figure: &str| zone[figure].as_array().unwrap().clone();
        for (j, (kernel, replay)) in
            blocks("kernel_free_blocks").iter().zip(blocks("replay_free_blocks")).enumerate()
        {
            eprintln!("  order {j}: {kernel} and {replay} free blocks");
        }
        let managed = |text: &str| {
            managed_frames(text, zone["node"].as_u64().unwrap(), zone["zone"].as_str().unwrap())
        };
        if managed(&zoneinfo_before) != managed(&zoneinfo_after) {
            eprintln!("  not compared: the kernel initialized more memory meanwhile");
            continue;
        }
        let managed = managed(&zoneinfo_after);
        for (sum, value) in total.iter_mut().zip([kernel, replay, managed]) {
            *sum += value;
        }
        // Others allocate while the two are read.
        let is_near = (kernel - replay).abs() < 0.05 * managed;
        // A kernel that reclaims when a zone runs low stays in it, where the replay goes to the next.
        assert!(is_near || reclaims, "{zone}");
    }
    let [kernel, replay, managed] = total;
    assert!((kernel - replay).abs() <= 0.05 * managed, "{kernel} and {replay} of {managed}");
}

/// Pages that the kernel has reclaimed since it booted.
fn reclaimed() -> u64 {
    let vmstat = fs::read_to_string("/proc/vmstat").unwrap();
    let counters = vmstat.lines().filter_map(|line| line.split_once(' '));
    let steals = counters.filter(|(name, _)| matches!(*name, "pgsteal_kswapd" | "pgsteal_direct"));
    steals.map(|(_, value)| value.parse::<u64>().unwrap()).sum()
}

/// Frames that the kernel manages in a zone, by the text of its `zoneinfo`.
fn managed_frames(text: &str, node: u64, zone: &str) -> f64 {
    let is_head = |line: &&str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words == ["Node", &format!("{node},"), "zone", zone]
    };
    let mut lines = text.lines().skip_while(|line| !is_head(line));
    lines.find_map(|line| line.trim().strip_prefix("managed ")?.trim().parse().ok()).unwrap()
}

/// Without `--kernelcore` the zone for easily reclaimed pages is empty, and `zones` is `buddy`; with
/// it, the recording's movable memory leaves the rest of the machine to the kernel.
#[test]
fn the_2006_strategies_on_the_recording_that_ships() {
    let here = tempfile::tempdir().unwrap();
    let recording = project(RECORDING);
    let arguments = [&recording, "--initial", "replaced", "--systems", "buddy,lists,zones"];
    let replay = replayed(here.path(), &arguments);
    let [buddy, lists, zones] = systems(&replay) else { panic!("three systems") };
    assert_eq!(end(zones), end(buddy));
    assert_eq!(lists["counts"]["failed_allocations"], 0);
    let polluted = |system: &Value| end(system)["polluted_blocks"].as_u64().unwrap();
    assert!(polluted(lists) < polluted(buddy), "{} and {}", polluted(lists), polluted(buddy));
    let arguments =
        [&recording, "--initial", "replaced", "--systems", "zones", "--kernelcore", "50%"];
    let replay = replayed(here.path(), &arguments);
    let [zones] = systems(&replay) else { panic!("one system") };
    assert_eq!(zones["counts"]["failed_allocations"], 0);
    assert!(polluted(zones) < polluted(buddy), "{} and {}", polluted(zones), polluted(buddy));
}

/// The shipped recording is of 6.18.
#[test]
fn linux_follows_the_rules_of_the_recorded_kernel() {
    let here = tempfile::tempdir().unwrap();
    let recording = project(RECORDING);
    let plain = replayed(here.path(), &[&recording, "--systems", "linux"]);
    let named = replayed(here.path(), &[&recording, "--systems", "linux@6.18"]);
    let rules = serde_json::json!({ "release": "6.18", "validated": true, "note": null });
    assert_eq!(plain["linux_rules"], rules);
    assert_eq!(plain["systems"][0]["system"], "linux");
    for same in ["counts", "samples"] {
        assert_eq!(plain["systems"][0][same], named["systems"][0][same], "{same}");
    }
    assert!(named.get("linux_rules").is_none());
    let output = run(here.path(), &["replay", &recording, "--systems", "linux"]);
    let text = String::from_utf8_lossy(&output.stdout).replace('\n', " ");
    assert!(text.contains("`linux` by the rules of 6.18"), "{text}");
}

/// kswapd is recognized by its name, in a text as in a recording of it: the page cache that it frees
/// stays in memory.
#[test]
fn simulated_reclaim_leaves_out_what_kswapd_freed() {
    let here = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for pfn in 64..128 {
        let page = format!("page=0x0 pfn={pfn:#x} order=0");
        let flags = "GFP_HIGHUSER_MOVABLE|__GFP_NORETRY|__GFP_NOWARN";
        text += &format!(
            "  cat-7 [000] .... 1.{pfn:06}: mm_page_alloc: {page} migratetype=1 gfp_flags={flags}\n"
        );
    }
    for (pfn, task) in [(70, "kswapd0-40"), (71, "kswapd0-40"), (72, "cat-7")] {
        text += &format!(
            "  {task} [000] .... 2.{pfn:06}: mm_page_free: page=0x0 pfn={pfn:#x} order=0\n"
        );
    }
    fs::write(here.path().join("trace.txt"), text).unwrap();
    let imported = run(here.path(), &["import", "trace.txt", "-o", "trace.parquet"]);
    assert_eq!(imported.status.code(), Some(0), "{}", stderr(&imported));
    for file in ["trace.txt", "trace.parquet"] {
        let arguments = [file, "--memory", "64M", "--systems", "linux,buddy", "--reclaim"];
        let replay = replayed(here.path(), &arguments);
        assert_eq!((&replay["reclaimed"], &replay["compacted"]), (&true.into(), &true.into()));
        for system in systems(&replay) {
            assert_eq!(system["counts"]["reclaims_left_out"], 2, "{file}");
            let end = end(system);
            let used = end["frames"].as_u64().unwrap() - end["free_frames"].as_u64().unwrap();
            assert_eq!(used, 63, "{file}");
        }
    }
}
