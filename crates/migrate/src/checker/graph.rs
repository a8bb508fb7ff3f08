//! The states of a model with the steps between them, for what must happen some day.
//!
//! Never is about states; some day is about ways. Two questions are answered over the whole graph:
//!
//! - *Can it complete?* ([`stuck`]) From every state in which somebody waits, some way must lead
//!   to the end of the waiting by steps of those alone who owe it to him.
//! - *Does it end?* ([`starvation`]) No infinite way may stay where something is unfinished, if
//!   everybody acts who always could: weak fairness. Such a way ends up in a strongly connected
//!   part of the graph, in which each of those who are to be fair acts at some point or is unable
//!   to at some point; or it stands still in a state in which all of them are unable to.

use super::fingerprint;
use super::model::Model;
use super::search::Limits;
use super::trace::{Step, Trace};

use std::collections::HashMap;

/// A model in which somebody waits, and something has to end.
pub trait Live: Model {
    /// Agents that are to be fair: an agent that could always act does so some day.
    fn fair_agents(&self) -> usize;
    /// Whose step it is, from 0, among those that are to be fair.
    fn fair_agent(&self, action: &Self::Action) -> Option<usize>;
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
    states: Vec<M::State>,
    parents: Vec<u32>,
    /// Where the steps of each state begin in `targets`; one more than states.
    first: Vec<u32>,
    targets: Vec<u32>,
    agents: Vec<u8>,
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

    /// How many steps lie between the states.
    #[must_use]
    pub fn transitions(&self) -> usize {
        self.targets.len()
    }

    fn steps(&self, state: usize) -> std::ops::Range<usize> {
        self.first[state] as usize..self.first[state + 1] as usize
    }

    /// The shortest way from a start to a state, and on along `rest`.
    fn trace(&self, model: &M, state: u32, rest: &[u32]) -> Trace<M> {
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

/// A state in which somebody waits in vain.
pub struct Stuck<M: Model> {
    /// Who.
    pub waiter: usize,
    /// How it comes to that.
    pub trace: Trace<M>,
}

/// The first state, if any, in which somebody waits whom no helping steps can free.
pub fn stuck<M: Live>(model: &M, graph: &Graph<M>) -> Option<Stuck<M>> {
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
        Some(Stuck { waiter, trace: graph.trace(model, vain as u32, &[]) })
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

/// A way that never ends what is under way, though everybody is fair.
pub struct Starvation<M: Model> {
    /// From a start into the cycle, and once around it.
    pub trace: Trace<M>,
    /// Steps before the cycle begins; the rest repeats for ever. If there is no rest, nobody who
    /// is to be fair can act at all.
    pub stem: usize,
    /// States of the strongly connected part that the cycle is in.
    pub part: usize,
}

/// The first way found, if any, on which something stays unfinished for ever under weak fairness.
pub fn starvation<M: Live>(model: &M, graph: &Graph<M>) -> Option<Starvation<M>> {
    let parts = Parts::of(graph, |state| model.is_unfinished(&graph.states[state]));
    let part = parts.all.iter().find(|part| is_starving(model, graph, &parts, part))?;
    let start = *part.iter().min()?;
    let cycle = cycle(model, graph, &parts, part, start);
    let trace = graph.trace(model, start, &cycle);
    Some(Starvation { stem: trace.steps.len() - cycle.len(), trace, part: part.len() })
}

/// Whether every fair agent acts within the part, or is unable to act in one of its states.
fn is_starving<M: Live>(model: &M, graph: &Graph<M>, parts: &Parts, part: &[u32]) -> bool {
    (0..model.fair_agents()).all(|agent| witness(graph, parts, part, agent as u8).is_some())
}

/// Where an agent is fair within a part: a state in which it is unable, or both ends of a step.
fn witness<M: Live>(
    graph: &Graph<M>,
    parts: &Parts,
    part: &[u32],
    agent: u8,
) -> Option<(u32, Option<u32>)> {
    let mut acts = None;
    for &state in part {
        let own = graph.steps(state as usize).filter(|&at| graph.agents[at] == agent);
        let mut able = false;
        for at in own {
            able = true;
            let target = graph.targets[at];
            if parts.number[target as usize] == parts.number[state as usize] {
                acts = Some((state, Some(target)));
            }
        }
        if !able {
            return Some((state, None));
        }
    }
    acts
}

/// A way from `start` through the witnesses of all fair agents and back, within the part.
fn cycle<M: Live>(
    model: &M,
    graph: &Graph<M>,
    parts: &Parts,
    part: &[u32],
    start: u32,
) -> Vec<u32> {
    let mut way = vec![start];
    let go = |way: &mut Vec<u32>, to: u32| {
        let from = way[way.len() - 1];
        way.extend(shortest(graph, parts, from, to));
    };
    for agent in 0..model.fair_agents() {
        if let Some((state, target)) = witness(graph, parts, part, agent as u8) {
            if target.is_none() && way.contains(&state) {
                continue;
            }
            go(&mut way, state);
            way.extend(target);
        }
    }
    go(&mut way, start);
    way.remove(0);
    way
}

fn shortest<M: Live>(graph: &Graph<M>, parts: &Parts, from: u32, to: u32) -> Vec<u32> {
    let mut parents = HashMap::from([(from, from)]);
    let mut open = std::collections::VecDeque::from([from]);
    while let Some(state) = open.pop_front().filter(|_| !parents.contains_key(&to)) {
        for at in graph.steps(state as usize) {
            let target = graph.targets[at];
            if parts.number[target as usize] == parts.number[from as usize] {
                parents.entry(target).or_insert_with(|| {
                    open.push_back(target);
                    state
                });
            }
        }
    }
    let mut way = Vec::new();
    let mut at = to;
    while at != from {
        way.push(at);
        at = parents[&at];
    }
    way.reverse();
    way
}

/// Strongly connected parts of the states that a condition holds in.
struct Parts {
    /// The part of each state.
    number: Vec<u32>,
    all: Vec<Vec<u32>>,
}

const OUTSIDE: u32 = u32::MAX;

impl Parts {
    /// Tarjan's algorithm, with a stack of its own: ways are millions of states long.
    fn of<M: Live>(graph: &Graph<M>, within: impl Fn(usize) -> bool) -> Parts {
        let states = graph.len();
        let inside: Vec<bool> = (0..states).map(within).collect();
        let mut parts = Parts { number: vec![OUTSIDE; states], all: Vec::new() };
        let mut order = vec![OUTSIDE; states];
        let mut low = vec![0u32; states];
        let (mut stack, mut calls) = (Vec::new(), Vec::new());
        let mut next = 0;
        for root in (0..states).filter(|&state| inside[state]) {
            if order[root] != OUTSIDE {
                continue;
            }
            calls.push((root, graph.steps(root)));
            while let Some((state, steps)) = calls.last_mut() {
                let state = *state;
                if order[state] == OUTSIDE {
                    (order[state], low[state]) = (next, next);
                    next += 1;
                    stack.push(state as u32);
                }
                let step = steps.find_map(|at| {
                    let target = graph.targets[at] as usize;
                    let open = inside[target] && parts.number[target] == OUTSIDE;
                    open.then_some(target)
                });
                match step {
                    Some(target) if order[target] == OUTSIDE => {
                        calls.push((target, graph.steps(target)));
                    }
                    Some(target) => low[state] = low[state].min(order[target]),
                    None => {
                        calls.pop();
                        if let Some((caller, _)) = calls.last() {
                            low[*caller] = low[*caller].min(low[state]);
                        }
                        if low[state] == order[state] {
                            parts.close(&mut stack, state as u32);
                        }
                    }
                }
            }
        }
        parts
    }

    fn close(&mut self, stack: &mut Vec<u32>, root: u32) {
        let number = self.all.len() as u32;
        let from = stack.iter().rposition(|&state| state == root).unwrap_or_default();
        let part = stack.split_off(from);
        for &state in &part {
            self.number[state as usize] = number;
        }
        self.all.push(part);
    }
}
