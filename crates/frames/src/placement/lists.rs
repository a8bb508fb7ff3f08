//! `lists`: two free lists per order by reclaimability, after the 2006 paper's section 5.
//!
//! The buddy allocator of Linux 2.6.16 ([`buddy`](super::buddy)) with its free lists and its
//! per-CPU lists divided: those for easily reclaimed pages and those for all others (Figure 1).
//!
//! ```text
//! order      KernNoRclm                EasyRclm
//!   10       [ 1024 ] [ 1024 ]         [ 1024 ]
//!    .          |  a request whose own lists are empty takes the largest block of the
//!    .          +--------------------> other type; from the middle order on, it keeps
//!    0       [1] [1]                   the rest of it too
//! ```
//!
//! - A page is marked with the type that it is allocated as, a stolen one with the thief's, and
//!   goes back to the lists of its mark. So its buddy is likely to be of the same reclaimability.
//! - Types steal from each other in both directions, without limit: a kernel request of high order
//!   may push out easily reclaimed pages, and single kernel pages may leak into all of memory,
//!   which is how the strategy breaks down under load (section 8.2).
//!
//! Details that the paper leaves open follow the patches that it evaluates ("Light fragmentation
//! avoidance without usemap", November 2005): the largest block is stolen, and its rest changes
//! lists from half the number of orders on; every type has a limit of its own on its per-CPU list;
//! memory that boot hands over carries no mark and so begins on the kernel's lists.

mod marks;
mod reclaimability;
mod zone;

use alloc::vec::Vec;

use self::marks::Marks;
pub use self::reclaimability::{Division, Reclaimability};
use self::zone::ListsZone;
use super::reached::{Reached, reach};
use super::stepwise::Stepwise;
use super::zonelist::{Depth, Zonelists, allows, is_above};
use super::{Counter, Placement, Request};
use crate::free_area::ORDERS;
use crate::layout::{Frame, Layout};
use crate::table::{FrameTable, Owner, State};
use crate::{MigrateType, Mobility, Order, ZoneKind};

/// The list-based anti-fragmentation allocator.
#[derive(Clone, Debug)]
pub struct Lists {
    zones: Vec<ListsZone>,
    zonelists: Zonelists,
    marks: Marks,
    division: Division,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    reached: Reached,
    stolen_by_easy: u64,
    stolen_by_kernel: u64,
    claimed_by_easy: u64,
    claimed_by_kernel: u64,
    stolen_whole: u64,
}

impl Counts {
    fn stole(&mut self, thief: Reclaimability, order: Order, found: Order, claims: bool) {
        let easy = thief == Reclaimability::EasyRclm;
        let (stolen, claimed) = match easy {
            true => (&mut self.stolen_by_easy, &mut self.claimed_by_easy),
            false => (&mut self.stolen_by_kernel, &mut self.claimed_by_kernel),
        };
        *stolen += 1;
        *claimed += u64::from(claims);
        self.stolen_whole += u64::from(order == found);
    }
}

impl Lists {
    /// An allocator for `layout` that has no memory yet. Blocks are at most of order `largest`.
    pub fn new(layout: &Layout, largest: Order, division: Division) -> Lists {
        let zones = layout.zones().iter().map(|zone| ListsZone::new(zone, largest, division));
        Lists {
            zones: zones.collect(),
            zonelists: Zonelists::new(layout),
            marks: Marks::new(layout.frames()),
            division,
            counts: Counts::default(),
        }
    }

    /// The page's mark: the type of its last allocation.
    pub fn mark(&self, frame: Frame) -> Reclaimability {
        self.marks.get(frame)
    }

    /// The blocks on one free list of a zone of the layout, in the order in which they would be
    /// allocated.
    pub fn free_list<'a>(
        &self,
        table: &'a FrameTable,
        zone: usize,
        order: Order,
        reclaimability: Reclaimability,
    ) -> impl Iterator<Item = Frame> + 'a {
        self.zones[zone].area.list(order, reclaimability.index()).iter(table)
    }

    /// Bytes that the policy takes beside the frame table.
    pub fn bytes(&self) -> usize {
        self.marks.bytes()
    }

    fn zone_of(&mut self, frame: Frame) -> &mut ListsZone {
        let zone = self.zones.iter_mut().find(|zone| zone.zone.contains(frame));
        zone.expect("a frame outside every zone")
    }
}

impl Placement for Lists {
    fn seed(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        let mark = self.marks.get(frame);
        self.zone_of(frame).give(table, frame, order, mark);
    }

    /// Marks what was allocated before: what software can move counts as easily reclaimed.
    fn start(&mut self, table: &mut FrameTable) {
        for zone in &self.zones {
            let mut at = zone.zone.start;
            while at < zone.zone.end {
                let order = table.order(at);
                let inherited = table.state(at) == State::Allocated;
                if inherited && table.mobility(at) == Mobility::Movable {
                    self.marks.set(at, order, Reclaimability::EasyRclm);
                }
                at = at.offset(order.frames());
            }
        }
    }

    fn allocate(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        reach(self, table, request, owner, |lists| &mut lists.counts.reached)
    }

    fn free(&mut self, table: &mut FrameTable, frame: Frame, cpu: u16) {
        let mark = self.marks.get(frame);
        let order = table.release(frame);
        let zone = self.zone_of(frame);
        match order {
            Order::BASE => zone.give_through_cpu(table, frame, cpu, mark),
            order => zone.give(table, frame, order, mark),
        }
    }

    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        let area = &self.zones[zone].area;
        let by_order = |list: Reclaimability| {
            let orders = Order::up_to(area.largest());
            orders.map(|order| u64::from(area.list(order, list.index()).len())).collect()
        };
        self.division.types().iter().map(|&list| (list.migrate_type(), by_order(list))).collect()
    }

    fn free_frames(&self, zone: usize) -> u64 {
        self.zones[zone].area.free_frames()
    }

    fn cached_frames(&self) -> u64 {
        self.zones.iter().map(ListsZone::cached_frames).sum()
    }

    fn counters(&self) -> Vec<Counter> {
        let counts = &self.counts;
        let counter = |name, meaning, value| Counter { name, meaning, value };
        let mut all = counts.reached.counters().to_vec();
        all.extend([
            counter(
                "stolen_by_easy",
                "blocks that easily reclaimed pages took from the kernel's lists",
                counts.stolen_by_easy,
            ),
            counter(
                "stolen_by_kernel",
                "blocks that kernel pages took from another type's lists",
                counts.stolen_by_kernel,
            ),
            counter(
                "claimed_by_easy",
                "of those that easily reclaimed pages took, the large ones, whose rest they kept",
                counts.claimed_by_easy,
            ),
            counter(
                "claimed_by_kernel",
                "of those that kernel pages took, the large ones, whose rest they kept",
                counts.claimed_by_kernel,
            ),
            counter("stolen_whole", "stolen blocks of which nothing was left", counts.stolen_whole),
        ]);
        all
    }

    fn validate(&self, table: &FrameTable) {
        table.validate();
        for zone in &self.zones {
            zone.validate(table, &self.marks);
        }
    }
}

impl Stepwise for Lists {
    fn attempt(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
        depth: Depth,
    ) -> Option<Frame> {
        let wanting = self.division.list_of(Reclaimability::of(request.migrate_type));
        for &zone in self.zonelists.get(request.node, request.highest_zone) {
            let zone = &mut self.zones[zone];
            if !allows(&zone.zone, &zone.area, request, depth) {
                continue;
            }
            let (order, cpu) = (request.order, request.cpu);
            if let Some(frame) = zone.take(table, order, wanting, cpu, &mut self.counts) {
                self.marks.set(frame, order, wanting);
                table.allocate(frame, order, request.mobility, owner);
                return Some(frame);
            }
        }
        None
    }

    fn free_counts(&self, zone: usize) -> [u64; ORDERS] {
        self.zones[zone].area.counts()
    }

    fn watermark_ok(&self, zone: usize, order: Order, mark: u64, highest: ZoneKind) -> bool {
        let zone = &self.zones[zone];
        is_above(&zone.zone, &zone.area, order, mark, highest)
    }

    fn drain(&mut self, table: &mut FrameTable) {
        for zone in &mut self.zones {
            zone.drain(table);
        }
    }

    fn take_block(&mut self, table: &mut FrameTable, frame: Frame) -> Order {
        self.zone_of(frame).area.remove(table, frame)
    }

    /// By the mark of the block's first frame.
    fn give_block(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        self.seed(table, frame, order);
    }
}
