//! Hardware migration in time: the operating system's steps and the engine that copies.
//!
//! ```text
//! Migrate ── page table, IOMMU table ── local invalidations, each core at its next entry into the
//!            kernel, and the IOTLB's ── (all done) ── copy, line by line ── notice ── Clear
//! noncacheable:  the copy begins at once and continues beside the invalidations
//! ```
//!
//! No core waits for any of this: a core pays for its own invalidation and the walk that follows,
//! and for the cost that redirection adds to its misses.

use std::collections::VecDeque;

use serde::Serialize;

use crate::address::{Frame, Vpn};
use crate::geometry::Geometry;
use crate::machine::{Machine, lines_of};
use crate::params::Params;
use crate::protocol::table::{Caching, Phase, Refusal};

/// One page on its way.
#[derive(Clone, Debug)]
struct Moving {
    slot: usize,
    page: Vpn,
    source: Frame,
    begun_ps: u64,
    /// Cores that have not invalidated yet.
    waiting: usize,
    /// When the last invalidation so far was done, the IOTLB's included.
    invalidated_ps: u64,
    /// When the next line is copied, once the copy has begun.
    next_line_ps: Option<u64>,
    copy_begun_ps: u64,
}

/// What migrations did and took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Pages that were to be moved.
    pub asked: u64,
    /// Pages moved.
    pub moved: u64,
    /// Pages not moved, because too many waited for an entry.
    pub given_up: u64,
    /// The number of pages that waited because all entries were in use.
    pub waited_for_entry: u64,
    /// Most entries in use at once.
    pub most_entries: usize,
    /// Picoseconds from the command until every translation to the source was gone, in all.
    pub invalidation_ps: u64,
    /// Picoseconds of copying, in all.
    pub copy_ps: u64,
    /// Picoseconds from the command to Clear, in all.
    pub whole_ps: u64,
    /// Picoseconds that cores spent on local invalidations.
    pub local_ps: u64,
    /// Picoseconds for which software kept pages unavailable, in all.
    pub unavailable_ps: u64,
    /// Picoseconds of the core that migrates by software, in all.
    pub initiator_ps: u64,
    /// Picoseconds that software took from other cores.
    pub stolen_ps: u64,
}

/// Pages that may wait for an entry before more are given up.
const MAX_QUEUED: usize = 4096;

/// All migrations by hardware.
#[derive(Clone, Debug)]
pub struct Engine {
    caching: Caching,
    command_ps: u64,
    notify_ps: u64,
    local_ps: u64,
    lines_in_flight: u64,
    moving: Vec<Moving>,
    queue: VecDeque<Vpn>,
    /// Pages that each core has still to invalidate.
    pending: Vec<Vec<Vpn>>,
    /// What migrations did.
    pub stats: Stats,
}

impl Engine {
    /// An idle engine.
    pub fn new(params: &Params, caching: Caching) -> Engine {
        let m = &params.migration;
        Engine {
            caching,
            command_ps: m.command_ns * 1000,
            notify_ps: m.notify_ns * 1000,
            local_ps: m.invalidate_page_ns * 1000,
            lines_in_flight: m.lines_in_flight,
            moving: Vec::new(),
            queue: VecDeque::new(),
            pending: vec![Vec::new(); params.cores.count as usize],
            stats: Stats::default(),
        }
    }

    /// Asks for a page to be moved, at `now_ps` or when an entry is free.
    pub fn ask(&mut self, page: Vpn) {
        self.stats.asked += 1;
        if self.queue.len() >= MAX_QUEUED {
            self.stats.given_up += 1;
        } else {
            self.queue.push_back(page.first());
        }
    }

    /// Starts waiting migrations while entries are free.
    pub fn begin<G: Geometry>(&mut self, machine: &mut Machine<G>, now_ps: u64) {
        while let Some(page) = self.queue.pop_front() {
            match self.try_begin(machine, page, now_ps) {
                Ok(()) => {}
                Err(Refusal::Named) => self.stats.given_up += 1,
                Err(_) => {
                    self.stats.waited_for_entry += 1;
                    self.queue.push_front(page);
                    return;
                }
            }
        }
    }

    fn try_begin<G: Geometry>(
        &mut self,
        machine: &mut Machine<G>,
        page: Vpn,
        now_ps: u64,
    ) -> Result<(), Refusal> {
        if self.moving.iter().any(|moving| moving.page == page) {
            return Err(Refusal::Named);
        }
        let size = page.size();
        let source = machine.pages().frame(page);
        // No free destination is as good as no free entry.
        let destination = machine.pages_mut().destination(size).map_err(|_| Refusal::Full)?;
        let lines = u16::try_from(lines_of(size)).map_err(|_| Refusal::Empty)?;
        let begun = machine.hierarchy.migrate(source, destination, lines, self.caching);
        let slot = begun.inspect_err(|_| machine.pages_mut().give_back(size, destination))?;
        machine.pages_mut().remap(page, destination);
        let device_ps = machine.invalidate_device(page);
        let visible_ps = now_ps + self.command_ps;
        let mut moving = Moving {
            slot,
            page,
            source,
            begun_ps: now_ps,
            waiting: self.pending.len(),
            invalidated_ps: visible_ps + device_ps,
            next_line_ps: None,
            copy_begun_ps: 0,
        };
        self.pending.iter_mut().for_each(|pending| pending.push(page));
        if self.caching == Caching::Noncacheable {
            self.start_copy(machine, &mut moving, visible_ps);
        }
        self.moving.push(moving);
        self.stats.most_entries = self.stats.most_entries.max(self.moving.len());
        Ok(())
    }

    fn start_copy<G: Geometry>(&self, machine: &mut Machine<G>, moving: &mut Moving, at_ps: u64) {
        machine.hierarchy.start_copy(moving.source).expect("the entry lives until Clear");
        moving.copy_begun_ps = at_ps;
        moving.next_line_ps = Some(at_ps);
    }

    /// Whether `core` has pages to invalidate.
    #[inline]
    pub fn has_work(&self, core: usize) -> bool {
        !self.pending[core].is_empty()
    }

    /// `core` enters the kernel at `now_ps` and invalidates what it has to. Returns what that took.
    pub fn kernel_entry<G: Geometry>(
        &mut self,
        machine: &mut Machine<G>,
        core: usize,
        now_ps: u64,
    ) -> u64 {
        let mut ps = 0;
        for page in std::mem::take(&mut self.pending[core]) {
            machine.invalidate(core, page);
            ps += self.local_ps;
            if let Some(moving) = self.moving.iter_mut().find(|moving| moving.page == page) {
                moving.waiting -= 1;
                moving.invalidated_ps = moving.invalidated_ps.max(now_ps + ps);
            }
        }
        self.stats.local_ps += ps;
        ps
    }

    /// Does what the engine and the operating system have to do until `until_ps`.
    pub fn advance<G: Geometry>(&mut self, machine: &mut Machine<G>, until_ps: u64) {
        for mut moving in std::mem::take(&mut self.moving) {
            if moving.waiting == 0 && moving.next_line_ps.is_none() {
                let at_ps = moving.invalidated_ps + self.command_ps;
                self.start_copy(machine, &mut moving, at_ps);
            }
            self.copy(machine, &mut moving, until_ps);
            if !self.finish(machine, &moving, until_ps) {
                self.moving.push(moving);
            }
        }
    }

    fn copy<G: Geometry>(&self, machine: &mut Machine<G>, moving: &mut Moving, until_ps: u64) {
        let Some(next) = &mut moving.next_line_ps else { return };
        while *next < until_ps {
            let Some(ps) = machine.hierarchy.copy_line(moving.slot) else { break };
            *next += ps / self.lines_in_flight;
        }
    }

    /// Clears an entry whose page is copied and no longer translated.
    fn finish<G: Geometry>(
        &mut self,
        machine: &mut Machine<G>,
        moving: &Moving,
        until_ps: u64,
    ) -> bool {
        let entry = machine.hierarchy.entry(moving.slot).expect("the entry lives until Clear");
        let (Some(copied_ps), Phase::Copied, 0) =
            (moving.next_line_ps, entry.phase(), moving.waiting)
        else {
            return false;
        };
        let cleared_ps = copied_ps.max(moving.invalidated_ps) + self.notify_ps + self.command_ps;
        if cleared_ps > until_ps {
            return false;
        }
        machine.hierarchy.clear(moving.source).expect("everything is copied");
        machine.pages_mut().give_back(moving.page.size(), moving.source);
        self.stats.moved += 1;
        self.stats.invalidation_ps += moving.invalidated_ps - moving.begun_ps;
        self.stats.copy_ps += copied_ps - moving.copy_begun_ps;
        self.stats.whole_ps += cleared_ps - moving.begun_ps;
        true
    }

    /// Leaves what still waits for an entry where it is.
    pub fn give_up_waiting(&mut self) {
        self.stats.given_up += self.queue.len() as u64;
        self.queue.clear();
    }

    /// Migrations under way or waiting.
    pub fn unfinished(&self) -> usize {
        self.moving.len() + self.queue.len()
    }
}
