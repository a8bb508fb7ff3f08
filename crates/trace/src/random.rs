//! Random numbers: a seed yields the same stream in every version.

/// Steele, Lea and Flood's SplitMix64 ("Fast splittable pseudorandom number generators", 2014).
///
/// Here rather than from a library, whose generators may change from version to version.
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// The stream of a seed.
    pub const fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, by multiplication; the bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from 0 to below 1.
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A time between two events of a Poisson process with a mean rate of one per unit.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.share()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vigna's published first outputs for seed 1234567.
    #[test]
    fn the_stream_is_the_published_one() {
        let mut random = SplitMix64::new(1_234_567);
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!([random.bits(), random.bits()], expected);
    }

    #[test]
    fn exponential_times_have_mean_and_deviation_one() {
        let mut random = SplitMix64::new(5);
        let times: Vec<f64> = (0..200_000).map(|_| random.exponential()).collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let square = times.iter().map(|time| time * time).sum::<f64>() / times.len() as f64;
        assert!((mean - 1.0).abs() < 0.01 && (square - 2.0).abs() < 0.05, "{mean} {square}");
        assert!(times.iter().all(|&time| time >= 0.0 && time.is_finite()));
    }
}
