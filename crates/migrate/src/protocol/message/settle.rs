//! Messages that may as well arrive at once ([`crate::protocol::coarse`]).

use crate::protocol::action::{Action, Verb};
use crate::protocol::design::Design;
use crate::protocol::state::{Invalidation, NONE, PAGES, Request};
use crate::protocol::variant::Variant;

use super::state::{Access, Phase, State};

impl<const C: usize, const D: usize, const L: usize> State<C, D, L> {
    pub(super) fn settle(&mut self, design: &Design, tell: &mut impl FnMut(Action)) {
        loop {
            let mut quiet = true;
            let mut arrived = |action| {
                quiet = false;
                tell(action);
            };
            for c in 0..C {
                self.settle_core(design, c, &mut arrived);
            }
            for d in 0..D {
                self.settle_device(d, &mut arrived);
            }
            if quiet {
                return;
            }
        }
    }

    fn settle_core(&mut self, design: &Design, c: usize, arrived: &mut impl FnMut(Action)) {
        let agent = c as u8;
        let numbered = !design.breaks(Variant::LateAcknowledgement);
        for page in 0..PAGES {
            let state = &mut self.plain.cores[c].invalidation[page];
            if *state == Invalidation::Sent && numbered {
                *state = Invalidation::Done;
                let (verb, page) = (Verb::Acknowledge, page as u8);
                arrived(Action { verb, agent, page, line: 0, frame: NONE });
            }
            if std::mem::take(&mut self.wires[c].late[page]) {
                let (verb, page) = (Verb::AcknowledgeLate, page as u8);
                arrived(Action { verb, agent, page, line: 0, frame: NONE });
            }
        }
        if self.wires[c].phase == Phase::Answered {
            let Request { page, line, frame, .. } = self.plain.cores[c].request;
            self.plain.cores[c].request = Request::NONE;
            self.wires[c].phase = Phase::Sent;
            arrived(Action { verb: Verb::Receive, agent, page, line, frame });
        }
        for line in 0..L {
            let slice = self.wires[c].told[line];
            if slice != NONE && !design.aborts {
                self.wires[c].told[line] = NONE;
                self.advance(design, line as u8);
                let line = line as u8;
                arrived(Action { verb: Verb::Told, agent, page: 0, line, frame: slice });
            }
        }
    }

    fn settle_device(&mut self, d: usize, arrived: &mut impl FnMut(Action)) {
        let (device, wires) = (&mut self.plain.devices[d], &mut self.devices[d]);
        for (request, access, verb) in [
            (&mut device.read, &mut wires.read, Verb::ReceiveDma),
            (&mut device.posted, &mut wires.posted, Verb::HearLanded),
        ] {
            if access.phase == Phase::Answered {
                let Request { page, line, frame, .. } = *request;
                (*request, *access) = (Request::NONE, Access::SENT);
                arrived(Action { verb, agent: d as u8, page, line, frame });
            }
        }
    }
}
