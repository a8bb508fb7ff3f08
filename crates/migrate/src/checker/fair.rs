//! Ways that never end what is under way, though everybody is fair.
//!
//! An infinite way ends up in a strongly connected part of the graph, or stands still. It is fair
//!
//! - to an agent that is weakly fair (who could always act, acts) if the part has a state in which
//!   the agent is unable to act, or a step of it;
//! - to an agent that is strongly fair (who could act again and again, acts) if the part has a
//!   step of it, or no state in which it is able.
//!
//! If a part fails a strongly fair agent, no fair way meets the states in which that agent is able
//! again and again: they are taken out, and the rest falls into smaller parts (E. A. Emerson and
//! C.-L. Lei, 1987). If it fails a weakly fair one, so does every part of it.

use std::collections::{HashMap, VecDeque};

use super::graph::Graph;

/// An infinite execution that never completes, under fairness.
pub struct Starvation {
    /// The states from a start into the cycle, and once around it, by number.
    pub way: Vec<u32>,
    /// Steps before the cycle begins; the rest repeats forever. An empty rest is a state in which
    /// no fair agent can act.
    pub stem: usize,
    /// States of the strongly connected part that the cycle is in.
    pub part: usize,
}

/// The first way found into and around such a part, if there is any.
#[must_use]
pub fn starvation(graph: &Graph) -> Option<Starvation> {
    let label = |&unfinished| if unfinished { 0 } else { OUTSIDE };
    let mut labels: Vec<u32> = graph.unfinished.iter().map(label).collect();
    while labels.iter().any(|&label| label != OUTSIDE) {
        let parts = Parts::of(graph, &labels);
        labels.fill(OUTSIDE);
        for part in &parts.all {
            match judge(graph, &parts, part) {
                Judgement::Fair => {
                    let start = *part.iter().min()?;
                    let mut way = graph.way_to(start);
                    let stem = way.len() - 1;
                    way.extend(cycle(graph, &parts, part, start));
                    return Some(Starvation { stem, way, part: part.len() });
                }
                Judgement::Unfair => {}
                Judgement::Without(agent) => {
                    for &state in part.iter().filter(|&&state| !is_able(graph, state, agent)) {
                        labels[state as usize] = parts.number[state as usize];
                    }
                }
            }
        }
    }
    None
}

/// Whether fair agents can stay in a strongly connected part.
enum Judgement {
    /// A run can stay in it forever.
    Fair,
    /// None may.
    Unfair,
    /// One may, if at all, where a strongly fair agent is unable to act.
    Without(u8),
}

fn judge(graph: &Graph, parts: &Parts, part: &[u32]) -> Judgement {
    let unfair = |strong: bool| {
        let mut agents =
            (0..graph.strong.len()).filter(move |&agent| graph.strong[agent] == strong);
        agents.find(|&agent| witness(graph, parts, part, agent as u8).is_none())
    };
    match (unfair(false), unfair(true)) {
        (Some(_), _) => Judgement::Unfair,
        (None, Some(agent)) => Judgement::Without(agent as u8),
        (None, None) => Judgement::Fair,
    }
}

fn is_able(graph: &Graph, state: u32, agent: u8) -> bool {
    graph.steps(state as usize).any(|at| graph.agents[at] == agent)
}

/// Where an agent is treated fairly within a part: both ends of a step of it; or, without the
/// second, a state in which it is unable.
fn witness(graph: &Graph, parts: &Parts, part: &[u32], agent: u8) -> Option<(u32, Option<u32>)> {
    let strong = graph.strong[usize::from(agent)];
    let (mut acts, mut ever_able) = (None, false);
    for &state in part {
        let mut able = false;
        for at in graph.steps(state as usize).filter(|&at| graph.agents[at] == agent) {
            able = true;
            let target = graph.targets[at];
            if parts.number[target as usize] == parts.number[state as usize] {
                acts = Some((state, Some(target)));
            }
        }
        if !able && !strong {
            return Some((state, None));
        }
        ever_able |= able;
    }
    acts.or_else(|| (!ever_able).then(|| (part[0], None)))
}

/// A way from `start` through the witnesses of all fair agents and back, within the part.
fn cycle(graph: &Graph, parts: &Parts, part: &[u32], start: u32) -> Vec<u32> {
    let mut way = vec![start];
    let go = |way: &mut Vec<u32>, to: u32| {
        let from = way[way.len() - 1];
        way.extend(shortest(graph, parts, from, to));
    };
    for agent in 0..graph.strong.len() {
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

fn shortest(graph: &Graph, parts: &Parts, from: u32, to: u32) -> Vec<u32> {
    let mut parents = HashMap::from([(from, from)]);
    let mut open = VecDeque::from([from]);
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

/// Strongly connected parts of the graph within each label.
struct Parts {
    /// The part of each state.
    number: Vec<u32>,
    all: Vec<Vec<u32>>,
}

const OUTSIDE: u32 = u32::MAX;

impl Parts {
    /// Tarjan's algorithm with an explicit stack: paths are millions of states long.
    fn of(graph: &Graph, labels: &[u32]) -> Parts {
        let states = graph.len();
        let mut parts = Parts { number: vec![OUTSIDE; states], all: Vec::new() };
        let mut order = vec![OUTSIDE; states];
        let mut low = vec![0u32; states];
        let (mut stack, mut calls) = (Vec::new(), Vec::new());
        let mut next = 0;
        for root in (0..states).filter(|&state| labels[state] != OUTSIDE) {
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
                    let open = labels[target] == labels[state] && parts.number[target] == OUTSIDE;
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
