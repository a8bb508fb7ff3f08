//! The protocol message by message: the layer below [`super::machine`], in which a request is one
//! transaction.
//!
//! Requests, orders to give a line up and the answers to them, data, the word that data has
//! arrived, victims, device reads and posts, the copy's write and acknowledgements of
//! invalidations are messages on their way. Any of them may arrive before any other: no channel
//! keeps an order, so none has to be built.
//!
//! - [`state`] is the machine of the transaction layer with what is on its way beside it;
//! - `slice` is what the slice does that orders a line's requests: one at a time;
//! - `settle` says which of them may as well arrive at once;
//! - `steps` is every step that is possible;
//! - [`refinement`] shows that each of them is one step of the transaction layer, or none;
//! - [`liveness`] says who waits for whom.
//!
//! One page, in which one migration at a time is under way; no prefetches, locked instructions,
//! walks in two steps or translations of the device's own, which the transaction layer has.

pub mod liveness;
pub mod refinement;
mod settle;
mod slice;
pub mod state;
mod steps;

use crate::checker::model::Model;

use super::action::{Action, Agent};
use super::coarse::Layer;
use super::design::Design;
use super::machine::Machine;
use super::property::Property;
use super::state::Fault;

use refinement::Abstract;
use state::State;

/// A machine of `C` cores and `D` devices, whose pages have `L` lines, message by message.
#[derive(Clone, Copy, Debug)]
pub struct Messages<const C: usize, const D: usize, const L: usize> {
    /// The modeled design.
    pub design: Design,
    /// Whether each step is compared with the transaction layer.
    pub refines: bool,
}

impl<const C: usize, const D: usize, const L: usize> Messages<C, D, L> {
    /// The model of a design, each step of it compared with the transaction layer.
    #[must_use]
    pub fn new(design: Design) -> Self {
        Messages { design: Design { messages: true, ..design }, refines: true }
    }
}

/// Takes a step.
type Emit<'a, const C: usize, const D: usize, const L: usize> =
    &'a mut dyn FnMut(Action, State<C, D, L>);

impl<const C: usize, const D: usize, const L: usize> Messages<C, D, L> {
    /// Takes steps from a state, each compared with the transaction layer if that is requested.
    fn held(
        &self,
        state: &State<C, D, L>,
        emit: &mut impl FnMut(Action, State<C, D, L>),
        steps: impl Fn(Emit<'_, C, D, L>),
    ) {
        if !self.refines {
            return steps(emit);
        }
        let above = Abstract::of(&self.design, state);
        steps(&mut |action, mut after| {
            after.astray = !above.can_follow(&self.design, &after);
            emit(action, after);
        });
    }
}

impl<const C: usize, const D: usize, const L: usize> Layer for Messages<C, D, L> {
    fn steps_of(
        &self,
        state: &State<C, D, L>,
        agent: Agent,
        emit: &mut impl FnMut(Action, State<C, D, L>),
    ) {
        self.held(state, emit, |mut emit| match agent {
            Agent::Core(core) => state.core_steps(&self.design, core.into(), &mut emit),
            Agent::Device(device) => state.device_steps(&self.design, device.into(), &mut emit),
            Agent::System | Agent::Cache | Agent::Engine => {}
        });
    }

    fn is_unseen(&self, state: &State<C, D, L>, agent: Agent, sent: &Action) -> bool {
        state.plain.is_unseen(&self.design, agent, sent)
    }

    fn settle(&self, state: &mut State<C, D, L>, tell: &mut impl FnMut(Action)) {
        let before = *state;
        state.settle(&self.design, tell);
        if self.refines && before.above(&self.design) != state.above(&self.design) {
            state.astray = true;
        }
    }
}

impl<const C: usize, const D: usize, const L: usize> Model for Messages<C, D, L> {
    type State = State<C, D, L>;
    type Action = Action;
    type Property = Property;

    fn initial(&self) -> Vec<State<C, D, L>> {
        let machine = Machine { design: self.design };
        machine.initial().into_iter().map(State::quiet).collect()
    }

    #[inline]
    fn successors(&self, state: &State<C, D, L>, emit: &mut impl FnMut(Action, State<C, D, L>)) {
        if state.plain.fault != Fault::None {
            return;
        }
        self.held(state, emit, |mut emit| state.steps(&self.design, &mut emit));
    }

    #[inline]
    fn violated(&self, state: &State<C, D, L>) -> Option<Property> {
        match self.design.only {
            None => Property::ALL.into_iter().find(|&property| state.breaks(property)),
            Some(only) => state.breaks(only).then_some(only),
        }
    }

    #[inline]
    fn canonical(&self, mut state: State<C, D, L>) -> State<C, D, L> {
        if self.design.symmetry {
            state.sort_cores();
        }
        state
    }
}
