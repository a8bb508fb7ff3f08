//! Every state of a model, breadth first.
//!
//! States wait in two lists, those of the present level and those of the next. What was visited
//! is a set of fingerprints; beside it stand, for each state in the order of its discovery, where
//! it came from and by which of the steps possible there: 6 bytes, from which a counterexample
//! is replayed ([`super::trace`]). So a state costs some 20 bytes and its place in a level.

use std::time::{Duration, Instant};

use super::fingerprint::{self, Fingerprints};
use super::model::Model;
use super::trace::{self, Trace};

/// How far to search.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Gives up before a level that begins with more states than this.
    pub states: u64,
    /// Key of the fingerprints: two runs with different keys do not share a collision.
    pub key: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { states: u64::from(u32::MAX) - 1, key: 0 }
    }
}

/// Where a search is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// States found.
    pub states: u64,
    /// Steps taken.
    pub transitions: u64,
    /// Steps from a start to the present level.
    pub depth: u32,
    /// States of the present level that are still to be looked at, and of the next.
    pub waiting: u64,
}

/// How a search ended.
#[derive(Clone, Debug)]
pub enum Verdict<M: Model> {
    /// Every reachable state was visited and none breaks a property.
    Holds,
    /// A property is broken, by a counterexample than which none is shorter.
    Violated(Trace<M>),
    /// The limit of states was reached.
    TooMany,
    /// It was asked to stop.
    Stopped,
}

/// What a search found.
#[derive(Clone, Debug)]
pub struct Outcome<M: Model> {
    /// How it ended.
    pub verdict: Verdict<M>,
    /// Different states found.
    pub states: u64,
    /// Steps taken, those to known states included.
    pub transitions: u64,
    /// Steps from a start to the last level.
    pub depth: u32,
    /// States in the widest level.
    pub widest: u64,
    /// Most memory that the search held at once.
    pub bytes: u64,
    /// Time of the search itself.
    pub elapsed: Duration,
}

impl<M: Model> Outcome<M> {
    /// The chance that two states had one fingerprint, so that some state was not seen.
    #[must_use]
    pub fn collision_chance(&self) -> f64 {
        fingerprint::collision_chance(self.states)
    }

    /// Whether all states were visited and no property is broken.
    #[must_use]
    pub fn holds(&self) -> bool {
        matches!(self.verdict, Verdict::Holds)
    }

    /// The counterexample, if there is one.
    #[must_use]
    pub fn trace(&self) -> Option<&Trace<M>> {
        match &self.verdict {
            Verdict::Violated(trace) => Some(trace),
            _ => None,
        }
    }
}

/// States between two looks at the clock and the caller.
const STRIDE: usize = 1 << 14;

/// Visits every state of `model` that can be reached, until one breaks a property. `watch` is
/// called every few thousand states and ends the search by returning false.
///
/// # Panics
///
/// If more than 2³² - 2 states are found, or one state has 2¹⁶ or more steps.
pub fn search<M: Model>(
    model: &M,
    limits: Limits,
    watch: &mut dyn FnMut(&Progress) -> bool,
) -> Outcome<M> {
    let began = Instant::now();
    let mut search = Search::new(model, limits);
    let verdict = search.run(watch);
    let Search { origins, transitions, depth, widest, peak, .. } = search;
    let states = origins.len() as u64;
    let elapsed = began.elapsed();
    Outcome { verdict, states, transitions, depth, widest, bytes: peak, elapsed }
}

/// Where each state came from, in the order of discovery.
#[derive(Default)]
pub(super) struct Origins {
    parents: Vec<u32>,
    steps: Vec<u16>,
}

/// The parent of a state that the model can start in.
const NONE: u32 = u32::MAX;

impl Origins {
    fn len(&self) -> usize {
        self.parents.len()
    }

    fn push(&mut self, parent: u32, step: u16) {
        assert!(self.parents.len() < NONE as usize, "more states than fit 32 bits");
        self.parents.push(parent);
        self.steps.push(step);
    }

    /// From a start to `state`: which of the starts, then which of the possible steps each time.
    pub(super) fn way_to(&self, state: u32) -> Vec<u16> {
        let mut way = Vec::new();
        let mut at = state;
        while at != NONE {
            way.push(self.steps[at as usize]);
            at = self.parents[at as usize];
        }
        way.reverse();
        way
    }

    fn bytes(&self) -> usize {
        self.parents.len() * size_of::<u32>() + self.steps.len() * size_of::<u16>()
    }
}

struct Search<'a, M: Model> {
    model: &'a M,
    limits: Limits,
    visited: Fingerprints,
    origins: Origins,
    next: Vec<M::State>,
    /// The first state found that breaks a property.
    broken: Option<u32>,
    transitions: u64,
    depth: u32,
    widest: u64,
    peak: u64,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(model: &'a M, limits: Limits) -> Self {
        Search {
            model,
            limits,
            visited: Fingerprints::default(),
            origins: Origins::default(),
            next: Vec::new(),
            broken: None,
            transitions: 0,
            depth: 0,
            widest: 0,
            peak: 0,
        }
    }

    fn run(&mut self, watch: &mut dyn FnMut(&Progress) -> bool) -> Verdict<M> {
        for (nth, state) in self.model.initial().into_iter().enumerate() {
            self.visit(state, NONE, nth);
        }
        let mut level = Vec::new();
        while self.broken.is_none() && !self.next.is_empty() {
            if self.origins.len() as u64 > self.limits.states {
                return Verdict::TooMany;
            }
            std::mem::swap(&mut level, &mut self.next);
            self.next.clear();
            self.widest = self.widest.max(level.len() as u64);
            if !self.level(&level, watch) {
                return Verdict::Stopped;
            }
            self.depth += u32::from(!self.next.is_empty());
        }
        match self.broken {
            Some(state) => {
                Verdict::Violated(trace::replay(self.model, &self.origins.way_to(state)))
            }
            None => Verdict::Holds,
        }
    }

    /// Takes every step from every state of a level; false if asked to stop.
    fn level(&mut self, level: &[M::State], watch: &mut dyn FnMut(&Progress) -> bool) -> bool {
        let first = self.origins.len() - level.len();
        for (nth, states) in level.chunks(STRIDE).enumerate() {
            let from = first + nth * STRIDE;
            for (nth, state) in states.iter().enumerate() {
                self.expand(state, (from + nth) as u32);
                if self.broken.is_some() {
                    return true;
                }
            }
            self.measure(level.len());
            let waiting = level.len() - (from - first) - states.len() + self.next.len();
            if !watch(&self.progress(waiting)) {
                return false;
            }
        }
        true
    }

    #[inline]
    fn expand(&mut self, state: &M::State, at: u32) {
        let model = self.model;
        let mut step = 0;
        model.successors(state, &mut |_, after| {
            self.visit(after, at, step);
            step += 1;
        });
        self.transitions += step as u64;
    }

    #[inline]
    fn visit(&mut self, state: M::State, parent: u32, step: usize) {
        let state = self.model.canonical(state);
        if !self.visited.insert(fingerprint::of(&state, self.limits.key)) {
            return;
        }
        let at = self.origins.len() as u32;
        self.origins.push(parent, u16::try_from(step).expect("fewer than 65 536 steps"));
        if self.broken.is_none() && self.model.violated(&state).is_some() {
            self.broken = Some(at);
        }
        self.next.push(state);
    }

    fn measure(&mut self, level: usize) {
        let states = (level + self.next.len()) * size_of::<M::State>();
        let bytes = self.visited.bytes() + self.origins.bytes() + states;
        self.peak = self.peak.max(bytes as u64);
    }

    fn progress(&self, waiting: usize) -> Progress {
        Progress {
            states: self.origins.len() as u64,
            transitions: self.transitions,
            depth: self.depth,
            waiting: waiting as u64,
        }
    }
}
