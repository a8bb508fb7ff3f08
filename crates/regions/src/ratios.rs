//! The kernel settings that go with a movable border: how much of the kernel region user memory
//! leaves alone, and how large the watermarks are.
//!
//! `lowmem_reserve[i][movable] = (managed frames of the zones above i, up to the movable one) /
//! ratio[i]` (`setup_per_zone_lowmem_reserve`, `mm/page_alloc.c`). A small ratio confines user
//! memory to the movable zone; too small a one lets it run short beside idle kernel memory.

use crate::config::{MinFree, Ratio};
use crate::policy::room::Distances;
use crate::sample::NodeSample;

/// The least ratio that `auto` sets: 12 ran without OOM kills where 1 had some (*measured*).
pub const LEAST_RATIO: u64 = 12;

/// The kernel's own ratio for ZONE_NORMAL.
pub const DEFAULT_RATIO: u64 = 32;

/// The kernel's own ratio for the zones below it.
pub const DEFAULT_LOWER: u64 = 256;

/// The most that the kernel takes for `watermark_scale_factor` before Linux 5.19 (3000 since).
const MOST_SCALE: u64 = 1000;

/// What `lowmem_reserve_ratio` should say, by the zones' order: those below the uppermost kernel
/// zone, and that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratios {
    /// Of ZONE_DMA32 where ZONE_NORMAL lies above it; nothing where it is left alone.
    pub lower: Option<u64>,
    /// Of the uppermost kernel zone.
    pub upper: u64,
}

/// The ratios for all nodes, or nothing if they are to be left as they are. `low` is the reserve
/// of each node. `borrow` says that user memory is short: then the kernel's default, so that it
/// may use what the kernel region has idle.
pub fn ratios(setting: Ratio, nodes: &[(NodeSample, u64)], borrow: bool) -> Option<Ratios> {
    let upper = match setting {
        Ratio::Leave => return None,
        Ratio::Fixed(ratio) => ratio,
        Ratio::Auto if borrow => DEFAULT_RATIO,
        Ratio::Auto => {
            let of = |(node, low): &(NodeSample, u64)| node.movable.managed / (*low).max(1);
            // A node without a movable zone has nothing that could borrow.
            let movable = nodes.iter().filter(|(node, _)| node.movable.managed > 0);
            movable.map(of).min()?.clamp(LEAST_RATIO, DEFAULT_RATIO)
        }
    };
    let lower = nodes.iter().find_map(|(node, _)| lower(node));
    let lent = borrow && setting == Ratio::Auto;
    Some(Ratios { lower: lower.map(|ratio| if lent { DEFAULT_LOWER } else { ratio }), upper })
}

/// For the zone below: small enough that user memory leaves it alone altogether, unless that
/// barred kernel requests from more than a quarter of it.
fn lower(node: &NodeSample) -> Option<u64> {
    let kernel = node.kernel;
    if kernel.lower == 0 || node.movable.managed == 0 {
        return None;
    }
    let confines = (kernel.upper + node.movable.managed) / kernel.lower;
    let bars_a_quarter = (4 * kernel.upper).div_ceil(kernel.lower);
    Some(confines.max(bars_a_quarter).clamp(4, 256))
}

/// The text for `lowmem_reserve_ratio`, from what it says now. The entries are those of ZONE_DMA,
/// ZONE_DMA32, ZONE_NORMAL and so on; without ZONE_NORMAL, ZONE_DMA32 is the uppermost.
pub fn text(now: &str, ratios: Ratios, normal_is_populated: bool) -> Option<String> {
    let mut values: Vec<u64> =
        now.split_ascii_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
    const DMA32: usize = 1;
    const NORMAL: usize = 2;
    if values.len() <= NORMAL {
        return None;
    }
    match normal_is_populated {
        true => {
            values[NORMAL] = ratios.upper;
            values[DMA32] = ratios.lower.unwrap_or(values[DMA32]);
        }
        false => values[DMA32] = ratios.upper,
    }
    Some(values.iter().map(u64::to_string).collect::<Vec<_>>().join("\t"))
}

/// The proper `min_free_kbytes`, given the present value; `None` where it may stay. Kernels before
/// 6.12 divide it by size among all zones, the movable one included, so a small kernel region gets
/// almost no watermark, and kswapd wakes when no free memory is left.
pub fn min_free_kib(setting: MinFree, now_kib: u64, nodes: &[NodeSample]) -> Option<u64> {
    let sum = |of: fn(&NodeSample) -> u64| nodes.iter().map(of).sum::<u64>();
    let (all, min) = (sum(NodeSample::managed), sum(|node| node.kernel.min));
    match setting {
        MinFree::Leave => None,
        MinFree::Fixed(kib) => (kib != now_kib).then_some(kib),
        // The kernel zones got less than half of it: raise it threefold, up to a hundredth of
        // memory (*chosen*).
        MinFree::Auto if min * 4 * 2 < now_kib => {
            let raised = (now_kib * 3).min(all * 4 / 100);
            (raised > now_kib).then_some(raised)
        }
        MinFree::Auto => None,
    }
}

/// `watermark_scale_factor` (10,000ths of a zone between its watermarks) with which the watermarks of
/// the movable zones have these distances, from what it is; nothing where it may stay. It is the same
/// for all zones, so the largest zone decides, lest a small one keeps gigabytes of it free.
pub fn scale_factor(now: u64, distances: Distances, nodes: &[NodeSample]) -> Option<u64> {
    let largest = nodes.iter().map(|node| node.movable.managed).max().filter(|most| *most > 0)?;
    let distance = distances.for_growth.max(distances.for_compaction);
    let wanted = (distance * 10_000).div_ceil(largest).min(MOST_SCALE);
    (wanted > now).then_some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{KernelSample, MovableSample};

    const MIB: u64 = 256;

    fn node(lower: u64, upper: u64, movable: u64) -> NodeSample {
        NodeSample {
            kernel: KernelSample { upper, lower, managed: upper + lower, ..Default::default() },
            movable: MovableSample { managed: movable, ..Default::default() },
            ..NodeSample::default()
        }
    }

    #[test]
    fn users_leave_the_reserve_alone_but_may_borrow_the_rest() {
        let small = node(256 * MIB, 640 * MIB, 3200 * MIB);
        let auto = |low, borrow| ratios(Ratio::Auto, &[(small, low)], borrow).unwrap();
        assert_eq!(auto(160 * MIB, false).upper, 20);
        assert_eq!(auto(1000 * MIB, false).upper, LEAST_RATIO, "never less");
        assert_eq!(auto(1, false).upper, DEFAULT_RATIO);
        let lent = Ratios { lower: Some(DEFAULT_LOWER), upper: DEFAULT_RATIO };
        assert_eq!(auto(1000 * MIB, true), lent);
        // 3840 / 15 = 256 MiB: user memory leaves DMA32 alone; kernel requests 640 / 15 of it.
        assert_eq!(auto(1, false).lower, Some(15));
        assert_eq!(ratios(Ratio::Leave, &[(small, 1)], true), None);
        assert_eq!(ratios(Ratio::Fixed(16), &[(small, 1)], true).unwrap().upper, 16);
        // The nodes share one setting: the one that needs most decides.
        let large = node(0, 4000 * MIB, 60_000 * MIB);
        let both = [(large, 2000 * MIB), (small, 200 * MIB)];
        assert_eq!(ratios(Ratio::Auto, &both, false), Some(Ratios { lower: Some(15), upper: 16 }));
        assert_eq!(lower(&node(3000 * MIB, 13_000 * MIB, 50_000 * MIB)), Some(21));
        assert_eq!(lower(&node(1000 * MIB, 63_000 * MIB, 1000 * MIB)), Some(252));
        let fixed = node(0, 4000 * MIB, 0);
        let beside = [(large, 2000 * MIB), (fixed, 200 * MIB)];
        assert_eq!(ratios(Ratio::Auto, &beside, false).unwrap().upper, 30, "it does not count");
        assert_eq!(ratios(Ratio::Auto, &[], false), None);
    }

    #[test]
    fn entries_of_other_zones_stay() {
        let ratios = Ratios { lower: Some(15), upper: 12 };
        let now = "256\t256\t32\t0\t0\n";
        assert_eq!(text(now, ratios, true).unwrap(), "256\t15\t12\t0\t0");
        assert_eq!(text(now, ratios, false).unwrap(), "256\t12\t32\t0\t0");
        let upper = Ratios { lower: None, upper: 12 };
        assert_eq!(text(now, upper, true).unwrap(), "256\t256\t12\t0\t0");
        assert_eq!(text("256 x", ratios, true), None);
        assert_eq!(text("256", ratios, true), None);
    }

    #[test]
    fn watermarks_are_as_far_apart_as_they_have_to_be() {
        // Twice this is a block and an eighth.
        let growth = Distances { for_growth: 72 * MIB, for_compaction: 16 * MIB };
        let with = |movable| node(256 * MIB, 640 * MIB, movable);
        let of = |movable, now| scale_factor(now, growth, &[with(movable)]);
        assert_eq!(of(3200 * MIB, 10), Some(225), "72 MiB of 3200");
        assert_eq!(of(3200 * MIB, 300), None, "never lowered");
        assert_eq!(of(64_000 * MIB, 10), Some(12));
        assert_eq!(of(256 * MIB, 10), Some(MOST_SCALE));
        assert_eq!(of(0, 10), None);
        assert_eq!(scale_factor(10, growth, &[]), None);
        let compaction = Distances { for_growth: 0, ..growth };
        let small = |movable| scale_factor(10, compaction, &[with(movable)]);
        assert_eq!(small(3200 * MIB), Some(50));
        assert_eq!(small(16_000 * MIB), None, "the kernel's own distance is enough");
        let two = [with(3200 * MIB), with(256_000 * MIB)];
        assert_eq!(scale_factor(10, compaction, &two), None, "the small one does without");
        assert_eq!(scale_factor(10, growth, &two), None, "for a growth, too");
    }

    #[test]
    fn watermarks_are_raised_where_the_kernel_zones_have_hardly_any() {
        let mut node = node(256 * MIB, 640 * MIB, 3200 * MIB);
        node.kernel.min = 500;
        assert_eq!(min_free_kib(MinFree::Auto, 8192, &[node]), Some(24_576));
        node.kernel.min = 1800;
        assert_eq!(min_free_kib(MinFree::Auto, 8192, &[node]), None);
        node.kernel.min = 0;
        assert_eq!(min_free_kib(MinFree::Auto, 40_000, &[node]), Some(41_943), "a hundredth");
        assert_eq!(min_free_kib(MinFree::Auto, 60_000, &[node]), None, "never lowered");
        assert_eq!(min_free_kib(MinFree::Leave, 1, &[node]), None);
        assert_eq!(min_free_kib(MinFree::Fixed(9), 1, &[node]), Some(9));
        assert_eq!(min_free_kib(MinFree::Fixed(9), 9, &[node]), None);
    }
}
