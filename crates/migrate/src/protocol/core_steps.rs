//! What cores do: loads, stores, locked instructions, evictions, walks, invalidations.

use std::ops::Range;

use super::action::{Action, Verb};
use super::design::Design;
use super::state::{
    Access, Cell, Fault, Invalidation, Kind, NONE, Request, Stage, State, WriteBack,
};
use super::table::Side;
use super::variant::Variant;

impl<const C: usize, const D: usize, const L: usize, const P: usize, const F: usize>
    State<C, D, L, P, F>
{
    /// Every step that core `c` can take on these lines, or that takes what it has sent.
    pub(super) fn core_steps(
        &self,
        design: &Design,
        c: usize,
        lines: Range<usize>,
        emit: &mut impl FnMut(Action, Self),
    ) {
        self.core_demands(design, c, lines.clone(), emit);
        self.core_served(design, c, emit);
        self.victim_taken(design, c, emit);
        if design.prefetch {
            self.prefetches(design, c, lines, emit);
        }
    }

    /// The last-level cache serves the miss of core `c`.
    pub(super) fn core_served(
        &self,
        design: &Design,
        c: usize,
        emit: &mut impl FnMut(Action, Self),
    ) {
        let request = self.cores[c].request;
        if request.is_some() && !self.must_wait(design, request) {
            let Request { page, line, frame, .. } = request;
            let mut next = *self;
            next.serve(design, c);
            emit(Action { verb: Verb::Serve, agent: c as u8, page, line, frame }, next);
        }
    }

    /// It takes the victim of core `c`.
    pub(super) fn victim_taken(
        &self,
        design: &Design,
        c: usize,
        emit: &mut impl FnMut(Action, Self),
    ) {
        let WriteBack { frame, line, .. } = self.cores[c].write_back;
        if frame != NONE {
            let mut next = *self;
            next.write_back(design, c);
            let agent = c as u8;
            emit(Action { verb: Verb::ServeVictim, agent, page: 0, line, frame }, next);
        }
    }

    /// The internal steps of core `c`: requests, hits, evictions, walks, and invalidations.
    pub(super) fn core_demands(
        &self,
        design: &Design,
        c: usize,
        lines: Range<usize>,
        emit: &mut impl FnMut(Action, Self),
    ) {
        for page in 0..P {
            self.page_demands(design, c, page, lines.clone(), emit);
        }
        for frame in 0..F {
            for line in lines.clone() {
                self.eviction(design, c, frame, line, emit);
            }
        }
    }

    /// What core `c` does with a page: it asks, hits, walks and invalidates.
    fn page_demands(
        &self,
        design: &Design,
        c: usize,
        page: usize,
        lines: Range<usize>,
        emit: &mut impl FnMut(Action, Self),
    ) {
        self.uses(design, c, page, lines, emit);
        self.translations(design, c, page, emit);
    }

    /// Whether core `c` may use a page, by a translation that is left if not otherwise.
    fn may_use(&self, c: usize, page: usize) -> bool {
        let own = self.pages[page];
        let frame = self.cores[c].tlb[page];
        own.stage.in_use() || own.stage == Stage::Done && frame != own.home && frame != NONE
    }

    /// Core `c` asks for lines of a page, or hits them.
    pub(super) fn uses(
        &self,
        design: &Design,
        c: usize,
        page: usize,
        lines: Range<usize>,
        emit: &mut impl FnMut(Action, Self),
    ) {
        if self.may_use(c, page) && self.cores[c].tlb[page] != NONE {
            for line in lines {
                self.accesses(design, c, page, line, emit);
            }
        }
    }

    /// Core `c` walks, evicts a translation, or invalidates it.
    pub(super) fn translations(
        &self,
        design: &Design,
        c: usize,
        page: usize,
        emit: &mut impl FnMut(Action, Self),
    ) {
        // A locked instruction keeps its translation until it is done.
        if design.locks && self.cores[c].holds_locked() {
            return;
        }
        if self.may_use(c, page) {
            self.translation(design, c, page, emit);
        }
        self.invalidation(design, c, page, emit);
    }

    /// Loads, stores and locked instructions on a line, by the translation that the core has. Hits
    /// that change nothing are not steps.
    fn accesses(
        &self,
        design: &Design,
        c: usize,
        page: usize,
        line: usize,
        emit: &mut impl FnMut(Action, Self),
    ) {
        let core = &self.cores[c];
        let frame = core.tlb[page];
        let cell = core.copies[usize::from(frame)][line];
        let (agent, page, line) = (c as u8, page as u8, line as u8);
        let action = |verb| Action { verb, agent, page, line, frame };
        if cell.is_valid() && !self.is_last(page, frame, line, cell.data()) {
            let mut next = *self;
            next.fault = Fault::Stale;
            emit(action(Verb::LoadHit), next);
        }
        match cell.access() {
            Access::Modified => {
                let mut next = *self;
                next.write_copy(design, c, Request { kind: Kind::Write, page, line, frame });
                if next != *self {
                    emit(action(Verb::StoreHit), next);
                }
                if design.locks && !self.is_asked(frame, line) {
                    let mut next = *self;
                    next.cores[c].copies[usize::from(frame)][usize::from(line)] =
                        Cell::new(Access::Locked, cell.data());
                    emit(action(Verb::LockHit), next);
                }
            }
            Access::Locked => {}
            Access::Shared | Access::Invalid if core.request.is_some() => {}
            access => {
                let mut ask = |kind, verb| {
                    let mut next = *self;
                    next.cores[c].request = Request { kind, page, line, frame };
                    emit(action(verb), next);
                };
                if access == Access::Invalid {
                    ask(Kind::Read, Verb::LoadMiss);
                }
                ask(Kind::Write, Verb::StoreMiss);
                if design.locks {
                    ask(Kind::Lock, Verb::LockMiss);
                }
            }
        }
    }

    /// The cache gives a line up; or the core ends the locked instruction that keeps it there,
    /// whatever has become of its translation meanwhile.
    pub(super) fn eviction(
        &self,
        design: &Design,
        c: usize,
        frame: usize,
        line: usize,
        emit: &mut impl FnMut(Action, Self),
    ) {
        let cell = self.cores[c].copies[frame][line];
        if !cell.is_valid() {
            return;
        }
        let (agent, at) = (c as u8, (frame as u8, line as u8));
        let action = |verb| Action { verb, agent, page: 0, line: at.1, frame: at.0 };
        let mut next = *self;
        next.cores[c].copies[frame][line] = Cell::EMPTY;
        match cell.access() {
            Access::Shared => emit(action(Verb::Drop), next),
            Access::Modified if self.cores[c].write_back == WriteBack::NONE => {
                next.cores[c].write_back = WriteBack { frame: at.0, line: at.1, data: cell.data() };
                emit(action(Verb::Evict), next);
            }
            Access::Locked => {
                let page = self.owners[frame].of().unwrap_or(0);
                let mut next = *self;
                let request = Request { kind: Kind::Write, page, line: at.1, frame: at.0 };
                next.write_copy(design, c, request);
                emit(action(Verb::Unlock), next);
            }
            _ => {}
        }
    }

    /// Evictions from the TLB, and walks that fill it.
    fn translation(
        &self,
        design: &Design,
        c: usize,
        page: usize,
        emit: &mut impl FnMut(Action, Self),
    ) {
        let core = &self.cores[c];
        let table = self.pages[page].table;
        let action =
            |verb, frame| Action { verb, agent: c as u8, page: page as u8, line: 0, frame };
        let mut step = |verb, frame, tlb, walk| {
            let mut next = *self;
            next.cores[c].tlb[page] = tlb;
            next.cores[c].walk[page] = walk;
            emit(action(verb, frame), next);
        };
        let (tlb, walk) = (core.tlb[page], core.walk[page]);
        if !design.empty_tlb {
            if tlb != table {
                step(Verb::EvictTranslation, tlb, table, walk);
            }
            return;
        }
        if tlb != NONE {
            step(Verb::EvictTranslation, tlb, NONE, walk);
        } else if !design.split_walks {
            step(Verb::EndWalk, table, table, NONE);
        } else if walk == NONE {
            step(Verb::BeginWalk, table, NONE, table);
        } else {
            step(Verb::EndWalk, walk, walk, NONE);
        }
    }

    /// The local invalidation, at the core's own time: the translation and walks under way go,
    /// then the core waits for what it has sent under the old name.
    fn invalidation(
        &self,
        design: &Design,
        c: usize,
        page: usize,
        emit: &mut impl FnMut(Action, Self),
    ) {
        let Some((new, old)) = self.pages[page].change() else { return };
        let core = &self.cores[c];
        let action = |verb| Action { verb, agent: c as u8, page: page as u8, line: 0, frame: old };
        let changed = self.pages[page].table == new || design.breaks(Variant::FlushBeforeTable);
        let mut step = |verb, state| {
            let mut next = *self;
            next.cores[c].invalidation[page] = state;
            if verb == Verb::Invalidate {
                let kept = design.breaks(Variant::WalkSurvives);
                let walk = if kept { core.walk[page] } else { NONE };
                next.cores[c].walk[page] = walk;
                next.cores[c].tlb[page] =
                    if design.empty_tlb { NONE } else { self.pages[page].table };
            }
            emit(action(verb), next);
        };
        let outstanding = core.request.is_some() && core.request.frame == old;
        let waits = outstanding && !design.breaks(Variant::CoreAcksWithMiss);
        let travels = design.messages || design.breaks(Variant::LateAcknowledgement);
        let acknowledged = match travels {
            true => Invalidation::Sent,
            false => Invalidation::Done,
        };
        match core.invalidation[page] {
            Invalidation::None if changed => {
                if waits || design.slow_drain {
                    step(Verb::Invalidate, Invalidation::Draining);
                }
                if !waits {
                    step(Verb::Invalidate, acknowledged);
                }
            }
            Invalidation::Draining if !waits => step(Verb::Drained, acknowledged),
            Invalidation::Sent => step(Verb::Acknowledge, Invalidation::Done),
            _ => {}
        }
    }

    /// Prefetches by the physical name that is going away. A prefetcher follows physical
    /// addresses and asks no TLB, so it may do so at any time until that name ends.
    pub(super) fn prefetches(
        &self,
        design: &Design,
        c: usize,
        lines: Range<usize>,
        emit: &mut impl FnMut(Action, Self),
    ) {
        for (page, own) in self.pages.iter().enumerate() {
            let Some((_, frame)) = own.change() else { continue };
            // A migration that is taken back leaves the destination's name: nothing asks for it
            // but what was translated to it.
            if self.table.find(frame).is_none_or(|(_, side)| side == Side::Destination) {
                continue;
            }
            for line in lines.clone() {
                let copy = self.cores[c].copies[usize::from(frame)][line];
                if copy.is_valid() || self.is_locked(design, frame, line as u8) {
                    continue;
                }
                let mut next = *self;
                next.prefetch(design, c, frame, line as u8);
                if next != *self {
                    let (agent, page, line) = (c as u8, page as u8, line as u8);
                    emit(Action { verb: Verb::Prefetch, agent, page, line, frame }, next);
                }
            }
        }
    }
}
