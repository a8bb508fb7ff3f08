//! The figures of one moment as one row: what `prairie log` keeps and `prairie top` shows.

use std::collections::HashMap;
use std::sync::OnceLock;

use prairie_frames::{Mobility, Order};
use prairie_host::contiguitas::NodeRegions;
use prairie_host::survey::counters;
use prairie_host::{BlockMap, FrameClass};
use serde::{Deserialize, Serialize};

use crate::figures::{Figures, classes, unmovable};
use crate::moment::Moment;

/// Orders that have a column each: those of the buddy lists.
pub const ORDERS: usize = Order::LARGEST_FREE.index() + 1;

/// One row. A figure that is not known is missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// When: nanoseconds since 1970.
    pub at_unix_ns: i64,
    integers: Vec<Option<i64>>,
    shares: Vec<Option<f64>>,
    /// The free lists of each zone.
    pub zones: Vec<ZoneRow>,
    /// The regions of each node; none on kernels without a movable border.
    pub regions: Vec<RegionsRow>,
    /// The map of memory; see [`MapCell`].
    pub map: String,
}

/// One zone's free lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneRow {
    /// The NUMA node.
    pub node: u32,
    /// The zone's name.
    pub zone: String,
    /// Free blocks by order.
    pub blocks: Vec<u64>,
}

/// The regions of one node of a kernel with a movable border.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegionsRow {
    /// The NUMA node.
    pub node: u32,
    /// The first frame above the border.
    pub border_pfn: u64,
    /// Size of the unmovable region.
    pub unmovable_bytes: u64,
    /// Size of the movable region.
    pub movable_bytes: u64,
    /// Free below the border.
    pub unmovable_available_bytes: Option<u64>,
    /// Free above the border.
    pub movable_available_bytes: Option<u64>,
    /// The unmovable region grows with less available.
    pub unmovable_low_bytes: Option<u64>,
    /// The unmovable region shrinks with more available.
    pub unmovable_high_bytes: Option<u64>,
    /// The unmovable region shrinks with less available above the border.
    pub movable_low_bytes: Option<u64>,
    /// Memory below the border that is out of use.
    pub retired_bytes: Option<u64>,
    /// Microseconds in which some task stalled for unmovable memory.
    pub unmovable_some_us: Option<u64>,
    /// The same for movable memory.
    pub movable_some_us: Option<u64>,
    /// Pageblocks that the unmovable region took.
    pub grown_pageblocks: Option<u64>,
    /// Pageblocks that it gave.
    pub shrunk_pageblocks: Option<u64>,
    /// Moves that failed, of both directions.
    pub failed_moves: Option<u64>,
    /// Requests that waited for the border.
    pub waits: Option<u64>,
}

impl RegionsRow {
    fn of(node: &NodeRegions) -> RegionsRow {
        let counter = |name: &str| node.counters.get(name).copied();
        let failed = [counter("grow_failures"), counter("shrink_failures")];
        RegionsRow {
            node: node.node,
            border_pfn: node.border_pfn,
            unmovable_bytes: node.unmovable.bytes,
            movable_bytes: node.movable.bytes,
            unmovable_available_bytes: node.unmovable.available_bytes,
            movable_available_bytes: node.movable.available_bytes,
            unmovable_low_bytes: node.unmovable.low_bytes,
            unmovable_high_bytes: node.high_bytes,
            movable_low_bytes: node.movable.low_bytes,
            retired_bytes: node.retired_bytes,
            unmovable_some_us: node.unmovable.pressure.map(|stall| stall.total_us),
            movable_some_us: node.movable.pressure.map(|stall| stall.total_us),
            grown_pageblocks: counter("pageblocks_grown"),
            shrunk_pageblocks: counter("pageblocks_shrunk"),
            failed_moves: failed.into_iter().flatten().reduce(u64::saturating_add),
            waits: counter("waits"),
        }
    }
}

/// One cell of the map, as a letter: `A` and up for the class that most of it has, `a` and up if
/// unmovable frames are in a cell that mostly is movable, free or unknown, a space where no memory
/// is or none was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapCell {
    /// The class; absent where nothing is known.
    pub class: FrameClass,
    /// Whether it is polluted.
    pub is_polluted: bool,
}

impl MapCell {
    /// As a letter.
    pub fn letter(self) -> char {
        match self.class {
            FrameClass::Absent => ' ',
            class => {
                let first = if self.is_polluted { b'a' } else { b'A' };
                char::from(first + class.index() as u8)
            }
        }
    }

    /// The cell of a letter; absent for any that means nothing.
    pub fn of(letter: char) -> MapCell {
        let class = |first: char| {
            let index = u8::try_from(u32::from(letter).checked_sub(u32::from(first))?).ok()?;
            FrameClass::from_index(index).filter(|class| *class != FrameClass::Absent)
        };
        let is_polluted = letter.is_ascii_lowercase();
        let class = class(if is_polluted { 'a' } else { 'A' }).unwrap_or(FrameClass::Absent);
        MapCell { class, is_polluted: is_polluted && class != FrameClass::Absent }
    }
}

/// Names of columns of whole numbers: bytes, pageblocks, microseconds, counts.
pub fn integer_columns() -> &'static [String] {
    static COLUMNS: OnceLock<Vec<String>> = OnceLock::new();
    COLUMNS.get_or_init(|| {
        let fixed = FIXED.iter().map(|(name, _)| (*name).to_owned());
        let orders = (0..ORDERS).map(|order| format!("free_blocks_order_{order}"));
        let classes = classes().map(|class| format!("class_{}_bytes", class.name()));
        let sources = unmovable().flat_map(|class| {
            let name = class.name();
            [
                format!("polluted_by_{name}_pageblocks"),
                format!("polluted_by_{name}_alone_pageblocks"),
            ]
        });
        let events = counters::names().map(|name| format!("vmstat_{name}"));
        let frames = FRAMES.iter().map(|name| (*name).to_owned());
        fixed.chain(orders).chain(frames).chain(classes).chain(sources).chain(events).collect()
    })
}

/// Names of columns of shares, 0 to 1.
pub fn share_columns() -> &'static [String] {
    static COLUMNS: OnceLock<Vec<String>> = OnceLock::new();
    COLUMNS.get_or_init(|| {
        (0..ORDERS).map(|order| format!("unusable_free_space_order_{order}")).collect()
    })
}

/// Columns that a moment has, and its value.
type Fixed = (&'static str, fn(&Moment) -> Option<u64>);

const FIXED: [Fixed; 29] = [
    ("memory_bytes", |m| size(m, "MemTotal")),
    ("free_bytes", |m| {
        (!m.zones.is_empty()).then(|| m.free_lists().free_frames * Order::BASE.bytes())
    }),
    ("reclaimable_bytes", |m| size(m, "MemAvailable")),
    ("anonymous_bytes", |m| size(m, "AnonPages")),
    ("anonymous_huge_bytes", |m| size(m, "AnonHugePages")),
    ("shmem_bytes", |m| size(m, "Shmem")),
    ("shmem_huge_bytes", |m| size(m, "ShmemHugePages")),
    ("cached_bytes", |m| size(m, "Cached")),
    ("slab_unreclaimable_bytes", |m| size(m, "SUnreclaim")),
    ("slab_reclaimable_bytes", |m| size(m, "SReclaimable")),
    ("page_table_bytes", |m| size(m, "PageTables")),
    ("kernel_stack_bytes", |m| size(m, "KernelStack")),
    ("vmalloc_bytes", |m| size(m, "VmallocUsed")),
    ("per_cpu_bytes", |m| size(m, "Percpu")),
    ("swap_free_bytes", |m| size(m, "SwapFree")),
    ("memory_some_us", |m| m.pressure.map(|pressure| pressure.some.total_us)),
    ("memory_full_us", |m| m.pressure.and_then(|pressure| Some(pressure.full?.total_us))),
    ("unmovable_region_bytes", |m| regions(m, |r| Some(r.unmovable_bytes))),
    ("unmovable_region_available_bytes", |m| regions(m, |r| r.unmovable_available_bytes)),
    ("unmovable_region_low_bytes", |m| regions(m, |r| r.unmovable_low_bytes)),
    ("unmovable_region_high_bytes", |m| regions(m, |r| r.unmovable_high_bytes)),
    ("retired_bytes", |m| regions(m, |r| r.retired_bytes)),
    ("movable_region_bytes", |m| regions(m, |r| Some(r.movable_bytes))),
    ("movable_region_available_bytes", |m| regions(m, |r| r.movable_available_bytes)),
    ("unmovable_region_some_us", |m| Some(m.contiguitas.as_ref()?.unmovable_pressure?.total_us)),
    ("movable_region_some_us", |m| Some(m.contiguitas.as_ref()?.movable_pressure?.total_us)),
    ("border_grown_pageblocks", |m| regions(m, |r| r.grown_pageblocks)),
    ("border_shrunk_pageblocks", |m| regions(m, |r| r.shrunk_pageblocks)),
    ("border_waits", |m| regions(m, |r| r.waits)),
];

/// The sum over nodes; `None` where no node has a value.
fn regions(moment: &Moment, value: impl Fn(&RegionsRow) -> Option<u64>) -> Option<u64> {
    let nodes = moment.contiguitas.iter().flat_map(|regions| &regions.nodes);
    nodes.filter_map(|node| value(&RegionsRow::of(node))).reduce(u64::saturating_add)
}

/// Columns of a walk over page flags, besides those of classes and sources. `_low` and `_high` are
/// the ends of 95 % intervals.
const FRAMES: [&str; 22] = [
    "walk_at_unix_ns",
    "pageblocks",
    "read_pageblocks",
    "whole_pageblocks",
    "polluted_pageblocks",
    "polluted_pageblocks_low",
    "polluted_pageblocks_high",
    "polluted_if_unknown_unmovable_pageblocks",
    "unmovable_bytes",
    "movable_bytes",
    "unknown_bytes",
    "available_2m_bytes",
    "available_2m_bytes_low",
    "available_2m_bytes_high",
    "available_32m_bytes",
    "available_1g_bytes",
    "potential_2m_bytes",
    "potential_2m_if_unknown_unmovable_bytes",
    "potential_32m_bytes",
    "potential_32m_if_unknown_unmovable_bytes",
    "potential_1g_bytes",
    "potential_1g_if_unknown_unmovable_bytes",
];

/// Whether a column counts up from boot: only its rise means anything.
pub fn is_counter(column: &str) -> bool {
    column.starts_with("vmstat_") || column.starts_with("border_") || column.ends_with("_us")
}

/// Whether a column comes from a walk over page flags, which rows repeat until the next walk.
pub fn is_of_walk(column: &str) -> bool {
    FRAMES.contains(&column) || column.starts_with("class_") || column.starts_with("polluted_by_")
}

fn size(moment: &Moment, name: &str) -> Option<u64> {
    moment.sizes.get(name).copied()
}

fn place(name: &str) -> Option<usize> {
    static PLACES: OnceLock<HashMap<&'static str, usize>> = OnceLock::new();
    let places = PLACES.get_or_init(|| {
        integer_columns().iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect()
    });
    places.get(name).copied()
}

impl Summary {
    /// The row of a moment, and of the last walk if there was one.
    pub fn of(moment: &Moment, figures: Option<&Figures>) -> Summary {
        let mut row = Summary::empty(i64::try_from(moment.at_unix_ns).unwrap_or(i64::MAX));
        for (name, value) in FIXED {
            if let Some(value) = value(moment) {
                row.set(name, value as f64);
            }
        }
        let lists = moment.free_lists();
        for (order, blocks) in lists.blocks_by_order.iter().take(ORDERS).enumerate() {
            row.set(&format!("free_blocks_order_{order}"), *blocks as f64);
        }
        for (share, index) in row.shares.iter_mut().zip(&lists.indices) {
            *share = Some(index.unusable_free_space_index);
        }
        for counter in &moment.counters {
            row.set(&format!("vmstat_{}", counter.name), counter.value as f64);
        }
        if let Some(figures) = figures {
            row.set_figures(figures);
        }
        let zone = |zone: &crate::moment::ZoneFree| ZoneRow {
            node: zone.id.node,
            zone: zone.id.kind.name().to_owned(),
            blocks: zone.lists.blocks_by_order.clone(),
        };
        row.zones = moment.zones.iter().map(zone).collect();
        let nodes = moment.contiguitas.iter().flat_map(|regions| &regions.nodes);
        row.regions = nodes.map(RegionsRow::of).collect();
        row
    }

    /// A row without figures.
    pub fn empty(at_unix_ns: i64) -> Summary {
        Summary {
            at_unix_ns,
            integers: vec![None; integer_columns().len()],
            shares: vec![None; share_columns().len()],
            zones: Vec::new(),
            regions: Vec::new(),
            map: String::new(),
        }
    }

    fn set_figures(&mut self, figures: &Figures) {
        let frame = Order::BASE.bytes() as f64;
        self.set("walk_at_unix_ns", figures.at_unix_ns as f64);
        self.set("pageblocks", figures.pageblocks as f64);
        self.set("read_pageblocks", figures.pageblocks_read as f64);
        self.set("whole_pageblocks", figures.whole.value);
        self.set("polluted_pageblocks", figures.polluted.value);
        self.set("polluted_pageblocks_low", figures.polluted.low);
        self.set("polluted_pageblocks_high", figures.polluted.high);
        let polluted = figures.polluted_if_unknown_unmovable.value;
        self.set("polluted_if_unknown_unmovable_pageblocks", polluted);
        for (name, mobility) in [
            ("unmovable_bytes", Mobility::Unmovable),
            ("movable_bytes", Mobility::Movable),
            ("unknown_bytes", Mobility::Unknown),
        ] {
            self.set(name, figures.frames_of_mobility(mobility) * frame);
        }
        for size in &figures.available {
            let Some(name) = size_name(size.order) else { continue };
            let bytes = size.blocks.times(size.order.bytes() as f64);
            self.set(&format!("available_{name}_bytes"), bytes.value);
            self.set(&format!("available_{name}_bytes_low"), bytes.low);
            self.set(&format!("available_{name}_bytes_high"), bytes.high);
        }
        for size in &figures.potential {
            let Some(name) = size_name(size.order) else { continue };
            let bytes = size.order.bytes() as f64;
            self.set(&format!("potential_{name}_bytes"), size.unknown_movable.value * bytes);
            let pessimistic = size.unknown_unmovable.value * bytes;
            self.set(&format!("potential_{name}_if_unknown_unmovable_bytes"), pessimistic);
        }
        for counted in &figures.classes {
            let name = format!("class_{}_bytes", counted.class.name());
            self.set(&name, counted.frames.value * frame);
        }
        for source in &figures.sources {
            let name = source.class.name();
            self.set(&format!("polluted_by_{name}_pageblocks"), source.blocks.value);
            self.set(&format!("polluted_by_{name}_alone_pageblocks"), source.blocks_alone.value);
        }
        self.map = letters(&figures.map);
    }

    /// The value of a column; `None` if it is missing or there is no such column.
    pub fn integer(&self, column: &str) -> Option<i64> {
        self.integers.get(place(column)?).copied().flatten()
    }

    /// The same as a number of bytes or things, 0 if it is missing or negative.
    pub fn count(&self, column: &str) -> u64 {
        self.integer(column).and_then(|value| u64::try_from(value).ok()).unwrap_or(0)
    }

    /// Whole pageblocks of initialized memory, of which the polluted ones are a share; `None` without
    /// a walk over the frames.
    pub fn initialized_pageblocks(&self) -> Option<u64> {
        self.integer("whole_pageblocks")?;
        let uninitialized = self.count("class_uninitialized_bytes") / Order::HUGE.bytes();
        Some(self.count("whole_pageblocks").saturating_sub(uninitialized))
    }

    /// F_u of one order of all zones together.
    pub fn unusable(&self, order: Order) -> Option<f64> {
        self.shares.get(order.index()).copied().flatten()
    }

    /// The same for every order of [`share_columns`].
    pub fn all_unusable(&self) -> impl Iterator<Item = Option<f64>> {
        self.shares.iter().copied()
    }

    /// How fast a column rose since `before`, a second; `None` where either is missing, the clock
    /// stood still, or the column fell, as it does at a boot.
    pub fn rate(&self, before: &Summary, column: &str) -> Option<f64> {
        let seconds = (self.at_unix_ns - before.at_unix_ns) as f64 / 1e9;
        let rise = self.integer(column)? - before.integer(column)?;
        (seconds > 0.0 && rise >= 0).then(|| rise as f64 / seconds)
    }

    /// The regions of a node.
    pub fn regions_of(&self, node: u32) -> Option<&RegionsRow> {
        self.regions.iter().find(|row| row.node == node)
    }

    /// How fast a counter of a node's regions rose since `before`, a second; as [`Summary::rate`].
    pub fn regions_rate(
        &self,
        before: &Summary,
        node: u32,
        counter: impl Fn(&RegionsRow) -> Option<u64>,
    ) -> Option<f64> {
        let seconds = (self.at_unix_ns - before.at_unix_ns) as f64 / 1e9;
        let (now, then) = (counter(self.regions_of(node)?)?, counter(before.regions_of(node)?)?);
        let rise = now.checked_sub(then)?;
        (seconds > 0.0).then(|| rise as f64 / seconds)
    }

    /// The cells of the map.
    pub fn cells(&self) -> impl Iterator<Item = MapCell> {
        self.map.chars().map(MapCell::of)
    }

    /// Sets a column that exists; a value that is no number leaves it missing.
    fn set(&mut self, column: &str, value: f64) {
        if let Some(at) = place(column).filter(|_| value.is_finite()) {
            self.integers[at] = Some(value.round() as i64);
        }
    }

    pub(crate) fn integers(&self) -> &[Option<i64>] {
        &self.integers
    }

    pub(crate) fn shares(&self) -> &[Option<f64>] {
        &self.shares
    }

    /// Sets what a file has under this name, if there is such a column.
    pub(crate) fn put(&mut self, column: &str, value: i64) {
        if let Some(at) = place(column) {
            self.integers[at] = Some(value);
        }
    }

    /// The same for a share.
    pub(crate) fn put_share(&mut self, column: &str, value: f64) {
        if let Some(at) = share_columns().iter().position(|name| name == column) {
            self.shares[at] = Some(value);
        }
    }
}

/// The name of a size in columns.
fn size_name(order: Order) -> Option<&'static str> {
    match order {
        Order::HUGE => Some("2m"),
        Order::MIB_32 => Some("32m"),
        Order::GIGANTIC => Some("1g"),
        _ => None,
    }
}

/// The cells of all zones, one after another, without the holes between them.
fn letters(map: &BlockMap) -> String {
    let cells = map.zones.iter().flat_map(|zone| &zone.cells);
    let letter = |cell: &prairie_host::Cell| {
        let mixed = cell.class.mobility() != Mobility::Unmovable;
        let is_polluted = mixed && cell.unmovable_frames > 0;
        MapCell { class: cell.class, is_polluted }.letter()
    };
    cells.map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_unique_and_letters_are_read_back() {
        let mut names: Vec<&str> = integer_columns().iter().map(String::as_str).collect();
        names.extend(share_columns().iter().map(String::as_str));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for class in FrameClass::ALL {
            for is_polluted in [false, true] {
                let is_polluted = is_polluted && class != FrameClass::Absent;
                let cell = MapCell { class, is_polluted };
                assert_eq!(MapCell::of(cell.letter()), cell);
            }
        }
        for nonsense in ['!', 'Z', 'z', 'é', '\0', 'R'] {
            assert_eq!(MapCell::of(nonsense).class, FrameClass::Absent, "{nonsense:?}");
        }
    }

    #[test]
    fn rates_are_a_second_and_survive_a_boot() {
        let (mut before, mut now) = (Summary::empty(0), Summary::empty(2_000_000_000));
        before.put("vmstat_compact_stall", 10);
        now.put("vmstat_compact_stall", 16);
        assert_eq!(now.rate(&before, "vmstat_compact_stall"), Some(3.0));
        assert_eq!(before.rate(&now, "vmstat_compact_stall"), None);
        now.put("vmstat_compact_stall", 3);
        assert_eq!(now.rate(&before, "vmstat_compact_stall"), None);
        assert_eq!(now.rate(&before, "vmstat_compact_fail"), None);
        assert_eq!(now.rate(&before, "no_such_column"), None);
    }

    #[test]
    fn rates_of_regions_are_those_of_a_node() {
        let row = |seconds: i64, waits: [Option<u64>; 2]| {
            let node = |(node, waits)| RegionsRow { node, waits, ..RegionsRow::default() };
            let regions = [0, 2].into_iter().zip(waits).map(node).collect();
            Summary { regions, ..Summary::empty(seconds * 1_000_000_000) }
        };
        let (before, now) = (row(0, [Some(3), Some(8)]), row(2, [Some(4), Some(7)]));
        let rate = |node| now.regions_rate(&before, node, |row| row.waits);
        assert_eq!((rate(0), rate(1), rate(2)), (Some(0.5), None, None));
        assert_eq!(now.regions_rate(&now, 0, |row| row.waits), None);
        let unknown = row(4, [None, Some(9)]);
        assert_eq!(unknown.regions_rate(&now, 0, |row| row.waits), None);
        assert_eq!(unknown.regions_rate(&now, 2, |row| row.waits), Some(1.0));
    }

    #[test]
    fn pollution_is_a_share_of_the_pageblocks_that_are_initialized() {
        let mut row = Summary::empty(0);
        assert_eq!(row.initialized_pageblocks(), None);
        row.put("whole_pageblocks", 10);
        row.put("class_uninitialized_bytes", 3 << 21);
        assert_eq!(row.initialized_pageblocks(), Some(7));
    }
}
