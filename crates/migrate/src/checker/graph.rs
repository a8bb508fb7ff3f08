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
use super::trace::{Step, Trace};

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

/// All states of a model and all steps between them. Some 5 bytes a step and the size of a state
/// for each.
pub struct Graph<M: Model> {
    pub(super) states: Vec<M::State>,
    parents: Vec<u32>,
    /// Where the steps of each state begin in `targets`; one more than states.
    first: Vec<u32>,
    pub(super) targets: Vec<u32>,
    pub(super) agents: Vec<u8>,
    helps: Vec<bool>,
}

/// An agent that need not be fair.
const FREE: u8 = u8::MAX;
const NO_PARENT: u32 = u32::MAX;

impl<M: Live> Graph<M> {
    /// Builds it, as far as `limits` go: nothing if there are more states. Use a model without
    /// symmetry: agents have to keep their names along a way.
    pub fn build(model: &M, limits: Limits) -> Option<Graph<M>> {
        let mut graph = Graph {
            states: Vec::new(),
            parents: Vec::new(),
            first: vec![0],
            targets: Vec::new(),
            agents: Vec::new(),
            helps: Vec::new(),
        };
        let mut index = HashMap::new();
        for state in model.initial() {
            graph.enter(&mut index, model.canonical(state), NO_PARENT, limits.key);
        }
        let mut at = 0;
        while at < graph.states.len() {
            let state = graph.states[at];
            model.successors(&state, &mut |action, after| {
                let target = graph.enter(&mut index, model.canonical(after), at as u32, limits.key);
                graph.targets.push(target);
                graph.agents.push(model.fair_agent(&action).map_or(FREE, |agent| agent as u8));
                graph.helps.push(model.helps(&action));
            });
            graph.first.push(u32::try_from(graph.targets.len()).ok()?);
            at += 1;
            if graph.states.len() as u64 > limits.states {
                return None;
            }
        }
        Some(graph)
    }

    fn enter(
        &mut self,
        index: &mut HashMap<u64, u32>,
        state: M::State,
        parent: u32,
        key: u64,
    ) -> u32 {
        *index.entry(fingerprint::of(&state, key)).or_insert_with(|| {
            self.states.push(state);
            self.parents.push(parent);
            (self.states.len() - 1) as u32
        })
    }

    /// How many states it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// The number of transitions.
    #[must_use]
    pub fn transitions(&self) -> usize {
        self.targets.len()
    }

    pub(super) fn steps(&self, state: usize) -> std::ops::Range<usize> {
        self.first[state] as usize..self.first[state + 1] as usize
    }

    /// The shortest way from a start to a state, and on along `rest`.
    pub(super) fn trace(&self, model: &M, state: u32, rest: &[u32]) -> Trace<M> {
        let mut way = vec![state];
        while self.parents[way[way.len() - 1] as usize] != NO_PARENT {
            way.push(self.parents[way[way.len() - 1] as usize]);
        }
        way.reverse();
        let initial = self.states[way[0] as usize];
        way.extend_from_slice(rest);
        let mut steps = Vec::new();
        for pair in way.windows(2) {
            let after = self.states[pair[1] as usize];
            let mut found = None;
            model.successors(&self.states[pair[0] as usize], &mut |action, next| {
                if found.is_none() && model.canonical(next) == after {
                    found = Some(action);
                }
            });
            steps.extend(found.map(|action| Step { action, state: after }));
        }
        Trace { initial, steps, property: None }
    }
}

/// A state from which a wait cannot end.
pub struct StarvedState<M: Model> {
    /// The waiting agent.
    pub waiter: usize,
    /// The path to it.
    pub trace: Trace<M>,
}

/// The first state, if any, with a waiting agent that no helping steps can free.
pub fn stuck<M: Live>(model: &M, graph: &Graph<M>) -> Option<StarvedState<M>> {
    let backward = Backward::new(graph);
    (0..model.waiters()).find_map(|waiter| {
        let waits = |state: usize| model.waits(&graph.states[state], waiter);
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
        Some(StarvedState { waiter, trace: graph.trace(model, vain as u32, &[]) })
    })
}

/// Helping steps, backward.
struct Backward {
    first: Vec<u32>,
    sources: Vec<u32>,
}

impl Backward {
    fn new<M: Live>(graph: &Graph<M>) -> Backward {
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
