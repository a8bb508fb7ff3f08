//! `contiguitas`: two regions with a moving border between them, after Contiguitas (2023),
//! "Unmovable Confinement".
//!
//! ```text
//! one node   low addresses                       border                    high addresses
//!            |  unmovable region                 |             movable region          |
//!            |  fills from here ---->            |            <---- fills from here    |
//! zones      |  DMA  |  DMA32                               |  Normal                  |
//! ```
//!
//! - **Confinement.** A frame's address tells its region. Unmovable and reclaimable memory comes
//!   from below the border alone, movable memory from above it alone, and a freed block goes back
//!   to where it lies. The unmovable region is the low one because kernel memory that must lie
//!   below 16 MiB or 4 GiB lies there. Zones are limits and nothing more: a request takes from
//!   every zone up to its highest, above that zone's watermark and lowmem reserve, each in
//!   proportion to the zone's share in the region.
//! - **Bias.** Both regions fill from the end that is away from the border, so that the border can
//!   move with little copying (`space.rs`; [`Config::band_per_1024`] says how and why).
//! - **Resizing.** The border moves by whole pageblocks (`border.rs`): on
//!   [`maintain`](Placement::maintain), which stands for the wake-up of periodic reclaim, as free
//!   memory and the pressure on each region call for ([`resizer`]); and at once when an allocation
//!   finds its region exhausted, which the paper keeps off the critical path and which is therefore
//!   counted apart.
//! - **Becoming unmovable.** A page is migrated into the unmovable region before it is pinned, and
//!   back when that helps the border (`pin.rs`). Kinds of unmovable memory are separated by place:
//!   what is held for good at the far end, pinned pages beside the border, all else between.
//! - **Hardware** ([`Config::hardware`], `contiguitas-hw`) migrates unmovable pages too, so that a
//!   pageblock that only holds such is no obstacle to the border.
//! - **Memory in place.** Blocks that were allocated before [`start`](Placement::start) may lie on
//!   the wrong side. They are counted as strays until they are freed or moved, or the border passes them;
//!   nothing else may be on the wrong side at any time (`confinement.rs`).
//!
//! Single frames pass through per-CPU lists, one for each region, which are emptied before the border
//! moves (`per_cpu.rs`).

mod border;
mod compact;
mod config;
mod confinement;
mod counts;
mod decisions;
mod moves;
mod per_cpu;
mod pin;
mod pressure;
pub mod resizer;
mod sizing;
mod space;
mod stepwise;

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

pub use config::Config;
pub use decisions::Decision;
pub use moves::{Hardware, Move};
pub use pin::NoRoom;

use self::confinement::Outsiders;
use self::counts::Counts;
use self::decisions::Record;
use self::per_cpu::PerCpu;
use self::pressure::Pressure;
use self::resizer::Resizer;
use self::space::{Pick, Space};
use super::zonelist::Depth;
use super::{Counter, Placement, Request, Surroundings, gfp};
use crate::layout::{Frame, Layout, Zone};
use crate::table::{FrameTable, Owner};
use crate::{MigrateType, Mobility, Order, ZoneKind};

/// Regions of a node.
const PER_REGION: usize = 2;

/// The two kinds of memory that never mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// Below the border: what software cannot move.
    Unmovable = 0,
    /// From the border up: what it can.
    Movable = 1,
}

impl Region {
    /// Both.
    pub const ALL: [Region; PER_REGION] = [Region::Unmovable, Region::Movable];

    /// The region of `frame` in a node with this `border`.
    fn at(frame: Frame, border: Frame) -> Region {
        if frame < border { Region::Unmovable } else { Region::Movable }
    }

    /// The region where memory of this mobility belongs. What may turn out to be unmovable counts
    /// as unmovable.
    pub fn of(mobility: Mobility) -> Region {
        match mobility {
            Mobility::Movable => Region::Movable,
            _ => Region::Unmovable,
        }
    }
}

/// The placement of Contiguitas's operating-system part.
#[derive(Clone, Debug)]
pub struct Regions {
    config: Config,
    zones: Vec<RegionZone>,
    nodes: Vec<Node>,
    outsiders: Outsiders,
    counts: Counts,
    /// Moves since they were last asked for, if they are to be noted.
    moves: Option<Vec<Move>>,
    /// What the resizer decided, if that is to be noted.
    record: Record,
    /// Nanoseconds since the start, where the world says so.
    now_ns: u64,
    /// When the resizer last woke up.
    woken_ns: u64,
}

/// A zone and what is free in it.
#[derive(Clone, Debug)]
struct RegionZone {
    zone: Zone,
    /// Index into [`Regions::nodes`].
    node: usize,
    space: Space,
    per_cpu: PerCpu,
    /// Frames of memory below and above the border; until the start, of addresses.
    memory: [u64; PER_REGION],
    /// What each region may give out of this zone; it changes with the border.
    limits: [Limits; PER_REGION],
}

/// One region's share of a zone's marks, in frames.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    min: u64,
    low: u64,
    high: u64,
    /// By the highest zone of the request.
    reserve: [u64; ZoneKind::ALL.len()],
}

/// A NUMA node.
#[derive(Clone, Debug)]
struct Node {
    /// The kernel's number.
    number: u16,
    /// Its zones, by ascending address.
    zones: Vec<usize>,
    /// Frames that its zones manage.
    frames: u64,
    /// First frame of the movable region; a multiple of a pageblock.
    border: Frame,
    /// No pageblock below this one has movable strays.
    stray_search: Frame,
    /// Where the band beside the border ends on either side: blocks beyond are taken first.
    near: [Frame; PER_REGION],
    /// All nodes, as indices, nearest first.
    nearest: Vec<usize>,
    pressure: [Pressure; PER_REGION],
    resizer: Resizer,
}

impl Regions {
    /// A machine of `layout` that has no memory yet, each node's border in its initial place.
    pub fn new(layout: &Layout, config: Config) -> Regions {
        let zones: Vec<Zone> = layout.zones().to_vec();
        let mut numbers: Vec<u16> = zones.iter().map(|zone| zone.span.node).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let nodes = numbers.iter().map(|&number| Node::new(number, &numbers, &zones, &config));
        let nodes: Vec<Node> = nodes.collect();
        let zones = zones.into_iter().map(|zone| {
            let node = numbers.iter().position(|&n| n == zone.span.node).expect("a listed node");
            let border = nodes[node].border.clamp(zone.start, zone.end);
            RegionZone {
                node,
                space: Space::new(zone.start..zone.end, Order::LARGEST_FREE),
                per_cpu: PerCpu::new(zone.span.managed, config.per_cpu_lists),
                memory: [border.0 - zone.start.0, zone.end.0 - border.0].map(u64::from),
                limits: Default::default(),
                zone,
            }
        });
        let mut regions = Regions {
            zones: zones.collect(),
            outsiders: Outsiders::new(layout.frames()),
            counts: Counts::default(),
            moves: None,
            record: Record::default(),
            now_ns: 0,
            woken_ns: 0,
            nodes,
            config,
        };
        for node in 0..regions.nodes.len() {
            regions.set_limits(node);
        }
        regions
    }

    /// The first frame of the movable region of a node, by the kernel's number for the node.
    pub fn border(&self, node: u16) -> Option<Frame> {
        self.nodes.iter().find(|n| n.number == node).map(|n| n.border)
    }

    /// The region that `frame` lies in, if it lies in a zone.
    pub fn region(&self, frame: Frame) -> Option<Region> {
        let zone = self.zone_of(frame)?;
        Some(Region::at(frame, self.nodes[self.zones[zone].node].border))
    }

    /// Free frames of one region of a node, by the kernel's number for the node; those on per-CPU
    /// lists are among them.
    pub fn free_frames(&self, node: u16, region: Region) -> u64 {
        let zones = self.zones.iter().filter(|zone| self.nodes[zone.node].number == node);
        zones.map(|zone| zone.space.frames(region) + zone.per_cpu.frames(region)).sum()
    }

    /// Bytes that the policy takes beside the frame table.
    pub fn bytes(&self) -> usize {
        let spaces: usize = self.zones.iter().map(|zone| zone.space.bytes()).sum();
        spaces + self.outsiders.bytes()
    }

    fn zone_of(&self, frame: Frame) -> Option<usize> {
        self.zones.iter().position(|zone| zone.zone.contains(frame))
    }

    /// Frees a block that is on no list: each part of it to its own region.
    fn give(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        let zone = self.zone_of(frame).expect("a frame outside every zone");
        let border = self.nodes[self.zones[zone].node].border;
        let end = frame.offset(order.frames());
        if order > Order::LARGEST_FREE || (frame < border && border < end) {
            let half = Order::new(order.get() - 1).expect("smaller than an order");
            self.give(table, frame, half);
            self.give(table, frame.offset(half.frames()), half);
            return;
        }
        let region = Region::at(frame, border);
        self.zones[zone].space.give(table, frame, order, region, border);
    }

    /// The zones of `node` that a request may take from, furthest from the border first.
    fn eligible(
        &self,
        node: usize,
        region: Region,
        highest: ZoneKind,
    ) -> impl Iterator<Item = usize> {
        let zones = &self.nodes[node].zones;
        let count = zones.len();
        (0..count)
            .map(move |at| match region {
                Region::Unmovable => zones[at],
                Region::Movable => zones[count - 1 - at],
            })
            .filter(move |&zone| self.zones[zone].zone.span.kind <= highest)
    }

    /// The node of a request, as an index. A node that does not exist is taken as the last one.
    fn node_index(&self, number: u16) -> usize {
        self.nodes.iter().position(|n| n.number == number).unwrap_or(self.nodes.len() - 1)
    }

    /// A block for `request` from whichever node is near enough and allows it.
    fn take(&mut self, table: &mut FrameTable, request: &Request, depth: Depth) -> Option<Frame> {
        let region = Region::of(request.mobility);
        let here = self.node_index(request.node);
        let pressure = &mut self.nodes[here].pressure[region as usize];
        match depth {
            Depth::Low => pressure.requests += 1,
            Depth::Min => pressure.stalled += 1,
            Depth::All => {}
        }
        self.search(table, request, depth)
    }

    /// As [`take`](Regions::take), for a request that was counted before.
    fn search(&mut self, table: &mut FrameTable, request: &Request, depth: Depth) -> Option<Frame> {
        let region = Region::of(request.mobility);
        let here = self.node_index(request.node);
        for near in 0..self.nodes.len() {
            let node = self.nodes[here].nearest[near];
            let allows = |&zone: &usize| self.zones[zone].allows(request, region, depth);
            let found = self.eligible(node, region, request.highest_zone).find(allows);
            if let Some(zone) = found {
                if request.permanent && self.config.far_end {
                    return self.take_furthest(table, zone, region, request.order);
                }
                let pick = match self.config.bias {
                    true => Pick::Beyond(self.nodes[node].near[region as usize]),
                    false => Pick::Next(self.nodes[node].border),
                };
                return self.zones[zone].take(table, region, request.order, pick, request.cpu);
            }
        }
        None
    }

    /// Tries within the marks, then resizes, then takes what there is. Only a request that may
    /// wait can have pages moved for it; the border does not move at all for one that can do
    /// without.
    fn find(&mut self, table: &mut FrameTable, request: &Request) -> Option<Frame> {
        if let Some(frame) = self.take(table, request, Depth::Low) {
            return Some(frame);
        }
        let mut found = self.take(table, request, Depth::Min);
        if found.is_none() && self.drain_lists(table) {
            found = self.search(table, request, Depth::Min);
        }
        if found.is_none() && !is_optional(request) {
            let may_move = request.gfp_flags & gfp::DIRECT_RECLAIM != 0;
            if self.resize_on_failure(table, request, may_move) {
                found = self.take(table, request, Depth::Min);
            }
        }
        if found.is_some() {
            self.counts.below_low += 1;
            return found;
        }
        let found = self.take(table, request, Depth::All);
        self.counts.below_min += u64::from(found.is_some());
        found
    }
}

/// Whether the request is optional: movable and non-blocking, such as a huge-page fault that can use
/// small pages (`GFP_TRANSHUGE_LIGHT`). It takes no memory of the other region; the resizer sees its
/// demand as pressure. Non-blocking kernel memory is not optional, because it has no fallback.
fn is_optional(request: &Request) -> bool {
    Region::of(request.mobility) == Region::Movable && request.gfp_flags & gfp::DIRECT_RECLAIM == 0
}

impl Node {
    fn new(number: u16, numbers: &[u16], zones: &[Zone], config: &Config) -> Node {
        let mine = |&zone: &usize| zones[zone].span.node == number;
        let own: Vec<usize> = (0..zones.len()).filter(mine).collect();
        let frames = own.iter().map(|&zone| zones[zone].span.managed).sum();
        let mut nearest: Vec<usize> = (0..numbers.len()).collect();
        nearest.sort_by_key(|&other| (numbers[other].abs_diff(number), other));
        let hint = config.initial_frames.iter().find(|(node, _)| *node == number);
        let initial = hint.map_or(frames * config.initial_per_1024 / 1024, |&(_, frames)| frames);
        let border = border::initial(own.iter().map(|&zone| &zones[zone]), initial);
        let stray_search = zones[own[0]].start.align_down(Order::HUGE);
        let near = [border; PER_REGION];
        Node {
            number,
            zones: own,
            frames,
            border,
            stray_search,
            near,
            nearest,
            pressure: Default::default(),
            resizer: Resizer::new(config.tuning),
        }
    }
}

impl RegionZone {
    /// Whether a region may give a block out of this zone: it has one, and enough stays free
    /// above the region's share of the mark and of the reserve (`__zone_watermark_ok`,
    /// `mm/page_alloc.c`).
    fn allows(&self, request: &Request, region: Region, depth: Depth) -> bool {
        if !self.space.has_block(region, request.order) {
            return false;
        }
        let limits = &self.limits[region as usize];
        let mark = match depth {
            Depth::Low => limits.low,
            Depth::Min => limits.min,
            Depth::All => return true,
        };
        let kept = mark + limits.reserve[request.highest_zone as usize];
        self.space.frames(region) > kept + request.order.frames() - 1
    }
}

impl Placement for Regions {
    fn seed(&mut self, table: &mut FrameTable, frame: Frame, order: Order) {
        self.give(table, frame, order);
    }

    fn start(&mut self, table: &mut FrameTable) {
        for node in 0..self.nodes.len() {
            border::split_allocated_at(table, self.nodes[node].border);
        }
        self.count_memory(table);
        self.find_outsiders(table);
    }

    fn allocate(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
    ) -> Option<Frame> {
        let Some(frame) = self.find(table, request) else {
            self.counts.failed[Region::of(request.mobility) as usize] += 1;
            return None;
        };
        table.allocate(frame, request.order, request.mobility, owner);
        Some(frame)
    }

    /// What the list of the request's CPU holds. Taking from it changes nothing that decides where
    /// the next one comes from.
    fn allocate_listed(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owners: Range<Owner>,
    ) -> u32 {
        let region = Region::of(request.mobility);
        let here = self.node_index(request.node);
        let found = self.nodes[here].nearest.iter().find_map(|&node| {
            let mut zones = self.eligible(node, region, request.highest_zone);
            zones.find(|&zone| self.zones[zone].allows(request, region, Depth::Low))
        });
        let Some(zone) = found else { return 0 };
        let taken =
            self.zones[zone].take_listed(table, region, request.cpu, owners, request.mobility);
        self.nodes[here].pressure[region as usize].requests += taken;
        taken
    }

    fn free(&mut self, table: &mut FrameTable, frame: Frame, cpu: u16) {
        self.forget_outsider(table, frame);
        match table.release(frame) {
            Order::BASE => {
                let zone = self.zone_of(frame).expect("a frame outside every zone");
                let border = self.nodes[self.zones[zone].node].border;
                self.zones[zone].give_through_cpu(table, frame, border, cpu);
            }
            order => self.give(table, frame, order),
        }
    }

    fn free_singles(&mut self, table: &mut FrameTable, mut owners: Range<Owner>, cpu: u16) {
        while !owners.is_empty() {
            let run = table.run_of(owners.clone());
            owners.start += run.frames();
            let start = Frame(run.numbers().start);
            let zone = self.zone_of(start).expect("a frame outside every zone");
            let strays = self.outsiders.strays_in(start.pageblock()) > 0;
            let border = self.nodes[self.zones[zone].node].border;
            let zone = &mut self.zones[zone];
            // Two zones may share a pageblock.
            let in_zone = zone.zone.contains(Frame(run.numbers().end - 1));
            if zone.per_cpu.batch > 0 && in_zone && !strays {
                zone.give_run_through_cpu(table, run, border, cpu);
            } else {
                run.iter().for_each(|frame| self.free(table, frame, cpu));
            }
        }
    }

    fn maintain(&mut self, table: &mut FrameTable) {
        self.resize(table);
    }

    fn observe(&mut self, around: Surroundings) {
        self.now_ns = around.now_ns;
    }

    /// Of the movable region alone: reclaim does not free unmovable memory.
    fn free_for(&self, mobility: Mobility) -> Option<u64> {
        let region = Region::of(mobility);
        let of_node = |node| self.stock(node, region).available;
        (region == Region::Movable).then(|| (0..self.nodes.len()).map(of_node).sum())
    }

    fn pin_block(&mut self, table: &mut FrameTable, owner: Owner, order: Order) -> bool {
        let (mut at, end) = (owner, owner + order.frames() as Owner);
        while at < end {
            let frame = table.block_of(at).expect("what is pinned lies somewhere");
            let frames = table.order(frame).frames();
            if self.pin(table, at).is_err() {
                return false;
            }
            at += frames as Owner;
        }
        true
    }

    fn unpin_block(&mut self, table: &mut FrameTable, owner: Owner, order: Order) {
        let (mut at, end) = (owner, owner + order.frames() as Owner);
        while at < end {
            let frame = table.block_of(at).expect("what is pinned lies somewhere");
            let frames = table.order(frame).frames();
            self.unpin(table, at);
            at += frames as Owner;
        }
    }

    fn free_blocks(&self, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        let space = &self.zones[zone].space;
        vec![
            (MigrateType::Unmovable, space.counts(Region::Unmovable)),
            (MigrateType::Movable, space.counts(Region::Movable)),
        ]
    }

    fn pageblocks(&self, zone: usize) -> Option<[u64; MigrateType::ALL.len()]> {
        let RegionZone { zone, node, .. } = &self.zones[zone];
        let border = self.nodes[*node].border.clamp(zone.start, zone.end);
        let blocks = |from: Frame, to: Frame| {
            if from == to { 0 } else { (Frame(to.0 - 1).pageblock() - from.pageblock() + 1) as u64 }
        };
        let mut counts = [0; MigrateType::ALL.len()];
        counts[MigrateType::Unmovable.index()] = blocks(zone.start, border);
        counts[MigrateType::Movable.index()] = blocks(border, zone.end);
        Some(counts)
    }

    fn free_frames(&self, zone: usize) -> u64 {
        Region::ALL.into_iter().map(|region| self.zones[zone].space.frames(region)).sum()
    }

    fn cached_frames(&self) -> u64 {
        let on_lists = |zone: &RegionZone| Region::ALL.map(|region| zone.per_cpu.frames(region));
        self.zones.iter().flat_map(on_lists).sum()
    }

    fn counters(&self) -> Vec<Counter> {
        self.all_counters()
    }

    fn validate(&self, table: &FrameTable) {
        table.validate();
        for zone in &self.zones {
            let border = self.nodes[zone.node].border;
            zone.space.validate(table, border);
            zone.per_cpu.validate(table, border);
        }
        self.check_memory(table);
        self.check_confinement(table);
        self.check_every_block(table);
    }
}
