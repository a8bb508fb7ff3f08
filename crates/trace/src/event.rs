//! Events of page frames.

use prairie_frames::{MigrateType, Order, Pfn};

use crate::{GfpFlags, StallPoint};

/// One thing that happened, where, when and on whose behalf.
///
/// Events of a trace are ordered by their place in it, not by `time_ns`: clocks of a kernel that
/// is booting stand still, imported texts round them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds of `CLOCK_MONOTONIC` of the recorded machine; for imported traces, nanoseconds
    /// of whatever clock they were recorded with.
    pub time_ns: u64,
    /// The process (thread group) that ran at that moment; 0 for the idle task, -1 unknown.
    pub pid: i32,
    /// The CPU on which it ran.
    pub cpu: u16,
    /// The kind, with its data.
    pub what: EventKind,
}

impl Event {
    /// One more than the last frame that the event names, if it names one: the least number of
    /// frames that the machine must have.
    pub fn frames_named(&self) -> Option<u64> {
        let (pfn, frames) = match self.what {
            EventKind::Alloc { pfn, order, .. }
            | EventKind::Free { pfn, order }
            | EventKind::Pin { pfn, order }
            | EventKind::Unpin { pfn, order }
            | EventKind::ZoneLocked { pfn, order, .. }
            | EventKind::PcpuDrain { pfn, order, .. } => (pfn, order.frames()),
            EventKind::Extfrag { pfn, fallback_order, .. } => (pfn, fallback_order.frames()),
            EventKind::FreeBatched { pfn } => (pfn, 1),
            EventKind::AllocFailed { .. }
            | EventKind::Process { .. }
            | EventKind::Stack { .. }
            | EventKind::Lost { .. }
            | EventKind::Marker { .. }
            | EventKind::Stall { .. }
            | EventKind::Cgroup { .. }
            | EventKind::Exit => return None,
        };
        Some(pfn.0.saturating_add(frames))
    }
}

/// The kinds of events: the kernel's `kmem` tracepoints, and the trace's own.
///
/// Blocks are aligned to their size, but that is for a replay to check: a recorded number is kept
/// as the kernel gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// `mm_page_alloc`: a block was allocated.
    Alloc {
        /// Its first frame.
        pfn: Pfn,
        /// Its size.
        order: Order,
        /// The mobility that the flags asked for.
        migrate_type: MigrateType,
        /// The request's flags.
        gfp: GfpFlags,
        /// The kernel call chain; [`StackId::NONE`] where none was recorded.
        stack: StackId,
    },
    /// `mm_page_alloc` without a page: the request was not satisfied.
    AllocFailed {
        /// The size wanted.
        order: Order,
        /// The mobility that the flags asked for.
        migrate_type: MigrateType,
        /// The request's flags.
        gfp: GfpFlags,
        /// The kernel call chain; [`StackId::NONE`] where none was recorded.
        stack: StackId,
    },
    /// `mm_page_free`: a block was freed.
    Free {
        /// Its first frame.
        pfn: Pfn,
        /// Its size, as freed; a block may be freed in parts.
        order: Order,
    },
    /// `mm_page_free_batched`: a frame freed as one of a list. The kernel has traced
    /// `mm_page_free` for the same frame before: this is the moment it enters a per-CPU list, not
    /// a second free.
    FreeBatched {
        /// The frame.
        pfn: Pfn,
    },
    /// `mm_page_alloc_extfrag`: an allocation took from another migrate type's free list.
    Extfrag {
        /// First frame of the block found.
        pfn: Pfn,
        /// The size wanted.
        order: Order,
        /// The size of the block found.
        fallback_order: Order,
        /// The type wanted.
        migrate_type: MigrateType,
        /// The type of the list it was found on.
        fallback_type: MigrateType,
        /// Whether the whole pageblock changes to the wanted type.
        change_ownership: bool,
    },
    /// `mm_page_alloc_zone_locked`: a block left the zone's free lists, for a per-CPU list or for
    /// a request directly.
    ZoneLocked {
        /// Its first frame.
        pfn: Pfn,
        /// Its size.
        order: Order,
        /// The type of the request.
        migrate_type: MigrateType,
    },
    /// `mm_page_pcpu_drain`: a block went from a per-CPU list back to the zone's free lists.
    PcpuDrain {
        /// Its first frame.
        pfn: Pfn,
        /// Its size.
        order: Order,
        /// The type of the free list it goes to.
        migrate_type: MigrateType,
    },
    /// A block in use was pinned: it must not move until it is unpinned as often. Stock kernels
    /// have no such tracepoint; probes and debugging kernels report pins
    /// (`docs/src/concepts/trace-format.md`).
    Pin {
        /// Its first frame, or a frame of it.
        pfn: Pfn,
        /// Its size, as known to the source.
        order: Order,
    },
    /// A pin came off.
    Unpin {
        /// Its first frame, or a frame of it.
        pfn: Pfn,
        /// Its size, as known to the source.
        order: Order,
    },
    /// From now on the event's process has this name.
    Process {
        /// The name (`comm`).
        name: Text,
    },
    /// A call chain's functions, outermost first, joined by `;` (a folded stack).
    Stack {
        /// The number that events use for it.
        id: StackId,
        /// The functions.
        folded: Text,
    },
    /// This many events of the event's CPU were lost up to this moment.
    Lost {
        /// How many.
        count: u64,
    },
    /// A user's note (`trace_marker`).
    Marker {
        /// The note.
        text: Text,
    },
    /// A task passed a point at which it begins or ends to wait for memory.
    Stall {
        /// The point.
        point: StallPoint,
        /// The thread, by the number that the kernel's first namespace gives it.
        task: i32,
        /// The size of the request; order 0 where the point does not say.
        order: Order,
        /// The request's flags; none where the point does not say.
        gfp: GfpFlags,
        /// The kernel call chain; [`StackId::NONE`] where none was recorded.
        stack: StackId,
        /// What the point's documentation says.
        value: u32,
    },
    /// From now on the event's process is known to be in this cgroup.
    Cgroup {
        /// The path below the root of the hierarchy, beginning with `/`.
        path: Text,
    },
    /// The event's process ended.
    Exit,
}

/// The number of a call chain within one trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StackId(pub u32);

impl StackId {
    /// No call chain was recorded.
    pub const NONE: StackId = StackId(0);
}

/// The number of a text in a [`Texts`] table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(u32);

impl Text {
    /// The empty text, which every table has.
    pub const EMPTY: Text = Text(0);
}

/// The distinct texts that events refer to: names of processes, folded stacks, markers.
///
/// It grows with the number of distinct texts, not with the number of events.
#[derive(Clone, Debug)]
pub struct Texts {
    by_number: Vec<std::sync::Arc<str>>,
    numbers: std::collections::HashMap<std::sync::Arc<str>, Text>,
}

impl Default for Texts {
    fn default() -> Self {
        let mut texts = Texts { by_number: Vec::new(), numbers: std::collections::HashMap::new() };
        texts.intern("");
        texts
    }
}

impl Texts {
    /// The number of `text`, which is added if it is new.
    ///
    /// # Panics
    /// After 2^32 distinct texts.
    pub fn intern(&mut self, text: &str) -> Text {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = Text(u32::try_from(self.by_number.len()).expect("fewer than 2^32 texts"));
        let text: std::sync::Arc<str> = text.into();
        self.by_number.push(text.clone());
        self.numbers.insert(text, number);
        number
    }

    /// The text with this number; the empty one if the number is of another table.
    pub fn get(&self, text: Text) -> &str {
        self.by_number.get(text.0 as usize).map_or("", |t| t)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_share_a_number() {
        let mut texts = Texts::default();
        let bash = texts.intern("bash");
        assert_ne!(bash, texts.intern("(sd-pam)"));
        assert_eq!(bash, texts.intern("bash"));
        assert_eq!(texts.get(bash), "bash");
        assert_eq!(texts.get(Text::EMPTY), "");
        assert_eq!(texts.intern(""), Text::EMPTY);
    }

    #[test]
    fn an_event_fits_in_less_than_a_cache_line() {
        assert!(size_of::<Event>() <= 40, "{} bytes", size_of::<Event>());
    }
}
