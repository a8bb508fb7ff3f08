//! What a slice of the last-level cache does: it takes requests for a line one at a time, has
//! private copies given up, waits for the answers and for victims on their way, and serves.

use crate::protocol::design::Design;
use crate::protocol::state::{Access as Right, Cell, FRAMES, Held, Kind, NONE, Owner, Request};
use crate::protocol::table::{Phase as Migration, Route};
use crate::protocol::variant::Variant;

use super::state::{Access, Copying, Phase, Snoop, State, Tracked, Word};

/// Whom a slice serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    Core(usize),
    Read(usize),
    Post(usize),
    Engine,
}

/// The data of a grant that has none: the core is to use its own copy.
const NO_DATA: u8 = 62;

impl<const C: usize, const D: usize, const L: usize> State<C, D, L> {
    /// Everybody whom a slice may serve.
    pub(super) fn clients() -> impl Iterator<Item = Client> {
        let devices = (0..D).flat_map(|d| [Client::Read(d), Client::Post(d)]);
        (0..C).map(Client::Core).chain(devices).chain([Client::Engine])
    }

    /// A client's request, or the line that the engine reads.
    pub(super) fn request(&self, client: Client) -> Request {
        match client {
            Client::Core(c) => self.plain.cores[c].request,
            Client::Read(d) => self.plain.devices[d].read,
            Client::Post(d) => self.plain.devices[d].posted,
            Client::Engine => match (self.plain.table.entry(0), self.plain.line_to_read(0)) {
                (Some(entry), Some(line)) => {
                    Request { kind: Kind::Read, page: 0, line, frame: entry.source }
                }
                _ => Request::NONE,
            },
        }
    }

    /// How far it has come, and in which slice.
    pub(super) fn access(&self, client: Client) -> Access {
        match client {
            Client::Core(c) => Access { phase: self.wires[c].phase, slice: self.wires[c].slice },
            Client::Read(d) => self.devices[d].read,
            Client::Post(d) => self.devices[d].posted,
            Client::Engine => match (self.copying, self.plain.table.entry(0)) {
                (Copying::Reading, Some(entry)) => {
                    Access { phase: Phase::Taken, slice: entry.source }
                }
                _ => Access::SENT,
            },
        }
    }

    fn set_access(&mut self, client: Client, access: Access) {
        match client {
            Client::Core(c) => {
                (self.wires[c].phase, self.wires[c].slice) = (access.phase, access.slice);
            }
            Client::Read(d) => self.devices[d].read = access,
            Client::Post(d) => self.devices[d].posted = access,
            Client::Engine => {
                let taken = access.phase == Phase::Taken;
                self.copying = if taken { Copying::Reading } else { Copying::Holding };
            }
        }
    }

    /// The slice that orders the requests for a page's lines: while an entry lives, that of the
    /// source's name, by whichever name they come.
    fn slice(&self, design: &Design, frame: u8) -> u8 {
        let entry = self.plain.table.find(frame).and_then(|(slot, _)| self.plain.table.entry(slot));
        match entry {
            Some(entry) if !design.breaks(Variant::TwoOrderers) => entry.source,
            _ => frame,
        }
    }

    /// Whether a slice is serving a line, or waits for word that a line it granted has arrived.
    pub(super) fn is_busy(&self, design: &Design, slice: u8, line: u8) -> bool {
        let hasty = design.breaks(Variant::GrantNotAwaited);
        let told = |c: usize| self.wires[c].told[usize::from(line)] == slice;
        let serves = |client| {
            let Access { phase, slice: at } = self.access(client);
            let granted = phase == Phase::Granted && !hasty;
            at == slice && (phase == Phase::Taken || granted) && self.request(client).line == line
        };
        (0..C).any(|c| told(c) && !hasty) || Self::clients().any(serves)
    }

    /// The slice takes a request up, if it can now.
    pub(super) fn take(&self, design: &Design, client: Client) -> Option<Self> {
        let request = self.request(client);
        if !request.is_some() || self.access(client) != Access::SENT || self.closing {
            return None;
        }
        let slice = self.slice(design, request.frame);
        let engine = client == Client::Engine;
        let waits = match engine {
            true => self.plain.engine_waits(design, 0, request.line),
            false => self.plain.must_wait(design, request),
        };
        if waits || self.is_busy(design, slice, request.line) {
            return None;
        }
        let mut next = *self;
        let held = self.copying == Copying::Holding && self.is_held(request);
        if !engine && held && design.breaks(Variant::CopyAgain) {
            next.plain.held[0] = Held::NONE;
            next.copying = Copying::Idle;
        }
        next.set_access(client, Access { phase: Phase::Taken, slice });
        next.advance(design, request.line);
        Some(next)
    }

    /// Whether the engine has read the line of a request and not yet written it.
    fn is_held(&self, Request { frame, line, .. }: Request) -> bool {
        let entry = self.plain.table.entry(0);
        let ours = entry.is_some_and(|entry| entry.side(frame).is_some());
        let next = entry.and_then(|entry| entry.to_copy());
        ours && self.plain.held_line(0) == Some(line) && next == Some(u16::from(line))
    }

    /// Continues the service of a line after an arrival.
    pub(super) fn advance(&mut self, design: &Design, line: u8) {
        for client in Self::clients() {
            let request = self.request(client);
            if self.access(client).phase == Phase::Taken && request.line == line {
                self.serve(design, client, request);
            }
        }
        if self.closing {
            self.recall_destination(design);
        }
    }

    /// Serves a request, once all that it has to wait for is there. It waits for copies that are
    /// in its way to be given up; and if the engine has read the line, for its write, which it
    /// has sent if the engine has not: so it waits for messages, never for the engine.
    fn serve(&mut self, design: &Design, client: Client, request: Request) {
        if self.waits_for_cores(design, client, request) {
            return;
        }
        let unchecked = design.breaks(Variant::WrittenWhileHeld);
        if client != Client::Engine && self.is_held(request) && !unchecked {
            if self.copying == Copying::Holding {
                self.copying = Copying::Writing;
            }
            return;
        }
        let Request { kind, page, line, frame } = request;
        let Route { home, fill, .. } = self.plain.route(design, frame, line);
        let data = self.plain.load(home, line);
        let Access { slice, .. } = self.access(client);
        let answered = Access { phase: Phase::Answered, slice: NONE };
        match client {
            Client::Engine => {
                self.plain.held[0] = Held { line, data };
                self.set_access(client, answered);
            }
            Client::Core(c) if fill => {
                let right = if kind == Kind::Read { Right::Shared } else { Right::Modified };
                let upgrade = design.breaks(Variant::UpgradeWithoutData)
                    && self.wires[c].tracked[usize::from(frame)][usize::from(line)]
                        == Tracked::Sharer
                    && kind == Kind::Write;
                let data = if upgrade { NO_DATA } else { data };
                self.wires[c].grant = Cell::new(right, data);
                self.wires[c].tracked[usize::from(frame)][usize::from(line)] = match kind {
                    Kind::Read => Tracked::Sharer,
                    _ => Tracked::Owner,
                };
                self.set_access(client, Access { phase: Phase::Granted, slice });
            }
            _ => {
                match kind {
                    Kind::Read => self.plain.read(page, frame, line, data),
                    _ => self.write_home(design, request, home),
                }
                self.set_access(client, answered);
            }
        }
    }

    fn write_home(&mut self, design: &Design, request: Request, home: u8) {
        self.plain.write_home(design, request, home, request.kind == Kind::Write);
        self.age(design, request);
    }

    /// Has every copy given up that is in the way of a request; whether one still is.
    fn waits_for_cores(&mut self, design: &Design, client: Client, request: Request) -> bool {
        let Request { line, frame, .. } = request;
        let route = self.plain.route(design, frame, line);
        let mut waits = false;
        for c in 0..C {
            for name in [frame, route.opposite].into_iter().filter(|&name| name != NONE) {
                let order = self.order(design, client, request, (c, name));
                waits |= self.give_up(design, (c, name, line), client, order);
            }
        }
        waits
    }

    /// The order to a core for a request for the line by one of its names.
    fn order(
        &self,
        design: &Design,
        client: Client,
        Request { kind, line, frame, .. }: Request,
        (c, name): (usize, u8),
    ) -> Word {
        let route = self.plain.route(design, frame, line);
        let known = self.wires[c].tracked[usize::from(name)][usize::from(line)];
        let own = client == Client::Core(c);
        let keeps = matches!(client, Client::Core(_)) && route.fill;
        match design.variant {
            Some(Variant::NoOppositeCheck) if client != Client::Engine && name != frame => {
                return Word::None;
            }
            Some(Variant::RequesterSpared) if own && name != frame => return Word::None,
            Some(Variant::NoRecall) if client == Client::Engine => return Word::None,
            _ => {}
        }
        match known {
            Tracked::None => Word::None,
            Tracked::Sharer if keeps && name == frame && (own || kind == Kind::Read) => Word::None,
            Tracked::Owner if keeps && name == frame && kind == Kind::Read => Word::Share,
            _ => Word::Invalidate,
        }
    }

    /// Sends a core an order, unless one is under way; whether the slice has to wait for the core.
    fn give_up(
        &mut self,
        design: &Design,
        (c, frame, line): (usize, u8, u8),
        client: Client,
        order: Word,
    ) -> bool {
        let wires = &mut self.wires[c];
        let at = usize::from(line);
        let known = &mut wires.tracked[usize::from(frame)][at];
        let unawaited = [Variant::AnswersNotAwaited, Variant::CopyPastAnswers];
        let unanswered = wires.snoops[at].word != Word::None
            && !unawaited.iter().any(|&variant| design.breaks(variant));
        if order == Word::None || *known == Tracked::Victim {
            return *known == Tracked::Victim || unanswered;
        }
        let victim = client == Client::Core(c)
            && *known == Tracked::Owner
            && frame == self.plain.cores[c].request.frame;
        if victim {
            // It asks for what it owned: its victim is on its way.
            *known = Tracked::Victim;
            return true;
        }
        if wires.snoops[at].word != Word::None {
            return true;
        }
        let hasty = match design.variant {
            Some(Variant::AnswersNotAwaited) => *known == Tracked::Sharer,
            Some(Variant::CopyPastAnswers) => client == Client::Engine,
            _ => false,
        };
        wires.snoops[at] = Snoop { word: order, frame, data: 0 };
        if hasty {
            *known = Tracked::None;
        }
        !hasty
    }

    /// A core follows an order, and answers.
    pub(super) fn snooped(&mut self, c: usize, line: usize) {
        let Snoop { word, frame, .. } = self.wires[c].snoops[line];
        let cell = &mut self.plain.cores[c].copies[usize::from(frame)][line];
        let (owned, data) = (cell.is_owned(), cell.data());
        let (word, data) = match (word, owned) {
            (Word::Share, true) => {
                *cell = Cell::new(Right::Shared, data);
                (Word::SharedData, data)
            }
            (_, true) => (Word::Data, data),
            _ => (Word::Gone, 0),
        };
        if word != Word::SharedData {
            *cell = Cell::EMPTY;
        }
        self.wires[c].snoops[line] = Snoop { word, frame, data };
    }

    /// A core's answer arrives.
    pub(super) fn gather(&mut self, design: &Design, c: usize, line: usize) {
        let Snoop { word, frame, data } = self.wires[c].snoops[line];
        self.wires[c].snoops[line] = Snoop::NONE;
        let believed = design.breaks(Variant::VictimNotAwaited);
        let known = &mut self.wires[c].tracked[usize::from(frame)][line];
        *known = match word {
            Word::Gone if *known == Tracked::Owner && !believed => Tracked::Victim,
            Word::SharedData => Tracked::Sharer,
            _ => Tracked::None,
        };
        if matches!(word, Word::Data | Word::SharedData) {
            let home = self.plain.route(design, frame, line as u8).home;
            self.plain.store(design, home, line as u8, data);
        }
        self.advance(design, line as u8);
    }

    /// A victim arrives. It is always accepted: otherwise its waiter would wait forever.
    pub(super) fn victim(&mut self, design: &Design, c: usize) {
        let victim = self.plain.cores[c].write_back;
        self.plain.write_back(design, c);
        let known = &mut self.wires[c].tracked[usize::from(victim.frame)][usize::from(victim.line)];
        if matches!(*known, Tracked::Owner | Tracked::Victim) {
            *known = Tracked::None;
        }
        self.advance(design, victim.line);
    }

    /// A granted line arrives: the core keeps it and does what it wanted it for.
    pub(super) fn receive(&mut self, design: &Design, c: usize) {
        let request = self.plain.cores[c].request;
        let Request { kind, page, line, frame } = request;
        let grant = std::mem::replace(&mut self.wires[c].grant, Cell::EMPTY);
        let copy = &mut self.plain.cores[c].copies[usize::from(frame)][usize::from(line)];
        let data = if grant.data() == NO_DATA { copy.data() } else { grant.data() };
        *copy = Cell::new(grant.access(), data);
        self.plain.cores[c].request = Request::NONE;
        match kind {
            Kind::Read => self.plain.read(page, frame, line, data),
            _ => {
                self.plain.write_copy(design, c, request);
                self.age(design, request);
            }
        }
        self.wires[c].told[usize::from(line)] = self.wires[c].slice;
        self.set_access(Client::Core(c), Access::SENT);
    }

    /// Marks the messages in flight for a line as older than the last write.
    pub(super) fn age(&mut self, design: &Design, Request { page, line, .. }: Request) {
        if design.values > 0 {
            return;
        }
        let stale = design.stale();
        let line = usize::from(line);
        let owners = self.plain.owners;
        let ours =
            |frame: u8| owners.get(usize::from(frame)) == Some(&Owner::page(usize::from(page)));
        for (wires, core) in self.wires.iter_mut().zip(&self.plain.cores) {
            let snoop = &mut wires.snoops[line];
            if matches!(snoop.word, Word::Data | Word::SharedData) && ours(snoop.frame) {
                snoop.data = stale;
            }
            let request = core.request;
            let granted = wires.grant.is_valid() && wires.grant.data() != NO_DATA;
            if granted && usize::from(request.line) == line && ours(request.frame) {
                wires.grant = wires.grant.with_data(stale);
            }
        }
    }

    /// A migration is being given up: what cores hold by the destination's name is recalled.
    pub(super) fn recall_destination(&mut self, design: &Design) {
        let Some(&entry) = self.plain.table.entry(0) else { return };
        if entry.phase() != Migration::Aliased {
            return;
        }
        for line in 0..L as u8 {
            if self.is_busy(design, entry.source, line) {
                continue;
            }
            for c in 0..C {
                let left = usize::from(entry.destination);
                let order = match self.wires[c].tracked[left][usize::from(line)] {
                    Tracked::None => Word::None,
                    _ => Word::Invalidate,
                };
                self.give_up(design, (c, entry.destination, line), Client::Engine, order);
            }
        }
    }

    /// Whether nothing of the migration is in service or on its way any more, so that its entry
    /// can end: the slice of the destination's name takes over then, and knows of nothing that
    /// the slice of the source's name has begun.
    pub(super) fn is_drained(&self, design: &Design) -> bool {
        let Some(&entry) = self.plain.table.entry(0) else { return false };
        let busy = |line: u8| {
            [entry.source, entry.destination].iter().any(|&slice| self.is_busy(design, slice, line))
        };
        let given_up = entry.phase() == Migration::Aliased;
        let known = |c: usize| {
            let tracked = &self.wires[c].tracked[usize::from(entry.destination)];
            given_up && tracked.iter().any(|&known| known != Tracked::None)
        };
        let ordered = |c: usize| self.wires[c].snoops.iter().any(|s| s.word != Word::None);
        !(0..L as u8).any(busy) && !(0..C).any(|c| known(c) || ordered(c))
    }

    /// The copy's write arrives at the destination.
    pub(super) fn land(&mut self, design: &Design) {
        let Held { line, data } = self.plain.held[0];
        if let Some(&entry) = self.plain.table.entry(0) {
            self.plain.store(design, entry.destination, line, data);
        }
        self.copying = Copying::Landed;
    }

    /// Word of it arrives at the slice: Ptr moves.
    pub(super) fn hear_landed(&mut self, design: &Design) {
        let line = self.plain.held[0].line;
        self.copying = Copying::Idle;
        match design.breaks(Variant::PtrBeforeLanded) {
            true => self.plain.held[0] = Held::NONE,
            false => self.plain.write_held(design, 0),
        }
        self.advance(design, line);
    }

    /// The slice sends the line that it has read for the engine.
    pub(super) fn send(&mut self, design: &Design) {
        self.copying = Copying::Writing;
        if design.breaks(Variant::PtrBeforeLanded)
            && let Some(entry) = self.plain.table.entry_mut(0)
        {
            entry.copied();
        }
    }
}

const _: () = assert!(FRAMES <= 15, "a slice's name fits four bits, and none is 15");
