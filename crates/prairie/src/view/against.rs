//! How like the recorded kernel the `linux` system is, as a report.

mod measures;

use std::iter;
use std::path::Path;

use prairie_frames::MigrateType;
use prairie_replay::exact::differences::{Difference, DifferenceKind};
use prairie_replay::exact::recording::Recording;
use prairie_replay::exact::score::Score;
use prairie_replay::exact::{Fidelity, Through};
use prairie_report::{Block, Cell, Column, KeyFigure, Report, Section, Table, Tone, number};

/// The report.
pub fn report(
    trace: &Path,
    recording: &Recording,
    fidelity: &Fidelity,
    generated_by: String,
) -> Report {
    Report {
        title: "Is `linux` like the Linux that was recorded?".to_owned(),
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
            answer(fidelity),
            misses(fidelity),
            measures::section(fidelity),
            snapshots(recording, fidelity),
            hidden(fidelity),
        ],
    }
}

/// A share to as many digits as tell it from all.
fn share(score: &Score) -> String {
    match score.is_perfect() {
        true => "100 %".into(),
        false => format!("{:.3} %", (score.share() * 1e5).floor() / 1e3),
    }
}

/// The ways to replay and what is asked of each.
fn scores(fidelity: &Fidelity) -> [(&'static str, &'static str, &Score); 5] {
    [
        (
            "buddy level",
            "blocks that left the free lists (`mm_page_alloc_zone_locked`)",
            &fidelity.zone_locked,
        ),
        (
            "fallbacks",
            "blocks taken from foreign lists: block, order and claim (`mm_page_alloc_extfrag`)",
            &fidelity.fallbacks,
        ),
        (
            "followed",
            "all allocations; refills and drains when the record says, of what the model says",
            &fidelity.followed,
        ),
        (
            "corrected",
            "all allocations, everything simulated, each wrong guess put right before the next",
            &fidelity.corrected,
        ),
        (
            "free running",
            "all allocations, everything simulated, nothing put right",
            &fidelity.free_running,
        ),
    ]
}

/// The ways to replay from the first reclaim on.
fn scores_after(through: &Through) -> [(&'static str, &'static str, &Score); 4] {
    [
        (
            "buddy level, after",
            "blocks that left the free lists for a request, from the first reclaim on",
            &through.zone_locked,
        ),
        (
            "fallbacks, after",
            "blocks taken from foreign lists: block, order and claim",
            &through.fallbacks,
        ),
        (
            "followed, after",
            "all allocations; refills, drains and what compaction takes when the record says",
            &through.followed,
        ),
        (
            "isolated, after",
            "blocks that compaction took: the model had just such a block free",
            &through.isolated,
        ),
    ]
}

/// All of them that the recording has.
fn all_scores(fidelity: &Fidelity) -> Vec<(&'static str, &'static str, &Score)> {
    let after = fidelity.through_reclaim.iter().flat_map(scores_after);
    scores(fidelity).into_iter().chain(after).collect()
}

fn answer(fidelity: &Fidelity) -> Section {
    let figure = |(name, meaning, score): (&str, &str, &Score)| KeyFigure {
        value: share(score),
        label: format!("of frames right: {name}"),
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
            Column::text("what is asked"),
        ],
        rows: all_scores(fidelity).into_iter().map(row).collect(),
        ..Table::default()
    };
    let [buddy, _, rest @ ..] = scores(fidelity);
    let after = fidelity.through_reclaim.iter().map(|through| scores_after(through)[0]);
    let figures = iter::once(buddy).chain(rest).chain(after).map(figure).collect();
    Section {
        heading: "Frames".into(),
        intro: "Each choice of the model beside the kernel's own, frame by frame.".into(),
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
        true => Block::Text("There are none.".into()),
        false => Block::Table(Table {
            columns: vec![
                Column::text("replay"),
                Column::number("event"),
                Column::number("kernel's frame"),
                Column::number("model's frame"),
                Column::number("order"),
                Column::text("where the kernel's frame was"),
            ],
            rows,
            ..Table::default()
        }),
    };
    let intro = "The first of each replay. One wrong moment of a drain does not heal when nothing \
                 is put right, so the later misses of a free run mostly follow from its first.";
    Section { heading: "First misses".into(), intro: intro.into(), blocks: vec![block] }
}

fn snapshots(recording: &Recording, fidelity: &Fidelity) -> Section {
    let mut rows = Vec::new();
    for at in &fidelity.snapshots {
        let free_running = at.free_running.as_ref().map(|free| ("free running", free));
        for (name, differences) in iter::once(("followed", &at.followed)).chain(free_running) {
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
        notes: vec!["Numbers that are not the kernel's; frames by which they differ.".into()],
        ..Table::default()
    };
    let mut blocks = vec![Block::Table(summary)];
    if let Some(table) = each_difference(recording, fidelity) {
        blocks.push(Block::Table(table));
    }
    Section {
        heading: "Beside the kernel's own account".into(),
        intro: "Free blocks by order and type, frames on per-CPU lists and pageblocks by type, \
                against `/proc/pagetypeinfo` and `/proc/zoneinfo`."
            .into(),
        blocks,
    }
}

/// The differences where the record is followed, one by one.
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
        title: "Differences where the record is followed".into(),
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

fn hidden(fidelity: &Fidelity) -> Section {
    let (hidden, odd) = match &fidelity.through_reclaim {
        Some(through) => (&through.hidden, &through.odd),
        None => (&fidelity.hidden, &fidelity.odd),
    };
    let row = |(what, count): (&str, u64)| vec![Cell::from(what), number::count(count).into()];
    let table = |title: &str, rows: &[(&str, u64)]| {
        Block::Table(Table {
            title: title.into(),
            columns: vec![Column::text("what"), Column::number("times")],
            rows: rows.iter().copied().map(row).collect(),
            ..Table::default()
        })
    };
    let found_out = [
        ("frames taken by allocations in bulk", hidden.bulk),
        ("of them, dated by the count at a drain", hidden.bulk_by_count),
        ("frees past a per-CPU list in use", hidden.direct_frees),
        ("allocations past a per-CPU list in use", hidden.direct_allocations),
        ("tails of exact allocations", hidden.exact_tails),
        ("allocations logged late", hidden.reordered),
        ("changes of the per-CPU lists' limits", hidden.limits),
        ("blocks that direct compaction kept from the free lists", hidden.captured),
        ("free lists turned by a search that found nothing", hidden.turned),
        ("pageblock types that only the first snapshot's counts show", fidelity.settled_pageblocks),
        (
            "blocks of a refill that tracing missed while it was switched on again",
            fidelity.put_back,
        ),
    ];
    let strange = [
        ("blocks taken from the free lists that the model had elsewhere", odd.not_free),
        ("frees of what the model had as free", odd.freed_free),
        ("drained blocks that were on no per-CPU list", odd.drained_unknown),
        ("drained blocks that were not the last of their list", odd.drained_early),
        ("refills of lists that were not empty", odd.refilled_full),
        ("drains that began below the high mark", odd.drained_low),
        ("frees above the high mark without a drain", odd.undrained),
        ("frees of what nobody held, free running", fidelity.unknown_frees),
    ];
    Section {
        heading: "What left no event".into(),
        intro: "Found out from the record: when it must have happened, never which frame the \
                model would choose."
            .into(),
        blocks: vec![
            table("Found out", &found_out),
            table(
                "What should not be; 0 where the record is complete and has no reclaim",
                &strange,
            ),
        ],
    }
}
