//! Charts: lines over time or any other quantity, cumulative distributions, grouped bars.
//!
//! On a page they are drawn by uPlot, with values under the pointer, zoom, and a legend that
//! switches series; for documents [`LineChart::svg`] and [`LineChart::png`] draw them still.

mod align;
mod bars;
mod picture;
mod scale;
mod text;
pub(crate) mod timeline;

pub(crate) use align::{Aligned, align};

/// Lines over a shared x axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineChart {
    /// A caption; may be empty.
    pub title: String,
    /// How the figure is defined, and what to see in it; may be empty.
    pub caption: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines; each keeps its color by its position.
    pub series: Vec<Series>,
    /// How points are joined.
    pub shape: Shape,
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// The system, process or quantity.
    pub name: String,
    /// (x, y) by rising x. A y that is not finite is a gap; a point whose x is not finite is left
    /// out; points out of order are sorted.
    pub points: Vec<(f64, f64)>,
}

/// One axis.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Axis {
    /// The quantity's name.
    pub label: String,
    /// Its unit, which says how values are written.
    pub unit: Unit,
    /// The lowest and highest value shown; `None` fits the data (a vertical axis then begins at 0
    /// unless values are below).
    pub range: Option<(f64, f64)>,
}

/// How the values of an axis are meant and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A bare number.
    #[default]
    Number,
    /// A whole number of things: `524 288`.
    Count,
    /// Bytes, in binary units.
    Bytes,
    /// A share between 0 and 1, written as percent.
    Share,
    /// Seconds.
    Seconds,
}

/// How the points of a line are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// Straight from point to point.
    #[default]
    Straight,
    /// Holds a value until the next point: counters sampled at changes, distributions.
    Steps,
}

/// Groups of bars: one group per category, one bar per series in each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarChart {
    /// A caption; may be empty.
    pub title: String,
    /// How the figure is defined, and what to see in it; may be empty.
    pub caption: String,
    /// The label of the categories; unit and range are not used.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The groups, from the left.
    pub categories: Vec<String>,
    /// The bars of each group.
    pub series: Vec<BarSeries>,
}

/// The bars of one series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BarSeries {
    /// The system, process or quantity.
    pub name: String,
    /// One value per category; one that is missing or not finite leaves its place empty.
    pub values: Vec<f64>,
}

impl Axis {
    /// An axis that fits its data.
    pub fn new(label: impl Into<String>, unit: Unit) -> Axis {
        Axis { label: label.into(), unit, range: None }
    }

    /// The same axis with fixed ends.
    pub fn within(self, low: f64, high: f64) -> Axis {
        Axis { range: Some((low, high)), ..self }
    }
}

impl LineChart {
    /// The cumulative distribution of each named set of samples: for each value, the share of
    /// samples that are no larger. Samples that are not finite are left out.
    pub fn distribution(
        title: impl Into<String>,
        x: Axis,
        samples: impl IntoIterator<Item = (String, Vec<f64>)>,
    ) -> LineChart {
        let series =
            samples.into_iter().map(|(name, samples)| Series { name, points: cdf(samples) });
        LineChart {
            title: title.into(),
            x,
            y: Axis::new("share of samples no larger", Unit::Share).within(0.0, 1.0),
            series: series.collect(),
            shape: Shape::Steps,
            ..LineChart::default()
        }
    }
}

/// The steps of the empirical distribution function: one point per distinct value.
fn cdf(mut samples: Vec<f64>) -> Vec<(f64, f64)> {
    samples.retain(|sample| sample.is_finite());
    samples.sort_by(f64::total_cmp);
    let all = samples.len() as f64;
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (i, value) in samples.into_iter().enumerate() {
        let share = (i + 1) as f64 / all;
        match points.last_mut() {
            Some(last) if last.0 == value => last.1 = share,
            _ => points.push((value, share)),
        }
    }
    points
}
