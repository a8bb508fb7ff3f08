//! A line of a kernel log without what the log's keeper put in front of it.

use std::borrow::Cow;

/// A line in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogLine<'a> {
    /// When, as the log has it: `1234.567890`, `Nov 23 02:10:20`, `2026-11-23T02:10:20+00:00`.
    pub time: Option<&'a str>,
    /// Which task or CPU wrote it (`T123`, `C0`), on kernels with `CONFIG_PRINTK_CALLER`.
    pub caller: Option<&'a str>,
    /// What the kernel wrote.
    pub message: &'a str,
}

/// The text without terminal colors, which `dmesg --color=always` adds.
pub(crate) fn without_colors(line: &str) -> Cow<'_, str> {
    if !line.contains('\x1b') {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once('\x1b') {
        out.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic()).map_or(after.len(), |at| at + 1);
        rest = &after[end..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Takes the prefixes off a line: those of syslog and journald, of `/dev/kmsg`, of `dmesg` with any
/// of its options, the kernel's time and its caller, in whatever combination.
pub(crate) fn strip(line: &str) -> LogLine<'_> {
    let mut found = LogLine { time: None, caller: None, message: line };
    // Each prefix occurs at most once; there are six kinds.
    for _ in 0..6 {
        let rest = found.message;
        let next = level(rest)
            .or_else(|| facility(rest))
            .or_else(|| kmsg(rest, &mut found.time))
            .or_else(|| bracket(rest, &mut found))
            .or_else(|| syslog(rest, &mut found.time));
        match next {
            Some(next) => found.message = next,
            None => break,
        }
    }
    found.message = found.message.trim_end();
    found
}

/// `<4>`
fn level(line: &str) -> Option<&str> {
    let (level, rest) = line.strip_prefix('<')?.split_once('>')?;
    (!level.is_empty() && level.bytes().all(|b| b.is_ascii_digit())).then_some(rest)
}

/// `kern  :warn  : `, of `dmesg -x`.
fn facility(line: &str) -> Option<&str> {
    let (facility, rest) = line.split_once(':')?;
    let (level, rest) = rest.split_once(':')?;
    let is_known = matches!(facility.trim_end(), "kern" | "user" | "daemon" | "syslog");
    let is_level = matches!(
        level.trim_end(),
        "emerg" | "alert" | "crit" | "err" | "warn" | "notice" | "info" | "debug"
    );
    (is_known && is_level).then(|| rest.trim_start())
}

/// `4,1234,567890123,-;`, of `/dev/kmsg`.
fn kmsg<'a>(line: &'a str, time: &mut Option<&'a str>) -> Option<&'a str> {
    let (head, rest) = line.split_once(';')?;
    let mut fields = head.split(',');
    let is_number = |field: &str| !field.is_empty() && field.bytes().all(|b| b.is_ascii_digit());
    let (level, number, micros) = (fields.next()?, fields.next()?, fields.next()?);
    if ![level, number, micros].into_iter().all(is_number) {
        return None;
    }
    time.get_or_insert(micros);
    Some(rest)
}

/// `[ 1234.567890] `, `[Mon Nov 23 02:10:20 2026] `, `[ 5.1 <  0.2>] `, then perhaps `[  T12] `.
fn bracket<'a>(line: &'a str, found: &mut LogLine<'a>) -> Option<&'a str> {
    let (inside, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let inside = inside.trim();
    if is_caller(inside) {
        found.caller = Some(inside);
    } else if is_time(inside) {
        found.time.get_or_insert(inside);
    } else {
        return None;
    }
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

fn is_caller(text: &str) -> bool {
    let number = text.strip_prefix(['T', 'C']).unwrap_or_default();
    !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
}

/// Seconds with a fraction, or a date. The numbers of processes in an OOM report are neither.
fn is_time(text: &str) -> bool {
    let seconds = text.split([' ', '<']).next().unwrap_or_default();
    let is_seconds = seconds.split_once('.').is_some_and(|(whole, fraction)| {
        [whole, fraction]
            .iter()
            .all(|part| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()))
    });
    let is_date = text.matches(':').count() == 2 && text.len() >= 8 && text.contains(' ');
    is_seconds || is_date || is_iso(text)
}

/// `2026-11-23T02:10:20`, in any precision.
fn is_iso(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() >= 19
        && bytes[4] == b'-'
        && bytes[10] == b'T'
        && bytes[..4].iter().all(u8::is_ascii_digit)
}

/// `Nov 23 02:10:20 host kernel: `, `2026-11-23T02:10:20+00:00 host kernel[12]: `.
fn syslog<'a>(line: &'a str, time: &mut Option<&'a str>) -> Option<&'a str> {
    // Farther in, the word belongs to a message.
    const LONGEST: usize = 160;
    let at = line.find(" kernel").filter(|&at| at < LONGEST)?;
    let (before, after) = (&line[..at], &line[at + " kernel".len()..]);
    let rest = match after.strip_prefix('[') {
        Some(process) => process.split_once(']')?.1,
        None => after,
    };
    let rest = rest.strip_prefix(':')?;
    // A host's name without a date follows the kernel's time (`journalctl -o short-monotonic`).
    match before.rsplit_once(' ') {
        Some((date, _host)) => drop(time.get_or_insert(date.trim())),
        None if time.is_some() => {}
        None => return None,
    }
    Some(rest.strip_prefix(' ').unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_keeper_of_logs() {
        let message = "Node 0 DMA free:15908kB min:32kB";
        let time = |line: &str| {
            let line = format!("{line}{message}");
            let found = strip(&line);
            assert_eq!(found.message, message, "{line}");
            (found.time.unwrap_or("-").to_owned(), found.caller.unwrap_or("-").to_owned())
        };
        let pair = |time: &str, caller: &str| (time.to_owned(), caller.to_owned());
        assert_eq!(time(""), pair("-", "-"));
        assert_eq!(time("[    1.234567] "), pair("1.234567", "-"));
        assert_eq!(time("<4>[12345.678901] "), pair("12345.678901", "-"));
        assert_eq!(time("[  999.000001][  T412] "), pair("999.000001", "T412"));
        assert_eq!(time("[Mon Nov 23 02:10:20 2026] "), pair("Mon Nov 23 02:10:20 2026", "-"));
        assert_eq!(time("[    5.123456 <    0.000012>] "), pair("5.123456 <    0.000012>", "-"));
        assert_eq!(time("kern  :warn  : [    7.000000] "), pair("7.000000", "-"));
        assert_eq!(time("Nov 23 02:10:20 db7 kernel: "), pair("Nov 23 02:10:20", "-"));
        assert_eq!(
            time("Nov  3 02:10:20 db7 kernel: [   88.100000] "),
            pair("Nov  3 02:10:20", "-")
        );
        let iso = "2026-11-23T02:10:20.123456+00:00";
        assert_eq!(time(&format!("{iso} db7 kernel[1]: ")), pair(iso, "-"));
        assert_eq!(time("[   88.100000] db7 kernel: "), pair("88.100000", "-"));
        assert_eq!(time("4,1234,567890123,-;"), pair("567890123", "-"));
        assert_eq!(strip(&without_colors("\x1b[32m[    1.000000] \x1b[0mfree")).message, "free");
    }

    #[test]
    fn rows_of_processes_keep_their_numbers() {
        for row in [
            "[  412]     0   412     3344      189   69632        0         -1000 sshd",
            "[ pid ]   uid",
        ] {
            assert_eq!(strip(row).message, row);
            assert_eq!(strip(&format!("[   12.500000] {row}")).message, row);
        }
        let frame = "[<ffffffff8118a4d4>] warn_alloc_failed+0x114/0x180";
        assert_eq!(strip(frame).message, frame);
    }
}
