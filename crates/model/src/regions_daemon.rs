//! The regions daemon on a simulated host: the policy of `prairie regions`, with memory blocks of a
//! simulated Linux in place of those in `/sys/devices/system/memory`.
//!
//! What is decided, and from what, is the daemon's own code: a [`Host`] reports its zones as
//! `/proc/zoneinfo` does and what fills its blocks as `/proc/kpageflags` does, [`Sample::of`] reads
//! them, [`Policy`] decides. This file has the loop of `prairie_regions::daemon` without files: one
//! operation at a time, polls, and glances in between that find bursts.
//!
//! ```text
//! sample ──► decide ──► empty a block ── its time passes ──► online in the other zone ──► sample
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use prairie_frames::layout::Watermarks;
use prairie_frames::placement::linux::Linux;
use prairie_frames::placement::{Counter, Placement};
use prairie_frames::{BlockCounts, Frame, FrameTable, Layout, ZoneKind};
use prairie_host::Occupancy;
use prairie_host::texts::ZoneId;
use prairie_host::texts::zoneinfo::{self, PerCpuList, ZoneInfo};
use prairie_regions::policy::Finished;
use prairie_regions::ratios::{self, DEFAULT_LOWER, DEFAULT_RATIO};
use prairie_regions::rest::{Free, Glance, Rest};
use prairie_regions::sample::Sources;
use prairie_regions::{Block, Config, Place, Policy, Reason, Sample, Step};

/// Between polls, free memory is checked this often, as the daemon does.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Between two operations of the setup, as the daemon has it.
const SETUP_PAUSE: Duration = Duration::from_millis(50);

/// Time to offline and online a block in which nothing has to be moved, whatever its size, and more
/// of it for each 128 MiB (*measured*: 20 to 60 ms for 128 MiB, 50 to 100 ms for 2 GiB).
const EMPTY: Duration = Duration::from_millis(30);
const EMPTY_128_MIB: Duration = Duration::from_millis(3);

/// Frames of 128 MiB, the smallest memory block.
pub const SMALLEST_BLOCK: u64 = 1 << 15;

/// What only the machine around a placement knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signals {
    /// Direct reclaims by kernel requests since boot.
    pub kernel_stalls: u64,
    /// Direct reclaims by requests for movable memory since boot.
    pub user_stalls: u64,
    /// Microseconds stalled since boot.
    pub psi_us: u64,
    /// Processes killed for lack of memory since boot.
    pub oom_kills: u64,
    /// Free swap in frames.
    pub swap_free: u64,
    /// Frames in pools of huge pages.
    pub hugetlb: u64,
}

/// How an attempt to empty a block ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emptied {
    /// Nothing in it is in use. Moving its contents took this long.
    Done(Duration),
    /// Something in it stays, or found no room; the block is in its zone as before.
    Refused(Duration),
    /// There is no room yet; reclaim was asked for some.
    Later,
}

/// A simulated host with memory blocks.
pub trait Host {
    /// Its zones, as `/proc/zoneinfo` shows them.
    fn zones(&self) -> Vec<ZoneInfo>;

    /// Free frames of its nodes, as a glance at `/proc/buddyinfo` shows them.
    fn free(&self) -> Vec<Free>;

    /// What else is sampled.
    fn signals(&self) -> Signals;

    /// What fills a block.
    fn occupancy(&self, block: &Range<Frame>) -> Occupancy;

    /// Whether a block is of the movable zone now.
    fn is_movable(&self, block: &Range<Frame>) -> bool;

    /// Isolates a block and moves out what is in it, within a time limit.
    fn empty(&mut self, block: &Range<Frame>, limit: Duration) -> Emptied;

    /// Puts the block that was emptied online: in the movable zone, or in the kernel zone that it
    /// was in at boot. False if something came to lie in it meanwhile; then it stays where it is.
    fn online(&mut self, block: &Range<Frame>, movable: bool) -> bool;

    /// Sets `vm.lowmem_reserve_ratio` of ZONE_DMA, ZONE_DMA32, and ZONE_NORMAL.
    fn set_reserve_ratios(&mut self, ratios: [u64; 3]);
}

/// What the daemon did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conversions {
    /// Blocks that went to the kernel zones.
    pub to_kernel: u64,
    /// Blocks that went to the movable zone.
    pub to_movable: u64,
    /// Conversions that failed.
    pub refused: u64,
}

/// An operation under way.
#[derive(Clone, Copy, Debug)]
struct Current {
    block: u64,
    node: u32,
    to: Place,
    reason: Reason,
    begun: Duration,
    /// There was no room at first.
    waits: bool,
    /// When it ends and whether the block is empty; nothing while there is no room.
    ends: Option<(Duration, bool)>,
}

/// The daemon.
#[derive(Clone, Debug)]
pub struct RegionsDaemon {
    config: Config,
    policy: Policy,
    block_frames: u64,
    blocks: Vec<Block>,
    ranges: BTreeMap<u64, Range<Frame>>,
    rest: Rest,
    sampled: Option<Duration>,
    pause_until: Duration,
    current: Option<Current>,
    ratios: Option<[u64; 3]>,
    conversions: Conversions,
}

impl RegionsDaemon {
    /// The daemon with its shipped configuration, on a machine with blocks of `block_frames`.
    pub fn new(layout: &Layout, block_frames: u64) -> RegionsDaemon {
        let config = Config::default();
        let mut daemon = RegionsDaemon {
            policy: Policy::new(&config, block_frames),
            config,
            block_frames,
            blocks: Vec::new(),
            ranges: BTreeMap::new(),
            rest: Rest::default(),
            sampled: None,
            pause_until: Duration::ZERO,
            current: None,
            ratios: None,
            conversions: Conversions::default(),
        };
        daemon.list(layout);
        daemon
    }

    /// Notes the memory blocks: whole ones in a DMA32 or Normal zone.
    fn list(&mut self, layout: &Layout) {
        for zone in layout.zones().iter().filter(|zone| !zone.interleaved) {
            if !matches!(zone.span.kind, ZoneKind::Dma32 | ZoneKind::Normal) {
                continue;
            }
            let end = zone.span.start.0 + zone.span.spanned;
            let first = zone.span.start.0.div_ceil(self.block_frames);
            for number in first..end / self.block_frames {
                let pfn = prairie_frames::Pfn(number * self.block_frames);
                let start = layout.frame(pfn).expect("a frame of the zone");
                self.ranges.insert(number, start..start.offset(self.block_frames));
                self.blocks.push(Block {
                    number,
                    node: u32::from(zone.span.node),
                    place: Place::Kernel,
                    occupancy: None,
                    scanned: Duration::ZERO,
                });
            }
        }
        self.blocks.sort_by_key(|block| block.number);
    }

    /// What it did so far.
    pub fn conversions(&self) -> Conversions {
        self.conversions
    }

    /// The same for reports.
    pub fn counters(&self) -> [Counter; 3] {
        let counter = |name, meaning, value| Counter { name, meaning, value };
        let Conversions { to_kernel, to_movable, refused } = self.conversions;
        [
            counter("blocks_to_kernel", "memory blocks that went to the kernel zones", to_kernel),
            counter("blocks_to_movable", "memory blocks that went to the movable zone", to_movable),
            counter("blocks_refused", "memory blocks that could not be emptied", refused),
        ]
    }

    /// Whether a block is between its zones.
    pub fn is_busy(&self) -> bool {
        self.current.is_some()
    }

    /// The frames of a block that is between its zones.
    pub fn offline(&self) -> Option<Range<Frame>> {
        let current = self.current.filter(|current| matches!(current.ends, Some((_, true))))?;
        Some(self.ranges[&current.block].clone())
    }

    /// Does what is due by `now`; returns when the next thing is.
    pub fn advance(&mut self, host: &mut impl Host, now: Duration) -> Duration {
        let mut at = now;
        loop {
            match self.current {
                Some(Current { ends: Some((ends, _)), .. }) if ends > now => return ends,
                Some(Current { ends: Some((ends, emptied)), .. }) => {
                    at = ends;
                    self.finish(host, emptied, at);
                }
                Some(_) => {
                    if !self.empty(host, now) {
                        return now + LOOK_EVERY;
                    }
                    continue;
                }
                None => {}
            }
            if at < self.pause_until {
                if self.pause_until > now {
                    return self.pause_until;
                }
                at = self.pause_until;
            }
            let free = host.free();
            let poll = self.config.daemon.poll;
            let due = self.sampled.is_none_or(|sampled| at >= sampled + poll);
            if !due && !self.rest.is_burst(&free, self.block_frames) {
                let next = self.sampled.expect("sampled before") + poll;
                return next.min(now + LOOK_EVERY);
            }
            self.sample(host, at);
            self.rest.begin(Glance { nodes: free, cache: 0 }, at, false);
            self.decide(host, at);
            if self.current.is_none() {
                return at.max(now) + LOOK_EVERY.min(poll);
            }
        }
    }

    /// Runs until the regions are set up and nothing more is to be done; returns how long that took.
    pub fn settle(&mut self, host: &mut impl Host) -> Duration {
        /// More operations than any machine has blocks.
        const ENOUGH: usize = 1 << 20;
        let (mut now, mut idle) = (Duration::ZERO, 0);
        for _ in 0..ENOUGH {
            let next = self.advance(host, now);
            idle = if self.is_busy() || now < self.pause_until { 0 } else { idle + 1 };
            // A few polls without an operation.
            if idle > 8 {
                break;
            }
            now = next.max(now + Duration::from_nanos(1));
        }
        now
    }

    fn sample(&mut self, host: &mut impl Host, at: Duration) {
        let zones = host.zones();
        let signals = host.signals();
        let events = [
            ("allocstall_normal", signals.kernel_stalls),
            ("allocstall_movable", signals.user_stalls),
            ("oom_kill", signals.oom_kills),
        ];
        let events = events.map(|(name, count)| (name.to_owned(), count)).into();
        let page_bytes = prairie_regions::sample::page_bytes();
        let sources = Sources {
            zones: &zones,
            vmstat: &events,
            psi_us: signals.psi_us,
            swap_free_bytes: signals.swap_free * page_bytes,
            hugetlb_bytes: signals.hugetlb * page_bytes,
        };
        let sample = Sample::of(at, sources);
        self.policy.sample(&sample);
        self.sampled = Some(at);
        if sample.nodes.iter().any(|node| node.movable.managed > 0) {
            self.lease(host, at);
        }
        for block in &mut self.blocks {
            let movable = host.is_movable(&self.ranges[&block.number]);
            block.place = if movable { Place::Movable } else { Place::Kernel };
            // Blocks are read once to begin with, and later when the policy asks.
            if block.occupancy.is_none() {
                block.occupancy = Some(host.occupancy(&self.ranges[&block.number]));
                block.scanned = at;
            }
        }
    }

    /// Sets the kernel's reserves as the regions need them, unless they are nearly so.
    fn lease(&mut self, host: &mut impl Host, at: Duration) {
        let reserves = self.policy.reserves();
        let setting = self.config.settings.lowmem_reserve_ratio;
        let Some(wanted) = ratios::ratios(setting, &reserves, self.policy.borrows(at)) else {
            return;
        };
        let normal = reserves.iter().any(|(node, _)| node.kernel.normal > 0);
        let [dma32, upper] = match normal {
            true => [wanted.lower.unwrap_or(DEFAULT_LOWER), wanted.upper],
            false => [wanted.upper, DEFAULT_RATIO],
        };
        let ratios = [DEFAULT_LOWER, dma32, upper];
        let differs = |(now, wanted): (&u64, &u64)| now.abs_diff(*wanted) * 4 > *now;
        if self.ratios.is_none_or(|now| now.iter().zip(&ratios).any(differs)) {
            self.ratios = Some(ratios);
            host.set_reserve_ratios(ratios);
        }
    }

    /// Asks the policy and begins what it says.
    fn decide(&mut self, host: &mut impl Host, at: Duration) {
        // As often as it may ask to read what fills blocks.
        for _ in 0..4 {
            match self.policy.next(&self.blocks, at) {
                Step::Scan(wanted) => {
                    for block in self.blocks.iter_mut().filter(|b| wanted.contains(&b.number)) {
                        block.occupancy = Some(host.occupancy(&self.ranges[&block.number]));
                        block.scanned = at;
                    }
                }
                Step::Convert { block, to, reason } => {
                    let found = self.blocks.binary_search_by_key(&block, |known| known.number);
                    let node = self.blocks[found.expect("a known block")].node;
                    self.policy.began(block);
                    self.current = Some(Current {
                        block,
                        node,
                        to,
                        reason,
                        begun: at,
                        waits: false,
                        ends: None,
                    });
                    return;
                }
                // There are no empty slabs to free, and no block stays offline.
                Step::Wait | Step::Drain | Step::Online(_) => return,
            }
        }
    }

    /// Tries to empty the block of the current operation; whether that is over.
    fn empty(&mut self, host: &mut impl Host, now: Duration) -> bool {
        let limit = self.config.limits.operation_time;
        let Some(current) = &mut self.current else { return false };
        let range = &self.ranges[&current.block];
        let parts = u32::try_from(self.block_frames / SMALLEST_BLOCK).unwrap_or(u32::MAX);
        let empty = EMPTY + EMPTY_128_MIB * parts;
        let at = if current.waits { now } else { current.begun };
        current.ends = match host.empty(range, limit) {
            Emptied::Done(took) => Some((at + empty + took, true)),
            Emptied::Refused(took) => Some((at + took.min(limit), false)),
            Emptied::Later if now >= current.begun + limit => Some((now, false)),
            Emptied::Later => {
                current.waits = true;
                None
            }
        };
        current.ends.is_some()
    }

    fn finish(&mut self, host: &mut impl Host, emptied: bool, at: Duration) {
        let Some(Current { block, node, to, reason, begun, .. }) = self.current.take() else {
            return;
        };
        let range = &self.ranges[&block];
        let done = emptied && host.online(range, to == Place::Movable);
        match (done, to) {
            (false, _) => self.conversions.refused += 1,
            (true, Place::Movable) => self.conversions.to_movable += 1,
            (true, _) => self.conversions.to_kernel += 1,
        }
        let took = at.saturating_sub(begun);
        self.policy.finished(node, Finished { block, to, done, took }, at);
        // The zones have changed: everything is read again at once.
        self.sampled = None;
        if let Ok(found) = self.blocks.binary_search_by_key(&block, |known| known.number) {
            self.blocks[found].occupancy = None;
        }
        if reason == Reason::Setup {
            self.pause_until = at + SETUP_PAUSE;
        }
    }
}

/// Frames on LRU lists that lie in a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lru {
    /// Anonymous memory.
    pub anonymous: u64,
    /// Page cache.
    pub file: u64,
    /// Of that, pages that are not clean.
    pub unwritten: u64,
}

/// The zones of Linux as `/proc/zoneinfo` shows them, as far as the daemon reads it. `lru` is by
/// zone.
pub fn zones_of(linux: &Linux, lru: &[Lru]) -> Vec<ZoneInfo> {
    let mut zones: Vec<ZoneInfo> = linux
        .live_zones()
        .zip(lru)
        .enumerate()
        .map(|(at, (zone, lru))| {
            let span = &zone.span;
            let counters = [
                ("nr_zone_inactive_anon", lru.anonymous),
                ("nr_zone_inactive_file", lru.file),
                ("nr_zone_write_pending", lru.unwritten),
            ];
            let lists = PerCpuList { count: linux.cached_frames_of(at), ..PerCpuList::default() };
            let Watermarks { min, low, high } = span.watermarks;
            ZoneInfo {
                id: ZoneId { node: u32::from(span.node), kind: span.kind },
                start: span.start,
                spanned_frames: span.spanned,
                present_frames: span.managed,
                managed_frames: span.managed,
                free_frames: linux.free_frames(at),
                watermarks: zoneinfo::Watermarks { boost: linux.boost(at), min, low, high },
                lowmem_reserve_frames: span.lowmem_reserve.to_vec(),
                per_cpu_lists: vec![lists],
                counters: counters.map(|(name, frames)| (name.to_owned(), frames)).into(),
                node_counters: BTreeMap::new(),
            }
        })
        .collect();
    zones.sort_by_key(|zone| (zone.id.node, zone.id.kind));
    // A reserve is listed for each of the node's zones, in their order.
    let kinds: Vec<(u32, ZoneKind)> =
        zones.iter().map(|zone| (zone.id.node, zone.id.kind)).collect();
    for zone in &mut zones {
        let reserves = std::mem::take(&mut zone.lowmem_reserve_frames);
        let own = kinds.iter().filter(|(node, _)| *node == zone.id.node);
        zone.lowmem_reserve_frames = own.map(|(_, kind)| reserves[*kind as usize]).collect();
    }
    zones
}

/// Free frames of each node of Linux: in its kernel zones, and in its movable zone.
pub fn free_of(linux: &Linux) -> Vec<Free> {
    let mut nodes: BTreeMap<u32, Free> = BTreeMap::new();
    for (at, zone) in linux.live_zones().enumerate() {
        let node = u32::from(zone.span.node);
        let free = nodes.entry(node).or_insert(Free { node, ..Free::default() });
        match zone.span.kind {
            ZoneKind::Movable => free.movable += linux.free_frames(at),
            _ => free.kernel += linux.free_frames(at),
        }
    }
    nodes.into_values().collect()
}

/// What fills a block, from the frame table alone: all movable memory counts as anonymous.
pub fn occupancy_of(table: &FrameTable, block: &Range<Frame>) -> Occupancy {
    let mut found = Occupancy::default();
    for counts in &table.blocks()[block.start.pageblock()..block.end.pageblock()] {
        found.free += u64::from(counts.free);
        found.movable += u64::from(counts.movable);
        found.unmovable += u64::from(counts.unmovable);
        found.unflagged += u64::from(counts.unknown);
        found.absent += u64::from(BlockCounts::FRAMES - counts.present());
    }
    found
}
