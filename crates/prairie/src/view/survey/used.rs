//! Memory in use: its classes, its mobility, and polluted pageblocks.

use prairie_host::Survey;
use prairie_host::survey::ZoneSurvey;
use prairie_host::survey::frame_report::{
    Available, ClassFrames, FrameReport, Potential, PotentialBlocks,
};
use prairie_host::survey::polluted::{PollutedBucket, UnmovableSource};
use prairie_report::{
    Axis, BarChart, BarSeries, Block, Cell, Column, Section, Table, Tone, Unit, number,
};

use super::{ratio, size, summary, zone_name};

/// Available and potential contiguity.
pub fn contiguity(survey: &Survey) -> Option<Section> {
    let frames = survey.frames.as_ref()?;
    let mut blocks = vec![Block::Table(available(frames)), Block::Table(potential(frames))];
    if survey.zones.len() > 1 {
        blocks.push(Block::Table(by_zone(survey)));
    }
    let intro = "Free memory in aligned blocks now (available), and memory in aligned blocks without \
                 an unmovable frame (potential): the limit of compaction for each block, whether or \
                 not its pages fit elsewhere. Frames of unknown class count as unmovable for the \
                 lower bound and as movable for the upper bound.";
    Some(Section {
        heading: "Available and potential contiguity".to_owned(),
        intro: intro.to_owned(),
        blocks,
    })
}

fn available(frames: &FrameReport) -> Table {
    let row = |row: &Available| {
        vec![
            number::bytes(row.block_bytes).into(),
            number::count(row.blocks).into(),
            Cell::toned(number::percent(row.share_of_free), Tone::Strong),
        ]
    };
    Table {
        title: "Available now".to_owned(),
        columns: vec![
            Column::number("block"),
            Column::number("free blocks"),
            Column::number("share of free memory"),
        ],
        rows: frames.available.iter().map(row).collect(),
        notes: Vec::new(),
    }
}

fn potential(frames: &FrameReport) -> Table {
    let row = |row: &Potential| {
        let blocks = |blocks: &PotentialBlocks| Cell::from(number::count(blocks.blocks));
        let share = |blocks: &PotentialBlocks| {
            Cell::toned(number::percent(blocks.share_of_memory), Tone::Strong)
        };
        vec![
            number::bytes(row.block_bytes).into(),
            blocks(&row.unknown_unmovable),
            share(&row.unknown_unmovable),
            blocks(&row.unknown_movable),
            share(&row.unknown_movable),
        ]
    };
    Table {
        title: "Potential".to_owned(),
        columns: vec![
            Column::number("block"),
            Column::number("blocks").with_unit("at least"),
            Column::number("share of memory").with_unit("at least"),
            Column::number("blocks").with_unit("at most"),
            Column::number("share of memory").with_unit("at most"),
        ],
        rows: frames.potential.iter().map(row).collect(),
        notes: potential_notes(frames),
    }
}

fn potential_notes(frames: &FrameReport) -> Vec<String> {
    let mut notes =
        vec!["At least: unknown frames count as unmovable. At most: as movable.".to_owned()];
    let missing = 1.0 - frames.initialized.share_of_memory;
    if missing > 0.0 {
        notes.push(format!(
            "{} of memory is not initialized yet and counts as unknown here. Of initialized memory, \
             {} is in 2 MiB blocks.",
            number::percent(missing),
            summary::initialized(frames)
        ));
    }
    notes
}

fn by_zone(survey: &Survey) -> Table {
    let row = |zone: &ZoneSurvey| {
        let frames = zone.frames.as_ref()?;
        let share = |part: u64| Cell::from(number::percent(ratio(part, frames.present_frames)));
        let by = &frames.by_mobility;
        Some(vec![
            Cell::toned(zone_name(survey, zone.id), Tone::Strong),
            share(by.free),
            share(by.movable),
            share(by.unmovable),
            share(by.unknown),
            Cell::from(number::percent(frames.initialized.polluted_share)),
            Cell::from(summary::initialized(frames)),
            Cell::from(number::percent(1.0 - frames.initialized.share_of_memory)),
        ])
    };
    Table {
        title: "By zone".to_owned(),
        columns: vec![
            Column::text("zone"),
            Column::number("free"),
            Column::number("movable"),
            Column::number("unmovable"),
            Column::number("unknown"),
            Column::number("polluted").with_unit("of initialized pageblocks"),
            Column::number("potential").with_unit("in 2 MiB blocks, of initialized"),
            Column::number("uninitialized"),
        ],
        rows: super::shown_zones(survey).filter_map(row).collect(),
        notes: super::hidden_zones(survey).into_iter().collect(),
    }
}

/// Memory by class.
pub fn by_class(survey: &Survey) -> Option<Section> {
    let frames = survey.frames.as_ref()?;
    let row = |row: &ClassFrames| {
        let tone = match row.mobility {
            "unmovable" => Tone::Bad,
            "movable" => Tone::Good,
            _ => Tone::Plain,
        };
        vec![
            Cell::toned(row.label, Tone::Strong),
            size(survey, row.frames).into(),
            number::percent(row.share_of_memory).into(),
            Cell::toned(row.mobility, tone),
            row.why.into(),
        ]
    };
    let total = |what: &str, frames_of: u64| {
        vec![
            Cell::toned(what, Tone::Muted),
            Cell::from(size(survey, frames_of)),
            Cell::from(number::percent(ratio(frames_of, frames.present_frames))),
        ]
    };
    let by = &frames.by_mobility;
    let mut rows: Vec<Vec<Cell>> = frames.by_class.iter().map(row).collect();
    rows.extend([
        total("all free", by.free),
        total("all movable", by.movable),
        total("all unmovable", by.unmovable),
        total("all unknown", by.unknown),
    ]);
    let mut notes = Vec::new();
    if frames.unevictable_frames > 0 {
        notes.push(format!(
            "Of the movable memory {} is unevictable or locked, and moves only while \
             vm.compact_unevictable_allowed is 1.",
            size(survey, frames.unevictable_frames)
        ));
    }
    let table = Table {
        columns: vec![
            Column::text("what"),
            Column::number("memory"),
            Column::number("share"),
            Column::text("mobility"),
            Column::text("why"),
        ],
        rows,
        notes,
        ..Table::default()
    };
    Some(Section {
        heading: "Memory by class".to_owned(),
        intro: "Every frame by its flags, and whether software can move its contents.".to_owned(),
        blocks: vec![Block::Table(table)],
    })
}

/// Unmovable memory by source, and polluted pageblocks by number of unmovable frames.
pub fn polluters(survey: &Survey) -> Option<Section> {
    let frames = survey.frames.as_ref()?;
    let polluted = &frames.polluted;
    let mut intro = format!(
        "{} ({} of memory) in {} of {} of 2 MiB ({}).",
        number::counted(polluted.unmovable_frames, "unmovable frame"),
        number::percent(ratio(polluted.unmovable_frames, frames.present_frames)),
        number::count(polluted.polluted_blocks),
        number::counted(polluted.whole_blocks, "block"),
        number::percent(polluted.polluted_share),
    );
    let other = &frames.polluted_if_unknown_unmovable;
    if other.polluted_blocks != polluted.polluted_blocks {
        intro += &format!(
            " With unknown frames as unmovable: {} ({}).",
            number::counted(other.polluted_blocks, "block"),
            number::percent(other.polluted_share)
        );
    }
    let mut blocks = vec![Block::Table(sources(survey, frames))];
    if polluted.polluted_blocks > 0 {
        blocks.push(Block::Table(histogram(frames)));
        blocks.push(Block::BarChart(histogram_chart(frames)));
    }
    Some(Section { heading: "Polluted pageblocks".to_owned(), intro, blocks })
}

fn sources(survey: &Survey, frames: &FrameReport) -> Table {
    let row = |source: &UnmovableSource| {
        let blocks = |n: u64| Cell::from(number::count(n));
        vec![
            Cell::toned(source.label, Tone::Strong),
            size(survey, source.frames).into(),
            number::percent(source.share_of_unmovable).into(),
            blocks(source.blocks),
            blocks(source.blocks_alone),
        ]
    };
    Table {
        title: "Unmovable memory by source".to_owned(),
        columns: vec![
            Column::text("source"),
            Column::number("memory"),
            Column::number("of unmovable"),
            Column::number("polluted pageblocks"),
            Column::number("by this source alone"),
        ],
        rows: frames.unmovable_sources.iter().map(row).collect(),
        notes: vec![
            "By this source alone: blocks without unmovable frames of another source.".to_owned(),
        ],
    }
}

/// Names of buckets: `1`, `2–3`, `512`.
fn bucket_name(bucket: &PollutedBucket) -> String {
    match bucket.from_frames == bucket.to_frames {
        true => bucket.from_frames.to_string(),
        false => format!("{}–{}", bucket.from_frames, bucket.to_frames),
    }
}

fn histogram(frames: &FrameReport) -> Table {
    let row = |bucket: &PollutedBucket| {
        vec![
            bucket_name(bucket).into(),
            number::count(bucket.blocks).into(),
            Cell::toned(number::percent(bucket.cumulative_share), Tone::Strong),
            number::count(bucket.unmovable_frames).into(),
        ]
    };
    Table {
        title: "Polluted pageblocks by number of unmovable frames (of 512)".to_owned(),
        columns: vec![
            Column::number("unmovable frames"),
            Column::number("blocks"),
            Column::number("cumulative share"),
            Column::number("total frames"),
        ],
        rows: frames.polluted.histogram.iter().map(row).collect(),
        notes: Vec::new(),
    }
}

fn histogram_chart(frames: &FrameReport) -> BarChart {
    let polluted = &frames.polluted;
    let share = |bucket: &PollutedBucket| ratio(bucket.blocks, polluted.polluted_blocks);
    BarChart {
        title: "Polluted pageblocks by number of unmovable frames".to_owned(),
        caption: "Bars at the left: blocks that only a few unmovable frames pollute.".to_owned(),
        x: Axis::new("unmovable frames", Unit::Number),
        y: Axis::new("share of polluted pageblocks", Unit::Share),
        categories: polluted.histogram.iter().map(bucket_name).collect(),
        series: vec![BarSeries {
            name: "polluted pageblocks".to_owned(),
            values: polluted.histogram.iter().map(share).collect(),
        }],
    }
}
