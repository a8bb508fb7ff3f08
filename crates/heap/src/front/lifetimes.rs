//! How long sampled objects lived: counts by size and by lifetime (the paper's Figure 4 has the
//! sizes), in a table that other processes read.
//!
//! A cell covers a quarter of a doubling of the size and a doubling of the lifetime, and keeps sums,
//! so that means are exact.

/// Cells by size: four for each doubling, up to 2^42 bytes.
pub const SIZES: usize = 4 * 42;
/// Cells by lifetime: one for each doubling of nanoseconds, up to 2^54, 208 days.
pub const LIFETIMES: usize = 54;

/// Freed samples of about one size that lived about as long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Freed {
    /// How many.
    pub objects: u64,
    /// Their bytes together.
    pub bytes: u64,
    /// Their lifetimes together.
    pub lifetime_ns: u64,
}

/// The cells, by size and then by lifetime. All zeros at the start.
#[derive(Debug)]
#[repr(C)]
pub struct Histogram {
    /// The cells.
    pub cells: [[Freed; LIFETIMES]; SIZES],
}

impl Histogram {
    /// Counts an object.
    pub fn count(&mut self, bytes: u64, lifetime_ns: u64) {
        let cell = &mut self.cells[size_cell(bytes)][lifetime_cell(lifetime_ns)];
        cell.objects += 1;
        cell.bytes = cell.bytes.saturating_add(bytes);
        cell.lifetime_ns = cell.lifetime_ns.saturating_add(lifetime_ns);
    }
}

/// The cell of a size.
pub fn size_cell(bytes: u64) -> usize {
    let exponent = bytes.max(1).ilog2();
    // The two bits below the leading one.
    let quarter =
        if exponent < 2 { bytes.max(1) << (2 - exponent) } else { bytes >> (exponent - 2) };
    (4 * exponent as usize + (quarter & 3) as usize).min(SIZES - 1)
}

/// The cell of a lifetime: 0 for one of at most 1 ns.
pub fn lifetime_cell(nanoseconds: u64) -> usize {
    (nanoseconds.max(1).ilog2() as usize).min(LIFETIMES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_rise_with_the_size_and_cover_a_quarter_of_a_doubling() {
        let sizes = (1..5000).chain((12..64).map(|shift| 1 << shift)).chain([u64::MAX]);
        let cells: Vec<usize> = sizes.map(size_cell).collect();
        assert!(cells.is_sorted());
        assert_eq!([1, 2, 3, 4, 5, 7, 8, 10].map(size_cell), [0, 4, 6, 8, 9, 11, 12, 13]);
        assert_eq!([4096, 5119, 5120, 8191, 8192].map(size_cell), [48, 48, 49, 51, 52]);
        assert_eq!(size_cell(0), 0);
        assert_eq!(size_cell(u64::MAX), SIZES - 1);
        assert_eq!([0, 1, 2, 3, 4, 1 << 20, u64::MAX].map(lifetime_cell), [0, 0, 1, 1, 2, 20, 53]);
    }

    #[test]
    fn sums_are_exact() {
        let mut histogram = Histogram { cells: [[Freed::default(); LIFETIMES]; SIZES] };
        histogram.count(4096, 1000);
        histogram.count(5000, 1023);
        histogram.count(5000, 1024);
        let cells = histogram.cells[48];
        assert_eq!(cells[9], Freed { objects: 2, bytes: 9096, lifetime_ns: 2023 });
        assert_eq!(cells[10], Freed { objects: 1, bytes: 5000, lifetime_ns: 1024 });
        histogram.count(u64::MAX, u64::MAX);
        histogram.count(u64::MAX, u64::MAX);
        assert_eq!(histogram.cells[SIZES - 1][LIFETIMES - 1].bytes, u64::MAX);
    }
}
