//! Numbers as people read them.
//!
//! Units are set off, and thousands parted, by a narrow no-break space (U+202F), so that a number
//! never breaks across lines. NaN is an en dash.

/// The space between a number and its unit, and between groups of three digits.
pub const THIN: char = '\u{202f}';

/// The placeholder of a missing number.
pub const NONE: &str = "–";

/// Bytes in binary units with three significant digits: `512 B`, `2 MiB`, `23.4 GiB`.
///
/// ```
/// assert_eq!(prairie_report::number::bytes(25_125_558_681), "23.4\u{202f}GiB");
/// ```
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    // 1023.5 would be written "1024", so the next unit begins there.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{}{THIN}{}", significant(value), UNITS[unit])
}

/// A whole number with its thousands parted: `524 288`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() * 2);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(THIN);
        }
        out.push(digit);
    }
    out
}

/// A count and what is counted, whose plural takes an `s`: `1 frame`, `2 frames`.
pub fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", count(number), if number == 1 { "" } else { "s" })
}

/// A change in percent, with its sign and `decimals` decimals: `+12.0 %`, `−3.1 %`. What rounds to
/// nothing has no sign.
pub fn change(share: f64, decimals: usize) -> String {
    if !share.is_finite() {
        return NONE.to_owned();
    }
    let text = format!("{:.decimals$}", (share * 100.0).abs());
    let is_nothing = text.bytes().all(|digit| matches!(digit, b'0' | b'.'));
    let sign = match (is_nothing, share < 0.0) {
        (true, _) => "",
        (_, true) => "−",
        (_, false) => "+",
    };
    format!("{sign}{text}{THIN}%")
}

/// A share between 0 and 1 as percent, with as many digits as say something.
///
/// Only 0 is written `0 %` and only 1 is written `100 %`: a share that is nearly all keeps enough
/// nines (`99.996 %`), down to `< 0.001 %` and `> 99.999 %`.
pub fn percent(share: f64) -> String {
    if !share.is_finite() {
        return NONE.to_owned();
    }
    let value = share * 100.0;
    let magnitude = value.abs();
    let to_hundred = (100.0 - magnitude).abs();
    let text = if magnitude == 0.0 || to_hundred == 0.0 {
        format!("{magnitude:.0}")
    } else if magnitude < 0.001 {
        "<\u{202f}0.001".to_owned()
    } else if magnitude < 100.0 && to_hundred < 0.001 {
        ">\u{202f}99.999".to_owned()
    } else if magnitude < 0.1 || (magnitude < 100.0 && to_hundred < 0.1) {
        format!("{magnitude:.3}")
    } else if magnitude < 1.0 || (magnitude < 100.0 && to_hundred < 1.0) {
        format!("{magnitude:.2}")
    } else {
        format!("{magnitude:.1}")
    };
    let sign = if value < 0.0 { "−" } else { "" };
    format!("{sign}{text}{THIN}%")
}

/// A length of time, given in nanoseconds: `850 ns`, `1.25 ms`, `42.1 s`, `2 min 5 s`, `3 h 20 min`.
pub fn duration(nanoseconds: u64) -> String {
    let seconds = nanoseconds as f64 / 1e9;
    match nanoseconds {
        0 => format!("0{THIN}s"),
        1..1_000 => format!("{nanoseconds}{THIN}ns"),
        1_000..999_500 => format!("{}{THIN}µs", significant(nanoseconds as f64 / 1e3)),
        999_500..999_500_000 => format!("{}{THIN}ms", significant(nanoseconds as f64 / 1e6)),
        999_500_000..59_950_000_000 => format!("{}{THIN}s", significant(seconds)),
        _ => {
            let whole = seconds.round() as u64;
            let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
            match (hours, minutes, seconds) {
                (0, minutes, 0) => format!("{minutes}{THIN}min"),
                (0, minutes, seconds) => format!("{minutes}{THIN}min {seconds}{THIN}s"),
                (hours, 0, _) => format!("{}{THIN}h", count(hours)),
                (hours, minutes, _) => format!("{}{THIN}h {minutes}{THIN}min", count(hours)),
            }
        }
    }
}

/// An index or ratio with three decimals: `0.873`, `−1.000`.
pub fn index(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let text = format!("{:.3}", value.abs());
    let sign = if value < 0.0 && text != "0.000" { "−" } else { "" };
    format!("{sign}{text}")
}

/// A large number in short: `950`, `12.3 k`, `6.02 M`, `1.5 G`.
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    let sign = if value < 0.0 { "−" } else { "" };
    let mut rest = value.abs();
    let mut unit = 0;
    const UNITS: [&str; 5] = ["", "k", "M", "G", "T"];
    while rest >= 999.5 && unit + 1 < UNITS.len() {
        rest /= 1000.0;
        unit += 1;
    }
    let number = significant(rest);
    if unit == 0 {
        format!("{sign}{number}")
    } else {
        format!("{sign}{number}{THIN}{}", UNITS[unit])
    }
}

/// A frame number as the kernel prints it: `0x100000`.
pub fn pfn(pfn: u64) -> String {
    format!("{pfn:#x}")
}

/// Three significant digits, without decimals that say nothing.
fn significant(value: f64) -> String {
    let decimals = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    let text = format!("{value:.decimals$}");
    match text.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|b| b == b'0') => whole.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same with plain spaces, so that the tables below can be read.
    fn plain(text: String) -> String {
        text.replace(THIN, " ")
    }

    #[test]
    fn bytes_have_three_digits_and_binary_units() {
        for (value, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.50 KiB"),
            (2 << 20, "2 MiB"),
            (1_048_063, "1023 KiB"),
            (1_048_575, "1 MiB"),
            (25_125_558_681, "23.4 GiB"),
            (1 << 40, "1 TiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(plain(bytes(value)), text, "{value}");
        }
    }

    #[test]
    fn counts_are_parted_by_thousands() {
        for (value, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1 000"),
            (524_288, "524 288"),
            (268_435_456, "268 435 456"),
        ] {
            assert_eq!(plain(count(value)), text);
        }
    }

    #[test]
    fn only_none_and_all_are_written_so() {
        for (value, text) in [
            (0.0, "0 %"),
            (0.000_001, "< 0.001 %"),
            (0.000_2, "0.020 %"),
            (0.004_56, "0.46 %"),
            (0.123_4, "12.3 %"),
            (0.5, "50.0 %"),
            (0.995, "99.50 %"),
            (0.999_96, "99.996 %"),
            (0.999_999_9, "> 99.999 %"),
            (1.0, "100 %"),
            (1.5, "150.0 %"),
            (-0.05, "−5.0 %"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(plain(percent(value)), text, "{value}");
        }
    }

    #[test]
    fn durations_change_unit_before_they_round_up_to_it() {
        for (value, text) in [
            (0, "0 s"),
            (850, "850 ns"),
            (1_250, "1.25 µs"),
            (999_600, "1 ms"),
            (1_250_000, "1.25 ms"),
            (999_999_999, "1 s"),
            (42_100_000_000, "42.1 s"),
            (59_990_000_000, "1 min"),
            (125_000_000_000, "2 min 5 s"),
            (12_000_000_000_000, "3 h 20 min"),
            (7_200_000_000_000, "2 h"),
        ] {
            assert_eq!(plain(duration(value)), text, "{value}");
        }
    }

    #[test]
    fn one_is_no_plural_and_nothing_has_no_sign() {
        assert_eq!(plain(counted(0, "frame")), "0 frames");
        assert_eq!(plain(counted(1, "frame")), "1 frame");
        assert_eq!(plain(counted(1000, "frame")), "1 000 frames");
        assert_eq!(plain(change(-0.004, 0)), "0 %");
        assert_eq!(plain(change(-0.0004, 1)), "0.0 %");
        assert_eq!(plain(change(0.123, 1)), "+12.3 %");
        assert_eq!(plain(change(-0.05, 0)), "−5 %");
        assert_eq!(change(f64::NAN, 0), "–");
    }

    #[test]
    fn indices_and_short_numbers() {
        assert_eq!(index(0.8734), "0.873");
        assert_eq!(index(-1.0), "−1.000");
        assert_eq!(index(-0.000_01), "0.000");
        assert_eq!(index(f64::NAN), "–");
        assert_eq!(plain(short(6_023_456.0)), "6.02 M");
        assert_eq!(plain(short(999_600.0)), "1 M");
        assert_eq!(plain(short(-12_345.0)), "−12.3 k");
        assert_eq!(short(0.0), "0");
    }
}
