//! How many numbers the kernel may give to CPUs.

use rustix::fs::{CWD, Mode, OFlags, openat};

/// One more than the largest number of a possible CPU, from `/sys/devices/system/cpu/possible`;
/// `None` in a sandbox without it. Affinity and hot-plug do not change it.
pub fn read() -> Option<usize> {
    let path = c"/sys/devices/system/cpu/possible";
    let file = openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut text = [0; 256];
    let len = rustix::io::read(&file, &mut text).ok()?;
    // A text that fills the buffer may be cut within a number.
    if len == text.len() { None } else { parse(&text[..len]) }
}

/// One more than the largest number of a list such as `0-3,8-11`.
fn parse(list: &[u8]) -> Option<usize> {
    let list = core::str::from_utf8(list).ok()?.trim();
    let numbers = list.split([',', '-']).map(|number| number.parse::<usize>().ok());
    let largest = numbers.reduce(|a, b| Some(a?.max(b?)))??;
    largest.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_count_as_cpus() {
        assert_eq!(parse(b"0-3\n"), Some(4));
        assert_eq!(parse(b"0\n"), Some(1));
        assert_eq!(parse(b"0-3,8-11,40\n"), Some(41));
        for nonsense in [&b""[..], b"\n", b"x", b"0-", b"\xff", b"18446744073709551615"] {
            assert_eq!(parse(nonsense), None, "{nonsense:?}");
        }
    }
}
