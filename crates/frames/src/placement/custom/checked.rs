//! The buddy core that a user's policy works on: free lists by region, checked blocks, faults.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use super::nearest;
use super::region::{LISTS, MAX_REGIONS, Region};
use super::{ASK, Request};
use crate::free_area::End;
use crate::layout::{Frame, Layout};
use crate::placement::zonelist::Zonelists;
use crate::table::{FrameTable, Owner, State};
use crate::{Mobility, Order, Pfn};

/// What a policy did wrong, in one line: which policy, which call, what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Fault {}

/// A freed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freed {
    /// First frame.
    pub pfn: Pfn,
    /// Size.
    pub order: Order,
    /// Whether it could be moved while it was in use.
    pub mobility: Mobility,
    /// The CPU that frees it.
    pub cpu: u16,
}

/// A call of a policy, as faults name it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Call {
    /// `boot`.
    Boot,
    /// `allocate`.
    Allocate(Request),
    /// `free`.
    Free(Freed),
    /// `tick`.
    Tick,
    /// `allocate_many`, for this many requests.
    Plan(usize),
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Call::Boot => f.write_str("boot"),
            Call::Allocate(request) => write!(f, "allocate(order {})", request.order),
            Call::Free(block) => write!(f, "free(frame {}, order {})", block.pfn, block.order),
            Call::Tick => f.write_str("tick"),
            Call::Plan(requests) => write!(f, "allocate_many({requests} requests)"),
        }
    }
}

/// What `allocate` came to: the frame that was handed out, if any.
pub(crate) type Settled = Result<Option<Frame>, Fault>;

/// The free lists of a machine, and its frame table while the policy is called.
///
/// Frames are physical numbers. Every operation checks its arguments. A wrong one changes nothing,
/// and counts as a fault of the policy even if the policy ignores the error.
pub struct Core {
    name: String,
    layout: Layout,
    zonelists: Zonelists,
    regions: Vec<Region>,
    table: FrameTable,
    taken_frames: u64,
    call: Call,
    calls: u64,
    fault: Option<Fault>,
    /// The list and its end that a freed block goes to without the policy, by mobility.
    rule: [(usize, End); 4],
}

impl Core {
    /// A core over the zones of `layout`, one region each, without memory.
    pub fn new(layout: &Layout, name: &str) -> Core {
        let zones = layout.zones().iter().enumerate();
        Core {
            name: name.to_owned(),
            layout: layout.clone(),
            zonelists: Zonelists::new(layout),
            regions: zones.map(|(at, zone)| Region::new(at, zone.start, zone.end)).collect(),
            table: FrameTable::with_frames(0),
            taken_frames: 0,
            call: Call::Boot,
            calls: 0,
            fault: None,
            rule: [(0, End::Head); 4],
        }
    }

    // --- What a policy may call. -----------------------------------------------------------------

    /// The regions.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The zones.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The regions that a request may use, best first, by number.
    pub fn regions_for(&self, request: &Request) -> Vec<usize> {
        let zones = self.zonelists.get(request.node, request.highest_zone).iter();
        let of_zone = |&zone: &usize| {
            let regions = self.regions.iter().enumerate();
            regions.filter(move |(_, region)| region.zone == zone).map(|(at, _)| at)
        };
        zones.flat_map(of_zone).collect()
    }

    /// Frames taken and neither in use nor on a list.
    pub fn taken_frames(&self) -> u64 {
        self.taken_frames
    }

    /// The blocks of one list from its head, at most `limit`.
    pub fn blocks(&self, region: usize, order: Order, list: usize, limit: usize) -> Vec<Pfn> {
        match self.regions.get(region) {
            Some(region) if list < LISTS && order <= Order::LARGEST_FREE => {
                let frames = region.area.list(order, list).iter(&self.table);
                frames.take(limit).map(|frame| self.layout.pfn(frame)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Sets where freed blocks of one mobility go when the policy has no `free` of its own.
    ///
    /// # Errors
    /// Unknown list.
    pub fn set_rule(&mut self, mobility: Mobility, list: usize, end: End) -> Result<(), Fault> {
        self.check_list(list)?;
        match self.rule.get_mut(mobility as usize) {
            Some(rule) => *rule = (list, end),
            None => return Err(self.wrong("a mobility of frames in use was expected".to_owned())),
        }
        Ok(())
    }

    /// Divides a region at a frame, rounded down to 4 MiB: the region keeps what lies below, and
    /// the new region, whose number is returned, gets the rest. Only in `boot`.
    ///
    /// # Errors
    /// Another call than `boot`, an unknown region, a frame outside it, or too many regions.
    pub fn divide(&mut self, region: usize, at: Pfn) -> Result<usize, Fault> {
        if !matches!(self.call, Call::Boot) {
            return Err(self.wrong("divide: expected in boot only".to_owned()));
        }
        let Some(found) = self.regions.get(region) else {
            return Err(self.wrong(format!("divide: region {region}: no such region")));
        };
        let (zone, start, end) = (found.zone, found.start, found.end);
        let border = self.layout.frame(at).map(|frame| frame.align_down(Order::LARGEST_FREE));
        let Some(border) = border.filter(|&border| start < border && border < end) else {
            return Err(self.wrong(format!("divide: frame {at}: expected a frame of the region")));
        };
        if self.regions.len() == MAX_REGIONS {
            return Err(self.wrong(format!("divide: expected at most {MAX_REGIONS} regions")));
        }
        self.regions[region] = Region::new(zone, start, border);
        self.regions.push(Region::new(zone, border, end));
        Ok(self.regions.len() - 1)
    }

    /// Takes a block of `order` from a list, splitting a larger one if needed: the first of the
    /// smallest that suffice, or the one nearest to `near`. Without a region it tries those that
    /// the request may use, best first; in other calls all, highest first. `None` if none has one.
    ///
    /// # Errors
    /// Unknown region or list, an order above 10, or a frame outside memory.
    pub fn take_block(
        &mut self,
        order: Order,
        region: Option<usize>,
        list: usize,
        near: Option<Pfn>,
    ) -> Result<Option<Pfn>, Fault> {
        self.check_list(list)?;
        let near = match near {
            Some(pfn) => Some(self.frame_of("take_block", pfn)?),
            None => None,
        };
        if let Some(at) = region.filter(|&at| at >= self.regions.len()) {
            return Err(self.wrong(format!("take_block: region {at}: no such region")));
        }
        if order > Order::LARGEST_FREE {
            return Ok(None);
        }
        let frame = match region {
            Some(at) => self.take_from(at, order, list, near),
            None => match self.call {
                Call::Allocate(request) => self.take_along(&request, order, list, near),
                _ => {
                    let mut all = (0..self.regions.len()).rev();
                    all.find_map(|at| self.take_from(at, order, list, near))
                }
            },
        };
        Ok(frame.map(|frame| self.layout.pfn(frame)))
    }

    /// Puts a taken block on a list of its region, after merging it with its free buddies.
    ///
    /// # Errors
    /// A block that was not taken, or an unknown list.
    pub fn put(&mut self, pfn: Pfn, list: usize, end: End) -> Result<(), Fault> {
        self.check_list(list)?;
        let (frame, order) = self.taken("put", pfn)?;
        self.give(frame, order, list, end);
        Ok(())
    }

    /// Splits a taken block into halves, both taken; returns the upper one.
    ///
    /// # Errors
    /// A block that was not taken, or a single frame.
    pub fn split(&mut self, pfn: Pfn) -> Result<Pfn, Fault> {
        let (frame, order) = self.taken("split", pfn)?;
        let Some(half) = order.get().checked_sub(1).and_then(Order::new) else {
            return Err(self.wrong(format!("split(frame {pfn}): expected more than a frame")));
        };
        let upper = frame.offset(half.frames());
        self.table.set_cached(frame, half, 0);
        self.table.set_cached(upper, half, 0);
        Ok(self.layout.pfn(upper))
    }

    /// Merges a taken block with its buddy, which is taken as well or on a free list; returns the
    /// block of twice the size. `None`, and no change, if the buddy is in use or in parts.
    ///
    /// # Errors
    /// A block that was not taken.
    pub fn merge(&mut self, pfn: Pfn) -> Result<Option<Pfn>, Fault> {
        let (frame, order) = self.taken("merge", pfn)?;
        let buddy = frame.buddy(order);
        let at = self.region_of(frame);
        let region = &mut self.regions[at];
        if order >= Order::LARGEST_FREE || !region.area.contains(buddy) {
            return Ok(None);
        }
        let same = self.table.order(buddy) == order;
        match self.table.state(buddy) {
            State::Cached if same => {}
            State::Free if same => {
                region.area.remove(&mut self.table, buddy);
                self.taken_frames += order.frames();
            }
            _ => return Ok(None),
        }
        let lower = Frame(frame.0 & buddy.0);
        self.table.set_inside(frame.max(buddy));
        self.table.set_cached(lower, order.doubled(), 0);
        Ok(Some(self.layout.pfn(lower)))
    }

    /// Migrates the movable block in use at `from` to the taken block `to` of the same size; the
    /// old place is taken afterwards.
    ///
    /// # Errors
    /// A block that is not in use or not movable, or one that was not taken, or another size.
    pub fn move_block(&mut self, from: Pfn, to: Pfn) -> Result<(), Fault> {
        let (target, order) = self.taken("move_block", to)?;
        let source = self.frame_of("move_block", from)?;
        let movable = self.table.state(source) == State::Allocated
            && self.table.mobility(source) == Mobility::Movable
            && self.table.order(source) == order;
        if !movable {
            let what = format!("expected a movable block in use of order {order}");
            return Err(self.wrong(format!("move_block(frame {from}): {what}")));
        }
        let owner = self.table.owner(source);
        self.table.release(source);
        self.table.set_cached(source, order, 0);
        self.table.allocate(target, order, Mobility::Movable, owner);
        Ok(())
    }

    /// The block that starts at a frame: its order and mobility; `None` if none starts there.
    ///
    /// # Errors
    /// A frame outside memory.
    pub fn block_at(&mut self, pfn: Pfn) -> Result<Option<(Order, Mobility)>, Fault> {
        let frame = self.frame_of("block_at", pfn)?;
        Ok(match self.table.state(frame) {
            State::Absent | State::Inside => None,
            _ => Some((self.table.order(frame), self.table.mobility(frame))),
        })
    }

    /// Puts a freed block where the rule says.
    pub fn put_back(&mut self, block: &Freed) {
        let (list, end) = self.rule.get(block.mobility as usize).copied().unwrap_or(self.rule[0]);
        if let Ok((frame, order)) = self.taken("put_back", block.pfn) {
            self.give(frame, order, list, end);
        }
    }

    // --- What drives a policy. -------------------------------------------------------------------

    /// Exchanges the tables: the machine's comes in before a call and leaves after it.
    pub fn swap(&mut self, table: &mut FrameTable) {
        core::mem::swap(&mut self.table, table);
    }

    pub(super) fn with(&mut self, table: &mut FrameTable, work: impl FnOnce(&mut Core)) {
        self.swap(table);
        work(self);
        self.swap(table);
    }

    /// Begins a call of the policy.
    pub fn begin(&mut self, call: Call) {
        self.call = call;
        self.calls += 1;
    }

    /// Ends it: the fault that happened meanwhile comes before an error of the policy's own.
    ///
    /// # Errors
    /// The fault.
    pub fn end<T>(&mut self, result: Result<T, String>) -> Result<T, Fault> {
        match (self.fault.clone(), result) {
            (Some(fault), _) => Err(fault),
            (None, Ok(value)) => Ok(value),
            (None, Err(reason)) => Err(self.wrong(reason)),
        }
    }

    /// Hands the block that `allocate` returned out to `owner`.
    ///
    /// # Errors
    /// A block that was not taken, of another size, or of a zone that the request may not use.
    pub fn settle(&mut self, answer: Option<Pfn>, request: &Request, owner: Owner) -> Settled {
        let Some(pfn) = answer else { return Ok(None) };
        let (frame, order) = self.taken("returned", pfn)?;
        if order != request.order {
            let wanted = request.order;
            let what = format!("has order {order}, expected order {wanted}");
            return Err(self.wrong(format!("returned frame {pfn}: {what}")));
        }
        let zone = &self.layout.zones()[self.regions[self.region_of(frame)].zone].span;
        if zone.kind > request.highest_zone {
            let (kind, highest) = (zone.kind, request.highest_zone);
            let what = format!("in zone {kind}, expected {highest} or below");
            return Err(self.wrong(format!("returned frame {pfn}: {what}")));
        }
        Ok(Some(self.hand_out(frame, request, owner)))
    }

    /// Hands a taken block out.
    pub(super) fn hand_out(&mut self, frame: Frame, request: &Request, owner: Owner) -> Frame {
        self.taken_frames -= request.order.frames();
        self.table.allocate(frame, request.order, request.mobility, owner);
        frame
    }

    /// Takes a block for a request from a place of a plan: the number of a list, plus eight times
    /// one more than the number of a region, or without a region along the request's zones.
    ///
    /// # Errors
    /// A region above the request's highest zone.
    pub(crate) fn take_at(&mut self, request: &Request, place: u8) -> Result<Option<Frame>, Fault> {
        let (list, region) = (usize::from(place) % LISTS, usize::from(place) / LISTS);
        let Some(at) = region.checked_sub(1) else {
            return Ok(self.take_along(request, request.order, list, None));
        };
        let kind = self.layout.zones()[self.regions[at].zone].span.kind;
        if kind > request.highest_zone {
            let highest = request.highest_zone;
            let what = format!("region {at} is in zone {kind}, expected {highest} or below");
            return Err(self.wrong(format!("place {place}: {what}")));
        }
        Ok(self.take_from(at, request.order, list, None))
    }

    /// Whether a plan has a place for each request, and each place exists.
    ///
    /// # Errors
    /// If not.
    pub(crate) fn check_plan(&mut self, plan: Vec<u8>, requests: usize) -> Result<Vec<u8>, Fault> {
        if plan.len() != requests {
            let found = plan.len();
            return Err(self.wrong(format!("{found} places, expected {requests}")));
        }
        let regions = self.regions.len();
        let exists = |place: &&u8| **place == ASK || usize::from(**place) / LISTS <= regions;
        if let Some(place) = plan.iter().find(|place| !exists(place)) {
            return Err(self.wrong(format!("place {place}: no such region")));
        }
        Ok(plan)
    }

    /// Places a request as a plain buddy allocator would, on any list.
    pub(super) fn allocate_by_rule(&mut self, request: &Request, owner: Owner) -> Option<Frame> {
        let mut lists = 0..LISTS;
        let frame = lists.find_map(|list| self.take_along(request, request.order, list, None))?;
        Some(self.hand_out(frame, request, owner))
    }

    /// Takes a block from its owner.
    pub(crate) fn take_freed(&mut self, frame: Frame, cpu: u16) -> Freed {
        let mobility = self.table.mobility(frame);
        let order = self.table.release(frame);
        self.table.set_cached(frame, order, 0);
        self.taken_frames += order.frames();
        Freed { pfn: self.layout.pfn(frame), order, mobility, cpu }
    }

    /// Puts a freed block back if the policy did not get so far.
    pub(super) fn put_back_if_taken(&mut self, block: &Freed) {
        let frame = self.layout.frame(block.pfn);
        if frame.is_some_and(|frame| self.table.state(frame) == State::Cached) {
            self.put_back(block);
        }
    }

    pub(super) fn seed(&mut self, frame: Frame, order: Order) {
        self.taken_frames += order.frames();
        self.table.set_cached(frame, order, 0);
        self.give(frame, order, 0, End::Tail);
    }

    pub(super) fn free_blocks(&self, zone: usize) -> Vec<u64> {
        let mut sum = alloc::vec![0; Order::LARGEST_FREE.index() + 1];
        for region in self.regions.iter().filter(|region| region.zone == zone) {
            sum.iter_mut().zip(region.counts()).for_each(|(sum, count)| *sum += count);
        }
        sum
    }

    pub(super) fn free_frames(&self, zone: usize) -> u64 {
        let regions = self.regions.iter().filter(|region| region.zone == zone);
        regions.map(Region::free_frames).sum()
    }

    /// Compares lists and taken blocks with the table.
    ///
    /// # Panics
    /// If they contradict each other.
    pub fn validate(&self, table: &FrameTable) {
        self.regions.iter().for_each(|region| region.area.validate(table));
        let frames = (0..table.frames() as u32).map(Frame);
        let taken = frames.filter(|&frame| table.state(frame) == State::Cached);
        let taken: u64 = taken.map(|frame| table.order(frame).frames()).sum();
        assert_eq!(taken, self.taken_frames, "taken frames");
    }

    // --- The lists. ------------------------------------------------------------------------------

    /// Takes along the zones that a request may use, best first.
    fn take_along(
        &mut self,
        request: &Request,
        order: Order,
        list: usize,
        near: Option<Frame>,
    ) -> Option<Frame> {
        for step in 0.. {
            let zones = self.zonelists.get(request.node, request.highest_zone);
            let &zone = zones.get(step)?;
            for at in 0..self.regions.len() {
                if self.regions[at].zone == zone
                    && let Some(frame) = self.take_from(at, order, list, near)
                {
                    return Some(frame);
                }
            }
        }
        None
    }

    fn take_from(
        &mut self,
        region: usize,
        order: Order,
        list: usize,
        near: Option<Frame>,
    ) -> Option<Frame> {
        if order > Order::LARGEST_FREE {
            return None;
        }
        let (region, table) = (&mut self.regions[region], &mut self.table);
        let frame = match near {
            Some(near) => nearest::take(region, table, order, list, near)?,
            None => region.area.take_smallest(table, order, list)?,
        };
        table.set_cached(frame, order, 0);
        self.taken_frames += order.frames();
        Some(frame)
    }

    /// Merges a taken block with its free buddies and puts it on a list.
    fn give(&mut self, frame: Frame, order: Order, list: usize, end: End) {
        let at = self.region_of(frame);
        let (area, table) = (&mut self.regions[at].area, &mut self.table);
        table.set_inside(frame);
        self.taken_frames -= order.frames();
        if order > Order::LARGEST_FREE {
            return self.give_parts(at, frame, order, list, end);
        }
        let (frame, order) = area.merge(table, frame, order, |_, _, _| true);
        area.insert(table, frame, order, list, end);
    }

    /// A block that was found in use can be larger than the largest on a list.
    fn give_parts(&mut self, at: usize, frame: Frame, order: Order, list: usize, end: End) {
        let last = frame.offset(order.frames());
        let mut part = frame;
        while part < last {
            let table = &mut self.table;
            table.set_inside(part);
            self.regions[at].area.insert(table, part, Order::LARGEST_FREE, list, end);
            part = part.offset(Order::LARGEST_FREE.frames());
        }
    }

    /// The region of a frame of some zone.
    fn region_of(&self, frame: Frame) -> usize {
        let found = self.regions.iter().position(|region| region.area.contains(frame));
        found.expect("a frame of the table lies in a zone")
    }

    // --- Checks. ---------------------------------------------------------------------------------

    fn check_list(&mut self, list: usize) -> Result<(), Fault> {
        if list < LISTS {
            return Ok(());
        }
        Err(self.wrong(format!("list {list}: expected a number below {LISTS}")))
    }

    fn frame_of(&mut self, operation: &str, pfn: Pfn) -> Result<Frame, Fault> {
        let frame = self.layout.frame(pfn).filter(|&frame| self.layout.zone_of(frame).is_some());
        let inside = frame.filter(|frame| u64::from(frame.0) < self.table.frames());
        inside.ok_or_else(|| {
            let called = called(operation, pfn);
            self.wrong(format!("{called}: outside memory, expected a frame of it"))
        })
    }

    /// The taken block that starts at a frame.
    fn taken(&mut self, operation: &str, pfn: Pfn) -> Result<(Frame, Order), Fault> {
        let frame = self.frame_of(operation, pfn)?;
        let found = match self.table.state(frame) {
            State::Cached => return Ok((frame, self.table.order(frame))),
            State::Allocated => "already in use",
            State::Free => "on a free list",
            State::Reserved | State::Absent => "not the allocator's",
            State::Inside => "inside a block",
        };
        let called = called(operation, pfn);
        Err(self.wrong(format!("{called}: {found}, expected a block from take_block")))
    }

    /// Notes a fault of the current call.
    fn wrong(&mut self, reason: String) -> Fault {
        let (name, call, calls) = (&self.name, self.call.to_string(), self.calls);
        let fault = Fault(format!("policy {name}: {call}, call {calls}: {reason}"));
        self.fault.get_or_insert(fault).clone()
    }
}

/// An operation on a frame, as faults name it.
fn called(operation: &str, pfn: Pfn) -> String {
    match operation {
        "returned" => format!("returned frame {pfn}"),
        operation => format!("{operation}(frame {pfn})"),
    }
}
