//! Huge pages asked for from outside: the pool that an administrator resizes, and the module that
//! allocates as many as there are (2006 paper, section 7).

use std::time::Duration;

use prairie_frames::indices::{FreeBlocks, fragmentation_index, unusable_free_space};
use prairie_frames::placement::{Request, gfp};
use prairie_frames::{MigrateType, Mobility, Order, ZoneKind};
use serde::Serialize;

use super::Machine;
use super::page::Use;

/// The result of one attempt to allocate a huge page.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Attempt {
    /// Simulated nanoseconds since boot.
    pub time_ns: u64,
    /// The frame of the page; `None` if it failed.
    #[serde(serialize_with = "zone_name")]
    pub zone: Option<ZoneKind>,
    /// F_u at the attempt, over all zones: the paper's unusable free space index.
    pub unusable: f64,
    /// F_i at the failure, over all zones: the paper's fragmentation index.
    pub fragmentation: Option<f64>,
    /// How long the attempt took.
    pub took_ns: u64,
}

/// A pool of persistent huge pages that a phase resized.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PoolChange {
    /// The phase.
    pub phase: String,
    /// The order of the pages.
    pub order: u8,
    /// Pages requested.
    pub wanted: u64,
    /// Pages in the pool afterwards.
    pub had: u64,
}

fn zone_name<S: serde::Serializer>(zone: &Option<ZoneKind>, s: S) -> Result<S::Ok, S::Error> {
    match zone {
        Some(zone) => s.serialize_some(zone.name()),
        None => s.serialize_none(),
    }
}

/// How an attempt may get memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Wakes kswapd and reclaims itself, as `alloc_pages` in a module does.
    Direct,
    /// Wakes kswapd only, as the paper says of `/proc/sys/vm/nr_hugepages` (section 7).
    KswapdOnly,
}

impl Machine {
    /// Free blocks by order over all zones.
    pub fn free_blocks(&self) -> Vec<u64> {
        let zones = 0..self.memory.layout.zones().len();
        let mut sum = Vec::new();
        for counts in zones.map(|zone| self.memory.placement.free_counts(zone)) {
            sum.resize(counts.len(), 0);
            for (total, count) in sum.iter_mut().zip(counts) {
                *total += count;
            }
        }
        sum
    }

    /// One attempt to allocate a huge page of `order`, which is kept. It takes simulated time, but
    /// others run only when the clock is let go on ([`Machine::run_until`]).
    pub fn allocate_huge(&mut self, order: Order, effort: Effort) -> Attempt {
        let unusable = unusable_free_space(FreeBlocks { counts: &self.free_blocks() }, order);
        let direct = match effort {
            Effort::Direct => gfp::DIRECT_RECLAIM,
            // A system with linear reclaim uses it for the pool as well (section 10).
            Effort::KswapdOnly if self.system.settings.policies.linear_reclaim => {
                gfp::DIRECT_RECLAIM
            }
            Effort::KswapdOnly => 0,
        };
        let request = Request {
            order,
            migrate_type: MigrateType::Movable,
            // Pages of the pool can be moved since 4.x, and only at the order of a pageblock.
            mobility: if order == Order::HUGE { Mobility::Movable } else { Mobility::Unmovable },
            highest_zone: match order == Order::HUGE || !self.memory.migrates_on_pin() {
                true => ZoneKind::Movable,
                false => ZoneKind::Normal,
            },
            gfp_flags: gfp::KSWAPD_RECLAIM | direct | gfp::NOMEMALLOC,
            ..Request::default()
        };
        self.slice = super::Slice::default();
        let id = self.allocate(&request);
        if let Some(id) = id {
            self.memory.pages.set_use(id, Use::HugeTlb, 0, 0);
            self.hugetlb.push(id);
            self.counters.htlb_buddy_alloc_success += 1;
        } else {
            self.counters.htlb_buddy_alloc_fail += 1;
        }
        let at_failure = || fragmentation_index(FreeBlocks { counts: &self.free_blocks() }, order);
        Attempt {
            time_ns: self.clock.now_ns(),
            zone: id.map(|id| self.memory.layout.zones()[self.memory.zone(id)].span.kind),
            unusable,
            fragmentation: id.is_none().then(at_failure),
            took_ns: self.slice.spent_ns
                + self.slice.wait_until_ns.saturating_sub(self.clock.now_ns()),
        }
    }

    /// Frees all huge pages that were requested from outside; returns their number.
    pub fn free_huge(&mut self) -> u64 {
        self.slice = super::Slice::default();
        let pages = std::mem::take(&mut self.hugetlb);
        for &id in &pages {
            self.free(id);
        }
        pages.len() as u64
    }

    /// Resizes the pool of huge pages, as writing `nr_hugepages` does: until it has `wanted` pages,
    /// or an attempt fails.
    pub(super) fn resize_pool(&mut self, phase: &str, wanted: u64) {
        let order = Order::new(self.scenario.machine.huge_order).unwrap_or(Order::HUGE);
        while (self.hugetlb.len() as u64) < wanted
            && self.allocate_huge(order, Effort::Direct).zone.is_some()
        {}
        self.slice = super::Slice::default();
        for id in self.hugetlb.split_off(self.hugetlb.len().min(wanted as usize)) {
            self.free(id);
        }
        self.note_pool(phase, order, wanted, self.hugetlb.len());
    }

    /// Resizes the pool of 1 GiB pages.
    pub(super) fn resize_gigantic_pool(&mut self, phase: &str, wanted: u64) {
        while (self.gigantic.len() as u64) < wanted && self.allocate_gigantic() {}
        self.free_gigantic(wanted as usize);
        self.note_pool(phase, Order::GIGANTIC, wanted, self.gigantic.len());
    }

    fn note_pool(&mut self, phase: &str, order: Order, wanted: u64, had: usize) {
        let (phase, order, had) = (phase.to_owned(), order.get(), had as u64);
        self.pool_changes.push(PoolChange { phase, order, wanted, had });
    }

    /// Lets simulated time pass.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now_ns() + time.as_nanos() as u64);
    }
}
