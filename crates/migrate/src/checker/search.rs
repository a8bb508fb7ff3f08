//! Every state of a model, breadth first.
//!
//! States wait in two lists, those of the present level and those of the next. What was visited
//! is a set of fingerprints; beside it stand, for each state in the order of its discovery, where
//! it came from and by which of the steps possible there. So a state costs some 20 bytes and its
//! place in a level. Several threads may look at a level (`level`); what is found does
//! not depend on how many, but for the order of discovery within a level.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::fingerprint::{self, Fingerprints};
use super::level::{Block, Level, LevelResult};
use super::model::Model;
use super::origins::{NONE, Origins};
use super::trace::{self, Trace};

/// How far to search, and how.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Stops before a level that begins with more states than this.
    pub states: u64,
    /// Key of the fingerprints: two runs with different keys do not share a collision.
    pub key: u64,
    /// Threads, the caller's among them.
    pub threads: NonZeroUsize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { states: u64::from(u32::MAX) - 1, key: 0, threads: NonZeroUsize::MIN }
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
    /// States of the present level that are still to be checked, and of the next.
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

/// The result of a search.
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
    /// The collision probability of fingerprints, so that some state was not seen.
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

/// Visits every state of `model` that can be reached, until one breaks a property. `watch` is
/// called every few thousand states and ends the search by returning false. With several threads
/// the states, steps and depth of a model that holds are those of one thread, and a
/// counterexample is as short; which of the shortest it is, and how many states were found before
/// it, may differ.
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

struct Search<'a, M: Model> {
    model: &'a M,
    limits: Limits,
    visited: RwLock<Fingerprints>,
    origins: Origins,
    next: VecDeque<Block<M::State>>,
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
            visited: RwLock::new(Fingerprints::default()),
            origins: Origins::default(),
            next: VecDeque::new(),
            broken: None,
            transitions: 0,
            depth: 0,
            widest: 0,
            peak: 0,
        }
    }

    fn run(&mut self, watch: &mut dyn FnMut(&Progress) -> bool) -> Verdict<M> {
        self.start();
        while self.broken.is_none() && !self.next.is_empty() {
            if self.origins.len() as u64 > self.limits.states {
                return Verdict::TooMany;
            }
            if !self.level(watch) {
                return Verdict::Stopped;
            }
        }
        match self.broken {
            Some(state) => {
                Verdict::Violated(trace::replay(self.model, &self.origins.way_to(state)))
            }
            None => Verdict::Holds,
        }
    }

    fn start(&mut self) {
        let mut found = LevelResult::default();
        for (nth, state) in self.model.initial().into_iter().enumerate() {
            let state = self.model.canonical(state);
            let visited = self.visited.get_mut().unwrap_or_else(PoisonError::into_inner);
            if visited.insert(fingerprint::of(&state, self.limits.key)) {
                if found.broken.is_none() && self.model.violated(&state).is_some() {
                    found.broken = Some(found.origins.len());
                }
                found.push(state, NONE, nth);
            }
        }
        self.take_over(found);
    }

    /// Adds a thread's results to the next level.
    fn take_over(&mut self, mut found: LevelResult<M::State>) {
        let first = self.origins.len() as u32;
        self.transitions += found.transitions;
        self.broken = self.broken.or(found.broken.map(|at| first + at as u32));
        self.origins.append(&mut found.origins);
        let mut at = first;
        for states in found.blocks {
            let first = at;
            at += states.len() as u32;
            self.next.push_back(Block { first, states });
        }
    }

    /// Takes every step from every state of a level; false if asked to stop.
    fn level(&mut self, watch: &mut dyn FnMut(&Progress) -> bool) -> bool {
        let blocks = std::mem::take(&mut self.next);
        let size = |blocks: &VecDeque<Block<M::State>>| {
            blocks.iter().map(|block| block.states.len() as u64).sum::<u64>()
        };
        let here = size(&blocks);
        self.widest = self.widest.max(here);
        let (before, steps, depth) = (self.origins.len() as u64, self.transitions, self.depth);
        let level = Level::new(self.model, self.limits.key, &self.visited, blocks);
        let mut most = 0;
        let (all, went_on) = level.run(self.limits.threads.get(), &mut |level| {
            let found = level.found.load(Ordering::Relaxed);
            let waiting = here - level.looked_at.load(Ordering::Relaxed) + found;
            most = most.max(waiting);
            let transitions = steps + level.transitions.load(Ordering::Relaxed);
            watch(&Progress { states: before + found, transitions, depth, waiting })
        });
        all.into_iter().for_each(|found| self.take_over(found));
        self.depth += u32::from(!self.next.is_empty());
        let visited = self.visited.get_mut().unwrap_or_else(PoisonError::into_inner).bytes();
        let states = most.max(size(&self.next)) as usize * size_of::<M::State>();
        self.peak = self.peak.max((visited + self.origins.bytes() + states) as u64);
        went_on
    }
}
