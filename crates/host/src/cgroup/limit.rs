//! One-number files: `memory.current`, and limits, which may say `max` (`memory.high`, …).

use std::fmt;

use serde::Serialize;

use crate::error::ParseError;
use crate::texts::{ends_early, lines};

/// A limit of a cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Limit {
    /// A number of bytes.
    Bytes(u64),
    /// No limit: the file says `max`.
    Max,
}

impl Limit {
    /// The limit, or `u64::MAX` where there is none.
    pub fn bytes(self) -> u64 {
        match self {
            Limit::Bytes(bytes) => bytes,
            Limit::Max => u64::MAX,
        }
    }
}

/// As the kernel takes it.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Bytes(bytes) => bytes.fmt(f),
            Limit::Max => "max".fmt(f),
        }
    }
}

/// Parses a `file` that holds a number or `max`.
///
/// # Errors
/// [`ParseError`] where it holds anything else.
pub fn parse(file: &str, text: &str) -> Result<Limit, ParseError> {
    const FORM: &str = "one number of bytes, or \"max\"";
    let mut found = lines(file, text);
    let line = found.next().ok_or_else(|| ends_early(file, text, FORM))?;
    if let Some(second) = found.next() {
        return Err(second.error("the end"));
    }
    match line.text.trim() {
        "max" => Ok(Limit::Max),
        word => line.number(word, FORM).map(Limit::Bytes),
    }
}

/// Parses a `file` that holds a number alone.
///
/// # Errors
/// [`ParseError`] where it holds anything else.
pub fn number(file: &str, text: &str) -> Result<u64, ParseError> {
    match parse(file, text)? {
        Limit::Bytes(bytes) => Ok(bytes),
        Limit::Max => Err(ends_early(file, "", "one number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_max() {
        assert_eq!(parse("memory.high", "max\n").unwrap(), Limit::Max);
        assert_eq!(parse("memory.high", "4096\n").unwrap(), Limit::Bytes(4096));
        assert_eq!(number("memory.current", "18446744073709551615\n").unwrap(), u64::MAX);
        assert!(Limit::Bytes(u64::MAX - 1) < Limit::Max);
        assert_eq!([Limit::Max, Limit::Bytes(7)].map(|l| l.to_string()), ["max", "7"]);
        for bad in ["", "\n", "-1", "max max", "1\n2", "18446744073709551616", "0x10", "é"] {
            assert!(parse("memory.high", bad).is_err(), "{bad:?}");
        }
        assert!(number("memory.current", "max\n").is_err());
    }
}
