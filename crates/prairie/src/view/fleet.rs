//! A fleet's servers as a report: how contiguous their free memory is (Contiguitas, Figure 2), and
//! how contiguous their memory could be (Figure 5).

mod summary;

use prairie_fleet::row::Row;
use prairie_report::{
    Axis, BarChart, BarSeries, Block, Cell, Column, LineChart, Report, Section, Table, Unit, number,
};

pub use self::summary::{Bounds, Summary, named, summaries};
use self::summary::{Rates, Simulated, names};

const SIZES: [&str; 4] = ["2 MiB", "4 MiB", "32 MiB", "1 GiB"];
const POTENTIAL_SIZES: [&str; 3] = ["2 MiB", "32 MiB", "1 GiB"];
/// Reports with more workloads, such as many surveyed hosts, do not show each of them.
const MAX_WORKLOADS: usize = 12;

/// The whole report. `warnings` come first.
pub fn report(name: &str, rows: &[Row], warnings: Vec<String>, generated_by: String) -> Report {
    let summaries = summaries(rows);
    let servers: usize = summaries.iter().map(|s| s.servers).max().unwrap_or(0);
    let mut available = available(rows, &summaries);
    available.blocks.splice(0..0, warnings.into_iter().map(Block::Warning));
    Report {
        title: "Memory contiguity over a fleet".to_owned(),
        subtitle: format!("{name} · {}", number::counted(servers as u64, "server")),
        generated_by,
        sections: vec![available, potential(rows, &summaries)],
    }
}

/// Characters that the allocators' names may take together as heads of columns, so that a terminal
/// of 80 columns has room for the measures.
const MAX_HEAD_CHARS: usize = 48;

/// A column for each allocator. Names that would have to be broken are listed below the table, and
/// their numbers head the columns.
fn table(summaries: &[Summary], rows: Vec<Vec<Cell>>) -> Table {
    let names = summaries.iter().map(|summary| summary.system.as_str());
    let numbers = names.clone().map(str::len).sum::<usize>() > MAX_HEAD_CHARS;
    let heads = names.clone().enumerate().map(|(at, name)| match numbers {
        true => Column::number((at + 1).to_string()),
        false => Column::number(name),
    });
    let legend = names.clone().enumerate().map(|(at, name)| format!("{}: {name}", at + 1));
    Table {
        title: String::new(),
        columns: std::iter::once(Column::text("")).chain(heads).collect(),
        rows,
        notes: if numbers { legend.collect() } else { Vec::new() },
    }
}

fn row(name: String, summaries: &[Summary], of: &dyn Fn(&Summary) -> String) -> Vec<Cell> {
    std::iter::once(Cell::from(name)).chain(summaries.iter().map(|s| of(s).into())).collect()
}

/// Both bounds, or one value where they are the same.
fn bounds(Bounds { min, max }: Bounds) -> String {
    if min == max {
        return number::percent(max);
    }
    format!("{} to {}", number::percent(min), number::percent(max))
}

fn available(rows: &[Row], summaries: &[Summary]) -> Section {
    let mut shown = Vec::new();
    for (at, size) in SIZES.iter().enumerate() {
        shown.push(row(format!("servers without a free {size} block"), summaries, &|s| {
            number::percent(s.without_free[at])
        }));
    }
    for (at, size) in SIZES.iter().enumerate() {
        shown.push(row(format!("free memory in free {size} blocks, mean"), summaries, &|s| {
            number::percent(s.contiguity[at])
        }));
    }
    shown.push(row("correlation of uptime and free 2 MiB blocks".into(), summaries, &|s| {
        s.uptime_correlation.map_or("-".to_owned(), number::index)
    }));
    let shares = |system: &str| {
        rows.iter().filter(|row| row.system == system).map(|row| row.contiguity()[0]).collect()
    };
    let samples = summaries.iter().map(|s| (s.system.clone(), shares(&s.system)));
    let mut distribution = LineChart::distribution(
        "Free memory in free 2 MiB blocks, over the servers",
        Axis::new("share of free memory", Unit::Share).within(0.0, 1.0),
        samples,
    );
    distribution.y.label = "share of servers at or below".to_owned();
    Section {
        heading: "Contiguity available".to_owned(),
        intro: "Share of a server's free memory in aligned blocks that are wholly free. In Meta's \
                fleet 23 % of servers have no free 2 MiB block (Contiguitas, Figure 2)."
            .to_owned(),
        blocks: vec![Block::Table(table(summaries, shown)), Block::LineChart(distribution)],
    }
}

fn potential(rows: &[Row], summaries: &[Summary]) -> Section {
    let mut shown = Vec::new();
    for (at, size) in POTENTIAL_SIZES.iter().enumerate() {
        shown.push(row(format!("potential contiguity at {size}, mean"), summaries, &|s| {
            bounds(s.potential[at])
        }));
    }
    shown.push(row("unmovable memory".into(), summaries, &|s| bounds(s.unmovable)));
    shown.push(row("polluted 2 MiB blocks".into(), summaries, &|s| bounds(s.polluted)));
    if summaries.iter().any(|s| s.simulated.is_some()) {
        shown.extend(simulated(summaries));
    }
    let workloads = names(rows, |row| &row.workload);
    let few = workloads.len() <= MAX_WORKLOADS;
    let charts = if few { charts(rows, summaries, &workloads) } else { Vec::new() };
    let unknown = summaries.iter().any(|s| s.potential.iter().any(|found| found.min != found.max));
    let bounds = match unknown {
        true => " Ranges: unknown frames taken as unmovable and as movable.",
        false => "",
    };
    Section {
        heading: "Potential contiguity".to_owned(),
        intro: format!(
            "Aligned blocks without an unmovable frame, as a share of memory: the most that \
             compaction could empty (Contiguitas, Figure 5).{bounds}"
        ),
        blocks: std::iter::once(Block::Table(table(summaries, shown))).chain(charts).collect(),
    }
}

/// Rows that only a simulation fills; `-` for real servers next to simulated ones.
fn simulated(summaries: &[Summary]) -> Vec<Vec<Cell>> {
    let line = |name: String, of: &dyn Fn(&Simulated) -> String| {
        row(name, summaries, &|s| s.simulated.as_ref().map_or("-".to_owned(), of))
    };
    let mut shown = vec![
        line("unmovable memory used by the network".into(), &|s| {
            number::percent(s.network_of_unmovable)
        }),
        line("pinned memory".into(), &|s| number::percent(s.pinned)),
        line("memory below the border".into(), &|s| match s.unmovable_region {
            0.0 => "-".to_owned(),
            share => number::percent(share),
        }),
        line("pages moved per GiB of border movement".into(), &|s| {
            s.moved_per_gib.map_or("-".to_owned(), number::short)
        }),
    ];
    type Rate = (&'static str, fn(&Rates) -> f64);
    let rates: [Rate; 2] = [
        ("kernel requests and pins that failed", |rates| rates.failed_kernel_per_10_million),
        ("allocations that waited for the border", |rates| rates.waited_per_10_million),
    ];
    for (what, of) in rates {
        shown.push(line(format!("{what}, in 10 million"), &|s| number::short(of(&s.rates))));
    }
    let first = summaries.iter().find_map(|s| s.simulated.as_ref());
    let workloads = first.map_or(&[][..], |found| &found.by_workload);
    if (2..=MAX_WORKLOADS).contains(&workloads.len()) {
        for (at, found) in workloads.iter().enumerate() {
            for (what, of) in [("failed", rates[0].1), ("waited", rates[1].1)] {
                shown.push(line(format!("{}: {what}, in 10 million", found.workload), &|s| {
                    let own = s.by_workload.get(at);
                    own.map_or("-".to_owned(), |found| number::short(of(&found.rates)))
                }));
            }
        }
    }
    shown
}

/// A chart for each block size, a series for each allocator, or two where the bounds differ.
fn charts(rows: &[Row], summaries: &[Summary], workloads: &[String]) -> Vec<Block> {
    let charts = POTENTIAL_SIZES.iter().enumerate().map(|(size, name)| {
        let of = |system: &str| -> Vec<Bounds> {
            let of = |workload: &String| {
                let own = rows
                    .iter()
                    .filter(|row| row.system == system && row.workload == *workload)
                    .collect::<Vec<_>>();
                summary::potential(&own, size)
            };
            workloads.iter().map(of).collect()
        };
        let series = summaries.iter().flat_map(|s| {
            let values = of(&s.system);
            let one = |suffix: &str, of: fn(&Bounds) -> f64| BarSeries {
                name: format!("{}{suffix}", s.system),
                values: values.iter().map(of).collect(),
            };
            if values.iter().all(|found| found.min == found.max) {
                return vec![one("", |found| found.max)];
            }
            vec![one(", at least", |found| found.min), one(", at most", |found| found.max)]
        });
        Block::BarChart(BarChart {
            title: format!("Potential contiguity at {name}"),
            caption: "Memory in blocks without an unmovable frame, as a share of memory."
                .to_owned(),
            x: Axis::new("workload", Unit::Number),
            y: Axis::new("share of memory", Unit::Share).within(0.0, 1.0),
            categories: workloads.to_vec(),
            series: series.collect(),
        })
    });
    charts.collect()
}

#[cfg(test)]
pub(super) mod tests {
    use prairie_fleet::row::Counters;
    use prairie_model::sample::BlocksBySize;

    use super::*;

    pub fn server(uptime_s: f64, free_2_mib: u64) -> Row {
        let potential = BlocksBySize { mib_2: 4, ..Default::default() };
        Row {
            system: "linux".into(),
            workload: "web".into(),
            uptime_s,
            free_2_mib,
            free_frames: 1024,
            frames: 4096,
            potential_min: potential,
            potential_max: potential,
            polluted_min: 4,
            polluted_max: 4,
            simulated: Some(Counters::default()),
            ..Row::default()
        }
    }

    /// Nine allocators with long names, on a terminal of 80 columns: no head and no figure is
    /// broken.
    #[test]
    fn an_ablation_fits_a_terminal() {
        let nine = (1..=9).map(|at| Row {
            system: format!("contiguitas+without-mechanism-{at}"),
            ..server(1.0, 7)
        });
        let rows: Vec<Row> = nine.collect();
        let terminal = prairie_report::Terminal { width: 80, ..prairie_report::Terminal::PLAIN };
        for section in [available, potential].map(|make| make(&rows, &summaries(&rows))) {
            let Block::Table(table) = &section.blocks[0] else { panic!("a table first") };
            let shown = table.terminal(terminal);
            assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
            assert!(shown.contains("6: contiguitas+without-mechanism-6\n"), "{shown}");
            // Side by side or stacked: each of the nine figures of a row is whole.
            let figure = table.rows[0][1].text.replace('\u{202f}', " ");
            assert!(shown.matches(&figure).count() >= 9, "{shown}");
        }
        let few = summaries(&[server(1.0, 7)]);
        let Block::Table(table) = &available(&rows, &few).blocks[0] else { panic!("a table") };
        assert_eq!((table.columns[1].heading.as_str(), table.notes.len()), ("linux", 0));
    }

    /// Surveyed hosts show both bounds, and no row that only a simulation fills.
    #[test]
    fn hosts_show_both_bounds() {
        let mut host = Row { system: "host".into(), simulated: None, ..server(1.0, 7) };
        host.potential_min.mib_2 = 2;
        let section = potential(&[host.clone()], &summaries(&[host.clone()]));
        let Block::Table(table) = &section.blocks[0] else { panic!("a table first") };
        assert_eq!(table.rows[0][1].text, "25.0\u{202f}% to 50.0\u{202f}%");
        assert_eq!(table.rows.len(), 5, "{table:?}");
        assert!(section.intro.contains("unknown frames"), "{}", section.intro);
        let Block::BarChart(chart) = &section.blocks[1] else { panic!("a chart") };
        assert_eq!(chart.series.len(), 2);
        // Beside a simulation the rows are there, and empty for hosts.
        let both = [server(1.0, 7), host];
        let section = potential(&both, &summaries(&both));
        let Block::Table(table) = &section.blocks[0] else { panic!("a table first") };
        assert!(table.rows.len() > 5 && table.rows[6][2].text == "-", "{table:?}");
    }
}
