//! Texts of `Name: value` lines: `/proc/meminfo`, `/proc/PID/status`, `/proc/PID/smaps_rollup`.

use std::collections::BTreeMap;

use super::lines;
use crate::error::ParseError;

/// Parses the sizes in a text of `Name:   17 kB` lines that was read from `file`, as bytes by
/// name. Lines with values of another form (`Name: systemd`, `HugePages_Total: 0`) and lines
/// without a colon before their first space (the address range that heads `smaps_rollup`) are
/// passed over.
///
/// # Errors
/// [`ParseError`] where a value ends in `kB` and is not a number of 64 bits.
pub fn sizes(file: &str, text: &str) -> Result<BTreeMap<String, u64>, ParseError> {
    sizes_only(file, text, |_| true)
}

/// The same of those lines whose names are `wanted`.
///
/// # Errors
/// As [`sizes`], for those lines.
pub fn sizes_only(
    file: &str,
    text: &str,
    wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, u64>, ParseError> {
    let mut sizes = BTreeMap::new();
    for line in lines(file, text) {
        let Some((name, value)) = line.text.split_once(':') else { continue };
        if !wanted(name.trim()) {
            continue;
        }
        let Some(kib) = value.trim().strip_suffix(" kB") else { continue };
        let expected = "a number of kB that fits 64 bits as bytes";
        let kib: u64 = line.number(kib.trim(), expected)?;
        let bytes = kib.checked_mul(1024).ok_or_else(|| line.error(expected))?;
        sizes.insert(name.trim().to_owned(), bytes);
    }
    Ok(sizes)
}

/// Parses the plain numbers in such a text (`HugePages_Total:       0`); everything else is
/// passed over.
pub fn numbers(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .filter_map(|(name, value)| Some((name.trim().to_owned(), value.trim().parse().ok()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bytes() {
        let text = "MemTotal:       24684092 kB\nHugePages_Total:       7\n";
        assert_eq!(sizes("proc/meminfo", text).unwrap()["MemTotal"], 24_684_092 * 1024);
        assert_eq!(sizes("proc/meminfo", text).unwrap().len(), 1);
        let none = sizes_only("proc/meminfo", "MemTotal: x kB\n", |name| name == "SwapFree");
        assert!(none.unwrap().is_empty(), "lines that nobody wants are passed over");
        assert_eq!(numbers(text)["HugePages_Total"], 7);
        let rollup = "5581d4f6c000-7ffe5d1e4000 ---p 00000000 00:00 0     [rollup]\nRss: 4 kB\n";
        assert_eq!(sizes("proc/1/smaps_rollup", rollup).unwrap()["Rss"], 4096);
    }

    #[test]
    fn errors_say_where() {
        let error = sizes("proc/7/status", "Name:\tsh\nRssAnon:\t x kB\n").unwrap_err();
        assert_eq!((error.file.as_str(), error.line), ("proc/7/status", 2));
        assert!(sizes("proc/meminfo", "MemFree: 18446744073709551615 kB\n").is_err());
    }
}
