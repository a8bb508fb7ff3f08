//! The stalls of this host, watched in the background by commands that run for long.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use prairie_host::Roots;
use prairie_trace::stalls::{Stalls, Watch, WatchOptions};

use crate::output;

/// Interval between looks at the rings.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The ring of each CPU: 600 stalls between two looks, 2,400 a second. A host that stalls more often
/// loses events, which are counted.
const RING_BYTES: usize = 128 << 10;

/// Stalls since the command began, as its threads see them.
#[derive(Clone)]
pub struct Watched(Arc<Mutex<Option<Watch>>>);

impl Watched {
    /// Watches until `interrupted` is set, in a thread of its own. With `processes`, stalls are
    /// attributed to processes and cgroups.
    ///
    /// # Errors
    /// Where the machine does not let itself be watched: not root, no tracefs, a container.
    pub fn start(
        roots: Roots,
        processes: bool,
        interrupted: &'static AtomicBool,
    ) -> anyhow::Result<Watched> {
        let options = WatchOptions { stacks: false, processes, ring_bytes: RING_BYTES, roots };
        let watched = Watched(Arc::new(Mutex::new(Some(Watch::open(options)?))));
        let own = watched.clone();
        let poll = move || {
            while !interrupted.load(Ordering::Relaxed) && own.poll() {
                thread::sleep(POLL_INTERVAL);
            }
        };
        thread::Builder::new().name("stalls".into()).spawn(poll).context("a thread for stalls")?;
        Ok(watched)
    }

    /// The stalls up to now; `None` after a failure, which was reported.
    pub fn stalls(&self) -> Option<Stalls> {
        self.poll();
        self.lock().as_ref().map(|watch| watch.stalls().clone())
    }

    /// Takes what has happened; whether the watch goes on.
    fn poll(&self) -> bool {
        let mut watch = self.lock();
        let Some(open) = watch.as_mut() else { return false };
        if let Err(error) = open.poll() {
            output::say(format_args!("stalls are no longer watched: {error}"));
            *watch = None;
        }
        watch.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Watch>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
