//! A playback on page heaps as a report.

use prairie_heap::playback::{Release, Results, Sample, SystemResults};
use prairie_heap::{HugePages, Pages};
use prairie_report::{
    Axis, Block, Cell, Column, Definition, KeyFigure, LineChart, Report, Section, Series, Shape,
    Table, Unit, number,
};

/// The report on a playback; `source` says where the calls come from.
pub fn report(source: &str, results: &Results, generated_by: String) -> Report {
    let release = match results.release {
        Release::Off => "no release on request".to_owned(),
        Release::Recorded => "releases as recorded".to_owned(),
        Release::BytesPerSecond(rate) => format!("{} released per second", number::bytes(rate)),
    };
    Report {
        title: "The same program on other page heaps".to_owned(),
        subtitle: format!(
            "{source} · {} in {} · {release}",
            number::counted(results.events, "call"),
            number::duration(results.duration_ns)
        ),
        generated_by,
        sections: vec![summary(results), over_time(&results.systems), at_the_end(results), words()],
    }
}

fn summary(results: &Results) -> Section {
    let figure = |system: &SystemResults| KeyFigure {
        value: number::percent(system.means.overhead),
        label: format!("overhead under {}, on average over time", system.system),
        definition: format!(
            "{} of its memory was on huge pages",
            number::percent(system.means.coverage)
        ),
    };
    let mut blocks = vec![
        Block::KeyFigures(results.systems.iter().map(figure).collect()),
        Block::Table(side_by_side(&results.systems)),
    ];
    let oddities = results.oddities;
    let odd = oddities.deletes_of_unknown_spans + oddities.news_of_live_spans;
    if odd > 0 {
        blocks.push(Block::Warning(format!(
            "{} calls do not match: the trace is incomplete.",
            number::count(odd)
        )));
    }
    let refused: u64 = results.systems.iter().map(|system| system.totals.spans_refused).sum();
    if refused > 0 {
        blocks.push(Block::Warning(format!(
            "{} spans found no address space (16 TiB).",
            number::count(refused)
        )));
    }
    Section {
        heading: "Overhead and coverage".to_owned(),
        intro: "Each page heap placed the same spans. The kernel is modeled: a huge page wherever \
                one fits; each span counts as written to when it is handed out."
            .to_owned(),
        blocks,
    }
}

/// One row for each measure, one column for each page heap.
fn side_by_side(systems: &[SystemResults]) -> Table {
    let mut columns = vec![Column::text("")];
    columns.extend(systems.iter().map(|system| Column::number(&system.system)));
    let row = |name: &str, value: &dyn Fn(&SystemResults) -> String| {
        let mut cells = vec![Cell::from(name)];
        cells.extend(systems.iter().map(|system| Cell::from(value(system))));
        cells
    };
    let size = |pages: f64| number::bytes((pages * Pages::SIZE as f64) as u64);
    let pages = |pages: Pages| number::bytes(pages.bytes());
    Table {
        title: "Side by side".to_owned(),
        columns,
        rows: vec![
            row("in spans, mean", &|system| size(system.means.live_pages)),
            row("resident, mean", &|system| size(system.means.resident_pages)),
            row("overhead, mean", &|system| number::percent(system.means.overhead)),
            row("hugepage coverage, mean", &|system| number::percent(system.means.coverage)),
            row("resident, peak", &|system| pages(system.totals.peak_resident_pages)),
            row("released on request", &|system| pages(system.totals.released_on_request_pages)),
            row("released, total", &|system| pages(system.stats.released_pages)),
            row("huge pages split", &|system| number::count(system.totals.calls.huge_pages_split)),
            row("page faults", &|system| number::count(system.totals.calls.faults)),
            row("system calls", &|system| {
                number::count(system.totals.calls.reserve + system.totals.calls.release)
            }),
        ],
        notes: Vec::new(),
    }
}

fn over_time(systems: &[SystemResults]) -> Section {
    let start = systems.iter().filter_map(|system| system.samples.first()).map(|s| s.time_ns).min();
    let start = start.unwrap_or(0);
    let series = |name: String, samples: &[Sample], value: &dyn Fn(&Sample) -> f64| Series {
        name,
        points: samples
            .iter()
            .map(|sample| ((sample.time_ns - start) as f64 / 1e9, value(sample)))
            .collect(),
    };
    let bytes = |pages: Pages| pages.bytes() as f64;
    let mut memory = Vec::new();
    if let Some(first) = systems.first() {
        memory.push(series("in spans".to_owned(), &first.samples, &|s| bytes(s.live_pages)));
    }
    memory.extend(systems.iter().map(|system| {
        series(system.system.clone(), &system.samples, &|s| bytes(s.resident_pages))
    }));
    let coverage = systems.iter().map(|system| {
        series(system.system.clone(), &system.samples, &|s| {
            s.huge_pages.0 as f64 / s.resident_pages.0 as f64
        })
    });
    let mut blocks = vec![
        Block::LineChart(chart(
            "Memory",
            "Memory in spans, and resident memory of each page heap.",
            Unit::Bytes,
            memory,
        )),
        Block::LineChart(chart(
            "Hugepage coverage",
            "Share of the memory that is on huge pages.",
            Unit::Share,
            coverage.collect(),
        )),
    ];
    if let Some(system) = systems.iter().find(|system| system.system == "temeraire") {
        let huge = |huge_pages: u64| HugePages(huge_pages).bytes() as f64;
        let lines = vec![
            series("demand".to_owned(), &system.samples, &|s| huge(s.demand_huge_pages)),
            series("demand and cache limit".to_owned(), &system.samples, &|s| {
                huge(s.demand_huge_pages + s.cache_limit_huge_pages)
            }),
            series("demand and cache".to_owned(), &system.samples, &|s| {
                huge(s.demand_huge_pages + s.cached_huge_pages)
            }),
        ];
        blocks.push(Block::LineChart(chart(
            "The HugeCache of temeraire",
            "Huge pages in use, the cache's limit above them, and its contents.",
            Unit::Bytes,
            lines,
        )));
    }
    Section { heading: "Over time".to_owned(), intro: String::new(), blocks }
}

fn chart(title: &str, caption: &str, unit: Unit, series: Vec<Series>) -> LineChart {
    LineChart {
        title: title.to_owned(),
        caption: caption.to_owned(),
        x: Axis::new("time", Unit::Seconds),
        y: Axis::new(title, unit),
        series,
        shape: Shape::Steps,
    }
}

/// The statistics of each page heap.
fn at_the_end(results: &Results) -> Section {
    let blocks = results
        .systems
        .iter()
        .map(|system| {
            let lines: Vec<String> =
                system.stats.to_string().lines().map(|line| line.trim().to_owned()).collect();
            Block::Text(lines.join("\n\n"))
        })
        .collect();
    Section {
        heading: "At the end".to_owned(),
        intro: "As the page heaps report it: *backed* is their own estimate, not what the kernel \
                counts."
            .replace('*', ""),
        blocks,
    }
}

fn words() -> Section {
    let word = |term: &str, meaning: &str| Definition {
        term: term.to_owned(),
        meaning: meaning.to_owned(),
    };
    Section {
        heading: "Words".to_owned(),
        intro: String::new(),
        blocks: vec![Block::Definitions(vec![
            word("span", "Whole pages of 8 KiB that the page heap hands out as one."),
            word("overhead", "Resident memory in no span, divided by memory in spans."),
            word("hugepage coverage", "Share of the resident memory that is on huge pages."),
            word("resident", "Backed by physical memory, by the modeled kernel's account."),
            word("split", "A huge page that was partly released: the rest is small pages."),
        ])],
    }
}
