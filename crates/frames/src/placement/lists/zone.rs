//! One zone: its free lists by type, how types steal from each other, its per-CPU lists.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::marks::Marks;
use super::{Counts, Division, Reclaimability};
use crate::Order;
use crate::free_area::{End, FreeArea};
use crate::layout::{Frame, Zone};
use crate::placement::buddy::batch;
use crate::table::{FrameTable, State};

/// Lists of each order; the third is only used in the three-way division.
pub(super) const TYPES: usize = Reclaimability::ALL.len();

/// The per-CPU lists of one CPU, by type.
type CpuLists = [VecDeque<Frame>; TYPES];

#[derive(Clone, Debug)]
pub(super) struct ListsZone {
    pub(super) zone: Zone,
    pub(super) area: FreeArea<TYPES>,
    pub(super) per_cpu: Vec<CpuLists>,
    batch: usize,
    division: Division,
}

impl ListsZone {
    pub(super) fn new(zone: &Zone, largest: Order, division: Division) -> ListsZone {
        ListsZone {
            area: FreeArea::new(zone.start..zone.end, largest),
            per_cpu: Vec::new(),
            batch: batch(zone.span.managed),
            zone: zone.clone(),
            division,
        }
    }

    /// A block from the lists of its own type, or from those of another (`__rmqueue`).
    fn take_from_lists(
        &mut self,
        table: &mut FrameTable,
        order: Order,
        wanting: Reclaimability,
        counts: &mut Counts,
    ) -> Option<Frame> {
        let own = self.area.take_smallest(table, order, wanting.index());
        own.or_else(|| self.steal(table, order, wanting, counts))
    }

    /// Steals the largest block of another type (`__rmqueue_fallback`). Of a large block the
    /// thief keeps the rest as well; the rest of a small one stays with its owner.
    fn steal(
        &mut self,
        table: &mut FrameTable,
        order: Order,
        wanting: Reclaimability,
        counts: &mut Counts,
    ) -> Option<Frame> {
        let orders = Order::up_to(self.area.largest()).rev().take_while(|&found| found >= order);
        for found in orders {
            for &owner in self.division.fallbacks(wanting) {
                let Some(frame) = self.area.list(found, owner.index()).front() else {
                    continue;
                };
                self.area.remove(table, frame);
                let claims = found.index() >= self.claiming_order();
                let heir = if claims { wanting } else { owner };
                self.area.expand(table, frame, found, order, heir.index());
                counts.stole(wanting, order, found, claims);
                return Some(frame);
            }
        }
        None
    }

    /// From this order on, a thief keeps the whole block: half the number of orders.
    fn claiming_order(&self) -> usize {
        let orders = self.area.largest().index() + 1;
        orders / 2
    }

    /// A block for an allocation on `cpu`; single frames come from that CPU's list
    /// (`buffered_rmqueue`).
    pub(super) fn take(
        &mut self,
        table: &mut FrameTable,
        order: Order,
        wanting: Reclaimability,
        cpu: u16,
        counts: &mut Counts,
    ) -> Option<Frame> {
        if order != Order::BASE {
            return self.take_from_lists(table, order, wanting, counts);
        }
        if self.cpu_lists(cpu)[wanting.index()].is_empty() {
            self.refill(table, wanting, cpu, counts);
        }
        self.cpu_lists(cpu)[wanting.index()].pop_front()
    }

    /// Fills a per-CPU list with one batch (`rmqueue_bulk`).
    fn refill(
        &mut self,
        table: &mut FrameTable,
        wanting: Reclaimability,
        cpu: u16,
        counts: &mut Counts,
    ) {
        for _ in 0..self.batch {
            let taken = self.take_from_lists(table, Order::BASE, wanting, counts);
            let Some(frame) = taken else { break };
            table.set_cached(frame, Order::BASE, wanting as u8);
            self.cpu_lists(cpu)[wanting.index()].push_back(frame);
        }
    }

    /// Puts a block on the lists of its type, merged with its free buddies of whatever type
    /// (`__free_pages_bulk`).
    pub(super) fn give(
        &mut self,
        table: &mut FrameTable,
        frame: Frame,
        order: Order,
        mark: Reclaimability,
    ) {
        let (frame, order) = self.area.merge(table, frame, order, |_, _, _| true);
        self.area.insert(table, frame, order, mark.index(), End::Head);
    }

    /// Frees a single frame through the list of its type and CPU (`free_hot_cold_page`). A batch
    /// that overflows goes by the marks of its frames, which are those of the list.
    pub(super) fn give_through_cpu(
        &mut self,
        table: &mut FrameTable,
        frame: Frame,
        cpu: u16,
        mark: Reclaimability,
    ) {
        let (batch, high) = (self.batch, self.batch * 6);
        table.set_cached(frame, Order::BASE, mark as u8);
        let list = &mut self.cpu_lists(cpu)[mark.index()];
        list.push_front(frame);
        if list.len() < high {
            return;
        }
        let drained = list.split_off(list.len() - batch);
        for frame in drained.into_iter().rev() {
            table.set_inside(frame);
            self.give(table, frame, Order::BASE, mark);
        }
    }

    /// Gives everything on the per-CPU lists back (`drain_local_pages`).
    pub(super) fn drain(&mut self, table: &mut FrameTable) {
        for cpu in 0..self.per_cpu.len() {
            for mark in Reclaimability::ALL {
                while let Some(frame) = self.per_cpu[cpu][mark.index()].pop_back() {
                    table.set_inside(frame);
                    self.give(table, frame, Order::BASE, mark);
                }
            }
        }
    }

    fn cpu_lists(&mut self, cpu: u16) -> &mut CpuLists {
        let cpu = usize::from(cpu);
        if cpu >= self.per_cpu.len() {
            self.per_cpu.resize_with(cpu + 1, CpuLists::default);
        }
        &mut self.per_cpu[cpu]
    }

    pub(super) fn cached_frames(&self) -> u64 {
        self.per_cpu.iter().flatten().map(|list| list.len() as u64).sum()
    }

    /// # Panics
    /// If lists and table contradict each other.
    pub(super) fn validate(&self, table: &FrameTable, marks: &Marks) {
        self.area.validate(table);
        if self.division == Division::TwoWay {
            assert_eq!(self.area.occupied(Reclaimability::KernRclm.index()), 0, "a third list");
        }
        for lists in &self.per_cpu {
            for (list, frames) in lists.iter().enumerate() {
                for &frame in frames {
                    assert_eq!(table.state(frame), State::Cached, "{frame:?}");
                    assert_eq!(usize::from(table.list(frame)), list, "{frame:?}");
                    // A frame that was not allocated since the refill may carry an older mark.
                    debug_assert!(marks.get(frame).index() < TYPES);
                }
            }
        }
    }
}
