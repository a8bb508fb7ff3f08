//! `/proc/zoneinfo`: extents, watermarks, per-CPU lists and counters of every zone
//! (`zoneinfo_show_print`, `mm/vmstat.c`).

use std::collections::BTreeMap;

use prairie_frames::{Order, Pfn};

use super::{Line, ZoneId, lines};
use crate::error::ParseError;

/// The file, as a capture names it.
pub const FILE: &str = "proc/zoneinfo";

/// One zone. All sizes are in frames. A line that a kernel does not write leaves its number 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneInfo {
    /// The zone.
    pub id: ZoneId,
    /// First frame of the span; 0 for a zone without memory.
    pub start: Pfn,
    /// Frames from the first to the last, holes included.
    pub spanned_frames: u64,
    /// Frames that exist.
    pub present_frames: u64,
    /// Frames that the page allocator was given.
    pub managed_frames: u64,
    /// Free frames (`NR_FREE_PAGES`): on the buddy lists, not those on per-CPU lists.
    pub free_frames: u64,
    /// The watermarks.
    pub watermarks: Watermarks,
    /// Frames kept back from requests that could be served by a higher zone, by that zone's
    /// number (`lowmem_reserve`).
    pub lowmem_reserve_frames: Vec<u64>,
    /// Free frames parked for each CPU.
    pub per_cpu_lists: Vec<PerCpuList>,
    /// The zone's counters by the kernel's names (`nr_zspages`, `nr_free_cma`, …).
    pub counters: BTreeMap<String, u64>,
    /// The node's counters; only its first populated zone shows them.
    pub node_counters: BTreeMap<String, u64>,
}

/// When the kernel starts and stops to reclaim, in free frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Watermarks {
    /// What fragmenting allocations have added for now.
    pub boost: u64,
    /// Below: only urgent requests are served.
    pub min: u64,
    /// Below: kswapd reclaims.
    pub low: u64,
    /// Above: kswapd sleeps.
    pub high: u64,
}

/// One CPU's list of free frames in a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerCpuList {
    /// The CPU.
    pub cpu: u32,
    /// Frames on it now.
    pub count: u64,
    /// Frames from which on it is drained.
    pub high: u64,
    /// Frames moved at once.
    pub batch: u64,
}

impl ZoneInfo {
    fn new(id: ZoneId) -> ZoneInfo {
        ZoneInfo {
            id,
            start: Pfn(0),
            spanned_frames: 0,
            present_frames: 0,
            managed_frames: 0,
            free_frames: 0,
            watermarks: Watermarks::default(),
            lowmem_reserve_frames: Vec::new(),
            per_cpu_lists: Vec::new(),
            counters: BTreeMap::new(),
            node_counters: BTreeMap::new(),
        }
    }

    /// One past the last frame of the span.
    pub fn end(&self) -> Pfn {
        Pfn(self.start.0 + self.spanned_frames)
    }

    /// Free frames on all per-CPU lists.
    pub fn per_cpu_frames(&self) -> u64 {
        self.per_cpu_lists.iter().map(|list| list.count).sum()
    }

    /// Takes a number called `name` that stands outside the sections.
    fn set(&mut self, name: &str, value: u64, wanted: &dyn Fn(&str) -> bool) {
        let field = match name {
            "pages free" => &mut self.free_frames,
            "boost" => &mut self.watermarks.boost,
            "min" => &mut self.watermarks.min,
            "low" => &mut self.watermarks.low,
            "high" => &mut self.watermarks.high,
            "spanned" => &mut self.spanned_frames,
            "present" => &mut self.present_frames,
            "managed" => &mut self.managed_frames,
            "start_pfn" => &mut self.start.0,
            _ => {
                if wanted(name) {
                    self.counters.insert(name.to_owned(), value);
                }
                return;
            }
        };
        *field = value;
    }
}

/// What the lines after a sub-heading belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Node,
    Zone,
    PerCpu,
}

/// Parses the whole file: every zone of every node, also those without memory.
///
/// # Errors
/// [`ParseError`] where a line has none of the forms, a zone occurs twice, or a zone is larger
/// than any machine (2^40 frames).
pub fn parse(text: &str) -> Result<Vec<ZoneInfo>, ParseError> {
    parse_only(text, |_| true)
}

/// The same, with only those of the zones' and nodes' counters whose names are `wanted`: a daemon
/// needs six of a hundred, once a second.
///
/// # Errors
/// As [`parse`].
pub fn parse_only(text: &str, wanted: impl Fn(&str) -> bool) -> Result<Vec<ZoneInfo>, ParseError> {
    let mut zones: Vec<ZoneInfo> = Vec::new();
    let mut section = Section::Zone;
    for line in lines(FILE, text) {
        if line.text.starts_with("Node") {
            let (id, _) = line.zone()?;
            if zones.iter().any(|zone| zone.id == id) {
                return Err(line.error(format!("one section for {id}")));
            }
            zones.push(ZoneInfo::new(id));
            section = Section::Zone;
            continue;
        }
        let zone = zones.last_mut().ok_or_else(|| line.error("\"Node N, zone NAME\""))?;
        zone_line(line, zone, &mut section, &wanted)?;
    }
    Ok(zones)
}

/// One line below a zone's heading.
fn zone_line(
    line: Line<'_>,
    zone: &mut ZoneInfo,
    section: &mut Section,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<(), ParseError> {
    match line.text.trim() {
        "per-node stats" => *section = Section::Node,
        "pagesets" => *section = Section::PerCpu,
        reserve if reserve.starts_with("protection:") => {
            zone.lowmem_reserve_frames = lowmem_reserve(line)?;
        }
        _ => {
            let (name, value) = named_number(line)?;
            if name == "pages free" {
                *section = Section::Zone;
            }
            match section {
                Section::Node if wanted(name) => {
                    zone.node_counters.insert(name.to_owned(), value);
                }
                Section::Node => {}
                Section::PerCpu => per_cpu_line(line, zone, (name, value), wanted)?,
                Section::Zone => zone.set(name, value, wanted),
            }
        }
    }
    let limit = Order::LIMIT.frames();
    let sizes = [zone.start.0, zone.spanned_frames, zone.present_frames, zone.managed_frames];
    if sizes.into_iter().chain([zone.free_frames]).any(|frames| frames > limit) {
        return Err(line.error("fewer frames than any machine has (2^40)"));
    }
    Ok(())
}

/// A line of the section `pagesets`, which ends with the node's last two numbers.
fn per_cpu_line(
    line: Line<'_>,
    zone: &mut ZoneInfo,
    (name, value): (&str, u64),
    wanted: &dyn Fn(&str) -> bool,
) -> Result<(), ParseError> {
    if name == "cpu" {
        let cpu = u32::try_from(value).map_err(|_| line.error("a CPU's number"))?;
        zone.per_cpu_lists.push(PerCpuList { cpu, ..PerCpuList::default() });
        return Ok(());
    }
    let Some(list) = zone.per_cpu_lists.last_mut() else {
        zone.set(name, value, wanted);
        return Ok(());
    };
    match name {
        "count" if value > Order::LIMIT.frames() => {
            return Err(line.error("fewer frames than any machine has (2^40)"));
        }
        "count" => list.count = value,
        "high" => list.high = value,
        "batch" => list.batch = value,
        "node_unreclaimable" | "start_pfn" => zone.set(name, value, wanted),
        // high_min, high_max, vm stats threshold: tuning of no concern here.
        _ => {}
    }
    Ok(())
}

/// `name   17` or `name:   17`; the name may contain spaces.
fn named_number(line: Line<'_>) -> Result<(&str, u64), ParseError> {
    let expected = "a name and a number";
    let text = line.text.trim();
    let (name, value) =
        text.rsplit_once(|c: char| c.is_ascii_whitespace()).ok_or_else(|| line.error(expected))?;
    Ok((name.trim_end().trim_end_matches(':'), line.number(value, expected)?))
}

/// `protection: (0, 3019, 4939)`
fn lowmem_reserve(line: Line<'_>) -> Result<Vec<u64>, ParseError> {
    let expected = "\"protection: (N, N, …)\"";
    let inner = line
        .text
        .trim()
        .strip_prefix("protection:")
        .and_then(|rest| rest.trim().strip_prefix('(')?.strip_suffix(')'))
        .ok_or_else(|| line.error(expected))?;
    inner.split(',').map(|word| line.number(word.trim(), expected)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_frames::ZoneKind;

    /// Cut short from Linux 6.1: a populated zone that shows its node's counters, and one
    /// without memory.
    const TEXT: &str = "\
Node 0, zone   Normal
  per-node stats
      nr_inactive_anon 1278
      nr_kernel_stack 1348
  pages free     194652
        boost    5
        min      9296
        low      11620
        high     13944
        spanned  5505024
        present  5505000
        managed  950272
        cma      0
        protection: (0, 0, 19)
      nr_free_pages 194652
      nr_zspages   3
  pagesets
    cpu: 0
              count: 3950
              high:  5810
              batch: 63
  vm stats threshold: 24
    cpu: 1
              count: 5536
              high:  6125
              batch: 63
  vm stats threshold: 24
  node_unreclaimable:  0
  start_pfn:           1048576
Node 0, zone  Movable
  pages free     0
        boost    0
        min      32
        protection: (0, 0, 0)
";

    #[test]
    fn a_populated_zone_and_an_empty_one() {
        let zones = parse(TEXT).unwrap();
        assert_eq!(zones.len(), 2);
        let normal = &zones[0];
        assert_eq!(normal.id, ZoneId { node: 0, kind: ZoneKind::Normal });
        assert_eq!((normal.start, normal.end()), (Pfn(1_048_576), Pfn(6_553_600)));
        assert_eq!((normal.present_frames, normal.managed_frames), (5_505_000, 950_272));
        assert_eq!(normal.free_frames, 194_652);
        let watermarks = Watermarks { boost: 5, min: 9296, low: 11_620, high: 13_944 };
        assert_eq!(normal.watermarks, watermarks);
        assert_eq!(normal.lowmem_reserve_frames, [0, 0, 19]);
        assert_eq!(normal.per_cpu_frames(), 3950 + 5536);
        assert_eq!(
            normal.per_cpu_lists[1],
            PerCpuList { cpu: 1, count: 5536, high: 6125, batch: 63 }
        );
        assert_eq!(normal.counters["nr_zspages"], 3);
        assert_eq!(normal.node_counters["nr_kernel_stack"], 1348);
        assert_eq!((zones[1].spanned_frames, zones[1].watermarks.min), (0, 32));
    }

    #[test]
    fn counters_that_nobody_wants_are_passed_over() {
        let all = parse(TEXT).unwrap();
        let some = parse_only(TEXT, |name| name == "nr_zspages").unwrap();
        assert_eq!(some[0].counters.keys().collect::<Vec<_>>(), ["nr_zspages"]);
        assert!(some[0].node_counters.is_empty());
        let bare = |zones: &[ZoneInfo]| -> Vec<ZoneInfo> {
            let without = |zone: &ZoneInfo| ZoneInfo {
                counters: BTreeMap::new(),
                node_counters: BTreeMap::new(),
                ..zone.clone()
            };
            zones.iter().map(without).collect()
        };
        assert_eq!(bare(&some), bare(&all), "everything else is the same");
        assert!(
            parse_only(&TEXT.replace("nr_free_pages 194652", "nr_free_pages x"), |_| false)
                .is_err()
        );
    }

    #[test]
    fn errors_say_where_and_what() {
        let error = parse(&TEXT.replace("min      9296", "min      many")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "proc/zoneinfo, line 7: expected a name and a number, found \"min      many\""
        );
        let error = parse(&TEXT.replace("(0, 0, 19)", "(0, 0, 19")).unwrap_err();
        assert_eq!((error.line, error.expected.as_str()), (14, "\"protection: (N, N, …)\""));
        assert!(parse("  pages free 3\n").is_err());
        assert!(parse(&TEXT.replace("Movable", "Normal")).is_err(), "the same zone twice");
        assert!(parse(&TEXT.replace("5505024", "18446744073709551615")).is_err());
    }
}
