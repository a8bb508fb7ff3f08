//! Polluted pageblocks: pageblocks with unmovable frames, and the sources of these.

use prairie_frames::contiguity::Unknown;
use prairie_frames::{BlockCounts, Mobility};
use serde::Serialize;

use super::ratio;
use super::tally::ZoneTally;
use crate::FrameClass;

/// Pageblocks that can never become a huge page, because at least one frame in each cannot be
/// moved. Only blocks all of whose frames exist are checked; blocks cut by a zone's border or a
/// hole are counted separately.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Polluted {
    /// Blocks of 2 MiB all of whose frames exist.
    pub whole_blocks: u64,
    /// Blocks with some frames, but not all.
    pub partial_blocks: u64,
    /// Whole blocks with at least one unmovable frame.
    pub polluted_blocks: u64,
    /// Their share of the whole blocks, 0 to 1.
    pub polluted_share: f64,
    /// Unmovable frames in them.
    pub unmovable_frames: u64,
    /// The median number of unmovable frames in a polluted pageblock (of an even number of blocks the
    /// lower middle); 0 if none is polluted.
    pub median_unmovable_frames: u16,
    /// Polluted blocks by their number of unmovable frames: 1, 2–3, 4–7, …, 256–511, 512.
    pub histogram: Vec<PollutedBucket>,
}

/// Polluted pageblocks by their number of unmovable frames.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PollutedBucket {
    /// Fewest unmovable frames.
    pub from_frames: u16,
    /// Most unmovable frames.
    pub to_frames: u16,
    /// Blocks.
    pub blocks: u64,
    /// Unmovable frames in these blocks.
    pub unmovable_frames: u64,
    /// Share of all polluted pageblocks that have at most this many, 0 to 1.
    pub cumulative_share: f64,
}

/// Unmovable memory of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UnmovableSource {
    /// The class.
    pub class: FrameClass,
    /// Its name for tables.
    pub label: &'static str,
    /// Frames.
    pub frames: u64,
    /// Share of all unmovable frames, 0 to 1.
    pub share_of_unmovable: f64,
    /// Pageblocks (whole ones) with at least one such frame.
    pub blocks: u64,
    /// Those of them that nothing else pollutes: they would be whole if this source were elsewhere.
    pub blocks_alone: u64,
}

impl Polluted {
    /// Counts polluted pageblocks, unknown frames taken one way or the other.
    pub(super) fn of(zones: &[&ZoneTally], unknown: Unknown) -> Polluted {
        let polluting = |block: &BlockCounts| match unknown {
            Unknown::AsMovable => block.unmovable,
            Unknown::AsUnmovable => block.unmovable + block.unknown,
        };
        let blocks = || zones.iter().flat_map(|zone| &zone.blocks);
        // by_frames[n]: whole blocks with n frames that pollute.
        let mut by_frames = [0u64; BlockCounts::FRAMES as usize + 1];
        for block in blocks().filter(|block| block.is_whole()) {
            by_frames[usize::from(polluting(block))] += 1;
        }
        let whole_blocks: u64 = by_frames.iter().sum();
        let polluted_blocks = whole_blocks - by_frames[0];
        Polluted {
            whole_blocks,
            partial_blocks: blocks().filter(|b| !b.is_whole() && b.present() > 0).count() as u64,
            polluted_blocks,
            polluted_share: ratio(polluted_blocks, whole_blocks),
            unmovable_frames: (0..).zip(by_frames).map(|(frames, n): (u64, u64)| frames * n).sum(),
            median_unmovable_frames: median(&by_frames, polluted_blocks),
            histogram: histogram(&by_frames, polluted_blocks),
        }
    }
}

/// The lower median of the polluted pageblocks' unmovable frames.
fn median(by_frames: &[u64], polluted: u64) -> u16 {
    let mut seen = 0;
    let reaches_half = |&(_, &blocks): &(usize, &u64)| {
        seen += blocks;
        seen > 0 && seen * 2 >= polluted
    };
    let found = by_frames.iter().enumerate().skip(1).find(reaches_half);
    found.map_or(0, |(frames, _)| frames as u16)
}

/// Buckets that double: 1, 2–3, …, 256–511, and full blocks.
fn histogram(by_frames: &[u64], polluted: u64) -> Vec<PollutedBucket> {
    let mut seen = 0;
    let bucket = |exponent: u32| {
        let from = 1usize << exponent;
        let to = (2 * from - 1).min(by_frames.len() - 1);
        let blocks = by_frames[from..=to].iter().sum();
        seen += blocks;
        PollutedBucket {
            from_frames: from as u16,
            to_frames: to as u16,
            blocks,
            unmovable_frames: (from..=to).map(|n| n as u64 * by_frames[n]).sum(),
            cumulative_share: ratio(seen, polluted),
        }
    };
    (0..=9).map(bucket).collect()
}

/// Unmovable memory by class, the largest first.
pub(super) fn unmovable_sources(zones: &[&ZoneTally]) -> Vec<UnmovableSource> {
    let unmovable = || {
        let of = |class: &FrameClass| class.mobility() == Mobility::Unmovable;
        FrameClass::ALL.into_iter().filter(of)
    };
    let frames_of = |class: FrameClass| -> u64 {
        zones.iter().map(|zone| zone.frames_by_class[class.index()]).sum()
    };
    let all: u64 = unmovable().map(frames_of).sum();
    let whole_block_sets = || {
        zones.iter().flat_map(|zone| {
            let blocks = zone.blocks.iter().zip(&zone.unmovable_classes);
            blocks.filter(|(block, _)| block.is_whole()).map(|(_, classes)| *classes)
        })
    };
    let source = |class: FrameClass| {
        let bit = 1u32 << class.index();
        UnmovableSource {
            class,
            label: class.label(),
            frames: frames_of(class),
            share_of_unmovable: ratio(frames_of(class), all),
            blocks: whole_block_sets().filter(|classes| classes & bit != 0).count() as u64,
            blocks_alone: whole_block_sets().filter(|classes| *classes == bit).count() as u64,
        }
    };
    let mut sources: Vec<_> = unmovable().map(source).filter(|source| source.frames > 0).collect();
    sources.sort_by_key(|source| std::cmp::Reverse(source.frames));
    sources
}
