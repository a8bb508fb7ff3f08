//! Profiles of streams of accesses, side by side.

use prairie_migrate::profile::Profile;
use prairie_report::{
    Axis, Block, Cell, Column, LineChart, Report, Section, Series, Table, Unit, number,
};

/// The report.
pub fn report(profiles: &[(String, Profile)], requests: u64, generated_by: String) -> Report {
    Report {
        title: "Profiles of access streams".to_owned(),
        subtitle: format!("{} of one thread", number::counted(requests, "request")),
        generated_by,
        sections: vec![Section {
            heading: "Profiles".to_owned(),
            intro: String::new(),
            blocks: vec![
                Block::Table(table(profiles, requests)),
                Block::LineChart(reuse(profiles)),
            ],
        }],
    }
}

fn table(profiles: &[(String, Profile)], requests: u64) -> Table {
    let each = |count: u64| number::short(count as f64 / requests as f64);
    let row = |name: &str, value: &dyn Fn(&Profile) -> String| -> Vec<Cell> {
        let values = profiles.iter().map(|(_, profile)| value(profile).into());
        std::iter::once(name.into()).chain(values).collect()
    };
    let mut rows = vec![
        row("accesses per request", &|profile| each(profile.accesses)),
        row("instructions per request", &|profile| each(profile.instructions)),
        row("stores among accesses", &|profile| number::percent(profile.stores)),
        row("lines touched by a request", &|profile| number::short(profile.lines_per_request)),
        row("pages touched by a request", &|profile| number::short(profile.pages_per_request)),
        row("lines touched, total", &|profile| number::count(profile.lines)),
        row("pages touched, total", &|profile| number::count(profile.pages)),
    ];
    for class in (0..=20).step_by(2) {
        let name = format!("reused within {}", number::counted(1 << class, "line"));
        rows.push(row(&name, &|profile| number::percent(profile.within[class])));
    }
    let names = profiles.iter().map(|(name, _)| Column::number(name.as_str()));
    Table {
        columns: std::iter::once(Column::text("")).chain(names).collect(),
        rows,
        notes: vec![
            "Reused within N lines: share of accesses to a line that was used before with fewer \
             than N other lines in between; a fully associative cache of N lines would serve them."
                .to_owned(),
        ],
        ..Table::default()
    }
}

fn reuse(profiles: &[(String, Profile)]) -> LineChart {
    let line = |(name, profile): &(String, Profile)| Series {
        name: name.clone(),
        points: profile.within.iter().enumerate().map(|(at, y)| (at as f64, *y)).collect(),
    };
    LineChart {
        title: "Accesses served by a cache of N lines".to_owned(),
        x: Axis::new("lines, as a power of two", Unit::Number),
        y: Axis::new("share of accesses", Unit::Share).within(0.0, 1.0),
        series: profiles.iter().map(line).collect(),
        ..LineChart::default()
    }
}
