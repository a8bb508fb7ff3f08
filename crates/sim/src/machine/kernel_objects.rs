//! Kernel memory that comes and goes by itself: network buffers, pinned user pages, pipes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use prairie_frames::placement::{Placement, Request, gfp};
use prairie_frames::{MigrateType, Mobility, Order, ZoneKind};

use super::Machine;
use super::clock::{Actor, Next};
use super::page::{PageId, Use};
use super::scenario::KernelUse;
use prairie_model::allocator::MachinePlacement;

/// A kind of kernel memory: what of it is in use, and until when.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// When blocks are freed, soonest first.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    /// Whether more of it comes in this phase.
    pub open: bool,
    /// Requests that found no memory.
    pub failed: u64,
}

/// The interval at which arrivals and departures are processed.
const TICK_NS: u64 = 10_000_000;

impl Machine {
    /// Makes a stream for each kind of the scenario.
    pub(super) fn start_kernel_objects(&mut self) {
        for at in 0..self.scenario.kernel.len() {
            self.kernel_objects.push(Stream { open: true, ..Stream::default() });
            self.clock.wake(0, Actor::KernelObjects(at as u32));
        }
    }

    /// Frees what is due and allocates what arrives.
    pub(super) fn run_kernel_objects(&mut self, stream: u32) -> Next {
        let at = stream as usize;
        let now = self.clock.now_ns();
        while let Some(&Reverse((when, id))) = self.kernel_objects[at].ends.peek()
            && when <= now
        {
            self.kernel_objects[at].ends.pop();
            self.spend(self.scenario.costs.object_ns);
            self.free(PageId(id));
        }
        if self.kernel_objects[at].open {
            let mean = self.scenario.kernel[at].rate * TICK_NS as f64 / 1e9;
            for _ in 0..self.random.poisson(mean) {
                self.kernel_object_arrives(at, now);
            }
        }
        Next::SleepUntil(now + TICK_NS)
    }

    fn kernel_object_arrives(&mut self, at: usize, now: u64) {
        let kind = &self.scenario.kernel[at];
        let pinned = kind.used_as == KernelUse::Pinned;
        // Contiguitas moves a page where pins belong before it is pinned; elsewhere it stays.
        let moves = pinned && kind.order == 0 && self.memory.migrates_on_pin();
        let request = Request {
            order: Order::new(kind.order).unwrap_or(Order::BASE),
            // Pinned memory was requested as ordinary user memory.
            migrate_type: if pinned { MigrateType::Movable } else { MigrateType::Unmovable },
            mobility: if moves { Mobility::Movable } else { Mobility::Unmovable },
            highest_zone: match pinned && (moves || !self.memory.migrates_on_pin()) {
                true => self.highest_for_users(),
                false => ZoneKind::Normal,
            },
            gfp_flags: if kind.atomic { gfp::ATOMIC_REQUEST } else { gfp::KERNEL | gfp::NORETRY },
            permanent: kind.permanent,
            ..Request::default()
        };
        let permanent = kind.permanent;
        let until =
            now + self.scenario.kernel[at].lifetime.sample(&mut self.random).max(0.0) as u64;
        self.spend(self.scenario.costs.object_ns);
        let id = self.allocate(&request).filter(|&id| !moves || self.pin(id));
        match id {
            Some(id) => {
                let used_as = if pinned { Use::Pinned } else { Use::Kernel };
                self.memory.pages.set_use(id, used_as, at as u32, 0);
                if !permanent {
                    self.kernel_objects[at].ends.push(Reverse((until, id.0)));
                }
            }
            None => self.kernel_objects[at].failed += 1,
        }
    }

    /// Moves a page to the unmovable region for a pin; if there is no room for it there, the page is
    /// freed, since it must not be pinned where it is.
    fn pin(&mut self, id: PageId) -> bool {
        let costs = &self.scenario.costs;
        self.slice.spent_ns += costs.migrate_ns + costs.copy_frame_ns;
        let owner = self.memory.pages.owner_of(id);
        let table = &mut self.memory.table;
        let pinned = match &mut self.memory.placement {
            MachinePlacement::Regions(regions) => regions.pin(table, owner).is_ok(),
            MachinePlacement::Linux(linux) => linux.pin_block(table, owner, Order::BASE),
            _ => false,
        };
        if !pinned {
            self.memory.pages.set_use(id, Use::Kernel, 0, 0);
            self.free(id);
        }
        pinned
    }
}
