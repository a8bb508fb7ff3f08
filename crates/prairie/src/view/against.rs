//! Validation of the `linux` allocator against the recorded kernel, as a report.

mod measures;

use std::iter;
use std::path::Path;

use prairie_frames::MigrateType;
use prairie_replay::exact::differences::{Difference, DifferenceKind};
use prairie_replay::exact::recording::Recording;
use prairie_replay::exact::score::Score;
use prairie_replay::exact::{Fidelity, FromFirstReclaim};
use prairie_report::{Block, Cell, Column, KeyFigure, Report, Section, Table, Tone, number};

/// The report.
pub fn report(
    trace: &Path,
    recording: &Recording,
    fidelity: &Fidelity,
    left_open: &[&str],
    generated_by: String,
) -> Report {
    Report {
        title: "Validation of `linux` against the recorded kernel".to_owned(),
        subtitle: format!(
            "{} · {} · {}{}",
            trace.display(),
            number::counted(recording.cpus as u64, "CPU"),
            number::counted(fidelity.acts as u64, "event"),
            match &fidelity.through_reclaim {
                Some(through) => format!(
                    " until the first reclaim, {} after",
                    number::count(through.acts as u64)
                ),
                None => String::new(),
            },
        ),
        generated_by,
        sections: vec![
            summary(fidelity),
            misses(fidelity),
            measures::section(fidelity),
            snapshots(recording, fidelity),
            hidden(fidelity, left_open),
        ],
    }
}

/// A share with enough digits to distinguish it from 100 %.
fn share(score: &Score) -> String {
    match score.is_perfect() {
        true => "100 %".into(),
        false => format!("{:.3} %", (score.share() * 1e5).floor() / 1e3),
    }
}

/// The modes of replay and what each compares.
fn scores(fidelity: &Fidelity) -> [(&'static str, &'static str, &Score); 5] {
    [
        (
            "buddy level",
            "blocks taken from the free lists (`mm_page_alloc_zone_locked`)",
            &fidelity.zone_locked,
        ),
        (
            "fallbacks",
            "fallbacks to other types' lists: block, order and claim (`mm_page_alloc_extfrag`)",
            &fidelity.fallbacks,
        ),
        (
            "trace-driven",
            "all allocations; refills and drains at recorded times, with the model's blocks",
            &fidelity.followed,
        ),
        (
            "corrected",
            "all allocations, everything simulated; each mismatch is corrected before the next",
            &fidelity.corrected,
        ),
        (
            "open-loop",
            "all allocations, everything simulated, nothing corrected",
            &fidelity.free_running,
        ),
    ]
}

/// The modes of replay from the first reclaim on.
fn scores_after(through: &FromFirstReclaim) -> [(&'static str, &'static str, &Score); 4] {
    [
        (
            "buddy level, after",
            "blocks taken from the free lists for a request, from the first reclaim on",
            &through.zone_locked,
        ),
        (
            "fallbacks, after",
            "fallbacks to other types' lists: block, order and claim",
            &through.fallbacks,
        ),
        (
            "trace-driven, after",
            "all allocations; refills, drains and compaction's blocks at recorded times",
            &through.followed,
        ),
        (
            "isolated, after",
            "blocks that compaction isolated and that the model also had free",
            &through.isolated,
        ),
    ]
}

/// All modes that the recording allows.
fn all_scores(fidelity: &Fidelity) -> Vec<(&'static str, &'static str, &Score)> {
    let after = fidelity.through_reclaim.iter().flat_map(scores_after);
    scores(fidelity).into_iter().chain(after).collect()
}

fn summary(fidelity: &Fidelity) -> Section {
    let figure = |(name, meaning, score): (&str, &str, &Score)| KeyFigure {
        value: share(score),
        label: format!("of frames match: {name}"),
        definition: meaning.to_owned(),
    };
    let row = |(name, meaning, score): (&str, &str, &Score)| {
        let tone = if score.is_perfect() { Tone::Good } else { Tone::Plain };
        vec![
            Cell::from(name),
            number::count(score.right).into(),
            number::count(score.total).into(),
            Cell::toned(share(score), tone),
            meaning.into(),
        ]
    };
    let table = Table {
        columns: vec![
            Column::text("replay"),
            Column::number("right"),
            Column::number("of"),
            Column::number("share"),
            Column::text("what is compared"),
        ],
        rows: all_scores(fidelity).into_iter().map(row).collect(),
        ..Table::default()
    };
    let [buddy, _, rest @ ..] = scores(fidelity);
    let after = fidelity.through_reclaim.iter().map(|through| scores_after(through)[0]);
    let figures = iter::once(buddy).chain(rest).chain(after).map(figure).collect();
    Section {
        heading: "Frames".into(),
        intro: "Each choice of the model compared with the kernel's own, frame by frame.".into(),
        blocks: vec![Block::KeyFigures(figures), Block::Table(table)],
    }
}

fn misses(fidelity: &Fidelity) -> Section {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for (name, _, score) in all_scores(fidelity) {
        for miss in &score.misses {
            rows.push(vec![
                name.into(),
                number::count(miss.act as u64).into(),
                format!("{:#x}", miss.recorded).into(),
                miss.guessed.map_or("none".into(), |frame| format!("{frame:#x}")).into(),
                miss.order.to_string().into(),
                miss.cause.as_str().into(),
            ]);
        }
    }
    let block = match rows.is_empty() {
        true => Block::Text("None.".into()),
        false => Block::Table(Table {
            columns: vec![
                Column::text("replay"),
                Column::number("event"),
                Column::number("kernel's frame"),
                Column::number("model's frame"),
                Column::number("order"),
                Column::text("place of the kernel's frame in the model"),
            ],
            rows,
            ..Table::default()
        }),
    };
    let intro = "The first misses of each mode. The open-loop replay is never corrected, so most \
                 of its later misses follow from its first.";
    Section { heading: "First misses".into(), intro: intro.into(), blocks: vec![block] }
}

fn snapshots(recording: &Recording, fidelity: &Fidelity) -> Section {
    let mut rows = Vec::new();
    for at in &fidelity.snapshots {
        let free_running = at.free_running.as_ref().map(|free| ("open-loop", free));
        for (name, differences) in iter::once(("trace-driven", &at.followed)).chain(free_running) {
            let count = |kind: fn(&DifferenceKind) -> bool| {
                differences.iter().filter(|d| kind(&d.what)).count().to_string()
            };
            let frames: u64 = differences.iter().map(Difference::frames).sum();
            rows.push(vec![
                at.name.as_str().into(),
                name.into(),
                count(|what| matches!(what, DifferenceKind::FreeBlocks { .. })).into(),
                count(|what| matches!(what, DifferenceKind::PerCpu { .. })).into(),
                count(|what| matches!(what, DifferenceKind::Pageblocks { .. })).into(),
                number::count(frames).into(),
            ]);
        }
    }
    let summary = Table {
        columns: vec![
            Column::text("snapshot"),
            Column::text("replay"),
            Column::number("free lists"),
            Column::number("per-CPU counts"),
            Column::number("pageblock counts"),
            Column::number("frames"),
        ],
        rows,
        notes: vec!["Numbers that differ from the kernel's, and the difference in frames.".into()],
        ..Table::default()
    };
    let mut blocks = vec![Block::Table(summary)];
    if let Some(table) = each_difference(recording, fidelity) {
        blocks.push(Block::Table(table));
    }
    Section {
        heading: "Comparison with the kernel's counters".into(),
        intro: "Free blocks by order and type, frames on per-CPU lists and pageblocks by type, \
                against `/proc/pagetypeinfo` and `/proc/zoneinfo`."
            .into(),
        blocks,
    }
}

/// The differences of the trace-driven replay, one by one.
fn each_difference(recording: &Recording, fidelity: &Fidelity) -> Option<Table> {
    let name = |number: u8| MigrateType::ALL[usize::from(number)].name();
    let words = |what: &DifferenceKind| match *what {
        DifferenceKind::FreeBlocks { order, migrate_type } => {
            format!("free blocks of order {order}, {}", name(migrate_type))
        }
        DifferenceKind::PerCpu { cpu } => format!("frames on the lists of CPU {cpu}"),
        DifferenceKind::Pageblocks { migrate_type } => {
            format!("pageblocks, {}", name(migrate_type))
        }
    };
    let mut rows = Vec::new();
    for at in &fidelity.snapshots {
        for difference in &at.followed {
            let zone = &recording.layout.zones()[difference.zone].span;
            rows.push(vec![
                at.name.as_str().into(),
                format!("node {} {}", zone.node, zone.kind).into(),
                words(&difference.what).into(),
                number::count(difference.kernel).into(),
                number::count(difference.replay).into(),
            ]);
        }
    }
    (!rows.is_empty()).then(|| Table {
        title: "Differences of the trace-driven replay".into(),
        columns: vec![
            Column::text("snapshot"),
            Column::text("zone"),
            Column::text("what"),
            Column::number("kernel"),
            Column::number("replay"),
        ],
        rows,
        ..Table::default()
    })
}

fn hidden(fidelity: &Fidelity, left_open: &[&str]) -> Section {
    let (hidden, odd) = match &fidelity.through_reclaim {
        Some(through) => (&through.hidden, &through.odd),
        None => (&fidelity.hidden, &fidelity.odd),
    };
    let row = |(what, count): (&str, u64)| vec![Cell::from(what), number::count(count).into()];
    let table = |title: &str, rows: &[(&str, u64)]| {
        Block::Table(Table {
            title: title.into(),
            columns: vec![Column::text("event"), Column::number("count")],
            rows: rows.iter().copied().map(row).collect(),
            ..Table::default()
        })
    };
    let found_out = [
        ("frames of bulk allocations", hidden.bulk),
        ("dated by the count at a drain", hidden.bulk_by_count),
        ("frees that bypassed a busy per-CPU list", hidden.direct_frees),
        ("allocations that bypassed a busy per-CPU list", hidden.direct_allocations),
        ("tails of exact allocations", hidden.exact_tails),
        ("allocations logged late", hidden.reordered),
        ("allocations logged on another CPU", hidden.migrated),
        ("changes of the per-CPU lists' limits", hidden.limits),
        ("blocks that direct compaction kept from the free lists", hidden.captured),
        ("free lists rotated by an unsuccessful search", hidden.turned),
        ("pageblock types that only the first snapshot's counts show", fidelity.settled_pageblocks),
        ("blocks of a refill missed while tracing was re-enabled", fidelity.put_back),
        ("blocks of late initialization logged after others", fidelity.reordered_hand_overs),
    ];
    let strange = [
        ("blocks taken from the free lists that are not free in the model", odd.not_free),
        ("frees of frames that are free in the model", odd.freed_free),
        ("drained blocks that were on no per-CPU list", odd.drained_unknown),
        ("drained blocks that were not at the tail of their list", odd.drained_early),
        ("pageblocks that went offline and are not free in the model", odd.removed_used),
        ("refills of lists that were not empty", odd.refilled_full),
        ("drains that began below the high mark", odd.drained_low),
        ("frees above the high mark without a drain", odd.undrained),
        ("refills of another size than expected", odd.resized),
        ("frames of bulk allocations that were on no list", odd.bulk_missing),
        ("frees of unknown frames, open-loop", fidelity.unknown_frees),
    ];
    Section {
        heading: "Unrecorded events".into(),
        intro: "Inferred from the record: when it must have happened, never which frame the model \
                would choose."
            .into(),
        blocks: iter::empty()
            .chain((!left_open.is_empty()).then(|| {
                let open = left_open.join("; ");
                Block::Text(format!("Not recorded, because the kernel refused a probe: {open}."))
            }))
            .chain([
                table("Inferred", &found_out),
                table("Inconsistencies; 0 if the record is complete and has no reclaim", &strange),
            ])
            .collect(),
    }
}
