//! `linux`: the page allocator of Linux 6.1, down to the order within its free lists.
//!
//! What stands here follows `mm/page_alloc.c` of 6.1.192, function by function: the buddy system
//! with a list for each order and migrate type (`buddy`), fallback to foreign types and the
//! claiming of their pageblocks (`fallback`), the reserve for atomic requests
//! (`highatomic`), per-CPU lists (`pcp`), watermarks (`watermark`) and the passes
//! over the zonelist (this file and `slow_path`).
//!
//! **Reclaim and compaction are not here.** Where the kernel would have freed memory first, a
//! request continues to the last frame ([`Depth::All`]) and is counted; a boosted watermark, which
//! kswapd would bring down again, ends when kswapd would be woken (see [`Config::keep_boost`]). A
//! machine that reclaims drives the same allocator one attempt at a time
//! ([`Stepwise`](super::stepwise::Stepwise)). Page isolation is simulated for memory blocks that
//! change zones (`hotplug`); blocks found isolated are left alone.

mod buddy;
mod claim;
mod compact;
mod config;
mod counts;
mod fallback;
mod flags;
mod follow;
mod highatomic;
mod hotplug;
mod pageblocks;
mod pageset;
mod pcp;
mod slow_path;
mod stepwise;
mod taken_from;
mod tuning;
pub mod version;
mod watermark;
mod zone;

use alloc::vec::Vec;
use core::ops::Range;

pub use config::Config;
pub use fallback::Fallback;
pub use pageset::{Pageset, Tuning};
pub use tuning::BATCH_SCALE_MAX;
pub use version::{Evidence, Modeled, RULES, Rule, VALIDATED};

use super::zonelist::{Depth, Zonelists};
use super::{Counter, Placement, Request, set_mobility};
use crate::free_area::End;
use crate::layout::{Frame, Layout};
use crate::table::{FrameTable, Owner};
use crate::{MigrateType, Mobility, Order};
use counts::Counts;
use flags::AllocFlags;
use hotplug::Hotplug;
use pageblocks::Pageblocks;
use zone::LinuxZone;

/// The page allocator of Linux 6.1.
#[derive(Clone, Debug)]
pub struct Linux {
    zones: Vec<LinuxZone>,
    zonelists: Zonelists,
    blocks: Pageblocks,
    config: Config,
    counts: Counts,
    several_nodes: bool,
    /// In defrag mode: reclaim and compaction have failed, so that foreign pageblocks may be broken
    /// up.
    may_mix: bool,
    /// Where memory blocks can change zones.
    hotplug: Option<Hotplug>,
}

/// The context of every step of an allocation or a free, besides its zone.
struct Context<'a> {
    table: &'a mut FrameTable,
    blocks: &'a mut Pageblocks,
    config: &'a Config,
    counts: &'a mut Counts,
}

impl Linux {
    /// An allocator for `layout` that has no memory yet and whose pageblocks are all movable.
    pub fn new(layout: &Layout, config: Config) -> Linux {
        let several_nodes =
            layout.zones().windows(2).any(|pair| pair[0].span.node != pair[1].span.node);
        Linux {
            zones: layout
                .zones()
                .iter()
                .map(|zone| LinuxZone::new(layout, zone, several_nodes, &config))
                .collect(),
            zonelists: Zonelists::new(layout),
            blocks: Pageblocks::new(layout, config.grouping),
            config,
            counts: Counts::default(),
            several_nodes,
            may_mix: false,
            hotplug: Hotplug::new(layout),
        }
    }

    /// Sets the limits of the per-CPU lists of one zone of the layout, which
    /// [`Pageset::of_zone`] computed at first. `/proc/zoneinfo` shows them (`pagesets`).
    pub fn set_pageset(&mut self, zone: usize, pageset: Pageset) {
        let zone = &mut self.zones[zone];
        if zone.pageset == Pageset::BOOT {
            // Those of boot are given up (`setup_zone_pageset`).
            zone.per_cpu.iter_mut().for_each(|pages| pages.tuning = Tuning::default());
        }
        zone.pageset = pageset;
    }

    /// The limits of the per-CPU lists of one zone of the layout.
    pub fn pageset(&self, zone: usize) -> Pageset {
        self.zones[zone].pageset
    }

    /// Says whether a zone is being reclaimed, which keeps its per-CPU lists short
    /// (`ZONE_RECLAIM_ACTIVE`).
    pub fn set_reclaim_active(&mut self, zone: usize, active: bool) {
        self.zones[zone].reclaim_active = active;
    }

    /// Takes a zone's watermark boost back, as kswapd does once it has reclaimed enough.
    pub fn end_boost(&mut self, zone: usize) {
        self.zones[zone].watermark_boost = 0;
    }

    /// Frames by which a zone's watermarks are boosted.
    pub fn boost(&self, zone: usize) -> u64 {
        self.zones[zone].watermark_boost
    }

    /// The type of the pageblock that contains `frame`.
    pub fn pageblock_type(&self, frame: Frame) -> MigrateType {
        self.blocks.get(frame)
    }

    /// The blocks on one free list of a zone of the layout, in the order in which they would be
    /// allocated.
    pub fn free_list<'a>(
        &self,
        table: &'a FrameTable,
        zone: usize,
        order: Order,
        migrate_type: MigrateType,
    ) -> impl Iterator<Item = Frame> + 'a {
        self.zones[zone].area.list(order, migrate_type.index()).iter(table)
    }

    /// Gives everything on the per-CPU lists of all CPUs back (`drain_all_pages`).
    pub fn drain_all(&mut self, table: &mut FrameTable) {
        for cpu in 0..self.zones.iter().map(LinuxZone::cpus).max().unwrap_or(0) {
            self.drain_cpu(table, cpu);
        }
    }

    /// Gives everything on the lists of one CPU back, zone by zone (`drain_pages`).
    pub fn drain_cpu(&mut self, table: &mut FrameTable, cpu: u16) {
        let mut context = Context {
            table,
            blocks: &mut self.blocks,
            config: &self.config,
            counts: &mut self.counts,
        };
        for zone in &mut self.zones {
            zone.drain(&mut context, cpu);
        }
    }

    /// Frees an allocated block straight to the free lists, past the per-CPU list. The kernel does
    /// so where it returns the tail of an exact allocation (to the list's end: `make_alloc_exact`)
    /// and where an interrupt finds the per-CPU list locked (`end` is `None`: the usual rule).
    pub fn free_to_buddy(&mut self, table: &mut FrameTable, frame: Frame, end: Option<End>) {
        let order = table.release(frame);
        let (zone, migrate_type) = (self.zone_of(frame), self.blocks.get(frame));
        let (zone, mut context) = self.at(table, zone);
        zone.free_one(&mut context, frame, order, migrate_type, end);
    }

    #[inline]
    fn zone_of(&self, frame: Frame) -> usize {
        self.blocks.zone_of(frame, |zone| self.zones[zone].zone.contains(frame))
    }

    #[inline]
    fn at<'a>(
        &'a mut self,
        table: &'a mut FrameTable,
        zone: usize,
    ) -> (&'a mut LinuxZone, Context<'a>) {
        let context = Context {
            table,
            blocks: &mut self.blocks,
            config: &self.config,
            counts: &mut self.counts,
        };
        (&mut self.zones[zone], context)
    }

    /// Goes through the zones of a request (`get_page_from_freelist`). The first attempt spares
    /// foreign pageblocks, if the preferred zone calls for it, and then breaks them up
    /// (`alloc_flags_nofragment`).
    #[inline]
    fn get_page(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        migrate_type: MigrateType,
        depth: Depth,
        mut flags: AllocFlags,
    ) -> Option<Frame> {
        let zonelist = self.zonelists.get(request.node, request.highest_zone);
        let preferred = *zonelist.first()?;
        let defrag_mode = self.config.defrag_mode && depth != Depth::All;
        let spares = match defrag_mode {
            true => !self.may_mix,
            false => depth == Depth::Low && self.zones[preferred].nofragment,
        };
        if spares {
            flags = flags.with(AllocFlags::NOFRAGMENT);
        }
        let mut context = Context {
            table,
            blocks: &mut self.blocks,
            config: &self.config,
            counts: &mut self.counts,
        };
        loop {
            for &index in zonelist {
                if self.several_nodes
                    && !defrag_mode
                    && flags.has(AllocFlags::NOFRAGMENT)
                    && self.zones[index].zone.span.node != self.zones[preferred].zone.span.node
                {
                    // Nearness counts more than whole blocks: over again, with fallbacks.
                    break;
                }
                let zone = &mut self.zones[index];
                let (order, highest) = (request.order, request.highest_zone);
                if context.config.adaptive_lists {
                    zone.check_high(order, highest, flags);
                }
                if depth != Depth::All && !zone.watermark_fast(order, highest, depth, flags) {
                    continue;
                }
                let taken = zone.take(&mut context, request, migrate_type, flags, depth);
                if let Some(frame) = taken {
                    if flags.has(AllocFlags::HIGHATOMIC) && !context.config.buddy_reserve {
                        zone.reserve_highatomic(&mut context, frame, request.order);
                    }
                    return Some(frame);
                }
            }
            if defrag_mode || !flags.has(AllocFlags::NOFRAGMENT) {
                return None;
            }
            flags = flags.without(AllocFlags::NOFRAGMENT);
            context.counts.nofragment_retries += 1;
        }
    }

    /// The type whose lists serve a request (`gfp_migratetype`).
    fn type_of(&self, request: &Request) -> MigrateType {
        match request.migrate_type {
            _ if !self.config.grouping => MigrateType::Unmovable,
            MigrateType::Cma | MigrateType::Isolate => MigrateType::Movable,
            MigrateType::HighAtomic => MigrateType::Unmovable,
            usual => usual,
        }
    }
}

impl Placement for Linux {
    /// To be called before the block's memory is handed over: what is on a list stays there.
    fn mark_pageblock(&mut self, pageblock: usize, migrate_type: MigrateType) {
        let frame = Frame((pageblock << Order::HUGE.get()) as u32);
        if let Some(zone) = self.blocks.mark(frame, migrate_type) {
            self.zones[zone].found(migrate_type);
        }
    }

    /// Puts the block at the end of its list, as memory that boot hands over
    /// (`__free_pages_core`). A block over pageblocks of different types comes in parts, which
    /// merge if they may.
    fn seed(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        if order > Order::HUGE {
            let half = Order::new(order.get() - 1).expect("a smaller order");
            let upper = frame.offset(half.frames());
            if self.blocks.get(frame) != self.blocks.get(upper) {
                self.seed(table, frame, half);
                return self.seed(table, upper, half);
            }
        }
        let (zone, migrate_type) = (self.zone_of(frame), self.blocks.get(frame));
        let (zone, mut context) = self.at(table, zone);
        zone.free_one(&mut context, frame, order, migrate_type, Some(End::Tail));
    }

    fn start(&mut self, table: &mut FrameTable) {
        self.blocks.see(table);
    }

    #[inline]
    fn allocate(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        if request.order > Order::LARGEST_FREE {
            self.counts.failed += 1;
            return None;
        }
        let migrate_type = self.type_of(request);
        let flags = AllocFlags::fast(request, migrate_type, &self.config);
        let frame = self
            .get_page(table, request, migrate_type, Depth::Low, flags)
            .or_else(|| self.slow_path(table, request, migrate_type))?;
        table.allocate(frame, request.order, request.mobility, owner);
        Some(frame)
    }

    /// What the list of the request's CPU holds. Taking from it changes no watermark, so that all
    /// of these would have come from there.
    fn allocate_listed(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owners: Range<Owner>,
    ) -> u32 {
        if !self.config.per_cpu_lists || self.several_nodes {
            return 0;
        }
        let migrate_type = self.type_of(request);
        let flags = AllocFlags::fast(request, migrate_type, &self.config);
        let highest = request.highest_zone;
        let allows = |&&zone: &&usize| {
            self.zones[zone].watermark_fast(Order::BASE, highest, Depth::Low, flags)
        };
        let zonelist = self.zonelists.get(request.node, highest);
        let Some(&zone) = zonelist.iter().find(allows) else { return 0 };
        if self.config.adaptive_lists {
            self.zones[zone].check_high(Order::BASE, highest, flags);
        }
        self.zones[zone].take_listed(table, migrate_type, request.cpu, owners, request.mobility)
    }

    fn free_singles(&mut self, table: &mut FrameTable, mut owners: Range<Owner>, cpu: u16) {
        while !owners.is_empty() {
            let run = table.run_of(owners.clone());
            owners.start += run.frames();
            let Range { start, end } = run.numbers();
            let (zone, migrate_type) = (self.zone_of(Frame(start)), self.blocks.get(Frame(start)));
            let through_cpu = self.config.per_cpu_lists && migrate_type != MigrateType::Isolate;
            let (zone, mut context) = self.at(table, zone);
            // Two zones may share a pageblock.
            if through_cpu && zone.zone.contains(Frame(end - 1)) {
                zone.free_run_through_cpu(&mut context, run, migrate_type, cpu);
            } else {
                run.iter().for_each(|frame| self.free(table, frame, cpu));
            }
        }
    }

    #[inline]
    fn free(&mut self, table: &mut FrameTable, frame: Frame, cpu: u16) {
        let order = table.release(frame);
        let zone = self.zone_of(frame);
        let (zone, mut context) = self.at(table, zone);
        if order <= Order::LARGEST_FREE {
            zone.free(&mut context, frame, order, cpu);
            return;
        }
        // Not from these lists; the kernel gives such memory back frame by frame.
        for inside in 0..order.frames() {
            zone.free(&mut context, frame.offset(inside), Order::BASE, cpu);
        }
    }

    fn pin_block(&mut self, table: &mut FrameTable, owner: Owner, order: Order) -> bool {
        match self.hotplug {
            Some(_) => self.pin_outside(table, owner, order),
            None => {
                set_mobility(table, owner, order, Mobility::Unmovable);
                true
            }
        }
    }

    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        let area = &self.zones[zone].area;
        let count = |order, migrate_type: MigrateType| {
            u64::from(area.list(order, migrate_type.index()).len())
        };
        MigrateType::ALL
            .map(|migrate_type| {
                let orders = Order::up_to(area.largest());
                (migrate_type, orders.map(|order| count(order, migrate_type)).collect())
            })
            .into()
    }

    fn pageblocks(&self, zone: usize) -> Option<[u64; MigrateType::ALL.len()]> {
        let owned = |block| self.hotplug.is_none() || self.has_pageblock(zone, block);
        Some(self.blocks.count(&self.zones[zone].zone, owned))
    }

    fn free_frames(&self, zone: usize) -> u64 {
        self.zones[zone].free_frames()
    }

    fn cached_frames(&self) -> u64 {
        self.zones.iter().map(LinuxZone::cached_frames).sum()
    }

    fn counters(&self) -> Vec<Counter> {
        self.counts.list()
    }

    fn validate(&self, table: &FrameTable) {
        table.validate();
        for (at, zone) in self.zones.iter().enumerate() {
            zone.validate(table, &self.blocks, self.config.hygiene);
            if self.hotplug.is_some() {
                zone.for_each_free(table, |frame| assert_eq!(self.zone_of(frame), at, "{frame:?}"));
            }
        }
        let free: u64 = table.blocks().iter().map(|block| u64::from(block.free)).sum();
        let listed: u64 = self.zones.iter().map(|zone| zone.area.free_frames()).sum();
        assert_eq!(free, listed + self.cached_frames(), "free frames on no list or on two");
    }
}
