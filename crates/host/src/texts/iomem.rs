//! `/proc/iomem`: which physical addresses are memory (`r_show`, `kernel/resource.c`).
//!
//! Kernels since about 6.15 show frames that do not exist without any flag, where older ones set
//! `KPF_NOPAGE`; this map tells them from frames that exist and have none. Without root the
//! kernel writes zeros for all addresses.

use std::ops::Range;

use super::lines;
use crate::error::ParseError;

/// The file, as a capture names it.
pub const FILE: &str = "proc/iomem";

/// Parses the frames that are memory: whole 4 KiB frames of every resource whose name begins with
/// `System RAM`, ascending and joined, as ranges of frame numbers. Empty where the kernel hides
/// the addresses.
///
/// A frame that such a resource covers in part is no memory; so counts `memblock` too.
///
/// # Errors
/// [`ParseError`] where a line is not `start-end : name` with hexadecimal addresses in order.
pub fn system_ram(text: &str) -> Result<Vec<Range<u64>>, ParseError> {
    let expected = "\"start-end : name\" with hexadecimal addresses";
    let mut found = Vec::new();
    for line in lines(FILE, text) {
        let resource = || {
            let (addresses, name) = line.text.trim().split_once(" : ")?;
            let (start, end) = addresses.split_once('-')?;
            let hex = |digits| u64::from_str_radix(digits, 16).ok();
            Some((hex(start)?, hex(end)?, name))
        };
        let (start, end, name) = resource().ok_or_else(|| line.error(expected))?;
        if end < start {
            return Err(line.error("an end that is not before the start"));
        }
        let frames = start.div_ceil(4096)..(end >> 12) + u64::from(end & 4095 == 4095);
        if name.starts_with("System RAM") && end > 0 && frames.start < frames.end {
            found.push(frames);
        }
    }
    found.sort_by_key(|range| range.start);
    Ok(joined(found))
}

/// Joins ranges, sorted by their start, that touch or overlap.
fn joined(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut out: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_frames_of_memory() {
        let text = "\
00000000-00000fff : Reserved
00001000-0009fbff : System RAM
00100000-bfffffff : System RAM
  01000000-02209987 : Kernel code
100000000-13fffffff : System RAM
140000000-17fffffff : dax0.0
  140000000-17fffffff : System RAM (kmem)
";
        let ram = system_ram(text).unwrap();
        assert_eq!(ram, [1..0x9f, 0x100..0xc0000, 0x100000..0x180000]);
    }

    #[test]
    fn hidden_addresses_and_errors() {
        assert!(system_ram("00000000-00000000 : System RAM\n").unwrap().is_empty());
        assert!(system_ram("0-ffffffffffffffff : System RAM\n").unwrap()[0].end == 1 << 52);
        for bad in ["x", "10-5 : System RAM", "0-g : System RAM", "0 : System RAM"] {
            assert!(system_ram(bad).is_err(), "{bad}");
        }
    }
}
