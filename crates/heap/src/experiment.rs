//! Experiments across processes (section 6.4): what a process did on its arm's page heap, by the
//! statistics that it published over time.

use crate::process::statistics::Statistics;

/// What a process had published at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// In use by the program.
    pub live_bytes: u64,
    /// Free small objects, in caches and in spans.
    pub free_object_bytes: u64,
    /// Backed pages in no span.
    pub free_page_bytes: u64,
    /// Backed pages, live or free.
    pub backed_bytes: u64,
    /// Backed pages on whole huge pages.
    pub huge_bytes: u64,
    /// Resident memory of the process, all its mappings.
    pub resident_bytes: u64,
}

impl Observation {
    /// Of published statistics, with the resident memory of `/proc/PID/status`.
    pub fn new(statistics: &Statistics, resident_bytes: u64) -> Observation {
        let (small, backing) = (&statistics.small, &statistics.page_heap.backing);
        let free_objects = small.cached_bytes + small.transfer_bytes + small.free_in_spans_bytes;
        Observation {
            live_bytes: statistics.live_bytes() as u64,
            free_object_bytes: free_objects as u64,
            free_page_bytes: backing.free.bytes(),
            backed_bytes: backing.backed().bytes(),
            huge_bytes: backing.on_huge_pages.bytes(),
            resident_bytes,
        }
    }
}

/// One process of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// The name of its program.
    pub program: String,
    /// Its page heap.
    pub arm: String,
    /// What it had published, at a steady interval.
    pub observations: Vec<Observation>,
    /// Seconds that it was observed.
    pub seconds: f64,
    /// CPU time that it took meanwhile, in seconds, with that of its children that ended.
    pub cpu_seconds: f64,
    /// Its largest resident memory, if it was observed to its end.
    pub peak_resident_bytes: Option<u64>,
}

/// What subjects are compared by. Means are over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// CPU time in seconds.
    CpuSeconds,
    /// Run time in seconds.
    Seconds,
    /// Peak of resident memory in bytes.
    PeakResident,
    /// Mean resident memory in bytes.
    Resident,
    /// Mean live memory in bytes.
    Live,
    /// Mean of free memory, in objects and pages, over live memory.
    Overhead,
    /// Mean hugepage coverage: the share of backed memory on whole huge pages.
    Coverage,
}

impl Measure {
    /// All of them, in the order of a report.
    pub const ALL: [Measure; 7] = [
        Measure::CpuSeconds,
        Measure::Seconds,
        Measure::PeakResident,
        Measure::Resident,
        Measure::Live,
        Measure::Overhead,
        Measure::Coverage,
    ];
}

impl Subject {
    /// A measure of the subject. `None` if it published nothing to tell it by.
    pub fn measure(&self, measure: Measure) -> Option<f64> {
        match measure {
            Measure::CpuSeconds => Some(self.cpu_seconds),
            Measure::Seconds => Some(self.seconds),
            Measure::PeakResident => self.peak_resident_bytes.map(|bytes| bytes as f64),
            Measure::Resident => self.mean(|seen| Some(seen.resident_bytes as f64)),
            Measure::Live => self.mean(|seen| Some(seen.live_bytes as f64)),
            Measure::Overhead => self
                .mean(|seen| share(seen.free_object_bytes + seen.free_page_bytes, seen.live_bytes)),
            Measure::Coverage => self.mean(|seen| share(seen.huge_bytes, seen.backed_bytes)),
        }
    }

    fn mean(&self, of: impl Fn(&Observation) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.observations.iter().filter_map(of).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_means_over_time() {
        let seen = |live, free| Observation {
            live_bytes: live,
            free_page_bytes: free,
            free_object_bytes: 5,
            backed_bytes: 100,
            huge_bytes: 50,
            resident_bytes: live + free,
        };
        let subject = Subject {
            program: "x".into(),
            arm: "temeraire".into(),
            observations: vec![seen(100, 5), seen(50, 15), Observation::default()],
            seconds: 2.0,
            cpu_seconds: 1.5,
            peak_resident_bytes: None,
        };
        let measure = |of| subject.measure(of);
        assert_eq!(measure(Measure::CpuSeconds), Some(1.5));
        assert_eq!(measure(Measure::PeakResident), None);
        assert_eq!(measure(Measure::Live), Some(50.0));
        // Nothing live says nothing about overhead: (10/100 + 20/50) / 2.
        assert_eq!(measure(Measure::Overhead), Some(0.25));
        assert_eq!(measure(Measure::Coverage), Some(0.5));
        let empty = Subject { observations: Vec::new(), ..subject.clone() };
        assert_eq!(empty.measure(Measure::Live), None);
    }
}
