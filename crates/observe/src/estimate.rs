//! A total over all pageblocks, estimated from a random sample of them.
//!
//! Each pageblock has a value between 0 and 1: whether it is polluted, or which part of its frames
//! is slab. A sample without replacement estimates the total; its 95 % interval is that of Agresti
//! and Coull (*Approximate is better than "exact" for interval estimation of binomial proportions*,
//! 1998), written with moments so that it holds for any value between 0 and 1, with the sample's
//! size divided by the share of blocks that were not read (the finite-population correction). It
//! does not collapse where no sampled block has the property, and vanishes where all were read.

use serde::{Deserialize, Serialize};

/// The 97.5 % point of the normal distribution: both tails together are 5 %.
const Z: f64 = 1.959_963_985;

/// A figure and its 95 % interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The estimate, without bias.
    pub value: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Estimate {
    /// A figure that was counted.
    pub const fn exact(value: f64) -> Estimate {
        Estimate { value, low: value, high: value }
    }

    /// The figure in another unit.
    pub fn times(self, factor: f64) -> Estimate {
        Estimate { value: self.value * factor, low: self.low * factor, high: self.high * factor }
    }

    /// Half of the interval's width, relative to `whole`; 0 for nothing.
    pub fn error_of(self, whole: f64) -> f64 {
        if whole > 0.0 { (self.high - self.low) / 2.0 / whole } else { 0.0 }
    }
}

/// A sample without replacement of values between 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Units in all.
    pub population: u64,
    /// Units that were read, at most all.
    pub size: u64,
    /// The sum of their values.
    pub sum: f64,
    /// The sum of the squares of their values.
    pub squares: f64,
}

impl Sample {
    /// The total over the population. Without a sample everything is possible.
    pub fn total(&self) -> Estimate {
        let all = self.population as f64;
        if self.size == 0 {
            return Estimate { value: f64::NAN, low: 0.0, high: all };
        }
        let read = self.size as f64;
        let mean = self.sum / read;
        let unread = 1.0 - read / all;
        if unread <= 0.0 {
            return Estimate::exact(self.sum);
        }
        let effective = read / unread;
        // The interval of a sample with z²/2 more units of value 0 and as many of value 1.
        let size = effective + Z * Z;
        let middle = (effective * mean + Z * Z / 2.0) / size;
        let square = (effective * self.squares / read + Z * Z / 2.0) / size;
        let half = Z * ((square - middle * middle).max(0.0) / size).sqrt();
        // What was read is certain, whatever the rest may be.
        let (least, most) = (self.sum, self.sum + (all - read));
        Estimate {
            value: mean * all,
            low: ((middle - half) * all).clamp(least, mean * all),
            high: ((middle + half) * all).clamp(mean * all, most),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::population::choose;

    fn sample(population: &[f64], size: u64, seed: u64) -> Sample {
        let chosen = choose(population.len() as u64, size, seed);
        let values = chosen.iter().map(|&at| population[at as usize]);
        Sample {
            population: population.len() as u64,
            size: chosen.len() as u64,
            sum: values.clone().sum(),
            squares: values.map(|value| value * value).sum(),
        }
    }

    #[test]
    fn a_case_worked_by_hand() {
        // 100 of 10,000 read, 30 have the property: effective size 100 / 0.99 = 101.0101.
        let found = Sample { population: 10_000, size: 100, sum: 30.0, squares: 30.0 }.total();
        assert_eq!(found.value, 3000.0);
        // Middle (30.30303 + 1.92073) / 104.85156 = 0.307327; half 1.96 sqrt(0.212877 / 104.85156)
        // = 0.088313.
        assert!((found.low - 2190.1).abs() < 1.0, "{found:?}");
        assert!((found.high - 3956.4).abs() < 1.0, "{found:?}");
    }

    #[test]
    fn nothing_seen_is_not_nothing_there() {
        let found = Sample { population: 10_000, size: 100, sum: 0.0, squares: 0.0 }.total();
        assert_eq!((found.value, found.low), (0.0, 0.0));
        assert!(found.high > 300.0 && found.high < 600.0, "the rule of three gives 300: {found:?}");
        let none = Sample { population: 10, ..Sample::default() }.total();
        assert!(none.value.is_nan() && none.high == 10.0);
    }

    /// Of many samples of skewed populations, 95 in 100 intervals hold the total.
    #[test]
    fn intervals_cover_what_they_promise() {
        let shapes: [fn(usize) -> f64; 5] = [
            |at| f64::from(u8::from(at % 3 == 0)),
            |at| f64::from(u8::from(at % 100 == 0)),
            |at| if at % 10 == 0 { (at % 512) as f64 / 512.0 } else { 0.0 },
            |at| if at % 50 == 0 { 1.0 } else { 0.01 },
            |at| (at % 512) as f64 / 512.0,
        ];
        for (number, shape) in shapes.into_iter().enumerate() {
            let population: Vec<f64> = (0..4000).map(shape).collect();
            let truth: f64 = population.iter().sum();
            for size in [200, 1000] {
                let runs = 400;
                let covered = (0..runs).filter(|seed| {
                    let found = sample(&population, size, *seed).total();
                    found.low <= truth && truth <= found.high
                });
                let covered = covered.count();
                // 95 % of 400 is 380, with a standard deviation of 4.4.
                assert!(covered >= 362, "shape {number}, {size} blocks: {covered} of {runs}");
            }
        }
    }

    proptest! {
        #[test]
        fn reading_everything_is_exact(values in prop::collection::vec(0.0..=1.0f64, 1..50)) {
            let found = sample(&values, values.len() as u64, 1).total();
            let truth: f64 = values.iter().sum();
            prop_assert!((found.value - truth).abs() < 1e-9);
            prop_assert_eq!((found.low, found.high), (found.value, found.value));
        }

        #[test]
        fn intervals_hold_their_estimate(
            values in prop::collection::vec(0.0..=1.0f64, 1..200),
            size in 1u64..200,
            seed: u64,
        ) {
            let found = sample(&values, size, seed).total();
            prop_assert!(0.0 <= found.low && found.low <= found.value);
            prop_assert!(found.value <= found.high && found.high <= values.len() as f64 + 1e-9);
        }
    }
}
