//! Fragmentation at each snapshot, of the kernel and of the replay.

use std::iter;

use prairie_frames::MigrateType;
use prairie_replay::exact::measures::Measures;
use prairie_replay::exact::{AtSnapshot, Fidelity};
use prairie_report::{Block, Cell, Column, Section, Table, number};

/// One row for each measure at each snapshot.
pub fn section(fidelity: &Fidelity) -> Section {
    let driven = fidelity.through_reclaim.as_ref().map(|through| &through.driven.snapshots);
    let driven_at = |place: usize| driven.and_then(|snapshots| snapshots.get(place));
    let mut columns = vec![
        Column::text("snapshot"),
        Column::text("what"),
        Column::number("kernel"),
        Column::number("replay"),
    ];
    columns.extend(driven.map(|_| Column::number("driven")));
    let snapshots = fidelity.snapshots.iter().enumerate();
    let table = Table {
        columns,
        rows: snapshots.flat_map(|(place, at)| rows(at, driven_at(place))).collect(),
        notes: vec![
            "* after the first reclaim or compaction".into(),
            "Frames of unknown class count as unmovable; so do, in the replay, those on per-CPU \
             lists, which have no flags."
                .into(),
        ],
        ..Table::default()
    };
    Section {
        heading: "Fragmentation".into(),
        intro: "Measures from the kernel's free lists and `/proc/kpageflags`, and from the memory \
                of the trace-driven replay. Driven: the machine of `prairie lab`, given the \
                record's demand alone, reclaims and compacts by itself."
            .into(),
        blocks: iter::once(table).chain(work(fidelity)).map(Block::Table).collect(),
    }
}

/// Reclaim and compaction in the record and by the simulated machine.
fn work(fidelity: &Fidelity) -> Option<Table> {
    let driven = &fidelity.through_reclaim.as_ref()?.driven;
    let row = |what: &str, kernel: u64, machine: u64| {
        vec![what.into(), number::count(kernel).into(), number::count(machine).into()]
    };
    let [kswapd, direct] = driven.recorded_reclaimed;
    let [own_kswapd, own_direct] = driven.reclaimed;
    Some(Table {
        title: "Reclaim and compaction".into(),
        columns: vec![Column::text("event"), Column::number("kernel"), Column::number("driven")],
        rows: vec![
            row("pages reclaimed by kswapd", kswapd, own_kswapd),
            row("pages reclaimed directly", direct, own_direct),
            row("pages moved", driven.recorded_moved, driven.moved),
            row("requests that only the other served", driven.unmet, driven.met),
        ],
        ..Table::default()
    })
}

fn rows(at: &AtSnapshot, driven: Option<&Measures>) -> Vec<Vec<Cell>> {
    let name = format!("{}{}", at.name, if at.after_reclaim { " *" } else { "" });
    let row = |what: String, of: &dyn Fn(&Measures) -> Option<String>| {
        let [kernel, replay] = [&at.kernel, &at.replay].map(of);
        let told = |text: Option<String>| text.unwrap_or_else(|| "unknown".into());
        let is_known = kernel.is_some();
        is_known.then(|| {
            let mut cells =
                vec![name.clone().into(), what.into(), told(kernel).into(), told(replay).into()];
            cells.extend(driven.map(|driven| told(of(driven)).into()));
            cells
        })
    };
    let count = |count: u64| Some(number::count(count));
    let mut rows = vec![
        row("F_u(9)".into(), &|m| Some(number::index(m.unusable))),
        row("potential contiguity, 2 MiB".into(), &|m| m.potential.map(number::percent)),
        row("polluted pageblocks".into(), &|m| m.polluted.map(number::count)),
        row("fallbacks since boot".into(), &|m| count(m.fallbacks)),
    ];
    for migrate_type in MigrateType::ALL {
        let at_type = migrate_type.index();
        if at.kernel.pageblocks[at_type] + at.replay.pageblocks[at_type] > 0 {
            let what = format!("pageblocks, {}", migrate_type.name());
            rows.push(row(what, &|m| count(m.pageblocks[at_type])));
        }
    }
    for cpu in 0..at.kernel.per_cpu.len() {
        let what = format!("frames on CPU {cpu}'s lists");
        rows.push(row(what, &|m| count(m.per_cpu.get(cpu).copied().unwrap_or(0))));
    }
    let by_order = |m: &Measures| {
        let counts: Vec<String> = m.free_blocks.iter().map(u64::to_string).collect();
        Some(counts.join(" "))
    };
    rows.push(row("free blocks by order".into(), &by_order));
    rows.into_iter().flatten().collect()
}
