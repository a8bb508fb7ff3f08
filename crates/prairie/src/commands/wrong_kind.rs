//! Errors for Parquet files of a kind that a command does not read.

use anyhow::anyhow;
use prairie_trace::{Error, kind_of};

/// The error of a file that is no trace, with what it holds and what was expected instead.
pub fn named(error: Error, expected: &str) -> anyhow::Error {
    let Error::Foreign { path, .. } = &error else { return error.into() };
    match kind_of(path) {
        Some(kind) => anyhow!("{}: {kind}, expected {expected}", path.display()),
        None => error.into(),
    }
}
