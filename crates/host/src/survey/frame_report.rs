//! Figures from frames: available and potential contiguity, classes, polluted pageblocks.

use prairie_frames::contiguity::{Unknown, free_blocks, potential_blocks};
use prairie_frames::{Mobility, Order};
use serde::Serialize;

use super::polluted::{Polluted, UnmovableSource, unmovable_sources};
use super::tally::ZoneTally;
use super::{ratio, share};
use crate::FrameClass;

/// Measures over the frames of one zone or of the whole host. Blocks never reach across zones, as
/// the page allocator allocates none that do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct FrameReport {
    /// Frames that exist: all memory that shares below refer to.
    pub present_frames: u64,
    /// The same by mobility.
    pub by_mobility: MobilityFrames,
    /// Frames by what fills them, in the order of [`FrameClass::ALL`], without classes that do
    /// not occur.
    pub by_class: Vec<ClassFrames>,
    /// Movable frames that are unevictable or mlocked: they move only while
    /// `vm.compact_unevictable_allowed` is 1.
    pub unevictable_frames: u64,
    /// Contiguity available now (Contiguitas, Figure 2) at 2, 4, 32 MiB and 1 GiB.
    pub available: Vec<Available>,
    /// Potential contiguity (Contiguitas, Figure 5) at 2 MiB, 32 MiB and 1 GiB.
    pub potential: Vec<Potential>,
    /// F_u beyond the free lists: orders 11 to 18, by aligned, wholly free blocks.
    pub unusable_beyond_lists: Vec<UnusableByFrames>,
    /// Unmovable memory by source, the largest first.
    pub unmovable_sources: Vec<UnmovableSource>,
    /// Pageblocks that unmovable frames pollute.
    pub polluted: Polluted,
    /// The same with unknown frames counted as unmovable.
    pub polluted_if_unknown_unmovable: Polluted,
    /// Contiguity of the memory that the kernel has initialized.
    pub initialized: Initialized,
}

/// Measures over initialized memory only. Soon after boot most of a machine is not initialized, and
/// measures over all memory say little: such memory is neither fragmented nor known to be free.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Initialized {
    /// Frames that the kernel has initialized.
    pub frames: u64,
    /// Their share of all memory, 0 to 1.
    pub share_of_memory: f64,
    /// Share of them in aligned 2 MiB blocks without an unmovable frame, if unknown frames are
    /// unmovable.
    pub potential_2_mib_min: f64,
    /// The same if unknown frames are movable.
    pub potential_2_mib_max: f64,
    /// Polluted pageblocks as a share of the initialized ones, 0 to 1.
    pub polluted_share: f64,
}

/// Frames by whether software could move what fills them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MobilityFrames {
    /// Free.
    pub free: u64,
    /// In use and movable.
    pub movable: u64,
    /// In use and unmovable.
    pub unmovable: u64,
    /// Unknown.
    pub unknown: u64,
}

/// Frames of one class.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ClassFrames {
    /// The class.
    pub class: FrameClass,
    /// Its name for tables.
    pub label: &'static str,
    /// `free`, `movable`, `unmovable` or `unknown`.
    pub mobility: &'static str,
    /// Why.
    pub why: &'static str,
    /// Frames.
    pub frames: u64,
    /// Their share of all memory, 0 to 1.
    pub share_of_memory: f64,
}

/// Free memory in blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Available {
    /// The blocks' order.
    pub order: u8,
    /// Their size.
    pub block_bytes: u64,
    /// Aligned blocks that are wholly free.
    pub blocks: u64,
    /// Their share of free memory, 0 to 1; 0 when nothing is free.
    pub share_of_free: f64,
}

/// Memory that full compaction could turn into blocks of one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Potential {
    /// The blocks' order.
    pub order: u8,
    /// Their size.
    pub block_bytes: u64,
    /// If unknown frames can be moved: the optimistic answer.
    pub unknown_movable: PotentialBlocks,
    /// If they cannot: the pessimistic answer.
    pub unknown_unmovable: PotentialBlocks,
}

/// Aligned blocks without an unmovable frame.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PotentialBlocks {
    /// Their number.
    pub blocks: u64,
    /// Their share of all memory, 0 to 1.
    pub share_of_memory: f64,
}

/// F_u of one order beyond the free lists.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct UnusableByFrames {
    /// The order.
    pub order: u8,
    /// The block's size.
    pub block_bytes: u64,
    /// Share of free memory outside aligned, wholly free blocks of this order, 0 to 1.
    pub unusable_free_space_index: f64,
}

impl FrameReport {
    /// Frames that the kernel has not initialized.
    pub fn uninitialized_frames(&self) -> u64 {
        self.present_frames.saturating_sub(self.initialized.frames)
    }

    /// Polluted pageblocks as a share of the initialized ones, 0 to 1: if unknown frames are movable,
    /// and if those that are initialized are unmovable.
    pub fn polluted_bounds(&self) -> (f64, f64) {
        let least = self.initialized.polluted_share;
        let uninitialized = self.uninitialized_frames() / Order::HUGE.frames();
        let initialized = |blocks: u64| blocks.saturating_sub(uninitialized);
        let blocks = initialized(self.polluted.whole_blocks).max(1);
        let polluted = initialized(self.polluted_if_unknown_unmovable.polluted_blocks);
        (least, (polluted as f64 / blocks as f64).clamp(least, 1.0))
    }

    /// The report on these zones together. Linear in pageblocks.
    pub fn of(zones: &[&ZoneTally]) -> FrameReport {
        let present = sum(zones, ZoneTally::present_frames);
        let huge = potential(zones, Order::HUGE, present);
        let polluted = Polluted::of(zones, Unknown::AsMovable);
        FrameReport {
            present_frames: present,
            initialized: initialized(zones, &huge, &polluted),
            by_mobility: MobilityFrames {
                free: sum(zones, |zone| zone.frames_of(Mobility::Free)),
                movable: sum(zones, |zone| zone.frames_of(Mobility::Movable)),
                unmovable: sum(zones, |zone| zone.frames_of(Mobility::Unmovable)),
                unknown: sum(zones, |zone| zone.frames_of(Mobility::Unknown)),
            },
            by_class: by_class(zones, present),
            unevictable_frames: sum(zones, |zone| zone.unevictable_frames),
            available: [Order::HUGE, Order::LARGEST_FREE, Order::MIB_32, Order::GIGANTIC]
                .map(|order| available(zones, order))
                .to_vec(),
            potential: [Order::HUGE, Order::MIB_32, Order::GIGANTIC]
                .map(|order| potential(zones, order, present))
                .to_vec(),
            unusable_beyond_lists: Order::up_to(Order::GIGANTIC)
                .filter(|order| *order > Order::LARGEST_FREE)
                .map(|order| unusable(zones, order))
                .collect(),
            unmovable_sources: unmovable_sources(zones),
            polluted,
            polluted_if_unknown_unmovable: Polluted::of(zones, Unknown::AsUnmovable),
        }
    }
}

fn initialized(zones: &[&ZoneTally], huge: &Potential, polluted: &Polluted) -> Initialized {
    let present = sum(zones, ZoneTally::present_frames);
    let missing =
        sum(zones, |zone| zone.frames_by_class[FrameClass::Uninitialized.index()]).min(present);
    let frames = present - missing;
    let blocks = sum(zones, |zone| zone.uninitialized_blocks);
    let movable = huge.unknown_movable.blocks.saturating_sub(blocks);
    // A block that the end of a zone cuts may count above and not below.
    let share = |blocks| share(blocks, Order::HUGE, frames).min(1.0);
    Initialized {
        frames,
        share_of_memory: ratio(frames, present),
        potential_2_mib_min: share(huge.unknown_unmovable.blocks),
        potential_2_mib_max: share(movable),
        polluted_share: ratio(
            polluted.polluted_blocks,
            polluted.whole_blocks.saturating_sub(blocks),
        ),
    }
}

fn sum(zones: &[&ZoneTally], of: impl Fn(&ZoneTally) -> u64) -> u64 {
    zones.iter().map(|zone| of(zone)).sum()
}

fn by_class(zones: &[&ZoneTally], present: u64) -> Vec<ClassFrames> {
    let counted = |class: FrameClass| {
        let frames = sum(zones, |zone| zone.frames_by_class[class.index()]);
        ClassFrames {
            class,
            label: class.label(),
            mobility: class.mobility().name(),
            why: class.why(),
            frames,
            share_of_memory: ratio(frames, present),
        }
    };
    FrameClass::ALL.into_iter().map(counted).filter(|class| class.frames > 0).collect()
}

fn available(zones: &[&ZoneTally], order: Order) -> Available {
    let blocks = sum(zones, |zone| free_blocks(zone.contiguity_blocks(), order));
    let free = sum(zones, |zone| zone.frames_of(Mobility::Free));
    Available {
        order: order.get(),
        block_bytes: order.bytes(),
        blocks,
        share_of_free: share(blocks, order, free),
    }
}

fn potential(zones: &[&ZoneTally], order: Order, present: u64) -> Potential {
    let count = |unknown| {
        let of = |zone: &ZoneTally| potential_blocks(zone.contiguity_blocks(), order, unknown);
        let blocks = sum(zones, of);
        PotentialBlocks { blocks, share_of_memory: share(blocks, order, present) }
    };
    Potential {
        order: order.get(),
        block_bytes: order.bytes(),
        unknown_movable: count(Unknown::AsMovable),
        unknown_unmovable: count(Unknown::AsUnmovable),
    }
}

fn unusable(zones: &[&ZoneTally], order: Order) -> UnusableByFrames {
    let free = sum(zones, |zone| zone.frames_of(Mobility::Free));
    let blocks = sum(zones, |zone| free_blocks(zone.contiguity_blocks(), order));
    let usable = blocks * order.frames();
    UnusableByFrames {
        order: order.get(),
        block_bytes: order.bytes(),
        unusable_free_space_index: prairie_frames::indices::unusable_by_blocks(free, usable),
    }
}
