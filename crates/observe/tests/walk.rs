//! Walks over captured and generated hosts: what a sample says against a full walk.
#![allow(missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use prairie_frames::Order;
use prairie_host::layout::Layout;
use prairie_host::{Capture, FrameClass, PageFlags as F, Roots};
use prairie_observe::block::{BlockReader, Flags};
use prairie_observe::population::{Population, choose};
use prairie_observe::sample::SampleTally;
use prairie_observe::{Budget, Collector, Estimate, Figures, reading, walk::walk};
use proptest::prelude::*;

const EVERYTHING: Budget = Budget { share: 1.0, interval: Duration::from_secs(3600) };

fn fixture(kernel: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/tests/fixtures").join(kernel)
}

/// The flags of a captured Linux 6.1, whose compound pages carry flags on their heads alone.
fn linux_6_1() -> Vec<u64> {
    let text = fs::read_to_string(fixture("linux-6.1").join("kpageflags.runs")).unwrap();
    let runs = text.lines().map(|line| {
        let (flags, frames) = line.split_once(' ').unwrap();
        (u64::from_str_radix(flags, 16).unwrap(), frames.parse::<usize>().unwrap())
    });
    runs.flat_map(|(flags, frames)| std::iter::repeat_n(flags, frames)).collect()
}

struct Words<'a>(&'a [u64]);

impl Flags for Words<'_> {
    fn read(&mut self, from: prairie_frames::Pfn, words: &mut [u8]) -> std::io::Result<usize> {
        let rest = self.0.get(from.0 as usize..).unwrap_or_default();
        let bytes = rest.iter().flat_map(|word| word.to_ne_bytes());
        Ok(words.iter_mut().zip(bytes).map(|(to, byte)| *to = byte).count())
    }
}

/// A tree with these flags and the captured texts.
fn tree(kernel: &str, words: &[u64]) -> (tempfile::TempDir, Roots) {
    let dir = tempfile::tempdir().unwrap();
    let proc = dir.path().join("proc");
    fs::create_dir(&proc).unwrap();
    for file in ["zoneinfo", "iomem"] {
        let from = fixture(kernel).join("proc").join(file);
        if from.exists() {
            fs::copy(from, proc.join(file)).unwrap();
        }
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    fs::write(proc.join("kpageflags"), bytes).unwrap();
    let roots = Roots::at(&proc);
    (dir, roots)
}

/// The figures of a sample of `size` pageblocks.
fn sampled(capture: &Capture, words: &[u64], size: u64, seed: u64) -> Figures {
    let layout = Layout::of(capture).unwrap();
    let population = Population::new(&layout);
    let frames = layout.frames_by_zone().iter().sum();
    let mut tally = SampleTally::new(layout, frames);
    let mut reader = BlockReader::new(Words(words));
    for number in choose(population.len(), size, seed) {
        let unit = population.unit(number);
        let mut runs = Vec::new();
        reader.classes(unit.start, &mut |run| runs.push(run)).unwrap();
        tally.add(unit, &runs);
    }
    tally.finish(population.len())
}

/// The figures that both kinds of walk have.
fn shared(figures: &Figures) -> Vec<(String, Estimate)> {
    let mut all = vec![
        ("whole".to_owned(), figures.whole),
        ("polluted".to_owned(), figures.polluted),
        ("polluted, unknown unmovable".to_owned(), figures.polluted_if_unknown_unmovable),
        ("available".to_owned(), figures.available[0].blocks),
        ("potential".to_owned(), figures.potential[0].unknown_movable),
        ("potential, unknown unmovable".to_owned(), figures.potential[0].unknown_unmovable),
    ];
    all.extend(figures.classes.iter().map(|c| (c.class.label().to_owned(), c.frames)));
    for source in &figures.sources {
        all.push((format!("{}: blocks", source.class.label()), source.blocks));
        all.push((format!("{}: alone", source.class.label()), source.blocks_alone));
    }
    all
}

#[test]
fn a_sample_of_everything_is_the_full_walk() {
    let words = linux_6_1();
    let (_dir, roots) = tree("linux-6.1", &words);
    let capture = reading::extents(&roots);
    let full = walk(&roots, &capture, EVERYTHING, 1, &AtomicBool::new(false)).unwrap().unwrap();
    assert!(full.is_full() && full.cpu_seconds > 0.0);
    assert!(full.frames_of(FrameClass::HugetlbGigantic).value > 0.0, "the case is worth it");
    let sample = sampled(&capture, &words, u64::MAX, 1);
    assert_eq!(sample.pageblocks, full.pageblocks);
    let close = |a: Estimate, b: Estimate| (a.value - b.value).abs() < 1e-6 && a.low == a.high;
    for ((name, found), (_, expected)) in shared(&sample).into_iter().zip(shared(&full)) {
        assert!(close(found, expected), "{name}: {found:?}, not {expected:?}");
    }
    assert_eq!(sample.map, full.map);
    assert_eq!(full.potential.len(), 3, "2 MiB, 32 MiB, 1 GiB");
}

#[test]
fn the_budget_decides_how_much_is_read() {
    let words = linux_6_1();
    let (_dir, roots) = tree("linux-6.1", &words);
    let capture = reading::extents(&roots);
    let walk = |budget| walk(&roots, &capture, budget, 1, &AtomicBool::new(false)).unwrap();
    let nothing = Budget { share: 0.0, interval: Duration::from_secs(300) };
    assert!(walk(nothing).is_none());
    let little = Budget { share: 1e-9, interval: Duration::from_millis(1) };
    let figures = walk(little).unwrap();
    assert_eq!(figures.pageblocks_read, Budget::MIN_SAMPLE);
    assert!(!figures.is_full() && figures.potential.len() == 1);
}

/// A part of a copied file is not the host; what is missing is named.
#[test]
fn flags_that_end_before_the_zones_are_named() {
    let words = linux_6_1();
    let (_dir, roots) = tree("linux-6.1", &words);
    let found = fs::read_to_string(roots.proc.join("zoneinfo")).unwrap();
    fs::write(roots.proc.join("buddyinfo"), "").unwrap();
    let missing = |frames: usize| {
        let flags = fs::File::options().write(true).open(roots.proc.join("kpageflags")).unwrap();
        flags.set_len(frames as u64 * 8).unwrap();
        let collector = Collector::new(roots.clone(), EVERYTHING);
        collector.walk(1, &AtomicBool::new(false)).unwrap();
        let left_out = collector.moment().unwrap().left_out;
        let flags = left_out.into_iter().find(|left| left.why.contains("kpageflags"));
        assert!(collector.figures().is_some());
        flags
    };
    let zones = prairie_host::texts::zoneinfo::parse(&found).unwrap();
    let end = zones.iter().map(|zone| zone.end().0).max().unwrap() as usize;
    assert_eq!(missing(end), None);
    let left_out = missing(end / 2).unwrap();
    assert!(left_out.what.starts_with("the frames above "), "{left_out:?}");
    assert_eq!(left_out.remedy, "a whole copy of the file");
}

#[test]
fn intervals_hold_the_figures_of_the_full_walk() {
    let words = linux_6_1();
    let (_dir, roots) = tree("linux-6.1", &words);
    let capture = reading::extents(&roots);
    let full = walk(&roots, &capture, EVERYTHING, 1, &AtomicBool::new(false)).unwrap().unwrap();
    let truth = shared(&full);
    let runs = 100;
    let (mut held, mut all) = (vec![0; truth.len()], 0);
    for seed in 0..runs {
        let sample = sampled(&capture, &words, 300, seed);
        for (at, (_, estimate)) in shared(&sample).into_iter().enumerate() {
            let truth = truth[at].1.value;
            held[at] += i32::from(estimate.low - 1e-6 <= truth && truth <= estimate.high + 1e-6);
            all += 1;
        }
    }
    for ((name, _), held) in truth.iter().zip(&held) {
        // 95 expected, with a standard deviation of 2.2; skewed figures fall a little short.
        assert!(*held >= 85, "{name}: {held} of {runs} intervals");
    }
    let share = f64::from(held.iter().sum::<i32>()) / f64::from(all);
    assert!(share >= 0.95, "{share:.3} of all intervals hold");
}

/// A layout of one zone.
fn one_zone(frames: usize) -> Capture {
    let mut capture = Capture { page_bytes: 4096, ..Capture::default() };
    let zone = format!("Node 0, zone Normal\n spanned {frames}\n start_pfn: 0\n");
    capture.files.insert("proc/zoneinfo".to_owned(), zone);
    capture
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Hosts of random pageblocks: whatever the sample, what it read is certain, and the estimate
    /// of all pageblocks is what a full walk counts.
    #[test]
    fn samples_of_random_hosts(
        blocks in prop::collection::vec((0usize..5, 0usize..=512), 1..80),
        size in 1u64..100,
        seed: u64,
    ) {
        const KINDS: [F; 5] = [F::BUDDY, F::LRU, F::SLAB, F::RESERVED, F::NONE];
        let mut words = Vec::new();
        for (kind, frames) in &blocks {
            words.extend(std::iter::repeat_n(KINDS[*kind].0, *frames));
            words.extend(std::iter::repeat_n(F::LRU.0, 512 - frames));
        }
        let capture = one_zone(words.len());
        let full = sampled(&capture, &words, u64::MAX, seed);
        let polluted = blocks.iter().filter(|(kind, frames)| (2..4).contains(kind) && *frames > 0);
        prop_assert_eq!(full.polluted, Estimate::exact(polluted.count() as f64));
        let found = sampled(&capture, &words, size, seed);
        let unread = blocks.len() as f64 - found.pageblocks_read as f64;
        for (name, estimate) in shared(&found) {
            // No interval is wider than what was not read, in frames where it is of frames.
            let frames = FrameClass::ALL.iter().any(|class| class.label() == name);
            let most = if frames { unread * Order::HUGE.frames() as f64 } else { unread };
            prop_assert!(estimate.high - estimate.low <= most + 1e-6, "{}: {:?}", name, estimate);
            prop_assert!(estimate.low <= estimate.value && estimate.value <= estimate.high);
        }
    }
}
