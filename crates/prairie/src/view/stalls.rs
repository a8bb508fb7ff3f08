//! Who waits for memory: the report, and the document of `--json`.

mod document;

use std::path::PathBuf;

use prairie_frames::Order;
use prairie_host::advice::Advice;
use prairie_report::{Block, Cell, Column, KeyFigure, Report, Section, Table, number};
use prairie_trace::StallPoint;
use prairie_trace::stalls::{Cause, HugePages, Mismatches, ProcessStalls, Stalls, Tally};

pub use document::{Document, document};

/// What was observed.
pub struct Observation {
    /// The stalls.
    pub stalls: Stalls,
    /// Tracepoints that the kernel does not have.
    pub missing: Vec<StallPoint>,
    /// What helps.
    pub advice: Vec<Advice>,
    /// The recording, unless it is this host.
    pub source: Option<PathBuf>,
    /// The command that ran meanwhile; may be empty.
    pub command: Vec<String>,
}

/// The report.
pub fn report(observation: &Observation, top: usize, generated_by: String) -> Report {
    let stalls = &observation.stalls;
    let sections = [
        Some(summary(observation)),
        by_cause(stalls),
        by_process(stalls, top),
        by_cgroup(stalls, top),
        worst(stalls, top),
        what_helps(&observation.advice),
    ];
    let source =
        observation.source.as_ref().map_or("this host".to_owned(), |p| p.display().to_string());
    let command = match observation.command.is_empty() {
        true => String::new(),
        false => format!(", while `{}` ran", observation.command.join(" ")),
    };
    Report {
        title: "Stalls: who waits for memory".to_owned(),
        subtitle: format!("{source}, {}{command}", number::duration(stalls.observed_ns())),
        generated_by,
        sections: sections.into_iter().flatten().collect(),
    }
}

fn summary(observation: &Observation) -> Section {
    let stalls = &observation.stalls;
    let waited = stalls.waited();
    let mut blocks = vec![Block::KeyFigures(vec![
        KeyFigure::new(
            number::count(waited.count()),
            "stalls",
            "times that a task waited for memory",
        ),
        KeyFigure::new(number::duration(waited.total_ns()), "waited", "the sum over all tasks"),
        KeyFigure::new(
            number::duration(waited.quantile_ns(0.99)),
            "99th percentile",
            "1 in 100 stalls is longer",
        ),
        KeyFigure::new(number::duration(waited.max_ns()), "longest", "the longest stall"),
    ])];
    let HugePages { allocated, failed, .. } = stalls.huge_pages();
    if allocated + failed > 0 {
        let share = number::percent(failed as f64 / (allocated + failed) as f64);
        blocks.push(Block::Text(format!(
            "Of {} for a huge page, {} failed ({share}).",
            number::counted(allocated + failed, "request"),
            number::count(failed),
        )));
    }
    let Mismatches { ends_without_begin, begins_without_end, unfinished } = stalls.mismatches();
    if ends_without_begin + begins_without_end > 0 {
        blocks.push(Block::Note(format!(
            "{} began before the observation or lost their beginning, {} lost their end: not counted.",
            number::counted(ends_without_begin, "stall"),
            number::count(begins_without_end),
        )));
    }
    if unfinished > 0 {
        blocks.push(Block::Note(format!(
            "{} still went on at the end and count up to it.",
            number::counted(unfinished, "stall")
        )));
    }
    if stalls.lost_events() > 0 {
        let lost = number::counted(stalls.lost_events(), "event");
        blocks.push(Block::Warning(format!("{lost} lost: the figures are lower bounds.")));
    }
    if !observation.missing.is_empty() {
        let names: Vec<&str> = observation.missing.iter().map(|point| point.path()).collect();
        blocks.push(Block::Warning(format!("This kernel has no {}.", names.join(", "))));
    }
    Section { heading: "Summary".to_owned(), intro: String::new(), blocks }
}

/// The columns of a distribution.
fn distribution_columns() -> [Column; 6] {
    ["stalls", "total", "median", "90 %", "99 %", "longest"].map(Column::number)
}

fn distribution(tally: &Tally) -> [Cell; 6] {
    [
        number::count(tally.count()).into(),
        number::duration(tally.total_ns()).into(),
        number::duration(tally.quantile_ns(0.5)).into(),
        number::duration(tally.quantile_ns(0.9)).into(),
        number::duration(tally.quantile_ns(0.99)).into(),
        number::duration(tally.max_ns()).into(),
    ]
}

fn by_cause(stalls: &Stalls) -> Option<Section> {
    if stalls.by_cause_and_order().is_empty() {
        return None;
    }
    let row = |(&(cause, order), tally): (&(Cause, Order), &Tally)| {
        let order = format!("{} ({})", order.get(), number::bytes(order.bytes()));
        let waits = if cause.is_background() { "nobody" } else { "the task" };
        let mut row = vec![Cell::from(cause.label()), order.into(), waits.into()];
        row.extend(distribution(tally));
        row
    };
    let mut columns = vec![Column::text("cause"), Column::text("order"), Column::text("who waits")];
    columns.extend(distribution_columns());
    let table = Table {
        title: String::new(),
        columns,
        rows: stalls.by_cause_and_order().iter().map(row).collect(),
        notes: vec![
            "One request can stall several times: once for each zone and attempt. Percentiles are \
             exact to 1 %."
                .to_owned(),
        ],
    };
    Some(Section::of_table("By cause and order", table))
}

fn by_process(stalls: &Stalls, top: usize) -> Option<Section> {
    let mut found: Vec<(&String, &ProcessStalls)> =
        stalls.by_process().iter().filter(|(_, process)| process.waited_ns() > 0).collect();
    if found.is_empty() {
        return None;
    }
    found.sort_by_key(|(_, process)| std::cmp::Reverse(process.waited_ns()));
    let row = |(name, process): &(&String, &ProcessStalls)| {
        let mut row = vec![
            Cell::from(name.as_str()),
            number::count(process.processes).into(),
            number::percent(process.share()).into(),
            main_cause(process).into(),
        ];
        row.extend(distribution(&process.all));
        row
    };
    let mut columns = vec![
        Column::text("process"),
        Column::number("processes"),
        Column::number("of run time"),
        Column::text("mostly"),
    ];
    columns.extend(distribution_columns());
    let mut notes = vec![
        "Of run time: the share of its life that a process had at least one thread waiting."
            .to_owned(),
    ];
    if found.len() > top {
        notes.push(format!(
            "{} more are not shown.",
            number::counted((found.len() - top) as u64, "name")
        ));
    }
    let rows = found.iter().take(top).map(row).collect();
    Some(Section::of_table("By process", Table { title: String::new(), columns, rows, notes }))
}

fn main_cause(process: &ProcessStalls) -> &'static str {
    let longest = Cause::ALL.into_iter().max_by_key(|cause| process.ns_by_cause[*cause as usize]);
    longest.map_or("", Cause::label)
}

fn by_cgroup(stalls: &Stalls, top: usize) -> Option<Section> {
    let mut found: Vec<(&String, &Tally)> = stalls.by_cgroup().iter().collect();
    found.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.total_ns()));
    if found.is_empty() {
        return None;
    }
    let row = |(path, tally): &(&String, &Tally)| {
        let mut row = vec![Cell::from(path.as_str())];
        row.extend(distribution(tally));
        row
    };
    let mut columns = vec![Column::text("cgroup")];
    columns.extend(distribution_columns());
    let rows = found.iter().take(top).map(row).collect();
    Some(Section::of_table("By cgroup", Table::new(columns, rows)))
}

fn worst(stalls: &Stalls, top: usize) -> Option<Section> {
    let first_ns = stalls.began_ns();
    let mut any_stack = false;
    let mut rows = Vec::new();
    for (stall, name, stack) in stalls.worst().take(top) {
        any_stack |= !stack.is_empty();
        rows.push(vec![
            Cell::from(number::duration(stall.own_ns())),
            number::duration(stall.begin_ns.saturating_sub(first_ns)).into(),
            format!("{name} ({})", stall.pid).into(),
            stall.cause.label().into(),
            stall.order.get().to_string().into(),
            innermost(stack).into(),
        ]);
    }
    if rows.is_empty() {
        return None;
    }
    let mut columns = vec![
        Column::number("waited"),
        Column::number("began at"),
        Column::text("process (PID)"),
        Column::text("cause"),
        Column::number("order"),
    ];
    if any_stack {
        columns.push(Column::text("called by"));
    }
    Some(Section::of_table("Worst stalls", Table::new(columns, rows)))
}

/// The functions of a folded stack from the innermost on, without the page allocator's own.
fn innermost(stack: &str) -> String {
    const OWN: [&str; 16] = [
        "try_to_free_pages",
        "try_to_free_mem_cgroup_pages",
        "__alloc_pages",
        "__alloc_pages_slowpath",
        "__alloc_pages_noprof",
        "__alloc_frozen_pages_noprof",
        "alloc_pages",
        "alloc_pages_mpol",
        "__folio_alloc",
        "vma_alloc_folio",
        "compact_zone",
        "compact_zone_order",
        "try_to_compact_pages",
        "__alloc_pages_direct_compact",
        "__alloc_pages_nodemask",
        "perf_trace",
    ];
    const SHOWN: usize = 8;
    let is_own = |function: &str| {
        let name = function.split('.').next().unwrap_or(function);
        OWN.contains(&name) || name.starts_with("perf_trace") || name.starts_with("trace_")
    };
    let functions = stack.rsplit(';').filter(|function| !is_own(function)).take(SHOWN);
    functions.collect::<Vec<_>>().join(" < ")
}

fn what_helps(advice: &[Advice]) -> Option<Section> {
    if advice.is_empty() {
        return None;
    }
    Some(Section::of_table("What helps", super::advice::table(advice)))
}
