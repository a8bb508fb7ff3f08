//! The position of each cell of a map.

use super::curve::curve;

/// A rectangle with cells laid along the curve. Its last few places may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub columns: usize,
    pub rows: usize,
    /// (column, row) of each cell.
    pub places: Vec<(u32, u32)>,
}

impl Layout {
    /// Lays `cells` (at least one) into a rectangle about `aspect` times as wide as high.
    pub fn new(cells: usize, aspect: f64) -> Layout {
        let (columns, rows) = rectangle(cells, aspect);
        let mut places = curve(columns, rows).steps;
        places.truncate(cells);
        Layout { columns, rows, places }
    }

    /// Where the curve goes after each cell: 0 right, 1 down, 2 left, 3 up; 0 after the last.
    pub fn moves(&self) -> impl Iterator<Item = u8> + '_ {
        let step = |pair: &[(u32, u32)]| match (pair[0], pair[1]) {
            (from, to) if to.0 > from.0 => 0,
            (from, to) if to.1 > from.1 => 1,
            (from, to) if to.0 < from.0 => 2,
            _ => 3,
        };
        self.places.windows(2).map(step).chain([0])
    }

    /// The rectangle by rows, each place holding what `value` says of its cell.
    pub fn grid<T: Clone>(&self, empty: T, mut value: impl FnMut(usize) -> T) -> Vec<T> {
        let mut grid = vec![empty; self.columns * self.rows];
        for (cell, &(x, y)) in self.places.iter().enumerate() {
            grid[y as usize * self.columns + x as usize] = value(cell);
        }
        grid
    }
}

/// Up to this many cells the sides may differ from the aspect by more than a fifth (*chosen*).
const FEW: usize = 200;

/// The width and height that hold `cells` with few places left over, near `aspect` (1 or more).
///
/// The width is even and the longer side, so that no step of the curve is diagonal.
fn rectangle(cells: usize, aspect: f64) -> (usize, usize) {
    let ideal = (cells as f64 * aspect).sqrt();
    let narrowest = ideal * 0.82;
    // Few cells have so few widths to choose from that the next narrower one is considered, too.
    let first = match cells {
        ..=FEW => (narrowest as usize / 2 * 2).max(2),
        _ => (narrowest.ceil() as usize).next_multiple_of(2),
    };
    let last = ((ideal * 1.22) as usize).max(first + 2);
    let cost = |columns: usize| {
        let rows = cells.div_ceil(columns);
        let left_over = (columns * rows - cells) as f64 / cells as f64;
        let skew = (columns as f64 / rows as f64 / aspect).ln().abs();
        // A hundredth of the places empty is as bad as sides a tenth off.
        10.0 * left_over + skew
    };
    let is_longer = |columns: &usize| cells.div_ceil(*columns) <= *columns;
    let columns = (first..=last)
        .step_by(2)
        .filter(is_longer)
        .min_by(|a, b| cost(*a).total_cmp(&cost(*b)))
        // Near a square of few cells no width is both even and near enough.
        .or_else(|| (first..).step_by(2).find(is_longer))
        .expect("a width of as many as there are cells is longer");
    match cells {
        1 => (1, 1),
        _ => (columns, cells.div_ceil(columns)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn common_sizes_of_memory_fit_without_waste() {
        assert_eq!(rectangle(524_288, 2.0), (1024, 512));
        assert_eq!(rectangle(8_192, 2.0), (128, 64));
        // 12,288 has no divisors near 2 : 1, so a part of one row stays empty.
        assert_eq!(rectangle(12_288, 2.0), (156, 79));
    }

    #[test]
    fn the_width_is_even_and_the_longer_side() {
        for (cells, aspect) in (2..30_000).flat_map(|cells| [(cells, 1.0), (cells, 2.0)]) {
            let (columns, rows) = rectangle(cells, aspect);
            let fits = columns % 2 == 0 && columns >= rows && columns * rows >= cells;
            assert!(fits, "{cells} cells in {columns} x {rows}");
            let skew = columns as f64 / rows as f64 / aspect;
            assert!(
                cells <= FEW || (0.6..1.7).contains(&skew),
                "{cells} cells in {columns} x {rows}"
            );
        }
        assert_eq!(rectangle(37, 1.0), (8, 5));
    }

    proptest! {
        #[test]
        fn any_number_of_cells_has_a_place_each(cells in 1usize..30_000, wide in 0usize..2) {
            let aspect = [1.0, 2.0][wide];
            let layout = Layout::new(cells, aspect);
            prop_assert_eq!(layout.places.len(), cells);
            let left_over = layout.columns * layout.rows - cells;
            prop_assert!(left_over < layout.columns.max(2));
            for pair in layout.places.windows(2) {
                let apart = pair[0].0.abs_diff(pair[1].0) + pair[0].1.abs_diff(pair[1].1);
                prop_assert_eq!(apart, 1);
            }
            let filled: usize = layout.grid(0, |_| 1).iter().sum();
            prop_assert_eq!(filled, cells);
        }
    }
}
