//! Parsers of command-line values: times, sizes, names of allocators.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt::Display;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};
use prairie_frames::Order;
use prairie_frames::placement::zones::Kernelcore;
use prairie_host::BlockMap;

use crate::usage_error::refuse;

/// A duration above 0.
pub fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "a time above 0, such as 500ms, 30s, 2m or 1h 30m".to_owned();
    let time = humantime::parse_duration(text.trim()).map_err(|_| wrong())?;
    if time.is_zero() { Err(wrong()) } else { Ok(time) }
}

/// A duration of at least `least`.
pub fn time_from(least: Duration) -> impl Fn(&str) -> Result<Duration, String> + Clone {
    move |text| {
        let time = time(text)?;
        let wrong = || format!("at least {}", humantime::format_duration(least));
        if time < least { Err(wrong()) } else { Ok(time) }
    }
}

/// A number of threads that any machine can start.
pub fn threads(text: &str) -> Result<NonZeroUsize, String> {
    let threads = text.parse().ok().filter(|threads: &NonZeroUsize| threads.get() <= 1024);
    threads.ok_or_else(|| "a number from 1 to 1024".to_owned())
}

/// The size of a ring.
pub fn ring(text: &str) -> Result<usize, String> {
    let sizes = 64 << 10..=1 << 30;
    let bytes = bytes(text).filter(|bytes| sizes.contains(bytes));
    let bytes = bytes.ok_or("a size from 64K to 1G, such as 16M")?;
    usize::try_from(bytes).map_err(|error| error.to_string())
}

/// A size of memory in binary units: `64G` is 64 GiB.
pub fn size(text: &str) -> Result<u64, String> {
    let bytes = bytes(text).ok_or_else(|| "a size such as 512M or 64G".to_owned())?;
    if bytes < 2 << 20 { Err("at least 2M".to_owned()) } else { Ok(bytes) }
}

/// A value of the kernel's `kernelcore=`: a size or a share of memory.
pub fn kernelcore(text: &str) -> Result<Kernelcore, String> {
    let Some(percent) = text.strip_suffix('%') else {
        return size(text).map(|bytes| Kernelcore::Frames(bytes / 4096));
    };
    match percent.parse() {
        Ok(percent @ 1..=100) => Ok(Kernelcore::Percent(percent)),
        _ => Err("a size such as 2G, or a share from 1% to 100%".to_owned()),
    }
}

/// The memory of one cell of a map.
pub fn cell(text: &str) -> Result<Order, String> {
    let wrong = || "a power of two from 4K to 1T, such as 128K, 2M or 1G".to_owned();
    let bytes = bytes(text).filter(|bytes| bytes.is_power_of_two()).ok_or_else(wrong)?;
    let order = bytes.ilog2().checked_sub(Order::BASE.bytes().ilog2());
    let order = order.and_then(|order| Order::new(order as u8)).ok_or_else(wrong)?;
    if order > BlockMap::LARGEST_CELL { Err(wrong()) } else { Ok(order) }
}

/// A number of bytes in binary units.
pub fn bytes(text: &str) -> Option<u64> {
    parse_size::Config::new().with_binary().parse_size(text.trim()).ok()
}

/// Text; a name in another encoding is refused by the argument that has it.
pub fn utf8() -> impl TypedValueParser<Value = String> {
    let in_utf8 = |text: OsString| text.into_string().map_err(|_| "a name in UTF-8");
    OsStringValueParser::new().try_map(in_utf8)
}

/// The name of a picture, whose ending is its format.
pub fn picture(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("png" | "svg") => Ok(path),
        _ => Err("a name that ends in .png or .svg".to_owned()),
    }
}

/// The name of a file of metrics: node_exporter reads no other.
pub fn textfile(name: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(name);
    match path.extension().is_some_and(|ending| ending == "prom") {
        true => Ok(path),
        false => Err("a name that ends in .prom".to_owned()),
    }
}

/// One name of a list that commas separate, as `linux+no-pcp`: in any case, with spaces around it.
/// The values of options keep their case: `kernelcore=2G`.
pub fn name(text: &str) -> Result<String, String> {
    let lower = |part: &str| match part.split_once('=') {
        Some((option, value)) => format!("{}={}", option.trim().to_lowercase(), value.trim()),
        None => part.trim().to_lowercase(),
    };
    match text.trim() {
        "" => Err("an empty name".to_owned()),
        text => Ok(text.split('+').map(lower).collect::<Vec<_>>().join("+")),
    }
}

/// The values of a list of names; `all` adds those of `all` that are not in the list.
pub fn named<T: FromStr<Err: Display>>(
    option: &str,
    names: &[String],
    all: &[&str],
) -> anyhow::Result<Vec<T>> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.as_str()) {
            refuse!("{option} {name}: named twice");
        }
    }
    let expanded = names.iter().flat_map(|name| match name.as_str() {
        "all" => all.iter().copied().filter(|name| !seen.contains(name)).collect(),
        name => vec![name],
    });
    let parsed = |name: &str| match name.parse() {
        Ok(value) => Ok(value),
        Err(error) => refuse!("{option}: {error}"),
    };
    expanded.map(parsed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        for (text, ms) in [("30s", 30_000), ("2m", 120_000), ("500ms", 500), ("1m 30s", 90_000)] {
            assert_eq!(time(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "30", "s", "-3s", "0s", "0ms", "1e9s", "99999999999999999999s", "soon"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn rings() {
        for (text, bytes) in
            [("64K", 64 << 10), ("16M", 16 << 20), ("1MiB", 1 << 20), ("1g", 1 << 30)]
        {
            assert_eq!(ring(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "63K", "2G", "-1M", "16X", "99999999999999999999G"] {
            assert!(ring(text).is_err(), "{text}");
        }
    }

    #[test]
    fn cells() {
        for (text, order) in [
            ("4096", 0),
            ("4K", 0),
            ("128k", 5),
            ("2M", 9),
            ("2MiB", 9),
            ("2 MB", 9),
            ("32M", 13),
            ("1G", 18),
            ("1024M", 18),
            ("1T", 28),
        ] {
            assert_eq!(cell(text).map(Order::get), Ok(order), "{text}");
        }
        for text in
            ["", "K", "2", "3M", "2T", "1X", "-2M", "2M2", "99999999999999999999", "16777216T"]
        {
            assert!(cell(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_a_list() {
        let parsed = |names: &[&str]| -> anyhow::Result<Vec<String>> {
            let names: Result<Vec<String>, String> = names.iter().copied().map(name).collect();
            named("--systems", &names.map_err(anyhow::Error::msg)?, &["buddy", "linux", "lists"])
        };
        let ok = |names: &[&str]| parsed(names).unwrap().join(" ");
        assert_eq!(ok(&["Linux", " BUDDY "]), "linux buddy");
        assert_eq!(
            ok(&["zones + KernelCore=2G", "linux+No-Boost"]),
            "zones+kernelcore=2G linux+no-boost"
        );
        assert_eq!(ok(&["ALL"]), "buddy linux lists");
        assert_eq!(ok(&["linux", "all"]), "linux buddy lists");
        assert_eq!(ok(&["linux+no-boost", "all"]), "linux+no-boost buddy linux lists");
        for wrong in [&["linux", ""][..], &["linux", "LINUX"], &["all", "all"], &[" "]] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
