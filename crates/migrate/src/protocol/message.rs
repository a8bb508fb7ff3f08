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
//! - `steps` is every step that is possible;
//! - [`refinement`] shows that each of them is one step of the transaction layer, or none;
//! - [`liveness`] says who waits for whom.
//!
//! One page, in which one migration at a time is under way; no prefetches, locked instructions,
//! walks in two steps or translations of the device's own, which the transaction layer has.

pub mod liveness;
pub mod refinement;
mod slice;
pub mod state;
mod steps;

use crate::checker::model::Model;

use super::action::Action;
use super::design::Design;
use super::machine::Machine;
use super::property::Property;
use super::state::Fault;

use refinement::Abstract;
use state::State;

/// A machine of `C` cores and `D` devices, whose pages have `L` lines, message by message.
#[derive(Clone, Copy, Debug)]
pub struct Messages<const C: usize, const D: usize, const L: usize> {
    /// What is modelled.
    pub design: Design,
    /// Whether each step is held against the transaction layer.
    pub refines: bool,
}

impl<const C: usize, const D: usize, const L: usize> Messages<C, D, L> {
    /// The model of a design, each step of it held against the transaction layer.
    #[must_use]
    pub fn new(design: Design) -> Self {
        Messages { design: Design { messages: true, ..design }, refines: true }
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
        if !self.refines {
            return state.steps(&self.design, emit);
        }
        let above = Abstract::of(&self.design, state);
        state.steps(&self.design, &mut |action, mut after| {
            after.astray = !above.can_follow(&self.design, &after);
            emit(action, after);
        });
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
