//! Memory blocks of the machine, moved between zones by the regions daemon
//! ([`prairie_model::regions_daemon`]): what it sees of the machine, and how a block is emptied
//! (`offline_pages`, `do_migrate_range`).

use std::ops::Range;
use std::time::Duration;

use prairie_frames::placement::linux::Linux;
use prairie_frames::placement::{Request, gfp};
use prairie_frames::table::State;
use prairie_frames::{Frame, MigrateType, Mobility, Order, ZoneKind};
use prairie_host::Occupancy;
use prairie_host::texts::zoneinfo::ZoneInfo;
use prairie_model::regions_daemon::{Emptied, Host, Lru, Signals, free_of, zones_of};
use prairie_regions::rest::Free;

use super::Machine;
use super::clock::Next;
use super::page::{Flags, PageId, Use};
use prairie_model::allocator::MachinePlacement;

/// The result of an attempt to move a page out of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// It lies elsewhere, or was freed.
    Gone,
    /// It lies in two halves that can be moved one by one.
    Split,
    /// It stays.
    Stays,
}

impl Machine {
    /// The daemon does what is due.
    pub(super) fn run_regions_daemon(&mut self) -> Next {
        let Some(mut daemon) = self.regions_daemon.take() else { return Next::Wait };
        let now = Duration::from_nanos(self.clock.now_ns());
        let next = daemon.advance(self, now);
        self.regions_daemon = Some(daemon);
        let done = self.clock.now_ns() + self.slice.spent_ns;
        Next::SleepUntil(u64::try_from(next.as_nanos()).unwrap_or(u64::MAX).max(done))
    }

    fn hotplugged(&self) -> &Linux {
        match &self.memory.placement {
            MachinePlacement::Linux(linux) => linux,
            _ => unreachable!("only Linux has memory blocks that change zones"),
        }
    }

    fn hotplugged_mut(&mut self) -> (&mut Linux, &mut prairie_frames::FrameTable) {
        match &mut self.memory.placement {
            MachinePlacement::Linux(linux) => (linux, &mut self.memory.table),
            _ => unreachable!("only Linux has memory blocks that change zones"),
        }
    }

    /// Sizes, watermarks, and reserves of the zones have changed.
    fn take_over_zones(&mut self) {
        let spans: Vec<_> = self.hotplugged().live_zones().map(|zone| zone.span.clone()).collect();
        for (zone, span) in spans.iter().enumerate() {
            self.memory.layout.update(zone, span);
        }
    }

    /// What is on LRU lists, by zone. Time linear in pages.
    fn lru_by_zone(&self) -> Vec<Lru> {
        let mut zones = vec![Lru::default(); self.memory.layout.zones().len()];
        for id in self.memory.pages.in_use() {
            let page = &self.memory.pages[id];
            if !page.is_lru() {
                continue;
            }
            let lru = &mut zones[self.memory.zone(id)];
            let frames = page.frames();
            if page.used_as == Use::Anonymous {
                lru.anonymous += frames;
                continue;
            }
            lru.file += frames;
            if page.flags.has(Flags::DIRTY | Flags::WRITEBACK) {
                lru.unwritten += frames;
            }
        }
        zones
    }

    /// Moves what begins at `from` to memory outside the isolated block.
    fn leave_block(&mut self, from: Frame, order: Order) -> Left {
        let page = self.memory.page_at(from).expect("a block in use");
        if !self.memory.pages[page].is_lru() {
            return Left::Stays;
        }
        if self.memory.pages[page].flags.has(Flags::WRITEBACK) {
            self.wait_for_writeback(page);
        }
        let patience = if order == Order::BASE { gfp::RETRY_MAYFAIL } else { gfp::NORETRY };
        let request = Request {
            order,
            migrate_type: MigrateType::Movable,
            mobility: Mobility::Movable,
            highest_zone: ZoneKind::Movable,
            gfp_flags: gfp::KERNEL | patience,
            ..Request::default()
        };
        let target = self.allocate(&request);
        // Reclaim may have taken the page itself.
        let is_there =
            self.memory.page_at(from) == Some(page) && self.memory.table.order(from) == order;
        match (target, is_there) {
            (Some(target), true) => {
                self.relocate(from, order, target);
                self.memory.placement.give_block(&mut self.memory.table, from, order);
                Left::Gone
            }
            (target, false) => {
                self.put_back(target);
                Left::Gone
            }
            (None, true) if order > Order::BASE && self.memory.pages.is_in_parts(page) => {
                self.memory.table.split_allocated(from);
                Left::Split
            }
            (None, true) => Left::Stays,
        }
    }

    fn put_back(&mut self, target: Option<PageId>) {
        if let Some(target) = target {
            self.memory.give(target, self.slice.cpu);
        }
    }

    /// Moves out what is in an isolated block, as long as the time lasts; false if something stays.
    fn leave_all(&mut self, block: &Range<Frame>, until_ns: u64) -> bool {
        let mut at = block.start;
        while at < block.end {
            let (state, order) = (self.memory.table.state(at), self.memory.table.order(at));
            match state {
                State::Allocated => match self.leave_block(at, order) {
                    Left::Gone | Left::Split
                        if self.slice.time_ns(self.clock.now_ns()) > until_ns =>
                    {
                        return false;
                    }
                    // The same place is checked again.
                    Left::Gone | Left::Split => {}
                    Left::Stays => return false,
                },
                State::Free => at = at.offset(order.frames()),
                _ => at = at.offset(1),
            }
        }
        true
    }

    /// # Panics
    /// If an unmovable frame lies in the movable zone.
    pub(super) fn validate_confinement(&self) {
        let zones = self.memory.layout.zones();
        for (at, block) in self.memory.table.blocks().iter().enumerate() {
            let frame = Frame((at << Order::HUGE.get()) as u32);
            if block.unmovable + block.unknown > 0
                && let Some(zone) = self.memory.placement.zone_at(frame)
            {
                assert!(!zones[zone].interleaved, "{frame:?}: unmovable in the movable zone");
            }
        }
    }
}

impl Host for Machine {
    fn zones(&self) -> Vec<ZoneInfo> {
        let mut zones = zones_of(self.hotplugged(), &self.lru_by_zone());
        // The kernel counts what it lies in as present, and not as managed.
        let (home, frames) = self.memory.reserved;
        let home = self.memory.layout.zones()[home].span.kind;
        for zone in zones.iter_mut().filter(|zone| zone.id.node == 0 && zone.id.kind == home) {
            zone.managed_frames -= frames;
        }
        zones
    }

    fn free(&self) -> Vec<Free> {
        free_of(self.hotplugged())
    }

    fn signals(&self) -> Signals {
        let counters = self.counters();
        Signals {
            kernel_stalls: counters.allocstall_dma
                + counters.allocstall_dma32
                + counters.allocstall_normal,
            user_stalls: counters.allocstall_movable,
            psi_us: self.upkeep.stalled_ns() / 1000,
            oom_kills: counters.oom_kill,
            swap_free: self.swap.available(),
            hugetlb: self.memory.pages.frames_used_as(Use::HugeTlb),
        }
    }

    /// Page flags show the kinds of memory as they show them of a real host: kernel memory that is
    /// neither slab nor page table has none, and neither have frames on per-CPU lists.
    fn occupancy(&self, block: &Range<Frame>) -> Occupancy {
        let mut found = Occupancy::default();
        let mut at = block.start;
        while at < block.end {
            let table = &self.memory.table;
            let (state, mut frames) = (table.state(at), table.order(at).frames());
            let field = match state {
                State::Free => &mut found.free,
                State::Cached => &mut found.unflagged,
                State::Allocated => {
                    let page = self.memory.page_at(at).expect("a block in use");
                    match self.memory.pages[page].used_as {
                        Use::Anonymous => &mut found.movable,
                        Use::File => &mut found.cache,
                        Use::HugeTlb => &mut found.hugetlb,
                        Use::Slab | Use::PageTable | Use::Pinned => &mut found.unmovable,
                        Use::Stack | Use::Kernel | Use::Nothing => &mut found.unflagged,
                    }
                }
                State::Reserved => &mut found.reserved,
                State::Absent => &mut found.absent,
                // On its way between lists.
                State::Inside => {
                    frames = 1;
                    &mut found.unflagged
                }
            };
            *field += frames;
            at = at.offset(frames);
        }
        found
    }

    fn is_movable(&self, block: &Range<Frame>) -> bool {
        let zone = self.memory.placement.zone_at(block.start).expect("zones interleave");
        self.memory.layout.zones()[zone].interleaved
    }

    fn empty(&mut self, block: &Range<Frame>, limit: Duration) -> Emptied {
        let now = self.clock.now_ns();
        let begun = self.slice.time_ns(now);
        let (linux, table) = self.hotplugged_mut();
        linux.isolate(table, block.clone());
        let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        let emptied = self.leave_all(block, begun.saturating_add(limit_ns));
        let took = Duration::from_nanos(self.slice.time_ns(now) - begun);
        let (linux, table) = self.hotplugged_mut();
        if emptied && linux.is_offline(table) {
            return Emptied::Done(took);
        }
        linux.end_isolation(table);
        Emptied::Refused(took)
    }

    fn online(&mut self, block: &Range<Frame>, movable: bool) -> bool {
        let (linux, table) = self.hotplugged_mut();
        if !linux.is_offline(table) {
            linux.end_isolation(table);
            return false;
        }
        let zone = linux
            .live_zones()
            .position(|zone| zone.interleaved == movable && zone.contains(block.start));
        linux.online(table, zone.expect("a zone of the node"));
        self.take_over_zones();
        true
    }

    fn set_reserve_ratios(&mut self, ratios: [u64; 3]) {
        self.hotplugged_mut().0.set_reserve_ratios(ratios);
        self.take_over_zones();
    }
}
