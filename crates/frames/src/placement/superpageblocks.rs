//! `superpageblocks`: gigabytes that are kept clean of unmovable memory, after the series that was
//! proposed to Linux in 2026 ("1GB superpageblock memory allocation", "mm: reliable 1GB page
//! allocation").
//!
//! Memory is divided into blocks of 1 GiB. One is *tainted* while a pageblock of it is unmovable or
//! reclaimable, and *clean* otherwise.
//!
//! - Unmovable and reclaimable requests go to tainted superpageblocks, the fullest first, and taint
//!   another one only when no tainted one has room.
//! - Movable requests go to clean superpageblocks, the fullest first, so that others become wholly
//!   free; then to what is left in tainted ones.
//! - Within a superpageblock, pageblocks have types, and change them much as in Linux. A whole free
//!   pageblock is claimed first. A movable request otherwise claims a pageblock that is at least
//!   half free or movable, or borrows a block; any other request claims the pageblock that it has
//!   to break into.
//! - A worker keeps pageblocks free in tainted superpageblocks, by migrating movable pages out of
//!   them, so that the next unmovable requests need not taint a clean one (`defrag.rs`).
//!
//! There is no border and nothing is confined: a burst of unmovable memory taints as many gigabytes
//! as it needs, and taint lasts until the last such pageblock is free.
//!
//! Each superpageblock has its own free lists, as in the final series. Finding the one to take from
//! costs a search, and the cost of the search was the open question: `searches` and `searched`
//! count it. The one that served a type last is tried first; a search checks every superpageblock
//! of the zone.

mod block;
mod defrag;
mod stepwise;

use alloc::vec;
use alloc::vec::Vec;

use self::block::Superpageblock;
use super::reached::{Reached, reach};
use super::zonelist::{Depth, Zonelists};
use super::{Counter, Placement, Request};
use crate::layout::{Frame, Layout, Zone};
use crate::table::{FrameTable, Owner};
use crate::{MigrateType, Order};

/// Types that pageblocks have, as indices of free lists.
const TYPES: usize = 3;

/// The tunable part of [`Superpageblocks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The worker starts when a tainted superpageblock has no more free pageblocks than this. The
    /// series has 1.
    pub defrag_below: u32,
    /// And stops when it has as many as this. The series has 2.
    pub defrag_until: u32,
    /// Pageblocks that the worker empties at most in one call of
    /// [`maintain`](Placement::maintain).
    pub defrag_pageblocks: u32,
    /// Whether a request that would taint a clean superpageblock first waits for a pageblock of a
    /// tainted one to be emptied. The series taints at once, and leaves the rest to the worker.
    pub evacuate_first: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config { defrag_below: 1, defrag_until: 2, defrag_pageblocks: 16, evacuate_first: false }
    }
}

/// The allocator with superpageblocks.
#[derive(Clone, Debug)]
pub struct Superpageblocks {
    zones: Vec<SuperZone>,
    zonelists: Zonelists,
    config: Config,
    counts: Counts,
}

#[derive(Clone, Debug)]
struct SuperZone {
    zone: Zone,
    blocks: Vec<Superpageblock>,
    /// By type, the superpageblock that served it last.
    last: [usize; TYPES],
    free_frames: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    reached: Reached,
    searches: u64,
    searched: u64,
    tainted: u64,
    tainted_for_order: u64,
    cleaned: u64,
    claimed: u64,
    borrowed: u64,
    pages_moved: u64,
    pageblocks_emptied: u64,
    waited: u64,
}

/// The list of a request's type.
fn list_of(migrate_type: MigrateType) -> usize {
    match migrate_type {
        MigrateType::Movable | MigrateType::Cma => MigrateType::Movable.index(),
        MigrateType::Reclaimable => MigrateType::Reclaimable.index(),
        _ => MigrateType::Unmovable.index(),
    }
}

const MOVABLE: usize = MigrateType::Movable.index();

impl Superpageblocks {
    /// An allocator for `layout` that has no memory yet.
    pub fn new(layout: &Layout, config: Config) -> Superpageblocks {
        let zones = layout.zones().iter().map(SuperZone::new).collect();
        let zonelists = Zonelists::new(layout);
        Superpageblocks { zones, zonelists, config, counts: Counts::default() }
    }

    /// Superpageblocks with memory that are clean, and that are tainted.
    pub fn clean_and_tainted(&self) -> (usize, usize) {
        let all = self.zones.iter().flat_map(|zone| &zone.blocks).filter(|block| block.managed > 0);
        let (tainted, clean): (Vec<_>, Vec<_>) = all.partition(|block| block.is_tainted());
        (clean.len(), tainted.len())
    }

    fn zone_of(&self, frame: Frame) -> usize {
        let zone = self.zones.iter().position(|zone| zone.zone.contains(frame));
        zone.expect("a frame outside every zone")
    }

    /// Frees a block that is on no list.
    fn give(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        let zone = self.zone_of(frame);
        let zone = &mut self.zones[zone];
        zone.free_frames += order.frames();
        let at = zone.number(frame);
        let block = &mut zone.blocks[at];
        let was = block.is_tainted();
        block.give(table, frame, order);
        self.counts.cleaned += u64::from(was && !block.is_tainted());
    }
}

impl SuperZone {
    fn new(zone: &Zone) -> SuperZone {
        let first = zone.start.align_down(Order::GIGANTIC).0;
        let starts = (first..zone.end.0).step_by(Order::GIGANTIC.frames() as usize);
        let blocks = starts.map(|start| {
            let end = (u64::from(start) + Order::GIGANTIC.frames()).min(u64::from(zone.end.0));
            Superpageblock::new(Frame(start.max(zone.start.0))..Frame(end as u32))
        });
        let (zone, blocks) = (zone.clone(), blocks.collect());
        SuperZone { zone, blocks, last: [0; TYPES], free_frames: 0 }
    }

    /// The superpageblock of a frame of this zone.
    fn number(&self, frame: Frame) -> usize {
        let first = self.zone.start.0 >> Order::GIGANTIC.get();
        (frame.0 >> Order::GIGANTIC.get()) as usize - first as usize
    }

    fn allows(&self, request: &Request, depth: Depth) -> bool {
        let mark = match depth {
            Depth::Low => self.zone.span.watermarks.low,
            Depth::Min => self.zone.span.watermarks.min,
            Depth::All => return true,
        };
        let kept = mark + self.zone.span.lowmem_reserve[request.highest_zone as usize];
        self.free_frames > kept + request.order.frames() - 1
    }

    /// A block from wherever the type is best served: how, in order of preference, and then the
    /// fullest superpageblock that can.
    fn take(
        &mut self,
        table: &mut FrameTable,
        order: Order,
        list: usize,
        counts: &mut Counts,
    ) -> Option<Frame> {
        let last = &mut self.blocks[self.last[list]];
        let frame = if last.is_tainted() != (list == MOVABLE) && last.has_own(order, list) {
            last.take_own(table, order, list)
        } else {
            let at = self.search(order, list, counts)?;
            self.last[list] = at;
            let was = self.blocks[at].is_tainted();
            let frame = self.blocks[at].take(table, order, list, counts);
            if !was && self.blocks[at].is_tainted() {
                let room = self.blocks.iter().enumerate().any(|(other, block)| {
                    other != at && block.is_tainted() && block.free_frames() >= order.frames()
                });
                counts.tainted += 1;
                counts.tainted_for_order += u64::from(room);
            }
            frame
        }?;
        self.free_frames -= order.frames();
        Some(frame)
    }

    /// Whether a request that is not movable finds nothing in tainted superpageblocks.
    fn would_taint(&self, order: Order, list: usize) -> bool {
        let last = &self.blocks[self.last[list]];
        let served = |block: &Superpageblock| block.is_tainted() && block.area.has_block(order);
        list != MOVABLE && !served(last) && !self.blocks.iter().any(served)
    }

    /// The superpageblock to take from: of the best rank, the fullest.
    fn search(&self, order: Order, list: usize, counts: &mut Counts) -> Option<usize> {
        counts.searches += 1;
        counts.searched += self.blocks.len() as u64;
        let candidates = self.blocks.iter().enumerate();
        let ranked = candidates
            .filter_map(|(at, block)| Some(((block.rank(order, list)?, block.free_frames()), at)));
        ranked.min_by_key(|&(key, _)| key).map(|(_, at)| at)
    }
}

impl Placement for Superpageblocks {
    fn seed(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        let zone = self.zone_of(frame);
        let at = self.zones[zone].number(frame);
        self.zones[zone].blocks[at].add(table, frame, order);
        self.give(table, frame, order);
    }

    fn start(&mut self, table: &mut FrameTable) {
        for block in self.zones.iter_mut().flat_map(|zone| &mut zone.blocks) {
            block.start(table);
        }
    }

    fn allocate(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        reach(self, table, request, owner, |superpageblocks| &mut superpageblocks.counts.reached)
    }

    fn free(&mut self, table: &mut FrameTable, frame: Frame, _cpu: u16) {
        let order = table.release(frame);
        self.give(table, frame, order);
    }

    fn maintain(&mut self, table: &mut FrameTable) {
        self.defragment(table);
    }

    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        let blocks = &self.zones[zone].blocks;
        let count = |list: usize, order: Order| {
            blocks.iter().map(|block| u64::from(block.area.list(order, list).len())).sum()
        };
        let types = [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];
        let orders = || Order::up_to(Order::LARGEST_FREE);
        types.map(|t| (t, orders().map(|order| count(t.index(), order)).collect())).into()
    }

    fn pageblocks(&self, zone: usize) -> Option<[u64; MigrateType::ALL.len()]> {
        let mut counts = [0; MigrateType::ALL.len()];
        for block in &self.zones[zone].blocks {
            block.count_types(&mut counts);
        }
        Some(counts)
    }

    fn free_frames(&self, zone: usize) -> u64 {
        self.zones[zone].free_frames
    }

    fn cached_frames(&self) -> u64 {
        0
    }

    fn counters(&self) -> Vec<Counter> {
        let counter = |name, meaning, value| Counter { name, meaning, value };
        let (clean, tainted) = self.clean_and_tainted();
        let c = &self.counts;
        let mut all = vec![
            counter("clean", "superpageblocks without unmovable pageblocks", clean as u64),
            counter("tainted", "superpageblocks with unmovable pageblocks", tainted as u64),
            counter("taintings", "times that a clean superpageblock was tainted", c.tainted),
            counter(
                "taintings_for_order",
                "of those, the ones for a block larger than any of as much free memory in tainted ones",
                c.tainted_for_order,
            ),
            counter("cleanings", "times that a tainted superpageblock became clean", c.cleaned),
            counter("searches", "times that a superpageblock was looked for", c.searches),
            counter("searched", "superpageblocks looked at in those searches", c.searched),
            counter("claimed", "pageblocks that changed their type for a request", c.claimed),
            counter("borrowed", "blocks taken from pageblocks of another type", c.borrowed),
            counter("pages_moved", "pages that the worker moved", c.pages_moved),
            counter("pageblocks_emptied", "pageblocks that it emptied", c.pageblocks_emptied),
            counter("waited", "requests that waited for a pageblock to be emptied", c.waited),
        ];
        all.extend(c.reached.counters());
        all
    }

    fn validate(&self, table: &FrameTable) {
        table.validate();
        for zone in &self.zones {
            zone.blocks.iter().for_each(|block| block.validate(table));
            let free: u64 = zone.blocks.iter().map(Superpageblock::free_frames).sum();
            assert_eq!(free, zone.free_frames, "free frames of the zone");
        }
    }
}
