//! The comparison report of the 2006 paper (Figure 11) and its graphs (Figures 5 to 8, 12, 13).

use prairie_report::{
    Axis, BarChart, BarSeries, Block, Cell, LineChart, Report, Section, Series, Shape, Table, Unit,
    number,
};
use prairie_sim::bench::{Load, Outcome, Pass, Preset};
use prairie_sim::machine::Obstacles;

use super::{all_counters, columns, compared, quoted};

/// Zones in the order of the paper's report. Its EasyRclm zone is the movable zone.
const ZONES: [&str; 5] = ["DMA", "DMA32", "Normal", "HighMem", "Movable"];

/// An obstacle's row: its name, and the number of blocks that contain it.
type Obstacle = (&'static str, fn(&Obstacles) -> u64);

/// Obstacles in the blocks that could not be allocated.
const OBSTACLES: [Obstacle; 4] = [
    ("Failed: contains kernel memory", |o| o.kernel),
    ("Failed: contains anonymous memory", |o| o.anonymous),
    ("Failed: contains page cache", |o| o.file),
    ("Failed: free, partly on per-CPU lists", |o| o.per_cpu),
];

/// The whole report.
pub fn report(
    preset: Preset,
    load: Load,
    seed: u64,
    systems: &[Outcome],
    generated_by: String,
) -> Report {
    let scenario = preset.scenario(seed);
    let load = match load {
        Load::Light => "light load: one compile at a time".to_owned(),
        Load::Heavy => format!("heavy load: {} compiles at a time", preset.compiles(load)),
    };
    Report {
        title: "Kernel comparison report".to_owned(),
        subtitle: format!(
            "machine {preset} · {} · huge pages of order {} · {load} · seed {seed}",
            number::bytes(scenario.machine.memory.0),
            scenario.machine.huge_order,
        ),
        generated_by,
        sections: vec![
            kbuild(systems),
            highalloc(systems),
            hugetlb(systems),
            graphs(systems),
            counters(systems),
        ],
    }
}

fn table(title: &str, systems: &[Outcome], rows: Vec<(String, Vec<Cell>)>) -> Table {
    Table {
        title: title.to_owned(),
        columns: columns(systems.iter().map(|s| s.system.as_str())),
        rows: rows
            .into_iter()
            .map(|(name, cells)| std::iter::once(name.into()).chain(cells).collect())
            .collect(),
        notes: Vec::new(),
    }
}

/// A row of plain counts.
fn counts(name: &str, systems: &[Outcome], value: impl Fn(&Outcome) -> u64) -> (String, Vec<Cell>) {
    (name.to_owned(), systems.iter().map(|s| number::count(value(s)).into()).collect())
}

/// A row of numbers compared with the first allocator's.
fn against_first(
    name: &str,
    systems: &[Outcome],
    decimals: usize,
    value: impl Fn(&Outcome) -> f64,
) -> (String, Vec<Cell>) {
    let first = systems.first().map_or(0.0, &value);
    let cell = |s: &Outcome| compared(value(s), first, format!("{:.decimals$}", value(s)));
    (name.to_owned(), systems.iter().map(cell).collect())
}

fn kbuild(systems: &[Outcome]) -> Section {
    let rows = vec![
        against_first("Time taken to extract kernel (s)", systems, 0, |s| s.kbuild.extract_s),
        against_first("Time taken to build kernel (s)", systems, 0, |s| s.kbuild.build_s),
    ];
    Section {
        heading: "KBuild".to_owned(),
        intro: "In simulated time, in which a step costs the same under every allocator: what \
                differs is reclaim."
            .to_owned(),
        blocks: vec![Block::Table(table("", systems, rows))],
    }
}

/// Figure 11's three tables.
fn highalloc(systems: &[Outcome]) -> Section {
    let one = |title: &str, pass: fn(&Outcome) -> &Pass| {
        let mut rows = vec![
            counts("Order", systems, |s| u64::from(s.highalloc.order)),
            counts("Success allocs", systems, |s| pass(s).success),
            counts("Failed allocs", systems, |s| pass(s).failed),
        ];
        for zone in ZONES {
            let of = |s: &Outcome| pass(s).by_zone.get(zone).copied().unwrap_or(0);
            if systems.iter().any(|s| of(s) > 0) {
                let name = if zone == "Movable" { "EasyRclm" } else { zone };
                rows.push(counts(&format!("{name} zone allocs"), systems, of));
            }
        }
        rows.push(counts("% Success", systems, |s| pass(s).percent()));
        for (name, of) in OBSTACLES {
            let sum = |s: &Outcome| pass(s).obstacles.values().map(of).sum();
            rows.push(counts(name, systems, sum));
        }
        let index = |value: Option<f64>| value.map_or("–".to_owned(), number::index);
        let cells = |value: &dyn Fn(&Pass) -> Option<f64>| -> Vec<Cell> {
            systems.iter().map(|s| index(value(pass(s))).into()).collect()
        };
        rows.push(("F_u at the first attempt".into(), cells(&|p| p.unusable().map(|u| u.0))));
        rows.push(("F_u at the last attempt".into(), cells(&|p| p.unusable().map(|u| u.1))));
        rows.push(("mean F_i at failures".into(), cells(&|p| p.mean_fragmentation)));
        Block::Table(table(title, systems, rows))
    };
    Section {
        heading: "High Allocation Stress Test Comparison".to_owned(),
        intro: "Each huge page that fits into memory is requested once. F_i towards 1 says that a \
                failure was due to fragmentation, towards 0 that memory was short."
            .to_owned(),
        blocks: vec![
            one("HighAlloc Under Load Test Results Pass 1", |s| &s.highalloc.load_1),
            one("HighAlloc Under Load Test Results Pass 2", |s| &s.highalloc.load_2),
            one("HighAlloc Test Results while Rested", |s| &s.highalloc.rest),
        ],
    }
}

fn hugetlb(systems: &[Outcome]) -> Section {
    let rows = vec![
        counts("During compile", systems, |s| s.hugetlb.during_compile),
        counts("At rest before dd of large file", systems, |s| s.hugetlb.at_rest_before_dd),
        counts("At rest after dd of large file", systems, |s| s.hugetlb.at_rest_after_dd),
    ];
    let mib = systems.first().map_or(0, |s| s.hotremove.section_mib);
    let sections = vec![
        counts("Sections", systems, |s| s.hotremove.sections),
        counts("Sections offlined", systems, |s| s.hotremove.offlined),
        counts("% Offlined", systems, |s| s.hotremove.percent()),
    ];
    let mut blocks = vec![Block::Table(table("HugeTLB Page Capability Comparison", systems, rows))];
    blocks.extend(gigantic(systems));
    blocks.push(Block::Table(table(
        &format!("HotRemove Capability, sections of {mib} MiB"),
        systems,
        sections,
    )));
    Section {
        heading: "HugeTLB page capability and hot remove".to_owned(),
        intro: String::new(),
        blocks,
    }
}

/// 1 GiB pages, on a machine that supports them.
fn gigantic(systems: &[Outcome]) -> Option<Block> {
    systems.iter().any(|s| s.hugetlb.gigantic.of > 0).then(|| {
        let rows = vec![
            counts("Would fill memory", systems, |s| s.hugetlb.gigantic.of),
            counts("Pool, during compile", systems, |s| s.hugetlb.gigantic.first),
            counts("Pool, at rest before dd", systems, |s| s.hugetlb.gigantic.second),
            counts("Pool, at rest after dd", systems, |s| s.hugetlb.gigantic.third),
            counts("After HighAlloc pass 1", systems, |s| s.highalloc.gigantic.first),
            counts("After HighAlloc pass 2", systems, |s| s.highalloc.gigantic.second),
            counts("After HighAlloc at rest", systems, |s| s.highalloc.gigantic.third),
        ];
        Block::Table(table("Pages of 1 GiB (order 18)", systems, rows))
    })
}

fn graphs(systems: &[Outcome]) -> Section {
    let series = |points: &dyn Fn(&Pass) -> Vec<(f64, f64)>| -> Vec<Series> {
        let one =
            |s: &Outcome| Series { name: s.system.clone(), points: points(&s.highalloc.rest) };
        systems.iter().map(one).collect()
    };
    let unusable = series(&|pass| {
        pass.attempts.iter().enumerate().map(|(at, a)| (at as f64, a.unusable)).collect()
    });
    let fragmentation = series(&|pass| {
        let failures = pass.attempts.iter().enumerate();
        failures.filter_map(|(at, a)| Some((at as f64, a.fragmentation?))).collect()
    });
    let chart = |title: &str, y: &str, series| {
        Block::LineChart(LineChart {
            title: title.to_owned(),
            caption: String::new(),
            x: Axis::new("attempt", Unit::Count),
            y: Axis::new(y, Unit::Number).within(0.0, 1.0),
            series,
            shape: Shape::Straight,
        })
    };
    let percent = |s: &Outcome| {
        let h = &s.highalloc;
        vec![h.load_1.percent() as f64, h.load_2.percent() as f64, h.rest.percent() as f64]
    };
    let pool = |s: &Outcome| {
        let h = &s.hugetlb;
        vec![h.during_compile as f64, h.at_rest_before_dd as f64, h.at_rest_after_dd as f64]
    };
    let bars =
        |title: &str, y: &str, categories: [&str; 3], values: &dyn Fn(&Outcome) -> Vec<f64>| {
            let one = |s: &Outcome| BarSeries { name: s.system.clone(), values: values(s) };
            Block::BarChart(BarChart {
                title: title.to_owned(),
                caption: String::new(),
                x: Axis::new("", Unit::Number),
                y: Axis::new(y, Unit::Number),
                categories: categories.map(str::to_owned).into(),
                series: systems.iter().map(one).collect(),
            })
        };
    Section {
        heading: "Graphs".to_owned(),
        intro: "The first two of the pass at rest.".to_owned(),
        blocks: vec![
            chart("Unusable free space index at each attempt", "F_u", unusable),
            chart("Fragmentation index at each failure", "F_i", fragmentation),
            bars(
                "High allocation stress test",
                "% success",
                ["load, pass 1", "load, pass 2", "at rest"],
                &percent,
            ),
            bars(
                "HugeTLB page capability",
                "huge pages",
                ["during compile", "at rest before dd", "at rest after dd"],
                &pool,
            ),
        ],
    }
}

fn counters(systems: &[Outcome]) -> Section {
    let of: Vec<_> = systems.iter().map(|s| (s.system.as_str(), &s.counters)).collect();
    Section {
        heading: "Counters".to_owned(),
        intro: "Over all benchmarks.".to_owned(),
        blocks: vec![Block::Table(quoted(&of)), Block::Table(all_counters(&of))],
    }
}
