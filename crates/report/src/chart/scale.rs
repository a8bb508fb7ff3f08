//! Axes: where they begin and end, where their ticks are, how values are written.

use super::{Aligned, Axis, LineChart, Unit};
use crate::number;

/// An axis with its ends settled.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    pub low: f64,
    pub high: f64,
    pub unit: Unit,
}

impl Unit {
    /// A value of this unit as text.
    pub fn text(self, value: f64) -> String {
        let whole = |value: f64| value.abs().round() as u64;
        let sign = if value < 0.0 { "−" } else { "" };
        match self {
            _ if !value.is_finite() => number::NONE.to_owned(),
            Unit::Number if value.abs() >= 1000.0 => number::short(value),
            Unit::Number => trimmed(&number::index(value)),
            Unit::Count => format!("{sign}{}", number::count(whole(value))),
            Unit::Bytes => format!("{sign}{}", number::bytes(whole(value))),
            Unit::Share => number::percent(value),
            Unit::Seconds => format!("{sign}{}", number::duration(whole(value * 1e9))),
        }
    }

    /// A value on an axis with ticks every `step`, without digits that are zero on all ticks.
    pub(super) fn tick(self, value: f64, step: f64) -> String {
        match self {
            Unit::Share => {
                let decimals = (-(step * 100.0).log10().floor()).clamp(0.0, 6.0) as usize;
                format!("{:.decimals$}{}%", value * 100.0, number::THIN)
            }
            Unit::Seconds if (1.0..60.0).contains(&step) => {
                format!("{value:.0}{}s", number::THIN)
            }
            _ => self.text(value),
        }
    }
}

fn trimmed(text: &str) -> String {
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    }
}

impl Scale {
    /// The horizontal axis: the data's own ends.
    pub fn horizontal(chart: &LineChart, aligned: &Aligned) -> Scale {
        let ends = (aligned.xs.first().copied(), aligned.xs.last().copied());
        let (low, high) = match ends {
            (Some(low), Some(high)) => (low, high),
            _ => (0.0, 1.0),
        };
        Scale::new(&chart.x, (low, high))
    }

    /// The vertical axis: from 0, or the lowest value if that is below, to a tick above the
    /// highest.
    pub fn vertical(chart: &LineChart, aligned: &Aligned) -> Scale {
        let values = || aligned.ys.iter().flatten().flatten().copied();
        let low = values().fold(0.0, f64::min);
        let high = values().fold(low, f64::max);
        let mut scale = Scale::new(&chart.y, (low, high));
        if chart.y.range.is_none() {
            let step = scale.step(5);
            scale.high = (scale.high / step).ceil() * step;
            scale.low = (scale.low / step).floor() * step;
        }
        scale
    }

    fn new(axis: &Axis, data: (f64, f64)) -> Scale {
        let fixed =
            axis.range.filter(|(low, high)| low.is_finite() && high.is_finite() && low < high);
        let (low, high) = fixed.unwrap_or(data);
        let high = if high > low { high } else { low + 1.0 };
        Scale { low, high, unit: axis.unit }
    }

    /// The position of a value between the ends, 0 to 1 (outside this range if it is outside).
    pub fn place(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    /// The distance of about `wanted` round ticks: 1, 2 or 5 times a power of ten; of bytes, a
    /// power of two; of time, parts and multiples of minutes, hours and days.
    pub fn step(&self, wanted: usize) -> f64 {
        let rough = ((self.high - self.low) / wanted as f64).max(f64::MIN_POSITIVE);
        match self.unit {
            Unit::Bytes => 2f64.powf(rough.log2().ceil()).max(1.0),
            Unit::Seconds if rough > 20.0 => {
                let steps = [30.0, 60.0, 120.0, 300.0, 600.0, 1_800.0, 3_600.0, 7_200.0, 18_000.0];
                let day = 86_400.0;
                steps.into_iter().find(|step| *step >= rough).unwrap_or((rough / day).ceil() * day)
            }
            Unit::Number | Unit::Count | Unit::Share | Unit::Seconds => {
                let power = 10f64.powf(rough.log10().floor());
                let factor =
                    [1.0, 2.0, 5.0].into_iter().find(|f| f * power >= rough).unwrap_or(10.0);
                let step = factor * power;
                if self.unit == Unit::Count { step.max(1.0) } else { step }
            }
        }
    }

    /// Round values between the ends and how they are written.
    pub fn ticks(&self, wanted: usize) -> Vec<(f64, String)> {
        let step = self.step(wanted);
        let first = (self.low / step).ceil();
        // A step that vanishes compared with the values (1e300 to 1e300 + 1) would give endless
        // ticks.
        (0..=4 * wanted)
            .map(|i| (first + i as f64) * step)
            .take_while(|value| *value <= self.high + step * 1e-6)
            .map(|value| (value, self.unit.tick(value, step)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(low: f64, high: f64, unit: Unit) -> Vec<String> {
        let ticks = Scale { low, high, unit }.ticks(5);
        ticks.into_iter().map(|(_, text)| text.replace(number::THIN, " ")).collect()
    }

    #[test]
    fn ticks_are_round_in_their_unit() {
        assert_eq!(labels(0.0, 1.0, Unit::Share), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]);
        let gib = f64::from(1 << 30);
        assert_eq!(labels(0.0, 7.0 * gib, Unit::Bytes), ["0 B", "2 GiB", "4 GiB", "6 GiB"]);
        assert_eq!(labels(0.0, 30.0, Unit::Seconds), ["0 s", "10 s", "20 s", "30 s"]);
        assert_eq!(
            labels(0.0, 600.0, Unit::Seconds),
            ["0 s", "2 min", "4 min", "6 min", "8 min", "10 min"]
        );
        assert_eq!(labels(0.0, 2.0, Unit::Count), ["0", "1", "2"]);
        assert_eq!(labels(-1.0, 1.0, Unit::Number), ["−1", "−0.5", "0", "0.5", "1"]);
    }

    #[test]
    fn an_axis_without_extent_still_has_one() {
        let scale = Scale::new(&Axis::default(), (3.0, 3.0));
        assert!(scale.high > scale.low);
        assert!(!scale.ticks(5).is_empty());
        let fixed = Scale::new(&Axis::default().within(1.0, f64::NAN), (0.0, 2.0));
        assert_eq!((fixed.low, fixed.high), (0.0, 2.0));
    }
}
