//! Kernel logs of many eras: what each report says, and why. Then everything that can happen to a
//! log on its way: cut off, damaged, lines of several reports mixed.
#![allow(missing_docs)]

use std::fs;
use std::path::Path;

use prairie_host::advice::{Remedy, Situation, advise};
use prairie_host::kernel_log::{Incident, IncidentKind, Parser, Verdict, diagnose};
use proptest::prelude::*;

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kernel-logs");
    fs::read_to_string(folder.join(name)).unwrap()
}

fn parse(text: &str) -> Vec<Incident> {
    let mut parser = Parser::default();
    text.lines().for_each(|line| parser.push(line));
    parser.finish()
}

/// The only report of a fixture.
fn only(name: &str) -> Incident {
    let mut incidents = parse(&fixture(name));
    assert_eq!(incidents.len(), 1, "{name}");
    incidents.pop().unwrap()
}

#[test]
fn every_era_has_a_verdict() {
    use Verdict::*;
    for (name, process, order, gfp, zones, verdict) in [
        ("3.10-atomic-order-4.log", "swapper/3", 4, "GFP_ATOMIC|__GFP_COMP", 3, Fragmentation),
        ("3.10-oom.log", "java", 0, "GFP_HIGHUSER_MOVABLE|__GFP_COLD", 3, LowMemory),
        ("4.4-kernel-order-5.log", "mysqld", 5, "GFP_KERNEL|__GFP_COMP|__GFP_NOTRACK", 3, Reserved),
        ("4.9-slab-order-3.log", "kworker/5:2", 3, "GFP_ATOMIC|__GFP_COMP", 3, LowAndFragmented),
        ("4.14-stall.log", "dd", 0, "GFP_HIGHUSER_MOVABLE|__GFP_COLD", 2, LowMemory),
        ("4.19-cgroup-oom.log", "python3", 0, "GFP_KERNEL", 0, CgroupLimit),
        ("5.10-dma-pool.log", "swapper/0", 10, "GFP_KERNEL|GFP_DMA", 3, NoSuchMemory),
        ("6.12-order-7-cma.log", "vdec-worker", 7, "GFP_KERNEL|__GFP_ZERO", 1, Reserved),
        ("6.18-oom.log", "cc1plus", 0, "GFP_HIGHUSER_MOVABLE|__GFP_ZERO|__GFP_COMP", 3, LowMemory),
        ("7.3-vmalloc.log", "modprobe", 0, "GFP_KERNEL", 1, LowMemory),
    ] {
        let incident = only(name);
        assert_eq!(incident.process, process, "{name}");
        assert_eq!(
            (incident.request.order, incident.request.gfp.text.as_str()),
            (order, gfp),
            "{name}"
        );
        assert_eq!(incident.memory.zones.len(), zones, "{name}");
        assert_eq!(diagnose(&incident).verdict, verdict, "{name}");
        let release = incident.kernel_release.as_deref().unwrap_or_default();
        assert!(release.starts_with(name.split('-').next().unwrap()), "{name}: {release}");
        for zone in &incident.memory.zones {
            assert!(zone.sizes_kib.contains_key("min") && !zone.free_blocks.is_empty(), "{name}");
            assert!(zone.lowmem_reserve_pages.len() >= 4, "{name}");
            // The free lists add up to what is printed as free, but for what changed meanwhile.
            let listed: u64 = (0..)
                .zip(zone.blocks())
                .map(|(order, blocks)| (blocks * zone.page_kib) << order)
                .sum();
            let free = zone.kib("free");
            assert!(
                listed.abs_diff(free) * 50 <= free,
                "{name}: {listed} kB listed, {free} kB free"
            );
        }
    }
}

#[test]
fn reports_in_full() {
    let network = only("3.10-atomic-order-4.log");
    assert_eq!(network.time.as_deref(), Some("Mar 12 04:17:02"));
    assert!(
        network.call_trace.contains(&"example_rx_refill".to_owned()),
        "{:?}",
        network.call_trace
    );
    assert_eq!(network.memory.pages["slab_unreclaimable"], 30112);
    assert_eq!(network.memory.swap_total_kib, Some(0));

    let slab = only("4.9-slab-order-3.log").slab_cache.unwrap();
    assert_eq!(
        (slab.name.as_str(), slab.default_order, slab.min_order),
        ("kmalloc-4096", Some(3), Some(0))
    );

    let waited_ms = 12040;
    assert_eq!(only("4.14-stall.log").kind, IncidentKind::AllocationStall { waited_ms });
    let bytes = Some(536_870_912);
    assert_eq!(only("7.3-vmalloc.log").kind, IncidentKind::VmallocFailure { bytes });
}

#[test]
fn out_of_memory_in_full() {
    let old = only("3.10-oom.log");
    let victim = old.victim.unwrap();
    assert_eq!(
        (victim.pid, victim.name.as_str(), victim.anon_rss_kib),
        (2190, "java", Some(3_644_120))
    );
    let names: Vec<&str> = old.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["java", "my httpd", "sshd", "systemd-journal"]);
    assert_eq!((old.tasks[0].rss_pages, old.tasks[2].oom_score_adj), (911_030, -1000));

    let cgroup = only("4.19-cgroup-oom.log");
    let limit = cgroup.cgroup.unwrap();
    assert_eq!(limit.path.as_deref(), Some("/kubepods/burstable/pod1"));
    assert_eq!((limit.usage_kib, limit.limit_kib), (Some(524_288), Some(524_288)));
    assert_eq!(cgroup.victim.unwrap().anon_rss_kib, Some(512_004));

    let new = only("6.18-oom.log");
    assert_eq!(new.constraint.as_deref(), Some("CONSTRAINT_NONE"));
    assert_eq!((new.tasks[0].name.as_str(), new.tasks[0].rss_pages), ("ld", 610_220));
    assert!(new.cgroup.is_none());
}

/// What real kernels wrote, in virtual machines.
#[test]
fn logs_of_real_kernels() {
    let found = |name: &str| -> Vec<(u64, String, u32, Verdict, Vec<usize>)> {
        let incidents = parse(&fixture(name));
        let row = |incident: &Incident| {
            let orders = incident.memory.zones.iter().map(|zone| zone.free_blocks.len()).collect();
            let verdict = diagnose(incident).verdict;
            (incident.line, incident.process.clone(), incident.request.order, verdict, orders)
        };
        incidents.iter().map(row).collect()
    };
    let new = found("6.12-vm.log");
    let old = found("6.1-vm.log");
    assert_eq!(old[0], (5, "hungry".to_owned(), 10, Verdict::LowAndFragmented, vec![11, 11]));
    for (found, from) in [(&old[1..], 83), (&new[..], 2)] {
        let [global, cgroup] = found else { panic!("{found:?}") };
        assert_eq!(*global, (from, "tail".to_owned(), 0, Verdict::LowMemory, vec![11, 11]));
        assert_eq!((cgroup.1.as_str(), cgroup.3), ("tail", Verdict::CgroupLimit));
    }
    for name in ["6.1-vm.log", "6.12-vm.log"] {
        let incidents = parse(&fixture(name));
        let [.., global, cgroup] = incidents.as_slice() else { panic!() };
        assert_eq!(global.constraint.as_deref(), Some("CONSTRAINT_NONE"));
        assert_eq!(cgroup.constraint.as_deref(), Some("CONSTRAINT_MEMCG"));
        let limit = cgroup.cgroup.as_ref().unwrap();
        assert_eq!((limit.path.as_deref(), limit.limit_kib), (Some("/box"), Some(30 << 10)));
        for incident in [global, cgroup] {
            let victim = incident.victim.as_ref().unwrap();
            let task = &incident.tasks[0];
            assert_eq!((victim.name.as_str(), victim.pid, task.pid), ("tail", task.pid, task.pid));
            assert!(victim.anon_rss_kib.unwrap() > 20_000 && task.rss_pages > 5_000);
            assert!(incident.call_trace.len() > 5);
        }
    }
}

#[test]
fn callers_separate_reports_that_are_mixed() {
    let incidents = parse(&fixture("5.15-interleaved.log"));
    let found: Vec<_> = incidents
        .iter()
        .map(|incident| {
            let zones = &incident.memory.zones;
            (
                incident.process.as_str(),
                incident.request.order,
                zones.len(),
                zones[0].kib("free"),
                zones[0].free_blocks[0].blocks,
            )
        })
        .collect();
    assert_eq!(found, [("rx-a", 2, 2, 30000, 5000), ("rx-b", 3, 2, 30040, 5010)]);
    assert_eq!(incidents[1].call_trace, ["sk_page_frag_refill"]);
}

#[test]
fn without_callers_a_repeated_line_belongs_to_the_other_report() {
    let text: String = fixture("5.15-interleaved.log")
        .lines()
        .map(|line| line.replace("[  T812]", "").replace("[  T813]", "") + "\n")
        .collect();
    for incident in parse(&text) {
        assert_eq!(incident.memory.zones.len(), 2);
        assert!(incident.memory.zones.iter().all(|zone| !zone.free_blocks.is_empty()));
    }
}

#[test]
fn advice_follows_the_reason() {
    let remedies = |name: &str| -> Vec<Remedy> {
        let incident = only(name);
        let diagnosis = diagnose(&incident);
        advise(&Situation::of_incident(&incident, &diagnosis))
            .iter()
            .map(|advice| advice.remedy)
            .collect()
    };
    assert_eq!(remedies("3.10-atomic-order-4.log"), [Remedy::SmallerRequest, Remedy::MinFree]);
    assert_eq!(remedies("3.10-oom.log"), [Remedy::Swap]);
    assert_eq!(remedies("4.19-cgroup-oom.log"), [Remedy::CgroupLimit]);
    assert_eq!(remedies("5.10-dma-pool.log")[0], Remedy::LowerZone);
    assert!(remedies("6.12-order-7-cma.log").contains(&Remedy::Proactive));
}

/// All fixtures one after the other.
fn corpus() -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kernel-logs");
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names.iter().map(|name| fixture(name.to_str().unwrap())).collect()
}

fn diagnose_all(text: &str) -> usize {
    let incidents = parse(text);
    for incident in &incidents {
        let diagnosis = diagnose(incident);
        let _ = advise(&Situation::of_incident(incident, &diagnosis));
    }
    incidents.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Lines lost, cut, repeated, with bytes of others in them: no panic, and never more reports
    /// than first lines.
    #[test]
    fn damaged_logs_are_survived(
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0..6u8, any::<prop::sample::Index>()), 0..60),
        noise in "[ -~]{0,40}",
    ) {
        let text = corpus();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (at, kind, other) in &damage {
            let (at, other) = (at.index(lines.len()), other.index(lines.len()));
            match kind {
                0 => lines[at].clear(),
                1 => { let half = lines[at].len() / 2; lines[at].truncate(half); }
                2 => lines.swap(at, other),
                3 => { let copy = lines[other].clone(); lines.insert(at, copy); }
                4 => { let line = format!("{}{noise}{}", lines[other], lines[at]); lines[at] = line; }
                _ => lines[at] = lines[at].replace(|c: char| c.is_ascii_digit(), "9"),
            }
        }
        let headers = lines.iter().filter(|line| {
            ["page allocation failure", "invoked oom-killer", "allocation stalls", "vmalloc"].iter().any(|key| line.contains(key))
        });
        let headers = headers.count();
        prop_assert!(diagnose_all(&lines.join("\n")) <= headers);
    }

    #[test]
    fn any_text_is_survived(text in "(\\PC{0,60}\n){0,8}") {
        diagnose_all(&text);
    }

    /// Cut at any place: the reports before it are whole. Two are mixed with one another.
    #[test]
    fn a_log_that_ends_early_keeps_what_came_before(share in 0.0..1.0f64) {
        let text = corpus();
        let whole = parse(&text);
        let mut at = (text.len() as f64 * share) as usize;
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        let cut = parse(&text[..at]);
        prop_assert!(cut.len() <= whole.len());
        if cut.len() > 2 {
            for (cut, whole) in cut[..cut.len() - 2].iter().zip(&whole) {
                prop_assert_eq!(&cut.memory, &whole.memory);
            }
        }
    }
}
