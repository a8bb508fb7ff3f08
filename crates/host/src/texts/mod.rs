//! The texts of `/proc` and `/sys`, parsed: one file each, pure functions from `&str`.
//!
//! Every parser takes what any kernel since 4.6 writes, keeps what it does not know where the
//! form allows it, and otherwise gives one [`ParseError`] that names the file, the line and what
//! would be right. None panics, whatever the input.

pub mod buddyinfo;
pub mod fields;
pub mod iomem;
pub mod pagetypeinfo;
pub mod setting;
pub mod slabinfo;
pub mod vmstat;
pub mod zoneinfo;

use std::fmt;
use std::iter;
use std::str::FromStr;

use memchr::memchr_iter;
use prairie_frames::ZoneKind;
use serde::{Serialize, Serializer};

use crate::error::ParseError;

/// One zone of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ZoneId {
    /// The NUMA node.
    pub node: u32,
    /// The kind of zone.
    #[serde(rename = "zone", serialize_with = "as_name")]
    pub kind: ZoneKind,
}

fn as_name<S: Serializer>(kind: &ZoneKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

impl fmt::Display for ZoneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} {}", self.node, self.kind)
    }
}

/// A line of a text and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    file: &'a str,
    number: usize,
    pub(crate) text: &'a str,
}

/// The lines of `text`, which was read from `file`, without empty ones.
pub(crate) fn lines<'a>(file: &'a str, text: &'a str) -> impl Iterator<Item = Line<'a>> {
    // The daemon reads dozens of such texts a second: line ends are searched for in the whole text.
    let ends = memchr_iter(b'\n', text.as_bytes()).chain(iter::once(text.len()));
    let mut start = 0;
    ends.map(move |end| &text[std::mem::replace(&mut start, end + 1)..end])
        .enumerate()
        .map(move |(i, text)| Line { file, number: i + 1, text })
        .filter(|line| !line.text.bytes().all(|byte| byte.is_ascii_whitespace()))
}

/// The error of a text that ends too early.
pub(crate) fn ends_early(file: &str, text: &str, expected: &str) -> ParseError {
    ParseError {
        file: file.to_owned(),
        line: text.lines().count() + 1,
        expected: expected.to_owned(),
        found: "the end".to_owned(),
    }
}

impl<'a> Line<'a> {
    /// This line is not what was `expected`.
    pub(crate) fn error(&self, expected: impl Into<String>) -> ParseError {
        const READABLE: usize = 60;
        let mut found: String = self.text.trim().chars().take(READABLE).collect();
        if self.text.trim().chars().nth(READABLE).is_some() {
            found.push('…');
        }
        let (file, line) = (self.file.to_owned(), self.number);
        ParseError { file, line, expected: expected.into(), found }
    }

    /// `word` as a number.
    pub(crate) fn number<T: FromStr>(&self, word: &str, what: &str) -> Result<T, ParseError> {
        word.parse().map_err(|_| self.error(what))
    }

    /// The numbers that stand in `words`, white space between them.
    pub(crate) fn numbers(&self, words: &str, what: &str) -> Result<Vec<u64>, ParseError> {
        words.split_ascii_whitespace().map(|word| self.number(word, what)).collect()
    }

    /// The zone of a line that begins with `Node 0, zone Normal`, and what follows the name.
    pub(crate) fn zone(&self) -> Result<(ZoneId, &'a str), ParseError> {
        self.try_zone().ok_or_else(|| {
            self.error("a line that begins with \"Node N, zone NAME\", NAME one of the kernel's")
        })
    }

    fn try_zone(&self) -> Option<(ZoneId, &'a str)> {
        let (node, rest) = self.text.trim().strip_prefix("Node")?.split_once(',')?;
        let rest = rest.trim_start().strip_prefix("zone")?.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let id = ZoneId { node: node.trim().parse().ok()?, kind: ZoneKind::from_name(name)? };
        Some((id, rest))
    }
}
