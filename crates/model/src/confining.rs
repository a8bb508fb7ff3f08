//! The regions daemon around Linux, in worlds that drive a placement and nothing else: replays and
//! fleets.
//!
//! Blocks are emptied through the placement. There are no LRU lists: a fleet says how much page
//! cache it has, which is taken to lie among the movable memory evenly, and a replay has none that
//! could be dropped.

use core::ops::Range;
use std::time::Duration;

use prairie_frames::free_area::ORDERS;
use prairie_frames::placement::linux::Linux;
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::zonelist::Depth;
use prairie_frames::placement::{Counter, Placement, Request, Surroundings, forward, gfp};
use prairie_frames::table::State;
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Mobility, Order, ZoneKind};
use prairie_host::Occupancy;
use prairie_host::texts::zoneinfo::ZoneInfo;
use prairie_regions::rest::Free;

use crate::compacting::Compacting;
use crate::regions_daemon::{
    Emptied, Host, Lru, RegionsDaemon, Signals, free_of, occupancy_of, zones_of,
};

/// Time to move a frame out of a block (*measured*: about a second for a full block of 128 MiB, in
/// an emulated machine).
const MOVE: Duration = Duration::from_micros(30);

/// Without a clock, a call of [`Placement::maintain`] counts as one poll later than the one before,
/// up to this long after the last known time: a fleet takes its steps as a whole.
const STEP: Duration = Duration::from_secs(30);

/// The time between two polls of the daemon.
const POLL: Duration = Duration::from_secs(1);

/// A placement of Linux, maybe with something around it.
pub trait AroundLinux: Stepwise {
    /// Linux.
    fn linux(&self) -> &Linux;

    /// Linux, to be changed.
    fn linux_mut(&mut self) -> &mut Linux;
}

impl AroundLinux for Linux {
    fn linux(&self) -> &Linux {
        self
    }

    fn linux_mut(&mut self) -> &mut Linux {
        self
    }
}

impl AroundLinux for Compacting<Linux> {
    fn linux(&self) -> &Linux {
        self.placement()
    }

    fn linux_mut(&mut self) -> &mut Linux {
        self.placement_mut()
    }
}

/// A placement of Linux with the daemon. Its zones are those of the layout without interleaved ones:
/// the last zone of a node stands for the movable one, too.
#[derive(Clone, Debug)]
pub struct Confining<P> {
    placement: P,
    daemon: RegionsDaemon,
    /// For each zone of the layout, those of the placement.
    parts: Vec<Vec<usize>>,
    /// Whether the world tells the time of each call of `maintain`.
    punctual: bool,
    around: Surroundings,
    /// The daemon's time. It ran before the world's began.
    now: Duration,
    origin: Duration,
    /// Frames that reclaim should free so that a block can be emptied.
    wanted: u64,
    moved: u64,
}

impl<P: AroundLinux> Confining<P> {
    /// The daemon around a placement that was made for `layout` with interleaved zones
    /// ([`Layout::with_hotplug`]). `punctual` says that the world tells the time of each call of
    /// [`Placement::maintain`].
    pub fn new(layout: &Layout, placement: P, block_frames: u64, punctual: bool) -> Confining<P> {
        let zones = layout.zones();
        let parts = (0..zones.len()).filter(|&at| !zones[at].interleaved).map(|at| {
            let node = zones[at].span.node;
            let is_last = zones[at + 1..].iter().all(|z| z.interleaved || z.span.node != node);
            let of_node = |&(_, z): &(usize, &prairie_frames::layout::Zone)| {
                is_last && z.interleaved && z.span.node == node
            };
            let more = zones.iter().enumerate().filter(of_node).map(|(at, _)| at);
            std::iter::once(at).chain(more).collect()
        });
        Confining {
            parts: parts.collect(),
            daemon: RegionsDaemon::new(layout, block_frames),
            placement,
            punctual,
            around: Surroundings::default(),
            now: Duration::ZERO,
            origin: Duration::ZERO,
            wanted: 0,
            moved: 0,
        }
    }

    /// The daemon.
    pub fn daemon(&self) -> &RegionsDaemon {
        &self.daemon
    }

    /// The placement.
    pub fn placement(&self) -> &P {
        &self.placement
    }

    /// Lets the daemon do something with the placement as its host.
    fn with_host<T>(
        &mut self,
        table: &mut FrameTable,
        run: impl FnOnce(&mut RegionsDaemon, &mut Placed<'_, P>) -> T,
    ) -> T {
        let Confining { placement, daemon, around, wanted, moved, .. } = self;
        *wanted = 0;
        run(daemon, &mut Placed { placement, table, cache: around.cache, wanted, moved })
    }

    fn sum(&self, zone: usize, of: impl Fn(usize) -> u64) -> u64 {
        self.parts[zone].iter().map(|&part| of(part)).sum()
    }

    /// # Panics
    /// If an unmovable frame lies in the movable zone.
    fn validate_confinement(&self, table: &FrameTable) {
        let linux = self.placement.linux();
        let movable: Vec<bool> = linux.live_zones().map(|zone| zone.interleaved).collect();
        for (at, block) in table.blocks().iter().enumerate() {
            let frame = Frame((at << Order::HUGE.get()) as u32);
            if block.unmovable + block.unknown > 0 {
                let zone = linux.zone_at(frame).expect("zones interleave");
                assert!(!movable[zone], "{frame:?}: unmovable memory in the movable zone");
            }
        }
    }
}

/// Linux as the daemon's host.
struct Placed<'a, P> {
    placement: &'a mut P,
    table: &'a mut FrameTable,
    cache: u64,
    wanted: &'a mut u64,
    moved: &'a mut u64,
}

impl<P: AroundLinux> Placed<'_, P> {
    fn linux(&self) -> &Linux {
        self.placement.linux()
    }

    fn zone_of(&self, frame: Frame) -> usize {
        self.linux().zone_at(frame).expect("zones interleave")
    }

    /// Page cache among this number of movable frames.
    fn cache_of(&self, movable: u64) -> u64 {
        let all: u64 = self.table.blocks().iter().map(|block| u64::from(block.movable)).sum();
        let cache = u128::from(self.cache.min(all)) * u128::from(movable);
        (cache / u128::from(all.max(1))) as u64
    }

    /// Movable frames in each zone.
    fn movable_by_zone(&self) -> Vec<u64> {
        let mut movable = vec![0; self.linux().live_zones().len()];
        for (at, block) in self.table.blocks().iter().enumerate().filter(|(_, b)| b.movable > 0) {
            movable[self.zone_of(Frame((at << Order::HUGE.get()) as u32))] +=
                u64::from(block.movable);
        }
        movable
    }

    /// Frames that the contents of a block can move to at once.
    fn room(&self) -> u64 {
        let zones = self.linux().live_zones().enumerate();
        let room = zones.map(|(at, zone)| {
            let kept = zone.span.lowmem_reserve[ZoneKind::Movable as usize];
            self.linux().free_frames(at).saturating_sub(kept + zone.span.watermarks.min)
        });
        room.sum()
    }

    /// Moves what lies at `from` out of its block; false if it stays.
    fn move_out(&mut self, from: Frame) -> bool {
        let (order, owner) = (self.table.order(from), self.table.owner(from));
        if self.table.mobility(from) != Mobility::Movable {
            return false;
        }
        let request = Request {
            order,
            migrate_type: MigrateType::Movable,
            mobility: Mobility::Movable,
            highest_zone: ZoneKind::Movable,
            gfp_flags: gfp::KERNEL,
            ..Request::default()
        };
        let attempt = |depth| self.placement.attempt(self.table, &request, owner, depth);
        if order <= Order::LARGEST_FREE
            && [Depth::Low, Depth::Min].into_iter().find_map(attempt).is_some()
        {
            self.placement.linux_mut().free(self.table, from, 0);
            *self.moved += order.frames();
            return true;
        }
        if order == Order::BASE {
            return false;
        }
        // Huge pages are split where there are none to move them to.
        self.table.split_allocated(from);
        let half = from.offset(self.table.order(from).frames());
        self.move_out(from) && self.move_out(half)
    }
}

impl<P: AroundLinux> Host for Placed<'_, P> {
    fn zones(&self) -> Vec<ZoneInfo> {
        let movable = self.movable_by_zone();
        let lru: Vec<Lru> = movable
            .into_iter()
            .map(|movable| {
                let file = self.cache_of(movable);
                Lru { anonymous: movable - file, file, unwritten: 0 }
            })
            .collect();
        zones_of(self.linux(), &lru)
    }

    fn free(&self) -> Vec<Free> {
        free_of(self.linux())
    }

    fn signals(&self) -> Signals {
        let [kernel_stalls, user_stalls] = self.linux().stalls();
        Signals { kernel_stalls, user_stalls, ..Signals::default() }
    }

    fn occupancy(&self, block: &Range<Frame>) -> Occupancy {
        let mut found = occupancy_of(self.table, block);
        found.cache = self.cache_of(found.movable);
        found.movable -= found.cache;
        found
    }

    fn is_movable(&self, block: &Range<Frame>) -> bool {
        let zone = self.zone_of(block.start);
        self.linux().live_zones().nth(zone).is_some_and(|zone| zone.interleaved)
    }

    fn empty(&mut self, block: &Range<Frame>, limit: Duration) -> Emptied {
        self.placement.linux_mut().isolate(self.table, block.clone());
        let to_move = occupancy_of(self.table, block).to_move();
        let room = self.room();
        if room < to_move && self.cache > 0 {
            // A real host reclaims page cache as it moves pages.
            *self.wanted = to_move - room;
            self.placement.linux_mut().end_isolation(self.table);
            return Emptied::Later;
        }
        let before = *self.moved;
        let most = limit.as_micros() / MOVE.as_micros();
        let (mut at, mut stays) = (block.start, false);
        while at < block.end && !stays {
            let state = self.table.state(at);
            let order = match state {
                State::Allocated | State::Free => self.table.order(at),
                _ => Order::BASE,
            };
            if state == State::Allocated {
                stays = u128::from(*self.moved - before) >= most || !self.move_out(at);
            }
            at = at.offset(order.frames());
        }
        let took = MOVE * u32::try_from(*self.moved - before).unwrap_or(u32::MAX);
        if stays || !self.linux().is_offline(self.table) {
            self.placement.linux_mut().end_isolation(self.table);
            return Emptied::Refused(took);
        }
        Emptied::Done(took)
    }

    fn online(&mut self, block: &Range<Frame>, movable: bool) -> bool {
        let linux = self.placement.linux_mut();
        if !linux.is_offline(self.table) {
            linux.end_isolation(self.table);
            return false;
        }
        let zone = linux
            .live_zones()
            .position(|zone| zone.interleaved == movable && zone.contains(block.start));
        linux.online(self.table, zone.expect("a zone of the node"));
        true
    }

    fn set_reserve_ratios(&mut self, ratios: [u64; 3]) {
        self.placement.linux_mut().set_reserve_ratios(ratios);
    }
}

impl<P: AroundLinux> Placement for Confining<P> {
    forward! {
        self => self.placement;
        mark_pageblock, seed, allocate, allocate_listed, free, free_singles, pin_block,
        unpin_block, cached_frames,
    }

    /// The daemon starts as early as it can: the regions are set up before anything else happens.
    fn start(&mut self, table: &mut FrameTable) {
        self.placement.start(table);
        self.now = self.with_host(table, |daemon, host| daemon.settle(host));
        self.origin = self.now;
    }

    fn maintain(&mut self, table: &mut FrameTable) {
        self.placement.maintain(table);
        if self.around.now_ns == 0 {
            // Before the world's time begins, as memory in use is placed again, this is its pace.
            self.origin = self.now + POLL;
        }
        let told = self.origin + Duration::from_nanos(self.around.now_ns);
        let now = match self.punctual {
            true => told,
            false => (self.now + POLL).min(told + STEP).max(told),
        };
        if now > self.now {
            self.now = now;
            self.with_host(table, |daemon, host| daemon.advance(host, now));
        }
    }

    fn observe(&mut self, around: Surroundings) {
        self.around = around;
        self.placement.observe(around);
    }

    fn take_boost(&mut self) -> u64 {
        self.placement.take_boost() + std::mem::take(&mut self.wanted)
    }

    /// Kernel requests have the kernel zones; all others have the movable zone and what the kernel
    /// zones do not keep from them.
    fn free_for(&self, mobility: Mobility) -> Option<u64> {
        let linux = self.placement.linux();
        let highest = match mobility {
            Mobility::Movable => ZoneKind::Movable,
            _ => ZoneKind::Normal,
        };
        let zones = linux.live_zones().enumerate().filter(|(_, zone)| zone.span.kind <= highest);
        let usable = zones.map(|(at, zone)| {
            linux.free_frames(at).saturating_sub(zone.span.lowmem_reserve[highest as usize])
        });
        Some(usable.sum())
    }

    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        let parts = self.parts[zone].iter();
        let mut all = parts.map(|&part| self.placement.free_blocks(part));
        let first = all.next().expect("a zone is a part of itself");
        all.fold(first, |mut sum, part| {
            for ((_, sum), (_, part)) in sum.iter_mut().zip(part) {
                sum.iter_mut().zip(part).for_each(|(sum, count)| *sum += count);
            }
            sum
        })
    }

    fn pageblocks(&self, zone: usize) -> Option<[u64; MigrateType::ALL.len()]> {
        let mut parts = self.parts[zone].iter().map(|&part| self.placement.pageblocks(part));
        let first = parts.next().flatten()?;
        Some(parts.flatten().fold(first, |sum, part| std::array::from_fn(|at| sum[at] + part[at])))
    }

    fn free_frames(&self, zone: usize) -> u64 {
        self.sum(zone, |part| self.placement.free_frames(part))
    }

    fn counters(&self) -> Vec<Counter> {
        let zones = self.placement.linux().live_zones();
        let movable: u64 = zones.filter(|z| z.interleaved).map(|z| z.span.managed).sum();
        let counter = |name, meaning, value| Counter { name, meaning, value };
        let mut counters: Vec<Counter> = self.daemon.counters().into();
        counters.push(counter("movable_zone_frames", "frames of the movable zone", movable));
        counters.push(counter(
            "blocks_frames_moved",
            "frames moved out of memory blocks",
            self.moved,
        ));
        counters.extend(self.placement.counters());
        counters
    }

    fn validate(&self, table: &FrameTable) {
        self.placement.validate(table);
        self.validate_confinement(table);
    }
}

impl<P: AroundLinux> Stepwise for Confining<P> {
    forward! {
        self => self.placement;
        attempt, drain, may_mix, take_block, give_block, pageblock_type,
    }

    fn free_counts(&self, zone: usize) -> [u64; ORDERS] {
        let parts = self.parts[zone].iter().map(|&part| self.placement.free_counts(part));
        parts.fold([0; ORDERS], |sum, part| std::array::from_fn(|order| sum[order] + part[order]))
    }

    fn watermark_ok(&self, zone: usize, order: Order, mark: u64, highest: ZoneKind) -> bool {
        self.parts[zone].iter().any(|&part| self.placement.watermark_ok(part, order, mark, highest))
    }
}
