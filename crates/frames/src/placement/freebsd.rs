//! `freebsd`: the physical memory allocator of FreeBSD (`sys/vm/vm_phys.c`, `vm_page.c`).
//!
//! A buddy allocator with orders 0 to 12, so that its largest block is 16 MiB. What differs from
//! Linux's:
//!
//! - **Two pools** of free lists, for pages of objects (`VM_FREEPOOL_DEFAULT`) and for memory that
//!   the kernel uses through its direct map (`VM_FREEPOOL_DIRECT`). A request whose pool is empty
//!   takes the largest block of the other, and the whole block changes pools; a freed block takes
//!   along to its pool the buddies that it merges with. It is a best effort: pools mix freely.
//! - **First in, first out**: freed blocks and remainders go to the end of their list, which leaves
//!   a freed block the longest time to merge.
//! - **Batches** ([`FreeBsd::alloc_batch`]): many single frames at once, as contiguous as can be.
//! - **Reservations** ([`FreeBsd::reservation_at`]): where a request says which page of which object
//!   it is for ([`Request::page`]), the object's first page sets a superpage aside for its
//!   neighbors; under pressure the reservation that changed least recently is broken.
//! - **Pages that are never freed** come one after the other from a superpage of their own
//!   ([`FreeBsd::alloc_nofree`]).
//! - **Regions worth compacting** are known at any time, by hooks where blocks enter and leave the
//!   free lists ([`FreeBsd::compactd`]).
//!
//! Zones of the layout stand for the free lists by address (`VM_FREELIST_DEFAULT`, `_DMA32`,
//! `_LOWMEM`), highest first.

mod batch;
mod counts;
mod daemon;
mod domain;
mod nofree;
mod reserv;

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use self::counts::Counts;
pub use self::daemon::CompactdRun;
use self::domain::{Domain, FreeLists};
use self::reserv::Reservations;
pub use self::reserv::{Reservation, SetAside};
use super::reached::reach;
use super::stepwise::Stepwise;
use super::zonelist::{Depth, Zonelists};
use super::{Counter, ObjectPage, Placement, Request, one_by_one};
use crate::free_area::ORDERS;
use crate::kstack::{Indexing, Stacks};
use crate::layout::{Frame, Layout};
use crate::table::{FrameTable, Owner, State};
use crate::{MigrateType, Order, ZoneKind};

/// 16 MiB (`VM_NFREEORDER` is 13).
pub const LARGEST: Order = Order::new(12).unwrap();

/// A pool of free lists (`enum vm_freepool`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Pages of objects.
    Default = 0,
    /// Memory that the kernel reaches through its direct map.
    Direct = 1,
}

impl Pool {
    /// Both.
    pub const ALL: [Pool; 2] = [Pool::Default, Pool::Direct];

    /// The pool of a request: what can move belongs to an object.
    pub const fn of(migrate_type: MigrateType) -> Pool {
        match migrate_type {
            MigrateType::Movable | MigrateType::Cma => Pool::Default,
            _ => Pool::Direct,
        }
    }

    const fn other(self) -> Pool {
        match self {
            Pool::Default => Pool::Direct,
            Pool::Direct => Pool::Default,
        }
    }
}

/// The tunable part of [`FreeBsd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Frames that go to or from a per-CPU cache at once; 0 for no caches. FreeBSD's caches
    /// (`vm_pgcache`) size their buckets by themselves; 64 is in their range.
    pub cache_batch: u32,
    /// Whether objects' pages come from reservations (`VM_NRESERVLEVEL` above 0).
    pub reservations: bool,
    /// Whether single frames that are never freed come from superpages of their own.
    pub nofree: bool,
    /// Whether many single frames at once are cut from as few blocks as possible.
    pub batch: bool,
    /// How the pages of kernel stacks are numbered in their object.
    pub stacks: Indexing,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            cache_batch: 64,
            reservations: true,
            nofree: true,
            batch: true,
            stacks: Indexing::Packed,
        }
    }
}

/// The physical memory allocator of FreeBSD.
#[derive(Clone, Debug)]
pub struct FreeBsd {
    lists: Vec<FreeLists>,
    zonelists: Zonelists,
    domains: Vec<Domain>,
    reservations: Reservations,
    /// Whether compaction leaves pages in reservations where they are.
    spares_reservations: bool,
    config: Config,
    counts: Counts,
}

impl FreeBsd {
    /// An allocator for `layout` that has no memory yet.
    pub fn new(layout: &Layout, config: Config) -> FreeBsd {
        let mut nodes: Vec<u16> = layout.zones().iter().map(|zone| zone.span.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let domain_of = |node| nodes.iter().position(|&n| n == node).expect("a listed node");
        let lists = layout.zones().iter();
        FreeBsd {
            lists: lists.map(|zone| FreeLists::new(zone, domain_of(zone.span.node))).collect(),
            zonelists: Zonelists::new(layout),
            domains: nodes.iter().map(|&node| Domain::new(layout, node)).collect(),
            reservations: Reservations::default(),
            spares_reservations: false,
            config,
            counts: Counts::default(),
        }
    }

    /// The blocks on one free list of a zone, in the order in which they would be allocated.
    pub fn free_list<'a>(
        &self,
        table: &'a FrameTable,
        zone: usize,
        order: Order,
        pool: Pool,
    ) -> impl Iterator<Item = Frame> + 'a {
        self.lists[zone].area.list(order, pool as usize).iter(table)
    }

    /// Bytes that the policy takes beside the frame table.
    pub fn bytes(&self) -> usize {
        let regions: usize = self.domains.iter().map(|domain| domain.regions.bytes()).sum();
        regions + self.reservations.bytes()
    }

    fn zone_of(&self, frame: Frame) -> usize {
        let zone = self.lists.iter().position(|lists| lists.zone.contains(frame));
        zone.expect("a frame outside every zone")
    }

    /// The zone's free lists, with the domain that they belong to.
    fn at(&mut self, zone: usize) -> (&mut FreeLists, &mut Domain) {
        let lists = &mut self.lists[zone];
        let domain = &mut self.domains[lists.domain];
        (lists, domain)
    }

    /// Whether a zone may give a block: its domain keeps a reserve, the layout's watermarks.
    fn allows(&self, zone: usize, order: Order, depth: Depth) -> bool {
        matches!(depth, Depth::All) || u64::from(self.room(zone, depth)) >= order.frames()
    }

    /// Frames that a zone may give before it is down to its reserve.
    fn room(&self, zone: usize, depth: Depth) -> u32 {
        let lists = &self.lists[zone];
        let mark = match depth {
            Depth::Low => lists.zone.span.watermarks.low,
            Depth::Min => lists.zone.span.watermarks.min,
            Depth::All => return u32::MAX,
        };
        let free = lists.area.free_frames() + lists.set_aside;
        u32::try_from(free.saturating_sub(mark)).unwrap_or(u32::MAX)
    }

    /// Where the zones of the domain end that begin at position `at` of the request's zonelist.
    fn end_of_domain(&self, request: &Request, at: usize) -> usize {
        let zones = self.zonelists.get(request.node, request.highest_zone);
        let domain = self.lists[zones[at]].domain;
        let more = zones[at..].iter().take_while(|&&zone| self.lists[zone].domain == domain);
        at + more.count()
    }

    /// A block of one domain, identified by the positions of its zones in the request's zonelist: from a
    /// reservation, from the lists, or from what a broken reservation gives
    /// (`vm_page_alloc_domain_after`).
    fn take_in_domain(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        zones: Range<usize>,
        depth: Depth,
    ) -> Option<Frame> {
        if let Some(frame) = self.take_reserved(table, request, zones.clone(), depth) {
            return Some(frame);
        }
        loop {
            for at in zones.clone() {
                let zone = self.zonelists.get(request.node, request.highest_zone)[at];
                if self.allows(zone, request.order, depth)
                    && let Some(frame) = self.take(table, zone, request)
                {
                    return Some(frame);
                }
            }
            if !self.break_one(table, zones.clone(), request, depth) {
                return None;
            }
        }
    }

    /// A block from wherever a request may look, watermarks aside.
    fn take_anywhere(&mut self, table: &mut FrameTable, request: &Request) -> Option<Frame> {
        let zones = self.zonelists.get(request.node, request.highest_zone).len();
        let mut at = 0;
        while at < zones {
            let of_domain = at..self.end_of_domain(request, at);
            at = of_domain.end;
            let frame = self.take_in_domain(table, request, of_domain, Depth::All);
            if frame.is_some() {
                return frame;
            }
        }
        None
    }

    /// The request with a page of a kernel stack numbered as this kernel numbers it.
    fn numbered(&self, request: &Request) -> Request {
        let index = |page: ObjectPage| match page.object {
            ObjectPage::KERNEL_STACKS => {
                let index = Stacks::AMD64.index(page.index, self.config.stacks)?;
                Some(ObjectPage { index, ..page })
            }
            _ => Some(page),
        };
        Request { page: request.page.and_then(index), ..*request }
    }

    /// A block of one zone, a single frame through the cache of `cpu`.
    fn take(&mut self, table: &mut FrameTable, zone: usize, request: &Request) -> Option<Frame> {
        let (batch, pool) = (self.config.cache_batch, Pool::of(request.migrate_type));
        let (lists, domain) = self.at(zone);
        if request.order == Order::BASE && batch > 0 {
            return lists.take_cached(table, domain, pool, request.cpu, batch);
        }
        lists.take(table, domain, request.order, pool)
    }
}

impl Placement for FreeBsd {
    fn seed(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        let zone = self.zone_of(frame);
        let (lists, domain) = self.at(zone);
        lists.give(table, domain, frame, order, Pool::Default);
    }

    fn allocate(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        reach(self, table, request, owner, |freebsd| &mut freebsd.counts.reached)
    }

    fn allocate_singles(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
        count: u32,
    ) -> u32 {
        if !self.config.batch || request.page.is_some() || count == 1 {
            return one_by_one(self, table, request, owner, count);
        }
        self.alloc_batch(table, request, owner, count, &mut Vec::new())
    }

    /// Frees a page to the pool that it was last in, which follows from its mobility.
    fn free(&mut self, table: &mut FrameTable, frame: Frame, cpu: u16) {
        let pool = match table.mobility(frame) {
            crate::Mobility::Movable => Pool::Default,
            _ => Pool::Direct,
        };
        let owner = table.owner(frame);
        let order = table.release(frame);
        if order == Order::BASE && self.leave_object(table, frame, owner) {
            return;
        }
        let (zone, batch) = (self.zone_of(frame), self.config.cache_batch);
        let (lists, domain) = self.at(zone);
        if order == Order::BASE && batch > 0 {
            lists.give_cached(table, domain, frame, pool, cpu, batch);
        } else {
            lists.give(table, domain, frame, order, pool);
        }
    }

    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        let area = &self.lists[zone].area;
        let of = |pool: Pool| {
            let blocks = |order| u64::from(area.list(order, pool as usize).len());
            Order::up_to(LARGEST).map(blocks).collect()
        };
        vec![(MigrateType::Movable, of(Pool::Default)), (MigrateType::Unmovable, of(Pool::Direct))]
    }

    fn free_frames(&self, zone: usize) -> u64 {
        self.lists[zone].area.free_frames() + self.lists[zone].set_aside
    }

    fn cached_frames(&self) -> u64 {
        let caches: u64 = self.lists.iter().map(FreeLists::cached_frames).sum();
        let set_aside: u64 = self.lists.iter().map(|lists| lists.set_aside).sum();
        caches + set_aside + self.domains.iter().map(|domain| domain.nofree.left()).sum::<u64>()
    }

    fn counters(&self) -> Vec<Counter> {
        self.counts.list()
    }

    fn validate(&self, table: &FrameTable) {
        table.validate();
        for lists in &self.lists {
            lists.validate(table);
        }
        self.validate_regions(table);
        self.validate_reservations(table);
        let cached = |domain: &Domain| domain.nofree.frames().collect::<Vec<_>>();
        for frame in self.domains.iter().flat_map(cached) {
            assert!(
                matches!(table.state(frame), State::Cached | State::Inside),
                "{frame:?} is to be handed out and in use"
            );
        }
    }
}

impl Stepwise for FreeBsd {
    fn attempt(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
        depth: Depth,
    ) -> Option<Frame> {
        if request.order > LARGEST {
            return None;
        }
        if request.permanent && self.config.nofree && request.order == Order::BASE {
            return self.alloc_nofree(table, request, owner);
        }
        let request = &self.numbered(request);
        let zones = self.zonelists.get(request.node, request.highest_zone).len();
        let mut at = 0;
        while at < zones {
            let of_domain = at..self.end_of_domain(request, at);
            at = of_domain.end;
            if let Some(frame) = self.take_in_domain(table, request, of_domain, depth) {
                table.allocate(frame, request.order, request.mobility, owner);
                self.enter_object(request, owner);
                return Some(frame);
            }
        }
        None
    }

    fn attempt_singles(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owners: &[Owner],
        depth: Depth,
    ) -> u32 {
        if !self.config.batch || request.page.is_some() {
            return 0;
        }
        self.batch_to(table, request, owners, depth)
    }

    fn free_counts(&self, zone: usize) -> [u64; ORDERS] {
        self.lists[zone].area.counts()
    }

    fn watermark_ok(&self, zone: usize, order: Order, mark: u64, _highest: ZoneKind) -> bool {
        let FreeLists { area, set_aside, .. } = &self.lists[zone];
        let has_block = area.has_block(order) || (order == Order::BASE && *set_aside > 0);
        area.free_frames() + set_aside >= mark + order.frames() && has_block
    }

    fn drain(&mut self, table: &mut FrameTable) {
        for zone in 0..self.lists.len() {
            let (lists, domain) = self.at(zone);
            lists.drain(table, domain);
        }
    }

    fn take_block(&mut self, table: &mut FrameTable, frame: Frame) -> Order {
        let zone = self.zone_of(frame);
        let (lists, domain) = self.at(zone);
        lists.remove(table, domain, frame)
    }

    /// To the reservation that it was taken from, or to the pool of pages of objects, from which it
    /// was most likely taken.
    fn give_block(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        if order > Order::BASE || !self.depopulate(table, frame) {
            self.seed(table, frame, order);
        }
    }

    fn give_up(&mut self, table: &mut FrameTable, range: Range<Frame>) {
        self.break_range(table, range);
    }

    fn is_spared(&self, frame: Frame) -> bool {
        self.spares_reservations && self.reservations.at(frame).is_some()
    }
}
