//! Means of repeated measurements, and how certain they are.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Repeated measurements of one quantity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many there are.
    pub count: usize,
    /// Their mean.
    pub mean: f64,
    /// Sample variance; 0 of a single measurement.
    pub variance: f64,
}

/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval; `None` where there are too few measurements for one.
    pub half_width: Option<f64>,
}

impl Spread {
    /// Of values; `None` of none.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let count = values.len();
        if count == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let variance = if count > 1 { squares / (count - 1) as f64 } else { 0.0 };
        Some(Spread { count, mean, variance })
    }

    /// The mean, with an interval by Student's t distribution.
    pub fn mean(&self) -> Estimate {
        let half_width = (self.count > 1).then(|| {
            quantile(self.count as f64 - 1.0) * (self.variance / self.count as f64).sqrt()
        });
        Estimate { mean: self.mean, half_width }
    }

    /// By how much the mean exceeds `other`'s, with an interval by Welch's t test: the two may vary
    /// by different amounts.
    pub fn minus(&self, other: &Spread) -> Estimate {
        let mean = self.mean - other.mean;
        if self.count < 2 || other.count < 2 {
            return Estimate { mean, half_width: None };
        }
        let [a, b] = [self, other].map(|spread| spread.variance / spread.count as f64);
        if a + b == 0.0 {
            return Estimate { mean, half_width: Some(0.0) };
        }
        let [da, db] = [self, other].map(|spread| spread.count as f64 - 1.0);
        // Welch-Satterthwaite.
        let freedom = (a + b).powi(2) / (a * a / da + b * b / db);
        Estimate { mean, half_width: Some(quantile(freedom) * (a + b).sqrt()) }
    }
}

impl Estimate {
    /// Whether the interval excludes zero; never without an interval.
    pub fn is_significant(&self) -> bool {
        self.half_width.is_some_and(|half| self.mean.abs() > half)
    }

    /// Mean and interval times a factor.
    pub fn scaled(&self, factor: f64) -> Estimate {
        Estimate {
            mean: self.mean * factor,
            half_width: self.half_width.map(|half| half * factor.abs()),
        }
    }
}

/// The t value that 95 % of the distribution lie within on both sides.
fn quantile(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        let spread = Spread::of(&[4.0, 6.0, 8.0, 10.0, 12.0]).unwrap();
        assert_eq!((spread.mean, spread.variance), (8.0, 10.0));
        // t(0.975, 4) = 2.776 in every table.
        let half = spread.mean().half_width.unwrap();
        assert!((half - 2.776_445 * (10.0f64 / 5.0).sqrt()).abs() < 1e-4, "{half}");
    }

    #[test]
    fn one_measurement_has_no_interval_and_none_has_no_mean() {
        assert_eq!(Spread::of(&[]), None);
        let one = Spread::of(&[3.0]).unwrap();
        assert_eq!(one.mean(), Estimate { mean: 3.0, half_width: None });
        assert!(!one.minus(&one).is_significant());
    }

    /// The example of two samples with unequal variances, worked by hand: variances 1 and 10, five
    /// values each, so the difference has a variance of 2.2 and 4.79 degrees of freedom.
    #[test]
    fn differences_are_welchs() {
        let narrow = Spread::of(&[20.0, 20.0, 21.0, 22.0, 22.0]).unwrap();
        let wide = Spread::of(&[14.0, 16.0, 18.0, 20.0, 22.0]).unwrap();
        assert_eq!((narrow.variance, wide.variance), (1.0, 10.0));
        let difference = narrow.minus(&wide);
        let freedom = 2.2f64.powi(2) / (0.2f64.powi(2) / 4.0 + 2.0f64.powi(2) / 4.0);
        assert!((freedom - 4.79).abs() < 0.01);
        assert!((difference.mean - 3.0).abs() < 1e-12);
        let half = difference.half_width.unwrap();
        assert!((half - quantile(freedom) * 2.2f64.sqrt()).abs() < 1e-9);
        // t(0.975, 4.79) lies between those of 4 and 5 degrees, 2.776 and 2.571.
        assert!((3.81..4.12).contains(&half), "{half}");
        assert!(!difference.is_significant());
    }

    #[test]
    fn equal_values_differ_by_exactly_nothing() {
        let same = Spread::of(&[5.0, 5.0]).unwrap();
        assert_eq!(same.minus(&same), Estimate { mean: 0.0, half_width: Some(0.0) });
        let more = Spread::of(&[6.0, 6.0]).unwrap();
        assert!(more.minus(&same).is_significant());
    }
}
