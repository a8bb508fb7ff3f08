//! Contiguity as speed: Contiguitas's Figure 6.

use prairie_report::{Block, Cell, Column, Report, Section, Table, number};
use prairie_sim::translation::study::{Figure, Fragmented};

/// The whole report.
pub fn report(figure: &Figure, generated_by: String) -> Report {
    let assumptions = &figure.assumptions;
    Report {
        title: "From contiguity to speed".to_owned(),
        subtitle: format!(
            "machine of {}, skew {}, seed {}",
            number::bytes(assumptions.frames << 12),
            assumptions.skew,
            assumptions.seed
        ),
        generated_by,
        sections: vec![
            Section {
                heading: "Memory after fragmentation".to_owned(),
                intro: "Polluted pageblocks, and the share of a program's memory that then comes \
                        in pages of 2 MiB."
                    .to_owned(),
                blocks: vec![Block::Table(machines(figure))],
            },
            Section {
                heading: "Speedup of programs".to_owned(),
                intro: format!(
                    "The paper: 2 to 9 % and 7 to 18 % faster under Contiguitas, Web another 7.5 % \
                     by pages of 1 GiB. Here `{}` spends {} of its cycles translating with pages \
                     of 4 KiB, by assumption; all programs compute {:.0} cycles between two \
                     visits.",
                    assumptions.anchor,
                    number::percent(assumptions.walk_share),
                    figure.cycles_between
                ),
                blocks: vec![Block::Table(programs(figure))],
            },
        ],
    }
}

/// The names of the degrees: partial and full.
fn name(figure: &Figure, at: usize) -> String {
    let name = ["partial", "full"].get(at).copied().unwrap_or("degree");
    format!("{name} ({})", figure.machines[at].degree)
}

fn machines(figure: &Figure) -> Table {
    let row = |(at, machine): (usize, &Fragmented)| {
        [("linux", machine.linux), ("contiguitas", machine.contiguitas)].map(|(system, left)| {
            vec![
                Cell::from(name(figure, at)),
                system.into(),
                number::percent(left.polluted).into(),
                number::percent(left.huge).into(),
                number::count(left.free_gigabytes).into(),
                number::count(left.pages_moved).into(),
            ]
        })
    };
    Table::new(
        vec![
            Column::text("fragmentation"),
            Column::text("system"),
            Column::number("polluted pageblocks"),
            Column::number("in huge pages"),
            Column::number("free gigabytes"),
            Column::number("pages moved"),
        ],
        figure.machines.iter().enumerate().flat_map(row).collect(),
    )
}

fn programs(figure: &Figure) -> Table {
    let degrees = 0..figure.machines.len();
    let gains = degrees.clone().map(|at| Column::number(name(figure, at)));
    let gigantic = degrees.map(|at| Column::number(format!("1 GiB, {}", name(figure, at))));
    let rows = figure.programs.iter().map(|program| {
        let gain = |gain: &f64| Cell::from(number::change(*gain, 1));
        [
            Cell::from(program.workload.as_str()),
            format!("{:.1} GiB", program.gib).into(),
            number::percent(program.share_base).into(),
            number::percent(program.share_huge).into(),
        ]
        .into_iter()
        .chain(program.gains.iter().map(gain))
        .chain(program.gains_gigantic.iter().map(gain))
        .collect()
    });
    Table {
        title: String::new(),
        columns: [
            Column::text("program"),
            Column::number("memory"),
            Column::number("cycles translating, 4 KiB"),
            Column::number("2 MiB"),
        ]
        .into_iter()
        .chain(gains)
        .chain(gigantic)
        .collect(),
        rows: rows.collect(),
        notes: vec![
            "Speedup of contiguitas over linux; then the additional speedup with pages of 1 GiB."
                .to_owned(),
        ],
    }
}
