//! How a request is met: the fast path, and what is tried when memory is low
//! (`__alloc_pages`, `__alloc_pages_slowpath`).

use prairie_frames::compaction::{Outcome, Priority};
use prairie_frames::placement::zonelist::Depth;
use prairie_frames::placement::{Request, gfp};
use prairie_frames::{MigrateType, Order, ZoneKind};

use super::Machine;
use super::kswapd_2_6::CONGESTION_NS;
use super::lru::DEF_PRIORITY;
use super::page::PageId;
use super::reclaim::{CLUSTER, Scan};

/// Orders above this one are costly: the kernel tries less hard for them
/// (`PAGE_ALLOC_COSTLY_ORDER`).
pub(super) const COSTLY: Order = Order::new(3).unwrap();
/// Rounds of reclaim without progress before the OOM killer (`MAX_RECLAIM_RETRIES`).
const MAX_RETRIES: u32 = 16;
/// From this order on, linear reclaim is used where a system has it (2006 paper, section 10).
const LINEAR_FROM: Order = Order::new(3).unwrap();

impl Machine {
    /// A block for `request`, on the CPU of the slice and its node; its use is the caller's to say.
    pub(super) fn allocate(&mut self, request: &Request) -> Option<PageId> {
        let cpu = self.slice.cpu;
        let request = Request { cpu, node: self.node_of_cpu(cpu), ..*request };
        let id = match self.memory.take(&request, Depth::Low) {
            Some(id) => Some(id),
            None => self.slow_path(&request),
        }?;
        self.operations += 1;
        self.counters.pgalloc += request.order.frames();
        if self.system.settings.policies.boost {
            self.wake_kswapds_for_boost();
        }
        Some(id)
    }

    /// Frees a block that is off all lists and whose user has let go of it.
    pub(super) fn free(&mut self, id: PageId) {
        self.operations += 1;
        self.counters.pgfree += self.memory.pages[id].frames();
        self.clean(id);
        if self.lru.gave_up {
            self.take_heart(id);
        }
        self.memory.give(id, self.slice.cpu);
    }

    /// A page comes free in a zone that reclaim of 2.6.16 may have given up: it may try again.
    #[cold]
    fn take_heart(&mut self, id: PageId) {
        let lists = self.lru.of_zone(self.memory.zone(id));
        let zone = &mut self.lru.vec_mut(lists).zone;
        (zone.unreclaimable, zone.in_vain) = (false, 0);
        let mut all = 0..self.lru.count();
        self.lru.gave_up = all.any(|lists| self.lru.vec(lists).zone.unreclaimable);
    }

    #[cold]
    fn slow_path(&mut self, request: &Request) -> Option<PageId> {
        let has = |bits| request.gfp_flags & bits != 0;
        if has(gfp::KSWAPD_RECLAIM) {
            self.wake_kswapds(request.order, request.highest_zone);
        }
        if let Some(id) = self.memory.take(request, Depth::Min) {
            return Some(id);
        }
        if self.slice.reclaims {
            // A task that reclaims may use all reserves (`PF_MEMALLOC`).
            return self.memory.take(request, Depth::All);
        }
        if !has(gfp::DIRECT_RECLAIM) {
            return None;
        }
        let costly = request.order > COSTLY;
        let compacts = self.may_compact(request);
        if compacts && (costly || request.migrate_type != MigrateType::Movable) {
            // Enough single pages may be free: compact before reclaiming any.
            let (id, outcome) = self.direct_compact(request, Priority::Async);
            let hopeless = matches!(outcome, Outcome::Skipped | Outcome::Deferred);
            if id.is_some() || (costly && has(gfp::NORETRY) && hopeless) {
                return id;
            }
        }
        let (now, begun) = (self.clock.now_ns(), self.slice.time_ns(self.clock.now_ns()));
        let id = self.reclaim_for(request, costly, compacts);
        self.note_stall(request.mobility, self.slice.time_ns(now) - begun);
        id
    }

    /// Reclaims and compacts until a block is free or more work is pointless.
    fn reclaim_for(&mut self, request: &Request, costly: bool, compacts: bool) -> Option<PageId> {
        let has = |bits| request.gfp_flags & bits != 0;
        let mut retries = 0;
        loop {
            let progress = self.make_room(request);
            if let Some(id) = self.take_drained(request) {
                return Some(id);
            }
            if compacts {
                let hurried = costly && has(gfp::NORETRY);
                let priority = match retries {
                    _ if hurried => Priority::Async,
                    0..4 => Priority::SyncLight,
                    _ if costly => Priority::SyncLight,
                    _ => Priority::SyncFull,
                };
                if let (Some(id), _) = self.direct_compact(request, priority) {
                    return Some(id);
                }
            }
            if has(gfp::NORETRY) || (costly && !has(gfp::RETRY_MAYFAIL)) {
                return None;
            }
            // In defrag mode reclaim can make progress forever without freeing a whole pageblock.
            let hopeful = progress > 0 && !costly && !self.system.settings.policies.defrag_mode;
            retries = if hopeful { 0 } else { retries + 1 };
            if retries <= MAX_RETRIES && (progress > 0 || self.could_be_met(request)) {
                self.throttle();
                continue;
            }
            if !costly && let Some(id) = self.take_mixing(request) {
                return Some(id);
            }
            if costly || !self.kill_someone(request.order) {
                return None;
            }
            retries = 0;
        }
    }

    /// In defrag mode, when reclaim and compaction have failed to prevent it: a block of whatever
    /// pageblock.
    fn take_mixing(&mut self, request: &Request) -> Option<PageId> {
        if !self.system.settings.policies.defrag_mode {
            return None;
        }
        self.memory.placement.may_mix(true);
        let id = self.memory.take(request, Depth::Min);
        self.memory.placement.may_mix(false);
        id
    }

    /// Another attempt after room was made; before giving up, what per-CPU lists hold is given
    /// back (`__alloc_pages_direct_reclaim`), where the system thinks of it.
    fn take_drained(&mut self, request: &Request) -> Option<PageId> {
        let found = self.memory.take(request, Depth::Min);
        if !self.system.settings.policies.drains {
            return found;
        }
        found.or_else(|| {
            self.memory.placement.drain(&mut self.memory.table);
            self.memory.take(request, Depth::Min)
        })
    }

    /// Makes room by the system's means; returns frames freed.
    fn make_room(&mut self, request: &Request) -> u64 {
        if self.system.settings.policies.linear_reclaim && request.order >= LINEAR_FROM {
            return self.linear_reclaim(request.order, request.highest_zone);
        }
        self.direct_reclaim(request.order, request.highest_zone)
    }

    /// LRU reclaim on behalf of a request (`try_to_free_pages`): harder and harder until a
    /// cluster of pages is freed. For a costly order there is no point in more once compaction can
    /// go to work (`compaction_ready`); before, there is none in less
    /// (`should_continue_reclaim`).
    pub(super) fn direct_reclaim(&mut self, order: Order, highest: ZoneKind) -> u64 {
        self.count_stall(highest);
        self.slice.reclaims = true;
        let mut scan = Scan::new(highest, CLUSTER, false);
        let for_compaction = self.system.settings.policies.compaction && order > COSTLY;
        let lists_in_reach = self.lists_up_to(highest);
        let old = self.system.settings.policies.reclaims_as_2_6;
        loop {
            if for_compaction && self.is_ready_to_compact(order, highest) {
                break;
            }
            if for_compaction {
                // Room for the block and for what moves out of its way (`compact_gap`).
                scan.wanted = 2 * order.frames();
            }
            let scanned = scan.scanned;
            for &lists in &lists_in_reach {
                if !(old && self.is_given_up(lists, scan.priority)) {
                    self.shrink(lists, &mut scan);
                }
            }
            if scan.reclaimed >= scan.wanted {
                break;
            }
            if old && scan.scanned > scanned && scan.priority < DEF_PRIORITY - 2 {
                self.nap(CONGESTION_NS);
            }
            if scan.priority == 0 {
                break;
            }
            scan.priority -= 1;
        }
        if old {
            self.settle_priorities(lists_in_reach);
        }
        self.slice.reclaims = false;
        self.throttle();
        scan.reclaimed
    }

    /// The slice's actor sleeps for this time before it continues.
    fn nap(&mut self, ns: u64) {
        let now = self.clock.now_ns() + self.slice.spent_ns;
        self.slice.wait_until_ns = self.slice.wait_until_ns.max(now) + ns;
    }

    /// The sets of LRU lists with pages that are of use to a request, each once.
    pub(super) fn lists_up_to(&self, highest: ZoneKind) -> Vec<usize> {
        let zones = self.memory.layout.zones().iter().enumerate();
        let mut lists: Vec<usize> = zones
            .filter(|(_, zone)| zone.span.kind <= highest)
            .map(|(at, _)| self.lru.of_zone(at))
            .collect();
        lists.dedup();
        lists
    }

    /// Whether some zone would have room if all that can be reclaimed were
    /// (`should_reclaim_retry`).
    fn could_be_met(&self, request: &Request) -> bool {
        let reclaimable: u64 = self
            .lists_up_to(request.highest_zone)
            .into_iter()
            .map(|lists| self.reclaimable(lists))
            .sum();
        let zones = self.memory.layout.zones().iter().enumerate();
        let usable = zones.filter(|(_, zone)| zone.span.kind <= request.highest_zone);
        let (free, min) = usable.fold((0, 0), |(free, min), (at, zone)| {
            let placement = &self.memory.placement;
            (free + placement.free_frames(at), min + zone.span.watermarks.min)
        });
        free + reclaimable > min + request.order.frames()
    }

    fn count_stall(&mut self, highest: ZoneKind) {
        let counters = &mut self.counters;
        *match highest {
            ZoneKind::Dma => &mut counters.allocstall_dma,
            ZoneKind::Dma32 => &mut counters.allocstall_dma32,
            ZoneKind::Normal => &mut counters.allocstall_normal,
            ZoneKind::HighMem => &mut counters.allocstall_highmem,
            ZoneKind::Movable | ZoneKind::Device => &mut counters.allocstall_movable,
        } += 1;
    }
}
