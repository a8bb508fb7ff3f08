//! Placement policies: which frame a request gets, and where a freed frame goes.
//!
//! A policy is a value. It acts on a [`FrameTable`] and knows neither clock nor file nor process,
//! so that the same policy serves recorded traces and simulated machines.

mod boxed;
pub mod buddy;
pub mod classes;
pub mod custom;
mod forward;
pub mod freebsd;
pub mod gfp;
pub mod linux;
pub mod lists;
mod reached;
pub mod regions;
pub mod stepwise;
pub mod superpageblocks;
pub mod zonelist;
pub mod zones;

use alloc::vec::Vec;
use core::ops::Range;

use crate::layout::{Frame, Layout};
use crate::table::{FrameTable, Owner};
use crate::{MigrateType, Mobility, Order, ZoneKind};

#[doc(hidden)]
pub use forward::forward;

/// A page of an object: of a process's anonymous memory, of a file, of the kernel's own address
/// space (`vm_object_t` and `vm_pindex_t`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectPage {
    /// The object: a number of the caller's choosing.
    pub object: u64,
    /// The page, counted from where the object's superpages are aligned to.
    pub index: u64,
    /// Pages that the object has; `u64::MAX` if it may grow, as anonymous memory may.
    pub pages: u64,
}

/// One request for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Size of the block.
    pub order: Order,
    /// The use, as the caller states it.
    pub migrate_type: MigrateType,
    /// Whether it could be moved once allocated. Usually [`crate::table::mobility_of`] the type.
    pub mobility: Mobility,
    /// The highest zone that will do.
    pub highest_zone: ZoneKind,
    /// The node it should come from.
    pub node: u16,
    /// The CPU that asks.
    pub cpu: u16,
    /// Its urgency: the GFP flags. Policies read the bits in [`gfp`].
    pub gfp_flags: u32,
    /// The object and page that the memory is for, if known. Recorded events do not have it;
    /// simulated processes and files do.
    pub page: Option<ObjectPage>,
    /// Whether the memory is never freed, such as the kernel's code and the tables that it sets up
    /// at boot. Recorded events do not have it.
    pub permanent: bool,
}

impl ObjectPage {
    /// The object behind all kernel stacks. Its pages are numbered by address, guard pages included
    /// ([`kstack`](crate::kstack)).
    pub const KERNEL_STACKS: u64 = u64::MAX - 1;
}

impl Default for Request {
    /// One frame for the kernel's own use, which may wait for memory to be reclaimed
    /// (`GFP_KERNEL`).
    fn default() -> Request {
        Request {
            order: Order::BASE,
            migrate_type: MigrateType::Unmovable,
            mobility: Mobility::Unmovable,
            highest_zone: ZoneKind::Normal,
            node: 0,
            cpu: 0,
            gfp_flags: gfp::KERNEL,
            page: None,
            permanent: false,
        }
    }
}

/// Single frames without any batching beyond per-CPU lists.
fn one_by_one<P: Placement + ?Sized>(
    placement: &mut P,
    table: &mut FrameTable,
    request: &Request,
    owner: Owner,
    count: u32,
) -> u32 {
    let mut done = 0;
    while done < count {
        let owners = owner + done..owner + count;
        let listed = placement.allocate_listed(table, request, owners);
        if listed == 0 && placement.allocate(table, request, owner + done).is_none() {
            break;
        }
        done += listed.max(1);
    }
    done
}

/// Makes the block of `owner` and the owners after it unmovable, or movable again, where it lies.
fn set_mobility(table: &mut FrameTable, owner: Owner, order: Order, mobility: Mobility) {
    let (mut at, end) = (owner, owner + order.frames() as Owner);
    while at < end {
        let frame = table.block_of(at).expect("what is pinned lies somewhere");
        let order = table.release(frame);
        table.allocate(frame, order, mobility, at);
        at += order.frames() as Owner;
    }
}

/// What a policy with a daemon of its own learns of the machine around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// Nanoseconds since the start.
    pub now_ns: u64,
    /// Frames of page cache that reclaim can free.
    pub cache: u64,
}

/// A number that a policy kept while it worked, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// A short name in snake case.
    pub name: &'static str,
    /// Its meaning, in one sentence.
    pub meaning: &'static str,
    /// The count.
    pub value: u64,
}

/// A system's way to place memory.
///
/// # Life
/// Memory is handed over with [`seed`](Placement::seed), then [`start`](Placement::start) is
/// called once, then [`allocate`](Placement::allocate) and [`free`](Placement::free) in any order,
/// with [`maintain`](Placement::maintain) every now and then.
///
/// A placement may migrate movable blocks whenever it is called, whole or in pieces. Their owners
/// keep them: who allocated a block asks the table where its parts are
/// ([`FrameTable::block_of`]), and never remembers a frame.
pub trait Placement {
    /// Sets the type that a pageblock has initially. Policies without types ignore it.
    fn mark_pageblock(&mut self, _pageblock: usize, _migrate_type: MigrateType) {}

    /// Hands over a free block, which the table counts as free and which is on no list. It lies
    /// within one zone and is aligned to its order, which is at most [`Order::LARGEST_FREE`].
    fn seed(&mut self, table: &mut FrameTable, frame: Frame, order: Order);

    /// Says that all memory has been handed over.
    fn start(&mut self, _table: &mut FrameTable) {}

    /// Hands over all memory of a machine that has just booted, which the table knows nothing of
    /// yet: lowest first, in the largest blocks that fit.
    fn boot(&mut self, table: &mut FrameTable, layout: &Layout) {
        for zone in layout.zones().iter().filter(|zone| !zone.interleaved) {
            let mut at = zone.start;
            while at < zone.end {
                let order = at.largest_block(zone.end, Order::LARGEST_FREE);
                table.add_memory(at, order);
                self.seed(table, at, order);
                at = at.offset(order.frames());
            }
        }
        self.start(table);
    }

    /// Allocates a block for `owner` and the owners after it; `None` if nothing will do.
    fn allocate(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame>;

    /// Allocates single frames as [`allocate`](Placement::allocate) does, one after another, to
    /// `owner` and the owners after it, until one fails or there are `count`; returns how many there
    /// were. The order in `request` is that of a single frame.
    ///
    /// Which frames come, in which order, and what is left are as if they had come one by one, except
    /// under policies whose kernel has an interface for batches.
    fn allocate_singles(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
        count: u32,
    ) -> u32 {
        one_by_one(self, table, request, owner, count)
    }

    /// Allocates to `owners`, as far as it goes, the single frames that would come next if nothing
    /// had to be decided for any of them, such as those that a per-CPU list holds; returns how many
    /// there were. A policy that decides for each frame separately has none.
    fn allocate_listed(
        &mut self,
        _table: &mut FrameTable,
        _request: &Request,
        _owners: Range<Owner>,
    ) -> u32 {
        0
    }

    /// Whether the policy wants to [`plan`](Placement::plan).
    fn plans(&self) -> bool {
        false
    }

    /// Announces the next calls of [`allocate`](Placement::allocate), in their order, to a policy
    /// that decides for many requests at once. Frees may come in between.
    fn plan(&mut self, _table: &mut FrameTable, _requests: &[Request]) {}

    /// Frees the allocated block that starts at `frame`, on `cpu`.
    fn free(&mut self, table: &mut FrameTable, frame: Frame, cpu: u16);

    /// Frees the single frames of `owners` on `cpu`, one after another. What is left is as if each
    /// had been [freed](Placement::free) by itself.
    ///
    /// # Panics
    /// If one of the owners holds nothing.
    fn free_singles(&mut self, table: &mut FrameTable, owners: Range<Owner>, cpu: u16) {
        for owner in owners {
            let frame = table.block_of(owner).expect("what is freed lies somewhere");
            self.free(table, frame, cpu);
        }
    }

    /// The work of periodic reclaim's wake-up, off the allocation path. Policies that do nothing
    /// then ignore it.
    fn maintain(&mut self, _table: &mut FrameTable) {}

    /// Tells a policy with a daemon of its own what it cannot see. Called before
    /// [`maintain`](Placement::maintain) by worlds that know.
    fn observe(&mut self, _around: Surroundings) {}

    /// Frames that reclaim is to free beyond the watermarks, because fallbacks have boosted them; the
    /// boost ends with the call (`balance_pgdat`).
    fn take_boost(&mut self) -> u64 {
        0
    }

    /// Frames on free lists that requests of this mobility can come from, where a policy keeps some
    /// of what is free from them; reclaim has to watch these. `None` where all that is free will do.
    fn free_for(&self, _mobility: Mobility) -> Option<u64> {
        None
    }

    /// Pins the block of `owner` and the owners after it, in however many pieces it is: its pages
    /// cannot be moved from now on. Returns whether all of it could be pinned. Most systems let
    /// pages stay where they are, wherever that is.
    ///
    /// # Panics
    /// If the owners hold nothing.
    fn pin_block(&mut self, table: &mut FrameTable, owner: Owner, order: Order) -> bool {
        set_mobility(table, owner, order, Mobility::Unmovable);
        true
    }

    /// Takes the pin off the block of `owner` and the owners after it, which is movable again from
    /// now on, at any position and in however many pieces. Systems that moved it before it was
    /// pinned may move it back, or leave it counted as unmovable until it is freed.
    ///
    /// # Panics
    /// If the owners hold nothing.
    fn unpin_block(&mut self, table: &mut FrameTable, owner: Owner, order: Order) {
        set_mobility(table, owner, order, Mobility::Movable);
    }

    /// Adds the free blocks by order and migrate type of one zone of the layout, as
    /// `/proc/pagetypeinfo` shows them: frames on per-CPU lists are not among them. Policies
    /// without types report all of it under one.
    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)>;

    /// Pageblocks of one zone by the type they are marked with, where the policy has types.
    fn pageblocks(&self, _zone: usize) -> Option<[u64; MigrateType::ALL.len()]> {
        None
    }

    /// Frames on the free lists of one zone of the layout, those on per-CPU lists not counted
    /// (`NR_FREE_PAGES`).
    fn free_frames(&self, zone: usize) -> u64;

    /// Free frames that per-CPU lists hold.
    fn cached_frames(&self) -> u64;

    /// The policy's counters.
    fn counters(&self) -> Vec<Counter>;

    /// Compares everything the policy knows with the table.
    ///
    /// # Panics
    /// If they contradict each other.
    fn validate(&self, table: &FrameTable);
}
