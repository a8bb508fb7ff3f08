//! What a walk over page flags found, with the error of what it did not read.

use prairie_frames::{Mobility, Order};
use prairie_host::survey::{FrameCounts, FrameReport};
use prairie_host::{BlockMap, FrameClass};

use crate::estimate::Estimate;

/// The figures of one walk. Frames are of 4 KiB.
#[derive(Clone, Debug)]
pub struct Figures {
    /// When it ended: nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// CPU time that it took.
    pub cpu_seconds: f64,
    /// Pageblocks with memory.
    pub pageblocks: u64,
    /// Of them read; all in a full walk.
    pub pageblocks_read: u64,
    /// Frames of every class that a frame can have, but absent ones.
    pub classes: Vec<ClassFrames>,
    /// Contiguity available now, by size.
    pub available: Vec<Available>,
    /// Potential contiguity, by size.
    pub potential: Vec<Potential>,
    /// Pageblocks all of whose frames exist.
    pub whole: Estimate,
    /// Of them polluted by unmovable frames.
    pub polluted: Estimate,
    /// The same with unknown frames taken as unmovable.
    pub polluted_if_unknown_unmovable: Estimate,
    /// Every class that pollutes.
    pub sources: Vec<Source>,
    /// A coarse map. Cells that no sampled block fell into are absent.
    pub map: BlockMap,
}

/// Frames of one class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassFrames {
    /// The class.
    pub class: FrameClass,
    /// Frames.
    pub frames: Estimate,
}

/// Aligned blocks of one size that are wholly free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Available {
    /// The size.
    pub order: Order,
    /// Blocks.
    pub blocks: Estimate,
}

/// Aligned blocks of one size that full compaction could empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Potential {
    /// The size.
    pub order: Order,
    /// If unknown frames can be moved.
    pub unknown_movable: Estimate,
    /// If they cannot.
    pub unknown_unmovable: Estimate,
}

/// A class of unmovable frames.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Source {
    /// The class.
    pub class: FrameClass,
    /// Whole pageblocks with at least one such frame.
    pub blocks: Estimate,
    /// Those of them that nothing else pollutes.
    pub blocks_alone: Estimate,
}

impl Figures {
    /// The most cells that a map has.
    pub const MAP_CELLS: u64 = 1024;

    /// The smallest cell, at least a pageblock, with which `frames` need no more than
    /// [`Figures::MAP_CELLS`].
    pub fn map_cell(frames: u64) -> Order {
        let fits = |order: &Order| frames / order.frames() < Figures::MAP_CELLS;
        let orders = Order::up_to(BlockMap::LARGEST_CELL).skip(Order::HUGE.index());
        orders.into_iter().find(fits).unwrap_or(BlockMap::LARGEST_CELL)
    }

    /// The figures of a full walk.
    pub fn counted(counts: FrameCounts, pageblocks: u64) -> Figures {
        let report = FrameReport::of(&counts.zones.iter().collect::<Vec<_>>());
        let exact = |count: u64| Estimate::exact(count as f64);
        let frames_of = |class: FrameClass| -> u64 {
            counts.zones.iter().map(|zone| zone.frames_by_class[class.index()]).sum()
        };
        let source = |class: FrameClass| {
            let found = report.unmovable_sources.iter().find(|source| source.class == class);
            Source {
                class,
                blocks: exact(found.map_or(0, |source| source.blocks)),
                blocks_alone: exact(found.map_or(0, |source| source.blocks_alone)),
            }
        };
        let order = |order: u8| Order::new(order).unwrap_or(Order::BASE);
        let available = report.available.iter();
        let potential = report.potential.iter();
        Figures {
            at_unix_ns: 0,
            cpu_seconds: 0.0,
            pageblocks,
            pageblocks_read: pageblocks,
            classes: classes()
                .map(|class| ClassFrames { class, frames: exact(frames_of(class)) })
                .collect(),
            available: available
                .map(|size| Available { order: order(size.order), blocks: exact(size.blocks) })
                .collect(),
            potential: potential
                .map(|size| Potential {
                    order: order(size.order),
                    unknown_movable: exact(size.unknown_movable.blocks),
                    unknown_unmovable: exact(size.unknown_unmovable.blocks),
                })
                .collect(),
            whole: exact(report.polluted.whole_blocks),
            polluted: exact(report.polluted.polluted_blocks),
            polluted_if_unknown_unmovable: exact(
                report.polluted_if_unknown_unmovable.polluted_blocks,
            ),
            sources: unmovable().map(source).collect(),
            map: counts.map,
        }
    }

    /// Whether every frame was read.
    pub fn is_full(&self) -> bool {
        self.pageblocks_read == self.pageblocks
    }

    /// Frames that exist, as far as is known.
    pub fn present_frames(&self) -> f64 {
        self.classes.iter().map(|class| class.frames.value).sum()
    }

    /// Frames of a class.
    pub fn frames_of(&self, class: FrameClass) -> Estimate {
        let found = self.classes.iter().find(|counted| counted.class == class);
        found.map_or(Estimate::exact(0.0), |counted| counted.frames)
    }

    /// Frames of a mobility, without an interval: classes are not independent.
    pub fn frames_of_mobility(&self, mobility: Mobility) -> f64 {
        let of = self.classes.iter().filter(|counted| counted.class.mobility() == mobility);
        of.map(|counted| counted.frames.value).sum()
    }
}

/// The classes that frames can have.
pub fn classes() -> impl Iterator<Item = FrameClass> {
    FrameClass::ALL.into_iter().filter(|class| *class != FrameClass::Absent)
}

/// The classes that pollute.
pub fn unmovable() -> impl Iterator<Item = FrameClass> {
    FrameClass::ALL.into_iter().filter(|class| class.mobility() == Mobility::Unmovable)
}
