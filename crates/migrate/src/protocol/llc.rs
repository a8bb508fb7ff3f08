//! Transactions of the last-level cache: what becomes of a request, a victim, a DMA access.
//!
//! Each is one step here. [`super::message`] takes them apart into messages.

use super::design::Design;
use super::state::{Access, Cell, Fault, Held, Kind, NONE, Owner, Request, State, WriteBack};
use super::table::{Caching, Phase, Route, Side};
use super::variant::Variant;

impl<const C: usize, const D: usize, const L: usize, const P: usize, const F: usize>
    State<C, D, L, P, F>
{
    /// Redirection, by the metadata table or by an injected bug. Outside a migration a line has one
    /// name, which is its home.
    pub(super) fn route(&self, design: &Design, frame: u8, line: u8) -> Route<u8> {
        let alone = Route { home: frame, opposite: NONE, fill: true };
        let Some((slot, side)) = self.table.find(frame) else { return alone };
        let Some(entry) = self.table.entry(slot) else { return alone };
        let line = u16::from(line);
        let mut route = entry.route(side, line);
        let Some(variant) = design.variant else { return route };
        let by_destination = side == Side::Destination;
        let home = match variant {
            Variant::TwoPtrs if by_destination && self.lagging && line + 1 == entry.ptr() => {
                Side::Source
            }
            Variant::PtrByHashedIndex if by_destination => entry.home(line ^ 1),
            Variant::PtrWraps if entry.phase() == Phase::Copied => Side::Source,
            Variant::PtrInclusive if line == entry.ptr() => Side::Destination,
            Variant::EntryInOneSlice if by_destination => return alone,
            Variant::NoRedirection => side,
            _ => return route,
        };
        route.home = entry.name(home);
        route
    }

    /// The value of the line in the last-level cache or memory.
    pub(super) fn load(&self, frame: u8, line: u8) -> u8 {
        let (frame, line) = (usize::from(frame), usize::from(line));
        let cached = self.llc[frame][line];
        if cached.is_valid() { cached.data() } else { self.memory[frame][line].data() }
    }

    /// Reads a line into the last-level cache.
    fn allocate(&mut self, design: &Design, frame: u8, line: u8) {
        let cell = &mut self.llc[usize::from(frame)][usize::from(line)];
        if design.llc && !cell.is_valid() {
            let memory = self.memory[usize::from(frame)][usize::from(line)];
            *cell = Cell::new(Access::Shared, memory.data());
        }
    }

    /// Writes a line into the last-level cache, or memory.
    pub(super) fn store(&mut self, design: &Design, frame: u8, line: u8, data: u8) {
        let (frame, line) = (usize::from(frame), usize::from(line));
        if design.llc {
            self.llc[frame][line] = Cell::new(Access::Modified, data);
        } else {
            self.memory[frame][line] = Cell::new(Access::Shared, data);
        }
    }

    /// Takes a line from all private caches; modified data, and a victim on its way, go to
    /// `home`.
    pub(super) fn recall(&mut self, design: &Design, frame: u8, line: u8, home: u8) {
        self.recall_copies(design, frame, line, home);
        self.absorb_victims(design, frame, line, home);
    }

    fn recall_copies(&mut self, design: &Design, frame: u8, line: u8, home: u8) {
        for core in 0..C {
            let cell = &mut self.cores[core].copies[usize::from(frame)][usize::from(line)];
            let taken = std::mem::take(cell);
            if taken.is_owned() {
                self.store(design, home, line, taken.data());
            }
        }
    }

    /// Takes the right to write a line from private caches, which keep it for reading.
    fn downgrade(&mut self, design: &Design, frame: u8, line: u8, home: u8) {
        for core in 0..C {
            let cell = &mut self.cores[core].copies[usize::from(frame)][usize::from(line)];
            if cell.is_owned() {
                let data = cell.data();
                *cell = Cell::new(Access::Shared, data);
                self.store(design, home, line, data);
            }
        }
        self.absorb_victims(design, frame, line, home);
    }

    /// Waits for victims of a line that are on their way: their data arrives now.
    fn absorb_victims(&mut self, design: &Design, frame: u8, line: u8, home: u8) {
        for core in 0..C {
            let WriteBack { frame: victim, line: of, data } = self.cores[core].write_back;
            if victim == frame && of == line {
                self.cores[core].write_back = WriteBack::NONE;
                self.store(design, home, line, data);
            }
        }
    }

    /// Whether a core is between the two halves of a locked instruction on a line, under either of
    /// its names: requests for the line wait for that core.
    pub(super) fn is_locked(&self, design: &Design, frame: u8, line: u8) -> bool {
        let opposite = self.route(design, frame, line).opposite;
        let locked = |frame: u8| {
            let copies = |core: usize| self.cores[core].copies.get(usize::from(frame));
            let line = usize::from(line);
            (0..C).any(|core| copies(core).is_some_and(|c| c[line].access() == Access::Locked))
        };
        design.locks && (locked(frame) || locked(opposite))
    }

    /// Whether a request has to wait. In the protocol it waits only for the core that holds the
    /// line locked.
    pub(super) fn must_wait(&self, design: &Design, request: Request) -> bool {
        let entry = || self.table.find(request.frame);
        let held = || entry().is_some_and(|(slot, _)| self.held_line(slot) == Some(request.line));
        match design.variant {
            Some(Variant::HeldLineWaits) if held() => true,
            Some(Variant::PageWaits) if entry().is_some() => true,
            _ if request.kind == Kind::Lock && self.is_asked(request.frame, request.line) => true,
            _ => self.is_locked(design, request.frame, request.line),
        }
    }

    /// Whether the engine waits for a line that is or was locked.
    pub(super) fn is_asked(&self, frame: u8, line: u8) -> bool {
        let Some((slot, _)) = self.table.find(frame) else { return false };
        let ptr = self.table.entry(slot).and_then(|entry| entry.to_copy());
        self.asked[slot] && ptr == Some(u16::from(line))
    }

    /// If the engine has read this line and not yet written it, the request writes it first: so
    /// neither waits for the other, and a writer that never stops cannot keep the copy from
    /// ending.
    fn finish_held(&mut self, design: &Design, frame: u8, line: u8) {
        let Some((slot, _)) = self.table.find(frame) else { return };
        if self.held_line(slot) != Some(line) {
            return;
        }
        match design.variant {
            Some(Variant::CopyAgain) => self.held[slot] = Held::NONE,
            Some(Variant::WrittenWhileHeld | Variant::PtrBeforeWrite) => {}
            _ => self.write_held(design, slot),
        }
    }

    /// The line that the engine has read and not yet written.
    pub(super) fn held_line(&self, slot: usize) -> Option<u8> {
        let Held { line, .. } = self.held[slot];
        (line != NONE).then_some(line)
    }

    /// Writes the line that the engine has read to the destination, and moves Ptr past it.
    pub(super) fn write_held(&mut self, design: &Design, slot: usize) {
        let Some(line) = self.held_line(slot) else { return };
        let Some(entry) = self.table.entry_mut(slot) else { return };
        let destination = entry.destination;
        if entry.to_copy() == Some(u16::from(line)) {
            entry.copied();
        }
        let held = std::mem::replace(&mut self.held[slot], Held::NONE);
        self.store(design, destination, line, held.data);
        self.lagging = design.breaks(Variant::TwoPtrs);
    }

    /// Takes the line from the holder under the other name.
    fn check_opposite(&mut self, design: &Design, route: Route<u8>, line: u8, kind: Kind) {
        let Route { home, opposite, .. } = route;
        if opposite == NONE {
            return;
        }
        let copies = |frame: u8| {
            let at = (usize::from(frame), usize::from(line));
            self.cores.iter().map(move |core| core.copies[at.0][at.1])
        };
        let skipped = match design.variant {
            Some(Variant::NoOppositeCheck) => true,
            Some(Variant::CheckNeedsTag) => {
                !self.llc[usize::from(opposite)][usize::from(line)].is_valid()
            }
            Some(Variant::UpgradeUnchecked) => {
                kind == Kind::Read && !copies(opposite).any(Cell::is_owned)
            }
            _ => false,
        };
        if !skipped {
            self.recall(design, opposite, line, home);
        }
    }

    /// Serves a core's miss.
    pub(super) fn serve(&mut self, design: &Design, core: usize) {
        let request = std::mem::replace(&mut self.cores[core].request, Request::NONE);
        let Request { kind, page, line, frame } = request;
        let at = (usize::from(frame), usize::from(line));
        let own = self.cores[core].copies[at.0][at.1];
        if design.breaks(Variant::UpgradeUnchecked) && kind == Kind::Write && own.is_valid() {
            let home = self.route(design, frame, line).home;
            self.recall(design, frame, line, home);
            self.cores[core].copies[at.0][at.1] = Cell::new(Access::Modified, own.data());
            return self.write_copy(design, core, request);
        }
        self.finish_held(design, frame, line);
        let route = self.route(design, frame, line);
        self.check_opposite(design, route, line, kind);
        let keeps = kind == Kind::Read && route.fill;
        match keeps {
            true => self.downgrade(design, frame, line, route.home),
            false => self.recall(design, frame, line, route.home),
        }
        self.allocate(design, route.home, line);
        let data = self.load(route.home, line);
        match kind {
            Kind::Read => self.read(page, frame, line, data),
            Kind::Write | Kind::Lock if route.fill => {
                let access = if kind == Kind::Lock { Access::Locked } else { Access::Modified };
                self.cores[core].copies[at.0][at.1] = Cell::new(access, data);
                return match kind {
                    Kind::Lock => self.read(page, frame, line, data),
                    _ => self.write_copy(design, core, request),
                };
            }
            _ => return self.write_home(design, request, route.home, true),
        }
        if route.fill {
            self.cores[core].copies[at.0][at.1] = Cell::new(Access::Shared, data);
        }
    }

    /// Serves a prefetch. Once the copy has begun, nothing is prefetched under the old name: no
    /// translation has it, so no access needs it, and the line would be left behind.
    pub(super) fn prefetch(&mut self, design: &Design, core: usize, frame: u8, line: u8) {
        let Some((slot, _)) = self.table.find(frame) else { return };
        let aliased = self.table.entry(slot).is_some_and(|e| e.phase() == Phase::Aliased);
        if !aliased && !design.breaks(Variant::PrefetchServed) {
            return;
        }
        self.finish_held(design, frame, line);
        let route = self.route(design, frame, line);
        if !route.fill {
            return;
        }
        self.check_opposite(design, route, line, Kind::Read);
        self.downgrade(design, frame, line, route.home);
        self.allocate(design, route.home, line);
        let data = self.load(route.home, line);
        self.cores[core].copies[usize::from(frame)][usize::from(line)] =
            Cell::new(Access::Shared, data);
    }

    /// A victim arrives: it is written to where the line is at home now, not under the name that
    /// it was cached by.
    pub(super) fn write_back(&mut self, design: &Design, core: usize) {
        let victim = std::mem::replace(&mut self.cores[core].write_back, WriteBack::NONE);
        let home = match design.variant {
            Some(Variant::WriteBackUnderOwnName) => victim.frame,
            _ => self.route(design, victim.frame, victim.line).home,
        };
        self.store(design, home, victim.line, victim.data);
    }

    /// Serves a device.
    pub(super) fn serve_device(&mut self, design: &Design, request: Request) {
        let Request { kind, page, line, frame } = request;
        self.finish_held(design, frame, line);
        let route = self.route(design, frame, line);
        let names = [frame, route.opposite];
        for name in names.into_iter().filter(|&name| name != NONE) {
            if name == frame || !design.breaks(Variant::NoOppositeCheck) {
                self.recall(design, name, line, route.home);
            }
        }
        self.allocate(design, route.home, line);
        match kind {
            Kind::Read => {
                let data = self.load(route.home, line);
                self.read(page, frame, line, data);
            }
            Kind::Write if design.breaks(Variant::PartialMergesOwnName) => {
                let stale = !self.is_last(page, frame, line, self.load(frame, line));
                self.write_home(design, request, route.home, false);
                if stale {
                    self.fault = Fault::Stale;
                }
            }
            _ => self.write_home(design, request, route.home, kind == Kind::Write),
        }
    }

    /// Whether `data`, found through `frame`, is the last value written to the page's line. In a
    /// frame that is not the page's there is nothing of it, whatever it looks like.
    pub(super) fn is_last(&self, page: u8, frame: u8, line: u8, data: u8) -> bool {
        let own = self.owners[usize::from(frame)] == Owner::page(usize::from(page));
        own && data == self.last[usize::from(page)][usize::from(line)]
    }

    /// A read returns `data` to an agent.
    pub(super) fn read(&mut self, page: u8, frame: u8, line: u8, data: u8) {
        if !self.is_last(page, frame, line, data) {
            self.fault = Fault::Stale;
        }
    }

    /// A core writes part of the copy that it owns: the rest has to be up to date.
    pub(super) fn write_copy(&mut self, design: &Design, core: usize, request: Request) {
        let Request { page, line, frame, .. } = request;
        let at = (usize::from(frame), usize::from(line));
        let cell = self.cores[core].copies[at.0][at.1];
        self.read(page, frame, line, cell.data());
        let data = self.written(design, page, line, frame);
        self.cores[core].copies[at.0][at.1] = Cell::new(Access::Modified, data);
    }

    /// Part of a line, or all of it, is written at its home.
    pub(super) fn write_home(&mut self, design: &Design, request: Request, home: u8, merges: bool) {
        let Request { page, line, frame, .. } = request;
        if merges {
            let data = self.load(home, line);
            self.read(page, frame, line, data);
        }
        let data = self.written(design, page, line, home);
        self.store(design, home, line, data);
    }

    /// A new value for a page's line, written through `frame`; every other copy is older now.
    fn written(&mut self, design: &Design, page: u8, line: u8, frame: u8) -> u8 {
        let owner = Owner::page(usize::from(page));
        let line = usize::from(line);
        let last = &mut self.last[usize::from(page)][line];
        if design.values > 0 {
            *last = (*last + 1) % design.values;
        } else {
            let owners = self.owners;
            for frame in (0..F).filter(|&frame| owners[frame] == owner) {
                self.age(design, frame, line);
            }
        }
        // Written into a frame that is another's, it is no page's last value.
        if self.owners[usize::from(frame)] == owner {
            self.last[usize::from(page)][line]
        } else {
            design.stale()
        }
    }

    /// Every copy of a frame's line is older than the last write.
    pub(super) fn age(&mut self, design: &Design, frame: usize, line: usize) {
        let stale = design.stale();
        let old = |cell: &mut Cell| *cell = cell.with_data(stale);
        for core in &mut self.cores {
            if core.copies[frame][line].is_valid() {
                old(&mut core.copies[frame][line]);
            }
            let victim = &mut core.write_back;
            if usize::from(victim.frame) == frame && usize::from(victim.line) == line {
                victim.data = stale;
            }
        }
        old(&mut self.memory[frame][line]);
        if self.llc[frame][line].is_valid() {
            old(&mut self.llc[frame][line]);
        }
        for slot in 0..self.held.len() {
            let from = self.table.entry(slot).is_some_and(|e| usize::from(e.source) == frame);
            if from && usize::from(self.held[slot].line) == line {
                self.held[slot].data = stale;
            }
        }
    }

    /// The line that the engine is to read, if it has read none yet.
    pub(super) fn line_to_read(&self, slot: usize) -> Option<u8> {
        let line = self.table.entry(slot)?.to_copy()?;
        self.held_line(slot).is_none().then_some(line as u8)
    }

    /// Whether the engine has to wait before it reads a line: for the second half of a locked
    /// instruction only.
    pub(super) fn engine_waits(&self, design: &Design, slot: usize, line: u8) -> bool {
        let Some(entry) = self.table.entry(slot) else { return true };
        let owned = |name: u8| {
            let at = (usize::from(name), usize::from(line));
            self.cores.iter().any(|core| core.copies[at.0][at.1].is_owned())
        };
        match design.variant {
            Some(Variant::LockIgnored) => false,
            Some(Variant::CopyWaitsForOwner) => owned(entry.source) || owned(entry.destination),
            _ => self.is_locked(design, entry.source, line),
        }
    }

    /// The engine reads the line at Ptr: it recalls every private copy, under both names, and
    /// reads the source.
    pub(super) fn copy_read(&mut self, design: &Design, slot: usize, line: u8) {
        let Some(&entry) = self.table.entry(slot) else { return };
        let source = entry.source;
        self.asked[slot] = false;
        for name in [source, entry.destination] {
            match design.variant {
                Some(Variant::NoRecall) => {}
                Some(Variant::NoncacheableKeepsCopies)
                    if entry.caching == Caching::Noncacheable => {}
                Some(Variant::CopyPastVictim) => self.recall_copies(design, name, line, source),
                Some(Variant::LockIgnored) => self.recall_unlocked(design, name, line, source),
                _ => self.recall(design, name, line, source),
            }
        }
        let data = match design.variant {
            Some(Variant::CopyReadsMemory) => {
                self.memory[usize::from(source)][usize::from(line)].data()
            }
            _ => self.load(source, line),
        };
        self.held[slot] = Held { line, data };
        if design.breaks(Variant::PtrBeforeWrite)
            && let Some(entry) = self.table.entry_mut(slot)
        {
            entry.copied();
        }
    }

    /// An injected bug: data is taken from a core in the middle of a locked instruction, which keeps
    /// its copy.
    fn recall_unlocked(&mut self, design: &Design, frame: u8, line: u8, home: u8) {
        let at = (usize::from(frame), usize::from(line));
        let before = self.cores.map(|core| core.copies[at.0][at.1]);
        self.recall(design, frame, line, home);
        for (core, cell) in self.cores.iter_mut().zip(before) {
            if cell.access() == Access::Locked {
                core.copies[at.0][at.1] = cell;
            }
        }
    }
}
