//! A log as a report: charts over time.

pub mod regions;

use chrono::DateTime;
use prairie_frames::Order;
use prairie_observe::Summary;
use prairie_report::{Axis, Block, KeyFigure, LineChart, Report, Section, Series, Unit, number};

/// A line: its name, and its value in a row, given the row before.
type Line<'a> = (&'a str, &'a dyn Fn(&Summary, Option<&Summary>) -> Option<f64>);

/// The report on rows, at least one, ascending by time.
pub fn report(rows: &[Summary], host: &str, kernel_release: &str, generated_by: String) -> Report {
    let mut sections = vec![
        summary(rows),
        fragmentation(rows),
        contiguity(rows),
        unmovable(rows),
        huge_pages(rows),
        events(rows),
    ];
    sections.extend(regions::sections(rows));
    let (first, last) = (&rows[0], &rows[rows.len() - 1]);
    Report {
        title: format!("{host}, Linux {kernel_release}"),
        subtitle: format!(
            "{} to {}, {}",
            time(first),
            time(last),
            number::counted(rows.len() as u64, "row")
        ),
        generated_by,
        sections,
    }
}

/// When a row was taken.
fn time(row: &Summary) -> String {
    let seconds = row.at_unix_ns.div_euclid(1_000_000_000);
    let time = DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    time.format("%Y-%m-%d %H:%M:%S UTC").to_string()
}

fn summary(rows: &[Summary]) -> Section {
    let figure = |label: &str, value: &dyn Fn(&Summary) -> Option<f64>| {
        let values: Vec<f64> = rows.iter().filter_map(value).filter(|v| v.is_finite()).collect();
        let last = values.last()?;
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(KeyFigure {
            value: number::percent(*last),
            label: label.to_owned(),
            definition: format!(
                "At the end; between {} and {}.",
                number::percent(least),
                number::percent(most)
            ),
        })
    };
    let figures = [
        figure("of free memory is in blocks smaller than 2 MiB, F_u(9)", &|row| {
            row.unusable(Order::HUGE)
        }),
        figure("of pageblocks are polluted by unmovable frames", &polluted),
        figure("of anonymous memory is on huge pages", &coverage),
    ];
    section("Summary", vec![Block::KeyFigures(figures.into_iter().flatten().collect())])
}

fn polluted(row: &Summary) -> Option<f64> {
    of_initialized(row, "polluted_pageblocks")
}

fn coverage(row: &Summary) -> Option<f64> {
    of(row, "anonymous_huge_bytes", "anonymous_bytes")
}

/// Pageblocks as a share of the initialized ones.
fn of_initialized(row: &Summary, pageblocks: &str) -> Option<f64> {
    let initialized = row.initialized_pageblocks().filter(|initialized| *initialized > 0)?;
    Some(row.integer(pageblocks)? as f64 / initialized as f64)
}

/// One column by another.
fn of(row: &Summary, part: &str, whole: &str) -> Option<f64> {
    let whole = row.integer(whole).filter(|whole| *whole > 0)?;
    Some(row.integer(part)? as f64 / whole as f64)
}

fn section(heading: &str, blocks: Vec<Block>) -> Section {
    Section { heading: heading.to_owned(), intro: String::new(), blocks }
}

/// A chart of lines over the hours since the first row.
fn chart(rows: &[Summary], title: &str, unit: Unit, lines: &[Line<'_>]) -> Block {
    let start = rows[0].at_unix_ns;
    let series = lines.iter().map(|(name, value)| {
        let point = |(at, row): (usize, &Summary)| {
            let before = at.checked_sub(1).map(|before| &rows[before]);
            let seconds = (row.at_unix_ns - start) as f64 / 1e9;
            (seconds, value(row, before).unwrap_or(f64::NAN))
        };
        Series { name: (*name).to_owned(), points: rows.iter().enumerate().map(point).collect() }
    });
    let has_values = |series: &Series| series.points.iter().any(|(_, y)| y.is_finite());
    Block::LineChart(LineChart {
        title: title.to_owned(),
        x: Axis::new(format!("since {}", time(&rows[0])), Unit::Seconds),
        y: Axis::new("", unit),
        series: series.filter(has_values).collect(),
        ..LineChart::default()
    })
}

fn fragmentation(rows: &[Summary]) -> Section {
    let index =
        |order: u8| move |row: &Summary, _: Option<&Summary>| row.unusable(Order::new(order)?);
    let (small, huge, largest) = (index(4), index(9), index(10));
    let lines: [Line<'_>; 3] = [("64 KiB", &small), ("2 MiB", &huge), ("4 MiB", &largest)];
    section(
        "Free memory in blocks too small, F_u",
        vec![chart(rows, "Unusable free space by block size", Unit::Share, &lines)],
    )
}

/// A column as it is.
fn column(name: &str) -> impl Fn(&Summary, Option<&Summary>) -> Option<f64> + '_ {
    move |row, _| row.integer(name).map(|value| value as f64)
}

fn contiguity(rows: &[Summary]) -> Section {
    let available = column("available_2m_bytes");
    let (movable, unmovable) =
        (column("potential_2m_bytes"), column("potential_2m_if_unknown_unmovable_bytes"));
    let memory = column("memory_bytes");
    let lines: [Line<'_>; 4] = [
        ("all memory", &memory),
        ("potential, unknown frames movable", &movable),
        ("potential, unknown frames unmovable", &unmovable),
        ("available now", &available),
    ];
    section(
        "Contiguity at 2 MiB",
        vec![chart(rows, "Memory in blocks of 2 MiB", Unit::Bytes, &lines)],
    )
}

fn unmovable(rows: &[Summary]) -> Section {
    let share =
        |name: &'static str| move |row: &Summary, _: Option<&Summary>| of_initialized(row, name);
    let (value, low, high) = (
        share("polluted_pageblocks"),
        share("polluted_pageblocks_low"),
        share("polluted_pageblocks_high"),
    );
    let pollution: [Line<'_>; 3] =
        [("polluted", &value), ("95 % interval, low", &low), ("high", &high)];
    let (slab, tables, stacks, vmalloc) = (
        column("slab_unreclaimable_bytes"),
        column("page_table_bytes"),
        column("kernel_stack_bytes"),
        column("vmalloc_bytes"),
    );
    let sources: [Line<'_>; 4] = [
        ("slab, unreclaimable", &slab),
        ("page tables", &tables),
        ("kernel stacks", &stacks),
        ("vmalloc", &vmalloc),
    ];
    section(
        "Unmovable memory",
        vec![
            chart(rows, "Polluted pageblocks", Unit::Share, &pollution),
            chart(rows, "Kernel memory", Unit::Bytes, &sources),
        ],
    )
}

fn huge_pages(rows: &[Summary]) -> Section {
    let covered = |row: &Summary, _: Option<&Summary>| coverage(row);
    let lines: [Line<'_>; 1] = [("anonymous memory", &covered)];
    section("Huge pages", vec![chart(rows, "Huge-page coverage", Unit::Share, &lines)])
}

/// The rise of a column a second.
fn rate(name: &str) -> impl Fn(&Summary, Option<&Summary>) -> Option<f64> + '_ {
    move |row, before| row.rate(before?, name)
}

fn events(rows: &[Summary]) -> Section {
    let stall = |name: &'static str| {
        move |row: &Summary, before: Option<&Summary>| Some(row.rate(before?, name)? / 1e6)
    };
    let (some, full) = (stall("memory_some_us"), stall("memory_full_us"));
    let pressure: [Line<'_>; 2] = [("some", &some), ("full", &full)];
    let (compaction, reclaim) = (rate("vmstat_compact_stall"), rate("vmstat_allocstall_normal"));
    let stalls: [Line<'_>; 2] =
        [("in direct compaction", &compaction), ("in direct reclaim, Normal", &reclaim)];
    let (alloc, fallback) = (rate("vmstat_thp_fault_alloc"), rate("vmstat_thp_fault_fallback"));
    let thp: [Line<'_>; 2] = [("huge page", &alloc), ("fallback to small pages", &fallback)];
    section(
        "Pressure and events",
        vec![
            chart(rows, "Memory pressure", Unit::Share, &pressure),
            chart(rows, "Allocations that stopped, a second", Unit::Number, &stalls),
            chart(rows, "Page faults that wanted a huge page, a second", Unit::Number, &thp),
        ],
    )
}
