//! Properties 4 and 5: freedom from waiting for the migration, and termination.
//!
//! A request may wait for caches, network and memory, never for the engine or the operating system:
//! this is what "nobody waits for the migration" means. And a migration has to end if invalidations
//! do and every agent that can always act eventually does, whatever programs and devices request
//! meanwhile, and however often.

use crate::checker::graph::Live;

use super::action::{Action, Class, Verb};
use super::machine::Machine;
use super::state::{Stage, State};

/// Agents of a core that are to be fair: its invalidation, what serves its miss, what takes its
/// victim, and its own completion of what it began.
const OF_CORE: usize = 4;
/// Agents of a device: its invalidation, what serves its read, what takes its post.
const OF_DEVICE: usize = 3;
/// The engine, the operating system, slices among themselves, and what answers the engine.
const ALONE: usize = 4;

impl<const C: usize, const D: usize, const L: usize, const P: usize, const F: usize> Live
    for Machine<C, D, L, P, F>
{
    fn fair_agents(&self) -> usize {
        ALONE + C * OF_CORE + D * OF_DEVICE
    }

    fn fair_agent(&self, action: &Action) -> Option<usize> {
        let agent = usize::from(action.agent);
        let core = |part| Some(ALONE + agent * OF_CORE + part);
        let device = |part| Some(ALONE + C * OF_CORE + agent * OF_DEVICE + part);
        match action.verb {
            Verb::CopyAsk | Verb::CopyRead | Verb::CopyWrite => Some(0),
            Verb::HearOfPtr => Some(2),
            Verb::CopyAnswer => Some(3),
            Verb::Invalidate | Verb::Drained | Verb::Acknowledge => core(0),
            Verb::Serve => core(1),
            Verb::ServeVictim => core(2),
            Verb::Unlock | Verb::EndWalk => core(3),
            Verb::InvalidateIo | Verb::DrainedIo => device(0),
            Verb::ServeDmaRead => device(1),
            Verb::ServePosted => device(2),
            // No agent has to start or abort a migration.
            Verb::Migrate | Verb::StartAbort => None,
            _ if action.class() == Class::System => Some(1),
            _ => None,
        }
    }

    fn helps(&self, action: &Action) -> bool {
        action.class() == Class::Service
    }

    /// Each core's miss, each device's read and post.
    fn waiters(&self) -> usize {
        C + 2 * D
    }

    fn waits(&self, state: &State<C, D, L, P, F>, waiter: usize) -> bool {
        match waiter.checked_sub(C) {
            None => state.cores[waiter].request.is_some(),
            Some(device) if device % 2 == 0 => state.devices[device / 2].read.is_some(),
            Some(device) => state.devices[device / 2].posted.is_some(),
        }
    }

    fn is_unfinished(&self, state: &State<C, D, L, P, F>) -> bool {
        state.pages.iter().any(|page| matches!(page.stage, Stage::Migrating | Stage::Aborting))
    }
}
