//! Rows of summaries in daily Parquet files.
//!
//! ```text
//! DIR/prairie-2026-11-22.parquet        a day that is over
//! DIR/prairie-2026-11-23T13.parquet     an hour of today
//! DIR/prairie-2026-11-23T14.parquet     this hour, written again with each row
//! ```
//!
//! Every file is written beside its place and renamed, so that all can be read at any time, and a
//! crash loses at most the row that was being written. When a day is over, its hours become one
//! file. A crash between writing that and removing the hours leaves rows twice; readers drop one.
//! Times are UTC.

mod columns;
mod read;
mod span;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::NaiveDate;
use rustix::fs::{FlockOperation, flock};
use thiserror::Error;

pub use columns::{Origin, SCHEMA_VERSION};
pub use read::{ReadRows, days, origin, read_days, read_file, read_thinned};
pub use span::{day_of, parse_time, set_aside};

use read::ascending;
use span::{Span, spans};

/// The kind of document that a log is, and each of its rows.
pub const KIND: &str = "prairie-log";

use crate::summary::Summary;

/// Why a log could not be read or written.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The system refused a directory.
    #[error("{}: the log's directory cannot be created: {source}", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Another process appends to the log.
    #[error("{}: another `prairie log` appends to it, expected one", .0.display())]
    Locked(PathBuf),
    /// No directory, so no log.
    #[error("{}: {why}, expected the directory of a log of `prairie log run`", path.display())]
    Directory {
        /// The path.
        path: PathBuf,
        /// What it is instead.
        why: &'static str,
    },
    /// A file of a log of another version.
    #[error("{}: version {found} of the log's format, expected version {expected}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: String,
        /// The version that is read here.
        expected: &'static str,
    },
    /// A file that is no part of a log.
    #[error("{}: damaged or not a log: {why}, expected a file of `prairie log`", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

type Result<T> = std::result::Result<T, JournalError>;

fn at(path: &Path) -> impl Fn(io::Error) -> JournalError + '_ {
    move |source| JournalError::Io { path: path.to_owned(), source }
}

/// Appends rows to the log in a directory.
pub struct Journal {
    dir: PathBuf,
    origin: Origin,
    keep: Option<Duration>,
    /// The rows of the hour that is being written.
    hour: Option<(Span, Vec<Summary>)>,
    /// Held as long as the journal is open.
    _lock: File,
}

/// Removes files that were being written when their process was killed. The log has to be locked.
fn remove_unfinished(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).map_err(at(dir))? {
        let entry = entry.map_err(at(dir))?;
        if entry.file_name().to_str().is_some_and(columns::is_unfinished) {
            fs::remove_file(entry.path()).map_err(at(&entry.path()))?;
        }
    }
    Ok(())
}

/// Rows of a day's file that are written together, at least: what they take in memory.
const GROUP_ROWS: usize = 720;

impl Journal {
    /// Opens the log in `dir`, which is created if it is missing. Days older than `keep` are
    /// removed, as are files that a killed process left unfinished.
    ///
    /// # Errors
    /// [`JournalError::Directory`], [`JournalError::Create`], [`JournalError::Locked`],
    /// [`JournalError::Io`].
    pub fn open(dir: &Path, origin: Origin, keep: Option<Duration>) -> Result<Journal> {
        if dir.exists() && !dir.is_dir() {
            return Err(JournalError::Directory { path: dir.into(), why: "not a directory" });
        }
        fs::create_dir_all(dir)
            .map_err(|source| JournalError::Create { path: dir.into(), source })?;
        let path = dir.join(".prairie-log.lock");
        let lock = File::options().create(true).append(true).open(&path).map_err(at(&path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(JournalError::Locked(dir.into())),
            // A kernel built without file locks has nothing that keeps a second writer away.
            Err(rustix::io::Errno::NOSYS) => {}
            other => other.map_err(|errno| at(&path)(errno.into()))?,
        }
        remove_unfinished(dir)?;
        Ok(Journal { dir: dir.to_owned(), origin, keep, hour: None, _lock: lock })
    }

    /// Adds a row. The first row of a day makes one file of each day before, and removes those
    /// that are too old, damaged or not. A damaged file does not keep the log from growing: it is
    /// renamed to `NAME.damaged`, and `damaged` gets what is wrong with it, also where an error
    /// follows.
    ///
    /// # Errors
    /// [`JournalError::Io`]: the disk is full; the rows before are safe. [`JournalError::Version`]
    /// where another version writes this log.
    pub fn append(&mut self, row: Summary, damaged: &mut Vec<JournalError>) -> Result<()> {
        let span = Span::hour_of(row.at_unix_ns);
        if self.hour.as_ref().is_none_or(|(current, _)| *current != span) {
            self.tidy(span.day(), damaged)?;
            let path = span.path(&self.dir);
            let rows = if path.exists() { read_or_rename(&path, damaged)? } else { Vec::new() };
            self.hour = Some((span, rows));
        }
        let Some((span, rows)) = &mut self.hour else { return Ok(()) };
        rows.push(row);
        columns::write(&span.path(&self.dir), rows, &self.origin)
    }

    /// Makes one file of each day before `today`, and removes the days that are too old.
    fn tidy(&self, today: NaiveDate, damaged: &mut Vec<JournalError>) -> Result<()> {
        let spans = spans(&self.dir)?;
        let oldest = self
            .keep
            .and_then(|keep| today.checked_sub_signed(chrono::TimeDelta::from_std(keep).ok()?));
        for (day, path) in set_aside(&self.dir)? {
            if oldest.is_some_and(|oldest| day < oldest) {
                fs::remove_file(&path).map_err(at(&path))?;
            }
        }
        let days: BTreeSet<NaiveDate> = spans.iter().map(|span| span.day()).collect();
        for day in days.into_iter().filter(|day| *day < today) {
            let files: Vec<Span> = spans.iter().copied().filter(|span| span.day() == day).collect();
            if oldest.is_some_and(|oldest| day < oldest) {
                self.remove(&files)?;
            } else if files.iter().any(|span| matches!(span, Span::Hour(..))) {
                self.make_day(day, &files, damaged)?;
                // Without the damaged ones, which have other names now.
                let is_left =
                    |span: &&Span| matches!(span, Span::Hour(..)) && span.path(&self.dir).exists();
                self.remove(&files.iter().filter(is_left).copied().collect::<Vec<_>>())?;
            }
        }
        Ok(())
    }

    /// Makes one file of those of a day, of which memory holds [`GROUP_ROWS`] rows or so. A day that
    /// has its file already, but hours as well, is held whole: a crash came between, and rows may
    /// be there twice.
    fn make_day(
        &self,
        day: NaiveDate,
        files: &[Span],
        damaged: &mut Vec<JournalError>,
    ) -> Result<()> {
        let is_whole = |span: &Span| !matches!(span, Span::Hour(..));
        let most = if files.iter().any(is_whole) { usize::MAX } else { GROUP_ROWS };
        let path = Span::Day(day).path(&self.dir);
        let mut file = columns::Encoder::new(&path, &self.origin)?;
        let (mut rows, mut any) = (Vec::new(), false);
        for (nth, span) in files.iter().enumerate() {
            rows.extend(read_or_rename(&span.path(&self.dir), damaged)?);
            let is_last = nth + 1 == files.len();
            if !rows.is_empty() && (rows.len() >= most || is_last) {
                file.add(&ascending(std::mem::take(&mut rows)))?;
                any = true;
            }
        }
        if any { file.save() } else { Ok(()) }
    }

    fn remove(&self, files: &[Span]) -> Result<()> {
        files.iter().try_for_each(|span| {
            let path = span.path(&self.dir);
            fs::remove_file(&path).map_err(at(&path))
        })
    }
}

/// The rows of a file. A damaged file has none: it is renamed, and what is wrong is added to
/// `damaged`.
fn read_or_rename(path: &Path, damaged: &mut Vec<JournalError>) -> Result<Vec<Summary>> {
    match columns::read(path) {
        Err(error @ JournalError::Format { .. }) => {
            let names = (1..).map(|number| match number {
                1 => path.with_extension("parquet.damaged"),
                _ => path.with_extension(format!("parquet.{number}.damaged")),
            });
            let mut free = names.skip_while(|name| name.exists());
            if let Some(name) = free.next() {
                fs::rename(path, &name).map_err(at(path))?;
            }
            damaged.push(error);
            Ok(Vec::new())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::RegionsRow;

    const HOUR: i64 = 3_600_000_000_000;

    fn origin() -> Origin {
        Origin { host: "a".into(), kernel_release: "6.1".into(), prairie_version: "0.1.0".into() }
    }

    fn row(at: i64) -> Summary {
        let mut row = Summary::empty(at);
        row.put("free_bytes", at / 1000);
        row.put_share("unusable_free_space_order_9", 0.25);
        row.map = "ABC a".to_owned();
        let retired_bytes = Some(at.unsigned_abs());
        row.regions = vec![RegionsRow { node: 3, retired_bytes, ..RegionsRow::default() }];
        row
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries
            .map(|name| name.into_string().unwrap())
            .filter(|n| !n.starts_with('.'))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn hours_become_days_and_old_days_go() {
        let dir = tempfile::tempdir().unwrap();
        let keep = Some(Duration::from_secs(2 * 86_400));
        let mut journal = Journal::open(dir.path(), origin(), keep).unwrap();
        let start = parse_time("2026-11-21 22:30", 0, None).unwrap();
        for number in 0..4 {
            journal.append(row(start + number * HOUR), &mut Vec::new()).unwrap();
        }
        let expected = [
            "prairie-2026-11-21.parquet",
            "prairie-2026-11-22T00.parquet",
            "prairie-2026-11-22T01.parquet",
        ];
        assert_eq!(names(dir.path()), expected);
        assert!(matches!(Journal::open(dir.path(), origin(), None), Err(JournalError::Locked(_))));
        drop(journal);
        // A restart in the same hour keeps what is there.
        let mut journal = Journal::open(dir.path(), origin(), keep).unwrap();
        journal.append(row(start + 3 * HOUR + 1), &mut Vec::new()).unwrap();
        let rows = read_thinned(dir.path(), 1000).unwrap().rows;
        let times: Vec<i64> = rows.iter().map(|row| row.at_unix_ns).collect();
        assert_eq!(times, [0, HOUR, 2 * HOUR, 3 * HOUR, 3 * HOUR + 1].map(|at| start + at));
        assert_eq!(rows[2], row(start + 2 * HOUR));
        let file = dir.path().join("prairie-2026-11-22T00.parquet");
        assert_eq!(read_file(&file).unwrap(), Some(vec![row(start + 2 * HOUR)]));
        assert_eq!(read_thinned(dir.path(), 3).unwrap().rows.len(), 3);
        // Days later only the last two are left.
        journal.append(row(start + 72 * HOUR), &mut Vec::new()).unwrap();
        assert_eq!(
            names(dir.path()),
            ["prairie-2026-11-22.parquet", "prairie-2026-11-24T22.parquet"]
        );
        let all = days(dir.path()).unwrap().unwrap();
        assert_eq!(
            (all.0.to_string(), all.1.to_string()),
            ("2026-11-22".into(), "2026-11-24".into())
        );
        assert_eq!(super::origin(dir.path()).unwrap(), Some(origin()));
    }

    #[test]
    fn a_long_day_is_written_in_groups_and_loses_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(dir.path(), origin(), None).unwrap();
        let start = parse_time("2026-11-21 00:00", 0, None).unwrap();
        let minutes = 24 * 60;
        for hour in 0..24 {
            let rows: Vec<Summary> =
                (0..60).map(|m| row(start + hour * HOUR + m * HOUR / 60)).collect();
            let path = Span::hour_of(start + hour * HOUR).path(dir.path());
            columns::write(&path, &rows, &origin()).unwrap();
        }
        journal.append(row(start + 24 * HOUR), &mut Vec::new()).unwrap();
        let path = dir.path().join("prairie-2026-11-21.parquet");
        let rows = read_file(&path).unwrap().unwrap();
        let expected: Vec<Summary> = (0..minutes).map(|m| row(start + m * HOUR / 60)).collect();
        assert_eq!(rows, expected);
        assert_eq!(columns::groups(&path), minutes as usize / GROUP_ROWS);
        assert_eq!(names(dir.path()).len(), 2);
    }

    #[test]
    fn a_crash_between_writing_the_day_and_removing_its_hours_loses_and_doubles_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let start = parse_time("2026-11-21 22:30", 0, None).unwrap();
        let rows = [row(start), row(start + HOUR)];
        let day = day_of(start);
        columns::write(&Span::Day(day).path(dir.path()), &rows, &origin()).unwrap();
        columns::write(&Span::hour_of(start).path(dir.path()), &rows[..1], &origin()).unwrap();
        assert_eq!(read_days(dir.path(), day, day).unwrap().rows, rows);
        let mut journal = Journal::open(dir.path(), origin(), None).unwrap();
        journal.append(row(start + 24 * HOUR), &mut Vec::new()).unwrap();
        assert_eq!(read_days(dir.path(), day, day).unwrap().rows, rows);
        assert_eq!(names(dir.path()).len(), 2);
    }

    #[test]
    fn damaged_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("prairie-2026-11-21.parquet");
        fs::write(&path, "PAR1 and nonsense").unwrap();
        let error = read_thinned(dir.path(), 10).unwrap_err().to_string();
        assert!(
            error.contains("prairie-2026-11-21.parquet") && error.contains("expected"),
            "{error}"
        );
        // Half of a good file.
        columns::write(&path, &[row(1)], &origin()).unwrap();
        let whole = fs::read(&path).unwrap();
        for length in [0, 4, whole.len() / 2, whole.len() - 1] {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(columns::read(&path).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_damaged_file_loses_its_own_rows_only() {
        let dir = tempfile::tempdir().unwrap();
        let start = parse_time("2026-11-21 22:30", 0, None).unwrap();
        let times = [start, start + 24 * HOUR, start + 48 * HOUR];
        let path = |at| Span::Day(day_of(at)).path(dir.path());
        for at in times {
            columns::write(&path(at), &[row(at)], &origin()).unwrap();
        }
        // Half of the newest one and of the one in the middle.
        let damage = |at: i64| {
            let whole = fs::read(path(at)).unwrap();
            fs::write(path(at), &whole[..whole.len() / 2]).unwrap();
        };
        damage(times[2]);
        damage(times[1]);
        let left = |found: ReadRows| -> (Vec<i64>, usize) {
            (found.rows.iter().map(|row| row.at_unix_ns).collect(), found.damaged.len())
        };
        assert_eq!(left(read_thinned(dir.path(), 10).unwrap()), (vec![times[0]], 2));
        let (first, last) = days(dir.path()).unwrap().unwrap();
        let found = read_days(dir.path(), first, last).unwrap();
        assert!(found.damaged[0].to_string().contains("2026-11-22"), "{:?}", found.damaged);
        assert_eq!(left(found), (vec![times[0]], 2));
        assert_eq!(super::origin(dir.path()).unwrap(), Some(origin()));
        damage(times[0]);
        assert!(read_thinned(dir.path(), 10).is_err() && super::origin(dir.path()).is_err());
        assert!(read_days(dir.path(), first, last).unwrap().if_any().is_err());
    }

    #[test]
    fn a_damaged_file_does_not_stop_the_log() {
        let dir = tempfile::tempdir().unwrap();
        let start = parse_time("2026-11-21 22:30", 0, None).unwrap();
        let append = |at: i64| {
            let mut journal = Journal::open(dir.path(), origin(), None).unwrap();
            let mut damaged = Vec::new();
            journal.append(row(at), &mut damaged).unwrap();
            damaged.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let left = || -> Vec<i64> {
            let found = read_thinned(dir.path(), 10).unwrap();
            found.rows.iter().map(|row| row.at_unix_ns).collect()
        };
        let damage = |at: i64| {
            let path = Span::hour_of(at).path(dir.path());
            let whole = fs::read(&path).unwrap();
            fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        };
        // In the current hour.
        assert!(append(start).is_empty());
        damage(start);
        let said = append(start + 1);
        assert!(said.len() == 1 && said[0].contains("2026-11-21T22"), "{said:?}");
        assert!(append(start + 2).is_empty());
        assert_eq!(left(), [start + 1, start + 2]);
        damage(start);
        assert_eq!(append(start + 3).len(), 1);
        assert_eq!(left(), [start + 3]);
        // In an hour of a day that is over: its other hours are kept.
        assert!(append(start + HOUR).is_empty());
        damage(start + HOUR);
        assert_eq!(append(start + 24 * HOUR).len(), 1);
        assert_eq!(left(), [start + 3, start + 24 * HOUR]);
        assert_eq!(
            names(dir.path()),
            [
                "prairie-2026-11-21.parquet",
                "prairie-2026-11-21T22.parquet.2.damaged",
                "prairie-2026-11-21T22.parquet.damaged",
                "prairie-2026-11-21T23.parquet.damaged",
                "prairie-2026-11-22T22.parquet",
            ]
        );
        assert_eq!(set_aside(dir.path()).unwrap().len(), 3);
        // They are removed with their day.
        let keep = |days: u64| Some(Duration::from_secs(days * 86_400));
        for (days, left) in [(2, 3), (1, 0)] {
            let mut journal = Journal::open(dir.path(), origin(), keep(days)).unwrap();
            journal.append(row(start + 48 * HOUR + days as i64), &mut Vec::new()).unwrap();
            assert_eq!(set_aside(dir.path()).unwrap().len(), left, "{days} days kept");
        }
    }

    /// An older Prairie in the same directory, after a downgrade.
    #[test]
    fn files_of_another_version_are_not_renamed() {
        let dir = tempfile::tempdir().unwrap();
        let at = parse_time("2026-11-21 22:30", 0, None).unwrap();
        let path = Span::hour_of(at).path(dir.path());
        columns::write(&path, &[row(at)], &origin()).unwrap();
        // The version is the text of one byte behind its key.
        let mut bytes = fs::read(&path).unwrap();
        let key = b"prairie.log.schema_version";
        let at_key = bytes.windows(key.len()).position(|window| window == key).unwrap();
        let version = &mut bytes[at_key + key.len() + 2];
        assert_eq!(*version, b'1');
        *version = b'9';
        fs::write(&path, bytes).unwrap();
        let mut journal = Journal::open(dir.path(), origin(), None).unwrap();
        let error = journal.append(row(at + 1), &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains("version 9 of the log's format, expected version "), "{error}");
        assert_eq!(names(dir.path()), ["prairie-2026-11-21T22.parquet"]);
    }

    #[test]
    fn unfinished_files_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let names = [".prairie-log-x1y2z3.part", ".prairie-other.part", "mine.part"];
        names.iter().for_each(|name| fs::write(dir.path().join(name), "").unwrap());
        let is_there = || names.map(|name| dir.path().join(name).exists());
        let journal = Journal::open(dir.path(), origin(), None).unwrap();
        assert_eq!(is_there(), [false, true, true]);
        // They may be those of the process that has the log.
        fs::write(dir.path().join(names[0]), "").unwrap();
        assert!(Journal::open(dir.path(), origin(), None).is_err());
        assert_eq!(is_there(), [true; 3]);
        drop(journal);
    }

    #[test]
    fn a_log_is_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let why = |path: &Path| days(path).unwrap_err().to_string();
        assert!(why(&file).contains("not a directory, expected the directory of a log"));
        assert!(why(&dir.path().join("gone")).contains("no such directory, expected"));
    }

    #[test]
    fn times_as_people_write_them() {
        let now = parse_time("2026-11-23 02:00:00", 0, None).unwrap();
        assert_eq!(now, 1_795_399_200_000_000_000);
        let noon = now + 10 * HOUR;
        for text in ["2026-11-23 12:00", "2026-11-23T12:00:00Z", "12:00", " 12:00:00 "] {
            assert_eq!(parse_time(text, now, None), Some(noon), "{text}");
        }
        assert_eq!(parse_time("2026-11-23", now, None), Some(now - 2 * HOUR));
        assert_eq!(parse_time("", now, Some(Duration::from_secs(3600))), Some(now - HOUR));
        for text in ["", "soon", "2026-13-01", "25:00", "2026-11-23 12"] {
            assert_eq!(parse_time(text, now, None), None, "{text}");
        }
    }
}
