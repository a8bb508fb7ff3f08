//! The core that translates: every parameter and where it comes from.

use serde::Serialize;

/// A set-associative structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Entries.
    pub entries: u32,
    /// Entries of a set; all of them where any may hold anything.
    pub ways: u32,
}

/// A core, as far as translation goes. The default is a Skylake server core, the generation that
/// the paper's production servers and `migrate`'s simulator have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hardware {
    /// First-level TLBs for data, by page size: 4 KiB, 2 MiB, 1 GiB. Intel's optimization manual,
    /// Skylake; the last from CPUID leaf 2, descriptor 0x63.
    pub l1: [Shape; 3],
    /// The second level, which 4 KiB and 2 MiB share (the manual).
    pub l2: Shape,
    /// The second level for 1 GiB (unverified).
    pub l2_gigantic: Shape,
    /// Cached entries of page directories, of page directory pointers and of the root (unverified:
    /// measured by others at about this; Intel does not publish it).
    pub walk_caches: [u32; 3],
    /// Lines of page-table entries that the second-level cache, and then the last level, hold
    /// for one core: an eighth of 1 MiB and of 1.375 MiB. An assumption; data takes the rest.
    pub lines: [Shape; 2],
    /// Cycles for a translation found in the second-level TLB beyond one found in the first
    /// (unverified: 7 to 9).
    pub l2_cycles: f64,
    /// Cycles to read a page-table entry from the second-level cache, the last level, memory: the
    /// manual's 14; 70 (unverified); 90 ns at 2.5 GHz.
    pub read_cycles: [f64; 3],
    /// Share of these cycles for which the core stands still; the rest is hidden behind other
    /// work and the second page walker. An assumption.
    pub exposed: f64,
}

impl Default for Hardware {
    fn default() -> Hardware {
        let shape = |entries, ways| Shape { entries, ways };
        Hardware {
            l1: [shape(64, 4), shape(32, 4), shape(4, 4)],
            l2: shape(1536, 12),
            l2_gigantic: shape(16, 4),
            walk_caches: [32, 4, 2],
            lines: [shape(2048, 16), shape(2816, 11)],
            l2_cycles: 9.0,
            read_cycles: [14.0, 70.0, 225.0],
            exposed: 0.7,
        }
    }
}
