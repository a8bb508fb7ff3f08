//! The measures of external fragmentation: the 2006 paper's (section 3) and the kernel's.

use crate::Order;

/// Free blocks by order: `counts[j]` blocks of `2^j` frames.
#[derive(Clone, Copy, Debug)]
pub struct FreeBlocks<'a> {
    /// Number of free blocks of each order, ascending from order 0.
    pub counts: &'a [u64],
}

impl FreeBlocks<'_> {
    /// Free frames in all blocks.
    pub fn frames(&self) -> u64 {
        self.frames_from(Order::BASE)
    }

    /// Free frames in blocks of `order` and larger.
    pub fn frames_from(&self, order: Order) -> u64 {
        self.counts.iter().enumerate().skip(order.index()).map(|(j, k)| k << j).sum()
    }

    /// Free blocks of any order.
    pub fn blocks(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The unusable free space index F_u(j): the share of free memory that lies in blocks too small
/// for a request of order `j` (2006 paper, section 3).
///
/// 1 when nothing is free, as the paper defines. Beyond the largest order that the free lists
/// hold it is 1 as well, for no list can serve such a request; see
/// [`unusable_by_blocks`] for the extension to larger sizes.
pub fn unusable_free_space(free: FreeBlocks<'_>, order: Order) -> f64 {
    unusable_by_blocks(free.frames(), free.frames_from(order))
}

/// F_u from the free frames and those of them that lie in blocks large enough. This is how the
/// index is extended beyond the free lists: the second number then counts aligned, wholly free
/// blocks of the wanted size, found by looking at the frames.
pub fn unusable_by_blocks(free_frames: u64, usable_frames: u64) -> f64 {
    debug_assert!(usable_frames <= free_frames, "{usable_frames} usable of {free_frames} free");
    if free_frames == 0 {
        return 1.0;
    }
    (free_frames - usable_frames) as f64 / free_frames as f64
}

/// The fragmentation index F_i(j) at the failure of a request of order `j`: towards 0 for lack of
/// memory, towards 1 for fragmentation (2006 paper, section 3).
///
/// 0 without free blocks; negative, and without meaning, where the request could have been
/// satisfied.
pub fn fragmentation_index(free: FreeBlocks<'_>, order: Order) -> f64 {
    let blocks = free.blocks();
    if blocks == 0 {
        return 0.0;
    }
    1.0 - (free.frames() as f64 / order.frames() as f64) / blocks as f64
}

/// The kernel's version of F_i in thousandths: what `/sys/kernel/debug/extfrag/extfrag_index`
/// shows and what decides whether compaction is worth trying (`__fragmentation_index`,
/// `mm/vmstat.c`).
///
/// It is not the paper's formula: -1000 where the request could be satisfied, one frame more in
/// the numerator, and integer division throughout.
pub fn kernel_fragmentation_index(free: FreeBlocks<'_>, order: Order) -> i64 {
    let blocks = free.blocks();
    if blocks == 0 {
        return 0;
    }
    if free.counts.iter().skip(order.index()).any(|&k| k > 0) {
        return -1000;
    }
    let ideal = free.frames() * 1000 / order.frames();
    1000 - ((1000 + ideal) / blocks) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(j: u8) -> Order {
        Order::new(j).unwrap()
    }

    /// 4 single frames, 2 pairs, 1 block of eight: 16 frames in 7 blocks.
    const WORKED: FreeBlocks<'static> = FreeBlocks { counts: &[4, 2, 0, 1] };

    #[test]
    fn unusable_on_a_worked_example() {
        assert_eq!(unusable_free_space(WORKED, order(0)), 0.0);
        assert_eq!(unusable_free_space(WORKED, order(1)), 4.0 / 16.0);
        assert_eq!(unusable_free_space(WORKED, order(2)), 8.0 / 16.0);
        assert_eq!(unusable_free_space(WORKED, order(3)), 8.0 / 16.0);
        assert_eq!(unusable_free_space(WORKED, order(4)), 1.0);
        // The paper's reading: at 0.25, 75 percent of free memory can serve the request.
        assert_eq!(unusable_free_space(WORKED, order(1)), 0.25);
    }

    #[test]
    fn fragmentation_on_a_worked_example() {
        // Sixteen single frames and a request for four: 1 - (16/4)/16.
        let singles = FreeBlocks { counts: &[16] };
        assert_eq!(fragmentation_index(singles, order(2)), 0.75);
        // One frame free, four wanted: mostly lack of memory would be 0; 1 - (1/4)/1.
        assert_eq!(fragmentation_index(FreeBlocks { counts: &[1] }, order(2)), 0.75);
        // A satisfiable request is negative: 1 - (16/1)/7.
        assert!(fragmentation_index(WORKED, order(0)) < 0.0);
    }

    #[test]
    fn conventions_for_nothing_free() {
        for counts in [&[][..], &[0, 0, 0]] {
            let nothing = FreeBlocks { counts };
            assert_eq!(unusable_free_space(nothing, order(0)), 1.0);
            assert_eq!(unusable_free_space(nothing, order(9)), 1.0);
            assert_eq!(fragmentation_index(nothing, order(9)), 0.0);
            assert_eq!(kernel_fragmentation_index(nothing, order(9)), 0);
        }
    }

    #[test]
    fn the_kernel_counts_in_thousandths() {
        assert_eq!(kernel_fragmentation_index(WORKED, order(3)), -1000);
        // 16 frames, order 4: ideal 1000, (1000 + 1000) / 7 = 285.
        assert_eq!(kernel_fragmentation_index(WORKED, order(4)), 715);
        // Far more memory than needed in single frames: 1 - (4096/512 + 1)/4096.
        assert_eq!(kernel_fragmentation_index(FreeBlocks { counts: &[4096] }, order(9)), 998);
    }
}
