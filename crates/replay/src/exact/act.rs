//! One step of a recorded kernel's page allocator.

use prairie_frames::{Frame, MigrateType, Order};
use prairie_trace::GfpFlags;

use super::threads::By;

/// One action of the recorded kernel.
#[derive(Clone, Copy, Debug)]
pub struct Act {
    /// The CPU.
    pub cpu: u16,
    /// The first frame of the block; [`Frame::NONE`] for [`Action::Snapshot`].
    pub frame: Frame,
    /// Its order.
    pub order: Order,
    /// The action.
    pub action: Action,
    /// On whose account.
    pub by: By,
    /// When, in nanoseconds of the recording's clock.
    pub time_ns: u64,
    /// The thread that did it, or that an interrupt found running.
    pub thread: i32,
}

impl Act {
    /// Something that names no block.
    pub fn aside(action: Action, time_ns: u64) -> Act {
        let by = By::Program;
        Act { cpu: 0, frame: Frame::NONE, order: Order::BASE, action, by, time_ns, thread: 0 }
    }

    /// Whether the block stays where it is: it only names a pageblock or a list.
    pub fn is_aside(&self) -> bool {
        matches!(
            self.action,
            Action::Retyped(_) | Action::Regrouped(_) | Action::Picked | Action::Isolates
        )
    }
}

/// An action on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It left the free lists, for a request of this type.
    Locked(MigrateType),
    /// It was allocated.
    Alloc(MigrateType, GfpFlags),
    /// Nothing was allocated, of an act that names no block: the request failed.
    Refused(MigrateType, GfpFlags),
    /// It was freed.
    Free,
    /// It was handed over at boot, by the thread that initializes memory late.
    HandOver,
    /// It came to a per-CPU list; its [`Action::Free`], or those of its frames, came before.
    Listed,
    /// It went to the free lists past the per-CPU lists; its [`Action::Free`], or those of its frames,
    /// came before.
    PastLists {
        /// Whether to the tail of its list (`FPI_TO_TAIL`).
        to_tail: bool,
    },
    /// It went from a per-CPU list to the free lists of this type.
    Drain(MigrateType),
    /// It was taken from a foreign list, for a request of a type; whether its pageblock then had
    /// that type.
    Fallback {
        /// The type wanted.
        wanted: MigrateType,
        /// The type of the list it was found on.
        from: MigrateType,
        /// The size of the block found. It is the allocated size if the event has no other (a
        /// pageblock claimed for a smaller block, since 6.10).
        found: Order,
        /// Whether the pageblock changed its type, or had it.
        change_ownership: bool,
    },
    /// Compaction took it from the free lists; whether a search of the lists found it, which turns
    /// the list that it was on.
    Isolated {
        /// Whether it was found by a search of the lists.
        searched: bool,
    },
    /// Its pageblock got a type that no fallback gave it.
    Retyped(MigrateType),
    /// Its pageblock got another type, and what is free in it went to the lists of that type.
    Regrouped(MigrateType),
    /// Compaction turned the free list that it is on, so that it came to the tail.
    Picked,
    /// A snapshot begins or ends: its place in [`Recording::snapshots`](super::recording::Recording::snapshots).
    Snapshot(usize, Edge),
    /// A frame was freed as part of a larger block, which a later act frees, of an act that names no
    /// block.
    Joined,
    /// A free was logged of a frame that compaction keeps ([`kept`](super::kept)), of an act that names
    /// no block.
    Kept,
    /// Its pageblock, which is to go offline, was isolated with what is free in it.
    Isolates,
    /// Its pageblock, all free, went offline.
    Removed,
    /// A pageblock that comes online was opened ([`opened`](super::opened)), of an act that names no
    /// block.
    Opened,
    /// Frames were taken from a per-CPU list without an event of their own, of an act that names no
    /// block.
    Bulk {
        /// The type of the list.
        migrate_type: MigrateType,
        /// How many.
        frames: u32,
        /// The node they were asked of, where the record says so.
        node: Option<u16>,
        /// Whether it returns now, after other threads ran or on another CPU: if nothing on the list
        /// could be its frames when it began, it was preempted before it took them.
        returns: bool,
    },
    /// The statistics of a CPU and a zone were updated, of an act that names no block; the reading
    /// has its place in [`Recording::readings`](super::recording::Recording::readings).
    Decay(usize),
    /// Watermarks and the limits of per-CPU lists were set, of an act that names no block.
    Resized(Resized),
    /// Compaction of all memory was requested (`/proc/sys/vm/compact_memory`). It names no block.
    CompactMemory,
}

/// Why the limits of per-CPU lists were set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resized {
    /// Boot set the watermarks (`init_per_zone_wmark_min`).
    Boot,
    /// khugepaged may have raised them (`hugepage_init`).
    HugePages,
    /// The sizes of the caches are known (`cacheinfo_sysfs_init`).
    Caches,
    /// Watermarks were set.
    Watermarks {
        /// `vm.min_free_kbytes`.
        min_free_kib: u64,
        /// `vm.watermark_scale_factor`.
        scale_factor: u64,
    },
    /// `vm.percpu_pagelist_high_fraction` was written.
    Fraction(u64),
    /// The lists for a zone hold nothing while some of its memory goes offline (`zone_pcp_disable`).
    Disabled(usize),
    /// They are as before, for the memory stayed online (`zone_pcp_enable`).
    Enabled,
    /// Memory came online, which sets watermarks (`online_pages`), without a probe that reports them.
    Online,
}

/// The ends of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// Before the files were read.
    Begin,
    /// After.
    End,
}

/// Whether a block of `order` passes through per-CPU lists (`pcp_allowed_order`).
pub fn goes_through_cpu(order: Order) -> bool {
    order.get() <= 3 || order == Order::HUGE
}
