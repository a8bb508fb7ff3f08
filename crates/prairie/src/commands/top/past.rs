//! The past, from a log.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use prairie_observe::Summary;
use prairie_observe::journal::{self, JournalError, ReadRows};

use super::{Args, next_key, on_terminal, print};
use crate::commands::log::say_damaged;
use crate::usage_error::refuse;
use crate::view::top::{self as view, Action, Past, State};

/// Where the unit keeps its log.
const LOG: &str = "/var/log/prairie";

const SECOND: i64 = 1_000_000_000;

/// The rows around a time.
struct Rows {
    rows: Vec<Summary>,
    at: usize,
}

/// Shows the log from the last row at or before the time on.
pub fn show(args: &Args, at: &str, interrupted: &AtomicBool) -> anyhow::Result<ExitCode> {
    let dir = args.log.as_deref().unwrap_or(Path::new(LOG));
    let wanted = time(at)?;
    let Some(origin) = journal::origin(dir)? else {
        bail!("{}: no log in it, expected files of `prairie log run`", dir.display());
    };
    let (found, damaged) = Rows::around(dir, wanted)?;
    say_damaged(&damaged);
    let mut rows =
        found.with_context(|| format!("--at {at}: before the first row of {}", dir.display()))?;
    let mut state = State::new(origin.host, origin.kernel_release, args.interval);
    rows.show(&mut state);
    if args.once {
        return print(&state, args.json);
    }
    on_terminal(|terminal| {
        while !interrupted.load(Ordering::Relaxed) {
            terminal.draw(|frame| view::draw(frame, &mut state))?;
            let target = match next_key(Instant::now() + Duration::from_secs(1), &mut state)? {
                Action::Quit => return Ok(()),
                Action::Step(by) => rows.step(by),
                Action::Jump(seconds) => Some(rows.now().at_unix_ns + seconds * SECOND),
                Action::Draw | Action::Refresh => continue,
            };
            let found = target.map(|time| Rows::around(dir, time)).transpose()?;
            let (found, damaged) = found.unwrap_or_default();
            state.message = damaged.first().map(|error| format!("skipped {error}"));
            match found {
                Some(found) if found.now().at_unix_ns != rows.now().at_unix_ns => rows = found,
                _ => state.message = Some("the log ends here".to_owned()),
            }
            rows.show(&mut state);
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A time as users write it.
fn time(text: &str) -> anyhow::Result<i64> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let ago = humantime::parse_duration(text.trim()).ok();
    match journal::parse_time(text, now.as_nanos() as i64, ago) {
        Some(time) => Ok(time),
        None => {
            refuse!("--at {text}: not a time, expected one such as 2026-11-23 14:05, 14:05, or 2h")
        }
    }
}

impl Rows {
    /// The rows of the day of a time and of those beside it, at the last row at or before it;
    /// `None` if the log begins later. In a gap of days the row before it counts. Also why files
    /// could not be read.
    fn around(dir: &Path, time: i64) -> anyhow::Result<(Option<Rows>, Vec<JournalError>)> {
        let Some((first, last)) = journal::days(dir)? else { return Ok((None, Vec::new())) };
        let day = journal::day_of(time).clamp(first, last);
        let beside = |by: i64| day + chrono::TimeDelta::days(by);
        let mut found = journal::read_days(dir, beside(-1), beside(1))?;
        if found.rows.first().is_none_or(|row| row.at_unix_ns > time) {
            found = journal::read_days(dir, first, beside(1))?;
        }
        let ReadRows { rows, damaged } = found.if_any()?;
        let after = rows.partition_point(|row| row.at_unix_ns <= time);
        Ok((after.checked_sub(1).map(|at| Rows { rows, at }), damaged))
    }

    fn now(&self) -> &Summary {
        &self.rows[self.at]
    }

    /// The time of the row `by` rows on, within what is loaded.
    fn step(&self, by: i64) -> Option<i64> {
        let at = self.at.checked_add_signed(by as isize)?;
        Some(self.rows.get(at)?.at_unix_ns)
    }

    fn show(&self, state: &mut State) {
        state.now = self.now().clone();
        state.before = self.at.checked_sub(1).map(|before| self.rows[before].clone());
        state.past = Some(Past { at: self.at, count: self.rows.len() });
    }
}
