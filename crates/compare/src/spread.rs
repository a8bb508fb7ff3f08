//! Mean and spread of a few measurements.

use serde::Serialize;

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
        Some(Spread { count, mean, deviation, min: fold(f64::min), max: fold(f64::max) })
    }

    /// The 95 % interval of the mean (Student's t); `None` for one measurement.
    pub fn interval(&self) -> Option<Interval> {
        let freedom = (self.count > 1).then(|| (self.count - 1) as f64)?;
        let half = t_95(freedom) * self.deviation / (self.count as f64).sqrt();
        Some(Interval { low: self.mean - half, high: self.mean + half })
    }

    /// The variance of the mean.
    fn variance(&self) -> f64 {
        self.deviation.powi(2) / self.count as f64
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
                let part = |variance: f64, count: usize| variance.powi(2) / (count - 1) as f64;
                sum.powi(2) / (part(a, before.count) + part(b, after.count))
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

/// The two-sided 95 % quantile of Student's t distribution, for 1 to 30 degrees of freedom.
const T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The quantile for any degrees of freedom: the table's, interpolated, and beyond it the first terms
/// of the expansion around the normal distribution.
fn t_95(freedom: f64) -> f64 {
    const NORMAL: f64 = 1.959_964;
    if freedom >= T_95.len() as f64 {
        return NORMAL + (NORMAL.powi(3) + NORMAL) / (4.0 * freedom);
    }
    let below = freedom.max(1.0).floor();
    let at = below as usize - 1;
    let next = T_95.get(at + 1).copied().unwrap_or(T_95[at]);
    T_95[at] + (next - T_95[at]) * (freedom.max(1.0) - below)
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
        assert!((interval.high - 5.0 - 2.776 * 2f64.sqrt()).abs() < 1e-9, "{interval:?}");
        assert!((interval.low + interval.high - 10.0).abs() < 1e-9);
    }

    #[test]
    fn one_value_has_no_interval() {
        assert_eq!(Spread::of(&[]), None);
        let one = Spread::of(&[4.0]).unwrap();
        assert_eq!((one.deviation, one.interval()), (0.0, None));
        assert_eq!(Interval::of_difference(&one, &one), None);
    }

    #[test]
    fn quantiles_meet_where_the_table_ends() {
        assert!((t_95(30.0) - 2.042).abs() < 0.002, "{}", t_95(30.0));
        assert!((t_95(29.999) - t_95(30.0)).abs() < 0.003);
        assert!((t_95(1e9) - 1.96).abs() < 0.001);
        assert!((t_95(1.5) - (12.706 + 4.303) / 2.0).abs() < 1e-9);
        assert_eq!(t_95(0.3), 12.706);
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
