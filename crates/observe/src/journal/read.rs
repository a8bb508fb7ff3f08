//! Reading a log: by days, thinned, or one file.

use std::path::Path;

use chrono::NaiveDate;

use super::columns::{self, Origin};
use super::span::{Span, spans};
use super::{JournalError, Result};
use crate::summary::Summary;

/// Rows by time, each time once.
pub(super) fn ascending(mut rows: Vec<Summary>) -> Vec<Summary> {
    rows.sort_by_key(|row| row.at_unix_ns);
    rows.dedup_by_key(|row| row.at_unix_ns);
    rows
}

/// What could be read of a log.
#[derive(Debug, Default)]
pub struct ReadRows {
    /// Rows, ascending by time.
    pub rows: Vec<Summary>,
    /// Why files of the log could not be read, one error a file.
    pub damaged: Vec<JournalError>,
}

impl ReadRows {
    /// Adds the rows of some files.
    fn read(&mut self, dir: &Path, files: impl IntoIterator<Item = Span>) -> Vec<Summary> {
        let mut rows = Vec::new();
        for span in files {
            match columns::read(&span.path(dir)) {
                Ok(found) => rows.extend(found),
                Err(error) => self.damaged.push(error),
            }
        }
        ascending(rows)
    }

    /// Itself, if a row could be read, or there was none.
    ///
    /// # Errors
    /// What is wrong with the first file, if no file could be read.
    pub fn if_any(mut self) -> Result<ReadRows> {
        match self.rows.is_empty() && !self.damaged.is_empty() {
            true => Err(self.damaged.swap_remove(0)),
            false => Ok(self),
        }
    }
}

/// The rows of the days from `first` to `last`, ascending by time. Damaged files are left out.
///
/// # Errors
/// [`JournalError::Directory`], [`JournalError::Io`].
pub fn read_days(dir: &Path, first: NaiveDate, last: NaiveDate) -> Result<ReadRows> {
    let spans = spans(dir)?;
    let mut found = ReadRows::default();
    let within = spans.into_iter().filter(|span| (first..=last).contains(&span.day()));
    found.rows = found.read(dir, within);
    Ok(found)
}

/// The rows of all days, ascending by time: every `n`th, so that there are at most `limit` or so.
/// Memory holds one day and the rows that are kept. Damaged files are left out.
///
/// # Errors
/// As [`read_days`], and what is wrong with the first file if none can be read.
pub fn read_thinned(dir: &Path, limit: u64) -> Result<ReadRows> {
    let mut found = ReadRows::default();
    let (mut readable, mut all) = (Vec::new(), 0);
    for span in spans(dir)? {
        match columns::count(&span.path(dir)) {
            Ok(count) => {
                all += count;
                readable.push(span);
            }
            Err(error) => found.damaged.push(error),
        }
    }
    let every = all.div_ceil(limit.max(1)).max(1);
    let mut number = 0u64;
    readable.sort_by_key(|span| span.day());
    for files in readable.chunk_by(|one, next| one.day() == next.day()) {
        for row in found.read(dir, files.iter().copied()) {
            if number.is_multiple_of(every) {
                found.rows.push(row);
            }
            number += 1;
        }
    }
    found.if_any()
}

/// The rows of one file; `None` if it is a Parquet file of another kind.
///
/// # Errors
/// [`JournalError::Io`], [`JournalError::Format`].
pub fn read_file(path: &Path) -> Result<Option<Vec<Summary>>> {
    columns::is_log(path)?.then(|| columns::read(path)).transpose()
}

/// The first and the last day of a log; `None` if it is empty.
///
/// # Errors
/// [`JournalError::Io`].
pub fn days(dir: &Path) -> Result<Option<(NaiveDate, NaiveDate)>> {
    let spans = spans(dir)?;
    Ok(spans.iter().map(|span| span.day()).min().zip(spans.iter().map(|span| span.day()).max()))
}

/// Who wrote a log, by its newest file that can be read; `None` if it is empty.
///
/// # Errors
/// [`JournalError::Io`], [`JournalError::Format`] where no file can be read.
pub fn origin(dir: &Path) -> Result<Option<Origin>> {
    let mut newest_first: Vec<Span> = spans(dir)?.into_iter().collect();
    newest_first.sort_by_key(|span| std::cmp::Reverse((span.day(), *span)));
    let mut first_error = None;
    for span in newest_first {
        match columns::origin(&span.path(dir)) {
            Ok(origin) => return Ok(Some(origin)),
            Err(error) => drop(first_error.get_or_insert(error)),
        }
    }
    first_error.map_or(Ok(None), Err)
}
