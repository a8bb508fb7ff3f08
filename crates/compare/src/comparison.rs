//! Documents before against documents after.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::rows::Rows;
use crate::spread::{Interval, Spread};

/// One row on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// The row's name.
    pub name: String,
    /// Before; null where no document has the row.
    pub before: Option<Spread>,
    /// After; likewise.
    pub after: Option<Spread>,
    /// Difference of the means; null where a side is missing.
    pub difference: Option<f64>,
    /// The difference as a share of the mean before; null where that is 0.
    pub relative: Option<f64>,
    /// The 95 % interval of the difference; null unless both sides have several documents.
    pub interval: Option<Interval>,
    /// Whether the difference exceeds the spread: the interval excludes 0. Null without an interval.
    pub exceeds_spread: Option<bool>,
}

/// All rows of two sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Documents before.
    pub documents_before: usize,
    /// Documents after.
    pub documents_after: usize,
    /// Every row of any document, by name.
    pub changes: Vec<Change>,
}

impl Comparison {
    /// Compares the rows of documents that are independent of each other.
    pub fn new(before: &[Rows], after: &[Rows]) -> Comparison {
        Comparison::with(before, after, Spread::of)
    }

    /// Compares the rows of documents that follow each other in time on either side.
    pub fn of_series(before: &[Rows], after: &[Rows]) -> Comparison {
        Comparison::with(before, after, Spread::of_series)
    }

    fn with(before: &[Rows], after: &[Rows], spread: fn(&[f64]) -> Option<Spread>) -> Comparison {
        let names: BTreeSet<&String> = before.iter().chain(after).flat_map(Rows::keys).collect();
        let side = |documents: &[Rows], name: &str| {
            let values: Vec<f64> =
                documents.iter().filter_map(|rows| rows.get(name)).copied().collect();
            spread(&values)
        };
        let change = |name: &String| Change::new(name, side(before, name), side(after, name));
        Comparison {
            documents_before: before.len(),
            documents_after: after.len(),
            changes: names.into_iter().map(change).collect(),
        }
    }

    /// Rows whose means differ, or that only one side has.
    pub fn changed(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().filter(|change| change.difference != Some(0.0))
    }
}

impl Change {
    fn new(name: &str, before: Option<Spread>, after: Option<Spread>) -> Change {
        let both = before.zip(after);
        let difference = both.map(|(before, after)| after.mean - before.mean);
        let relative = both.and_then(|(before, _)| {
            (before.mean != 0.0).then(|| difference.unwrap_or(0.0) / before.mean.abs())
        });
        let interval = both.and_then(|(before, after)| Interval::of_difference(&before, &after));
        let exceeds_spread = interval.map(|interval| interval.excludes_zero());
        Change {
            name: name.to_owned(),
            before,
            after,
            difference,
            relative,
            interval,
            exceeds_spread,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(pairs: &[(&str, f64)]) -> Rows {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn rows_of_one_side_are_changes_without_a_difference() {
        let before = [document(&[("a", 2.0), ("b", 1.0), ("same", 1.0)])];
        let after = [document(&[("a", 3.0), ("c", 1.0), ("same", 1.0)])];
        let found = Comparison::new(&before, &after);
        let changed: Vec<(&str, Option<f64>, Option<f64>)> =
            found.changed().map(|c| (c.name.as_str(), c.difference, c.relative)).collect();
        assert_eq!(changed, [("a", Some(1.0), Some(0.5)), ("b", None, None), ("c", None, None)]);
        assert_eq!(found.changes[0].exceeds_spread, None);
    }

    #[test]
    fn several_documents_show_what_exceeds_their_spread() {
        let side = |values: [f64; 3], noise: [f64; 3]| {
            values
                .iter()
                .zip(noise)
                .map(|(v, n)| document(&[("moved", *v), ("noise", n)]))
                .collect::<Vec<_>>()
        };
        let before = side([1.0, 1.1, 0.9], [1.0, 9.0, 5.0]);
        let after = side([2.0, 2.1, 1.9], [2.0, 8.0, 6.0]);
        let found = Comparison::new(&before, &after);
        let exceeds: Vec<Option<bool>> = found.changes.iter().map(|c| c.exceeds_spread).collect();
        assert_eq!(exceeds, [Some(true), Some(false)]);
    }

    #[test]
    fn a_fall_from_a_negative_mean_is_a_fall() {
        let found = Comparison::new(&[document(&[("a", -2.0)])], &[document(&[("a", -3.0)])]);
        assert_eq!(found.changes[0].relative, Some(-0.5));
    }
}
