//! Errors of traces, each one line: what failed, where, and what was expected.

use std::io;
use std::path::{Path, PathBuf};

/// An error of reading, writing or recording a trace.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason that the system gives.
        source: io::Error,
    },
    /// The file could not be created, written or moved into place. Nothing of it remains.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The reason that the system gives.
        source: io::Error,
    },
    /// The file has no byte.
    #[error("{}: empty file, expected a trace or a saved survey", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file is no Parquet file, or not a whole one.
    #[error(
        "{}: not a complete Parquet file ({reason}); a trace is written by `prairie record`, \
         `prairie survey --save`, `prairie heap driver` or an import",
        path.display()
    )]
    NotParquet {
        /// The file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// A Parquet file that Prairie has not written.
    #[error("{}: a Parquet file, but not a Prairie trace ({reason})", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The missing part.
        reason: String,
    },
    /// Written by a newer Prairie.
    #[error(
        "{}: its format is version {version} and this Prairie reads up to version {supported}; \
         read it with a newer Prairie",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
        /// The newest version that is understood.
        supported: u32,
    },
    /// Recorded on a machine with other base pages.
    #[error(
        "{}: its machine has base pages of {page_bytes} bytes; Prairie handles 4096",
        path.display()
    )]
    PageSize {
        /// The file.
        path: PathBuf,
        /// Its page size.
        page_bytes: u64,
    },
    /// Bytes or values that no writer has written.
    #[error("{}: damaged: {what}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What, and where.
        what: String,
    },
    /// A line or record of an imported trace that makes no sense.
    #[error("{}, {place}: {what}", path.display())]
    Import {
        /// The file.
        path: PathBuf,
        /// The line or byte.
        place: String,
        /// The error, and what was expected.
        what: String,
    },
    /// The machine does not let itself be recorded.
    #[error("{what}: {why}; {remedy}")]
    Record {
        /// The attempted action.
        what: String,
        /// The reason that the system gives.
        why: String,
        /// What would help.
        remedy: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::Read { path: path.into(), source }
    }

    pub(crate) fn write(path: &Path) -> impl Fn(io::Error) -> Error {
        move |source| Error::Write { path: path.into(), source }
    }

    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Error {
        Error::Damaged { path: path.into(), what: what.into() }
    }
}
