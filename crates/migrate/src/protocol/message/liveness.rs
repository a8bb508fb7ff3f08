//! Properties 4 and 5 where nothing is atomic: every message arrives some day, and a slice takes
//! requests for a line in the order of their arrival.
//!
//! Order of arrival is expressed as strong fairness: a request that could be taken infinitely often
//! is taken eventually. All other steps are only weakly fair. Without strong fairness, two cores
//! that write a line alternately forever could starve the engine or a third core: the line is free
//! between their writes, but never permanently.

use crate::checker::graph::Live;
use crate::protocol::action::{Action, Class, Verb};
use crate::protocol::state::Stage;

use super::Messages;
use super::state::State;

/// What is to be fair of a core: its invalidation, the slice's hearing of its victim, its hearing
/// of a grant, and its request's turn.
const OF_CORE: usize = 4;
/// And for each line: its hearing of an order, the slice's hearing of its answer, and of an
/// arrival. One line's messages must not be counted for another's.
const OF_CORES_LINE: usize = 3;
/// Of a device: its invalidation, and for a read and a post the turn and the hearing of the end.
const OF_DEVICE: usize = 5;
/// The engine's turn, its sending, the copy's arrival, word of it, the operating system, the end
/// of an entry.
const ALONE: usize = 6;

/// A core's request has its turn.
const TURN: usize = 3;

impl<const C: usize, const D: usize, const L: usize> Messages<C, D, L> {
    const CORE: usize = OF_CORE + L * OF_CORES_LINE;
    const DEVICES: usize = ALONE + C * Self::CORE;
}

impl<const C: usize, const D: usize, const L: usize> Live for Messages<C, D, L> {
    fn fair_agents(&self) -> usize {
        Self::DEVICES + D * OF_DEVICE
    }

    fn fair_agent(&self, action: &Action) -> Option<usize> {
        let agent = usize::from(action.agent);
        let core = |part| Some(ALONE + agent * Self::CORE + part);
        let of_line = |part| core(OF_CORE + usize::from(action.line) * OF_CORES_LINE + part);
        let device = |part| Some(Self::DEVICES + agent * OF_DEVICE + part);
        match action.verb {
            Verb::CopyTake => Some(0),
            Verb::CopySend => Some(1),
            Verb::CopyLand => Some(2),
            Verb::CopyHear => Some(3),
            Verb::EndEntry => Some(5),
            Verb::Invalidate | Verb::Drained | Verb::Acknowledge | Verb::AcknowledgeLate => core(0),
            Verb::ServeVictim => core(1),
            Verb::Receive => core(2),
            Verb::Take => core(TURN),
            Verb::Snooped => of_line(0),
            Verb::Gather => of_line(1),
            Verb::Told => of_line(2),
            Verb::InvalidateIo | Verb::DrainedIo => device(0),
            Verb::TakeDmaRead => device(1),
            Verb::ReceiveDma => device(2),
            Verb::TakePosted => device(3),
            Verb::HearLanded => device(4),
            Verb::Migrate | Verb::StartAbort => None,
            _ if action.class() == Class::System => Some(4),
            _ => None,
        }
    }

    fn is_strong(&self, agent: usize) -> bool {
        match (agent.checked_sub(ALONE), agent.checked_sub(Self::DEVICES)) {
            (None, _) => agent == 0,
            (_, Some(part)) => matches!(part % OF_DEVICE, 1 | 3),
            (Some(part), None) => part % Self::CORE == TURN,
        }
    }

    fn helps(&self, action: &Action) -> bool {
        action.class() == Class::Service
    }

    /// Each core's miss, each device's read and post.
    fn waiters(&self) -> usize {
        C + 2 * D
    }

    fn waits(&self, state: &State<C, D, L>, waiter: usize) -> bool {
        match waiter.checked_sub(C) {
            None => state.plain.cores[waiter].request.is_some(),
            Some(device) if device % 2 == 0 => state.plain.devices[device / 2].read.is_some(),
            Some(device) => state.plain.devices[device / 2].posted.is_some(),
        }
    }

    fn is_unfinished(&self, state: &State<C, D, L>) -> bool {
        let busy = |stage| matches!(stage, Stage::Migrating | Stage::Aborting);
        state.plain.pages.iter().any(|page| busy(page.stage))
    }
}
