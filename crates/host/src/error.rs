//! Errors of reading a host or parsing a capture.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A text that the kernel does not write: file, line, expectation.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}, line {line}: expected {expected}, found {found:?}")]
pub struct ParseError {
    /// The file, as a capture names it: `proc/buddyinfo`.
    pub file: String,
    /// The line, from 1; one past the last where the text ends too early.
    pub line: usize,
    /// The expected form.
    pub expected: String,
    /// The text found, cut to a readable length.
    pub found: String,
}

/// Why a host could not be read or a capture not be understood.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A text of `/proc` or `/sys` is malformed.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A page-flags file whose length is not a whole number of words.
    #[error(
        "{}: ends at byte {bytes}, inside a frame's word; a page-flags file has 8 bytes a frame",
        path.display()
    )]
    PartialWord {
        /// The file.
        path: PathBuf,
        /// Where it ends.
        bytes: u64,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A capture of a machine with other base pages.
    #[error("the capture has pages of {0} bytes; expected base pages of 4096 bytes")]
    PageSize(u64),
    /// Frame runs that overlap or go backwards.
    #[error("frame runs are out of order: {start:#x} follows a run that ends at {end:#x}")]
    RunOrder {
        /// First frame of the offending run.
        start: u64,
        /// End of the run before it.
        end: u64,
    },
    /// A frame number or a span that no machine has.
    #[error("{what} reaches frame {frame:#x}; the limit is {limit:#x}")]
    FrameLimit {
        /// The zone or run.
        what: String,
        /// The frame.
        frame: u64,
        /// The first frame number that is refused.
        limit: u64,
    },
    /// `/proc/kallsyms` shows zeros for addresses.
    #[error(
        "proc/kallsyms: every address is zero; run as root, or lower kernel.kptr_restrict to 0 or 1"
    )]
    HiddenAddresses,
}
