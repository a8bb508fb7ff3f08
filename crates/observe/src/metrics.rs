//! The metrics of `prairie export`: which there are, and their values.
//!
//! [`families`] is the list, which [`prairie_daemon::metrics`] writes and serves. Names follow the rules of
//! Prometheus: the prefix `prairie`, base units at the end, `_total` for counters. What a sample
//! estimates has its 95 % interval in a metric of its own, `…_interval_…{limit="low"|"high"}`, so
//! that sums over the metric itself stay meaningful.

mod regions;

use prairie_daemon::metrics::{Family, Kind, Series, Value};
use prairie_frames::Order;

use crate::estimate::Estimate;
use crate::figures::Figures;
use crate::moment::Moment;
use crate::walk::full_walk_seconds;

/// What the exporter itself takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Own {
    /// CPU time of the process.
    pub cpu_seconds: f64,
    /// Its resident memory.
    pub resident_bytes: u64,
}

/// A value without labels.
fn one(value: f64) -> Vec<Series> {
    vec![Series::number(Vec::new(), value)]
}

fn label<const N: usize>(labels: [(&'static str, &str); N], value: f64) -> Series {
    let labels = labels.map(|(name, value)| (name, value.to_owned())).to_vec();
    Series::number(labels, value)
}

/// Every metric that has a value. Without frames, those of frames are missing.
pub fn families(moment: &Moment, figures: Option<&Figures>, own: Own) -> Vec<Family> {
    let mut all = vec![info(moment)];
    all.extend(free_lists(moment));
    if let Some(figures) = figures {
        all.extend(contiguity(figures));
        all.extend(classes(figures));
        all.extend(pollution(figures));
        all.extend(walk(figures));
    }
    all.extend(huge_pages(moment));
    all.extend(pressure(moment));
    all.extend(moment.contiguitas.iter().flat_map(regions::families));
    all.extend(moment.counters.iter().map(|kernel| {
        let stem = format!("prairie_vmstat_{}", kernel.name);
        Family::counter(&stem, None, &sentence(kernel.meaning), one(kernel.value as f64))
    }));
    all.push(left_out(moment));
    let (cpu, resident) = (one(own.cpu_seconds), one(own.resident_bytes as f64));
    all.push(Family::counter(
        "prairie_export_cpu",
        Some("seconds"),
        "CPU time of the exporter",
        cpu,
    ));
    all.push(Family::gauge(
        "prairie_export_resident",
        Some("bytes"),
        "Resident memory of the exporter",
        resident,
    ));
    all.retain(|family| !family.series.is_empty());
    all
}

fn info(moment: &Moment) -> Family {
    let labels = [
        ("version", env!("CARGO_PKG_VERSION")),
        ("kernel", moment.kernel_release.as_str()),
        ("machine", moment.machine.as_str()),
    ];
    let help = "Version of Prairie, kernel release, and architecture";
    Family { kind: Kind::Info, ..Family::gauge("prairie", None, help, vec![label(labels, 1.0)]) }
}

fn free_lists(moment: &Moment) -> Vec<Family> {
    let (mut blocks, mut unusable, mut free) = (Vec::new(), Vec::new(), Vec::new());
    for zone in &moment.zones {
        let (node, kind) = (zone.id.node.to_string(), zone.id.kind.name());
        let place = |order: &str| {
            vec![("node", node.clone()), ("zone", kind.to_owned()), ("order", order.to_owned())]
        };
        let bytes = zone.lists.free_frames as f64 * Order::BASE.bytes() as f64;
        free.push(label([("node", node.as_str()), ("zone", kind)], bytes));
        for (order, count) in zone.lists.blocks_by_order.iter().enumerate() {
            blocks.push(Series {
                labels: place(&order.to_string()),
                value: Value::Number(*count as f64),
            });
        }
        for index in &zone.lists.indices {
            let labels = place(&index.order.to_string());
            unusable.push(Series::number(labels, index.unusable_free_space_index));
        }
    }
    vec![
        Family::gauge("prairie_free", Some("bytes"), "Free memory on the buddy lists", free),
        Family::gauge(
            "prairie_free_blocks",
            None,
            "Free blocks on the buddy lists, by order",
            blocks,
        ),
        Family::gauge(
            "prairie_unusable_free_space",
            Some("ratio"),
            "F_u: share of free memory in blocks smaller than this order; 1 if nothing is free",
            unusable,
        ),
    ]
}

/// A figure, and the ends of its interval.
struct Both {
    values: Vec<Series>,
    intervals: Vec<Series>,
}

impl Both {
    fn new() -> Both {
        Both { values: Vec::new(), intervals: Vec::new() }
    }

    fn push<const N: usize>(&mut self, labels: [(&'static str, &str); N], figure: Estimate) {
        let value = label(labels, figure.value);
        for (limit, end) in [("low", figure.low), ("high", figure.high)] {
            let mut labels = value.labels.clone();
            labels.push(("limit", limit.to_owned()));
            self.intervals.push(Series::number(labels, end));
        }
        self.values.push(value);
    }

    fn families(self, stem: &str, unit: Option<&'static str>, help: &str) -> [Family; 2] {
        let interval = format!("{stem}_interval");
        let about = format!("{help}: 95 % interval of what was sampled");
        [
            Family::gauge(stem, unit, help, self.values),
            Family::gauge(&interval, unit, &about, self.intervals),
        ]
    }
}

fn contiguity(figures: &Figures) -> Vec<Family> {
    let (mut available, mut potential) = (Both::new(), Both::new());
    for size in &figures.available {
        let bytes = size.order.bytes();
        available
            .push([("block_bytes", bytes.to_string().as_str())], size.blocks.times(bytes as f64));
    }
    for size in &figures.potential {
        let bytes = size.order.bytes();
        for (unknown, blocks) in
            [("movable", size.unknown_movable), ("unmovable", size.unknown_unmovable)]
        {
            let labels = [("block_bytes", bytes.to_string()), ("unknown", unknown.to_owned())];
            let labels = [(labels[0].0, labels[0].1.as_str()), (labels[1].0, labels[1].1.as_str())];
            potential.push(labels, blocks.times(bytes as f64));
        }
    }
    let available = available.families(
        "prairie_available_contiguity",
        Some("bytes"),
        "Memory in aligned, wholly free blocks of this size",
    );
    let potential = potential.families(
        "prairie_potential_contiguity",
        Some("bytes"),
        "Memory in aligned blocks of this size without an unmovable frame, unknown frames taken \
         either way",
    );
    available.into_iter().chain(potential).collect()
}

fn classes(figures: &Figures) -> Vec<Family> {
    let mut by_class = Both::new();
    for counted in &figures.classes {
        let mobility = counted.class.mobility().name();
        let labels = [("class", counted.class.name()), ("mobility", mobility)];
        by_class.push(labels, counted.frames.times(Order::BASE.bytes() as f64));
    }
    by_class
        .families(
            "prairie_class",
            Some("bytes"),
            "Memory by what fills its frames, and whether software can move it",
        )
        .into()
}

fn pollution(figures: &Figures) -> Vec<Family> {
    let (mut polluted, mut sources, mut alone) = (Both::new(), Both::new(), Both::new());
    polluted.push([("unknown", "movable")], figures.polluted);
    polluted.push([("unknown", "unmovable")], figures.polluted_if_unknown_unmovable);
    for source in &figures.sources {
        let labels = [("source", source.class.name())];
        sources.push(labels, source.blocks);
        alone.push(labels, source.blocks_alone);
    }
    let whole = Family::gauge(
        "prairie_whole_pageblocks",
        None,
        "Pageblocks of 2 MiB all of whose frames exist",
        one(figures.whole.value),
    );
    let polluted = polluted.families(
        "prairie_polluted_pageblocks",
        None,
        "Whole pageblocks with at least one unmovable frame",
    );
    let sources = sources.families(
        "prairie_source_pageblocks",
        None,
        "Whole pageblocks with at least one unmovable frame of this source",
    );
    let alone = alone.families(
        "prairie_source_alone_pageblocks",
        None,
        "Whole pageblocks that this source alone pollutes",
    );
    [whole].into_iter().chain(polluted).chain(sources).chain(alone).collect()
}

fn walk(figures: &Figures) -> Vec<Family> {
    let tebibyte = full_walk_seconds(figures, (1u64 << 40) as f64);
    vec![
        Family::gauge(
            "prairie_walk_timestamp",
            Some("seconds"),
            "When page flags were read last: seconds since 1970",
            one(figures.at_unix_ns as f64 / 1e9),
        ),
        Family::gauge(
            "prairie_walk_cpu",
            Some("seconds"),
            "CPU time of the last walk over page flags",
            one(figures.cpu_seconds),
        ),
        Family::gauge(
            "prairie_walk_cpu_per_tebibyte",
            Some("seconds"),
            "CPU time of a full walk over 1 TiB at the cost of the last walk",
            one(tebibyte),
        ),
        Family::gauge(
            "prairie_walk_read_pageblocks",
            None,
            "Pageblocks that the last walk read",
            one(figures.pageblocks_read as f64),
        ),
        Family::gauge(
            "prairie_pageblocks",
            None,
            "Pageblocks with memory",
            one(figures.pageblocks as f64),
        ),
    ]
}

fn huge_pages(moment: &Moment) -> Vec<Family> {
    let mut all = Vec::new();
    if let Some(host) = &moment.huge_pages.host {
        let size = |stem: &str, help: &str, bytes: u64| {
            Family::gauge(stem, Some("bytes"), help, one(bytes as f64))
        };
        all.push(size("prairie_anonymous", "Anonymous memory", host.anonymous_bytes));
        let help = "Anonymous memory on huge pages";
        all.push(size("prairie_anonymous_huge", help, host.anonymous_huge_bytes));
        let help = "Shared memory and tmpfs on huge pages";
        all.push(size("prairie_shmem_huge", help, host.shmem_huge_bytes));
        let help = "Page cache on huge pages";
        all.push(size("prairie_file_huge", help, host.file_huge_bytes));
        let coverage = host.anonymous_coverage.map(one).unwrap_or_default();
        let help = "Huge-page coverage: anonymous memory on huge pages, by all of it";
        all.push(Family::gauge("prairie_huge_page_coverage", Some("ratio"), help, coverage));
    }
    if let Some(total) = moment.sizes.get("MemTotal") {
        let help = "Memory that the kernel manages (MemTotal)";
        all.push(Family::gauge("prairie_memory", Some("bytes"), help, one(*total as f64)));
    }
    let (mut pages, mut free) = (Vec::new(), Vec::new());
    for pool in &moment.huge_pages.hugetlb_pools {
        let size = pool.page_bytes.to_string();
        pages.push(label([("page_bytes", &size)], pool.pages as f64));
        free.push(label([("page_bytes", &size)], pool.free_pages as f64));
    }
    all.push(Family::gauge("prairie_hugetlb_pages", None, "Pages in the hugetlb pool", pages));
    all.push(Family::gauge(
        "prairie_hugetlb_free_pages",
        None,
        "Unused pages in the hugetlb pool",
        free,
    ));
    all
}

fn pressure(moment: &Moment) -> Vec<Family> {
    let Some(pressure) = &moment.pressure else { return Vec::new() };
    let seconds = |us: u64| us as f64 / 1e6;
    let mut series = vec![label([("kind", "some")], seconds(pressure.some.total_us))];
    if let Some(full) = &pressure.full {
        series.push(label([("kind", "full")], seconds(full.total_us)));
    }
    let help = "Time in which some, or all, tasks waited for memory (PSI)";
    vec![Family::counter("prairie_memory_pressure", Some("seconds"), help, series)]
}

fn left_out(moment: &Moment) -> Family {
    let row = |left: &prairie_host::LeftOut| {
        let file = left.why.split(':').next().unwrap_or_default();
        label([("file", file)], 1.0)
    };
    let help = "1 for each file that could not be read";
    Family::gauge("prairie_unreadable_file", None, help, moment.left_out.iter().map(row).collect())
}

/// A meaning as help: with a capital, and complete where a list of all counters refers to the one
/// before.
fn sentence(meaning: &str) -> String {
    let stopped = "allocations that stopped to compact memory and then";
    let meaning = meaning.replace("of these, allocations that then", stopped);
    let mut letters = meaning.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
