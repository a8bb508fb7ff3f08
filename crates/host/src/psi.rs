//! Pressure stall information: `/proc/pressure/*` and a cgroup's `*.pressure`
//! (`psi_show`, `kernel/sched/psi.c`).

use serde::Serialize;

use crate::error::ParseError;
use crate::texts::{Line, ends_early, lines};

/// The contents of one pressure file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pressure {
    /// At least one task was delayed.
    pub some: Stall,
    /// Every task that was not idle was delayed. Kernels before 5.13 have no such line for the
    /// CPU, and `irq.pressure` has no other.
    pub full: Option<Stall>,
}

/// One line of a pressure file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stall {
    /// The running average over 10 s, in hundredths of a percent. The kernel cuts the share of
    /// each 2 s sample to a whole percent before it averages, so that less than 1 % reads 0.
    pub avg10: u32,
    /// The same over 60 s.
    pub avg60: u32,
    /// The same over 300 s.
    pub avg300: u32,
    /// Microseconds of stall since the group or the system came to be.
    pub total_us: u64,
}

/// Parses the text of a pressure `file` without allocating, unless it is malformed.
///
/// # Errors
/// [`ParseError`] where a line is not `some` or `full` with three averages and a total, comes
/// twice, or is missing (one of the two suffices).
pub fn parse(file: &str, text: &str) -> Result<Pressure, ParseError> {
    let (mut some, mut full) = (None, None);
    for line in lines(file, text) {
        let (kind, rest) = line.text.trim().split_once(' ').ok_or_else(|| line.error(FORM))?;
        let slot = match kind {
            "some" => &mut some,
            "full" => &mut full,
            _ => return Err(line.error(FORM)),
        };
        if slot.replace(stall(line, rest)?).is_some() {
            return Err(line.error(format!("one line {kind:?}")));
        }
    }
    if some.is_none() && full.is_none() {
        return Err(ends_early(file, text, FORM));
    }
    Ok(Pressure { some: some.unwrap_or_default(), full })
}

const FORM: &str = "\"some\" or \"full\", then avg10=, avg60=, avg300= in percent and total= in µs";

fn stall(line: Line<'_>, rest: &str) -> Result<Stall, ParseError> {
    let mut words = rest.split_ascii_whitespace();
    let mut value = |name: &str| {
        let word = words.next().and_then(|word| word.strip_prefix(name)?.strip_prefix('='));
        word.ok_or_else(|| line.error(FORM))
    };
    let average = |word: &str| hundredths(word).ok_or_else(|| line.error(FORM));
    let stall = Stall {
        avg10: average(value("avg10")?)?,
        avg60: average(value("avg60")?)?,
        avg300: average(value("avg300")?)?,
        total_us: line.number(value("total")?, FORM)?,
    };
    if words.next().is_some() { Err(line.error(FORM)) } else { Ok(stall) }
}

/// `12.34` as 1234; a share of time, so at most 100.
fn hundredths(word: &str) -> Option<u32> {
    let (whole, part) = word.split_once('.')?;
    let digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    if part.len() != 2 || !digits(whole) || !digits(part) {
        return None;
    }
    let value = whole.parse::<u32>().ok()?.checked_mul(100)? + part.parse::<u32>().ok()?;
    (value <= 100 * 100).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_memory_file() {
        let text = "some avg10=0.53 avg60=10.85 avg300=0.64 total=108560907\n\
                    full avg10=0.00 avg60=100.00 avg300=0.54 total=42423311\n";
        let pressure = parse("memory.pressure", text).unwrap();
        let some = Stall { avg10: 53, avg60: 1085, avg300: 64, total_us: 108_560_907 };
        assert_eq!(pressure.some, some);
        let full = Stall { avg10: 0, avg60: 10_000, avg300: 54, total_us: 42_423_311 };
        assert_eq!(pressure.full, Some(full));
    }

    #[test]
    fn old_cpu_files_lack_full_and_irq_lacks_some() {
        let line = "avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(parse("cpu", &format!("some {line}")).unwrap().full, None);
        let irq = parse("irq.pressure", &format!("full {line}")).unwrap();
        assert_eq!((irq.some, irq.full.unwrap().total_us), (Stall::default(), 7));
    }

    #[test]
    fn errors_say_where_and_what() {
        let good = "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        let error = parse("io.pressure", &format!("{good}{good}")).unwrap_err();
        assert_eq!((error.line, error.expected.as_str()), (2, "one line \"some\""));
        for bad in [
            "",
            "\n",
            "some",
            "some avg10=0.00 avg60=0.00 avg300=0.00",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=-1",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=7 x=1",
            "some avg10=0.0 avg60=0.00 avg300=0.00 total=7",
            "some avg10=101.00 avg60=0.00 avg300=0.00 total=7",
            "some avg10=42949673.00 avg60=0.00 avg300=0.00 total=7",
            "most avg10=0.00 avg60=0.00 avg300=0.00 total=7",
        ] {
            assert!(parse("io.pressure", bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(a in 0u32..=10_000, b in 0u32..=10_000, c in 0u32..=10_000, total_us: u64) {
            let show = |v: u32| format!("{}.{:02}", v / 100, v % 100);
            let text = format!("some avg10={} avg60={} avg300={} total={total_us}\n", show(a), show(b), show(c));
            let stall = Stall { avg10: a, avg60: b, avg300: c, total_us };
            prop_assert_eq!(parse("x", &text).unwrap(), Pressure { some: stall, full: None });
        }
    }
}
