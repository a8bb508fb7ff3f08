//! Background of a survey: what is missing, consistency checks, definitions.

use prairie_host::Survey;
use prairie_report::{Block, Cell, Column, Definition, Section, Table, Tone, number};

/// What is missing, with the reason; `None` if nothing is.
pub fn left_out(survey: &Survey) -> Option<Section> {
    let row = |left_out: &prairie_host::LeftOut| {
        vec![
            left_out.what.as_str().into(),
            left_out.why.as_str().into(),
            left_out.remedy.as_str().into(),
        ]
    };
    let table = Table {
        columns: vec![Column::text("figure"), Column::text("reason"), Column::text("remedy")],
        rows: survey.left_out.iter().map(row).collect(),
        ..Table::default()
    };
    let heading = "Not shown".to_owned();
    (!survey.left_out.is_empty()).then(|| Section {
        heading,
        blocks: vec![Block::Table(table)],
        ..Section::default()
    })
}

/// Figures that two sources report.
pub fn checks(survey: &Survey) -> Option<Section> {
    let row = |check: &prairie_host::survey::CrossCheck| {
        vec![
            check.what.as_str().into(),
            Cell::toned(number::count(check.by_flags_frames), Tone::Strong),
            Cell::toned(number::count(check.by_kernel_frames), Tone::Strong),
            check.relation.into(),
        ]
    };
    let table = Table {
        columns: vec![
            Column::text("what"),
            Column::number("by flags").with_unit("frames"),
            Column::number("by the kernel").with_unit("frames"),
            Column::text("source, and expected relation"),
        ],
        rows: survey.cross_checks.iter().map(row).collect(),
        ..Table::default()
    };
    let intro = "The frames' flags compared with the kernel's own counts. The last \
                 column says how near they should be.";
    (!survey.cross_checks.is_empty()).then(|| Section {
        heading: "Consistency checks".to_owned(),
        intro: intro.to_owned(),
        blocks: vec![Block::Table(table)],
    })
}

/// The report's definitions.
pub fn definitions() -> Section {
    let definition = |(term, meaning): (&str, &str)| Definition {
        term: term.to_owned(),
        meaning: meaning.to_owned(),
    };
    let words = [
        ("Order", "A block of order `j` is `2^j` frames of 4 KiB, aligned to its size."),
        (
            "F_u(j), unusable free space index",
            "The share of free memory that lies in blocks smaller than order `j`; 1 if nothing is \
             free. Computed from the free lists up to their largest order, beyond that from \
             aligned, wholly free blocks.",
        ),
        (
            "F_i(j), fragmentation index",
            "`1 − (free frames / 2^j) / free blocks`, where a request of order `j` would fail; 0 \
             if no block is free. The kernel's own version adds one frame and rounds.",
        ),
        (
            "Movable, unmovable, unknown",
            "Movable: a compaction that may wait for locks and I/O can move it. Unmovable: no \
             migration path of the kernel can. Unknown: its flags do not show which. \
             `docs/src/concepts/definitions.md` gives the rule for every flag.",
        ),
        (
            "Potential contiguity",
            "The share of all memory in aligned blocks without an unmovable frame.",
        ),
        (
            "Polluted pageblock",
            "A 2 MiB block, all of whose frames exist, with at least one unmovable frame.",
        ),
        ("Huge-page coverage", "Anonymous memory on 2 MiB pages, divided by all anonymous memory."),
    ];
    Section {
        heading: "Definitions".to_owned(),
        blocks: vec![Block::Definitions(words.map(definition).to_vec())],
        ..Section::default()
    }
}
