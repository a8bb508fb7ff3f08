//! A run of the migration simulator as a report: summary, latencies, events, parameters.

use prairie_migrate::paper::{Effect, Tail, queueing_quantile};
use prairie_migrate::params::{Params, Sourced};
use prairie_migrate::sim::{Method, Migrations, Outcome, Plan, Target};
use prairie_migrate::software::totals;
use prairie_report::{Block, Cell, Column, KeyFigure, Report, Section, Table, number};

/// The report on a run, and on the same requests with migrations if there were any.
pub fn report(
    params: &Params,
    plan: &Plan,
    without: &Outcome,
    with: Option<&Outcome>,
    generated_by: String,
) -> Report {
    let mut sections = vec![summary(plan, without, with), latencies(plan, without, with)];
    if let Some(with) = with {
        sections.push(migrations(params, plan, with));
    }
    sections.push(counts(params, without, with));
    Report {
        title: format!("{} on {}", plan.workload.name(), params.name),
        subtitle: format!(
            "{}, {} each, seed {}; simulated, with in-order cores",
            number::counted(params.cores.count, "core"),
            number::counted(plan.requests, "request"),
            plan.seed
        ),
        generated_by,
        sections,
    }
}

/// The name of a method.
pub fn method_name(method: Method) -> &'static str {
    match method {
        Method::Hardware(prairie_migrate::protocol::table::Caching::Cacheable) => "Contiguitas-HW",
        Method::Hardware(prairie_migrate::protocol::table::Caching::Noncacheable) => {
            "Contiguitas-HW, noncacheable"
        }
        Method::Software(baseline) => baseline.name(),
    }
}

/// A change with its error: `+0.12 % ± 0.03`.
pub fn change(effect: &Effect) -> String {
    format!("{} ± {:.3}", number::change(effect.change, 3), 100.0 * effect.error)
}

fn summary(plan: &Plan, without: &Outcome, with: Option<&Outcome>) -> Section {
    let mut figures = vec![KeyFigure::new(
        number::short(with.unwrap_or(without).throughput),
        "requests per second",
        "Of all cores together.",
    )];
    if let (Some(with), Some(wanted)) = (with, plan.migrations) {
        let effect = Effect::of(with, without);
        let pages = match wanted.target {
            Target::Buffers => "network buffers",
            Target::Heap => "pages of the heap",
        };
        figures.push(KeyFigure::new(
            number::count(with.migrations.moved),
            format!("{pages} moved"),
            format!(
                "{}, {} requested per second.",
                method_name(wanted.method),
                number::short(wanted.per_second)
            ),
        ));
        figures.push(KeyFigure::new(
            change(&effect),
            "time per request",
            "Compared with the same requests without migrations: mean over cores, and twice the \
             error of that mean.",
        ));
    }
    let mut blocks = vec![Block::KeyFigures(figures)];
    blocks.extend(with.zip(plan.migrations).and_then(|(with, wanted)| moved_nothing(wanted, with)));
    section("Summary", blocks)
}

/// A run shorter than the time between two migrations measures no effect.
fn moved_nothing(wanted: Migrations, with: &Outcome) -> Option<Block> {
    let between_ns = 1e9 / wanted.per_second;
    (with.migrations.moved == 0).then(|| {
        Block::Warning(format!(
            "No page moved, so this run says nothing about migrations: it lasted {}, and one \
             migration begins every {}. Raise `--requests` or `--rate`.",
            number::duration(with.span_ps / 1000),
            number::duration(between_ns as u64),
        ))
    })
}

fn latencies(plan: &Plan, without: &Outcome, with: Option<&Outcome>) -> Section {
    let mut columns = vec![Column::text("latency")];
    let mut runs = vec![("without migrations", without)];
    runs.extend(with.map(|with| ("with", with)));
    columns.extend(runs.iter().map(|(name, _)| Column::number(*name)));
    let row = |name: &str, value: &dyn Fn(&Outcome) -> f64| {
        let cells = runs.iter().map(|(_, run)| number::duration(value(run) as u64).into());
        std::iter::once(Cell::from(name)).chain(cells).collect::<Vec<_>>()
    };
    let served = |share: f64| {
        move |run: &Outcome| {
            let all = run.latencies_ps.iter().flatten();
            queueing_quantile(&mut all.map(|ps| *ps as f64 / 1e3).collect::<Vec<_>>(), share)
        }
    };
    let mut rows = vec![
        row("median", &served(0.5)),
        row("99 %", &served(0.99)),
        row("99.9 %", &served(0.999)),
    ];
    if plan.interarrival_ns.is_none() {
        let tail = |run: &Outcome| Tail::of(run, without, plan.seed);
        rows.push(row("median at 70 % load", &|run| tail(run).median_ns));
        rows.push(row("99 % at 70 % load", &|run| tail(run).p99_ns));
        rows.push(row("99.9 % at 70 % load", &|run| tail(run).p999_ns));
    }
    let how = match plan.interarrival_ns {
        Some(_) => "From a request's arrival, at random times, to its end.",
        None => {
            "Requests are served back to back; at 70 % load the same service times are queued for \
             at random."
        }
    };
    let table = Table { columns, rows, notes: vec![how.to_owned()], ..Table::default() };
    section("Latencies", vec![Block::Table(table)])
}

fn migrations(params: &Params, plan: &Plan, with: &Outcome) -> Section {
    let stats = &with.migrations;
    let each = |ps: u64| number::duration(ps / 1000 / stats.moved.max(1));
    let mut rows = vec![
        ("requested", number::count(stats.asked)),
        ("moved", number::count(stats.moved)),
        ("not moved", number::count(stats.given_up)),
    ];
    match plan.migrations.map(|wanted| wanted.method) {
        Some(Method::Hardware(_)) => rows.extend([
            ("until no translation to the source remained, each", each(stats.invalidation_ps)),
            ("copy, each", each(stats.copy_ps)),
            ("from command to Clear, each", each(stats.whole_ps)),
            ("local invalidations, all cores, each", each(stats.local_ps)),
            ("most entries in use", stats.most_entries.to_string()),
            ("waits for an entry", number::count(stats.waited_for_entry)),
        ]),
        Some(Method::Software(_)) => rows.extend([
            ("unavailable, each", each(stats.unavailable_ps)),
            ("time of the core that migrates, each", each(stats.initiator_ps)),
            ("time of other cores, each", each(stats.stolen_ps)),
            ("accesses that faulted", number::count(with.translations.faults)),
        ]),
        None => {}
    }
    let rows = rows.into_iter().map(|(name, value)| vec![name.into(), value.into()]).collect();
    let columns = vec![Column::text(""), Column::number("")];
    let mut blocks = vec![Block::Table(Table { columns, rows, ..Table::default() })];
    if let Some(Method::Software(by)) = plan.migrations.map(|wanted| wanted.method) {
        let steps = by.steps(params, params.cores.count - 1, Default::default());
        let rows = steps.iter().map(|step| {
            let kept_out = if step.unavailable { "unavailable" } else { "in use" };
            vec![step.name.into(), number::duration(step.ns).into(), kept_out.into()]
        });
        blocks.push(Block::Table(Table {
            title: "Steps for a 4 KiB page".to_owned(),
            columns: vec![
                Column::text("step"),
                Column::number("time"),
                Column::text("the page is"),
            ],
            rows: rows.collect(),
            notes: vec![format!("{} in all.", number::duration(totals(&steps).0))],
        }));
    }
    section("Migrations", blocks)
}

fn counts(params: &Params, without: &Outcome, with: Option<&Outcome>) -> Section {
    let requests = |run: &Outcome| run.latencies_ps.iter().map(Vec::len).sum::<usize>() as f64;
    let mut columns = vec![Column::text("per request"), Column::number("without migrations")];
    columns.extend(with.map(|_| Column::number("with")));
    type Count = fn(&Outcome) -> u64;
    let wanted: [(&str, Count); 12] = [
        ("accesses, page walks included", |run| run.counts.accesses),
        ("served by the L2", |run| run.counts.l2_hits),
        ("requests at the last-level cache", |run| run.counts.llc_requests),
        ("lines read from memory", |run| run.counts.memory_reads),
        ("lines written to memory", |run| run.counts.memory_writes),
        ("forwarded from another core", |run| run.counts.forwards),
        ("private copies invalidated", |run| run.counts.invalidations),
        ("hops through the mesh", |run| run.counts.hops),
        ("page walks", |run| run.translations.walks),
        ("IOTLB misses", |run| run.translations.iotlb_misses),
        ("requests to a migrating page", |run| run.counts.redirected),
        ("lines copied by the engine", |run| run.counts.lines_copied),
    ];
    let rows = wanted.map(|(name, count)| {
        let runs = std::iter::once(without).chain(with);
        let cells = runs.map(|run| format!("{:.2}", count(run) as f64 / requests(run)).into());
        std::iter::once(Cell::from(name)).chain(cells).collect()
    });
    let table = Table { columns, rows: rows.to_vec(), ..Table::default() };
    let note = Block::Note(format!(
        "Parameters of the machine and their sources: `prairie migrate sim --parameters`. Memory \
         answers in {} ns, at most {} GB/s.",
        params.memory.load_ns,
        params.memory.mb_per_second as f64 / 1e3
    ));
    section("Events", vec![Block::Table(table), note])
}

/// Every parameter of a machine with its source.
pub fn parameters(params: &Params, parameters: &[Sourced], generated_by: String) -> Report {
    let rows = parameters.iter().map(|sourced| {
        vec![
            sourced.key.as_str().into(),
            number::count(sourced.value).into(),
            sourced.source.as_str().into(),
        ]
    });
    let table = Table {
        columns: vec![Column::text("parameter"), Column::number("value"), Column::text("source")],
        rows: rows.collect(),
        ..Table::default()
    };
    Report {
        title: params.name.clone(),
        subtitle: String::new(),
        generated_by,
        sections: vec![section("Parameters", vec![Block::Table(table)])],
    }
}

fn section(heading: &str, blocks: Vec<Block>) -> Section {
    Section { heading: heading.to_owned(), intro: String::new(), blocks }
}
