//! The regions of a kernel with a movable border between unmovable and movable memory.

use prairie_host::Survey;
use prairie_host::contiguitas::{COUNTERS, NodeRegions, Region};
use prairie_report::{Block, Cell, Column, Section, Table, Tone, number};

use super::range;

/// Sizes, borders, and counters; `None` on other kernels.
pub fn section(survey: &Survey) -> Option<Section> {
    let nodes = &survey.contiguitas.as_ref()?.nodes;
    let intro = "Unmovable memory lies below the border, movable memory above it. The kernel moves \
                 the border by pageblocks.";
    let blocks = [regions(nodes), borders(nodes), counters(nodes)];
    Some(Section {
        heading: "Regions".to_owned(),
        intro: intro.to_owned(),
        blocks: blocks.map(Block::Table).to_vec(),
    })
}

/// Both regions of all nodes, each by name, for the first screen.
pub fn lines(survey: &Survey) -> Vec<(&'static str, String)> {
    let Some(found) = &survey.contiguitas else { return Vec::new() };
    let text = |regions: Vec<&Region>| {
        let size = number::bytes(regions.iter().map(|region| region.bytes).sum());
        let free = regions.iter().filter_map(|region| region.available_bytes);
        let free = free.reduce(u64::saturating_add);
        let free = free.map(|free| format!("{} free", number::bytes(free)));
        let unmovable = unmovable(&regions).map(|share| format!("{share} unmovable"));
        [Some(size), free, unmovable].into_iter().flatten().collect::<Vec<_>>().join(", ")
    };
    vec![
        ("Unmovable region", text(found.unmovable().collect())),
        ("Movable region", text(found.movable().collect())),
    ]
}

/// The unmovable share of regions together; `None` where page flags were not read.
fn unmovable(regions: &[&Region]) -> Option<String> {
    let frames: Option<Vec<_>> = regions.iter().map(|region| region.frames).collect();
    let together = frames?.into_iter().reduce(|a, b| a.with(b))?;
    let (low, high) = together.unmovable_shares();
    Some(range(low, high))
}

fn optional(bytes: Option<u64>) -> Cell {
    bytes.map_or(number::NONE.to_owned(), number::bytes).into()
}

fn regions(nodes: &[NodeRegions]) -> Table {
    let row = |node: &NodeRegions, name: &str, region: &Region| {
        let stalled = region.pressure;
        let unmovable = unmovable(&[region]).unwrap_or(number::NONE.to_owned());
        vec![
            node.node.to_string().into(),
            Cell::toned(name, Tone::Strong),
            number::bytes(region.bytes).into(),
            optional(region.available_bytes),
            optional(region.low_bytes),
            unmovable.into(),
            stalled.map_or(number::NONE.to_owned(), |s| number::duration(s.total_us * 1000)).into(),
            stalled.map_or(number::NONE.to_owned(), |s| number::percent(share(s.avg10))).into(),
        ]
    };
    let rows = nodes.iter().flat_map(|node| {
        [row(node, "unmovable", &node.unmovable), row(node, "movable", &node.movable)]
    });
    Table {
        title: "Regions".to_owned(),
        columns: vec![
            Column::number("node"),
            Column::text("region"),
            Column::number("size"),
            Column::number("free"),
            Column::number("low mark"),
            Column::number("unmovable"),
            Column::number("stalled"),
            Column::number("in 10 s"),
        ],
        rows: rows.collect(),
        notes: vec![
            "Free: for ordinary requests; below its low mark a region gets memory from the other. \
             Unmovable: share of initialized frames. Stalled: time since boot in which some task \
             waited for the region's memory; its share of the last 10 s."
                .to_owned(),
        ],
    }
}

/// Hundredths of a percent as a share.
fn share(hundredths: u32) -> f64 {
    f64::from(hundredths) / 10_000.0
}

fn borders(nodes: &[NodeRegions]) -> Table {
    let row = |node: &NodeRegions| {
        vec![
            node.node.to_string().into(),
            Cell::toned(number::pfn(node.border_pfn), Tone::Strong),
            number::bytes(node.border_bytes()).into(),
            optional(node.floor_bytes),
            optional(node.ceiling_bytes),
            optional(node.target_bytes),
            optional(node.high_bytes),
            optional(node.retired_bytes),
        ]
    };
    Table {
        title: "Border".to_owned(),
        columns: vec![
            Column::number("node"),
            Column::number("first frame"),
            Column::number("address"),
            Column::number("floor"),
            Column::number("ceiling"),
            Column::number("target"),
            Column::number("high mark"),
            Column::number("retired"),
        ],
        rows: nodes.iter().map(row).collect(),
        notes: vec![
            "First frame: of the movable region. Floor and ceiling: limits of the unmovable \
             region. It grows until its free memory is at the target, and shrinks above the high \
             mark. Retired: below the border and out of use, to change sides."
                .to_owned(),
        ],
    }
}

fn counters(nodes: &[NodeRegions]) -> Table {
    let names = nodes.iter().map(|node| match nodes.len() {
        1 => "value".to_owned(),
        _ => format!("node {}", node.node),
    });
    let columns = std::iter::once(Column::text("counter"))
        .chain(names.map(Column::number))
        .chain([Column::text("meaning")]);
    let known = COUNTERS.iter().filter(|(name, _)| {
        nodes.iter().any(|node| node.counters.get(*name).is_some_and(|count| *count > 0))
    });
    let row = |(name, meaning): &(&'static str, &'static str)| {
        let counts = nodes.iter().map(|node| {
            let count = node.counters.get(*name).copied();
            Cell::toned(count.map_or(number::NONE.to_owned(), number::count), Tone::Strong)
        });
        std::iter::once(Cell::from(*name)).chain(counts).chain([Cell::from(*meaning)]).collect()
    };
    Table {
        title: "Counters of the border since boot".to_owned(),
        columns: columns.collect(),
        rows: known.map(row).collect(),
        notes: vec!["Counters at 0 are not listed.".to_owned()],
    }
}
