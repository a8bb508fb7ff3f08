//! Reads a host again and again: cheap figures when asked, page flags at their own interval.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use prairie_daemon::metrics::{Family, encode};
use prairie_host::{Error, LeftOut, Roots, remedy};
use rustix::time::{ClockId, clock_gettime};

use crate::budget::Budget;
use crate::figures::Figures;
use crate::metrics::{Own, families};
use crate::moment::Moment;
use crate::reading;
use crate::walk::{missing, walk};

/// A host, and what the last walk over its page flags found.
pub struct Collector {
    roots: Roots,
    budget: Budget,
    latest: Mutex<Latest>,
}

#[derive(Clone, Default)]
struct Latest {
    figures: Option<Arc<Figures>>,
    /// Why there are none, or not all.
    left_out: Vec<LeftOut>,
    walks: u64,
}

/// How often a waiting thread looks whether it should stop.
const PATIENCE: Duration = Duration::from_secs(1);

impl Collector {
    /// A collector that has read nothing.
    pub fn new(roots: Roots, budget: Budget) -> Collector {
        Collector { roots, budget, latest: Mutex::default() }
    }

    /// Reads page flags, within the budget, and keeps the figures. A file that cannot be read is
    /// left out of the figures, which is no error. The seed determines which pageblocks are read.
    ///
    /// # Errors
    /// [`Error::Parse`], [`Error::FrameLimit`] where a text is malformed; [`Error::Interrupted`].
    pub fn walk(&self, seed: u64, interrupted: &AtomicBool) -> Result<(), Error> {
        if self.budget.share <= 0.0 {
            return Ok(());
        }
        let capture = reading::extents(&self.roots);
        let mut left_out = capture.left_out.clone();
        let figures = match walk(&self.roots, &capture, self.budget, seed, interrupted) {
            Err(Error::Io { path, source }) => {
                left_out.push(LeftOut {
                    what: "what fills each frame: contiguity, unmovable memory, the map".to_owned(),
                    why: format!("{}: {source}", path.display()),
                    remedy: remedy::for_refused().to_owned(),
                });
                None
            }
            found => {
                left_out.extend(missing(&self.roots, &capture));
                found?.map(Arc::new)
            }
        };
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = Latest { figures, left_out, walks: latest.walks + 1 };
        Ok(())
    }

    /// Walks at every interval of the budget, until `interrupted` is set; `failed` gets what went
    /// wrong. Each walk has a seed of its own. Where there was a walk before, the first one waits.
    pub fn keep_walking(
        &self,
        seed: u64,
        interrupted: &AtomicBool,
        mut failed: impl FnMut(&Error),
    ) {
        let mut due = Instant::now();
        if self.walks() > 0 {
            due += self.budget.interval;
        }
        for number in 1u64.. {
            if !wait_until(due, interrupted) {
                return;
            }
            due = Instant::now() + self.budget.interval;
            match self.walk(seed.wrapping_add(number), interrupted) {
                Err(Error::Interrupted) => return,
                Err(error) => failed(&error),
                Ok(()) => {}
            }
        }
    }

    /// The cheap figures now, what is missing from page flags included.
    ///
    /// # Errors
    /// [`Error::Io`] where there is no `/proc`; [`Error::Parse`], [`Error::PageSize`].
    pub fn moment(&self) -> Result<Moment, Error> {
        let mut moment = Moment::of(&reading::texts(&self.roots)?)?;
        moment.left_out.extend(self.latest().left_out);
        Ok(moment)
    }

    /// The figures of the last walk.
    pub fn figures(&self) -> Option<Arc<Figures>> {
        self.latest().figures
    }

    /// Walks so far, those that found nothing included.
    pub fn walks(&self) -> u64 {
        self.latest().walks
    }

    /// The host's files.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// All metrics as OpenMetrics text, with `more` of them.
    ///
    /// # Errors
    /// As [`Collector::moment`].
    pub fn openmetrics(&self, more: Vec<Family>) -> Result<String, Error> {
        let figures = self.figures();
        let mut families = families(&self.moment()?, figures.as_deref(), own());
        families.extend(more);
        Ok(encode(families))
    }

    fn latest(&self) -> Latest {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Sleeps until then; whether the time came before the interruption.
pub fn wait_until(due: Instant, interrupted: &AtomicBool) -> bool {
    while let Some(rest) = due.checked_duration_since(Instant::now()) {
        if interrupted.load(Ordering::Relaxed) {
            return false;
        }
        sleep(rest.min(PATIENCE));
    }
    !interrupted.load(Ordering::Relaxed)
}

/// What this process has taken.
fn own() -> Own {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    let resident = || {
        let text = fs::read_to_string("/proc/self/statm").ok()?;
        let pages: u64 = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(pages * rustix::param::page_size() as u64)
    };
    Own {
        cpu_seconds: now.tv_sec as f64 + now.tv_nsec as f64 / 1e9,
        resident_bytes: resident().unwrap_or(0),
    }
}
