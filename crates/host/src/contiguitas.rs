//! The regions of a kernel that confines unmovable memory below a border that moves (`kernel/` in
//! this repository): `/sys/kernel/mm/contiguitas/nodeN/`, and the pressures beside
//! `/proc/pressure/memory`. Other kernels have neither.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Capture;
use crate::error::ParseError;
use crate::psi::{self, Stall};
use crate::roots::{Roots, is_numbered};
use crate::texts::lines;

/// Where the kernel shows its regions.
pub(crate) const DIRECTORY: &str = "sys/kernel/mm/contiguitas";

/// Pressure of the whole host, for each region.
const PRESSURES: [&str; 2] = ["proc/pressure/memory_unmovable", "proc/pressure/memory_movable"];

const PAGE_BYTES: u64 = 4096;

/// Counters of a node with their meanings, in the kernel's order.
pub const COUNTERS: [(&str, &str); 22] = [
    ("wake_ups", "times the resizer's thread woke"),
    ("pageblocks_grown", "pageblocks that the unmovable region took"),
    ("pageblocks_shrunk", "pageblocks that the unmovable region gave"),
    ("grow_failures", "attempts to grow that failed"),
    ("shrink_failures", "attempts to shrink that failed"),
    ("aborted_handovers", "hand-overs that were undone because a page was in use"),
    ("pageblocks_retired", "pageblocks retired, to leave the unmovable region"),
    ("pageblocks_recalled", "retired pageblocks that came back into use"),
    ("slab_drops", "times empty slabs were dropped so that the region could shrink"),
    ("cache_drops", "times all shrinkers ran so that the region could shrink"),
    ("turns_refused", "moves refused because the border had just moved the other way"),
    ("move_us", "microseconds of moves"),
    ("longest_handover_us", "microseconds of the longest hand-over"),
    ("waits", "requests that waited for the border"),
    ("waits_in_vain", "waiting requests for which the border did not move"),
    ("wait_us", "microseconds of these waits"),
    ("pin_waits", "long-term pins that waited for the border"),
    ("oom_rescues", "times a region gave memory instead of an OOM kill"),
    ("loans", "times the unmovable region began to lend memory to users"),
    ("compactions_skipped", "compactions skipped for a hand-over"),
    ("retries", "times a request for a huge page was tried again instead of failing"),
    ("retries_in_vain", "requests for huge pages that failed after all tries beside enough memory"),
];

/// The regions of all nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Contiguitas {
    /// Every node with a border.
    pub nodes: Vec<NodeRegions>,
    /// Time in which some task stalled for unmovable memory, on all nodes; `None` without PSI.
    pub unmovable_pressure: Option<Stall>,
    /// The same for movable memory.
    pub movable_pressure: Option<Stall>,
}

/// The regions of one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct NodeRegions {
    /// The NUMA node.
    pub node: u32,
    /// The first frame above the border.
    pub border_pfn: u64,
    /// Below the border.
    pub unmovable: Region,
    /// Above the border.
    pub movable: Region,
    /// Memory below the border that is no longer used, so that it can change sides.
    pub retired_bytes: Option<u64>,
    /// The unmovable region grows up to this much available memory.
    pub target_bytes: Option<u64>,
    /// The unmovable region shrinks above this much available memory.
    pub high_bytes: Option<u64>,
    /// Minimum size of the unmovable region.
    pub floor_bytes: Option<u64>,
    /// Maximum size of the unmovable region.
    pub ceiling_bytes: Option<u64>,
    /// Counters since boot, by the kernel's names; see [`COUNTERS`].
    pub counters: BTreeMap<String, u64>,
}

/// One region of a node. What the kernel does not show is missing.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Region {
    /// Its size.
    pub bytes: u64,
    /// Free memory for ordinary requests.
    pub available_bytes: Option<u64>,
    /// Below this much available memory the border moves away from the region.
    pub low_bytes: Option<u64>,
    /// Time in which some task stalled for lack of its memory.
    pub pressure: Option<Stall>,
    /// Its frames; `None` where page flags were not read.
    pub frames: Option<RegionFrames>,
}

/// The initialized frames of a region by mobility.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RegionFrames {
    /// Free.
    pub free: u64,
    /// In use and movable.
    pub movable: u64,
    /// In use and unmovable.
    pub unmovable: u64,
    /// Unknown: most kernel allocations carry no flag.
    pub unknown: u64,
}

impl RegionFrames {
    /// The share of unmovable frames, 0 to 1: if unknown frames are movable, and if they are not.
    pub fn unmovable_shares(&self) -> (f64, f64) {
        let all = self.free + self.movable + self.unmovable + self.unknown;
        let share = |frames: u64| frames as f64 / all.max(1) as f64;
        (share(self.unmovable), share(self.unmovable + self.unknown))
    }

    /// The frames of both.
    pub fn with(self, other: RegionFrames) -> RegionFrames {
        RegionFrames {
            free: self.free + other.free,
            movable: self.movable + other.movable,
            unmovable: self.unmovable + other.unmovable,
            unknown: self.unknown + other.unknown,
        }
    }
}

/// Reads the files of all regions, as far as they are there, into the capture.
pub fn read(roots: &Roots, capture: &mut Capture) {
    let mut take = |name: String| {
        if let Ok(text) = roots.text(&name) {
            capture.files.insert(name, text);
        }
    };
    let nodes = roots.list(DIRECTORY);
    let nodes: Vec<String> = nodes.into_iter().filter(|name| is_numbered(name, "node")).collect();
    if nodes.is_empty() {
        return;
    }
    PRESSURES.iter().for_each(|name| take((*name).to_owned()));
    for node in nodes {
        let directory = format!("{DIRECTORY}/{node}");
        roots.list(&directory).iter().for_each(|name| take(format!("{directory}/{name}")));
    }
}

impl Contiguitas {
    /// The regions in a capture; `None` on other kernels. A node without border or sizes is left out.
    ///
    /// # Errors
    /// [`ParseError`] where a file is malformed.
    pub fn of(capture: &Capture) -> Result<Option<Contiguitas>, ParseError> {
        let mut numbers: Vec<u32> = capture.files.keys().filter_map(|name| node_of(name)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let nodes = numbers.into_iter().map(|node| NodeRegions::of(capture, node));
        let nodes: Vec<NodeRegions> =
            nodes.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        if nodes.is_empty() {
            return Ok(None);
        }
        let [unmovable_pressure, movable_pressure] =
            PRESSURES.map(|name| pressure(capture, name.to_owned()));
        Ok(Some(Contiguitas {
            nodes,
            unmovable_pressure: unmovable_pressure?,
            movable_pressure: movable_pressure?,
        }))
    }

    /// The unmovable regions of all nodes.
    pub fn unmovable(&self) -> impl Iterator<Item = &Region> {
        self.nodes.iter().map(|node| &node.unmovable)
    }

    /// The movable regions of all nodes.
    pub fn movable(&self) -> impl Iterator<Item = &Region> {
        self.nodes.iter().map(|node| &node.movable)
    }
}

impl NodeRegions {
    fn of(capture: &Capture, node: u32) -> Result<Option<NodeRegions>, ParseError> {
        let file = |name: &str| format!("{DIRECTORY}/node{node}/{name}");
        let kib = |name: &str| number(capture, file(name), 1024, "a number of KiB");
        let border = number(capture, file("border_pfn"), PAGE_BYTES, "the number of a frame")?;
        let sizes = (border, kib("unmovable_kb")?, kib("movable_kb")?);
        let (Some(border), Some(unmovable), Some(movable)) = sizes else { return Ok(None) };
        let region = |bytes: u64, name: &str| -> Result<Region, ParseError> {
            Ok(Region {
                bytes,
                available_bytes: kib(&format!("{name}_available_kb"))?,
                low_bytes: kib(&format!("{name}_low_kb"))?,
                pressure: pressure(capture, file(&format!("{name}_pressure")))?,
                frames: None,
            })
        };
        Ok(Some(NodeRegions {
            node,
            border_pfn: border / PAGE_BYTES,
            unmovable: region(unmovable, "unmovable")?,
            movable: region(movable, "movable")?,
            retired_bytes: kib("retired_kb")?,
            target_bytes: kib("unmovable_target_kb")?,
            high_bytes: kib("unmovable_high_kb")?,
            floor_bytes: kib("floor_kb")?,
            ceiling_bytes: kib("ceiling_kb")?,
            counters: counters(capture, &file("counters"))?,
        }))
    }

    /// The border as an address.
    pub fn border_bytes(&self) -> u64 {
        self.border_pfn.saturating_mul(PAGE_BYTES)
    }
}

/// The node of a file below [`DIRECTORY`].
fn node_of(name: &str) -> Option<u32> {
    let (node, _) = name.strip_prefix(DIRECTORY)?.strip_prefix("/node")?.split_once('/')?;
    node.parse().ok()
}

/// The number in a file times `unit`, if the capture has the file.
fn number(
    capture: &Capture,
    file: String,
    unit: u64,
    expected: &str,
) -> Result<Option<u64>, ParseError> {
    let Some(text) = capture.files.get(&file) else { return Ok(None) };
    let mut lines = lines(&file, text);
    let Some(line) = lines.next() else {
        return Err(crate::texts::ends_early(&file, text, expected));
    };
    if let Some(second) = lines.next() {
        return Err(second.error("the end"));
    }
    let number: u64 = line.number(line.text.trim(), expected)?;
    let fits = || line.error(format!("{expected} that fits 64 bits as bytes"));
    number.checked_mul(unit).ok_or_else(fits).map(Some)
}

fn pressure(capture: &Capture, file: String) -> Result<Option<Stall>, ParseError> {
    let Some(text) = capture.files.get(&file) else { return Ok(None) };
    psi::parse(&file, text).map(|pressure| Some(pressure.some))
}

fn counters(capture: &Capture, file: &str) -> Result<BTreeMap<String, u64>, ParseError> {
    let expected = "a counter's name and a number";
    let text = capture.files.get(file).map(String::as_str).unwrap_or_default();
    let counter = |line: crate::texts::Line<'_>| {
        let words = line.text.trim().split_once(' ').ok_or_else(|| line.error(expected))?;
        Ok((words.0.to_owned(), line.number(words.1.trim(), expected)?))
    };
    lines(file, text).map(counter).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;

    use super::*;

    const NODE: &str = "sys/kernel/mm/contiguitas/node0";

    /// What a kernel with 3 GiB shows.
    const FILES: [(&str, &str); 16] = [
        ("border_pfn", "131072\n"),
        ("unmovable_kb", "507648\n"),
        ("movable_kb", "2609152\n"),
        ("unmovable_available_kb", "104448\n"),
        ("movable_available_kb", "1227776\n"),
        ("retired_kb", "4096\n"),
        ("unmovable_low_kb", "36864\n"),
        ("unmovable_target_kb", "73728\n"),
        ("unmovable_high_kb", "147456\n"),
        ("movable_low_kb", "24576\n"),
        ("unmovable_pressure", "some avg10=0.00 avg60=1.10 avg300=0.02 total=61734\n"),
        ("movable_pressure", "some avg10=2.50 avg60=0.10 avg300=0.02 total=1500000\n"),
        (
            "counters",
            "wake_ups 12\npageblocks_grown 7\npageblocks_shrunk 3\nwaits 2\nwait_us 900\n",
        ),
        ("floor_kb", "131072\n"),
        ("ceiling_kb", "2359296\n"),
        ("a_file_of_a_newer_kernel", "[\n"),
    ];

    fn capture() -> Capture {
        let file = |(name, text): (&str, &str)| (format!("{NODE}/{name}"), text.to_owned());
        Capture { files: FILES.into_iter().map(file).collect(), ..Capture::default() }
    }

    #[test]
    fn a_node_is_read() {
        let mut capture = capture();
        let total = "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        capture.files.insert(PRESSURES[0].to_owned(), total.to_owned());
        let found = Contiguitas::of(&capture).unwrap().unwrap();
        let [node] = &found.nodes[..] else { panic!("{found:?}") };
        assert_eq!((node.node, node.border_pfn, node.border_bytes()), (0, 131_072, 512 << 20));
        assert_eq!(node.unmovable.bytes, 507_648 << 10);
        assert_eq!(node.movable.available_bytes, Some(1_227_776 << 10));
        assert_eq!((node.unmovable.low_bytes, node.high_bytes), (Some(36 << 20), Some(144 << 20)));
        assert_eq!(node.movable.pressure.unwrap().total_us, 1_500_000);
        assert_eq!((node.counters["pageblocks_grown"], node.counters["wait_us"]), (7, 900));
        assert_eq!(found.unmovable_pressure.unwrap().total_us, 7);
        assert_eq!(found.movable_pressure, None);
        assert_eq!((found.unmovable().count(), found.movable().count()), (1, 1));
    }

    #[test]
    fn other_kernels_have_no_regions() {
        assert_eq!(Contiguitas::of(&Capture::default()).unwrap(), None);
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots::at(&directory.path().join("proc"));
        let mut found = Capture::default();
        read(&roots, &mut found);
        assert!(found.files.is_empty());
        // Without its sizes a node says nothing; settings alone are no node.
        let mut capture = capture();
        capture.files.remove(&format!("{NODE}/movable_kb"));
        capture.files.insert(format!("{DIRECTORY}/hold"), "8\n".to_owned());
        assert_eq!(Contiguitas::of(&capture).unwrap(), None);
    }

    #[test]
    fn every_node_of_a_tree_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots::at(&directory.path().join("proc"));
        for node in [0, 2, 10] {
            let folder = directory.path().join(DIRECTORY).join(format!("node{node}"));
            fs::create_dir_all(&folder).unwrap();
            for (name, text) in FILES {
                fs::write(folder.join(name), text).unwrap();
            }
        }
        fs::create_dir(directory.path().join(DIRECTORY).join("nodes")).unwrap();
        let mut capture = Capture::default();
        read(&roots, &mut capture);
        let nodes = Contiguitas::of(&capture).unwrap().unwrap().nodes;
        assert!(nodes.iter().map(|node| node.node).eq([0, 2, 10]));
    }

    #[test]
    fn bad_contents_are_named() {
        for (name, text, expected) in [
            ("border_pfn", "", "the number of a frame"),
            ("border_pfn", "0x20000\n", "the number of a frame"),
            ("border_pfn", "18446744073709551615\n", "fits 64 bits"),
            ("unmovable_kb", "-1\n", "a number of KiB"),
            ("movable_kb", "5\n6\n", "the end"),
            ("retired_kb", "18446744073709551615\n", "fits 64 bits"),
            ("floor_kb", "much\n", "a number of KiB"),
            ("movable_pressure", "some\n", "avg10="),
            ("counters", "waits\n", "a counter's name"),
            ("counters", "waits -3\n", "a counter's name"),
        ] {
            let mut capture = capture();
            capture.files.insert(format!("{NODE}/{name}"), text.to_owned());
            let error = Contiguitas::of(&capture).unwrap_err();
            assert_eq!(error.file, format!("{NODE}/{name}"));
            assert!(error.expected.contains(expected), "{name}: {error}");
        }
    }

    #[test]
    fn counters_are_those_of_the_kernel() {
        let source =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernel/source/mm/contiguitas/sysfs.c");
        let Ok(source) = fs::read_to_string(source) else { return };
        let (_, printed) = source.split_once("int print_counts").unwrap();
        let (printed, _) = printed.split_once("counts->wake_ups").unwrap();
        let named = printed.split(['"', '\\']).map(|part| part.trim_start_matches('n'));
        let names = named.filter_map(|part| Some(part.split_once(" %")?.0));
        assert!(names.eq(COUNTERS.map(|(name, _)| name)));
    }

    proptest! {
        #[test]
        fn any_contents_are_regions_or_one_error(
            which in 0..FILES.len(),
            text in "\\PC{0,60}|[0-9a-z =.\n-]{0,80}",
        ) {
            let mut capture = capture();
            capture.files.insert(format!("{NODE}/{}", FILES[which].0), text);
            if let Err(error) = Contiguitas::of(&capture) {
                prop_assert!(!error.to_string().contains('\n'), "{error}");
            }
        }
    }
}
