//! Reservations: a superpage set aside for an object when the first of its pages is needed
//! (`sys/vm/vm_reserv.c`).
//!
//! ```text
//! object    | stretch of 512 pages | stretch | ...     aligned, identified by object and number
//!                 |
//! memory    [ p p . p . . . p ]                        a reservation: population map, count
//! ```
//!
//! Page `i` of the stretch has frame `i` of the superpage or none of it. The free frames of a
//! reservation are on no free list: no other request gets them and compaction does not see them,
//! but they count as free memory. A reservation ends in one of three ways:
//!
//! - its last page is freed, and the whole superpage returns to the free lists;
//! - memory runs out, and the reservation that changed least recently is broken: its free frames go
//!   to the free lists, and its pages stay where they are;
//! - its range is emptied, for example by compaction: all reservations in it are broken.
//!
//! A reservation whose pages are all in use is a superpage that the processor can map as such, and
//! is not broken. A stretch with a page in use outside a reservation gets no reservation, because
//! its pages could not be a superpage.
//!
//! FreeBSD finds a stretch's reservation by the neighbors of the wanted page in the object's tree;
//! here a map leads to it, with the same result. It keeps the order of changes to a clock tick, here
//! it is exact. A page that came from a reservation goes past the per-CPU cache when it is freed even
//! if the reservation was broken meanwhile; here it goes through it then.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;

use super::{FreeBsd, Pool};
use crate::Order;
use crate::layout::Frame;
use crate::placement::zonelist::Depth;
use crate::placement::{ObjectPage, Request};
use crate::table::{FrameTable, Owner, State};

/// Pages of a reservation (`VM_LEVEL_0_NPAGES`).
const PAGES: u32 = Order::HUGE.frames() as u32;

/// No stretch.
const NONE: u32 = u32::MAX;

/// A superpage that is set aside, as it can be observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// For which object.
    pub object: u64,
    /// The object's page that the superpage's first frame is for.
    pub first: u64,
    /// The superpage.
    pub start: Frame,
    /// Pages in use (`popcnt`): at least one.
    pub populated: u32,
}

/// All reservations at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAside {
    /// Reservations with free pages.
    pub partial: u64,
    /// Free pages in them.
    pub free_frames: u64,
    /// Reservations without: superpages in use.
    pub full: u64,
}

/// A stretch of an object with at least one page in use.
#[derive(Clone, Debug)]
struct Stretch {
    /// Object, and number of the stretch in it.
    key: (u64, u64),
    /// Pages in use, in the reservation or elsewhere.
    resident: u32,
    held: Option<Held>,
}

/// The superpage of a stretch.
#[derive(Clone, Debug)]
struct Held {
    start: Frame,
    /// One bit for each page in use (`popmap`).
    population: [u64; PAGES as usize / 64],
    populated: u32,
    /// Its position in the queue, if it is not full.
    stamp: u64,
}

impl Held {
    fn is_populated(&self, slot: u32) -> bool {
        self.population[slot as usize / 64] >> (slot % 64) & 1 != 0
    }

    /// The largest aligned blocks of free frames, ascending, by their first slot.
    fn holes(&self) -> Vec<(u32, Order)> {
        let mut holes = Vec::new();
        let mut at = 0;
        while at < PAGES {
            if self.is_populated(at) {
                at += 1;
                continue;
            }
            let end = (at..PAGES).find(|&slot| self.is_populated(slot)).unwrap_or(PAGES);
            let order = Frame(at).largest_block(Frame(end), Order::HUGE);
            holes.push((at, order));
            at += order.frames() as u32;
        }
        holes
    }
}

/// All stretches of all objects, and the reservations among them.
#[derive(Clone, Debug, Default)]
pub(super) struct Reservations {
    stretches: Vec<Option<Stretch>>,
    unused: Vec<u32>,
    by_key: BTreeMap<(u64, u64), u32>,
    /// By superpage of memory, the stretch that holds it; as long as any ever did.
    of_superpage: Vec<u32>,
    /// By owner, the stretch that its page is of.
    of_owner: Vec<u32>,
    /// Reservations with free pages by their last change, oldest first (`partpopq`).
    queue: BTreeMap<u64, u32>,
    clock: u64,
}

impl Reservations {
    /// The reservation that holds `frame`.
    pub(super) fn at(&self, frame: Frame) -> Option<u32> {
        self.of_superpage.get(frame.pageblock()).copied().filter(|&id| id != NONE)
    }

    fn get(&self, id: u32) -> &Stretch {
        self.stretches[id as usize].as_ref().expect("a stretch in use")
    }

    fn get_mut(&mut self, id: u32) -> &mut Stretch {
        self.stretches[id as usize].as_mut().expect("a stretch in use")
    }

    fn held_mut(&mut self, id: u32) -> &mut Held {
        self.get_mut(id).held.as_mut().expect("a reservation")
    }

    /// The stretch with this key, made if it is not there.
    fn stretch(&mut self, key: (u64, u64)) -> u32 {
        if let Some(&id) = self.by_key.get(&key) {
            return id;
        }
        let id = self.unused.pop().unwrap_or_else(|| {
            self.stretches.push(None);
            self.stretches.len() as u32 - 1
        });
        self.stretches[id as usize] = Some(Stretch { key, resident: 0, held: None });
        self.by_key.insert(key, id);
        id
    }

    /// A reservation changed: it is the last that will be broken, if it may be at all.
    fn touch(&mut self, id: u32) {
        self.clock += 1;
        let clock = self.clock;
        let held = self.held_mut(id);
        let (before, is_full) =
            (core::mem::replace(&mut held.stamp, clock), held.populated == PAGES);
        self.queue.remove(&before);
        if !is_full {
            self.queue.insert(clock, id);
        }
    }

    /// Ends a reservation, whose stretch stays as long as it has pages.
    fn end(&mut self, id: u32) -> Held {
        let held = self.get_mut(id).held.take().expect("a reservation");
        self.queue.remove(&held.stamp);
        self.of_superpage[held.start.pageblock()] = NONE;
        held
    }

    /// An owner's page is of no object any more.
    fn forget(&mut self, owner: Owner) {
        let Some(id) = self.of_owner.get_mut(owner as usize) else { return };
        let id = core::mem::replace(id, NONE);
        if id == NONE {
            return;
        }
        let stretch = self.get_mut(id);
        stretch.resident -= 1;
        if stretch.resident == 0 {
            assert!(stretch.held.is_none(), "a reservation outlives its pages: {stretch:?}");
            let key = stretch.key;
            self.by_key.remove(&key);
            self.stretches[id as usize] = None;
            self.unused.push(id);
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.stretches.capacity() * size_of::<Option<Stretch>>()
            + (self.of_superpage.capacity() + self.of_owner.capacity()) * size_of::<u32>()
    }
}

const fn key(page: &ObjectPage) -> (u64, u64) {
    (page.object, page.index / PAGES as u64)
}

impl FreeBsd {
    /// The reservation that the frame lies in, its free frames included.
    pub fn reservation_at(&self, frame: Frame) -> Option<Reservation> {
        let stretch = self.reservations.get(self.reservations.at(frame)?);
        let held = stretch.held.as_ref()?;
        let (object, number) = stretch.key;
        let first = number * u64::from(PAGES);
        Some(Reservation { object, first, start: held.start, populated: held.populated })
    }

    /// How many reservations there are, and what they hold. Time linear in the machine's superpages.
    pub fn set_aside(&self) -> SetAside {
        let mut sum = SetAside::default();
        for stretch in self.reservations.stretches.iter().flatten() {
            match &stretch.held {
                Some(held) if held.populated == PAGES => sum.full += 1,
                Some(held) => {
                    sum.partial += 1;
                    sum.free_frames += u64::from(PAGES - held.populated);
                }
                None => {}
            }
        }
        sum
    }

    /// The request's page from the reservation of its stretch, which is made if there can be one
    /// (`vm_reserv_alloc_page`).
    pub(super) fn take_reserved(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        zones: Range<usize>,
        depth: Depth,
    ) -> Option<Frame> {
        let page = request.page.filter(|_| self.config.reservations)?;
        if request.order > Order::BASE {
            return None;
        }
        let id = match self.reservations.by_key.get(&key(&page)) {
            Some(&id) => id,
            None => self.reserve(table, request, &page, zones, depth)?,
        };
        // Pages elsewhere keep a stretch from having a reservation again.
        let held = self.reservations.get(id).held.as_ref()?;
        let slot = (page.index % u64::from(PAGES)) as u32;
        let frame = held.start.offset(u64::from(slot));
        let zone = self.zone_of(frame);
        let in_reach = self.lists[zone].zone.span.kind <= request.highest_zone;
        if held.is_populated(slot) || !in_reach || !self.allows(zone, Order::BASE, depth) {
            return None;
        }
        self.populate(id, slot, zone);
        Some(frame)
    }

    /// Sets a superpage aside for a stretch without pages.
    fn reserve(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        page: &ObjectPage,
        zones: Range<usize>,
        depth: Depth,
    ) -> Option<u32> {
        let first = page.index - page.index % u64::from(PAGES);
        if page.pages != u64::MAX && first + u64::from(PAGES) > page.pages {
            // The tail of an object that is unlikely to grow.
            return None;
        }
        let start = zones.into_iter().find_map(|at| {
            let zone = self.zonelists.get(request.node, request.highest_zone)[at];
            if !self.allows(zone, Order::BASE, depth) {
                return None;
            }
            let (lists, domain) = self.at(zone);
            let start = lists.take(table, domain, Order::HUGE, Pool::Default)?;
            lists.set_aside += u64::from(PAGES);
            Some(start)
        })?;
        for slot in 0..PAGES {
            table.set_cached(start.offset(u64::from(slot)), Order::BASE, Pool::Default as u8);
        }
        let this = &mut self.reservations;
        let id = this.stretch(key(page));
        this.clock += 1;
        let stamp = this.clock;
        let population = [0; PAGES as usize / 64];
        this.get_mut(id).held = Some(Held { start, population, populated: 0, stamp });
        this.queue.insert(stamp, id);
        if this.of_superpage.len() <= start.pageblock() {
            this.of_superpage.resize(table.blocks().len(), NONE);
        }
        this.of_superpage[start.pageblock()] = id;
        self.counts.reserved += 1;
        Some(id)
    }

    /// A page of a reservation comes into use (`vm_reserv_populate`).
    fn populate(&mut self, id: u32, slot: u32, zone: usize) {
        let held = self.reservations.held_mut(id);
        held.population[slot as usize / 64] |= 1 << (slot % 64);
        held.populated += 1;
        self.counts.reservations_filled += u64::from(held.populated == PAGES);
        self.lists[zone].set_aside -= 1;
        self.reservations.touch(id);
    }

    /// A frame that is on no list any more goes back to its reservation, and that back whole if it
    /// was its last page (`vm_reserv_depopulate`). False if the frame lies in none.
    pub(super) fn depopulate(&mut self, table: &mut FrameTable, frame: Frame) -> bool {
        let Some(id) = self.reservations.at(frame) else { return false };
        let zone = self.zone_of(frame);
        let slot = frame.0 % PAGES;
        let held = self.reservations.held_mut(id);
        debug_assert!(held.is_populated(slot), "{frame:?} is freed twice");
        self.counts.superpages_opened += u64::from(held.populated == PAGES);
        held.population[slot as usize / 64] &= !(1 << (slot % 64));
        held.populated -= 1;
        let is_empty = held.populated == 0;
        table.set_cached(frame, Order::BASE, Pool::Default as u8);
        self.lists[zone].set_aside += 1;
        if !is_empty {
            self.reservations.touch(id);
            return true;
        }
        let start = self.reservations.end(id).start;
        (start.0..start.0 + PAGES).for_each(|frame| table.set_inside(Frame(frame)));
        let (lists, domain) = self.at(zone);
        lists.set_aside -= u64::from(PAGES);
        lists.give(table, domain, start, Order::HUGE, Pool::Default);
        self.counts.reservations_freed += 1;
        true
    }

    /// Records the object of a page that was just allocated.
    pub(super) fn enter_object(&mut self, request: &Request, owner: Owner) {
        let Some(page) = request.page.filter(|_| self.config.reservations) else { return };
        if request.order > Order::BASE {
            return;
        }
        let this = &mut self.reservations;
        let id = this.stretch(key(&page));
        this.get_mut(id).resident += 1;
        // After the new stretch has its page, in case the owner's last one is of the same.
        this.forget(owner);
        if this.of_owner.len() <= owner as usize {
            this.of_owner.resize((owner as usize + 1).next_power_of_two(), NONE);
        }
        this.of_owner[owner as usize] = id;
    }

    /// A page that was just released leaves its object. Returns whether it went back to a reservation.
    pub(super) fn leave_object(
        &mut self,
        table: &mut FrameTable,
        frame: Frame,
        owner: Owner,
    ) -> bool {
        let returned = self.depopulate(table, frame);
        self.reservations.forget(owner);
        returned
    }

    /// Breaks the reservation that changed least recently of those in reach of a request that have
    /// room for it (`vm_reserv_reclaim_inactive`, `vm_reserv_reclaim_contig`). False if there is
    /// none.
    pub(super) fn break_one(
        &mut self,
        table: &mut FrameTable,
        zones: Range<usize>,
        request: &Request,
        depth: Depth,
    ) -> bool {
        let zonelist = self.zonelists.get(request.node, request.highest_zone);
        let in_reach = |held: &Held| {
            let mut zones = zonelist[zones.clone()].iter();
            let zone = zones.find(|&&zone| self.lists[zone].zone.contains(held.start));
            zone.is_some_and(|&zone| self.allows(zone, request.order, depth))
        };
        let has_room = |held: &Held| {
            let free = u64::from(PAGES - held.populated);
            request.order == Order::BASE
                || free >= request.order.frames()
                    && held.holes().iter().any(|&(_, order)| order >= request.order)
        };
        let chosen = self.reservations.queue.values().copied().find(|&id| {
            let held = self.reservations.get(id).held.as_ref().expect("a reservation");
            in_reach(held) && has_room(held)
        });
        let Some(id) = chosen else { return false };
        self.break_up(table, id);
        true
    }

    /// Gives the free frames of a reservation to the free lists (`vm_reserv_break`).
    fn break_up(&mut self, table: &mut FrameTable, id: u32) {
        let held = self.reservations.end(id);
        let zone = self.zone_of(held.start);
        for (slot, order) in held.holes() {
            let frame = held.start.offset(u64::from(slot));
            (0..order.frames()).for_each(|at| table.set_inside(frame.offset(at)));
            let (lists, domain) = self.at(zone);
            lists.set_aside -= order.frames();
            lists.enqueue(table, domain, frame, order);
        }
        self.counts.reservations_broken += 1;
    }

    /// Breaks all reservations of a range, full ones too: their pages are about to leave it.
    pub(super) fn break_range(&mut self, table: &mut FrameTable, range: Range<Frame>) {
        for superpage in range.start.pageblock()..range.end.0.div_ceil(PAGES) as usize {
            if let Some(id) = self.reservations.at(Frame(superpage as u32 * PAGES)) {
                self.break_up(table, id);
            }
        }
    }

    /// # Panics
    /// If reservations contradict the table or themselves.
    pub(super) fn validate_reservations(&self, table: &FrameTable) {
        let this = &self.reservations;
        let mut resident = alloc::vec![0; this.stretches.len()];
        for (owner, &id) in this.of_owner.iter().enumerate().filter(|(_, id)| **id != NONE) {
            assert!(table.block_of(owner as Owner).is_some(), "owner {owner} has no page");
            resident[id as usize] += 1;
        }
        let mut set_aside = alloc::vec![0; self.lists.len()];
        let (mut reserved, mut queued) = (0, 0);
        for (id, stretch) in this.stretches.iter().enumerate() {
            let Some(stretch) = stretch else { continue };
            assert_eq!(this.by_key.get(&stretch.key), Some(&(id as u32)));
            assert_eq!(stretch.resident, resident[id], "pages of {stretch:?}");
            assert!(stretch.resident > 0, "{stretch:?} has no page");
            let Some(held) = &stretch.held else { continue };
            reserved += 1;
            assert_eq!(held.start.align_down(Order::HUGE), held.start);
            assert_eq!(this.at(held.start), Some(id as u32), "{stretch:?}");
            let populated = (0..PAGES).filter(|&slot| held.is_populated(slot)).count() as u32;
            assert!((1..=PAGES).contains(&populated), "{stretch:?}");
            assert_eq!(held.populated, populated, "{stretch:?}");
            for slot in 0..PAGES {
                let frame = held.start.offset(u64::from(slot));
                let expected =
                    if held.is_populated(slot) { State::Allocated } else { State::Cached };
                assert_eq!(table.state(frame), expected, "{frame:?} of {stretch:?}");
                assert_eq!(table.order(frame), Order::BASE, "{frame:?} of {stretch:?}");
                if expected == State::Allocated {
                    assert_eq!(this.of_owner[table.owner(frame) as usize], id as u32, "{frame:?}");
                }
            }
            set_aside[self.zone_of(held.start)] += u64::from(PAGES - populated);
            let in_queue = this.queue.get(&held.stamp) == Some(&(id as u32));
            assert_eq!(in_queue, populated < PAGES, "full ones are not broken: {stretch:?}");
            queued += usize::from(in_queue);
        }
        assert_eq!(this.queue.len(), queued);
        assert_eq!(this.of_superpage.iter().filter(|&&id| id != NONE).count(), reserved);
        for (lists, set_aside) in self.lists.iter().zip(set_aside) {
            assert_eq!(lists.set_aside, set_aside, "free frames in reservations");
        }
    }
}
