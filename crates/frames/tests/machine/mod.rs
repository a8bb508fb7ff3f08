//! A small machine on which the rules of Linux can be worked through by hand.

// Each test program uses its own part of this module.
#![allow(dead_code)]

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::linux::{Config, Linux, Pageset};
use prairie_frames::placement::{Placement, Request, gfp};
use prairie_frames::table::{Owner, State, mobility_of};
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Order, Pfn, ZoneKind};

/// No per-CPU lists, so that every allocation shows what the free lists do.
pub const BARE: Config = Config { per_cpu_lists: false, ..Config::LINUX_6_1 };

pub struct Machine {
    pub table: FrameTable,
    pub linux: Linux,
    layout: Layout,
    next_owner: Owner,
}

pub fn order(value: u8) -> Order {
    Order::new(value).unwrap()
}

pub fn zone(kind: ZoneKind, start: u64, frames: u64) -> ZoneSpan {
    ZoneSpan {
        node: 0,
        kind,
        start: Pfn(start),
        spanned: frames,
        managed: frames,
        watermarks: Watermarks::default(),
        lowmem_reserve: [0; 6],
    }
}

/// A request for a single movable page.
pub fn movable_single() -> Request {
    let migrate_type = MigrateType::Movable;
    Request { migrate_type, mobility: mobility_of(migrate_type), ..Request::default() }
}

impl Machine {
    /// One Normal zone of `blocks` pageblocks from frame 0 on, without watermarks.
    pub fn new(blocks: u64, config: Config) -> Machine {
        Machine::with_zones(vec![zone(ZoneKind::Normal, 0, blocks * 512)], config, &[])
    }

    /// Zones of whole pageblocks, all free, of which the first have the types given.
    pub fn with_zones(zones: Vec<ZoneSpan>, config: Config, types: &[MigrateType]) -> Machine {
        Machine::of_layout(Layout::new(zones).unwrap(), config, types, Order::HUGE)
    }

    /// Zones of blocks of this order, all free. The first pageblocks have the types given.
    pub fn of_layout(
        layout: Layout,
        config: Config,
        types: &[MigrateType],
        order: Order,
    ) -> Machine {
        let mut table = FrameTable::new(&layout);
        let mut linux = Linux::new(&layout, config);
        for (block, &migrate_type) in types.iter().enumerate() {
            linux.mark_pageblock(block, migrate_type);
        }
        for zone in layout.zones() {
            for start in (zone.start.0..zone.end.0).step_by(order.frames() as usize) {
                table.add_memory(Frame(start), order);
                linux.seed(&mut table, Frame(start), order);
            }
        }
        linux.start(&mut table);
        Machine { table, linux, layout, next_owner: 0 }
    }

    pub fn layout(&self) -> Layout {
        self.layout.clone()
    }

    pub fn request(&mut self, request: Request) -> Option<u32> {
        let owner = self.next_owner.next_multiple_of(request.order.frames() as u32);
        let frame = self.linux.allocate(&mut self.table, &request, owner)?;
        self.next_owner = owner + request.order.frames() as u32;
        Some(frame.0)
    }

    pub fn allocate(&mut self, of_order: u8, migrate_type: MigrateType) -> u32 {
        let mobility = mobility_of(migrate_type);
        let order = order(of_order);
        let request = Request { order, migrate_type, mobility, ..Request::default() };
        self.request(request).expect("memory enough")
    }

    pub fn atomic(&mut self, of_order: u8) -> Option<u32> {
        let gfp_flags = gfp::ATOMIC_REQUEST;
        self.request(Request { order: order(of_order), gfp_flags, ..Request::default() })
    }

    /// Allocates single frames until the given ones have been had; they must come in this order.
    pub fn fill(&mut self, frames: std::ops::Range<u32>, migrate_type: MigrateType) {
        for frame in frames {
            assert_eq!(self.allocate(0, migrate_type), frame);
        }
    }

    pub fn free(&mut self, frame: u32) {
        self.linux.free(&mut self.table, Frame(frame), 0);
    }

    pub fn free_all(&mut self, frames: impl IntoIterator<Item = u32>) {
        frames.into_iter().for_each(|frame| self.free(frame));
    }

    /// Frees past the per-CPU lists.
    pub fn free_to_buddy(&mut self, frames: impl IntoIterator<Item = u32>) {
        for frame in frames {
            self.linux.free_to_buddy(&mut self.table, Frame(frame), None);
        }
    }

    /// A free list of the first zone, next to be allocated first.
    pub fn list(&self, of_order: u8, migrate_type: MigrateType) -> Vec<u32> {
        self.linux
            .free_list(&self.table, 0, order(of_order), migrate_type)
            .map(|frame| frame.0)
            .collect()
    }

    pub fn type_of(&self, frame: u32) -> MigrateType {
        self.linux.pageblock_type(Frame(frame))
    }

    pub fn is_cached(&self, frame: u32) -> bool {
        self.table.state(Frame(frame)) == State::Cached
    }

    pub fn counter(&self, name: &str) -> u64 {
        let counters = self.linux.counters();
        counters.iter().find(|counter| counter.name == name).expect("a counter").value
    }

    pub fn set_pageset(&mut self, batch: u32, high: u32) {
        self.linux.set_pageset(0, Pageset::fixed(batch, high));
    }
}

impl Drop for Machine {
    /// Whatever a test did, the machine must be sound at its end.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.linux.validate(&self.table);
        }
    }
}
