//! The windows of a recording that is a sample, and which memory huge pages back in them, as the
//! plugin in `plugin/accesses.c` writes both beside the accesses:
//!
//! ```text
//! window 0
//! 7f0000000000-7f0000200000
//! end 1048576
//! 7f0000000000-7f0000400000
//! ```

use std::ops::Range;

use thiserror::Error;

/// Consecutive records, and the memory that huge pages back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Its first record.
    pub first: u64,
    /// The record after its last one; `None` if the recording ended before.
    pub end: Option<u64>,
    /// Addresses that huge pages back when it begins or when it ends, in no order.
    pub huge: Vec<Range<u64>>,
}

/// Why a text is refused. The caller names it.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line}: {text:?}: expected {expected}")]
pub struct Error {
    /// From 1.
    pub line: usize,
    /// Its text.
    pub text: String,
    /// What would be right.
    pub expected: &'static str,
}

/// The windows of a text, rising and without overlap.
///
/// # Errors
/// A line that is none of the three kinds, or at a wrong place.
pub fn parse(text: &str) -> Result<Vec<Window>, Error> {
    let mut windows: Vec<Window> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let wrong = |expected| Error { line: number + 1, text: line.to_owned(), expected };
        let last = windows.last_mut();
        if let Some(record) = line.strip_prefix("window ") {
            let first = record.parse().map_err(|_| wrong("a number of a record"))?;
            let least = last.map_or(Some(0), |window| window.end);
            if least.is_none_or(|least| first < least) {
                return Err(wrong("a window after the end of the one before"));
            }
            windows.push(Window { first, ..Window::default() });
        } else if let Some(record) = line.strip_prefix("end ") {
            let end = record.parse().map_err(|_| wrong("a number of a record"))?;
            match last {
                Some(window) if window.end.is_none() && end > window.first => {
                    window.end = Some(end);
                }
                _ => return Err(wrong("one end after the beginning of a window")),
            }
        } else {
            let range = range(line).ok_or_else(|| wrong("window N, end N, or START-END"))?;
            last.ok_or_else(|| wrong("the beginning of a window first"))?.huge.push(range);
        }
    }
    Ok(windows)
}

fn range(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split_once('-')?;
    let [start, end] = [start, end].map(|bound| u64::from_str_radix(bound, 16).ok());
    (start? < end?).then_some(start?..end?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn windows_have_what_is_huge_at_either_end() {
        let text =
            "window 0\n200000-400000\nend 100\n200000-600000\nwindow 100\nend 200\nwindow 200\n";
        let window = |first, end, huge| Window { first, end, huge };
        let both = vec![0x20_0000..0x40_0000, 0x20_0000..0x60_0000];
        let wanted =
            [window(0, Some(100), both), window(100, Some(200), vec![]), window(200, None, vec![])];
        assert_eq!(parse(text).unwrap(), wanted);
        assert_eq!(parse(""), Ok(vec![]));
    }

    #[test]
    fn nonsense_is_refused_with_its_line() {
        for (text, line, expected) in [
            ("200000-400000\n", 1, "the beginning of a window first"),
            ("window 0\nend 0\n", 2, "one end after"),
            ("window 0\nend 5\nend 6\n", 3, "one end after"),
            ("end 5\n", 1, "one end after"),
            ("window 0\nwindow 9\n", 2, "after the end"),
            ("window 0\nend 9\nwindow 8\n", 3, "after the end"),
            ("window x\n", 1, "number of a record"),
            ("window 0\n400000-200000\n", 2, "START-END"),
            ("window 0\n\n", 2, "START-END"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.line, line, "{text}");
            assert!(error.to_string().contains(expected), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(
            lines in prop::collection::vec("(window |end |[0-9a-f]{1,9}-|x)?[0-9a-f]{0,20}", 0..20),
        ) {
            if let Ok(windows) = parse(&lines.join("\n")) {
                for pair in windows.windows(2) {
                    prop_assert!(pair[0].end.unwrap() <= pair[1].first);
                }
            }
        }
    }
}
