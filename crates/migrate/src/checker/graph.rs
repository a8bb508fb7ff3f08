//! The state graph of a model, for progress properties.
//!
//! Safety is a property of states; progress is a property of executions. Two questions are answered
//! over the whole graph:
//!
//! - *Can it complete?* ([`stuck`]) From every state with a waiting agent, some execution of the
//!   agents that it waits for alone must end the wait.
//! - *Does it end?* ([`super::fair`]) No infinite execution that is fair may stay in states where
//!   something is unfinished.

use super::fingerprint;
use super::model::Model;
use super::search::Limits;

use std::collections::HashMap;

/// A model with waiting agents and operations that have to end.
pub trait Live: Model {
    /// Agents that are to be fair: an agent that could always act does so some day.
    fn fair_agents(&self) -> usize;
    /// The fair agent of a step, counted from 0.
    fn fair_agent(&self, action: &Self::Action) -> Option<usize>;
    /// Whether an agent is fair even where it can act only now and then (strong fairness), as one
    /// is whose turn comes in the order of arrival.
    fn is_strong(&self, _agent: usize) -> bool {
        false
    }
    /// Whether the step is one that can be counted on to end a waiting.
    fn helps(&self, action: &Self::Action) -> bool;
    /// How many there are that may wait.
    fn waiters(&self) -> usize;
    /// Whether one of them waits.
    fn waits(&self, state: &Self::State, waiter: usize) -> bool;
    /// Whether something is under way that has to end.
    fn is_unfinished(&self, state: &Self::State) -> bool;
}

/// All states of a model, by number, and all steps between them: what the questions about progress
/// need to know, without the states themselves. Some 6 bytes for each step and 10 for each state.
pub struct Graph {
    parents: Vec<u32>,
    /// Where the steps of each state begin in `targets`; one more than states.
    first: Vec<u32>,
    pub(super) targets: Vec<u32>,
    pub(super) agents: Vec<u8>,
    helps: Vec<bool>,
    /// Who waits in each state, a bit for each waiter.
    waits: Vec<u8>,
    pub(super) unfinished: Vec<bool>,
    waiters: usize,
    /// Whether each agent that is to be fair is so in the strong sense.
    pub(super) strong: Vec<bool>,
}

/// An agent that need not be fair.
const FREE: u8 = u8::MAX;
const NO_PARENT: u32 = u32::MAX;

impl Graph {
    /// Builds it, as far as `limits` go, with the states by number: nothing if there are more
    /// states. Use a model without symmetry: agents have to keep their names along a way.
    ///
    /// # Panics
    ///
    /// If more than eight agents may wait.
    pub fn build<M: Live>(model: &M, limits: Limits) -> Option<(Graph, Vec<M::State>)> {
        assert!(model.waiters() <= 8, "a bit for each waiter");
        let mut graph = Graph {
            parents: Vec::new(),
            first: vec![0],
            targets: Vec::new(),
            agents: Vec::new(),
            helps: Vec::new(),
            waits: Vec::new(),
            unfinished: Vec::new(),
            waiters: model.waiters(),
            strong: (0..model.fair_agents()).map(|agent| model.is_strong(agent)).collect(),
        };
        let mut states = Vec::new();
        let mut numbers = HashMap::new();
        let mut number = |graph: &mut Graph, states: &mut Vec<M::State>, state, parent| {
            let state = model.canonical(state);
            *numbers.entry(fingerprint::of(&state, limits.key)).or_insert_with(|| {
                let waits = (0..model.waiters()).filter(|&waiter| model.waits(&state, waiter));
                let waits = waits.map(|waiter| 1 << waiter).sum();
                states.push(state);
                graph.add_state(parent, waits, model.is_unfinished(&state))
            })
        };
        for state in model.initial() {
            number(&mut graph, &mut states, state, NO_PARENT);
        }
        let mut at = 0;
        while at < states.len() {
            let state = states[at];
            model.successors(&state, &mut |action, after| {
                let target = number(&mut graph, &mut states, after, at as u32);
                graph.targets.push(target);
                graph.agents.push(model.fair_agent(&action).map_or(FREE, |agent| agent as u8));
                graph.helps.push(model.helps(&action));
            });
            graph.first.push(u32::try_from(graph.targets.len()).ok()?);
            at += 1;
            if states.len() as u64 > limits.states {
                return None;
            }
        }
        Some((graph, states))
    }

    fn add_state(&mut self, parent: u32, waits: u8, unfinished: bool) -> u32 {
        self.parents.push(parent);
        self.waits.push(waits);
        self.unfinished.push(unfinished);
        (self.len() - 1) as u32
    }

    /// How many states it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parents.is_empty()
    }

    /// The number of transitions.
    #[must_use]
    pub fn transitions(&self) -> usize {
        self.targets.len()
    }

    pub(super) fn steps(&self, state: usize) -> std::ops::Range<usize> {
        self.first[state] as usize..self.first[state + 1] as usize
    }

    /// The states on the shortest way from a start to a state, both included.
    pub(super) fn way_to(&self, state: u32) -> Vec<u32> {
        let mut way = vec![state];
        while self.parents[way[way.len() - 1] as usize] != NO_PARENT {
            way.push(self.parents[way[way.len() - 1] as usize]);
        }
        way.reverse();
        way
    }
}

/// The actions along a way through the states of a [`Graph`].
pub fn actions<M: Model>(model: &M, states: &[M::State], way: &[u32]) -> Vec<M::Action> {
    let mut actions = Vec::new();
    for pair in way.windows(2) {
        let after = states[pair[1] as usize];
        let mut found = None;
        model.successors(&states[pair[0] as usize], &mut |action, next| {
            if found.is_none() && model.canonical(next) == after {
                found = Some(action);
            }
        });
        actions.extend(found);
    }
    actions
}

/// A state from which a wait cannot end.
pub struct StarvedState {
    /// The waiting agent.
    pub waiter: usize,
    /// The states on the path to it, by number.
    pub way: Vec<u32>,
}

/// The first state, if any, with a waiting agent that no helping steps can free.
#[must_use]
pub fn stuck(graph: &Graph) -> Option<StarvedState> {
    let backward = Backward::new(graph);
    (0..graph.waiters).find_map(|waiter| {
        let waits = |state: usize| graph.waits[state] & 1 << waiter != 0;
        let mut freed = vec![false; graph.len()];
        let mut open: Vec<u32> = Vec::new();
        for state in (0..graph.len()).filter(|&state| !waits(state)) {
            freed[state] = true;
            open.push(state as u32);
        }
        while let Some(state) = open.pop() {
            for &before in backward.of(state as usize) {
                if !std::mem::replace(&mut freed[before as usize], true) {
                    open.push(before);
                }
            }
        }
        let vain = freed.iter().position(|&freed| !freed)?;
        Some(StarvedState { waiter, way: graph.way_to(vain as u32) })
    })
}

/// Helping steps, backward.
struct Backward {
    first: Vec<u32>,
    sources: Vec<u32>,
}

impl Backward {
    fn new(graph: &Graph) -> Backward {
        let mut first = vec![0u32; graph.len() + 2];
        let helping = |&at: &usize| graph.helps[at];
        for at in (0..graph.targets.len()).filter(helping) {
            first[graph.targets[at] as usize + 2] += 1;
        }
        for at in 2..first.len() {
            first[at] += first[at - 1];
        }
        let mut sources = vec![0; first[first.len() - 1] as usize];
        for state in 0..graph.len() {
            for at in graph.steps(state).filter(helping) {
                let place = &mut first[graph.targets[at] as usize + 1];
                sources[*place as usize] = state as u32;
                *place += 1;
            }
        }
        Backward { first, sources }
    }

    fn of(&self, state: usize) -> &[u32] {
        &self.sources[self.first[state] as usize..self.first[state + 1] as usize]
    }
}
