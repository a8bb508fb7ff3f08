//! Back ends of offloaded memory, and the latency of refaults.

use serde::Serialize;

use prairie_model::random::{Random, Spread, Time};

/// Bytes of a page.
pub const PAGE: f64 = 4096.0;

/// A compressed pool in memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Zswap {
    /// How long it takes to read a page. The paper gives 40 µs for nine reads in ten (§2.5).
    pub read: Spread<Time>,
    /// Memory that the pool takes for each byte it holds: objects of zsmalloc do not fill its
    /// pages. Measured on Linux 6.1 with half-random pages: 134 MB for 119.
    pub overhead: f64,
}

impl Default for Zswap {
    fn default() -> Zswap {
        Zswap { read: p90(40_000.0), overhead: 134.0 / 119.0 }
    }
}

impl Zswap {
    /// Bytes that a page takes which compresses by `compression`; a page that does not compress
    /// takes a whole one.
    pub fn page_bytes(&self, compression: f64) -> f64 {
        (PAGE / compression.max(1.0) * self.overhead).min(PAGE)
    }
}

/// Two decades of spread are rare: reads of a pool vary by what the page holds and which core
/// runs. The lognormal with this sigma has p90 at 1.47 times its median.
const POOL_SIGMA: f64 = 0.3;

/// Devices vary more. p99 is at 4.06 times the median.
const DEVICE_SIGMA: f64 = 0.602;

fn p90(ns: f64) -> Spread<Time> {
    Spread::Lognormal(ns / (1.2816 * POOL_SIGMA).exp(), POOL_SIGMA)
}

/// An SSD: Figure 5's p99 of reads, and its concurrency.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ssd {
    /// Its name.
    pub name: &'static str,
    /// Time to read a page when nothing else is under way.
    pub read: Spread<Time>,
    /// Reads per second by the rest of the server.
    pub other_reads: f64,
    /// When each of the requests that it serves at once will be done, in seconds.
    #[serde(skip)]
    free_at_s: Vec<f64>,
    /// When the rest of the server asks next, in seconds.
    #[serde(skip)]
    next_other_s: f64,
}

impl Ssd {
    /// A device whose reads take `p99_us` or less in 99 of 100 cases, `at_once` at a time.
    pub fn new(name: &'static str, p99_us: f64, at_once: usize, other_reads: f64) -> Ssd {
        let median_ns = p99_us * 1e3 / (2.3263 * DEVICE_SIGMA).exp();
        Ssd {
            name,
            read: Spread::Lognormal(median_ns, DEVICE_SIGMA),
            other_reads,
            free_at_s: vec![0.0; at_once],
            next_other_s: 0.0,
        }
    }

    /// The fastest of Figure 5: 470 µs at p99 (§2.5). It represents the paper's SSD C.
    pub fn fast() -> Ssd {
        Ssd::new("fast SSD", 470.0, 32, 200.0)
    }

    /// The slowest of Figure 5: 9.3 ms at p99 (§2.5). It represents the paper's SSD B.
    pub fn slow() -> Ssd {
        Ssd::new("slow SSD", 9_300.0, 32, 200.0)
    }

    /// Reads of a second that it can serve.
    pub fn iops(&self) -> f64 {
        self.free_at_s.len() as f64 / (self.read.mean() * 1e-9)
    }

    /// Reads a page that is requested at `at_s`: when it is there. Requests wait for a free place.
    pub fn read(&mut self, at_s: f64, random: &mut Random) -> f64 {
        self.catch_up(at_s, random);
        self.serve(at_s, random)
    }

    fn serve(&mut self, at_s: f64, random: &mut Random) -> f64 {
        let place = self.free_at_s.iter_mut().min_by(|a, b| a.total_cmp(b));
        let Some(place) = place else { return at_s };
        *place = place.max(at_s) + self.read.sample(random) * 1e-9;
        *place
    }

    /// Requests of the rest of the server meanwhile. Only the last moments matter: what was asked
    /// for long before has been served.
    fn catch_up(&mut self, at_s: f64, random: &mut Random) {
        const MEMORY_S: f64 = 0.5;
        if self.other_reads <= 0.0 {
            return;
        }
        self.next_other_s = self.next_other_s.max(at_s - MEMORY_S);
        while self.next_other_s <= at_s {
            self.serve(self.next_other_s, random);
            self.next_other_s += Spread::<Time>::Exponential(1.0 / self.other_reads).sample(random);
        }
    }
}

/// Where anonymous memory goes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Backend {
    /// Nowhere.
    None,
    /// Compressed memory.
    Zswap(Zswap),
    /// A swap device.
    Device(Ssd),
    /// Compressed memory first; beyond a number of bytes the oldest pages move to the device.
    Hierarchy(Zswap, Ssd, u64),
}

impl Backend {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Backend::None => "none",
            Backend::Zswap(_) => "zswap",
            Backend::Device(ssd) => ssd.name,
            Backend::Hierarchy(..) => "zswap, then SSD",
        }
    }

    /// The pool, if there is one.
    pub fn zswap(&self) -> Option<&Zswap> {
        match self {
            Backend::Zswap(zswap) | Backend::Hierarchy(zswap, ..) => Some(zswap),
            Backend::None | Backend::Device(_) => None,
        }
    }

    /// The swap device, if there is one.
    pub fn device(&mut self) -> Option<&mut Ssd> {
        match self {
            Backend::Device(ssd) | Backend::Hierarchy(_, ssd, _) => Some(ssd),
            Backend::None | Backend::Zswap(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn percentile(mut samples: Vec<f64>, share: f64) -> f64 {
        samples.sort_by(f64::total_cmp);
        samples[(samples.len() as f64 * share) as usize]
    }

    #[test]
    fn reads_have_the_papers_percentiles() {
        let mut random = Random::new(1);
        let mut draw = |spread: Spread<Time>| -> Vec<f64> {
            (0..40_000).map(|_| spread.sample(&mut random) / 1e3).collect()
        };
        let pool = percentile(draw(Zswap::default().read), 0.9);
        assert!((pool - 40.0).abs() < 1.0, "{pool} us");
        for (ssd, p99) in [(Ssd::fast(), 470.0), (Ssd::slow(), 9_300.0)] {
            let found = percentile(draw(ssd.read), 0.99);
            assert!((found / p99 - 1.0).abs() < 0.05, "{}: {found} us", ssd.name);
        }
    }

    /// One place, reads of 1 ms that come every 0.5 ms: the n-th waits n times half a millisecond.
    #[test]
    fn reads_queue() {
        let mut ssd = Ssd { read: Spread::fixed(1e6), ..Ssd::new("one", 1_000.0, 1, 0.0) };
        let mut random = Random::new(1);
        for n in 0..10 {
            let asked = f64::from(n) * 0.5e-3;
            let waited = ssd.read(asked, &mut random) - asked;
            assert!((waited - (1e-3 + f64::from(n) * 0.5e-3)).abs() < 1e-9, "{n}: {waited}");
        }
    }

    #[test]
    fn others_on_the_device_make_it_slower() {
        let mean = |other_reads: f64| {
            let mut ssd = Ssd::new("shared", 9_300.0, 4, other_reads);
            let mut random = Random::new(1);
            let wait = |at: u32, ssd: &mut Ssd, random: &mut Random| {
                ssd.read(f64::from(at) * 0.1, random) - f64::from(at) * 0.1
            };
            (0..2_000).map(|at| wait(at, &mut ssd, &mut random)).sum::<f64>() / 2_000.0
        };
        // Four places serve 1,450 reads a second.
        assert!(mean(1_300.0) > mean(0.0) * 1.5, "{} {}", mean(1_300.0), mean(0.0));
    }

    #[test]
    fn incompressible_pages_save_nothing() {
        let zswap = Zswap::default();
        assert_eq!(zswap.page_bytes(1.0), PAGE);
        assert!((zswap.page_bytes(4.0) / PAGE - 0.2815).abs() < 1e-3);
    }
}
