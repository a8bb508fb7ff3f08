//! The steps of the operating system and the engine.

use std::ops::Range;

use super::action::{Action, Verb};
use super::design::Design;
use super::state::{Access, Cell, Held, Invalidation, NONE, Owner, Page, Stage, State, WriteBack};
use super::table::{Caching, Phase};
use super::variant::Variant;

impl<const C: usize, const D: usize, const L: usize, const P: usize, const F: usize>
    State<C, D, L, P, F>
{
    /// Every step of the operating system on a page.
    pub(super) fn system_steps(
        &self,
        design: &Design,
        page: usize,
        emit: &mut impl FnMut(Action, Self),
    ) {
        let own = self.pages[page];
        match own.stage {
            Stage::Idle => self.migrate(design, page, emit),
            Stage::Migrating => {
                self.set_tables(page, own.target, emit);
                self.notify(design, page, emit);
                self.clear(design, page, emit);
                self.start_abort(design, page, emit);
                self.chain(design, page, emit);
            }
            Stage::Aborting => {
                self.set_tables(page, own.home, emit);
                self.clear_aborted(design, page, emit);
            }
            Stage::Waiting | Stage::Moved | Stage::Done => {}
        }
    }

    /// `Migrate`, into a free frame. The destination is claimed first: whatever caches hold of its
    /// former owner is thrown away.
    fn migrate(&self, design: &Design, page: usize, emit: &mut impl FnMut(Action, Self)) {
        let own = self.pages[page];
        let free = |frame: &usize| matches!(self.owners[*frame], Owner::Unused | Owner::Freed);
        // Free frames are alike, except that only a freed one was in use before.
        let freed = (0..F).find(|&f| self.owners[f] == Owner::Freed);
        let frames = usize::from(design.pages) * (1 + usize::from(design.together)) + 1;
        let unused = || (0..frames.min(F)).find(free);
        let Some(frame) = freed.or_else(unused) else { return };
        let mut next = *self;
        let entered = next.table.migrate(own.home, frame as u8, L as u16, design.caching);
        if entered.is_err() {
            return;
        }
        if !design.breaks(Variant::DirtyDestination) {
            next.claim(frame);
        }
        for line in 0..L {
            next.age(design, frame, line);
        }
        next.owners[frame] = Owner::page(page);
        next.pages[page].stage = Stage::Migrating;
        next.pages[page].target = frame as u8;
        next.forget_acknowledgements(page);
        emit(act(Verb::Migrate, page, frame as u8), next);
    }

    /// Takes every line of a frame from all caches and throws it away.
    fn claim(&mut self, frame: usize) {
        for core in &mut self.cores {
            core.copies[frame] = [Cell::EMPTY; L];
            if usize::from(core.write_back.frame) == frame {
                core.write_back = WriteBack::NONE;
            }
        }
        self.llc[frame] = [Cell::EMPTY; L];
    }

    /// The page tables of cores and IOMMU change, one after the other in either order.
    fn set_tables(&self, page: usize, to: u8, emit: &mut impl FnMut(Action, Self)) {
        let own = self.pages[page];
        if own.table != to {
            let mut next = *self;
            next.pages[page].table = to;
            emit(act(Verb::SetTable, page, to), next);
        }
        if own.io_table != to {
            let mut next = *self;
            next.pages[page].io_table = to;
            emit(act(Verb::SetIoTable, page, to), next);
        }
    }

    /// Whether every translation is `to`, as far as the operating system knows.
    fn is_translated(&self, design: &Design, page: usize, to: u8) -> bool {
        let own = self.pages[page];
        let waits = D > 0 && !design.breaks(Variant::IommuNotWaited);
        own.table == to && (own.io_table == to || !waits) && self.all_acknowledged(page, waits)
    }

    /// The copy may begin: once all invalidations are complete, or at once where nothing is
    /// cached privately.
    fn notify(&self, design: &Design, page: usize, emit: &mut impl FnMut(Action, Self)) {
        let Page { home, target, .. } = self.pages[page];
        let Some((slot, _)) = self.table.find(home) else { return };
        if self.table.entry(slot).is_none_or(|entry| entry.phase() != Phase::Aliased) {
            return;
        }
        let early =
            design.caching == Caching::Noncacheable || design.breaks(Variant::CopyStartsEarly);
        if early || self.is_translated(design, page, target) {
            let mut next = *self;
            if next.table.start_copy(home).is_ok() {
                emit(act(Verb::Notify, page, home), next);
            }
        }
    }

    /// `Clear`: the page has moved, its source frame is free.
    fn clear(&self, design: &Design, page: usize, emit: &mut impl FnMut(Action, Self)) {
        let Page { home, target, table, io_table, .. } = self.pages[page];
        let early = design.breaks(Variant::NoncacheableClearsEarly)
            && table == target
            && io_table == target;
        if !early && !self.is_translated(design, page, target) {
            return;
        }
        let mut next = *self;
        let cleared = match design.breaks(Variant::ClearUnfinished) {
            true => next.table.abort(home).or_else(|_| next.table.clear(home)),
            false => next.table.clear(home),
        };
        if cleared.is_ok() {
            next.end(design, page, target, home);
            let again = design.again && (design.pages == 1 || design.together);
            next.pages[page].stage = match (again, design.pages) {
                (true, _) => Stage::Idle,
                (false, 1) => Stage::Moved,
                _ if design.together => Stage::Moved,
                _ => Stage::Done,
            };
            let turn = next.pages.iter().position(|page| page.stage == Stage::Waiting);
            if let (Stage::Done, Some(turn)) = (next.pages[page].stage, turn) {
                next.pages[turn].stage = Stage::Idle;
            }
            emit(act(Verb::Clear, page, home), next);
        }
    }

    /// A page stays in `home`; the frame `left` is free.
    fn end(&mut self, design: &Design, page: usize, home: u8, left: u8) {
        self.pages[page].home = home;
        self.pages[page].target = NONE;
        self.owners[usize::from(left)] = Owner::Freed;
        self.lagging = false;
        for line in 0..L {
            self.age(design, usize::from(left), line);
        }
        self.forget_acknowledgements(page);
    }

    /// Acknowledgements belong to one change of a translation. (Those still on their way would
    /// carry its number, and not count.)
    fn forget_acknowledgements(&mut self, page: usize) {
        let of_cores = self.cores.iter_mut().map(|core| &mut core.invalidation[page]);
        let of_devices = self.devices.iter_mut().map(|device| &mut device.invalidation[page]);
        for state in of_cores.chain(of_devices) {
            // Only where late ones are mistaken for new ones can one be on its way.
            if *state != Invalidation::Sent {
                *state = Invalidation::None;
            }
        }
    }

    /// A migration may be taken back while nothing is copied.
    fn start_abort(&self, design: &Design, page: usize, emit: &mut impl FnMut(Action, Self)) {
        let Page { home, target, .. } = self.pages[page];
        if !design.aborts {
            return;
        }
        let Some((slot, _)) = self.table.find(home) else { return };
        let Some(entry) = self.table.entry(slot) else { return };
        let begun = entry.phase() != Phase::Aliased;
        if begun && !design.breaks(Variant::AbortHalfWay) {
            return;
        }
        let mut next = *self;
        next.pages[page].stage = Stage::Aborting;
        next.forget_acknowledgements(page);
        emit(act(Verb::StartAbort, page, target), next);
    }

    /// An abort ends when every translation is to the source again. What private caches hold
    /// under the destination is written to the source.
    fn clear_aborted(&self, design: &Design, page: usize, emit: &mut impl FnMut(Action, Self)) {
        let Page { home, target, table, io_table, .. } = self.pages[page];
        let early =
            design.breaks(Variant::AbortKeepsTranslations) && table == home && io_table == home;
        if !early && !self.is_translated(design, page, home) {
            return;
        }
        let mut next = *self;
        for line in 0..L as u8 {
            next.recall(design, target, line, home);
        }
        if let Some((slot, _)) = next.table.find(home) {
            next.held[slot] = Held::NONE;
            if next.table.abort(home).is_err() {
                next.table.forget(slot);
            }
        }
        next.end(design, page, home, target);
        next.pages[page].stage = Stage::Idle;
        emit(act(Verb::ClearAborted, page, target), next);
    }

    /// An injected bug: a second migration of the page, before the first is cleared.
    fn chain(&self, design: &Design, page: usize, emit: &mut impl FnMut(Action, Self)) {
        let own = self.pages[page];
        if !design.breaks(Variant::ChainAccepted) || own.table != own.target {
            return;
        }
        let Some(frame) = (0..F).find(|&f| self.owners[f] == Owner::Unused) else { return };
        let mut next = *self;
        if next.table.enter(own.target, frame as u8, L as u16, design.caching).is_ok() {
            next.owners[frame] = Owner::page(page);
            next.pages[page].home = own.target;
            next.pages[page].target = frame as u8;
            next.forget_acknowledgements(page);
            emit(act(Verb::MigrateAgain, page, frame as u8), next);
        }
    }

    /// Every step of the engine, of the slices among themselves, and evictions of these lines.
    pub(super) fn engine_steps(
        &self,
        design: &Design,
        lines: Range<usize>,
        emit: &mut impl FnMut(Action, Self),
    ) {
        for slot in 0..self.held.len() {
            let Some(entry) = self.table.entry(slot) else { continue };
            let (source, destination) = (entry.source, entry.destination);
            let action =
                |verb, line, frame| Action { verb, agent: slot as u8, page: 0, line, frame };
            if let Some(line) = self.line_to_read(slot) {
                let mut next = *self;
                if !self.engine_waits(design, slot, line) {
                    let verb = if self.asked[slot] { Verb::CopyAnswer } else { Verb::CopyRead };
                    next.copy_read(design, slot, line);
                    emit(action(verb, line, source), next);
                } else if design.locks && !self.asked[slot] {
                    next.asked[slot] = true;
                    emit(action(Verb::CopyAsk, line, source), next);
                }
            }
            if let Some(line) = self.held_line(slot) {
                let mut next = *self;
                next.write_held(design, slot);
                emit(action(Verb::CopyWrite, line, destination), next);
            }
        }
        if self.lagging {
            let mut next = *self;
            next.lagging = false;
            emit(act(Verb::HearOfPtr, 0, NONE), next);
        }
        if design.llc {
            self.llc_evictions(lines.clone(), emit);
        }
        if design.recalls {
            self.call_backs(design, lines, emit);
        }
    }

    /// The last-level cache takes a core's modified line, or its right to write it.
    fn call_backs(
        &self,
        design: &Design,
        lines: Range<usize>,
        emit: &mut impl FnMut(Action, Self),
    ) {
        for (c, core) in self.cores.iter().enumerate() {
            for frame in 0..F {
                for line in lines.clone() {
                    let cell = core.copies[frame][line];
                    if cell.access() != Access::Modified {
                        continue;
                    }
                    let (agent, at) = (c as u8, (frame as u8, line as u8));
                    let kept = Cell::new(Access::Shared, cell.data());
                    for (verb, left) in [(Verb::CallBack, Cell::EMPTY), (Verb::Downgrade, kept)] {
                        let mut next = *self;
                        let home = next.route(design, at.0, at.1).home;
                        next.store(design, home, at.1, cell.data());
                        next.cores[c].copies[frame][line] = left;
                        emit(Action { verb, agent, page: 0, line: at.1, frame: at.0 }, next);
                    }
                }
            }
        }
    }

    pub(super) fn llc_evictions(&self, lines: Range<usize>, emit: &mut impl FnMut(Action, Self)) {
        for frame in 0..F {
            for line in lines.clone() {
                let cell = self.llc[frame][line];
                if !cell.is_valid() {
                    continue;
                }
                let mut next = *self;
                next.llc[frame][line] = Cell::EMPTY;
                if cell.is_owned() {
                    next.memory[frame][line] = next.memory[frame][line].with_data(cell.data());
                }
                let (frame, line) = (frame as u8, line as u8);
                emit(Action { verb: Verb::EvictLlc, agent: 0, page: 0, line, frame }, next);
            }
        }
    }
}

fn act(verb: Verb, page: usize, frame: u8) -> Action {
    Action { verb, agent: 0, page: page as u8, line: 0, frame }
}
