//! LRU reclaim: which pages are scanned, and which are reclaimed (`mm/vmscan.c`).

pub mod balance;
mod two_lists;
mod verdict;

use prairie_frames::ZoneKind;

use super::Machine;
use super::files::Slot;
use super::lru::{DEF_PRIORITY, Kind};
use super::page::{Flags, PageId, Use};
use balance::scan_counts;
use verdict::{Verdict, judge};

/// Pages that are taken off a list at once (`SWAP_CLUSTER_MAX`).
pub(super) const CLUSTER: u64 = 32;

/// The goal and progress of a reclaimer (`struct scan_control`).
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    /// Only pages of this zone and below are of use.
    pub highest: ZoneKind,
    /// Lists are scanned by their size, shifted right by this.
    pub priority: u32,
    /// Frames wanted.
    pub wanted: u64,
    /// Whether anonymous pages may go to swap.
    pub may_swap: bool,
    /// Whether it is a daemon that does it.
    pub daemon: bool,
    /// Pages scanned so far.
    pub scanned: u64,
    /// Frames freed so far.
    pub reclaimed: u64,
}

impl Scan {
    pub(super) fn new(highest: ZoneKind, wanted: u64, daemon: bool) -> Scan {
        Scan {
            highest,
            priority: DEF_PRIORITY,
            wanted,
            may_swap: true,
            daemon,
            scanned: 0,
            reclaimed: 0,
        }
    }
}

/// A list of pages in bulk, as `move_pages` isolates them.
type Batch = Vec<PageId>;

impl Machine {
    /// Reclaims from one set of lists at the priority of `scan`, then from the kernel's caches in
    /// proportion (`shrink_slab`).
    pub(super) fn shrink(&mut self, lists: usize, scan: &mut Scan) {
        let (scanned, reclaimed) = (scan.scanned, scan.reclaimed);
        match self.system.settings.policies.reclaims_as_2_6 {
            true => self.shrink_zone(lists, scan),
            false => self.shrink_lruvec(lists, scan),
        }
        self.shrink_slabs(lists, scan, scan.scanned - scanned);
        let (scanned, reclaimed) = (scan.scanned - scanned, scan.reclaimed - reclaimed);
        let counters = &mut self.counters;
        let (scans, steals) = match scan.daemon {
            true => (&mut counters.pgscan_kswapd, &mut counters.pgsteal_kswapd),
            false => (&mut counters.pgscan_direct, &mut counters.pgsteal_direct),
        };
        *scans += scanned;
        *steals += reclaimed;
    }

    /// The four lists of a node as 6.1 shrinks them (`shrink_lruvec`).
    fn shrink_lruvec(&mut self, lists: usize, scan: &mut Scan) {
        let mut left = self.plan(lists, scan);
        while [Kind::InactiveAnon, Kind::ActiveFile, Kind::InactiveFile]
            .into_iter()
            .any(|kind| left[kind as usize] > 0)
        {
            for kind in Kind::ALL {
                let now = left[kind as usize].min(CLUSTER);
                left[kind as usize] -= now;
                if now > 0 {
                    self.shrink_list(lists, kind, now, scan);
                }
            }
            // Direct reclaim at the first priority finishes what it planned, so that lists age
            // in proportion; otherwise enough is enough.
            let proportional = !scan.daemon && scan.priority == DEF_PRIORITY;
            if scan.reclaimed >= scan.wanted && !proportional {
                break;
            }
        }
        if scan.may_swap && self.may_reclaim_anonymous() && self.inactive_is_low(lists, false) {
            self.shrink_active(lists, Kind::ActiveAnon, CLUSTER, scan.highest);
        }
    }

    /// Whether anonymous pages have anywhere to go.
    pub(super) fn may_reclaim_anonymous(&self) -> bool {
        self.swap.available() > 0
    }

    /// The number of pages of each list to scan (`get_scan_count`).
    fn plan(&self, lists: usize, scan: &Scan) -> [u64; 4] {
        let sizes = Kind::ALL.map(|kind| self.lru.size(lists, kind));
        let (free, high) = self.free_and_high(lists);
        let file = sizes[Kind::InactiveFile as usize] + sizes[Kind::ActiveFile as usize];
        let anon_inactive = sizes[Kind::InactiveAnon as usize];
        scan_counts(&balance::Facts {
            sizes,
            priority: scan.priority,
            may_swap: scan.may_swap && self.may_reclaim_anonymous(),
            swappiness: self.scenario.vm.swappiness,
            cost: self.lru.vec(lists).cost,
            file_is_tiny: file + free <= high && anon_inactive >> scan.priority > 0,
            deactivates_file: self.deactivates_file(lists),
        })
    }

    /// Free frames and high watermarks of the zones that share `lists`.
    fn free_and_high(&self, lists: usize) -> (u64, u64) {
        let zones = self.memory.layout.zones();
        let mine = (0..zones.len()).filter(|&zone| self.lru.of_zone(zone) == lists);
        mine.fold((0, 0), |(free, high), zone| {
            let marks = &zones[zone].span.watermarks;
            (free + self.memory.placement.free_frames(zone), high + marks.high)
        })
    }

    /// Whether active file pages are to be deactivated now (`prepare_scan_count`): the inactive
    /// list is low, or pages refaulted since the last look.
    fn deactivates_file(&self, lists: usize) -> bool {
        let vec = self.lru.vec(lists);
        self.inactive_is_low(lists, true) || vec.refaults[1] != vec.refaults_seen[1]
    }

    /// Whether an inactive list is too short for its active one (`inactive_is_low`).
    fn inactive_is_low(&self, lists: usize, file: bool) -> bool {
        let (inactive, active) = match file {
            true => (Kind::InactiveFile, Kind::ActiveFile),
            false => (Kind::InactiveAnon, Kind::ActiveAnon),
        };
        balance::inactive_is_low(self.lru.size(lists, inactive), self.lru.size(lists, active))
    }

    fn shrink_list(&mut self, lists: usize, kind: Kind, count: u64, scan: &mut Scan) {
        match kind {
            Kind::InactiveAnon | Kind::InactiveFile => {
                self.shrink_inactive(lists, kind, count, scan);
            }
            Kind::ActiveFile => {
                if self.deactivates_file(lists) {
                    self.shrink_active(lists, kind, count, scan.highest);
                }
            }
            Kind::ActiveAnon => {
                if self.inactive_is_low(lists, false) {
                    self.shrink_active(lists, kind, count, scan.highest);
                }
            }
        }
    }

    /// Takes up to `count` pages off the tail of a list (`isolate_lru_folios`). Pages of zones that
    /// are of no use go to its head, uncounted.
    fn isolate(&mut self, lists: usize, kind: Kind, count: u64, highest: ZoneKind) -> Batch {
        let mut batch = Vec::with_capacity(count as usize);
        let mut looked = self.lru.size(lists, kind);
        let mut taken = 0;
        while taken < count && looked > 0 {
            let Some(id) = self.lru.list(lists, kind).tail() else { break };
            looked = looked.saturating_sub(self.memory.pages[id].frames());
            self.lru.remove(&mut self.memory.pages, id);
            if self.is_of_use(id, highest) {
                taken += self.memory.pages[id].frames();
                batch.push(id);
            } else {
                self.lru.add(&mut self.memory.pages, lists, id);
            }
        }
        self.spend(self.scenario.costs.scan_ns * batch.len() as u64);
        batch
    }

    fn is_of_use(&self, id: PageId, highest: ZoneKind) -> bool {
        highest == ZoneKind::Movable || {
            let zone = self.memory.zone(id);
            self.memory.layout.zones()[zone].span.kind <= highest
        }
    }

    /// Moves pages from an active list to its inactive one (`shrink_active_list`). Only executable
    /// file pages that were touched get another round.
    fn shrink_active(&mut self, lists: usize, kind: Kind, count: u64, highest: ZoneKind) {
        for id in self.isolate(lists, kind, count, highest) {
            let flags = &mut self.memory.pages[id].flags;
            let touched = flags.take(Flags::YOUNG);
            let keep = touched && kind.is_file() && flags.has(Flags::EXECUTABLE);
            if !keep {
                flags.take(Flags::ACTIVE);
                flags.set(Flags::WORKINGSET);
                self.counters.pgdeactivate += 1;
            }
            self.lru.add(&mut self.memory.pages, lists, id);
        }
    }

    /// Looks at the oldest pages of an inactive list and frees what it can
    /// (`shrink_inactive_list`).
    fn shrink_inactive(&mut self, lists: usize, kind: Kind, count: u64, scan: &mut Scan) {
        let batch = self.isolate(lists, kind, count, scan.highest);
        let (mut scanned, mut reclaimed, mut written) = (0, 0, 0);
        for id in batch {
            scanned += self.memory.pages[id].frames();
            let (frames, io) = self.reclaim_page(lists, id, scan);
            reclaimed += frames;
            written += io;
        }
        scan.scanned += scanned;
        scan.reclaimed += reclaimed;
        self.lru.vec_mut(lists).zone.in_vain += scanned;
        self.note_cost(lists, kind.is_file(), written, scanned - reclaimed);
    }

    /// Frees one page that is off its list, or puts it back (`shrink_folio_list`). Returns the
    /// frames freed and those written.
    pub(super) fn reclaim_page(&mut self, lists: usize, id: PageId, scan: &Scan) -> (u64, u64) {
        let page = &mut self.memory.pages[id];
        let (frames, anonymous) = (page.frames(), page.used_as == Use::Anonymous);
        match judge(page.used_as, &mut page.flags) {
            Verdict::Activate => {
                page.flags.set(Flags::ACTIVE);
                self.counters.pgactivate += 1;
                self.lru.vec_mut(lists).nonresident_age += frames;
            }
            Verdict::Keep => {}
            Verdict::WriteFirst => {
                // The flusher is faster at this than reclaim, page by page, would be.
                page.flags.set(Flags::ACTIVE);
                self.wake_flusher_for_reclaim();
            }
            Verdict::Reclaim => {
                let may_go = !anonymous || (scan.may_swap && self.swap.available() >= frames);
                if may_go {
                    self.evict(lists, id);
                    return (frames, if anonymous { frames } else { 0 });
                }
            }
        }
        self.lru.add(&mut self.memory.pages, lists, id);
        (0, 0)
    }

    /// Takes a page from its process or file and frees it. It must be clean or anonymous, off its
    /// list, and have room in swap if it is anonymous.
    pub(super) fn evict(&mut self, lists: usize, id: PageId) {
        let shadow = self.workingset_eviction(lists, id);
        let page = self.memory.pages[id];
        match page.used_as {
            Use::Anonymous => self.swap_out(id, page.owner, page.index, page.frames(), shadow),
            Use::File => {
                let keeps = self.system.settings.policies.workingset;
                let left = if keeps { Slot::Evicted(shadow) } else { Slot::Absent };
                self.uncache(page.owner, page.index, left);
            }
            other => unreachable!("{other:?} on an LRU list"),
        }
        self.spend(self.scenario.costs.evict_ns);
        self.free(id);
    }

    fn swap_out(&mut self, id: PageId, process: u32, index: u32, frames: u64, shadow: u32) {
        debug_assert!(self.processes[process as usize].holds(index, id), "{id:?}");
        for at in 0..frames as u32 {
            let slot = self.swap.store(u64::from(shadow)).expect("room was asked for");
            self.processes[process as usize].set_swapped(index + at, slot);
        }
        self.counters.pswpout += frames;
        self.counters.thp_swpout += u64::from(frames > 1);
        // Written behind: the disk is busy, the reclaimer continues until too much is queued.
        self.disk.submit(self.clock.now_ns(), frames);
    }

    /// Lets a reclaimer wait for the disk once that has too much to write
    /// (`consider_reclaim_throttle`).
    pub(super) fn throttle(&mut self) {
        const LONG_NS: u64 = 50_000_000;
        let now = self.clock.now_ns();
        let backlog = self.disk.backlog_ns(now);
        if backlog > LONG_NS {
            let until = now + (backlog - LONG_NS).min(2 * LONG_NS);
            self.slice.wait_until_ns = self.slice.wait_until_ns.max(until);
        }
    }
}
