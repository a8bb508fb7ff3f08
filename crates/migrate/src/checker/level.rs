//! One level of a search: every step from every state of it, by as many threads as there are.
//!
//! Threads share the states of the level, a block at a time, and the set of fingerprints; what
//! each finds is its own until the level ends. So they meet only where one of them enters a
//! fingerprint, which is one atomic exchange, and where the set has to grow. For that all others
//! let go of it after the state that they are at.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

use super::fingerprint::{self, Fingerprints};
use super::model::Model;
use super::origins::Origins;

/// States that are handed to a thread at a time, and between two calls of the caller. A power of
/// two of them; they are freed when they have been checked.
const BLOCK: usize = 1 << 10;

/// States in the order of their discovery; the first one has the number `first`.
pub(super) struct Block<S> {
    pub(super) first: u32,
    pub(super) states: Vec<S>,
}

/// The results of a thread.
pub(super) struct LevelResult<S> {
    pub(super) blocks: Vec<Vec<S>>,
    pub(super) origins: Origins,
    /// Which of them is the first that breaks a property.
    pub(super) broken: Option<usize>,
    pub(super) transitions: u64,
}

impl<S> Default for LevelResult<S> {
    fn default() -> Self {
        LevelResult {
            blocks: Vec::new(),
            origins: Origins::default(),
            broken: None,
            transitions: 0,
        }
    }
}

impl<S> LevelResult<S> {
    pub(super) fn push(&mut self, state: S, parent: u32, step: usize) {
        self.origins.push(parent, step);
        match self.blocks.last_mut() {
            Some(block) if block.len() < BLOCK => block.push(state),
            _ => {
                let mut block = Vec::with_capacity(BLOCK);
                block.push(state);
                self.blocks.push(block);
            }
        }
    }
}

/// State shared by all threads.
pub(super) struct Level<'a, M: Model> {
    model: &'a M,
    key: u64,
    visited: &'a RwLock<Fingerprints>,
    waiting: Mutex<VecDeque<Block<M::State>>>,
    /// Threads that wait for the others to let go of the set, to make it grow.
    growing: AtomicUsize,
    stopped: AtomicBool,
    /// States found, steps taken and states checked, by all threads in this level.
    pub(super) found: AtomicU64,
    pub(super) transitions: AtomicU64,
    pub(super) looked_at: AtomicU64,
}

impl<'a, M: Model> Level<'a, M> {
    pub(super) fn new(
        model: &'a M,
        key: u64,
        visited: &'a RwLock<Fingerprints>,
        waiting: VecDeque<Block<M::State>>,
    ) -> Self {
        Level {
            model,
            key,
            visited,
            waiting: Mutex::new(waiting),
            growing: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            found: AtomicU64::new(0),
            transitions: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
        }
    }

    /// Expands the level's states with `threads` threads, including the caller's; false if
    /// `watch` has ended it, which is asked after each block.
    pub(super) fn run(
        &self,
        threads: usize,
        watch: &mut dyn FnMut(&Self) -> bool,
    ) -> (Vec<LevelResult<M::State>>, bool) {
        let blocks = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).len();
        let helpers = threads.min(blocks).saturating_sub(1);
        let helped = Mutex::new(Vec::new());
        let help = || {
            let (found, _) = self.work(&mut |_| true);
            helped.lock().unwrap_or_else(PoisonError::into_inner).push(found);
        };
        let (mut all, mut went_on) = (Vec::new(), true);
        beside(helpers, &help, &mut || {
            let (found, to_the_end) = self.work(watch);
            all.push(found);
            went_on = to_the_end;
        });
        all.extend(helped.into_inner().unwrap_or_else(PoisonError::into_inner));
        (all, went_on)
    }

    fn next_block(&self) -> Option<Block<M::State>> {
        if self.stopped.load(Ordering::Relaxed) {
            return None;
        }
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Checks block after block, until none is left or a thread has found a violation.
    fn work(&self, watch: &mut dyn FnMut(&Self) -> bool) -> (LevelResult<M::State>, bool) {
        let mut worker = Worker {
            level: self,
            visited: None,
            found: LevelResult::default(),
            successors: Vec::new(),
        };
        while let Some(block) = self.next_block() {
            let (states, transitions) = (worker.found.origins.len(), worker.found.transitions);
            worker.block(&block);
            let new = worker.found.origins.len() - states;
            self.found.fetch_add(new as u64, Ordering::Relaxed);
            self.transitions.fetch_add(worker.found.transitions - transitions, Ordering::Relaxed);
            self.looked_at.fetch_add(block.states.len() as u64, Ordering::Relaxed);
            if worker.found.broken.is_some() {
                self.stopped.store(true, Ordering::Relaxed);
            } else if !watch(self) {
                self.stopped.store(true, Ordering::Relaxed);
                return (worker.found, false);
            }
        }
        (worker.found, true)
    }

    /// Grows the set as soon as no thread uses it.
    #[cold]
    fn grow(&self, fingerprint: u64) {
        self.growing.fetch_add(1, Ordering::Relaxed);
        self.visited.write().unwrap_or_else(PoisonError::into_inner).grow(fingerprint);
        self.growing.fetch_sub(1, Ordering::Relaxed);
    }

    fn read(&self) -> RwLockReadGuard<'a, Fingerprints> {
        self.visited.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `own` in this thread and `help` in `helpers` others. Not generic: threads take long to
/// compile, and there are two dozen models.
fn beside(helpers: usize, help: &(dyn Fn() + Sync), own: &mut dyn FnMut()) {
    std::thread::scope(|scope| {
        for _ in 0..helpers {
            scope.spawn(help);
        }
        own();
    });
}

struct Worker<'l, 'a, M: Model> {
    level: &'l Level<'a, M>,
    /// Given back while the set grows: each other thread holds one as well, and the first that
    /// finds no room would wait for the end of the level otherwise.
    visited: Option<RwLockReadGuard<'a, Fingerprints>>,
    found: LevelResult<M::State>,
    /// The states after the steps of one state, each with its fingerprint.
    successors: Vec<(u64, M::State)>,
}

impl<M: Model> Worker<'_, '_, M> {
    fn block(&mut self, block: &Block<M::State>) {
        for (nth, state) in block.states.iter().enumerate() {
            self.expand(state, block.first + nth as u32);
            if self.found.broken.is_some() {
                return;
            }
        }
    }

    /// Takes every step from a state. The set is asked for all of the states after them before
    /// any is entered: the answers come from all over memory, and so come side by side.
    fn expand(&mut self, state: &M::State, at: u32) {
        let (model, key) = (self.level.model, self.level.key);
        let mut successors = std::mem::take(&mut self.successors);
        successors.clear();
        model.successors(state, &mut |_, after| {
            let after = model.canonical(after);
            successors.push((fingerprint::of(&after, key), after));
        });
        self.found.transitions += successors.len() as u64;
        if self.level.growing.load(Ordering::Relaxed) != 0 {
            self.visited = None;
        }
        let visited = self.visited.get_or_insert_with(|| self.level.read());
        for (fingerprint, _) in &mut successors {
            if visited.contains(*fingerprint) {
                *fingerprint = 0;
            }
        }
        for (step, &(fingerprint, after)) in successors.iter().enumerate() {
            if fingerprint != 0 && self.enter(fingerprint) {
                if self.found.broken.is_none() && model.violated(&after).is_some() {
                    self.found.broken = Some(self.found.origins.len());
                }
                self.found.push(after, at, step);
            }
        }
        self.successors = successors;
    }

    /// Enters a fingerprint into the set; false if it was there.
    fn enter(&mut self, fingerprint: u64) -> bool {
        let visited = self.visited.get_or_insert_with(|| self.level.read());
        let new = visited.insert(fingerprint);
        if new && visited.is_crowded(fingerprint) {
            self.visited = None;
            self.level.grow(fingerprint);
        }
        new
    }
}
