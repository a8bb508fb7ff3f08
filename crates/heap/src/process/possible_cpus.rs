//! Number of CPUs that the kernel may number.

use crate::front::file::File;

/// One more than the largest number of a possible CPU, from `/sys/devices/system/cpu/possible`;
/// `None` in a sandbox without it. Affinity and hot-plug do not change it.
pub fn read() -> Option<usize> {
    let file = File::open(c"/sys/devices/system/cpu/possible").ok()?;
    let mut text = [0; 256];
    let len = file.read(&mut text);
    // A text that fills the buffer may be cut within a number.
    if len == text.len() { None } else { parse(&text[..len]) }
}

/// One more than the largest number of a list such as `0-3,8-11`. By its bytes: the standard
/// library's parsers would be the only part of its text that the start of a process touches.
fn parse(list: &[u8]) -> Option<usize> {
    let numbers = list.trim_ascii().split(|byte| b",-".contains(byte)).map(number);
    let largest = numbers.reduce(|a, b| Some(a?.max(b?)))??;
    largest.checked_add(1)
}

fn number(text: &[u8]) -> Option<usize> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| usize::from(byte - b'0'));
    let add = |sum: usize, &byte: &u8| sum.checked_mul(10)?.checked_add(digit(byte)?);
    if text.is_empty() { None } else { text.iter().try_fold(0, add) }
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
