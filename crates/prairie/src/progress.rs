//! Progress on standard error; hidden if it is not a terminal. A program that calls this one can
//! observe it instead.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress of the work of one thread, for another that observes it.
#[derive(Clone, Default)]
pub struct Progress(Arc<Mutex<Option<ProgressBar>>>);

/// How far the work is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// What is being done.
    pub what: String,
    /// Things done.
    pub done: u64,
    /// Things to do, if that is known.
    pub total: Option<u64>,
}

impl Progress {
    /// How far the work is; `None` before it has begun to count.
    pub fn now(&self) -> Option<Observed> {
        let bar = self.0.lock().ok()?.clone()?;
        Some(Observed { what: bar.message(), done: bar.position(), total: bar.length() })
    }
}

thread_local! {
    static OBSERVED: RefCell<Option<Progress>> = const { RefCell::new(None) };
}

/// Lets the bars of this thread be observed instead of drawn.
pub fn observe(progress: Option<Progress>) {
    OBSERVED.set(progress);
}

/// A bar up to `total` things, or a spinner with a count if that is not known.
pub fn bar(total: Option<u64>, what: impl Into<Cow<'static, str>>) -> ProgressBar {
    if let Some(Progress(slot)) = OBSERVED.with_borrow(Clone::clone) {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        let bar = bar.with_message(what);
        if let Ok(mut slot) = slot.lock() {
            *slot = Some(bar.clone());
        }
        return bar;
    }
    // Hidden by itself where standard error is no terminal.
    let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr_with_hz(10));
    let template = match total {
        Some(_) => "{msg} {wide_bar:.dim} {percent:>3} %  {human_pos} of {human_len}  {eta} left",
        None => "{msg} {spinner} {human_pos}  {elapsed}",
    };
    bar.set_style(ProgressStyle::with_template(template).expect("a template that is fixed"));
    bar.with_message(what)
}
