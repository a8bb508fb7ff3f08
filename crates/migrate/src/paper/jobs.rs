//! Independent runs, on as many threads as are given.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use thiserror::Error;

use crate::pages::TooSmall;
use crate::params::Params;
use crate::sim::{Outcome, Plan, Simulation};

/// The reason of a missing result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Stopped {
    /// It was stopped.
    #[error("interrupted")]
    Interrupted,
    /// A workload does not fit the machine.
    #[error(transparent)]
    TooSmall(#[from] TooSmall),
}

/// Runs to do. Equal ones are done once.
#[derive(Default)]
pub(super) struct Jobs(Vec<(Params, Plan)>);

impl Jobs {
    /// Adds a run; returns its number.
    pub fn add(&mut self, params: &Params, plan: Plan) -> usize {
        let job = (params.clone(), plan);
        if let Some(number) = self.0.iter().position(|other| *other == job) {
            return number;
        }
        self.0.push(job);
        self.0.len() - 1
    }

    /// Does all; the outcomes in the order of their numbers.
    pub fn run(
        self,
        threads: usize,
        progress: &(dyn Fn(usize, usize) -> bool + Sync),
    ) -> Result<Vec<Outcome>, Stopped> {
        let (next, done, stop) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
        let outcomes = Mutex::new(vec![None; self.0.len()]);
        let work = || {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some((params, plan)) = self.0.get(number) else { return };
                let go_on = &mut |_| {
                    let go_on = progress(done.load(Ordering::Relaxed), self.0.len());
                    stop.fetch_or(!go_on, Ordering::Relaxed);
                    go_on && !stop.load(Ordering::Relaxed)
                };
                let outcome = match Simulation::new(params, plan) {
                    Ok(simulation) => simulation.run(go_on).ok_or(Stopped::Interrupted),
                    Err(error) => Err(error.into()),
                };
                let failed = outcome.is_err();
                let mut outcomes = outcomes.lock().expect("no thread panics while it holds it");
                outcomes[number] = Some(outcome);
                done.fetch_add(1, Ordering::Relaxed);
                if failed {
                    stop.store(true, Ordering::Relaxed);
                }
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.clamp(1, self.0.len().max(1)) {
                scope.spawn(work);
            }
            work();
        });
        let outcomes = outcomes.into_inner().expect("no thread panicked");
        // The failure of a run is reported instead of the runs that it stopped.
        let failed = |outcome: &Option<Result<_, Stopped>>| match outcome {
            Some(Err(Stopped::TooSmall(error))) => Some(Stopped::TooSmall(*error)),
            _ => None,
        };
        if let Some(error) = outcomes.iter().find_map(failed) {
            return Err(error);
        }
        outcomes.into_iter().map(|outcome| outcome.unwrap_or(Err(Stopped::Interrupted))).collect()
    }
}
