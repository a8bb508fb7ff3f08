//! Series brought onto one x axis, and thinned when there are more points than can be seen.

use super::{LineChart, Series, Shape};

/// Positions per chart that are drawn at most: a few per pixel of a wide page, so that a zoom finds
/// more than was seen.
pub(crate) const POINTS_MAX: usize = 4_000;

/// All series over the same positions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Aligned {
    /// Positions in rising order, all distinct.
    pub xs: Vec<f64>,
    /// For each series, its value at each position, where it has one.
    pub ys: Vec<Vec<Option<f64>>>,
    /// How many positions there were before thinning.
    pub measured: usize,
}

impl Aligned {
    /// Whether points were left out.
    pub fn is_thinned(&self) -> bool {
        self.xs.len() < self.measured
    }
}

/// Brings the series of a chart onto the union of their positions.
///
/// Where a series has no point of its own, it takes what its line shows there: the value held
/// ([`Shape::Steps`]) or the one between its neighbors ([`Shape::Straight`]); beyond its ends it
/// has none. More than [`POINTS_MAX`] positions are thinned so that each stretch keeps its first
/// and last point and every series' lowest and highest: no peak is lost.
pub(crate) fn align(chart: &LineChart) -> Aligned {
    let lines: Vec<Vec<(f64, f64)>> = chart.series.iter().map(sorted).collect();
    let mut xs: Vec<f64> = lines.iter().flatten().map(|point| point.0).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    let ys = lines.iter().map(|line| values_at(line, &xs, chart.shape)).collect();
    thin(Aligned { measured: xs.len(), xs, ys })
}

/// The points with a finite x, by rising x; of several at one x, the last.
fn sorted(series: &Series) -> Vec<(f64, f64)> {
    // Adding zero makes −0 and 0 one position.
    let finite = series.points.iter().filter(|point| point.0.is_finite());
    let mut points: Vec<(f64, f64)> = finite.map(|point| (point.0 + 0.0, point.1)).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            kept.1 = later.1;
        }
        same
    });
    points
}

fn values_at(line: &[(f64, f64)], xs: &[f64], shape: Shape) -> Vec<Option<f64>> {
    let mut next = 0;
    let value = |x: f64| {
        while next < line.len() && line[next].0 <= x {
            next += 1;
        }
        let before = line.get(next.checked_sub(1)?)?;
        let after = line.get(next);
        let y = match (before.0 == x, shape, after) {
            (true, _, _) | (false, Shape::Steps, Some(_)) => before.1,
            (false, Shape::Straight, Some(after)) => {
                before.1 + (after.1 - before.1) * (x - before.0) / (after.0 - before.0)
            }
            (false, _, None) => return None,
        };
        y.is_finite().then_some(y)
    };
    xs.iter().copied().map(value).collect()
}

fn thin(aligned: Aligned) -> Aligned {
    if aligned.xs.len() <= POINTS_MAX {
        return aligned;
    }
    let per_stretch = 2 + 2 * aligned.ys.len();
    let stretches = (POINTS_MAX / per_stretch).max(1);
    let all = aligned.xs.len();
    let mut kept = Vec::with_capacity(POINTS_MAX);
    for stretch in 0..stretches {
        let range = stretch * all / stretches..(stretch + 1) * all / stretches;
        kept.extend([range.start, range.end - 1]);
        for ys in &aligned.ys {
            let values = || range.clone().filter_map(|i| ys[i].map(|y| (i, y)));
            kept.extend(values().min_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i));
            kept.extend(values().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(i, _)| i));
        }
    }
    kept.sort_unstable();
    kept.dedup();
    Aligned {
        xs: kept.iter().map(|i| aligned.xs[*i]).collect(),
        ys: aligned.ys.iter().map(|ys| kept.iter().map(|i| ys[*i]).collect()).collect(),
        measured: all,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chart(shape: Shape, lines: &[&[(f64, f64)]]) -> LineChart {
        let series =
            lines.iter().map(|points| Series { name: "s".into(), points: points.to_vec() });
        LineChart { series: series.collect(), shape, ..LineChart::default() }
    }

    #[test]
    fn a_missing_point_takes_what_the_line_shows_there() {
        let lines: [&[(f64, f64)]; 2] = [&[(0.0, 0.0), (2.0, 4.0)], &[(1.0, 9.0), (3.0, 5.0)]];
        let straight = align(&chart(Shape::Straight, &lines));
        assert_eq!(straight.xs, [0.0, 1.0, 2.0, 3.0]);
        assert_eq!(straight.ys[0], [Some(0.0), Some(2.0), Some(4.0), None]);
        assert_eq!(straight.ys[1], [None, Some(9.0), Some(7.0), Some(5.0)]);
        let steps = align(&chart(Shape::Steps, &lines));
        assert_eq!(steps.ys[0], [Some(0.0), Some(0.0), Some(4.0), None]);
    }

    #[test]
    fn disorder_gaps_and_garbage_are_accepted() {
        let points = [(2.0, 1.0), (f64::NAN, 3.0), (0.0, f64::INFINITY), (2.0, 7.0)];
        let aligned = align(&chart(Shape::Straight, &[&points, &[]]));
        assert_eq!(aligned.xs, [0.0, 2.0]);
        assert_eq!(aligned.ys, [vec![None, Some(7.0)], vec![None, None]]);
    }

    proptest! {
        #[test]
        fn thinning_keeps_ends_and_peaks(
            values in prop::collection::vec(-1e6f64..1e6, POINTS_MAX + 1..3 * POINTS_MAX),
        ) {
            let points: Vec<_> = values.iter().enumerate().map(|(i, y)| (i as f64, *y)).collect();
            let aligned = align(&chart(Shape::Straight, &[&points]));
            prop_assert!(aligned.xs.len() <= POINTS_MAX && aligned.is_thinned());
            prop_assert_eq!(aligned.measured, values.len());
            prop_assert_eq!(aligned.xs.first(), Some(&0.0));
            prop_assert_eq!(aligned.xs.last().copied(), Some((values.len() - 1) as f64));
            let kept = || aligned.ys[0].iter().flatten().copied();
            prop_assert_eq!(kept().fold(f64::MIN, f64::max), values.iter().copied().fold(f64::MIN, f64::max));
            prop_assert_eq!(kept().fold(f64::MAX, f64::min), values.iter().copied().fold(f64::MAX, f64::min));
        }
    }
}
