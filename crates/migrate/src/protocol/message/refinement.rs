//! That the message layer refines the transaction layer.
//!
//! A machine with messages on their way is a machine of the layer above, viewed as follows
//! ([`State::above`]):
//!
//! - a request of a core is served when the line that it was granted arrives there; one that keeps
//!   no copy, when the slice answers it; until then it is on its way;
//! - modified data that a core has given up, and that has not arrived yet, is in memory: for no
//!   other request for the line is taken until it is;
//! - the copy's line is written when word of it comes back and Ptr moves;
//! - an acknowledgement is received when it is sent: no step depends on its being in flight.
//!
//! Then each step is one step of the layer above, or none. A core that gives up a line on request
//! is one whose line the last-level cache has recalled, which it may do at any time
//! ([`super::Design::recalls`]), or one that has dropped a clean line. A core whose answer is in
//! flight is slow to notice that it waits for nothing ([`super::Design::slow_drain`]). Every
//! property of all states above, of data and names, therefore holds in every state below.

use crate::checker::model::Model;
use crate::protocol::design::Design;
use crate::protocol::machine::Machine;
use crate::protocol::state::{self as plain, Access as Right, Cell, Invalidation, Request};

use super::state::{Copying, Phase, Snoop, State, Word};

impl<const C: usize, const D: usize, const L: usize> State<C, D, L> {
    /// The state of the transaction layer that this one maps to.
    #[must_use]
    pub fn above(&self, design: &Design) -> plain::State<C, D, L> {
        let mut above = self.plain;
        for (core, wires) in above.cores.iter_mut().zip(&self.wires) {
            if wires.phase == Phase::Answered {
                core.request = Request::NONE;
            }
            for state in &mut core.invalidation {
                if *state == Invalidation::Sent {
                    *state = Invalidation::Done;
                }
            }
        }
        for (device, wires) in above.devices.iter_mut().zip(&self.devices) {
            if wires.read.phase == Phase::Answered {
                device.read = Request::NONE;
            }
            if wires.posted.phase == Phase::Answered {
                device.posted = Request::NONE;
            }
        }
        for wires in &self.wires {
            for (line, &Snoop { word, frame, data }) in wires.snoops.iter().enumerate() {
                if matches!(word, Word::Data | Word::SharedData) {
                    let home = self.plain.route(design, frame, line as u8).home;
                    above.memory[usize::from(home)][line] = Cell::new(Right::Shared, data);
                }
            }
        }
        if let (Copying::Landed, Some(entry)) = (self.copying, self.plain.table.entry(0)) {
            let at = (usize::from(entry.destination), usize::from(self.plain.held[0].line));
            above.memory[at.0][at.1] = Cell::new(Right::Shared, design.stale());
        }
        above
    }
}

/// A state of the transaction layer and those that can follow it.
pub(super) struct Abstract<const C: usize, const D: usize, const L: usize> {
    state: plain::State<C, D, L>,
    next: Vec<plain::State<C, D, L>>,
}

impl<const C: usize, const D: usize, const L: usize> Abstract<C, D, L> {
    /// The state that a state below maps to.
    pub(super) fn of(design: &Design, state: &State<C, D, L>) -> Self {
        let state = state.above(design);
        let design =
            Design { messages: false, recalls: true, slow_drain: true, variant: None, ..*design };
        let mut next = Vec::new();
        Machine { design }.successors(&state, &mut |_, after| next.push(after));
        Abstract { state, next }
    }

    /// Whether a state below still maps to this one, or to one that can follow it.
    pub(super) fn can_follow(&self, design: &Design, after: &State<C, D, L>) -> bool {
        let after = after.above(design);
        after == self.state || self.next.contains(&after)
    }
}
