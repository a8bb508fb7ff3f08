//! Rows of many hosts as a report: groups, the worst hosts, distributions, change over days.

use prairie_fleet::hosts::{Day, Group, Hosts, JUDGED, Judged, Typical, Worst};
use prairie_report::{
    Axis, Block, Cell, Column, LineChart, Report, Section, Series, Table, Tone, Unit, number,
};

/// Hosts in the table of the worst.
pub const WORST: usize = 20;
/// Groups in the table of groups; more are counted.
const MAX_GROUPS: usize = 40;
/// Points of a distribution.
const POINTS: usize = 200;

/// The report. `by` names what hosts are grouped by, `rank` what the worst are ranked by.
pub fn report(
    hosts: &Hosts,
    by: &[String],
    rank: &Judged,
    warnings: Vec<String>,
    generated_by: String,
) -> Report {
    let groups = hosts.groups();
    let days = hosts.days();
    let mut sections = vec![
        Section {
            heading: "Groups".to_owned(),
            intro:
                "The latest row of each host. In each cell the median of the hosts, and the value \
                    that the worst tenth of them reach."
                    .to_owned(),
            blocks: warnings
                .into_iter()
                .map(Block::Warning)
                .chain([Block::Table(group_table(&groups, by))])
                .collect(),
        },
        Section {
            heading: "Worst hosts".to_owned(),
            intro: format!("Ranked by `{}`.", rank.name),
            blocks: vec![Block::Table(worst_table(&hosts.worst(rank, WORST)))],
        },
        Section {
            heading: "Distributions over hosts".to_owned(),
            blocks: JUDGED
                .iter()
                .filter_map(|judged| distribution(hosts, judged))
                .map(Block::LineChart)
                .collect(),
            ..Section::default()
        },
    ];
    if days.len() > 1 {
        sections.push(Section {
            heading: "Change over days".to_owned(),
            intro: "The last row of each host on each day.".to_owned(),
            blocks: vec![Block::LineChart(course(&days)), Block::Table(day_table(&days))],
        });
    }
    Report {
        title: "Memory of a fleet".to_owned(),
        subtitle: format!(
            "{} of {}, {}",
            number::counted(hosts.len() as u64, "row"),
            number::counted(hosts.hosts() as u64, "host"),
            number::counted(groups.len() as u64, "group")
        ),
        generated_by,
        sections,
    }
}

/// A column for each measure.
fn columns(first: impl IntoIterator<Item = Column>) -> Vec<Column> {
    let better = |judged: &Judged| {
        if judged.larger_is_worse { "lower is better" } else { "higher is better" }
    };
    let measures =
        JUDGED.iter().map(|judged| Column::number(judged.label).with_unit(better(judged)));
    first.into_iter().chain(measures).collect()
}

fn typical(typical: Option<Typical>) -> Cell {
    typical
        .map_or(number::NONE.to_owned(), |found| {
            format!("{}; {}", number::percent(found.median), number::percent(found.worst_tenth))
        })
        .into()
}

fn group_table(groups: &[Group], by: &[String]) -> Table {
    let row = |group: &Group| {
        let mut row = vec![
            Cell::toned(group.name.as_str(), Tone::Strong),
            number::count(group.hosts as u64).into(),
            number::bytes(group.memory_bytes).into(),
        ];
        row.extend(JUDGED.iter().map(|judged| typical(group.measures[judged.name])));
        row
    };
    let more = groups.len().saturating_sub(MAX_GROUPS);
    Table {
        columns: columns([
            Column::text(by.join(", ")),
            Column::number("hosts"),
            Column::number("memory"),
        ]),
        rows: groups.iter().take(MAX_GROUPS).map(row).collect(),
        notes: if more > 0 {
            vec![format!("{} more: --json has all.", number::counted(more as u64, "group"))]
        } else {
            Vec::new()
        },
        ..Table::default()
    }
}

fn worst_table(worst: &[Worst]) -> Table {
    let row = |host: &Worst| {
        let mut row =
            vec![Cell::toned(host.host.as_str(), Tone::Strong), host.group.as_str().into()];
        row.extend(JUDGED.iter().map(|judged| {
            host.measures[judged.name].map_or(number::NONE.to_owned(), number::percent).into()
        }));
        row
    };
    Table {
        columns: columns([Column::text("host"), Column::text("group")]),
        rows: worst.iter().map(row).collect(),
        ..Table::default()
    }
}

fn distribution(hosts: &Hosts, judged: &Judged) -> Option<LineChart> {
    let quantiles = hosts.quantiles(judged, POINTS);
    let points: Vec<(f64, f64)> = quantiles
        .iter()
        .enumerate()
        .map(|(at, value)| (*value, at as f64 / POINTS as f64))
        .collect();
    (!points.is_empty()).then(|| LineChart {
        title: format!("Distribution: {}", judged.label),
        x: Axis::new(judged.name, Unit::Share),
        y: Axis::new("share of hosts no larger", Unit::Share).within(0.0, 1.0),
        series: vec![Series { name: judged.name.to_owned(), points }],
        ..LineChart::default()
    })
}

fn course(days: &[Day]) -> LineChart {
    let first = days.first().map_or(0, |day| day.day);
    let series = |judged: &Judged| Series {
        name: judged.name.to_owned(),
        points: days
            .iter()
            .filter_map(|day| Some(((day.day - first) as f64, day.measures[judged.name]?.median)))
            .collect(),
    };
    LineChart {
        title: "Medians over days".to_owned(),
        caption: format!("Day 0 is {}.", date(first)),
        x: Axis::new("day", Unit::Count),
        y: Axis::new("median of the hosts", Unit::Share).within(0.0, 1.0),
        series: JUDGED.iter().map(series).filter(|series| !series.points.is_empty()).collect(),
        ..LineChart::default()
    }
}

/// The first and the last days in figures.
fn day_table(days: &[Day]) -> Table {
    const SHOWN: usize = 14;
    let row = |day: &Day| {
        let mut row = vec![Cell::from(date(day.day)), number::count(day.hosts as u64).into()];
        row.extend(JUDGED.iter().map(|judged| typical(day.measures[judged.name])));
        row
    };
    let left = days.len().saturating_sub(SHOWN);
    Table {
        title: "The last days".to_owned(),
        columns: columns([Column::text("day"), Column::number("hosts")]),
        rows: days[left..].iter().map(row).collect(),
        ..Table::default()
    }
}

fn date(day: u64) -> String {
    let seconds = i64::try_from(day * 86_400).unwrap_or_default();
    let time = chrono::DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    time.format("%Y-%m-%d").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_fleet::host_row::{HostRow, Measures};

    #[test]
    fn a_fleet_of_two_days_shows_groups_worst_and_days() {
        let mut hosts = Hosts::new(vec!["kernel".into()]);
        for at in 0..60_u64 {
            hosts.push(&HostRow {
                host: format!("host-{}", at % 30),
                kernel: if at % 2 == 0 { "6.1".into() } else { "6.12".into() },
                taken_at_unix_ns: (20_000 + at / 30) * 86_400_000_000_000,
                measures: Measures { polluted_max: Some(at as f64 / 60.0), ..Measures::default() },
                ..HostRow::default()
            });
        }
        let report = report(&hosts, &["kernel".into()], &JUDGED[1], Vec::new(), String::new());
        let text = report.terminal(prairie_report::Terminal::PLAIN).unwrap();
        assert!(text.contains("60 rows of 30 hosts, 2 groups"), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("host-")).count(), WORST, "{text}");
        assert!(text.contains("2024-10-04") && text.contains("2024-10-05"), "{text}");
    }
}
