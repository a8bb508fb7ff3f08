//! Mean and spread of a few measurements.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Measurements of one quantity, summarized.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// Number of measurements, at least 1.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation (of a sample: divided by `count - 1`); 0 for one measurement.
    pub deviation: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// Number of independent measurements that tell as much: `count`, or fewer in a series whose
    /// neighbors resemble each other.
    pub independent: f64,
}

/// Where a mean or a difference lies with 95 % confidence, if measurements are normally distributed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Spread {
    /// The spread of `values`; `None` of nothing.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let count = values.len();
        let (&first, _) = values.split_first()?;
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let deviation = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        let fold = |of: fn(f64, f64) -> f64| values.iter().copied().fold(first, of);
        let (min, max) = (fold(f64::min), fold(f64::max));
        Some(Spread { count, mean, deviation, min, max, independent: count as f64 })
    }

    /// The spread of `values` in the order of time; `None` of nothing. Neighbors in time resemble
    /// each other, so that many of them tell little: their number is reduced by the correlation of
    /// neighbors `r`, as of a process of first order, to `count (1 - r) / (1 + r)`, at least 2.
    pub fn of_series(values: &[f64]) -> Option<Spread> {
        let mut spread = Spread::of(values)?;
        let from_mean = |value: &f64| value - spread.mean;
        let squares: f64 = values.iter().map(|value| from_mean(value).powi(2)).sum();
        let products: f64 =
            values.windows(2).map(|pair| from_mean(&pair[0]) * from_mean(&pair[1])).sum();
        if spread.count > 2 && squares > 0.0 {
            let correlation = (products / squares).clamp(0.0, 1.0);
            let count = spread.count as f64 * (1.0 - correlation) / (1.0 + correlation);
            spread.independent = count.max(2.0);
        }
        Some(spread)
    }

    /// The 95 % interval of the mean (Student's t); `None` for one measurement.
    pub fn interval(&self) -> Option<Interval> {
        let freedom = (self.count > 1).then_some(self.independent - 1.0)?;
        let half = t_95(freedom) * self.deviation / self.independent.sqrt();
        Some(Interval { low: self.mean - half, high: self.mean + half })
    }

    /// The variance of the mean.
    fn variance(&self) -> f64 {
        self.deviation.powi(2) / self.independent
    }
}

impl Interval {
    /// The 95 % interval of the difference of two means, `after - before`, by Welch's approximation;
    /// `None` unless both sides have several measurements.
    pub fn of_difference(before: &Spread, after: &Spread) -> Option<Interval> {
        if before.count < 2 || after.count < 2 {
            return None;
        }
        let (a, b) = (before.variance(), after.variance());
        let difference = after.mean - before.mean;
        let freedom = match a + b {
            0.0 => return Some(Interval { low: difference, high: difference }),
            sum => {
                let part = |variance: f64, of: &Spread| variance.powi(2) / (of.independent - 1.0);
                sum.powi(2) / (part(a, before) + part(b, after))
            }
        };
        let half = t_95(freedom) * (a + b).sqrt();
        Some(Interval { low: difference - half, high: difference + half })
    }

    /// Whether the interval lies on one side of 0.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// The two-sided 95 % quantile of Student's t distribution.
fn t_95(freedom: f64) -> f64 {
    // The library's search for the quantile takes ever longer near the normal distribution.
    if freedom > 1e5 {
        return 1.959_964;
    }
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worked by hand: mean 5, deviation sqrt(10), t(4) = 2.776.
    #[test]
    fn five_values_by_hand() {
        let spread = Spread::of(&[1.0, 3.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((spread.mean, spread.min, spread.max), (5.0, 1.0, 9.0));
        assert!((spread.deviation - 10f64.sqrt()).abs() < 1e-12);
        let interval = spread.interval().unwrap();
        assert!((interval.high - 5.0 - 2.776_445 * 2f64.sqrt()).abs() < 1e-5, "{interval:?}");
        assert!((interval.low + interval.high - 10.0).abs() < 1e-9);
    }

    #[test]
    fn one_value_has_no_interval() {
        assert_eq!(Spread::of(&[]), None);
        let one = Spread::of(&[4.0]).unwrap();
        assert_eq!((one.deviation, one.interval()), (0.0, None));
        assert_eq!(Interval::of_difference(&one, &one), None);
    }

    /// A slow drift is a few measurements, noise is as many as there are.
    #[test]
    fn neighbors_that_resemble_each_other_count_less() {
        let drift: Vec<f64> = (0..100).map(f64::from).collect();
        let drift = Spread::of_series(&drift).unwrap();
        assert!(drift.count == 100 && drift.independent < 3.0, "{drift:?}");
        let noise: Vec<f64> = (0..100).map(|at| f64::from(at * 7919 % 101)).collect();
        let noise = Spread::of_series(&noise).unwrap();
        assert!(noise.independent > 60.0, "{noise:?}");
        assert_eq!(Spread::of_series(&[3.0, 3.0, 3.0]).unwrap().independent, 3.0);
        assert_eq!(Spread::of_series(&[3.0, 4.0]).unwrap().independent, 2.0);
        // The mean of 0 to 49 differs from that of 10 to 59 by 10: a drift cannot show it.
        let from = |first: i32| {
            Spread::of_series(&(first..first + 50).map(f64::from).collect::<Vec<_>>()).unwrap()
        };
        assert!(!Interval::of_difference(&from(0), &from(10)).unwrap().excludes_zero());
    }

    /// Values of every table.
    #[test]
    fn quantiles_are_students() {
        for (freedom, quantile) in [(1.0, 12.706), (4.0, 2.776), (30.0, 2.042), (1e9, 1.960)] {
            assert!((t_95(freedom) - quantile).abs() < 0.001, "{freedom}: {}", t_95(freedom));
        }
    }

    /// A difference as large as ten deviations is found, none is not.
    #[test]
    fn differences_beyond_the_spread_are_found() {
        let around = |center: f64| Spread::of(&[center - 1.0, center, center + 1.0]).unwrap();
        let found = |after| Interval::of_difference(&around(5.0), &around(after)).unwrap();
        assert!(found(15.0).excludes_zero());
        assert!(!found(5.5).excludes_zero());
        assert!(!found(5.0).excludes_zero());
        let same = Spread::of(&[2.0, 2.0]).unwrap();
        let none = Interval::of_difference(&same, &same).unwrap();
        assert_eq!((none.low, none.high), (0.0, 0.0));
    }
}
