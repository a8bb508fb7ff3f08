//! `buddy`: one free list per order, as in Linux before grouping by mobility (2.6.16).
//!
//! The baseline of the 2006 paper (section 5, Figure 1, left). A zone has one list for each
//! order; every freed block goes to the head; single frames pass through a per-CPU list
//! (`free_hot_cold_page` and `buffered_rmqueue`, `mm/page_alloc.c` of 2.6.16).

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

use super::reached::{Reached, reach};
use super::stepwise::Stepwise;
use super::zonelist::{Depth, Zonelists, allows, is_above};
use super::{Counter, Placement, Request};
use crate::free_area::{End, FreeArea, ORDERS};
use crate::layout::{Frame, Layout, Zone};
use crate::run::Run;
use crate::table::{FrameTable, Owner};
use crate::{MigrateType, Order, ZoneKind};

/// The binary buddy allocator of Linux 2.6.16.
#[derive(Clone, Debug)]
pub struct Buddy {
    zones: Vec<BuddyZone>,
    zonelists: Zonelists,
    reached: Reached,
}

#[derive(Clone, Debug)]
struct BuddyZone {
    zone: Zone,
    area: FreeArea<1>,
    /// The hot list of each CPU, head first. It grows as CPUs show up.
    per_cpu: Vec<VecDeque<Frame>>,
    /// Frames moved between a per-CPU list and the free lists at once.
    batch: usize,
}

impl Buddy {
    /// An allocator for `layout` that has no memory yet. Blocks are at most of order `largest`.
    pub fn new(layout: &Layout, largest: Order) -> Buddy {
        let zones = layout.zones().iter().map(|zone| BuddyZone::new(zone, largest)).collect();
        Buddy { zones, zonelists: Zonelists::new(layout), reached: Reached::default() }
    }
}

impl BuddyZone {
    fn new(zone: &Zone, largest: Order) -> BuddyZone {
        BuddyZone {
            area: FreeArea::new(zone.start..zone.end, largest),
            per_cpu: Vec::new(),
            batch: batch(zone.span.managed),
            zone: zone.clone(),
        }
    }

    fn take(&mut self, table: &mut FrameTable, order: Order, cpu: u16) -> Option<Frame> {
        if order != Order::BASE {
            return self.area.take_smallest(table, order, 0);
        }
        let batch = self.batch;
        let list = list_of(&mut self.per_cpu, cpu);
        if list.is_empty() {
            let mut left = batch as u32;
            while left > 0 {
                let found = self.area.take_run(table, Order::BASE, 0, left);
                let Some((start, taken)) = found else { break };
                let run = Run::upward(start, taken);
                table.set_run_cached(&run, 0);
                list.extend(run.iter());
                left -= taken;
            }
        }
        list.pop_front()
    }

    fn give(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        give(&mut self.area, table, frame, order);
    }

    fn give_through_cpu(&mut self, table: &mut FrameTable, frame: Frame, cpu: u16) {
        let (batch, high) = (self.batch, self.batch * 6);
        table.set_cached(frame, Order::BASE, 0);
        let list = list_of(&mut self.per_cpu, cpu);
        list.push_front(frame);
        if list.len() >= high {
            let kept = list.len() - batch;
            list.range(kept..).for_each(|&frame| table.prefetch_frame(frame));
            list.range(kept..).for_each(|&frame| table.prefetch_neighbors(frame));
            for frame in list.drain(kept..).rev() {
                table.set_inside(frame);
                give(&mut self.area, table, frame, Order::BASE);
            }
        }
    }
}

/// Merges a block with its buddies and puts it first on its list (`__free_one_page`, 2.6.16).
fn give(area: &mut FreeArea<1>, table: &mut FrameTable, frame: Frame, order: Order) {
    let (frame, order) = area.merge(table, frame, order, |_, _, _| true);
    area.insert(table, frame, order, 0, End::Head);
}

/// Frames that go to or from a per-CPU list at once: a quarter of a thousandth of the zone or of
/// half a MiB, rounded to one less than a power of two (`zone_batchsize`, 2.6.16).
pub(super) fn batch(managed: u64) -> usize {
    let quarter = (managed / 1024).min((512 << 10) / 4096) as usize / 4;
    let quarter = quarter.max(1);
    let rounded = quarter + quarter / 2;
    ((1 << rounded.ilog2()) - 1).max(1)
}

fn list_of(per_cpu: &mut Vec<VecDeque<Frame>>, cpu: u16) -> &mut VecDeque<Frame> {
    let cpu = usize::from(cpu);
    if cpu >= per_cpu.len() {
        per_cpu.resize_with(cpu + 1, VecDeque::new);
    }
    &mut per_cpu[cpu]
}

impl Placement for Buddy {
    fn seed(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        let zone = self.zones.iter_mut().find(|zone| zone.zone.contains(frame));
        zone.expect("memory outside every zone").give(table, frame, order);
    }

    fn allocate(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        reach(self, table, request, owner, |buddy| &mut buddy.reached)
    }

    fn free(&mut self, table: &mut FrameTable, frame: Frame, cpu: u16) {
        let zone = self.zones.iter_mut().find(|zone| zone.zone.contains(frame));
        let zone = zone.expect("a frame outside every zone");
        match table.release(frame) {
            Order::BASE => zone.give_through_cpu(table, frame, cpu),
            order => zone.give(table, frame, order),
        }
    }

    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        let area = &self.zones[zone].area;
        vec![(MigrateType::Movable, area.counts()[..=area.largest().index()].to_vec())]
    }

    fn free_frames(&self, zone: usize) -> u64 {
        self.zones[zone].area.free_frames()
    }

    fn cached_frames(&self) -> u64 {
        self.zones.iter().flat_map(|zone| &zone.per_cpu).map(|list| list.len() as u64).sum()
    }

    fn counters(&self) -> Vec<Counter> {
        self.reached.counters().into()
    }

    fn validate(&self, table: &FrameTable) {
        table.validate();
        for zone in &self.zones {
            zone.area.validate(table);
            for &frame in zone.per_cpu.iter().flatten() {
                assert_eq!(table.state(frame), crate::table::State::Cached, "{frame:?}");
            }
        }
    }
}

impl Stepwise for Buddy {
    fn attempt(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
        depth: Depth,
    ) -> Option<Frame> {
        for &zone in self.zonelists.get(request.node, request.highest_zone) {
            let zone = &mut self.zones[zone];
            if !allows(&zone.zone, &zone.area, request, depth) {
                continue;
            }
            if let Some(frame) = zone.take(table, request.order, request.cpu) {
                table.allocate(frame, request.order, request.mobility, owner);
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
            for cpu in 0..zone.per_cpu.len() {
                while let Some(frame) = zone.per_cpu[cpu].pop_back() {
                    table.set_inside(frame);
                    zone.give(table, frame, Order::BASE);
                }
            }
        }
    }

    fn take_block(&mut self, table: &mut FrameTable, frame: Frame) -> Order {
        let zone = self.zones.iter_mut().find(|zone| zone.zone.contains(frame));
        zone.expect("a frame outside every zone").area.remove(table, frame)
    }

    fn give_block(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        self.seed(table, frame, order);
    }
}
