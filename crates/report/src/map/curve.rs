//! A space-filling curve over any rectangle.
//!
//! Hilbert's curve keeps what is near along the line near on the plane, but only fills squares
//! whose side is a power of two. Splitting a rectangle into two halves while it is long, and into
//! three parts (out, across, back) while it is not, gives a curve with the same virtue for every
//! size; the idea is known as the generalized Hilbert or "gilbert" curve.

/// A curve over a rectangle: for each step, where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Curve {
    /// Width in cells.
    pub columns: usize,
    /// Height in cells.
    pub rows: usize,
    /// (column, row) of each step, each cell of the rectangle once.
    pub steps: Vec<(u32, u32)>,
}

/// The curve over `columns` × `rows` cells, from the top left corner.
///
/// Each step goes to one of the four adjacent cells; only where the longer side is odd and the
/// shorter even does one single step go diagonally. Takes time and memory in proportion to the
/// cells.
pub(super) fn curve(columns: usize, rows: usize) -> Curve {
    let mut steps = Vec::with_capacity(columns * rows);
    if columns > 0 && rows > 0 {
        let right = Arm { x: columns as i64, y: 0 };
        let down = Arm { x: 0, y: rows as i64 };
        let start = Arm { x: 0, y: 0 };
        match columns >= rows {
            true => fill(start, right, down, &mut steps),
            false => fill(start, down, right, &mut steps),
        }
    }
    Curve { columns, rows, steps }
}

/// An axis-parallel vector, or a place.
#[derive(Clone, Copy)]
struct Arm {
    x: i64,
    y: i64,
}

impl Arm {
    fn length(self) -> i64 {
        (self.x + self.y).abs()
    }
    fn unit(self) -> Arm {
        Arm { x: self.x.signum(), y: self.y.signum() }
    }
    fn plus(self, other: Arm) -> Arm {
        Arm { x: self.x + other.x, y: self.y + other.y }
    }
    fn minus(self, other: Arm) -> Arm {
        Arm { x: self.x - other.x, y: self.y - other.y }
    }
    fn reversed(self) -> Arm {
        Arm { x: -self.x, y: -self.y }
    }

    /// About half of it; an even number of cells where it can, so that the part can be crossed
    /// there and back.
    fn half(self) -> Arm {
        let half = Arm { x: self.x / 2, y: self.y / 2 };
        match half.length() % 2 == 1 && self.length() > 2 {
            true => half.plus(self.unit()),
            false => half,
        }
    }
}

/// Fills the rectangle that `along` and `across` span from the cell `at`; begins at `at` and ends
/// at the far end of `along`.
fn fill(at: Arm, along: Arm, across: Arm, steps: &mut Vec<(u32, u32)>) {
    if across.length() == 1 {
        return line(at, along, steps);
    }
    if along.length() == 1 {
        return line(at, across, steps);
    }
    if 2 * along.length() > 3 * across.length() {
        let first = along.half();
        fill(at, first, across, steps);
        fill(at.plus(first), along.minus(first), across, steps);
    } else {
        let out = across.half();
        // The width of the outer parts need not be even; the middle part mends the parity.
        let near = Arm { x: along.x / 2, y: along.y / 2 };
        let end = at.plus(along.minus(along.unit())).plus(out.minus(out.unit()));
        fill(at, out, near, steps);
        fill(at.plus(out), along, across.minus(out), steps);
        fill(end, out.reversed(), along.minus(near).reversed(), steps);
    }
}

fn line(mut at: Arm, direction: Arm, steps: &mut Vec<(u32, u32)>) {
    for _ in 0..direction.length() {
        steps.push((at.x as u32, at.y as u32));
        at = at.plus(direction.unit());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn distance(a: (u32, u32), b: (u32, u32)) -> u32 {
        a.0.abs_diff(b.0) + a.1.abs_diff(b.1)
    }

    #[test]
    fn two_by_two_is_hilberts_first_step() {
        assert_eq!(curve(2, 2).steps, [(0, 0), (0, 1), (1, 1), (1, 0)]);
        assert_eq!(curve(1, 1).steps, [(0, 0)]);
        assert!(curve(0, 5).steps.is_empty());
    }

    #[test]
    fn a_power_of_two_square_is_filled_quadrant_by_quadrant() {
        // Hilbert's own property: each aligned quarter of the line fills one quadrant.
        let curve = curve(16, 16);
        for quarter in curve.steps.chunks(64) {
            let quadrant = |&(x, y): &(u32, u32)| (x / 8, y / 8);
            assert!(quarter.iter().all(|step| quadrant(step) == quadrant(&quarter[0])));
        }
    }

    proptest! {
        #[test]
        fn each_cell_is_visited_once_by_steps_to_neighbors(columns in 1usize..70, rows in 1usize..70) {
            let curve = curve(columns, rows);
            let mut seen = vec![false; columns * rows];
            for &(x, y) in &curve.steps {
                let cell = &mut seen[y as usize * columns + x as usize];
                prop_assert!(!*cell);
                *cell = true;
            }
            prop_assert_eq!(curve.steps.len(), columns * rows);
            prop_assert_eq!(curve.steps[0], (0, 0));
            let far: Vec<u32> = curve.steps.windows(2)
                .map(|pair| distance(pair[0], pair[1])).filter(|d| *d != 1).collect();
            let (long, short) = (columns.max(rows), columns.min(rows));
            match long % 2 == 1 && short.is_multiple_of(2) {
                true => prop_assert!(far.is_empty() || far == [2], "{:?}", far),
                false => prop_assert!(far.is_empty(), "{:?}", far),
            }
        }

        #[test]
        fn neighbors_along_the_line_stay_near_on_the_plane(columns in 8usize..80, start in 0usize..2000) {
            // 64 successive cells lie within a box of 24 by 24: a row-by-row layout would be as
            // wide as the map.
            let steps = curve(columns, 64).steps;
            let start = start % (steps.len() - 64);
            let part = &steps[start..start + 64];
            let width = part.iter().map(|s| s.0).max().unwrap() - part.iter().map(|s| s.0).min().unwrap();
            let height = part.iter().map(|s| s.1).max().unwrap() - part.iter().map(|s| s.1).min().unwrap();
            prop_assert!(width < 24 && height < 24, "{} by {}", width, height);
        }
    }
}
