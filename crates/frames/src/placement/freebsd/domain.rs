//! One zone's free lists and caches, and what its domain keeps beside them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::nofree::NoFree;
use super::{LARGEST, Pool};
use crate::Order;
use crate::compaction::two_finger::index::RegionIndex;
use crate::free_area::{End, FreeArea};
use crate::layout::{Frame, Layout, Zone};
use crate::table::{FrameTable, State};

/// A NUMA domain.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    /// The kernel's number of the node.
    pub(super) node: u16,
    /// Where free memory comes in crumbs.
    pub(super) regions: RegionIndex,
    /// The superpage that pages which are never freed come from.
    pub(super) nofree: NoFree,
}

impl Domain {
    pub(super) fn new(layout: &Layout, node: u16) -> Domain {
        let zones = layout.zones().iter().filter(|zone| zone.span.node == node);
        Domain { node, regions: RegionIndex::new(zones), nofree: NoFree::default() }
    }
}

/// The caches of one CPU, by pool; the next to be allocated at the back.
type Caches = [VecDeque<Frame>; 2];

/// The free lists of one zone. Changes are reported to the domain's regions.
#[derive(Clone, Debug)]
pub(super) struct FreeLists {
    pub(super) zone: Zone,
    /// Index of the domain.
    pub(super) domain: usize,
    pub(super) area: FreeArea<2>,
    /// Free frames that reservations hold, which count as the zone's all the same.
    pub(super) set_aside: u64,
    caches: Vec<Caches>,
}

impl FreeLists {
    pub(super) fn new(zone: &Zone, domain: usize) -> FreeLists {
        let area = FreeArea::new(zone.start..zone.end, LARGEST);
        FreeLists { zone: zone.clone(), domain, area, set_aside: 0, caches: Vec::new() }
    }

    /// A block of a pool, or else of the other, whose largest block changes pools
    /// (`vm_phys_alloc_freelist_pages`).
    pub(super) fn take(
        &mut self,
        table: &mut FrameTable,
        domain: &mut Domain,
        order: Order,
        pool: Pool,
    ) -> Option<Frame> {
        let own = self.area.smallest(order, pool as usize).map(|found| (found, pool));
        let (found, from) = own.or_else(|| {
            let other = pool.other();
            let largest = self.area.occupied(other as usize).checked_ilog2()?;
            let largest = Order::new(largest as u8)?;
            (largest >= order).then_some((largest, other))
        })?;
        let frame = self.area.list(found, from as usize).front()?;
        self.area.remove(table, frame);
        // Whole, a single frame leaves its list; split off, it leaves its buddy on it.
        let singles = i32::from(order == Order::BASE) * if found == order { -1 } else { 1 };
        domain.regions.change(frame, -(order.frames() as i32), singles);
        // Upper halves go to the end of their lists (`vm_phys_split_pages`).
        let halves = Order::up_to(found).rev().skip(1).take_while(|&half| half >= order);
        for half in halves {
            let upper = frame.offset(half.frames());
            self.area.insert(table, upper, half, pool as usize, End::Tail);
        }
        Some(frame)
    }

    /// Frees a block into a pool, with the buddies that it merges with (`vm_phys_free_pages`).
    pub(super) fn give(
        &mut self,
        table: &mut FrameTable,
        domain: &mut Domain,
        frame: Frame,
        order: Order,
        pool: Pool,
    ) {
        let (merged, into) = self.area.merge(table, frame, order, |_, _, _| true);
        self.area.insert(table, merged, into, pool as usize, End::Tail);
        // A single frame joins its list, or takes its buddy off it.
        let singles = i32::from(order == Order::BASE) * if into == order { 1 } else { -1 };
        domain.regions.change(frame, order.frames() as i32, singles);
    }

    /// Puts a block on its list that has no free buddy (`vm_phys_enqueue_contig`).
    pub(super) fn enqueue(
        &mut self,
        table: &mut FrameTable,
        domain: &mut Domain,
        frame: Frame,
        order: Order,
    ) {
        self.area.insert(table, frame, order, Pool::Default as usize, End::Tail);
        domain.regions.change(frame, order.frames() as i32, i32::from(order == Order::BASE));
    }

    /// Takes a free block off its list, whole.
    pub(super) fn remove(
        &mut self,
        table: &mut FrameTable,
        domain: &mut Domain,
        frame: Frame,
    ) -> Order {
        let order = self.area.remove(table, frame);
        domain.regions.change(frame, -(order.frames() as i32), -i32::from(order == Order::BASE));
        order
    }

    /// A frame of a CPU's cache, which is filled by a batch when it is empty
    /// (`vm_page_zone_import`).
    pub(super) fn take_cached(
        &mut self,
        table: &mut FrameTable,
        domain: &mut Domain,
        pool: Pool,
        cpu: u16,
        batch: u32,
    ) -> Option<Frame> {
        if self.cache(cpu, pool).is_empty() {
            for _ in 0..batch {
                let Some(frame) = self.take(table, domain, Order::BASE, pool) else { break };
                table.set_cached(frame, Order::BASE, pool as u8);
                self.cache(cpu, pool).push_front(frame);
            }
        }
        self.cache(cpu, pool).pop_back()
    }

    /// Frees a frame into a CPU's cache. Of one that holds two batches the older goes back to the
    /// free lists (`vm_page_zone_release`).
    pub(super) fn give_cached(
        &mut self,
        table: &mut FrameTable,
        domain: &mut Domain,
        frame: Frame,
        pool: Pool,
        cpu: u16,
        batch: u32,
    ) {
        table.set_cached(frame, Order::BASE, pool as u8);
        let cache = self.cache(cpu, pool);
        cache.push_back(frame);
        if cache.len() > 2 * batch as usize {
            let kept = cache.split_off(batch as usize);
            let released = core::mem::replace(self.cache(cpu, pool), kept);
            for frame in released {
                table.set_inside(frame);
                self.give(table, domain, frame, Order::BASE, pool);
            }
        }
    }

    /// Gives everything in the caches back.
    pub(super) fn drain(&mut self, table: &mut FrameTable, domain: &mut Domain) {
        for cpu in 0..self.caches.len() {
            for pool in Pool::ALL {
                for frame in core::mem::take(&mut self.caches[cpu][pool as usize]) {
                    table.set_inside(frame);
                    self.give(table, domain, frame, Order::BASE, pool);
                }
            }
        }
    }

    fn cache(&mut self, cpu: u16, pool: Pool) -> &mut VecDeque<Frame> {
        let cpu = usize::from(cpu);
        if cpu >= self.caches.len() {
            self.caches.resize_with(cpu + 1, Caches::default);
        }
        &mut self.caches[cpu][pool as usize]
    }

    pub(super) fn cached_frames(&self) -> u64 {
        self.caches.iter().flatten().map(|cache| cache.len() as u64).sum()
    }

    /// # Panics
    /// If lists and table contradict each other.
    pub(super) fn validate(&self, table: &FrameTable) {
        self.area.validate(table);
        for &frame in self.caches.iter().flatten().flatten() {
            assert_eq!(table.state(frame), State::Cached, "{frame:?}");
        }
    }
}
