//! Every screen fits its terminal, and says what matters.

use std::collections::BTreeSet;

use prairie_frames::{KernelVersion, Pfn};
use prairie_host::advice::{AskedFor, Remedy, SmallPages};
use prairie_host::kernel_log::Verdict;
use prairie_host::{Capture, FrameRun, LeftOut, PageFlags};

use super::*;

const PLAIN: Terminal = Terminal { width: 80, ..Terminal::PLAIN };

fn fits(text: &str) {
    assert!(text.lines().count() <= LINES, "{} lines:\n{text}", text.lines().count());
    for line in text.lines() {
        assert!(line.chars().count() <= WIDTH, "{line:?}");
    }
}

/// A host with everything to complain about: all rules apply, and something is missing.
fn worst() -> Capture {
    let mut capture = Capture { page_bytes: 4096, ..Capture::default() };
    let mut file = |name: &str, text: &str| {
        capture.files.insert(name.to_owned(), text.to_owned());
    };
    file("proc/buddyinfo", "Node 0, zone Normal 90000 0 0 0 0 0 0 0 0 30 0\n");
    let thp = "sys/kernel/mm/transparent_hugepage";
    file(&format!("{thp}/enabled"), "always [madvise] never\n");
    file(&format!("{thp}/defrag"), "always defer defer+madvise [madvise] never\n");
    file("proc/sys/vm/compaction_proactiveness", "20\n");
    file("proc/sys/vm/min_free_kbytes", "100\n");
    file("proc/vmstat", "thp_fault_alloc 1000\nthp_fault_fallback 9000\n");
    file("proc/meminfo", "AnonPages: 9216000 kB\nAnonHugePages: 2048 kB\n");
    file(
        "sys/fs/cgroup/system.slice/a-service-with-a-very-long-name-indeed-really.service/memory.stat",
        "anon 99999999999\ninactive_anon 99999999999\n",
    );
    file(
        "proc/zoneinfo",
        "Node 0, zone   Normal\n  pages free     100\n        min      10\n        low      20\n\
         \x20       high     30\n        spanned  1048576\n        present  1048576\n\
         \x20       managed  1048576\n  start_pfn:           0\n",
    );
    capture.left_out = vec![LeftOut {
        what: "the flags of frames".to_owned(),
        why: "permission denied".to_owned(),
        remedy: "run as root (sudo), outside a container".to_owned(),
    }];
    capture
}

#[test]
fn what_was_not_read_is_named_or_counted() {
    let left_out = |what: &str| LeftOut {
        what: what.to_owned(),
        why: String::new(),
        remedy: "run as root".to_owned(),
    };
    let mut survey = with_all_classes();
    let mut shown = |left_out: &[LeftOut]| {
        survey.left_out = left_out.to_vec();
        missing(&survey, PLAIN).pop()
    };
    let line = |text: &str| Some(format!("Not read: {text}. Remedy: run as root."));
    assert_eq!(shown(&[left_out("page flags")]), line("page flags"));
    assert_eq!(shown(&vec![left_out("page flags"); 3]), line("page flags, and 2 more"));
    assert_eq!(shown(&vec![left_out(&"long ".repeat(12)); 3]), line("3 items"));
    assert_eq!(shown(&[]), None);
}

#[test]
fn the_worst_host_fits_the_screen() {
    let survey = Survey::of(&worst()).unwrap();
    let text = screen(&survey, PLAIN);
    fits(&text);
    for subject in ["thp/defrag", "compaction_proactiveness", "min_free_kbytes", "offload"] {
        assert!(text.contains(subject), "{subject}: {text}");
    }
    assert!(text.contains("Not read: the flags of frames") && text.contains("unknown"), "{text}");
    assert!(text.trim_end().ends_with("--html FILE"), "{text}");
}

#[test]
fn a_narrow_terminal_shows_everything() {
    for survey in [Survey::of(&worst()).unwrap(), with_all_classes()] {
        for width in Terminal::LEAST_WIDTH..WIDTH {
            let narrow = screen(&survey, Terminal { width, ..PLAIN });
            // A name is not broken.
            let mut lines = narrow.lines().filter(|line| !line.ends_with(".service"));
            assert!(lines.all(|line| line.chars().count() <= width), "{width}: {narrow}");
            assert!(!narrow.contains("..."), "{width}: {narrow}");
            let words = narrow.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains("Not read: the flags of frames"), "{width}: {narrow}");
            for advice in advise(&Situation::of_survey(&survey)) {
                assert!(narrow.contains(advice.subject), "{}: {narrow}", advice.subject);
            }
        }
    }
}

/// The same host with its frames: four kinds of unmovable memory, frames without flags, and
/// sections that are not initialized.
fn with_all_classes() -> Survey {
    let mut capture = worst();
    let runs = [
        (4000, PageFlags::SLAB),
        (3000, PageFlags::PGTABLE),
        (9000, PageFlags::NONE),
        (500_000, PageFlags::LRU | PageFlags::ANON),
        (100, PageFlags::RESERVED),
        (532_476, PageFlags::NONE),
    ];
    let mut frames = Vec::new();
    let mut start = 0;
    for (count, flags) in runs {
        frames.push(FrameRun { start: Pfn(start), frames: count, flags, read_at_ns: 0 });
        start += count;
    }
    capture.frames = Some(frames);
    Survey::of(&capture).unwrap()
}

/// Sources, memory without flags, uninitialized memory, advice, and something missing: every
/// section has all of its lines.
#[test]
fn a_host_with_all_sections_counts_the_advice_that_does_not_fit() {
    let names = |count: usize| (0..count).map(|n| format!("  rule-{n}: text")).collect();
    let fitted = |count, room| as_many_as_fit(names(count), room, PLAIN);
    assert_eq!(fitted(3, 3).len(), 3);
    assert_eq!(fitted(5, 3)[1..], ["  rule-1: text", "  +3 more: prairie survey --section advice"]);
    let survey = with_all_classes();
    let text = screen(&survey, PLAIN);
    fits(&text);
    assert_eq!(text.lines().count(), LINES, "{text}");
    for part in ["Largest sources", "without flags", "not initialized yet", "Not read: the flags"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let all = advised(&survey, PLAIN);
    let shown = all.iter().filter(|line| text.contains(line.as_str())).count();
    assert!(shown >= 2 && shown < all.len(), "{shown} of {}: {text}", all.len());
    let more = format!("  +{} more: prairie survey --section advice\n", all.len() - shown);
    assert!(text.contains(&more), "{more}{text}");
}

/// The lines of regions take those of advice.
#[test]
fn a_kernel_with_regions_fits_the_screen() {
    let mut capture = worst();
    let node = "sys/kernel/mm/contiguitas/node0";
    for (name, text) in [
        ("border_pfn", "1000000\n"),
        ("unmovable_kb", "1234567890\n"),
        ("movable_kb", "1234567890\n"),
        ("unmovable_available_kb", "1234567890\n"),
    ] {
        capture.files.insert(format!("{node}/{name}"), text.to_owned());
    }
    let texts = Survey::of(&capture).unwrap();
    let mut survey = with_all_classes();
    survey.contiguitas = texts.contiguitas.clone();
    for survey in [texts, survey] {
        let text = screen(&survey, PLAIN);
        fits(&text);
        for part in ["Unmovable region  1.15 TiB, 1.15 TiB free", "Movable region", "Advice"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        for width in Terminal::LEAST_WIDTH..WIDTH {
            let narrow = screen(&survey, Terminal { width, ..PLAIN });
            assert!(narrow.contains("Unmovable region") && !narrow.contains("..."), "{narrow}");
        }
    }
}

/// Situations in which each rule applies, with values as long as they get.
fn situations() -> Vec<Situation> {
    let request = |order, can_wait, verdict| AskedFor {
        order,
        can_wait,
        low_zone: true,
        huge_page: false,
        verdict,
    };
    let failed = |request| Situation {
        kernel: Some(KernelVersion::new(6, 18)),
        request: Some(request),
        memory_kib: Some(1 << 40),
        min_free_kib: Some(1),
        ..Situation::default()
    };
    let host = |defrag: &str, proactiveness| Situation {
        kernel: Some(KernelVersion::new(6, 18)),
        compaction_stall_share: Some(0.5),
        reclaim_stall_share: Some(0.5),
        unusable_free_space_huge: Some(1.0),
        thp_enabled: Some("always".to_owned()),
        thp_defrag: Some(defrag.to_owned()),
        compaction_proactiveness: proactiveness,
        min_free_kib: Some(1_234_567),
        kernel_zones: Some(1 << 10),
        memory_kib: Some(64 << 30),
        swap_total_kib: Some(0),
        ..Situation::default()
    };
    let faults = |defrag: &str, counters: [(&str, u64); 2]| Situation {
        counters: counters.map(|(name, value)| (name.to_owned(), value)).into(),
        compaction_stall_share: None,
        ..host(defrag, Some(20))
    };
    let path = "system.slice/a-service-with-a-very-long-name-indeed-really.service";
    let kept = |polluted, unmovable| Situation {
        polluted_share: Some(polluted),
        unmovable_share: Some(unmovable),
        small_pages: Some(SmallPages {
            process: "a-program-with-a-long-name".to_owned(),
            bytes: 9 << 40,
            coverage: 0.0,
        }),
        inactive: Some((path.to_owned(), 9 << 40)),
        memory_kib: Some(16 << 30),
        ..Situation::default()
    };
    vec![
        Situation { cgroup_at_limit: true, ..failed(request(0, true, Verdict::CgroupLimit)) },
        failed(request(3, false, Verdict::ServedMeanwhile)),
        failed(AskedFor { huge_page: true, ..request(9, true, Verdict::Fragmentation) }),
        failed(request(20, true, Verdict::TooLarge)),
        failed(request(10, false, Verdict::LowAndFragmented)),
        failed(request(2, true, Verdict::Fragmentation)),
        Situation { kernel: None, ..failed(request(9, false, Verdict::LowAndFragmented)) },
        Situation { thp_enabled: Some("never".to_owned()), ..Situation::default() },
        host("always", Some(10)),
        host("defer+madvise", Some(0)),
        host("madvise", None),
        faults("always", [("compact_stall", 1 << 60), ("compact_fail", 1 << 60)]),
        faults("madvise", [("thp_fault_fallback", 1 << 60), ("thp_fault_alloc", 1)]),
        Situation { swap_total_kib: Some(1), ..host("defer", Some(100)) },
        kept(0.999, 0.123),
        kept(0.999, 0.998),
    ]
}

/// The remedy of files that cannot be read is one whole line too.
#[test]
fn the_remedy_is_not_cut() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(directory.path().join("proc")).unwrap();
    let roots = prairie_host::Roots {
        proc: directory.path().join("proc"),
        sys: directory.path().join("sys"),
    };
    let capture = prairie_host::capture_texts(&roots, 0).unwrap();
    let remedies: BTreeSet<String> =
        capture.left_out.iter().map(|left_out| left_out.remedy.clone()).collect();
    assert!(!remedies.is_empty());
    let others = [prairie_host::remedy::for_refused().to_owned()];
    for remedy in remedies.into_iter().chain(others) {
        let left_out = LeftOut { what: String::new(), why: String::new(), remedy };
        let mut survey = with_all_classes();
        survey.left_out = vec![left_out; 12];
        let lines = missing(&survey, PLAIN);
        assert!(!lines[1].ends_with("...") && lines[1].ends_with('.'), "{lines:?}");
    }
}

/// Each rule's advice is one whole line: action and reason, one of them, or an action without
/// its examples.
#[test]
fn the_advice_of_every_rule_is_one_whole_line() {
    let mut seen = BTreeSet::new();
    for found in situations().iter().flat_map(advise) {
        let line = advised_line(&found, PLAIN);
        assert!(line.chars().count() <= WIDTH && !line.contains('\n'), "{line:?}");
        let (action, _) = found.action.split_once(": ").unwrap_or((&found.action, ""));
        let whole = [&found.reason, &found.action, action];
        assert!(whole.iter().any(|text| line.ends_with(*text)), "{line:?} of {found:?}");
        seen.insert(found.remedy);
    }
    let all = BTreeSet::from([
        Remedy::CgroupLimit,
        Remedy::Tolerate,
        Remedy::SmallerRequest,
        Remedy::LowerZone,
        Remedy::ThpEnabled,
        Remedy::ThpDefrag,
        Remedy::DefragMode,
        Remedy::Proactive,
        Remedy::MinFree,
        Remedy::ScaleFactor,
        Remedy::Regions,
        Remedy::Sources,
        Remedy::Heap,
        Remedy::Offload,
        Remedy::Swap,
    ]);
    assert_eq!(seen, all);
}

/// The rules that a survey's facts trigger have room for their reason.
#[test]
fn advice_on_settings_and_programs_keeps_its_reason() {
    let kept = [
        Remedy::ThpEnabled,
        Remedy::ThpDefrag,
        Remedy::MinFree,
        Remedy::Regions,
        Remedy::Sources,
        Remedy::Heap,
    ];
    for situation in situations().iter().filter(|situation| situation.request.is_none()) {
        let is_set = situation.compaction_proactiveness.is_some();
        for found in advise(situation).iter().filter(|found| {
            kept.contains(&found.remedy) || (found.remedy == Remedy::Proactive && is_set)
        }) {
            let line = advised_line(found, PLAIN);
            assert!(line.ends_with(&found.reason), "{line:?} of {found:?}");
        }
    }
}

#[test]
fn a_host_without_anything_fits_too() {
    let survey = Survey::of(&Capture { page_bytes: 4096, ..Capture::default() }).unwrap();
    let text = screen(&survey, PLAIN);
    fits(&text);
    assert_eq!(text.matches("unknown").count(), 4, "{text}");
}
