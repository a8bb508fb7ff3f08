//! Compaction: making large free blocks by moving the pages between them.
//!
//! Linux 6.1's, mechanism by mechanism and under the kernel's names (`mm/compaction.c`):
//!
//! | file | kernel function |
//! | --- | --- |
//! | `zone.rs` | `compact_zone`: two scanners that walk a zone towards each other |
//! | `migrate_scanner.rs` | `isolate_migratepages`: from the bottom, pages to move |
//! | `free_scanner.rs` | `isolate_freepages`: from the top, free pages to move them to |
//! | `hints.rs` | pageblock skip bits and cached scanner positions |
//! | `suitable.rs` | `compaction_suitable`: whether a zone is worth it |
//! | `deferral.rs` | `compaction_deferred`: backing off after failures |
//! | `score.rs` | `fragmentation_score_node`: when to compact without being asked |
//! | `kcompactd.rs` | `kcompactd`: what the daemon does when woken |
//! | `compactor.rs` | `try_to_compact_pages`, `kcompactd_do_work`, `proactive_compact_node` |
//!
//! and FreeBSD's, which scans towards the middle of one region ([`two_finger`]).
//!
//! Algorithms access memory through two traits: [`Compactable`], which a placement implements, and
//! [`Pages`], which says what may be moved and learns what was. Pages move through the
//! [`FrameTable`], so that their owners find them.
//!
//! Not modeled of Linux's: the searches of the free lists for a good place to start
//! (`fast_find_migrateblock`, `fast_isolate_freepages`), which save scanning and reorder lists;
//! giving the freed block straight to the request (`compaction_capture`); lock contention. Freed
//! source pages go to the free lists at once, past the per-CPU list that the kernel drains now and
//! then.

mod compactor;
mod deferral;
mod free_scanner;
pub mod hints;
pub mod kcompactd;
mod migrate_scanner;
pub mod score;
pub mod suitable;
pub mod two_finger;
mod zone;

pub use compactor::{Compactor, Direct, Priority};
pub use zone::{Control, compact_zone};

use core::ops::AddAssign;

use crate::layout::{Frame, Zone};
use crate::placement::stepwise::Stepwise;
use crate::table::{FrameTable, Owner};
use crate::{BlockCounts, MigrateType, Mobility, Order};

/// Frames in a pageblock.
const PAGEBLOCK: u32 = BlockCounts::FRAMES as u32;

/// Pages that are isolated before they are moved (`COMPACT_CLUSTER_MAX`).
const CLUSTER: usize = 32;

/// Orders above this one are costly: the kernel fails rather than retrying forever
/// (`PAGE_ALLOC_COSTLY_ORDER`).
pub const COSTLY: Order = Order::new(3).unwrap();

/// How hard compaction tries (`enum migrate_mode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Never waits (`MIGRATE_ASYNC`).
    Async,
    /// May wait, but not for a page to be written (`MIGRATE_SYNC_LIGHT`).
    SyncLight,
    /// May wait for anything (`MIGRATE_SYNC`).
    Sync,
}

/// The result of compaction (`enum compact_result`), least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Outcome {
    /// Not tried: too little is free, or the failure is not for fragmentation.
    Skipped,
    /// Not tried: it failed too recently.
    Deferred,
    /// The whole zone was scanned, and no block came free.
    Complete,
    /// A part of the zone was scanned, and no block came free.
    PartialSkipped,
    /// A page could not be moved for lack of a free one.
    Contended,
    /// A block of the wanted size is free.
    Success,
}

/// What compaction cost. The counters of `/proc/vmstat` in brackets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Pages that the migrate scanner scanned (`compact_migrate_scanned`).
    pub migrate_scanned: u64,
    /// Pages that the free scanner scanned (`compact_free_scanned`).
    pub free_scanned: u64,
    /// Pages that either took off their lists (`compact_isolated`).
    pub isolated: u64,
    /// Pages copied elsewhere (`pgmigrate_success`).
    pub moved: u64,
    /// Pages that could not be moved after all (`pgmigrate_fail`).
    pub failed: u64,
}

impl Cost {
    /// Bytes copied.
    pub const fn bytes_copied(&self) -> u64 {
        self.moved * Order::BASE.bytes()
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.migrate_scanned += other.migrate_scanned;
        self.free_scanned += other.free_scanned;
        self.isolated += other.isolated;
        self.moved += other.moved;
        self.failed += other.failed;
    }
}

/// A placement in whose zones pages can be compacted: beyond what any machine that reclaims asks
/// of it ([`Stepwise`]), what depends on types of pageblocks. Zones are indices into
/// [`Layout::zones`](crate::Layout::zones).
pub trait Compactable: Stepwise {
    /// The zone.
    fn zone(&self, zone: usize) -> &Zone;

    /// Whether the memory of the pageblock at `block`, which lies within a zone's span, is the
    /// zone's.
    fn has_pageblock(&self, _zone: usize, _block: Frame) -> bool {
        true
    }

    /// Whether a free block of `order` or more would serve a request of this type without
    /// breaking up a pageblock of another (the loop of `__compact_finished`).
    fn has_block_for(&self, zone: usize, order: Order, migrate_type: MigrateType) -> bool;

    /// Whether compaction can make a block for a request of this type. Not where a policy keeps
    /// memory of the type apart from all that can be moved.
    fn compacts_for(&self, _migrate_type: MigrateType) -> bool {
        true
    }

    /// Takes the free block that starts at `frame` off its list, whole, as
    /// [`take_block`](Stepwise::take_block) does. `None` if too little would stay free
    /// (`__isolate_free_page`).
    fn isolate_free(&mut self, table: &mut FrameTable, zone: usize, frame: Frame) -> Option<Order>;

    /// The allocated page at `frame` is about to leave its place.
    fn leaves(&mut self, _table: &FrameTable, _frame: Frame) {}
}

/// Properties of pages in use that the frame table does not have.
pub trait Pages {
    /// Whether an allocated single page can be taken off its LRU list to be moved.
    fn can_isolate(&self, table: &FrameTable, frame: Frame, _mode: Mode) -> bool {
        table.mobility(frame) == Mobility::Movable
    }

    /// Copies a page of `owner`. False if it is in use; then nothing moves.
    fn copy(&mut self, _owner: Owner, _from: Frame, _to: Frame, _mode: Mode) -> bool {
        true
    }
}

/// Pages without properties beyond the frame table.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Pages for Plain {}

/// A zone of a placement, with the table and what is known of its pages.
pub struct Memory<'a, P, S> {
    /// The state of every frame.
    pub table: &'a mut FrameTable,
    /// The placement.
    pub placement: &'a mut P,
    /// Properties of the pages.
    pub pages: &'a mut S,
    /// Index of the zone.
    pub zone: usize,
}

impl<P: Compactable, S: Pages> Memory<'_, P, S> {
    fn zone(&self) -> &Zone {
        self.placement.zone(self.zone)
    }

    /// Moves a single page into a frame that is on no list, and frees its old one.
    fn migrate(&mut self, from: Frame, to: Frame, mode: Mode) -> bool {
        let owner = self.table.owner(from);
        if !self.pages.copy(owner, from, to, mode) {
            return false;
        }
        let mobility = self.table.mobility(from);
        self.placement.leaves(self.table, from);
        self.table.release(from);
        self.table.allocate(to, Order::BASE, mobility, owner);
        self.placement.give_block(self.table, from, Order::BASE);
        true
    }
}
