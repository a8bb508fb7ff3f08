//! The recorded kernel's actions, inferred ones included, without the frames it chose.

use prairie_frames::free_area::End;
use prairie_frames::layout::Watermarks;
use prairie_frames::placement::linux::Pageset;
use prairie_frames::{Frame, MigrateType, Order};
use prairie_trace::GfpFlags;

use super::onlined::ZoneSize;

/// One step of a replay in which refills, drains and steals happen by themselves. Frames are
/// names here: those that the recorded kernel used.
#[derive(Clone, Debug)]
pub enum Step {
    /// An allocation that left an event.
    Alloc {
        /// The CPU.
        cpu: u16,
        /// The frame that the kernel chose.
        frame: Frame,
        /// The size.
        order: Order,
        /// The type requested.
        migrate_type: MigrateType,
        /// The request's flags.
        gfp: GfpFlags,
        /// Past the per-CPU list, which was in use.
        locked: bool,
        /// Whether it came to its per-CPU list with a refill, not with a free.
        refilled: bool,
    },
    /// A frame taken without an event, by an allocation in bulk; or a larger block whose allocation
    /// was not traced.
    Bulk {
        /// The CPU.
        cpu: u16,
        /// The first frame that the kernel took.
        frame: Frame,
        /// The size.
        order: Order,
        /// The list it took it from.
        migrate_type: MigrateType,
        /// Whether it came there with a refill, not with a free.
        refilled: bool,
    },
    /// The type of a frame's pageblock is looked up, for a [`Step::Free`] that comes later.
    Prepare {
        /// The frame.
        frame: Frame,
    },
    /// A free through a per-CPU list or, for other orders, to the free lists. What is then too much
    /// on the list goes back in batches; in between, other threads use the lists.
    Free {
        /// The CPU.
        cpu: u16,
        /// The first frame.
        frame: Frame,
        /// The size.
        order: Order,
        /// The batches that go back with a [`Step::DrainBatch`] each; if none, all goes back now.
        batches: u32,
    },
    /// A free to the free lists, past the per-CPU list.
    FreeDirect {
        /// The first frame.
        frame: Frame,
        /// The size.
        order: Order,
        /// Where on the list, if not by the usual rule.
        end: Option<End>,
    },
    /// Memory that boot hands over late.
    HandOver {
        /// The first frame.
        frame: Frame,
        /// The size.
        order: Order,
    },
    /// The limits of the per-CPU lists change, zone by zone.
    Pagesets(Vec<Pageset>),
    /// The watermarks change, zone by zone.
    Watermarks(Vec<Watermarks>),
    /// The sizes of zones change, zone by zone.
    Sizes(Vec<ZoneSize>),
    /// The high mark of one CPU's lists for a zone goes down as statistics are updated. What is too
    /// much then goes back in batches; in between, other CPUs use the free lists.
    Decay {
        /// The zone, by its place in the layout.
        zone: usize,
        /// The CPU.
        cpu: u16,
        /// The kernel's numbers just before, by their place in the recording.
        reading: usize,
        /// The batches that go back with a [`Step::DrainBatch`] each; if none, all goes back now.
        batches: u32,
    },
    /// A batch goes back of what a free or an update of statistics found to be too much.
    DrainBatch {
        /// The act of the free or the update.
        cause: usize,
    },
    /// The high mark of one CPU's lists for a zone went down, as a drain without a free shows, before
    /// the record has the kernel's numbers.
    Lower {
        /// The zone, by its place in the layout.
        zone: usize,
        /// The CPU.
        cpu: u16,
        /// The high mark from then on.
        high: u32,
    },
    /// All lists for a zone are emptied, since some of its memory goes offline.
    DrainZone {
        /// The zone, by its place in the layout.
        zone: usize,
        /// Frames that are drained, until an interrupt frees others.
        frames: u32,
    },
    /// A pageblock is isolated, with what is free in it, before it goes offline.
    Isolate {
        /// Its first frame.
        frame: Frame,
    },
    /// A pageblock goes offline.
    Remove {
        /// Its first frame.
        frame: Frame,
    },
    /// A batch of one CPU's lists for a zone of another node goes back, since they are not used.
    DrainRemote {
        /// The zone, by its place in the layout.
        zone: usize,
        /// The CPU.
        cpu: u16,
    },
    /// A snapshot ends here: its place in the recording.
    Snapshot(usize),
}
