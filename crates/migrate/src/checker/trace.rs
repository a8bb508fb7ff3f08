//! A counterexample: from a start, step by step, to what must not be.

use super::model::Model;

/// One step and the state after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<M: Model> {
    /// The action.
    pub action: M::Action,
    /// The state after it.
    pub state: M::State,
}

/// A sequence of steps from a start of a model.
#[derive(Clone, Debug)]
pub struct Trace<M: Model> {
    /// Where it starts.
    pub initial: M::State,
    /// The step.
    pub steps: Vec<Step<M>>,
    /// The property that the last state violates.
    pub property: Option<M::Property>,
}

impl<M: Model> Trace<M> {
    /// The state after the last step.
    #[must_use]
    pub fn last(&self) -> &M::State {
        self.steps.last().map_or(&self.initial, |step| &step.state)
    }
}

/// Replays a way through the canonical states (which start, then which step each time) with the
/// agents' own names: a canonical state may have them in another order than the state before.
///
/// # Panics
///
/// If the path does not exist, because the model is not a function of its states.
pub(super) fn replay<M: Model>(model: &M, way: &[u16]) -> Trace<M> {
    let mut way = way.iter().map(|&step| usize::from(step));
    let start = way.next().expect("a way begins with a start");
    let initial = model.initial()[start];
    let mut canonical = model.canonical(initial);
    let mut state = initial;
    let mut steps = Vec::new();
    for nth in way {
        let (_, after) = successors(model, &canonical).swap_remove(nth);
        canonical = model.canonical(after);
        let (action, after) = successors(model, &state)
            .into_iter()
            .find(|&(_, after)| model.canonical(after) == canonical)
            .expect("equivalent states have equivalent steps");
        state = after;
        steps.push(Step { action, state });
    }
    Trace { initial, steps, property: model.violated(&state) }
}

fn successors<M: Model>(model: &M, state: &M::State) -> Vec<(M::Action, M::State)> {
    let mut found = Vec::new();
    model.successors(state, &mut |action, after| found.push((action, after)));
    found
}
