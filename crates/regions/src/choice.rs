//! Which block to convert, by what fills it: a pure choice.

use std::cmp::Reverse;
use std::fmt;
use std::time::Duration;

use prairie_host::Occupancy;
use serde::Serialize;

use crate::sample::{NodeSample, droppable};

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In a zone below the movable one.
    Kernel,
    /// In ZONE_MOVABLE.
    Movable,
    /// It straddles zones, has holes, or is of a zone of devices: it never goes offline.
    Fixed,
    /// Offline: lost memory.
    Offline,
}

/// A memory block, as far as choices go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Block {
    /// Its number.
    pub number: u64,
    /// Its NUMA node.
    pub node: u32,
    /// Where it is.
    pub place: Place,
    /// What fills it, where that is known.
    pub occupancy: Option<Occupancy>,
    /// When that was read.
    pub scanned: Duration,
}

/// Why a block cannot leave its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Obstacle {
    /// It straddles two zones or has a hole.
    Straddles,
    /// Frames withheld from the page allocator.
    Reserved(u64),
    /// hugetlb pages.
    Hugetlb(u64),
    /// Ballooned frames.
    Ballooned(u64),
    /// Frames that do not exist.
    Hole(u64),
    /// Kernel memory.
    Unmovable(u64),
    /// What fills it is not known.
    Unknown,
}

impl Obstacle {
    /// What to do about it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Obstacle::Straddles => "none: the firmware's memory map decides",
            Obstacle::Reserved(_) => {
                "boot memory (page map, initrd, kernel image): nokaslr and a smaller initrd may \
                 move it; memmap_on_memory does not help boot memory"
            }
            Obstacle::Hugetlb(_) => {
                "free the hugetlb pool of this node, or take gigantic pages with `prairie regions \
                 reserve`"
            }
            Obstacle::Ballooned(_) => "deflate the balloon",
            Obstacle::Hole(_) => "none: the firmware's memory map decides",
            Obstacle::Unmovable(_) => {
                "stays in the kernel region; start the daemon earlier after boot to confine more"
            }
            Obstacle::Unknown => "needs root and a kernel with CONFIG_PROC_PAGE_MONITOR",
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Obstacle::Straddles => f.write_str("straddles two zones or has a hole"),
            Obstacle::Reserved(frames) => write!(f, "{frames} reserved frames"),
            Obstacle::Hugetlb(frames) => write!(f, "{frames} frames of hugetlb pages"),
            Obstacle::Ballooned(frames) => write!(f, "{frames} ballooned frames"),
            Obstacle::Hole(frames) => write!(f, "{frames} frames do not exist"),
            Obstacle::Unmovable(frames) => write!(f, "{frames} unmovable frames"),
            Obstacle::Unknown => f.write_str("its contents cannot be read"),
        }
    }
}

/// Frames without flags in a block of the kernel region that may be converted all the same: free
/// frames on per-CPU lists look like kernel memory without flags, and offlining drains those lists.
/// *Chosen*: the kernel refuses within milliseconds where it was kernel memory after all.
pub const UNFLAGGED_SLACK: u64 = 128;

/// What keeps a block in its zone, if anything. Pins do not show. Frames without flags keep no block
/// in the movable zone: what has none there is free on a per-CPU list, or movable.
pub fn obstacle(block: &Block) -> Option<Obstacle> {
    if block.place == Place::Fixed {
        return Some(Obstacle::Straddles);
    }
    let Some(found) = block.occupancy else { return Some(Obstacle::Unknown) };
    let kernel = found.unmovable + found.unflagged;
    match found {
        Occupancy { hugetlb: 1.., .. } => Some(Obstacle::Hugetlb(found.hugetlb)),
        Occupancy { absent: 1.., .. } => Some(Obstacle::Hole(found.absent)),
        Occupancy { reserved: 1.., .. } => Some(Obstacle::Reserved(found.reserved)),
        Occupancy { offline: 1.., .. } => Some(Obstacle::Ballooned(found.offline)),
        Occupancy { unmovable: 1.., .. } => Some(Obstacle::Unmovable(kernel)),
        _ if block.place == Place::Kernel && found.unflagged > UNFLAGGED_SLACK => {
            Some(Obstacle::Unmovable(kernel))
        }
        _ => None,
    }
}

/// Whether what a block of the movable zone holds fits into the rest of memory: free frames, page
/// cache that can be dropped, and what user memory may borrow from the kernel region. Emptying a
/// block into less has killed processes that would have lived. `swap` frames count where they are
/// given. A block with nothing to move takes no room, however full the rest is.
pub fn fits_elsewhere(block: &Occupancy, node: &NodeSample, swap: u64) -> bool {
    if block.to_move() == 0 {
        return true;
    }
    let free = node.movable.free.saturating_sub(block.free);
    let room = free + node.kernel.borrowable + droppable(node.movable.cache) + swap;
    let margin = node.movable.high + block.total() / 8;
    room >= block.to_move() + margin
}

/// Whether the kernel region gains at least half of a block of the movable zone: the rest of its
/// contents may have to move into the kernel region itself.
pub fn gains(block: &Occupancy, node: &NodeSample, swap: u64) -> bool {
    let free = node.movable.free.saturating_sub(block.free);
    let spill = block.to_move().saturating_sub(free + droppable(node.movable.cache) + swap);
    spill <= block.total() / 2
}

/// Whether what a block of the kernel region holds fits elsewhere, and leaves the kernel region
/// `keep` frames that it can use. Page cache that the block holds may be dropped.
pub fn fits_without(block: &Occupancy, node: &NodeSample, keep: u64) -> bool {
    let held = block.free + droppable(block.cache);
    let kernel = node.kernel.usable().saturating_sub(held);
    let spill = block.to_move().saturating_sub(node.movable.usable());
    kernel >= keep.saturating_add(spill)
}

/// Blocks of the movable zone in the order in which the kernel region should get them: emptiest
/// first, in steps of a sixteenth; among those equally full, one whose gigabyte is broken anyway,
/// then the lowest. Unreadable blocks come last.
pub fn by_cost(blocks: &[Block], node: u32, block_frames: u64) -> impl Iterator<Item = &Block> {
    let mut found: Vec<&Block> = candidates(blocks, node).collect();
    let whole = |block: &Block| is_whole_gigabyte(blocks, block, block_frames);
    found.sort_by_cached_key(|block| {
        let step = (block_frames / 16).max(1);
        let cost = block.occupancy.map_or(u64::MAX, |found| found.to_move().div_ceil(step));
        (cost, whole(block), block.number)
    });
    found.into_iter()
}

/// Blocks of a node's movable zone that nothing known keeps there.
pub fn candidates(blocks: &[Block], node: u32) -> impl Iterator<Item = &Block> {
    blocks
        .iter()
        .filter(move |block| block.node == node && block.place == Place::Movable)
        .filter(|block| matches!(obstacle(block), None | Some(Obstacle::Unknown)))
}

/// Whether all blocks of the aligned gigabyte around a block are movable. A block of a gigabyte or
/// more is one by itself.
fn is_whole_gigabyte(blocks: &[Block], block: &Block, block_frames: u64) -> bool {
    const GIGABYTE: u64 = 1 << 18;
    let each = (GIGABYTE / block_frames).max(1);
    let first = block.number / each * each;
    let movable = |block: &&Block| {
        (first..first + each).contains(&block.number) && block.place == Place::Movable
    };
    blocks.iter().filter(movable).count() as u64 == each
}

/// Blocks of the kernel region that could leave it, in preferred order: those in `youngest`, last
/// one first, then the highest. Blocks with doubtful frames come last, those with the fewest first:
/// frames without flags are kernel memory or free on a per-CPU list, as long as those lists hold
/// that many (`per_cpu`).
pub fn by_age<'a>(
    blocks: &'a [Block],
    node: u32,
    youngest: &[u64],
    per_cpu: u64,
) -> impl Iterator<Item = &'a Block> {
    let age = |block: &Block| youngest.iter().rev().position(|number| *number == block.number);
    let mut found: Vec<(u64, &Block)> = blocks
        .iter()
        .filter(|block| block.node == node && block.place == Place::Kernel)
        .filter_map(|block| Some((doubtful(block, per_cpu)?, block)))
        .collect();
    found.sort_by_cached_key(|(doubt, block)| {
        (*doubt, age(block).unwrap_or(usize::MAX), Reverse(block.number))
    });
    found.into_iter().map(|(_, block)| block)
}

/// Frames of a block that may keep it in its zone: 0 if nothing does, nothing if something does for
/// certain.
fn doubtful(block: &Block, per_cpu: u64) -> Option<u64> {
    match (obstacle(block), block.occupancy) {
        (None, _) => Some(0),
        (Some(Obstacle::Unmovable(_)), Some(found))
            if found.unmovable == 0 && found.unflagged <= per_cpu =>
        {
            Some(found.unflagged)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{KernelSample, MovableSample};

    const FRAMES: u64 = 32_768;

    fn filled(number: u64, place: Place, movable: u64) -> Block {
        let free = FRAMES - movable;
        let occupancy = Some(Occupancy { free, movable, ..Occupancy::default() });
        Block { number, node: 0, place, occupancy, scanned: Duration::ZERO }
    }

    fn numbers<'a>(blocks: impl Iterator<Item = &'a Block>) -> Vec<u64> {
        blocks.map(|block| block.number).collect()
    }

    #[test]
    fn what_cannot_move_is_named() {
        let with = |occupancy| obstacle(&Block { occupancy, ..filled(1, Place::Movable, 0) });
        let of = |occupancy| with(Some(occupancy));
        let none = Occupancy::default();
        assert_eq!(with(None), Some(Obstacle::Unknown));
        assert_eq!(of(Occupancy { movable: 9, cache: 9, free: 9, ..none }), None);
        assert_eq!(
            of(Occupancy { hugetlb: 512, reserved: 1, ..none }),
            Some(Obstacle::Hugetlb(512))
        );
        assert_eq!(of(Occupancy { reserved: 1, ..none }), Some(Obstacle::Reserved(1)));
        assert_eq!(of(Occupancy { absent: 3, ..none }), Some(Obstacle::Hole(3)));
        assert_eq!(of(Occupancy { offline: 2, ..none }), Some(Obstacle::Ballooned(2)));
        assert_eq!(
            of(Occupancy { unmovable: 1, unflagged: 4, ..none }),
            Some(Obstacle::Unmovable(5))
        );
        assert_eq!(of(Occupancy { unflagged: 9999, ..none }), None, "free or movable there");
        let in_kernel = |unflagged| {
            let occupancy = Some(Occupancy { unflagged, ..none });
            obstacle(&Block { occupancy, ..filled(1, Place::Kernel, 0) })
        };
        assert_eq!(in_kernel(UNFLAGGED_SLACK), None);
        assert_eq!(in_kernel(UNFLAGGED_SLACK + 1), Some(Obstacle::Unmovable(129)));
        assert_eq!(obstacle(&filled(1, Place::Fixed, 0)), Some(Obstacle::Straddles));
        assert_eq!(Obstacle::Reserved(3).to_string(), "3 reserved frames");
    }

    #[test]
    fn the_emptiest_block_goes_first_and_whole_gigabytes_last() {
        // Gigabyte 1 (blocks 8 to 15) is whole, gigabyte 2 is not.
        let mut blocks: Vec<Block> = (8..16).map(|n| filled(n, Place::Movable, 100)).collect();
        blocks.push(filled(17, Place::Movable, 2000));
        blocks.push(filled(18, Place::Movable, 3000));
        blocks.push(filled(19, Place::Movable, 90));
        blocks.push(filled(20, Place::Kernel, 0));
        blocks.push(Block { node: 1, ..filled(21, Place::Movable, 0) });
        blocks.push(Block { occupancy: None, ..filled(22, Place::Movable, 0) });
        let mut polluted = filled(23, Place::Movable, 0);
        polluted.occupancy = Some(Occupancy { reserved: 1, ..Occupancy::default() });
        blocks.push(polluted);
        let order = numbers(by_cost(&blocks, 0, FRAMES));
        assert_eq!(order, [17, 19, 8, 9, 10, 11, 12, 13, 14, 15, 18, 22]);
        let gigabytes: Vec<Block> = (4..6).map(|n| filled(n, Place::Movable, 0)).collect();
        assert_eq!(numbers(by_cost(&gigabytes, 0, 1 << 18)), [4, 5], "blocks of a gigabyte");
    }

    #[test]
    fn the_youngest_clean_kernel_block_leaves_first() {
        let mut blocks: Vec<Block> = (1..7).map(|n| filled(n, Place::Kernel, 5)).collect();
        blocks[2].occupancy = Some(Occupancy { unmovable: 1, ..Occupancy::default() });
        blocks.push(filled(9, Place::Movable, 0));
        assert_eq!(numbers(by_age(&blocks, 0, &[1, 4, 3, 2], 0)), [2, 4, 1, 6, 5]);
        assert_eq!(numbers(by_age(&blocks, 1, &[], 0)), [0; 0]);
    }

    #[test]
    fn frames_that_may_be_free_are_tried_last() {
        let mut blocks: Vec<Block> = (1..5).map(|n| filled(n, Place::Kernel, 5)).collect();
        for (block, unflagged) in blocks.iter_mut().zip([500, 700, 100, 600]) {
            block.occupancy = Some(Occupancy { unflagged, ..Occupancy::default() });
        }
        assert_eq!(numbers(by_age(&blocks, 0, &[2, 1], 0)), [3], "no per-CPU lists");
        assert_eq!(numbers(by_age(&blocks, 0, &[2, 1], 600)), [3, 1, 4]);
    }

    #[test]
    fn nothing_is_emptied_that_does_not_fit() {
        let block = filled(1, Place::Movable, 20_000).occupancy.unwrap();
        let node = |free, cache, borrowable| NodeSample {
            node: 0,
            kernel: KernelSample { borrowable, available: 40_000, ..KernelSample::default() },
            movable: MovableSample { managed: 1 << 20, free, high: 1000, cache },
        };
        // Of the free frames 12,768 are the block's own; the margin is 1000 + 4096.
        let free = 12_768 + 20_000 + 1000 + 4096;
        assert!(fits_elsewhere(&block, &node(free, 0, 0), 0));
        assert!(!fits_elsewhere(&block, &node(free - 1, 0, 0), 0));
        assert!(fits_elsewhere(&block, &node(free - 1, 4, 0), 0));
        assert!(fits_elsewhere(&block, &node(free - 100, 0, 100), 0));
        assert!(fits_elsewhere(&block, &node(free - 100, 0, 0), 100));
        let free = filled(1, Place::Movable, 0).occupancy.unwrap();
        assert!(fits_elsewhere(&free, &node(FRAMES, 0, 0), 0), "the rest is full");
        let nearly = filled(1, Place::Movable, 1).occupancy.unwrap();
        assert!(!fits_elsewhere(&nearly, &node(FRAMES - 1, 0, 0), 0));
        assert!(fits_without(&block, &node(20_000, 0, 0), 40_000 - 12_768));
        assert!(!fits_without(&block, &node(20_000, 0, 0), 40_000 - 12_768 + 1));
        assert!(!fits_without(&block, &node(19_999, 0, 0), 40_000 - 12_768), "it spills");
        // Half of a block is 16,384 frames.
        assert!(gains(&block, &node(12_768 + 3616, 0, 0), 0));
        assert!(!gains(&block, &node(12_768 + 3615, 0, 20_000), 0), "lent memory is no gain");
        assert!(gains(&block, &node(12_768 + 3612, 4, 0), 1));
    }
}
