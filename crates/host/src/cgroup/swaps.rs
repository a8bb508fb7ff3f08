//! `/proc/swaps`: swap devices and files (`swap_show`, `mm/swapfile.c`).

use serde::Serialize;

use crate::error::ParseError;
use crate::texts::lines;

/// The file, as errors name it.
pub const FILE: &str = "proc/swaps";

/// One swap device or file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Swap {
    /// Where it is; the kernel writes white space as `\040` and the like.
    pub path: String,
    /// Whether it is a partition rather than a file.
    pub partition: bool,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// How much of it has been given out.
    pub used_bytes: u64,
    /// Higher ones are filled first.
    pub priority: i32,
}

impl Swap {
    /// Whether it is compressed memory of its own kind, not a device.
    pub fn is_zram(&self) -> bool {
        self.path.rsplit('/').next().is_some_and(|name| name.starts_with("zram"))
    }
}

/// Parses the whole file.
///
/// # Errors
/// [`ParseError`] where a line after the heading is not a path, a kind, two sizes in KiB and a
/// priority.
pub fn parse(text: &str) -> Result<Vec<Swap>, ParseError> {
    const FORM: &str = "a path, its kind, its size and use in KiB, and its priority";
    let swap = |line: crate::texts::Line<'_>| {
        let mut words = line.text.split_ascii_whitespace();
        let mut next = || words.next().ok_or_else(|| line.error(FORM));
        let (path, kind) = (next()?.to_owned(), next()?);
        let bytes = |word: &str| {
            let kib: u64 = line.number(word, FORM)?;
            kib.checked_mul(1024).ok_or_else(|| line.error(FORM))
        };
        let partition = kind == "partition";
        let (size_bytes, used_bytes) = (bytes(next()?)?, bytes(next()?)?);
        Ok(Swap { path, partition, size_bytes, used_bytes, priority: line.number(next()?, FORM)? })
    };
    let body = lines(FILE, text).filter(|line| !line.text.starts_with("Filename"));
    body.map(swap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_files() {
        let text = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                    /dev/vda                                partition\t1048572\t\t34816\t\t-2\n\
                    /swap\\040file                           file\t\t4\t\t0\t\t5\n\
                    /dev/zram0                              partition\t4\t\t0\t\t100\n";
        let swaps = parse(text).unwrap();
        assert_eq!(swaps[0].size_bytes, 1_048_572 * 1024);
        assert_eq!((swaps[0].used_bytes, swaps[0].priority), (34_816 * 1024, -2));
        assert!(swaps[0].partition && !swaps[1].partition);
        assert_eq!(swaps.iter().map(Swap::is_zram).collect::<Vec<_>>(), [false, false, true]);
        assert_eq!(parse("").unwrap(), []);
        for bad in ["/dev/vda", "/dev/vda partition 1 2", "/dev/vda partition x 2 3"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert!(parse("/dev/vda partition 18446744073709551615 2 3").is_err());
    }
}
