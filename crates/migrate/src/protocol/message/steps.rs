//! Every step that is possible.

use crate::protocol::action::{Action, Verb};
use crate::protocol::design::Design;
use crate::protocol::state::{Invalidation, Kind, NONE, Request, WriteBack};
use crate::protocol::table::Caching;
use crate::protocol::variant::Variant;

use super::slice::Client;
use super::state::{Access, Copying, Phase, State, Word};

impl<const C: usize, const D: usize, const L: usize> State<C, D, L> {
    /// Gives every step and the state after it to `emit`.
    pub(super) fn steps(&self, design: &Design, emit: &mut impl FnMut(Action, Self)) {
        for c in 0..C {
            self.core_steps(design, c, emit);
        }
        for d in 0..D {
            self.device_steps(design, d, emit);
        }
        self.engine_steps(design, emit);
        self.system_steps(design, emit);
    }

    pub(super) fn core_steps(
        &self,
        design: &Design,
        c: usize,
        emit: &mut impl FnMut(Action, Self),
    ) {
        self.plain.core_demands(design, c, 0..L, &mut |action, plain| {
            let mut next = State { plain, ..*self };
            if action.verb == Verb::StoreHit {
                let Action { page, line, frame, .. } = action;
                next.age(design, Request { kind: Kind::Write, page, line, frame });
            }
            emit(action, next);
        });
        let agent = c as u8;
        let at =
            |verb, Request { page, line, frame, .. }| Action { verb, agent, page, line, frame };
        let (core, wires) = (&self.plain.cores[c], &self.wires[c]);
        let mut step = |action, change: &dyn Fn(&mut Self)| {
            let mut next = *self;
            change(&mut next);
            emit(action, next);
        };
        let WriteBack { frame, line, .. } = core.write_back;
        let refused = frame != NONE && self.refuses(design, frame, line);
        if frame != NONE && !refused {
            let action = Action { verb: Verb::ServeVictim, agent, page: 0, line, frame };
            step(action, &|next| next.victim(design, c));
        }
        for line in 0..L {
            let about = |verb, frame| Action { verb, agent, page: 0, line: line as u8, frame };
            let snoop = wires.snoops[line];
            match snoop.word {
                Word::None => {}
                Word::Invalidate | Word::Share => {
                    step(about(Verb::Snooped, snoop.frame), &|next| next.snooped(c, line));
                }
                _ => step(about(Verb::Gather, snoop.frame), &|next| next.gather(design, c, line)),
            }
            if wires.told[line] != NONE {
                step(about(Verb::Told, wires.told[line]), &|next| {
                    next.wires[c].told[line] = NONE;
                    next.advance(design, line as u8);
                });
            }
        }
        if wires.late[0] {
            let action = Action { verb: Verb::AcknowledgeLate, agent, page: 0, line: 0, frame: 0 };
            step(action, &|next| next.wires[c].late[0] = false);
        }
        match wires.phase {
            Phase::Granted => {
                step(at(Verb::Receive, core.request), &|next| next.receive(design, c));
            }
            Phase::Answered => step(at(Verb::Receive, core.request), &|next| {
                next.plain.cores[c].request = Request::NONE;
                next.wires[c].phase = Phase::Sent;
            }),
            _ => {}
        }
        if let Some(next) = self.take(design, Client::Core(c)) {
            emit(at(Verb::Take, core.request), next);
        }
    }

    /// An injected bug: victims wait while their line is in service, which waits for them.
    fn refuses(&self, design: &Design, frame: u8, line: u8) -> bool {
        design.breaks(Variant::VictimRefused)
            && self
                .plain
                .table
                .find(frame)
                .is_some_and(|_| (0..4).any(|slice| self.is_busy(design, slice, line)))
    }

    pub(super) fn device_steps(
        &self,
        design: &Design,
        d: usize,
        emit: &mut impl FnMut(Action, Self),
    ) {
        self.plain.device_demands(design, d, 0..L, &mut |action, plain| {
            emit(action, State { plain, ..*self });
        });
        let agent = d as u8;
        for (client, take, done) in [
            (Client::Read(d), Verb::TakeDmaRead, Verb::ReceiveDma),
            (Client::Post(d), Verb::TakePosted, Verb::HearLanded),
        ] {
            let Request { page, line, frame, .. } = self.request(client);
            let action = |verb| Action { verb, agent, page, line, frame };
            if let Some(next) = self.take(design, client) {
                emit(action(take), next);
            }
            if self.access(client).phase == Phase::Answered {
                let mut next = *self;
                if done == Verb::ReceiveDma {
                    next.plain.devices[d].read = Request::NONE;
                    next.devices[d].read = Access::SENT;
                } else {
                    next.plain.devices[d].posted = Request::NONE;
                    next.devices[d].posted = Access::SENT;
                }
                emit(action(done), next);
            }
        }
    }

    fn engine_steps(&self, design: &Design, emit: &mut impl FnMut(Action, Self)) {
        let Some(&entry) = self.plain.table.entry(0) else { return };
        let action = |verb, line, frame| Action { verb, agent: 0, page: 0, line, frame };
        if self.copying == Copying::Idle
            && let Some(next) = self.take(design, Client::Engine)
        {
            let line = self.request(Client::Engine).line;
            emit(action(Verb::CopyTake, line, entry.source), next);
        }
        let line = self.plain.held[0].line;
        let mut next = *self;
        let verb = match self.copying {
            Copying::Idle | Copying::Reading => return,
            Copying::Holding => {
                next.send(design);
                Verb::CopySend
            }
            Copying::Writing => {
                next.land(design);
                Verb::CopyLand
            }
            Copying::Landed => {
                next.hear_landed(design);
                Verb::CopyHear
            }
        };
        emit(action(verb, line, entry.destination), next);
    }

    /// As above, but that the end of a migration is asked for, and comes when all that is in
    /// service is done; and that acknowledgements of what was given up are still on their way.
    fn system_steps(&self, design: &Design, emit: &mut impl FnMut(Action, Self)) {
        self.plain.system_steps(design, 0, &mut |action, plain| {
            let mut next = State { plain, ..*self };
            let ends = matches!(action.verb, Verb::Clear | Verb::ClearAborted);
            let hasty = design.breaks(Variant::ClearNotDrained);
            if ends && !self.closing && !hasty {
                let mut asked = State { closing: true, ..*self };
                asked.recall_destination(design);
                return emit(Action { verb: Verb::AskClear, ..action }, asked);
            }
            if ends && !hasty {
                if !self.is_drained(design) {
                    return;
                }
                next.closing = false;
                next.forget_late(design);
                return emit(Action { verb: Verb::EndEntry, ..action }, next);
            }
            let early = action.verb == Verb::Migrate && self.fills_on_their_way(design);
            if self.closing || early {
                return;
            }
            if ends || matches!(action.verb, Verb::Migrate | Verb::StartAbort) {
                next.forget_late(design);
            }
            emit(action, next);
        });
    }

    /// Whether a line is on its way to a private cache though none is to go there any more: a
    /// noncacheable migration begins when none is.
    fn fills_on_their_way(&self, design: &Design) -> bool {
        let fills = self.wires.iter().any(|wires| wires.phase == Phase::Granted);
        fills && design.caching == Caching::Noncacheable
    }

    /// Acknowledgements on their way when their change of the translation is given up, or is
    /// over, carry its number, and do not count any more.
    fn forget_late(&mut self, design: &Design) {
        if design.breaks(Variant::LateAcknowledgement) {
            return;
        }
        for (core, wires) in self.plain.cores.iter_mut().zip(&mut self.wires) {
            if core.invalidation[0] == Invalidation::Sent {
                core.invalidation[0] = Invalidation::None;
                wires.late[0] = true;
            }
        }
    }
}
