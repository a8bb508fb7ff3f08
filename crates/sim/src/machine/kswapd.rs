//! kswapd: reclaim in the background, until the high watermarks are met (`balance_pgdat`).
//!
//! Two generations of the same daemon. That of 6.1, here, leaves contiguity to compaction: once
//! twice the size of the request has been reclaimed, it only minds single frames. That of 2.6.16
//! insists (`kswapd_2_6.rs`).

use prairie_frames::compaction::suitable::frames_in_blocks;
use prairie_frames::{Order, ZoneKind};

use super::Machine;
use super::clock::{Actor, Next};
use super::lru::DEF_PRIORITY;
use super::lru::Kind;
use super::reclaim::{CLUSTER, Scan};

/// One node's daemon.
#[derive(Clone, Debug)]
pub(super) struct Kswapd {
    awake: bool,
    /// The largest order that it was woken for and has not begun to work on.
    asked: Order,
    work: Option<Work>,
    /// Balancing acts that freed nothing; too many make the node hopeless (`kswapd_failures`).
    failures: u32,
    /// The highest zone of those who woke it, where memory blocks change zones; elsewhere all zones
    /// count (`kswapd_highest_zoneidx`).
    highest: Option<ZoneKind>,
}

/// A balancing act in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// The request that woke it.
    asked: Order,
    /// The request it works for.
    pub order: Order,
    pub scan: Scan,
    /// Frames that are still to be reclaimed for boosted watermarks.
    boost: u64,
    boosted: bool,
}

/// After this many failures in a row the daemon waits for direct reclaim to succeed
/// (`MAX_RECLAIM_RETRIES`).
const MAX_RECLAIM_RETRIES: u32 = 16;
impl Kswapd {
    pub(super) fn new() -> Kswapd {
        Kswapd { awake: false, asked: Order::BASE, work: None, failures: 0, highest: None }
    }
}

impl Machine {
    /// Wakes the daemons of all nodes for a request (`wake_all_kswapds`).
    pub(super) fn wake_kswapds(&mut self, order: Order, highest: ZoneKind) {
        let order =
            if self.system.settings.policies.defrag_mode { order.max(Order::HUGE) } else { order };
        let old = self.system.settings.policies.reclaims_as_2_6;
        for node in 0..self.kswapd.len() {
            self.kswapd[node].asked = self.kswapd[node].asked.max(order);
            if self.has_hotplug() {
                self.kswapd[node].highest = self.kswapd[node].highest.max(Some(highest));
            }
            if old || !self.has_nothing_to_do(node as u16, order, highest) {
                self.rouse(node);
            }
        }
    }

    /// Wakes the daemons of nodes whose watermarks were boosted (`wakeup_kswapd` from `rmqueue`).
    pub(super) fn wake_kswapds_for_boost(&mut self) {
        // On the path of every allocation.
        for (at, zone) in self.memory.layout.zones().iter().enumerate() {
            let node = usize::from(zone.span.node);
            if self.memory.placement.boost(at) > 0 && !self.kswapd[node].awake {
                self.kswapd[node].awake = true;
                self.clock.wake(self.clock.now_ns(), Actor::Kswapd(node as u16));
            }
        }
    }

    /// Whether the daemon stays asleep when it is asked for `order`: the node is hopeless, or has
    /// what is asked for, if not for this request (`wakeup_kswapd`).
    fn has_nothing_to_do(&self, node: u16, order: Order, highest: ZoneKind) -> bool {
        let failures = self.kswapd[usize::from(node)].failures;
        let highest = if self.has_hotplug() { highest } else { ZoneKind::Movable };
        let content = || self.is_balanced_up_to(node, order, highest) && self.boost_of(node) == 0;
        failures >= MAX_RECLAIM_RETRIES || content()
    }

    fn rouse(&mut self, node: usize) {
        if !self.kswapd[node].awake {
            self.kswapd[node].awake = true;
            self.clock.wake(self.clock.now_ns(), Actor::Kswapd(node as u16));
        }
    }

    pub(super) fn zones_of(&self, node: u16) -> Vec<usize> {
        let zones = self.memory.layout.zones();
        (0..zones.len()).filter(|&zone| zones[zone].span.node == node).collect()
    }

    /// Whether a node's daemon is at work.
    pub(super) fn is_kswapd_awake(&self, node: u16) -> bool {
        self.kswapd[usize::from(node)].awake
    }

    fn boost_of(&self, node: u16) -> u64 {
        self.zones_of(node).into_iter().map(|zone| self.memory.placement.boost(zone)).sum()
    }

    /// One round at one priority.
    pub(super) fn run_kswapd(&mut self, node: u16) -> Next {
        let at = usize::from(node);
        let mut work = match self.kswapd[at].work {
            Some(work) => work,
            None => self.begin_balancing(node),
        };
        if self.system.settings.policies.reclaims_as_2_6 {
            return self.insist(node, work);
        }
        if work.boost > 0 && !self.is_balanced(node, work.order) {
            // The node is short of memory: that comes first.
            work.boost = 0;
            work.scan.priority = DEF_PRIORITY;
        }
        let done = work.boost == 0 && self.is_balanced(node, work.order);
        let given_up = work.boosted && work.boost > 0 && work.scan.priority < DEF_PRIORITY - 2;
        if done || given_up || work.scan.priority == 0 {
            return self.end_balancing(node, &work);
        }
        let before = (work.scan.scanned, work.scan.reclaimed);
        self.slice.reclaims = true;
        self.shrink_node(node, &mut work);
        self.slice.reclaims = false;
        let scanned = work.scan.scanned - before.0;
        let reclaimed = work.scan.reclaimed - before.1;
        work.boost = work.boost.saturating_sub(reclaimed);
        if work.boosted && work.boost > 0 && reclaimed == 0 {
            work.scan.priority = 0;
            work.boost = 0;
        }
        if work.order > Order::BASE && work.scan.reclaimed >= 2 * work.order.frames() {
            // Fragmented beyond what reclaim mends: single frames must do (`compact_gap`).
            work.order = Order::BASE;
        }
        if scanned < work.scan.wanted || reclaimed == 0 {
            work.scan.priority = work.scan.priority.saturating_sub(1);
        }
        self.kswapd[at].work = Some(work);
        self.throttle();
        Next::Again
    }

    /// Saves the progress of a node's daemon.
    pub(super) fn set_kswapd_work(&mut self, node: u16, work: Work) {
        self.kswapd[usize::from(node)].work = Some(work);
    }

    /// Restarts the daemon of a node if a larger block was requested meanwhile, otherwise lets it
    /// sleep; returns whether it restarts (`kswapd` of 2.6.16).
    pub(super) fn take_larger_order(&mut self, node: u16) -> bool {
        let kswapd = &mut self.kswapd[usize::from(node)];
        let done = kswapd.work.take().map_or(Order::BASE, |work| work.asked);
        kswapd.awake = kswapd.asked > done;
        kswapd.awake
    }

    fn begin_balancing(&mut self, node: u16) -> Work {
        let at = usize::from(node);
        self.counters.pageoutrun += 1;
        let order = std::mem::replace(&mut self.kswapd[at].asked, Order::BASE);
        let zones = self.zones_of(node);
        let boost = self.boost_of(node);
        let mut wanted = 0;
        for zone in zones {
            self.memory.placement.set_reclaim_active(zone, true);
            wanted += self.memory.layout.zones()[zone].span.watermarks.high.max(CLUSTER);
        }
        let mut scan = Scan::new(self.highest_asked(node), wanted, true);
        // A boost is to prevent fragmentation, not to cost writes.
        scan.may_swap = boost == 0;
        Work { asked: order, order, scan, boost, boosted: boost > 0 }
    }

    fn shrink_node(&mut self, node: u16, work: &mut Work) {
        work.scan.may_swap = work.boost == 0;
        let mut lists: Vec<usize> =
            self.zones_of(node).into_iter().map(|zone| self.lru.of_zone(zone)).collect();
        lists.dedup();
        for lists in lists {
            self.shrink(lists, &mut work.scan);
        }
    }

    /// Frames on the LRU lists that reclaim could free (`zone_reclaimable_pages`).
    pub(super) fn reclaimable(&self, lists: usize) -> u64 {
        let size = |kind| self.lru.size(lists, kind);
        let file = size(Kind::InactiveFile) + size(Kind::ActiveFile);
        let anonymous = size(Kind::InactiveAnon) + size(Kind::ActiveAnon);
        file + if self.may_reclaim_anonymous() { anonymous } else { 0 }
    }

    fn end_balancing(&mut self, node: u16, work: &Work) -> Next {
        let at = usize::from(node);
        for zone in self.zones_of(node) {
            self.memory.placement.set_reclaim_active(zone, false);
            if work.boosted {
                self.memory.placement.end_boost(zone);
            }
        }
        if work.scan.priority == 0 && work.scan.reclaimed == 0 {
            self.kswapd[at].failures += 1;
        } else {
            self.kswapd[at].failures = 0;
        }
        for lists in 0..self.lru.count() {
            let vec = self.lru.vec_mut(lists);
            vec.refaults_seen = vec.refaults;
        }
        self.kswapd[at].work = None;
        self.kswapd[at].highest = None;
        // What was asked for meanwhile is for the next time that it is woken.
        self.kswapd[at].awake = false;
        self.forget_skips(node);
        // There should be room now: let others make it contiguous.
        let order = if work.boosted { Order::HUGE } else { work.asked };
        self.wake_kcompactd(node, order);
        Next::Wait
    }

    /// Whether a node has what kswapd wants: one zone above its high watermark at `order`
    /// (`pgdat_balanced`). In defrag mode memory counts in whole pageblocks, as long as reclaim
    /// minds more than single frames.
    pub(super) fn is_balanced(&self, node: u16, order: Order) -> bool {
        self.is_balanced_up_to(node, order, self.highest_asked(node))
    }

    /// Whether memory blocks change zones.
    fn has_hotplug(&self) -> bool {
        self.system.settings.memory_blocks.is_some()
    }

    /// The highest zone that the daemon of a node works for.
    fn highest_asked(&self, node: u16) -> ZoneKind {
        self.kswapd[usize::from(node)].highest.unwrap_or(ZoneKind::Movable)
    }

    fn is_balanced_up_to(&self, node: u16, order: Order, highest: ZoneKind) -> bool {
        let in_blocks = self.system.settings.policies.defrag_mode && order > Order::BASE;
        self.zones_of(node).into_iter().any(|zone| {
            let span = &self.memory.layout.zones()[zone].span;
            // A zone without memory is none.
            if span.kind > highest || (self.has_hotplug() && span.managed == 0) {
                return false;
            }
            let high = span.watermarks.high;
            if in_blocks {
                let kept = high + span.lowmem_reserve[highest as usize];
                let counts = self.memory.placement.free_counts(zone);
                return frames_in_blocks(&counts) > kept + order.frames() - 1;
            }
            self.memory.placement.watermark_ok(zone, order, high, highest)
        })
    }
}
