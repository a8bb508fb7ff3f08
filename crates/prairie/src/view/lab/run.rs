//! Results of a scenario under each allocator.

use std::path::Path;

use prairie_report::{
    Axis, Block, Cell, Column, LineChart, Report, Section, Series, Shape, Table, Unit, number,
};
use prairie_sim::simulate::{Moment, Results, SystemResult};

use super::{all_counters, columns, quoted};

/// The whole report.
pub fn report(file: &Path, results: &Results, generated_by: String) -> Report {
    let systems = &results.systems;
    let of: Vec<_> = systems.iter().map(|s| (s.system.as_str(), &s.counters)).collect();
    let name = if results.scenario.is_empty() { "a scenario" } else { &results.scenario };
    let mut sections = vec![
        Section {
            heading: "At the end".to_owned(),
            intro: String::new(),
            blocks: vec![Block::Table(at_the_end(systems)), Block::Table(quoted(&of))],
        },
        over_time(systems),
        Section::of_table("Counters", all_counters(&of)),
    ];
    if systems.iter().any(|s| !s.pools.is_empty()) {
        sections.insert(1, pools(systems));
    }
    if systems.iter().any(|s| !s.killed.is_empty()) {
        sections.insert(1, killed(systems));
    }
    Report {
        title: format!("{name} under simulated allocators"),
        subtitle: format!(
            "{} · {} of memory · {} simulated · seed {}",
            file.display(),
            number::bytes(results.frames * 4096),
            number::duration(results.simulated_ns),
            results.seed
        ),
        generated_by,
        sections,
    }
}

fn at_the_end(systems: &[SystemResult]) -> Table {
    let last = |s: &SystemResult| s.moments.last().cloned();
    let bytes = |frames: u64| number::bytes(frames * 4096);
    let row = |name: &str, value: &dyn Fn(&Moment) -> String| -> Vec<Cell> {
        let cells =
            systems.iter().map(|s| Cell::from(last(s).map_or(String::new(), |m| value(&m))));
        std::iter::once(Cell::from(name)).chain(cells).collect()
    };
    let mut rows = vec![
        row("F_u(9)", &|m| number::index(m.unusable_2_mib)),
        row("polluted pageblocks", &|m| number::count(m.polluted_blocks)),
        row("free", &|m| bytes(m.free_frames)),
        row("anonymous", &|m| bytes(m.anonymous_frames)),
        row("page cache", &|m| bytes(m.file_frames)),
        row("slab", &|m| bytes(m.slab_frames)),
        row("other kernel memory", &|m| bytes(m.kernel_frames)),
        row("swap used", &|m| bytes(m.swap_used)),
    ];
    let kinds = systems.first().map_or(0, |s| s.ended.len());
    for kind in 0..kinds {
        let name = format!("`{}` done", systems[0].ended[kind].0);
        let cells = systems.iter().map(|s| Cell::from(number::count(s.ended[kind].1)));
        rows.push(std::iter::once(Cell::from(name)).chain(cells).collect());
    }
    Table::new(columns(systems.iter().map(|s| s.system.as_str())), rows)
}

/// Pools of persistent huge pages that phases resized.
fn pools(systems: &[SystemResult]) -> Section {
    let rows = systems.iter().flat_map(|system| {
        system.pools.iter().map(|pool| {
            let size = number::bytes(4096 << pool.order);
            let cells = [
                system.system.clone(),
                pool.phase.clone(),
                size,
                number::count(pool.wanted),
                number::count(pool.had),
            ];
            cells.into_iter().map(Cell::from).collect()
        })
    });
    Section::of_table(
        "Pools of huge pages",
        Table::new(
            vec![
                Column::text("system"),
                Column::text("phase"),
                Column::text("page size"),
                Column::number("wanted"),
                Column::number("had"),
            ],
            rows.collect(),
        ),
    )
}

fn killed(systems: &[SystemResult]) -> Section {
    let mut lines = Vec::new();
    for system in systems {
        for killed in system.killed.iter().take(5) {
            lines.push(format!(
                "{}: at {} the OOM killer chose `{}`, which had {}; a request of order {} found nothing.",
                system.system,
                number::duration(killed.time_ns),
                killed.process,
                number::bytes(killed.resident_frames * 4096),
                killed.order
            ));
        }
        if system.killed.len() > 5 {
            lines.push(format!("{}: {} more.", system.system, system.killed.len() - 5));
        }
    }
    Section {
        heading: "Out of memory".to_owned(),
        intro: String::new(),
        blocks: lines.into_iter().map(Block::Warning).collect(),
    }
}

fn over_time(systems: &[SystemResult]) -> Section {
    let chart = |title: &str, y: Axis, value: fn(&Moment) -> f64| {
        let one = |s: &SystemResult| Series {
            name: s.system.clone(),
            points: s.moments.iter().map(|m| (m.time_ns as f64 / 1e9, value(m))).collect(),
        };
        Block::LineChart(LineChart {
            title: title.to_owned(),
            caption: String::new(),
            x: Axis::new("simulated time", Unit::Seconds),
            y,
            series: systems.iter().map(one).collect(),
            shape: Shape::Straight,
        })
    };
    Section {
        heading: "Over time".to_owned(),
        intro: String::new(),
        blocks: vec![
            chart(
                "Unusable free space for 2 MiB",
                Axis::new("F_u(9)", Unit::Number).within(0.0, 1.0),
                |m| m.unusable_2_mib,
            ),
            chart("Free memory", Axis::new("free", Unit::Bytes), |m| m.free_frames as f64 * 4096.0),
            chart("polluted pageblocks", Axis::new("blocks", Unit::Count), |m| {
                m.polluted_blocks as f64
            }),
        ],
    }
}
