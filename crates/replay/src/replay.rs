//! One allocator replaying recorded events: every allocation is placed again, and every free frees
//! that allocation, wherever it was placed.
//!
//! The recorded frame is the name of an allocation, never its place: the frame table keeps where
//! each recorded frame's memory lies now. A block may be freed in other pieces than it was
//! allocated in, as the kernel does with split compound pages.

mod ages;
mod counts;
mod gfp_numbers;
mod hand_over;
mod pins;
mod reclaim;
mod upkeep;

use prairie_frames::placement::{Counter, Placement, Request, Surroundings};
use prairie_frames::table::mobility_of;
use prairie_frames::{Frame, FrameTable, Layout, Order, Pfn};
use prairie_trace::{Event, EventKind};
use serde::Serialize;
use std::collections::HashSet;

pub use self::counts::Counts;
use self::gfp_numbers::GfpNumbers;
use self::pins::Pins;
use self::reclaim::Reclaim;
use self::upkeep::Upkeep;
use crate::held::Held;
use crate::initial_state::InitialState;

/// Where the memory that was in use when the recording began is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Initial {
    /// Where it was.
    AsFound,
    /// Re-placed by the allocator, in ascending order of the recorded frames, as if it had run
    /// since boot.
    Replaced,
}

/// A system in the middle of a replay.
pub struct Replay<P> {
    layout: Layout,
    table: FrameTable,
    placement: P,
    held: Held,
    /// First frames, as recorded, of blocks whose allocation failed here, and their sizes.
    failed: HashSet<Frame>,
    /// Pageblocks of memory that was not initialized when the recording began, by number.
    untouched: Vec<bool>,
    pins: Pins,
    /// Simulated reclaim, if requested.
    reclaim: Option<Reclaim>,
    counts: Counts,
    upkeep: Upkeep,
    /// The time of the first event at which there was upkeep.
    first_ns: Option<u64>,
    gfp_numbers: GfpNumbers,
}

/// Events for which memory is fetched ahead: more than a core waits for at a time, and few enough
/// for its nearest cache.
const AHEAD: usize = 64;

impl<P: Placement> Replay<P> {
    /// Sets `placement`, which has no memory yet, on the machine's initial state.
    pub fn new(found: &InitialState, placement: P, initial: Initial) -> Replay<P> {
        let table = FrameTable::new(&found.layout);
        Replay::with_table(found, placement, initial, table, None)
    }

    /// The same with simulated reclaim (`replay/reclaim.rs`).
    pub fn reclaiming(found: &InitialState, placement: P, initial: Initial) -> Replay<P> {
        let frames = found.layout.frames();
        let table = FrameTable::with_owners(frames, 2 * frames);
        Replay::with_table(found, placement, initial, table, Some(Reclaim::new(frames)))
    }

    fn with_table(
        found: &InitialState,
        placement: P,
        initial: Initial,
        table: FrameTable,
        reclaim: Option<Reclaim>,
    ) -> Replay<P> {
        let layout = found.layout.clone();
        let mut replay = Replay {
            held: Held::new(table.owners()),
            untouched: vec![false; table.blocks().len()],
            table,
            layout,
            placement,
            failed: HashSet::new(),
            pins: Pins::default(),
            reclaim,
            counts: Counts::default(),
            upkeep: Upkeep::default(),
            first_ns: None,
            gfp_numbers: GfpNumbers::new(found.gfp_numbers.clone()),
        };
        replay.hand_over(found, initial);
        replay
    }

    /// The machine's zones.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The system, for callers that need more than the [`Placement`] interface.
    pub fn placement_mut(&mut self) -> &mut P {
        &mut self.placement
    }

    /// The state of every frame.
    pub fn table(&self) -> &FrameTable {
        &self.table
    }

    /// The policy.
    pub fn placement(&self) -> &P {
        &self.placement
    }

    /// Lets the policy do its upkeep once in `period_ns` of recorded time, as a thread of a kernel
    /// does, instead of after a number of events.
    pub fn keep_up_every(&mut self, period_ns: u64) {
        self.upkeep = Upkeep::At { due_ns: 0, period_ns };
    }

    /// The counts so far.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The policy's counters.
    pub fn counters(&self) -> Vec<Counter> {
        self.placement.counters()
    }

    /// Replays one event. Constant time but for what the policy moves.
    pub fn apply(&mut self, event: &Event) {
        self.apply_named(event, self.named(event));
    }

    /// Replays events, one after the other, while what the next ones need is on its way from main
    /// memory: a few hundred instructions pass meanwhile.
    pub fn apply_all(&mut self, events: &[Event]) {
        if self.placement.plans() {
            let requests = self.requests(events);
            self.placement.plan(&mut self.table, &requests);
        }
        let mut groups = events.chunks(AHEAD).peekable();
        let mut next = self.look_ahead(groups.peek().copied().unwrap_or_default());
        while let Some(group) = groups.next() {
            let after = groups.peek().copied().unwrap_or_default();
            let named = std::mem::replace(&mut next, self.look_ahead(after));
            for &frame in &named[..group.len()] {
                self.table.prefetch_block(frame.0);
            }
            for (event, &frame) in group.iter().zip(&named) {
                self.apply_named(event, frame);
            }
        }
    }

    /// The requests that events will make of the policy, in their order.
    fn requests(&mut self, events: &[Event]) -> Vec<Request> {
        let mut requests = Vec::with_capacity(events.len());
        for event in events {
            if let EventKind::Alloc { pfn, order, .. } = event.what
                && pfn.is_aligned(order)
                && let Some(node) = self.zone_around(self.named(event), order)
            {
                requests.extend(self.request(event, node));
            }
        }
        requests
    }

    /// What an event requests from `node`; `None` if it is no allocation.
    #[inline]
    fn request(&mut self, event: &Event, node: u16) -> Option<Request> {
        let EventKind::Alloc { order, migrate_type, gfp, .. } = event.what else { return None };
        let gfp = self.gfp_numbers.translate(gfp);
        Some(Request {
            order,
            migrate_type,
            mobility: mobility_of(migrate_type),
            highest_zone: gfp.highest_zone(),
            node,
            cpu: event.cpu,
            gfp_flags: gfp.0,
            page: None,
            permanent: false,
        })
    }

    /// The frames that the next events name, with what is known of them on its way.
    fn look_ahead(&self, events: &[Event]) -> [Frame; AHEAD] {
        let mut named = [Frame::NONE; AHEAD];
        for (named, event) in named.iter_mut().zip(events) {
            *named = self.named(event);
            self.table.prefetch_location(named.0);
            self.held.prefetch(named.0);
        }
        named
    }

    /// The dense number of the frame that an event names; [`Frame::NONE`] without one.
    #[inline]
    fn named(&self, event: &Event) -> Frame {
        match event.what {
            EventKind::Alloc { pfn, .. }
            | EventKind::Free { pfn, .. }
            | EventKind::Pin { pfn, .. }
            | EventKind::Unpin { pfn, .. } => self.layout.frame(pfn).unwrap_or(Frame::NONE),
            _ => Frame::NONE,
        }
    }

    /// Replays an event whose named frame is known.
    #[inline]
    fn apply_named(&mut self, event: &Event, named: Frame) {
        self.pass(event.time_ns);
        match event.what {
            EventKind::Alloc { pfn, order, .. } => {
                self.counts.allocations += 1;
                if let Some(node) = self.node_of(pfn, named, order)
                    && let Some(request) = self.request(event, node)
                {
                    self.allocate(named, &request);
                    self.balance();
                }
            }
            EventKind::Free { pfn, order } => {
                self.counts.frees += 1;
                if self.node_of(pfn, named, order).is_some()
                    && !self.keep_reclaimed(named, order, event.pid, event.cpu)
                {
                    self.free(named, order, event.cpu);
                }
            }
            EventKind::Stall { point, .. } => self.stalled(point, event.pid),
            EventKind::Lost { .. } => self.forget_reclaimers(None),
            EventKind::Exit => self.forget_reclaimers(Some(event.pid)),
            // The kernel traces each frame of a batch as freed before: only if that event was
            // lost is this one the free.
            EventKind::FreeBatched { pfn } => {
                if let Some(frame) = self.layout.frame(pfn)
                    && self.held.contains(frame.0)
                {
                    self.counts.frees_by_batch_only += 1;
                    if !self.keep_reclaimed(frame, Order::BASE, event.pid, event.cpu) {
                        self.free(frame, Order::BASE, event.cpu);
                    }
                }
            }
            EventKind::Pin { order, .. } | EventKind::Unpin { order, .. } => {
                // Any frame of a block may be named.
                if named == Frame::NONE || order > Order::GIGANTIC {
                    self.counts.outside_zones += 1;
                } else if matches!(event.what, EventKind::Pin { .. }) {
                    self.pin(named, order);
                } else {
                    self.unpin(named, order);
                }
            }
            EventKind::AllocFailed { .. } => self.counts.failed_in_kernel += 1,
            _ => {}
        }
    }

    /// Counts an event, and lets the policy do its upkeep from time to time.
    #[inline]
    fn pass(&mut self, time_ns: u64) {
        if self.upkeep.is_due(time_ns) {
            self.maintain(time_ns);
        }
    }

    fn maintain(&mut self, time_ns: u64) {
        // Before the first event there is no time.
        let first = if time_ns > 0 { *self.first_ns.get_or_insert(time_ns) } else { time_ns };
        let now_ns = time_ns.saturating_sub(first);
        self.placement.observe(Surroundings { now_ns, cache: self.reclaimable_frames() });
        self.placement.maintain(&mut self.table);
        self.reclaim_boost();
    }

    /// The node of the block that an event names, if the machine has such a block.
    #[inline]
    fn node_of(&mut self, pfn: Pfn, frame: Frame, order: Order) -> Option<u16> {
        if !pfn.is_aligned(order) {
            self.counts.misaligned += 1;
            return None;
        }
        let node = self.zone_around(frame, order);
        self.counts.outside_zones += u64::from(node.is_none());
        node
    }

    /// The node of the zone that holds a whole block.
    #[inline]
    fn zone_around(&self, frame: Frame, order: Order) -> Option<u16> {
        let zone = Some(frame).filter(|&frame| frame != Frame::NONE && order <= Order::GIGANTIC);
        let zone = zone.and_then(|frame| self.layout.zone_of(frame));
        let zone = zone.map(|zone| &self.layout.zones()[zone]);
        let node = zone.filter(|zone| frame.offset(order.frames()) <= zone.end);
        node.map(|zone| zone.span.node)
    }

    fn allocate(&mut self, frame: Frame, request: &Request) {
        let order = request.order;
        self.join(frame);
        if self.held.any(frame.0, order) {
            self.free_held(frame, order, request.cpu);
        }
        self.counts.allocated_frames += order.frames();
        let placed = self.placement.allocate(&mut self.table, request, frame.0);
        match placed.or_else(|| self.reclaim_for(request, frame.0)) {
            Some(placed) => {
                self.held.insert(frame.0, order);
                self.list_page_cache(frame, request);
                self.counts.same_frame += u64::from(placed == frame);
                if !self.failed.is_empty() {
                    self.failed.remove(&frame);
                }
            }
            None => {
                self.counts.failed_allocations += 1;
                self.counts.failed_huge_allocations += u64::from(order >= Order::HUGE);
                self.failed.insert(frame);
            }
        }
    }

    fn free(&mut self, frame: Frame, order: Order, cpu: u16) {
        if !self.pins.is_empty() {
            self.end_pins(frame, order);
        }
        self.unlist(frame, order);
        // The common case: the block is freed as it was allocated.
        if let Some(placed) = self.table.block_of(frame.0)
            && self.table.order(placed) == order
        {
            self.held.remove(frame.0, order);
            self.placement.free(&mut self.table, placed, cpu);
            return;
        }
        if self.held.any(frame.0, order) {
            let unknown = each(frame, order.frames()).filter(|f| !self.held.contains(f.0)).count();
            self.counts.frees_of_unknown += unknown as u64;
            self.free_parts(frame, order, cpu);
        } else if self.failed.remove(&frame) {
            self.counts.frees_of_failed += order.frames();
        } else if self.was_reclaimed(frame) {
            self.counts.frees_of_reclaimed += order.frames();
        } else {
            self.counts.frees_of_unknown += order.frames();
            self.join(frame);
        }
    }

    /// Frees what is still held of a block that is about to be allocated again.
    fn free_held(&mut self, frame: Frame, order: Order, cpu: u16) {
        let held = each(frame, order.frames()).filter(|f| self.held.contains(f.0)).count();
        self.counts.frees_implied += held as u64;
        self.end_pins(frame, order);
        self.unlist(frame, order);
        self.free_parts(frame, order, cpu);
    }

    /// Frees all that is held of `2^order` recorded frames, in the largest pieces that lie in one
    /// place.
    fn free_parts(&mut self, first: Frame, order: Order, cpu: u16) {
        let end = first.offset(order.frames());
        let mut at = first;
        while at < end {
            if !self.held.contains(at.0) {
                at = at.offset(1);
                continue;
            }
            let (mut owner, mut block) =
                self.table.block_containing(at.0).expect("a held frame lies somewhere");
            // Cut the block until it starts here and ends where the free does.
            let remaining = Order::new((end.0 - at.0).ilog2() as u8).expect("fewer than a machine");
            while owner != at.0 || self.table.order(block) > remaining {
                self.table.split_allocated(block);
                let half = self.table.order(block).frames();
                if u64::from(at.0 - owner) >= half {
                    owner += half as u32;
                    block = block.offset(half);
                }
            }
            let freed = self.table.order(block);
            self.held.remove(at.0, freed);
            self.placement.free(&mut self.table, block, cpu);
            at = at.offset(freed.frames());
        }
    }

    /// Checks everything against everything.
    ///
    /// # Panics
    /// If anything contradicts.
    pub fn validate(&self) {
        self.placement.validate(&self.table);
        self.validate_pins();
        self.validate_reclaim();
        for owner in 0..self.table.owners() as u32 {
            let lies = self.table.block_containing(owner).is_some();
            assert_eq!(self.held.contains(owner), lies, "recorded frame {owner}");
        }
    }
}

/// The frames from `start` on.
fn each(start: Frame, frames: u64) -> impl Iterator<Item = Frame> {
    (start.0..start.0 + frames as u32).map(Frame)
}
