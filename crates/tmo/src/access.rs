//! When pages are touched.
//!
//! Time is cut into cells, and a page is touched once in each of its cells, anywhere in it. So the
//! time between two touches lies between nothing and two cells, one cell on average. A touch is a
//! function of page and cell, not an event: whether a page was touched since it was last scanned
//! can be asked without having followed it, and only pages that are away have to be waited for.

/// How often a page is touched.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rhythm {
    /// Length of a cell in seconds; infinite for a page that is never touched.
    pub cell_s: f32,
    /// Touches come at random within each cell; else always at the same place of it, which
    /// differs from page to page.
    pub random: bool,
}

/// A number from 0 up to but not including 1 that a page and a cell determine (splitmix64).
fn unit(page: u32, cell: u64) -> f64 {
    let mut z = (u64::from(page) << 32 | 0x9e37_79b9) ^ cell.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
}

impl Rhythm {
    /// Never touched.
    pub const NEVER: Rhythm = Rhythm { cell_s: f32::INFINITY, random: false };

    /// Once in each `cell_s` seconds, at random.
    pub fn random(cell_s: f64) -> Rhythm {
        Rhythm { cell_s: cell_s as f32, random: true }
    }

    /// Every `cell_s` seconds.
    pub fn regular(cell_s: f64) -> Rhythm {
        Rhythm { cell_s: cell_s as f32, random: false }
    }

    fn touch(self, page: u32, cell: u64) -> f64 {
        let at = unit(page, if self.random { cell } else { 0 });
        (cell as f64 + at) * f64::from(self.cell_s)
    }

    /// The first touch of the page after `time_s`; infinite if there is none.
    pub fn next_after(self, page: u32, time_s: f64) -> f64 {
        if self.cell_s.is_infinite() {
            return f64::INFINITY;
        }
        let cell = (time_s / f64::from(self.cell_s)) as u64;
        // Rounding may put the time into the cell before its own.
        let touches = (cell..cell + 3).map(|cell| self.touch(page, cell));
        touches.into_iter().find(|touch| *touch > time_s).unwrap_or(f64::INFINITY)
    }

    /// Whether the page was touched after `after_s`, up to and including `until_s`.
    pub fn touched(self, page: u32, after_s: f64, until_s: f64) -> bool {
        self.next_after(page, after_s) <= until_s
    }
}

/// The chance that a page whose touches come at random was touched within the last `cells` cells.
///
/// A window shorter than a cell lies within one (no touch with probability 1 − x) or across two
/// (the mean of (1 − a)(1 − x + a) over how it is cut); together x − x³/6 for a touch. A window of
/// up to two cells has a chance to hold a whole one.
pub fn chance_of_touch(cells: f64) -> f64 {
    match cells {
        x if x <= 0.0 => 0.0,
        x if x <= 1.0 => x - x.powi(3) / 6.0,
        x if x <= 2.0 => 1.0 - (2.0 - x).powi(3) / 6.0,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_touched_once_in_each_cell() {
        for rhythm in [Rhythm::random(10.0), Rhythm::regular(10.0)] {
            let mut time = 0.0;
            for cell in 0..200 {
                time = rhythm.next_after(7, time);
                assert!((cell * 10..cell * 10 + 10).contains(&(time as i64)), "{rhythm:?} {time}");
            }
        }
        assert_eq!(Rhythm::NEVER.next_after(7, 1e9), f64::INFINITY);
        assert!(!Rhythm::NEVER.touched(7, 0.0, 1e12));
    }

    #[test]
    fn regular_touches_are_a_period_apart() {
        let rhythm = Rhythm::regular(60.0);
        let first = rhythm.next_after(3, 0.0);
        assert!((rhythm.next_after(3, first) - first - 60.0).abs() < 1e-6);
        assert!((first - rhythm.next_after(4, 0.0)).abs() > 1e-3, "pages differ");
    }

    #[test]
    fn the_chance_of_a_touch_is_what_pages_show() {
        let rhythm = Rhythm::random(100.0);
        for cells in [0.1, 0.5, 0.9, 1.0, 1.3, 1.9] {
            let pages = 0..40_000;
            let all = pages.len() as f64;
            // Windows that end at all kinds of places within a cell.
            let end = |page: u32| 1_000.0 + f64::from(page % 1_000) * 0.1;
            let touched = pages
                .filter(|page| rhythm.touched(*page, end(*page) - cells * 100.0, end(*page)))
                .count();
            let share = touched as f64 / all;
            assert!((share - chance_of_touch(cells)).abs() < 0.01, "{cells}: {share}");
        }
        assert_eq!(chance_of_touch(2.5), 1.0);
    }
}
