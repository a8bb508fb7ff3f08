//! Per-CPU lists: single free frames of a region in front of its free blocks.
//!
//! A page that is freed and soon asked for again would otherwise be merged with its buddies up to
//! the largest order and split down again. A frame on a list keeps its region, and goes back to its
//! free blocks before the border moves, as the kernel empties its lists before it isolates a
//! pageblock (`drain_all_pages`, `mm/page_alloc.c`).

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::Range;

use super::space::Pick;
use super::{PER_REGION, Region, RegionZone, Regions};
use crate::layout::Frame;
use crate::placement::buddy;
use crate::run::Run;
use crate::table::{FrameTable, Owner, State};
use crate::{Mobility, Order};

/// Batches on one list before the oldest is given back: what Linux 2.6.16 allowed.
const HIGH_BATCHES: usize = 6;

/// The lists of one zone. The frame that was freed last is handed out first.
#[derive(Clone, Debug)]
pub(super) struct PerCpu {
    by_cpu: Vec<[VecDeque<Frame>; PER_REGION]>,
    /// Frames that go to or from a list at once; 0 if there are no lists.
    pub(super) batch: usize,
    /// Frames on all lists, by region.
    frames: [u64; PER_REGION],
}

impl PerCpu {
    pub(super) fn new(managed: u64, exist: bool) -> PerCpu {
        let batch = if exist { buddy::batch(managed) } else { 0 };
        PerCpu { by_cpu: Vec::new(), batch, frames: [0; PER_REGION] }
    }

    /// Frames of `region` on the lists of all CPUs.
    pub(super) fn frames(&self, region: Region) -> u64 {
        self.frames[region as usize]
    }

    fn list(&mut self, cpu: u16, region: Region) -> &mut VecDeque<Frame> {
        let cpu = usize::from(cpu);
        if cpu >= self.by_cpu.len() {
            self.by_cpu.resize_with(cpu + 1, Default::default);
        }
        &mut self.by_cpu[cpu][region as usize]
    }

    /// Compares the lists with their totals and with the table.
    ///
    /// # Panics
    /// If they contradict each other, or a frame is on the list of the other region.
    pub(super) fn validate(&self, table: &FrameTable, border: Frame) {
        for region in Region::ALL {
            let lists = self.by_cpu.iter().map(|lists| &lists[region as usize]);
            assert_eq!(self.frames(region), lists.clone().map(|list| list.len() as u64).sum());
            for &frame in lists.flatten() {
                assert_eq!(table.state(frame), State::Cached, "{frame:?}");
                assert_eq!(table.list(frame), region as u8, "{frame:?}");
                assert_eq!(
                    Region::at(frame, border),
                    region,
                    "{frame:?} and the border {border:?}"
                );
            }
        }
    }
}

impl RegionZone {
    /// Takes a block of `order` out of `region`, a single frame through the list of `cpu`, which is
    /// refilled with what `pick` says if it is empty.
    #[inline]
    pub(super) fn take(
        &mut self,
        table: &mut FrameTable,
        region: Region,
        order: Order,
        pick: Pick,
        cpu: u16,
    ) -> Option<Frame> {
        let mut left = self.per_cpu.batch as u32;
        if order != Order::BASE || left == 0 {
            return self.space.take(table, region, order, pick);
        }
        let list = self.per_cpu.list(cpu, region);
        let had = list.len() as u64;
        while had == 0 && left > 0 {
            let Some(run) = self.space.take_run(table, region, left, pick) else { break };
            table.set_run_cached(&run, region as u8);
            run.iter().for_each(|frame| list.push_front(frame));
            left -= run.frames();
        }
        let frame = list.pop_back();
        let has = list.len() as u64;
        let frames = &mut self.per_cpu.frames[region as usize];
        *frames = *frames + has - had;
        frame
    }

    /// Allocates the frames that would come next from the list of `cpu` to `owners`, as many as there
    /// are of both, and returns how many.
    pub(super) fn take_listed(
        &mut self,
        table: &mut FrameTable,
        region: Region,
        cpu: u16,
        owners: Range<Owner>,
        mobility: Mobility,
    ) -> u32 {
        let list = self.per_cpu.list(cpu, region);
        let taken = list.len().min(owners.len());
        let left = list.len() - taken;
        table.prefetch_rows(list.range(left..).copied());
        table.allocate_cached(list.drain(left..).rev(), mobility, owners.start);
        self.per_cpu.frames[region as usize] -= taken as u64;
        taken as u32
    }

    /// Frees a single frame that is on no list through the list of `cpu`.
    #[inline]
    pub(super) fn give_through_cpu(
        &mut self,
        table: &mut FrameTable,
        frame: Frame,
        border: Frame,
        cpu: u16,
    ) {
        let region = Region::at(frame, border);
        let batch = self.per_cpu.batch;
        if batch == 0 {
            return self.space.give(table, frame, Order::BASE, region, border);
        }
        table.set_cached(frame, Order::BASE, region as u8);
        self.per_cpu.frames[region as usize] += 1;
        let list = self.per_cpu.list(cpu, region);
        list.push_back(frame);
        if list.len() >= batch * HIGH_BATCHES {
            self.space.give_singles(table, list.drain(..batch), region, border);
            self.per_cpu.frames[region as usize] -= batch as u64;
        }
    }

    /// Frees the single frames of a run within a pageblock as
    /// [`give_through_cpu`](RegionZone::give_through_cpu) would one after another.
    pub(super) fn give_run_through_cpu(
        &mut self,
        table: &mut FrameTable,
        mut run: Run,
        border: Frame,
        cpu: u16,
    ) {
        let region = Region::at(Frame(run.numbers().start), border);
        let batch = self.per_cpu.batch;
        table.release_to_cache(&run, region as u8);
        self.per_cpu.frames[region as usize] += u64::from(run.frames());
        while run.frames() > 0 {
            let list = self.per_cpu.list(cpu, region);
            let part = run.take((batch * HIGH_BATCHES - list.len()) as u32);
            list.extend(part.iter());
            if list.len() >= batch * HIGH_BATCHES {
                self.space.give_singles(table, list.drain(..batch), region, border);
                self.per_cpu.frames[region as usize] -= batch as u64;
            }
        }
    }

    /// Gives back what is on the lists; returns whether there was anything.
    fn drain(&mut self, table: &mut FrameTable, border: Frame) -> bool {
        let held = self.per_cpu.frames.iter().sum::<u64>();
        if held == 0 {
            return false;
        }
        for lists in &mut self.per_cpu.by_cpu {
            for (region, list) in Region::ALL.into_iter().zip(lists) {
                self.space.give_singles(table, list.drain(..), region, border);
            }
        }
        self.per_cpu.frames = [0; PER_REGION];
        true
    }
}

impl Regions {
    /// Empties the per-CPU lists of every node; returns whether there was anything on them.
    pub(super) fn drain_lists(&mut self, table: &mut FrameTable) -> bool {
        let mut any = false;
        for zone in &mut self.zones {
            any |= zone.drain(table, self.nodes[zone.node].border);
        }
        any
    }
}
