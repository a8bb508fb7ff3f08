//! The paper's hardware evaluation as a report.

use prairie_migrate::paper::{APPLICATIONS, Cost, METHODS, Paper, Rate};
use prairie_migrate::protocol::table::Caching;
use prairie_migrate::sim::{Method, Target};
use prairie_migrate::software::Baseline;
use prairie_migrate::workload::Kind;
use prairie_report::{
    Axis, BarChart, BarSeries, Block, Cell, Column, KeyFigure, LineChart, Report, Section, Series,
    Table, Tone, Unit, number,
};

use super::migrate_sim::{change, method_name};

/// The least number of migrations for which an effect is shown.
const MIN_MIGRATIONS: u64 = 10;

const HARDWARE: Method = Method::Hardware(Caching::Cacheable);

/// The report.
pub fn report(paper: &Paper, generated_by: String) -> Report {
    Report {
        title: "Hardware migration of pages in use: the paper's evaluation".to_owned(),
        subtitle: format!(
            "{}, {}, {} each per run; simulated, with in-order cores",
            paper.machine,
            paper.cores,
            number::counted(paper.requests, "request")
        ),
        generated_by,
        sections: vec![
            summary(paper),
            unavailable(paper),
            rates(paper, Kind::Memcached),
            rates(paper, Kind::Nginx),
            huge_pages(paper),
            table(paper),
            costs(paper),
        ],
    }
}

fn section(heading: &str, intro: &str, blocks: Vec<Block>) -> Section {
    Section { heading: heading.to_owned(), intro: intro.to_owned(), blocks }
}

fn nanoseconds(ns: f64) -> String {
    number::duration(ns.round() as u64)
}

fn pages_name(target: Target) -> &'static str {
    match target {
        Target::Buffers => "network buffers",
        Target::Heap => "heap",
    }
}

fn series_name(method: Method, target: Target) -> String {
    format!("{}, {}", method_name(method), pages_name(target))
}

fn summary(paper: &Paper) -> Section {
    let mut figures = Vec::new();
    let mut figure = |value: String, label: String, definition: &str| {
        figures.push(KeyFigure { value, label, definition: definition.to_owned() });
    };
    if let (Some(few), Some(many)) = (paper.unavailable.first(), paper.unavailable.last()) {
        let by_interrupts = |row: &prairie_migrate::paper::Unavailable| {
            let found = row.software_ns.iter().find(|(by, _)| *by == Baseline::Ipi);
            found.map_or(0.0, |(_, ns)| *ns as f64)
        };
        figure(
            format!("{} to {}", nanoseconds(few.hardware_ns), nanoseconds(many.hardware_ns)),
            format!("unavailable with hardware, {} to {} TLBs", few.victims, many.victims),
            "One local invalidation and the page walk after it.",
        );
        figure(
            format!("{} to {}", nanoseconds(by_interrupts(few)), nanoseconds(by_interrupts(many))),
            "with Linux's interrupts".to_owned(),
            "Linear in the number of TLBs.",
        );
    }
    for app in APPLICATIONS {
        let many = paper.rates.iter().find(|rate| {
            rate.workload == app
                && (rate.method, rate.target) == (HARDWARE, Target::Buffers)
                && rate.per_second == 1e5
        });
        if let Some(rate) = many.filter(|rate| rate.moved >= MIN_MIGRATIONS) {
            figure(
                format!("≤ {:.3} %", rate.effect.bound()),
                format!("change of {} at 1,000 migrations a second", app.name()),
                "A hundredth of the most that 100,000 a second change the time per request, by \
                 pairs of runs.",
            );
        }
    }
    for row in &paper.huge_pages {
        figure(
            number::change(row.alone.throughput(), 1),
            format!("throughput of {} with 2 MiB pages", row.workload.name()),
            "Compared with 4 KiB pages, without migrations.",
        );
    }
    section("Summary", "", vec![Block::KeyFigures(figures)])
}

fn unavailable(paper: &Paper) -> Section {
    let mut columns = vec![
        Column::number("TLBs"),
        Column::number("Contiguitas-HW"),
        Column::number("all TLBs invalidated"),
    ];
    columns.extend(Baseline::ALL.iter().map(|baseline| Column::number(baseline.name())));
    let rows = paper.unavailable.iter().map(|row| {
        let mut cells: Vec<Cell> = vec![
            number::count(row.victims).into(),
            nanoseconds(row.hardware_ns).into(),
            nanoseconds(row.hardware_whole_ns).into(),
        ];
        cells.extend(row.software_ns.iter().map(|(_, ns)| number::duration(*ns).into()));
        cells
    });
    let chart = unavailable_chart(paper);
    let table = Table {
        columns,
        rows: rows.collect(),
        notes: vec![
            "Software: the sum of the steps with published costs. Hardware: simulated; nobody \
             waits until all TLBs invalidated."
                .to_owned(),
            "Nomad: its best case, a page without writes during the copy.".to_owned(),
        ],
        ..Table::default()
    };
    section(
        "Unavailable time of a page",
        "The paper: constant with hardware and equal to one local TLB invalidation; linear in the \
         number of TLBs as things are.",
        vec![Block::LineChart(chart), Block::Table(table)],
    )
}

/// Unavailable time by number of TLBs, of all methods.
fn unavailable_chart(paper: &Paper) -> LineChart {
    let hardware = Series {
        name: "Contiguitas-HW".to_owned(),
        points: paper
            .unavailable
            .iter()
            .map(|row| (row.victims as f64, row.hardware_ns / 1e9))
            .collect(),
    };
    let software = Baseline::ALL.iter().enumerate().map(|(at, baseline)| Series {
        name: baseline.name().to_owned(),
        points: paper
            .unavailable
            .iter()
            .map(|row| (row.victims as f64, row.software_ns[at].1 as f64 / 1e9))
            .collect(),
    });
    LineChart {
        title: "Time for which a 4 KiB page is unavailable".to_owned(),
        caption: "A page that a device uses has no software baseline: Linux refuses to move it. \
                  Stop, move, restart is what is left, with generous costs."
            .to_owned(),
        x: Axis::new("TLBs that hold the page", Unit::Count),
        y: Axis::new("unavailable", Unit::Seconds),
        series: std::iter::once(hardware).chain(software).collect(),
        ..LineChart::default()
    }
}

/// The methods that do not interrupt every core, in a chart of their own because the others dwarf
/// them.
fn flat_chart(paper: &Paper) -> LineChart {
    let whole = unavailable_chart(paper);
    let flat = ["Contiguitas-HW", Baseline::Broadcast.name()];
    let series = whole.series.into_iter().filter(|series| flat.contains(&series.name.as_str()));
    LineChart {
        title: "The same for methods without interrupts".to_owned(),
        series: series.collect(),
        ..whole
    }
}

/// A quantity of one application by the rate of migrations, a line a method.
fn rate_chart(
    paper: &Paper,
    app: Kind,
    title: &str,
    y: Axis,
    value: &dyn Fn(&Rate) -> f64,
) -> LineChart {
    let line = |&(method, target): &(Method, Target)| {
        let mine = paper
            .rates
            .iter()
            .filter(|rate| (rate.workload, rate.method, rate.target) == (app, method, target));
        Series {
            name: series_name(method, target),
            points: mine.map(|rate| (rate.per_second.log10(), value(rate))).collect(),
        }
    };
    LineChart {
        title: format!("{}: {title}", app.name()),
        x: Axis::new("requested migrations per second, as a power of ten", Unit::Number),
        y,
        series: METHODS.iter().map(line).collect(),
        ..LineChart::default()
    }
}

/// Pages moved by number of entries of the metadata table.
fn entries_chart(paper: &Paper) -> LineChart {
    let rows = paper.table.iter().filter(|row| row.parameter == "entries");
    LineChart {
        title: "Pages moved per second by entries of the metadata table".to_owned(),
        caption: "A million migrations per second are requested.".to_owned(),
        x: Axis::new("entries", Unit::Count),
        y: Axis::new("pages moved per second", Unit::Count),
        series: vec![Series {
            name: "Contiguitas-HW".to_owned(),
            points: rows.map(|row| (row.value as f64, row.done_per_second)).collect(),
        }],
        ..LineChart::default()
    }
}

/// The names of the pictures, without endings.
pub fn picture_names() -> Vec<String> {
    let of_all = ["unavailable", "unavailable-flat", "entries"].map(str::to_owned);
    let of_app = |app: Kind| ["throughput", "tail"].map(|what| format!("{}-{what}", app.name()));
    of_all.into_iter().chain(APPLICATIONS.into_iter().flat_map(of_app)).collect()
}

/// All curves as pictures for documents, each with the name of its file.
pub fn pictures(paper: &Paper) -> Vec<(String, LineChart)> {
    let mut charts = vec![unavailable_chart(paper), flat_chart(paper), entries_chart(paper)];
    for app in APPLICATIONS {
        let throughput = Axis::new("requests per second", Unit::Number);
        let tail = Axis::new("latency of 99.9 % of requests at 70 % load", Unit::Seconds);
        charts.push(rate_chart(paper, app, "throughput", throughput, &|rate| rate.throughput));
        charts.push(rate_chart(paper, app, "tail latency", tail, &|rate| rate.tail.p999_ns / 1e9));
    }
    picture_names().into_iter().zip(charts).collect()
}

fn rates(paper: &Paper, app: Kind) -> Section {
    let of = |method: Method, target: Target| {
        let mine = move |rate: &&Rate| {
            rate.workload == app && rate.method == method && rate.target == target
        };
        paper.rates.iter().filter(mine)
    };
    let asked: Vec<f64> = of(HARDWARE, Target::Buffers).map(|rate| rate.per_second).collect();
    let chart = |title: &str, axis: Axis, value: &dyn Fn(&Rate) -> f64| BarChart {
        title: format!("{}: {title}", app.name()),
        x: Axis::new("requested migrations per second", Unit::Count),
        y: axis,
        categories: asked.iter().map(|rate| number::short(*rate)).collect(),
        series: METHODS
            .iter()
            .map(|&(method, target)| BarSeries {
                name: series_name(method, target),
                values: of(method, target).map(value).collect(),
            })
            .collect(),
        ..BarChart::default()
    };
    let rows = METHODS.iter().flat_map(|&(method, target)| of(method, target)).map(|rate| {
        vec![
            series_name(rate.method, rate.target).into(),
            number::short(rate.per_second).into(),
            number::short(rate.done_per_second).into(),
            number::short(rate.throughput).into(),
            effect(rate),
            nanoseconds(rate.tail.median_ns).into(),
            nanoseconds(rate.tail.p99_ns).into(),
            nanoseconds(rate.tail.p999_ns).into(),
            number::percent(rate.memory_share).into(),
        ]
    });
    let table = Table {
        columns: vec![
            Column::text("method"),
            Column::number("asked/s"),
            Column::number("done/s"),
            Column::number("requests/s"),
            Column::number("time per request"),
            Column::number("median"),
            Column::number("99 %"),
            Column::number("99.9 %"),
            Column::number("memory"),
        ],
        rows: rows.collect(),
        notes: vec![
            "Time per request: change against the same requests without migrations, mean over \
             cores and twice its error. Latencies: at 70 % load."
                .to_owned(),
            "Software moves one page at a time; requests that arrive meanwhile are dropped."
                .to_owned(),
        ],
        ..Table::default()
    };
    let throughput = Axis::new("requests per second", Unit::Number);
    let tail = Axis::new("latency, 99.9 %", Unit::Seconds);
    let calm =
        paper.calm.iter().find(|calm| calm.workload == app).map_or_else(String::new, |calm| {
            format!(
                " Without migrations: {} requests per second, 99.9 % of them within {}.",
                number::short(calm.throughput),
                nanoseconds(calm.tail.p999_ns)
            )
        });
    section(
        &format!("{}: throughput and tail latency", app.name()),
        &format!(
            "The paper: no impact at 1,000 migrations a second. Higher rates show which resource \
             saturates first.{calm}"
        ),
        vec![
            Block::BarChart(chart("throughput", throughput, &|rate| rate.throughput)),
            Block::BarChart(chart("tail latency at 70 % load", tail, &|rate| {
                rate.tail.p999_ns / 1e9
            })),
            Block::Table(table),
        ],
    )
}

/// The change of the time per request, if there were enough migrations to measure it.
fn effect(rate: &Rate) -> Cell {
    match rate.moved {
        moved if moved >= MIN_MIGRATIONS => change(&rate.effect).into(),
        moved => Cell::toned(format!("{moved} moved: too few"), Tone::Muted),
    }
}

fn huge_pages(paper: &Paper) -> Section {
    let rows = paper.huge_pages.iter().map(|row| {
        vec![
            row.workload.name().into(),
            number::change(row.alone.throughput(), 2).into(),
            number::change(row.with_migrations.throughput(), 2).into(),
            format!("{:.2}", row.walks_per_request.0).into(),
            format!("{:.2}", row.walks_per_request.1).into(),
        ]
    });
    let table = Table {
        columns: vec![
            Column::text("application"),
            Column::number("2 MiB pages"),
            Column::number("2 MiB and 10,000 migrations/s"),
            Column::number("walks per request, 4 KiB"),
            Column::number("2 MiB"),
        ],
        rows: rows.collect(),
        notes: vec!["Change of throughput.".to_owned()],
        ..Table::default()
    };
    section(
        "Huge pages",
        "The paper: Memcached gains 7 % with 2 MiB pages, NGINX nothing.",
        vec![Block::Table(table)],
    )
}

fn table(paper: &Paper) -> Section {
    let rows = paper.table.iter().map(|row| {
        vec![
            row.parameter.into(),
            number::count(row.value).into(),
            number::short(row.done_per_second).into(),
            nanoseconds(row.copy_ns).into(),
            change(&row.effect).into(),
        ]
    });
    let table = Table {
        columns: vec![
            Column::text("migration."),
            Column::number("value"),
            Column::number("done/s"),
            Column::number("copy of a page"),
            Column::number("time per request"),
        ],
        rows: rows.collect(),
        notes: vec![
            "A million migrations of memcached's buffers per second are requested.".to_owned(),
        ],
        ..Table::default()
    };
    section(
        "Metadata table, slices, and engine",
        "Concurrent migrations, the cost of a look-up and of the path to another slice, and how \
         many lines the engine copies at a time.",
        vec![Block::Table(table)],
    )
}

fn costs(paper: &Paper) -> Section {
    let row = |cost: &Cost| -> Vec<Cell> {
        vec![
            method_name(cost.method).into(),
            number::bytes(cost.page_bytes).into(),
            nanoseconds(cost.unavailable_ns).into(),
            nanoseconds(cost.cpu_ns).into(),
            nanoseconds(cost.copy_ns).into(),
            nanoseconds(cost.whole_ns).into(),
        ]
    };
    let time = Table {
        title: "Time of one migration".to_owned(),
        columns: vec![
            Column::text("by"),
            Column::number("page"),
            Column::number("unavailable"),
            Column::number("CPU, all cores"),
            Column::number("copy"),
            Column::number("until the source is freed"),
        ],
        rows: paper.costs.iter().map(row).collect(),
        ..Table::default()
    };
    let rows = paper.costs.iter().filter_map(|cost| {
        let traffic = cost.traffic?;
        let each = |value: f64| Cell::from(format!("{value:.1}"));
        Some(vec![
            method_name(cost.method).into(),
            each(traffic.memory_reads),
            each(traffic.memory_writes),
            each(traffic.llc_requests),
            each(traffic.hops),
            each(traffic.invalidations),
            each(traffic.crossings),
        ])
    });
    let traffic = Table {
        title: "Traffic that one migration of a 4 KiB page adds".to_owned(),
        columns: vec![
            Column::text("by"),
            Column::number("lines read"),
            Column::number("lines written"),
            Column::number("requests at the LLC"),
            Column::number("hops"),
            Column::number("copies invalidated"),
            Column::number("crossings"),
        ],
        rows: rows.collect(),
        notes: vec![
            "Differences of two runs of the same requests: lines read may fall, since copied lines \
             are in the last-level cache afterwards."
                .to_owned(),
        ],
    };
    section(
        "Cost of a migration",
        "The values that simulations use for `contiguitas-hw` and for software.",
        vec![Block::Table(time), Block::Table(traffic)],
    )
}
