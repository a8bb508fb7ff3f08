//! The files of a log by the time that each covers, and times as users write them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveDateTime, Utc};

use super::{JournalError, Result, at};

/// The time that a file covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Span {
    Day(NaiveDate),
    Hour(NaiveDate, u8),
}

impl Span {
    pub fn day(self) -> NaiveDate {
        match self {
            Span::Day(day) | Span::Hour(day, _) => day,
        }
    }

    pub fn hour_of(at_unix_ns: i64) -> Span {
        let time = DateTime::from_timestamp_nanos(at_unix_ns);
        let hour = at_unix_ns.div_euclid(3_600_000_000_000).rem_euclid(24);
        Span::Hour(time.date_naive(), hour as u8)
    }

    pub fn path(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Span::Day(day) => format!("prairie-{day}.parquet"),
            Span::Hour(day, hour) => format!("prairie-{day}T{hour:02}.parquet"),
        })
    }

    /// The span of a file's name; `None` for other files.
    fn of(name: &str) -> Option<Span> {
        let span = name.strip_prefix("prairie-")?.strip_suffix(".parquet")?;
        let day = |text: &str| NaiveDate::parse_from_str(text, "%Y-%m-%d").ok();
        match span.split_once('T') {
            None => Some(Span::Day(day(span)?)),
            Some((date, hour)) => {
                let hour = hour.parse().ok().filter(|_| hour.len() == 2)?;
                (hour < 24).then_some(Span::Hour(day(date)?, hour))
            }
        }
    }
}

/// The spans of a directory's files, ascending by day.
pub fn spans(dir: &Path) -> Result<BTreeSet<Span>> {
    Ok(names(dir)?.iter().filter_map(|name| Span::of(name)).collect())
}

/// The damaged files that were renamed, with the day of each, ascending.
pub fn set_aside(dir: &Path) -> Result<BTreeSet<(NaiveDate, PathBuf)>> {
    let of = |name: String| {
        // `NAME.parquet.damaged`, or `NAME.parquet.2.damaged`.
        let end = name.strip_suffix(".damaged")?.rfind(".parquet")? + ".parquet".len();
        Some((Span::of(&name[..end])?.day(), dir.join(&name)))
    };
    Ok(names(dir)?.into_iter().filter_map(of).collect())
}

/// The names of a directory's files, in no order.
fn names(dir: &Path) -> Result<Vec<String>> {
    let entries = fs::read_dir(dir).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            JournalError::Directory { path: dir.to_owned(), why: "no such directory" }
        }
        io::ErrorKind::NotADirectory => {
            JournalError::Directory { path: dir.to_owned(), why: "not a directory" }
        }
        _ => at(dir)(error),
    })?;
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(at(dir))?.file_name().into_string().ok());
    }
    Ok(names)
}

/// The day of a time.
pub fn day_of(at_unix_ns: i64) -> NaiveDate {
    Span::hour_of(at_unix_ns).day()
}

/// A time as users write it, in nanoseconds since 1970: `2026-11-23 14:05`, with or without
/// seconds, `T` for the space, and `Z`; `14:05` on the day of `now`; or a time before `now`, such
/// as `90m` or `2h 30m`. UTC.
pub fn parse_time(text: &str, now_unix_ns: i64, ago: Option<Duration>) -> Option<i64> {
    if let Some(ago) = ago {
        return now_unix_ns.checked_sub(i64::try_from(ago.as_nanos()).ok()?);
    }
    let text = text.trim().trim_end_matches('Z').replace('T', " ");
    let today = DateTime::<Utc>::from_timestamp_nanos(now_unix_ns).date_naive();
    let full = match text.contains(' ') || text.len() == 10 {
        true => text.clone(),
        false => format!("{today} {text}"),
    };
    let full = if full.len() == 10 { format!("{full} 00:00") } else { full };
    let time = ["%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M"]
        .iter()
        .find_map(|form| NaiveDateTime::parse_from_str(&full, form).ok())?;
    time.and_utc().timestamp_nanos_opt()
}
