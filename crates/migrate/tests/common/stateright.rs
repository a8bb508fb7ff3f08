//! Our models as Stateright's.

use prairie_migrate::checker::model::Model;

/// A model of ours, for Stateright.
pub struct Adapted<M>(pub M);

impl<M> stateright::Model for Adapted<M>
where
    M: Model,
    M::State: std::fmt::Debug,
{
    type State = M::State;
    /// The state after a step: Stateright asks for steps first and for the state after each in a
    /// call of its own, and to work it out twice would be unfair to it.
    type Action = M::State;

    fn init_states(&self) -> Vec<M::State> {
        self.0.initial().into_iter().map(|state| self.0.canonical(state)).collect()
    }

    fn actions(&self, state: &M::State, actions: &mut Vec<M::State>) {
        self.0.successors(state, &mut |_, after| actions.push(self.0.canonical(after)));
    }

    fn next_state(&self, _: &M::State, after: M::State) -> Option<M::State> {
        Some(after)
    }

    fn properties(&self) -> Vec<stateright::Property<Self>> {
        vec![stateright::Property::always("all of them", |model: &Self, state| {
            model.0.violated(state).is_none()
        })]
    }
}
