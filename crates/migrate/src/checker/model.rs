//! The interface of a protocol to be checked.

use std::fmt::{Debug, Display};
use std::hash::Hash;

/// A protocol: its states and its steps. Several threads may ask for them.
pub trait Model: Sync {
    /// Everything that decides what can happen next. Small, since millions wait in a level.
    type State: Copy + Eq + Hash + Debug + Send;
    /// One step of one agent; its `Display` is the line that a reader sees in a counterexample.
    type Action: Copy + Eq + Debug + Display;
    /// What must always hold; its `Display` is the sentence.
    type Property: Copy + Eq + Debug + Display;

    /// Where it can start.
    fn initial(&self) -> Vec<Self::State>;

    /// Gives every step that is possible in `state` and the state after it to `emit`, in an order
    /// that depends on `state` alone.
    fn successors(&self, state: &Self::State, emit: &mut impl FnMut(Self::Action, Self::State));

    /// The property that `state` breaks, if any. Of equivalent states all or none break it.
    fn violated(&self, state: &Self::State) -> Option<Self::Property>;

    /// The one state that stands for all that differ from `state` in nothing but the names of
    /// equal agents, or in what no later step can tell apart.
    fn canonical(&self, state: Self::State) -> Self::State {
        state
    }
}
