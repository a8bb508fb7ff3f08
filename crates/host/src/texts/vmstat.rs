//! `/proc/vmstat`: the kernel's counters of memory events (`vmstat_show`, `mm/vmstat.c`).

use std::collections::BTreeMap;

use super::lines;
use crate::error::ParseError;

/// The file, as a capture names it.
pub const FILE: &str = "proc/vmstat";

/// Parses the whole file: counters by the kernel's names.
///
/// # Errors
/// [`ParseError`] where a line is not a name and a number.
pub fn parse(text: &str) -> Result<BTreeMap<String, u64>, ParseError> {
    let expected = "a counter's name and a number";
    lines(FILE, text)
        .map(|line| {
            let words = line.text.trim().split_once(' ').ok_or_else(|| line.error(expected))?;
            let value = line.number(words.1.trim(), expected)?;
            Ok((words.0.to_owned(), value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        let counters = parse("nr_free_pages 971409\nthp_fault_fallback 3\n").unwrap();
        assert_eq!(counters["thp_fault_fallback"], 3);
        let error = parse("nr_free_pages 971409\nthp_fault_fallback\n").unwrap_err();
        assert_eq!(error.line, 2);
        assert!(parse("nr_free_pages -1\n").is_err());
    }
}
