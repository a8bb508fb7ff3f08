//! The heaps of running processes as metrics.

use std::collections::BTreeMap;

use prairie_daemon::metrics::{Family, Series};
use prairie_heap::Statistics;
use prairie_heap::inspect::Survey;

/// Names beyond these are counted together, so that the number of series has a limit.
const MAX_NAMES: usize = 100;
/// The name of all others.
const OTHERS: &str = "others";

/// One figure of heaps.
type Figure = fn(&Heaps) -> u64;

/// The heaps of all processes of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Heaps {
    processes: u64,
    live_bytes: u64,
    cached_bytes: u64,
    in_spans_bytes: u64,
    free_pages_bytes: u64,
    backed_bytes: u64,
    on_huge_pages_bytes: u64,
}

impl Heaps {
    fn add(&mut self, statistics: &Statistics) {
        let Statistics { small, page_heap, .. } = statistics;
        self.processes += 1;
        self.live_bytes += statistics.live_bytes() as u64;
        self.cached_bytes += small.in_caches_bytes() as u64;
        self.in_spans_bytes += small.in_spans_bytes() as u64;
        self.free_pages_bytes += page_heap.backing.free.bytes();
        self.backed_bytes += page_heap.backing.backed().bytes();
        self.on_huge_pages_bytes += page_heap.backing.on_huge_pages.bytes();
    }
}

/// Memory of processes that run on Prairie's heap, by the name that `name` gives.
pub fn families(survey: &Survey, name: impl Fn(u32) -> String) -> Vec<Family> {
    let mut heaps: BTreeMap<String, Heaps> = BTreeMap::new();
    for (pid, reading) in &survey.readings {
        let mut name = name(*pid);
        if heaps.len() >= MAX_NAMES && !heaps.contains_key(&name) {
            name = OTHERS.to_owned();
        }
        heaps.entry(name).or_default().add(&reading.statistics);
    }
    let number = |labels, value: u64| Series::number(labels, value as f64);
    let parts: [(&str, Figure); 4] = [
        ("live", |heaps| heaps.live_bytes),
        ("caches", |heaps| heaps.cached_bytes),
        ("spans", |heaps| heaps.in_spans_bytes),
        ("free_pages", |heaps| heaps.free_pages_bytes),
    ];
    let by_part = heaps.iter().flat_map(|(name, heaps)| {
        parts.map(|(part, of)| {
            number(vec![("name", name.clone()), ("part", part.into())], of(heaps))
        })
    });
    let by_name = |of: Figure| -> Vec<Series> {
        heaps.iter().map(|(name, heaps)| number(vec![("name", name.clone())], of(heaps))).collect()
    };
    vec![
        Family::gauge(
            "prairie_heap_processes",
            None,
            "Processes on Prairie's heap",
            by_name(|h| h.processes),
        ),
        Family::gauge(
            "prairie_heap",
            Some("bytes"),
            "Memory of heaps: live objects, free objects in caches and in spans, free pages",
            by_part.collect(),
        ),
        Family::gauge(
            "prairie_heap_backed",
            Some("bytes"),
            "Memory of heaps with frames behind it",
            by_name(|heaps| heaps.backed_bytes),
        ),
        Family::gauge(
            "prairie_heap_huge",
            Some("bytes"),
            "Of it on whole huge pages",
            by_name(|heaps| heaps.on_huge_pages_bytes),
        ),
        Family::gauge(
            "prairie_heap_unreadable_processes",
            None,
            "Processes that need more permission to be read",
            vec![number(Vec::new(), survey.unreadable as u64)],
        ),
    ]
}
