//! Simulated reclaim: memory is reclaimed when this allocator needs it, not when the recorded kernel
//! did.
//!
//! Frees of movable memory by the recorded kernel's kswapd and direct reclaim are left out. Such a
//! page stays in memory, owned by its recorded frame's number plus the number of frames, because the
//! record gives the frame to something else from then on. It is freed when free memory falls below
//! the low watermarks, as by kswapd, or when a request that may wait finds nothing, as by direct
//! reclaim.
//!
//! Pages that the record reclaimed go first, in the record's order: the kernel knew how recently
//! each was used. If none is left, page cache that the record still uses goes, in the order in which
//! it was read. Anonymous memory that the record did not reclaim stays, because nothing says that
//! there was room in swap. Caches of kernel objects shrink as they did in the record, and so does
//! memory at a cgroup's limit.

use std::collections::{HashMap, HashSet};

use prairie_frames::layout::Watermarks;
use prairie_frames::placement::{Placement, Request, gfp};
use prairie_frames::table::Owner;
use prairie_frames::{Frame, Mobility, Order, ZoneKind};
use prairie_sim::machine::recorded::Purpose;
use prairie_trace::{GfpFlags, StallPoint};

use super::Replay;
use super::ages::{Ages, Links};
use crate::purpose::purpose;

/// Frames that reclaim frees at a time (`SWAP_CLUSTER_MAX`).
const CLUSTER: u64 = 32;

/// How often a request reclaims before it fails (`MAX_RECLAIM_RETRIES`).
const MAX_RETRIES: u32 = 16;

/// Requests above this order fail after the first time (`PAGE_ALLOC_COSTLY_ORDER`).
const COSTLY: u8 = 3;

/// Blocks that do not help, or are pinned, that are skipped at a time (`SWAP_CLUSTER_MAX_SKIPPED`).
const MAX_SKIPPED: u64 = 32 << 10;

/// What can be reclaimed, and which tasks of the record reclaim.
#[derive(Clone, Debug)]
pub(super) struct Reclaim {
    /// Frames of the machine: what a block's recorded frame is raised by once the record has
    /// reclaimed it.
    raised: Owner,
    links: Links,
    /// Blocks that the record has reclaimed and this allocator has not.
    left: Ages,
    /// Page cache that the record still uses.
    cache: Ages,
    /// First recorded frames of blocks that were reclaimed before the record freed them.
    gone: HashSet<Frame>,
    /// Allocations until watermarks are checked again.
    until_balance: u64,
    kswapds: HashSet<i32>,
    /// Threads in direct reclaim, by process.
    reclaiming: HashMap<i32, u32>,
}

/// Where memory is needed.
#[derive(Clone, Copy)]
struct Target {
    highest_zone: ZoneKind,
    /// All nodes if there is none.
    node: Option<u16>,
}

const EVERYWHERE: Target = Target { highest_zone: ZoneKind::Device, node: None };

impl Reclaim {
    /// Of a machine with `frames`, which is as many as there are recorded owners.
    pub(super) fn new(frames: u64) -> Reclaim {
        Reclaim {
            raised: frames as Owner,
            links: Links::new(2 * frames),
            left: Ages::default(),
            cache: Ages::default(),
            gone: HashSet::new(),
            until_balance: CLUSTER,
            kswapds: HashSet::new(),
            reclaiming: HashMap::new(),
        }
    }

    fn frames(&self) -> u64 {
        self.left.frames() + self.cache.frames()
    }

    /// Whether a process of the record reclaims at the moment.
    fn is_reclaimer(&self, pid: i32) -> bool {
        self.kswapds.contains(&pid) || self.reclaiming.contains_key(&pid)
    }

    fn stalled(&mut self, point: StallPoint, pid: i32) {
        match point {
            StallPoint::ReclaimBegin => *self.reclaiming.entry(pid).or_default() += 1,
            StallPoint::ReclaimEnd => {
                if let Some(threads) = self.reclaiming.get_mut(&pid) {
                    *threads -= 1;
                    if *threads == 0 {
                        self.reclaiming.remove(&pid);
                    }
                }
            }
            _ => {}
        }
    }

    /// Takes note of events that were lost, or of a process that ended: the end of a direct reclaim
    /// may be among what is not seen.
    fn forget(&mut self, ended: Option<i32>) {
        match ended {
            Some(pid) => drop(self.reclaiming.remove(&pid)),
            None => self.reclaiming.clear(),
        }
    }

    fn push(&mut self, owner: Owner, order: Order) {
        match owner < self.raised {
            true => self.cache.push(&mut self.links, owner, order),
            false => self.left.push(&mut self.links, owner, order),
        }
    }

    fn remove(&mut self, owner: Owner) -> Order {
        match owner < self.raised {
            true => self.cache.remove(&mut self.links, owner),
            false => self.left.remove(&mut self.links, owner),
        }
    }

    /// A listed block that any of `2^order` owners is of, by its first owner.
    fn listed_in(&self, first: Owner, order: Order) -> Option<Owner> {
        // A block that begins before them is aligned to its own order.
        let heads = (0..=Order::HUGE.get()).filter_map(Order::new).map(|order| {
            let head = Frame(first).align_down(order).0;
            (head, self.links.order(head).is_some_and(|found| found >= order))
        });
        let around = heads.filter(|(_, covers)| *covers).map(|(head, _)| head).next();
        let mut others = first + 1..first + order.frames() as Owner;
        around.or_else(|| others.find(|owner| self.links.order(*owner).is_some()))
    }
}

impl<P: Placement> Replay<P> {
    /// A process of the record is a kswapd.
    pub fn learn_kswapd(&mut self, pid: i32) {
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.kswapds.insert(pid);
        }
    }

    pub(super) fn stalled(&mut self, point: StallPoint, pid: i32) {
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.stalled(point, pid);
        }
    }

    /// Events were lost, or a process ended: nobody, or it, is in direct reclaim as far as is known.
    pub(super) fn forget_reclaimers(&mut self, ended: Option<i32>) {
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.forget(ended);
        }
    }

    /// Frames that reclaim can free.
    pub(super) fn reclaimable_frames(&self) -> u64 {
        self.reclaim.as_ref().map_or(0, Reclaim::frames)
    }

    /// Adds a block that was just placed to the page cache, if it is of that.
    pub(super) fn list_page_cache(&mut self, frame: Frame, request: &Request) {
        let Some(reclaim) = &mut self.reclaim else { return };
        reclaim.gone.remove(&frame);
        let is_file = matches!(
            purpose(request.migrate_type, GfpFlags(request.gfp_flags)),
            Purpose::File { .. }
        );
        if is_file && request.mobility == Mobility::Movable && request.order <= Order::HUGE {
            reclaim.push(frame.0, request.order);
        }
    }

    /// The record frees these frames: they are no longer reclaimable.
    pub(super) fn unlist(&mut self, frame: Frame, order: Order) {
        if let Some(reclaim) = &mut self.reclaim {
            while let Some(owner) = reclaim.listed_in(frame.0, order) {
                reclaim.remove(owner);
            }
        }
    }

    /// Whether the record frees what was already reclaimed here.
    pub(super) fn was_reclaimed(&mut self, frame: Frame) -> bool {
        self.reclaim.as_mut().is_some_and(|reclaim| reclaim.gone.remove(&frame))
    }

    /// Keeps a block that the record reclaims, if it is one; returns whether it stays in memory.
    pub(super) fn keep_reclaimed(
        &mut self,
        frame: Frame,
        order: Order,
        pid: i32,
        cpu: u16,
    ) -> bool {
        let Some(reclaim) = &mut self.reclaim else { return false };
        if !reclaim.is_reclaimer(pid) || order > Order::HUGE {
            return false;
        }
        let Some(placed) = self.table.block_of(frame.0) else { return false };
        if self.table.order(placed) != order
            || self.table.mobility(placed) != Mobility::Movable
            || self.pins.containing(frame.0).is_some()
        {
            return false;
        }
        let owner = frame.0 + reclaim.raised;
        self.unlist(frame, order);
        self.free_reclaimed_before(owner, order, cpu);
        self.held.remove(frame.0, order);
        self.table.release(placed);
        self.table.allocate(placed, order, Mobility::Movable, owner);
        self.held.insert(owner, order);
        self.counts.reclaims_left_out += order.frames();
        if let Some(reclaim) = &mut self.reclaim {
            reclaim.push(owner, order);
        }
        true
    }

    /// Frees what the record reclaimed from the same frames before: of two pages with one name the
    /// older goes.
    fn free_reclaimed_before(&mut self, first: Owner, order: Order, cpu: u16) {
        let listed = |replay: &Self| replay.reclaim.as_ref()?.listed_in(first, order);
        while let Some(owner) = listed(self) {
            self.counts.reclaimed_in_background += self.reclaim_block(owner, cpu);
        }
    }

    /// Lets a request that found nothing reclaim and try again, as far as its flags permit
    /// (`__alloc_pages_slowpath`).
    pub(super) fn reclaim_for(&mut self, request: &Request, owner: Owner) -> Option<Frame> {
        let has = |flag| request.gfp_flags & flag != 0;
        if self.reclaim.is_none() || !has(gfp::DIRECT_RECLAIM) {
            return None;
        }
        let is_costly = request.order.get() > COSTLY && !has(gfp::RETRY_MAYFAIL);
        let tries = if is_costly || has(gfp::NORETRY) { 1 } else { MAX_RETRIES };
        let target = Target { highest_zone: request.highest_zone, ..EVERYWHERE };
        for _ in 0..tries {
            let freed = self.reclaim(CLUSTER.max(request.order.frames()), target, request.cpu);
            if freed == 0 {
                return None;
            }
            self.counts.reclaimed_by_requests += freed;
            let placed = self.placement.allocate(&mut self.table, request, owner);
            if placed.is_some() {
                return placed;
            }
        }
        None
    }

    /// Reclaims what boosted watermarks call for, as kswapd does; without simulated reclaim, kswapd has
    /// done so by now.
    pub(super) fn reclaim_boost(&mut self) {
        let boost = self.placement.take_boost();
        if self.reclaim.is_some() && boost > 0 {
            self.counts.reclaimed_in_background += self.reclaim(boost, EVERYWHERE, 0);
        }
    }

    /// After every cluster of allocations: has kswapd reclaim on each node that is below its low
    /// watermarks, up to its high ones.
    pub(super) fn balance(&mut self) {
        let Some(reclaim) = &mut self.reclaim else { return };
        reclaim.until_balance = reclaim.until_balance.saturating_sub(1);
        if reclaim.until_balance > 0 {
            return;
        }
        reclaim.until_balance = CLUSTER;
        let highest_node = self.layout.zones().iter().map(|zone| zone.span.node).max();
        for node in 0..=highest_node.unwrap_or(0) {
            if !self.is_short(node, |marks| marks.low) {
                continue;
            }
            let target = Target { node: Some(node), ..EVERYWHERE };
            while self.is_short(node, |marks| marks.high) {
                let freed = self.reclaim(CLUSTER, target, 0);
                self.counts.reclaimed_in_background += freed;
                if freed == 0 {
                    break;
                }
            }
        }
    }

    /// Whether all zones of a node are below a watermark and what they keep from movable requests
    /// (`pgdat_balanced`). A policy that keeps part of free memory from movable requests is compared
    /// with the sum of the watermarks.
    fn is_short(&self, node: u16, mark: impl Fn(&Watermarks) -> u64) -> bool {
        let zones = self.layout.zones().iter().enumerate();
        let zones = zones.filter(|(_, zone)| zone.span.node == node && zone.span.managed > 0);
        let mut zones = zones.map(|(at, zone)| (at, mark(&zone.span.watermarks), &zone.span));
        match self.placement.free_for(Mobility::Movable) {
            Some(free) => free < zones.map(|(_, mark, _)| mark).sum(),
            None => zones.all(|(at, mark, span)| {
                let kept = span.lowmem_reserve[ZoneKind::Movable as usize];
                self.placement.free_frames(at) < mark + kept
            }),
        }
    }

    /// Reclaims at least `wanted` frames, oldest blocks first; returns how many.
    fn reclaim(&mut self, wanted: u64, target: Target, cpu: u16) -> u64 {
        let left = self.reclaim_from(|reclaim| &reclaim.left, wanted, target, cpu);
        let missing = wanted.saturating_sub(left);
        left + self.reclaim_from(|reclaim| &reclaim.cache, missing, target, cpu)
    }

    fn reclaim_from(
        &mut self,
        list: impl Fn(&Reclaim) -> &Ages,
        wanted: u64,
        target: Target,
        cpu: u16,
    ) -> u64 {
        let (mut freed, mut skipped) = (0, 0);
        let all = self.reclaim.as_ref().map_or(0, |reclaim| list(reclaim).frames());
        while freed < wanted
            && skipped < all.min(MAX_SKIPPED)
            && let Some(reclaim) = &mut self.reclaim
            && let Some(owner) = list(reclaim).oldest()
        {
            let lies = self.table.block_of(owner).expect("a listed block lies somewhere");
            let zone = self.layout.zone_of(lies).map(|zone| &self.layout.zones()[zone].span);
            let helps = zone.is_some_and(|zone| {
                zone.kind <= target.highest_zone && target.node.is_none_or(|node| node == zone.node)
            });
            // The kernel keeps what may be pinned (`folio_maybe_dma_pinned`).
            if helps && self.pins.containing(owner).is_none() {
                freed += self.reclaim_block(owner, cpu);
            } else {
                // As isolation does: skipped pages become the youngest.
                let order = reclaim.remove(owner);
                reclaim.push(owner, order);
                skipped += 1;
            }
        }
        freed
    }

    /// Frees a listed block; returns its frames.
    fn reclaim_block(&mut self, owner: Owner, cpu: u16) -> u64 {
        let reclaim = self.reclaim.as_mut().expect("something is listed");
        let order = reclaim.remove(owner);
        if owner < reclaim.raised {
            reclaim.gone.insert(Frame(owner));
        }
        self.free_parts(Frame(owner), order, cpu);
        order.frames()
    }

    /// # Panics
    /// If a listed block is not in memory, or a block that the record reclaimed is not listed.
    pub(super) fn validate_reclaim(&self) {
        let Some(reclaim) = &self.reclaim else { return };
        let lists = [(&reclaim.left, false), (&reclaim.cache, true)];
        for (ages, is_cache) in lists {
            let mut frames = 0;
            for owner in ages.iter(&reclaim.links) {
                let order = reclaim.links.order(owner).expect("it is listed");
                assert_eq!(owner < reclaim.raised, is_cache, "owner {owner}");
                assert!(self.held.all(owner, order), "owner {owner}");
                frames += order.frames();
            }
            assert_eq!(frames, ages.frames());
        }
        let left = (reclaim.raised..2 * reclaim.raised).filter(|&owner| self.held.contains(owner));
        assert_eq!(left.count() as u64, reclaim.left.frames());
    }
}
