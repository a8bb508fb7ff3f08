//! Shared by the programs that load a container: noise, and a histogram of times.

use std::time::Duration;

/// The greatest common divisor.
pub fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// xorshift: the same bytes in every run.
pub struct Noise(pub u64);

impl Noise {
    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "the sequence has no end")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Fills `bytes` with the next numbers.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_mut(8) {
            word.copy_from_slice(&self.next().to_ne_bytes()[..word.len()]);
        }
    }
}

/// A histogram of times, eight bins to each doubling.
pub struct Times {
    bins: Vec<u64>,
    count: u64,
    most_ns: u64,
    slow: u64,
}

impl Default for Times {
    fn default() -> Times {
        Times::new()
    }
}

impl Times {
    /// Without any time.
    pub fn new() -> Times {
        Times { bins: vec![0; 64 * 8], count: 0, most_ns: 0, slow: 0 }
    }

    /// Adds one.
    pub fn add(&mut self, time: Duration) {
        let ns = (time.as_nanos() as u64).max(8);
        let doubling = 63 - ns.leading_zeros() as usize;
        let bin = doubling * 8 + (ns >> (doubling - 3)) as usize % 8;
        self.bins[bin] += 1;
        self.count += 1;
        self.most_ns = self.most_ns.max(ns);
        self.slow += u64::from(ns > 20_000);
    }

    /// The lower end of the bin that holds the percentile.
    fn percentile(&self, share: f64) -> u64 {
        let rank = (self.count as f64 * share) as u64;
        let mut seen = 0;
        let found = self.bins.iter().position(|count| {
            seen += count;
            seen > rank
        });
        found.map_or(self.most_ns, |bin| (8 + bin as u64 % 8) << (bin / 8 - 3))
    }

    /// Percentiles 50, 99 and 99.9, the maximum, and how many took more than 20 µs.
    pub fn print_and_clear(&mut self) -> String {
        let percentiles = [0.5, 0.99, 0.999].map(|share| self.percentile(share).to_string());
        let line = format!("{}\t{}\t{}", percentiles.join("\t"), self.most_ns, self.slow);
        *self = Times::new();
        line
    }
}
