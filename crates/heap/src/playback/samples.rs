//! Samples of a page heap over time.

use serde::Serialize;

use crate::memory::Resident;
use crate::page_heap::{Components, PageHeapStats};
use crate::units::Pages;

/// A page heap at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Time of the trace.
    pub time_ns: u64,
    /// Pages in spans.
    pub live_pages: Pages,
    /// Pages with memory behind them, by the kernel's books.
    pub resident_pages: Pages,
    /// Those of them on huge pages.
    pub huge_pages: Pages,
    /// TEMERAIRE: huge pages in use, the demand on the HugeCache.
    pub demand_huge_pages: u64,
    /// TEMERAIRE: huge pages in the HugeCache.
    pub cached_huge_pages: u64,
    /// TEMERAIRE: how many it may hold.
    pub cache_limit_huge_pages: u64,
    /// TEMERAIRE: huge pages in the HugeFiller.
    pub filler_huge_pages: u64,
}

impl Sample {
    pub(super) fn of(time_ns: u64, stats: &PageHeapStats, resident: Resident) -> Sample {
        let mut sample = Sample {
            time_ns,
            live_pages: stats.backing.live,
            resident_pages: resident.pages,
            huge_pages: resident.on_huge_pages,
            ..Sample::default()
        };
        if let Components::Temeraire(components) = &stats.components {
            sample.demand_huge_pages = components.huge_cache.demand_huge_pages.0;
            sample.cached_huge_pages = components.huge_cache.cached_huge_pages.0;
            sample.cache_limit_huge_pages = components.huge_cache.limit_huge_pages.0;
            sample.filler_huge_pages = components.huge_filler.huge_pages.0;
        }
        sample
    }
}

/// Means over the time of a trace, each moment of equal weight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Means {
    /// Pages in spans.
    pub live_pages: f64,
    /// Pages with memory behind them.
    pub resident_pages: f64,
    /// Overhead: memory behind the heap beyond what is in spans, over what is in spans.
    pub overhead: f64,
    /// Hugepage coverage: share of the resident memory that is on huge pages.
    pub coverage: f64,
    /// Mean overhead of the samples in the last quarter of the time.
    pub last_quarter_overhead: f64,
}

/// Samples at a distance that grows with the trace: never more than [`MOST`].
#[derive(Debug)]
pub(super) struct Samples {
    taken: Vec<Sample>,
    every_ns: u64,
    next_ns: u64,
    /// Sums of value times duration.
    sums: [f64; 3],
    last: Option<Sample>,
}

/// More cannot be distinguished on a chart.
const MOST: usize = 800;
/// The first distance: 1 ms.
const FIRST_NS: u64 = 1_000_000;

impl Samples {
    pub fn new() -> Samples {
        Samples { taken: Vec::new(), every_ns: FIRST_NS, next_ns: 0, sums: [0.0; 3], last: None }
    }

    /// Whether it is time for the next one.
    #[inline]
    pub fn due(&self, now_ns: u64) -> bool {
        now_ns >= self.next_ns
    }

    pub fn take(&mut self, sample: Sample) {
        self.sum_up(sample);
        self.taken.push(sample);
        if self.taken.len() > MOST {
            let mut keep = false;
            self.taken.retain(|_| {
                keep = !keep;
                keep
            });
            self.every_ns *= 2;
        }
        self.next_ns = sample.time_ns.saturating_add(self.every_ns);
    }

    /// Notes the last state, and gives all.
    pub fn finish(mut self, sample: Sample) -> (Means, Vec<Sample>) {
        self.sum_up(sample);
        self.taken.push(sample);
        let first = self.taken.first().map_or(0, |sample| sample.time_ns);
        let duration = (sample.time_ns - first) as f64;
        let [live, resident, huge] =
            if duration > 0.0 { self.sums.map(|sum| sum / duration) } else { values(&sample) };
        let ratio = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        let late = first + (sample.time_ns - first) / 4 * 3;
        let overheads = self.taken.iter().filter(|taken| taken.time_ns >= late).map(|taken| {
            let [live, resident, _] = values(taken);
            ratio(resident - live, live)
        });
        let (sum, count) =
            overheads.fold((0.0, 0.0), |(sum, n), overhead| (sum + overhead, n + 1.0));
        let means = Means {
            last_quarter_overhead: ratio(sum, count),
            live_pages: live,
            resident_pages: resident,
            overhead: ratio(resident - live, live),
            coverage: ratio(huge, resident),
        };
        (means, self.taken)
    }

    /// What the last sample says held until this one.
    fn sum_up(&mut self, sample: Sample) {
        if let Some(last) = self.last.replace(sample) {
            let passed = sample.time_ns.saturating_sub(last.time_ns) as f64;
            for (sum, value) in self.sums.iter_mut().zip(values(&last)) {
                *sum += value * passed;
            }
        }
    }
}

fn values(sample: &Sample) -> [f64; 3] {
    [sample.live_pages, sample.resident_pages, sample.huge_pages].map(|pages| pages.0 as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(time_ns: u64, live: u64, resident: u64, huge: u64) -> Sample {
        let [live_pages, resident_pages, huge_pages] = [live, resident, huge].map(Pages);
        Sample { time_ns, live_pages, resident_pages, huge_pages, ..Sample::default() }
    }

    #[test]
    fn means_weigh_by_time() {
        let mut samples = Samples::new();
        samples.take(sample(0, 100, 100, 100));
        samples.take(sample(10, 100, 200, 50));
        let (means, taken) = samples.finish(sample(40, 7, 7, 7));
        // 10 ns at 100 and 30 at 200 are 175 on average; of these 62.5 on huge pages.
        assert_eq!((means.overhead, means.coverage), (0.75, 62.5 / 175.0));
        // Of the last 10 ns there is one sample.
        assert_eq!(means.last_quarter_overhead, 0.0);
        assert_eq!(taken.len(), 3);
    }

    #[test]
    fn long_traces_are_sampled_at_longer_distances() {
        let mut samples = Samples::new();
        let mut now = 0;
        for _ in 0..1_000_000 {
            now += FIRST_NS / 2;
            if samples.due(now) {
                samples.take(sample(now, 1, 2, 0));
            }
        }
        let (means, taken) = samples.finish(sample(now, 1, 2, 0));
        assert!((MOST / 2..=MOST + 2).contains(&taken.len()), "{}", taken.len());
        assert!((means.overhead - 1.0).abs() < 1e-9);
        assert!(taken.is_sorted_by_key(|sample| sample.time_ns));
    }
}
