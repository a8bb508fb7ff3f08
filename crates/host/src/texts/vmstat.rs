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
    parse_only(text, |_| true)
}

/// Parses the counters whose names are `wanted`. Lines of others are passed over unread: a daemon
/// needs five of two hundred, once a second.
///
/// # Errors
/// [`ParseError`] where a line is not a name and a number.
pub fn parse_only(
    text: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, u64>, ParseError> {
    let expected = "a counter's name and a number";
    let mut counters = BTreeMap::new();
    for line in lines(FILE, text) {
        let words = line.text.trim().split_once(' ').ok_or_else(|| line.error(expected))?;
        if wanted(words.0) {
            let value = line.number(words.1.trim(), expected)?;
            counters.insert(words.0.to_owned(), value);
        }
    }
    Ok(counters)
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

    #[test]
    fn counters_that_nobody_wants_are_passed_over() {
        let only = |text| parse_only(text, |name| name == "oom_kill");
        let counters = only("oom_kill_disable 4\nnr_free_pages x\noom_kill 3\n").unwrap();
        assert_eq!(counters, [("oom_kill".to_owned(), 3)].into());
        assert!(only("oom_kill x\n").is_err() && only("oom_kill\n").is_err());
    }
}
