//! A command's work, called from Python: with progress, interruptible, without the interpreter's
//! lock.

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use prairie::{Asking, Progress};
use prairie_replay::run::Guest;
use pyo3::prelude::*;

use crate::answer::Answer;
use crate::error::{PolicyError, PrairieError};
use crate::policy::{self, Raised, Written};

/// How often signals are looked for and progress is reported.
const EVERY: Duration = Duration::from_millis(50);

type Outcome = Result<prairie::Answered, String>;

/// Does the work of a command of these arguments.
///
/// `policies` are those of Python, replayed after the allocators that the arguments name.
/// `progress` is called with what is being done, how many are done, and how many there are or None.
#[pyfunction]
#[pyo3(signature = (arguments, called_as, policies, progress=None))]
pub fn ask(
    py: Python<'_>,
    arguments: Vec<OsString>,
    called_as: String,
    policies: Vec<Written>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Answer> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let observed = Progress::default();
    let asking = Work { arguments, called_as, interrupted, observed };
    let (found, raised) = match policies.is_empty() {
        true => without_lock(py, asking, progress)?,
        false => with_policies(py, &asking, policies, progress)?,
    };
    if let Some(error) = raised.and_then(|raised| raised.take()) {
        // An interrupt or an exit is none of the policy's faults.
        if !error.is_instance_of::<pyo3::exceptions::PyException>(py) {
            return Err(error);
        }
        let text = found.err().unwrap_or_default();
        let fault = PolicyError::new_err(text);
        fault.set_cause(py, Some(error));
        return Err(fault);
    }
    py.check_signals()?;
    let answer = found.map_err(|text| match text.starts_with("policy ") {
        true => PolicyError::new_err(text),
        false => PrairieError::new_err(text),
    })?;
    Ok(Answer::new(answer))
}

/// What is to be done.
struct Work {
    arguments: Vec<OsString>,
    called_as: String,
    interrupted: Arc<AtomicBool>,
    observed: Progress,
}

impl Work {
    fn run(&self, guests: Vec<Guest>) -> Outcome {
        let asking = Asking {
            interrupted: &self.interrupted,
            guests,
            called_as: self.called_as.clone(),
            progress: self.observed.clone(),
        };
        prairie::ask(self.arguments.clone(), asking)
    }

    /// Reports progress, and asks the work to stop if Python has a reason.
    fn report(&self, progress: Option<&Py<PyAny>>) -> PyResult<()> {
        let result = Python::attach(|py| {
            py.check_signals()?;
            if let (Some(callback), Some(now)) = (progress, self.observed.now()) {
                callback.call1(py, (now.what, now.done, now.total))?;
            }
            Ok(())
        });
        if result.is_err() {
            self.interrupted.store(true, Ordering::Relaxed);
        }
        result
    }
}

/// Works on another thread, while this one waits for it and for signals. The first interrupt asks
/// the work to stop. The second leaves the thread to itself: native code, as that of a policy in a
/// library, may never return.
fn without_lock(
    py: Python<'_>,
    work: Work,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Outcome, Option<Raised>)> {
    let work = Arc::new(work);
    py.detach(|| {
        let (sender, receiver) = channel::<()>();
        let thread = std::thread::spawn({
            let work = work.clone();
            move || {
                let found = work.run(Vec::new());
                // Ends the wait below.
                drop(sender);
                found
            }
        });
        let mut stopped = None;
        while let Err(RecvTimeoutError::Timeout) = receiver.recv_timeout(EVERY) {
            let shown = progress.as_ref().filter(|_| stopped.is_none());
            match (work.report(shown), stopped.is_some()) {
                (Ok(()), _) => {}
                (Err(error), false) => stopped = Some(error),
                (Err(error), true) => return Err(error),
            }
        }
        let found = thread.join();
        match (stopped, found) {
            (Some(error), _) => Err(error),
            (None, Ok(found)) => {
                // The bar's last state.
                work.report(progress.as_ref())?;
                Ok((found, None))
            }
            (None, Err(panic)) => std::panic::resume_unwind(panic),
        }
    })
}

/// Works on this thread, where Python raises its interrupts in the policies' code, while another
/// one reports progress.
fn with_policies(
    py: Python<'_>,
    work: &Work,
    policies: Vec<Written>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Outcome, Option<Raised>)> {
    let raised = Raised::default();
    let guests = policies.into_iter().map(|policy| policy::guest(policy, raised.clone()));
    let guests: Vec<Guest> = guests.collect();
    let found = std::thread::scope(|scope| {
        let (sender, receiver) = channel::<()>();
        let observer = progress.map(|callback| {
            scope.spawn(move || {
                while let Err(RecvTimeoutError::Timeout) = receiver.recv_timeout(EVERY) {
                    // An error of the callback ends its reports, not the work.
                    if work.report(Some(&callback)).is_err() {
                        break;
                    }
                }
            })
        });
        let found = work.run(guests);
        drop(sender);
        if let Some(observer) = observer {
            // It may wait for the interpreter.
            py.detach(|| drop(observer.join()));
        }
        found
    });
    Ok((found, Some(raised)))
}
