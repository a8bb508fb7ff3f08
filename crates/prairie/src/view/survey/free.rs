//! Free memory: blocks by order and type, and the fragmentation indices.

use prairie_frames::Order;
use prairie_host::Survey;
use prairie_host::survey::free_lists::{FreeLists, Indices, TypeBlocks};
use prairie_host::survey::{FrameReport, ZoneSurvey};
use prairie_report::{
    Axis, Block, Cell, Column, LineChart, Section, Series, Table, Tone, Unit, number,
};

use super::{hidden_zones, shown_zones, size, zone_name};

/// Everything about the free lists; `None` if they could not be read.
pub fn section(survey: &Survey) -> Option<Section> {
    let mut blocks = vec![Block::Table(zones(survey))];
    blocks.extend(pageblocks(survey).map(Block::Table));
    blocks.extend(survey.free_lists.iter().map(|_| Block::LineChart(unusable_by_order(survey))));
    if let (Some(lists), true) = (&survey.free_lists, survey.zones.len() > 1) {
        blocks.push(Block::Table(lists_table("All zones", lists, survey.frames.as_ref())));
    }
    for zone in shown_zones(survey) {
        if let Some(lists) = &zone.free_lists {
            let title = zone_name(survey, zone.id);
            blocks.push(Block::Table(lists_table(&title, lists, zone.frames.as_ref())));
        }
    }
    let intro = "`F_u` is the share of free memory in blocks too small for a request of that \
                 order. `F_i` is shown only where no block is large enough, so that the request \
                 would fail: near 0 for lack of memory, near 1 for fragmentation; next to it the \
                 kernel's own index, by which it decides whether to compact.";
    let heading = "Free memory by zone".to_owned();
    (!survey.zones.is_empty()).then(|| Section { heading, intro: intro.to_owned(), blocks })
}

/// One row for each zone.
fn zones(survey: &Survey) -> Table {
    let row = |zone: &ZoneSurvey| {
        let extent = zone.extent.as_ref();
        let frames = |of: Option<u64>| of.map_or(number::NONE.to_owned(), |f| size(survey, f));
        let free = zone.free_lists.as_ref().map(|lists| lists.free_frames);
        vec![
            Cell::toned(zone_name(survey, zone.id), Tone::Strong),
            extent.map_or(number::NONE.to_owned(), |e| number::pfn(e.start_pfn)).into(),
            frames(extent.map(|e| e.present_frames)).into(),
            frames(extent.map(|e| e.managed_frames)).into(),
            frames(free).into(),
            frames(extent.map(|e| e.per_cpu_frames)).into(),
            frames(extent.map(|e| e.watermark_frames.min)).into(),
            frames(extent.map(|e| e.watermark_frames.high)).into(),
        ]
    };
    Table {
        title: "Zones".to_owned(),
        columns: vec![
            Column::text("zone"),
            Column::number("first frame"),
            Column::number("memory"),
            Column::number("managed"),
            Column::number("free"),
            Column::number("per CPU"),
            Column::number("min"),
            Column::number("high"),
        ],
        rows: shown_zones(survey).map(row).collect(),
        notes: std::iter::once(
            "Managed: given to the page allocator. Per CPU: free, but on the lists of single CPUs. \
             Min and high: the watermarks."
                .to_owned(),
        )
        .chain(hidden_zones(survey))
        .collect(),
    }
}

/// Pageblocks by migrate type, zone by zone.
fn pageblocks(survey: &Survey) -> Option<Table> {
    let mut types: Vec<&str> = Vec::new();
    for row in shown_zones(survey).flat_map(|zone| &zone.pageblocks) {
        if row.blocks > 0 && !types.contains(&row.migrate_type) {
            types.push(row.migrate_type);
        }
    }
    let row = |zone: &ZoneSurvey| {
        let blocks = |name: &&str| {
            let found = zone.pageblocks.iter().find(|row| row.migrate_type == *name);
            Cell::from(number::count(found.map_or(0, |row| row.blocks)))
        };
        let name = Cell::toned(zone_name(survey, zone.id), Tone::Strong);
        std::iter::once(name).chain(types.iter().map(blocks)).collect()
    };
    let rows = shown_zones(survey).filter(|zone| !zone.pageblocks.is_empty()).map(row).collect();
    let columns = types.iter().map(|name| Column::number(*name));
    (!types.is_empty()).then(|| Table {
        title: "Pageblocks by migrate type".to_owned(),
        columns: std::iter::once(Column::text("zone")).chain(columns).collect(),
        rows,
        notes: Vec::new(),
    })
}

/// F_u of each zone over the orders.
fn unusable_by_order(survey: &Survey) -> LineChart {
    let line = |name: String, lists: &FreeLists, frames: Option<&FrameReport>| {
        let on_lists =
            lists.indices.iter().map(|row| (row.order.into(), row.unusable_free_space_index));
        let beyond = beyond_lists(lists, frames);
        let beyond = beyond.into_iter().map(|(order, unusable)| (order.get().into(), unusable));
        Series { name, points: on_lists.chain(beyond).collect() }
    };
    let zones = shown_zones(survey).filter_map(|zone| {
        let lists = zone.free_lists.as_ref()?;
        Some(line(zone_name(survey, zone.id), lists, zone.frames.as_ref()))
    });
    let together = survey.free_lists.as_ref().filter(|_| survey.zones.len() > 1);
    let together =
        together.map(|lists| line("All zones".to_owned(), lists, survey.frames.as_ref()));
    LineChart {
        title: "F_u by order: share of free memory in smaller blocks".to_owned(),
        caption: "Order 9 is 2 MiB, order 18 is 1 GiB.".to_owned(),
        x: Axis::new("order", Unit::Count),
        y: Axis::new("F_u", Unit::Share).within(0.0, 1.0),
        series: together.into_iter().chain(zones).collect(),
        ..LineChart::default()
    }
}

/// Free blocks by order and type with the indices, up to 1 GiB if frames are known.
fn lists_table(title: &str, lists: &FreeLists, frames: Option<&FrameReport>) -> Table {
    let types: Vec<&TypeBlocks> = lists
        .blocks_by_type
        .iter()
        .filter(|row| row.blocks_by_order.iter().any(|&n| n > 0))
        .collect();
    let fails = lists.indices.iter().any(|indices| indices.at_failure.is_some());
    // Indices come first, so that a narrow page shows them without scrolling.
    let names = ["order", "block", "F_u"].into_iter();
    let names = names.chain(["F_i", "kernel's F_i"].into_iter().filter(|_| fails));
    let names = names.chain(["all free blocks"]).chain(types.iter().map(|row| row.migrate_type));
    let on_lists = lists.indices.iter().map(|indices| list_row(lists, &types, indices, fails));
    let beyond = beyond_lists(lists, frames).into_iter().map(|(order, unusable)| {
        let texts = [format!("{order}*"), number::bytes(order.bytes()), number::index(unusable)];
        texts.map(Cell::from).to_vec()
    });
    let rows: Vec<Vec<Cell>> = on_lists.chain(beyond).collect();
    let mut notes = Vec::new();
    if !fails {
        notes.push("No F_i: a request of any order on the lists can be served.".to_owned());
    }
    if frames.is_some() {
        notes.push(
            "* beyond the free lists: aligned, completely free blocks, counted from frames."
                .to_owned(),
        );
    }
    if types.iter().any(|row| row.at_least) {
        notes.push(
            "The kernel stops counting at 100,000: some counts by type are lower bounds."
                .to_owned(),
        );
    }
    Table { title: title.to_owned(), columns: names.map(Column::number).collect(), rows, notes }
}

fn list_row(lists: &FreeLists, types: &[&TypeBlocks], indices: &Indices, fails: bool) -> Vec<Cell> {
    let at = |counts: &[u64]| {
        let blocks = counts.get(usize::from(indices.order)).copied().unwrap_or(0);
        let tone = if blocks == 0 { Tone::Muted } else { Tone::Plain };
        Cell::toned(number::count(blocks), tone)
    };
    let mut row: Vec<Cell> =
        vec![indices.order.to_string().into(), number::bytes(indices.block_bytes).into()];
    row.push(Cell::toned(number::index(indices.unusable_free_space_index), Tone::Strong));
    if fails {
        let failure = indices.at_failure.as_ref();
        let index = |value: Option<f64>| Cell::from(value.map(number::index).unwrap_or_default());
        row.push(index(failure.map(|failure| failure.fragmentation_index)));
        row.push(index(failure.map(|failure| failure.kernel_index_thousandths as f64 / 1000.0)));
    }
    row.push(at(&lists.blocks_by_order));
    row.extend(types.iter().map(|row| at(&row.blocks_by_order)));
    row
}

/// F_u of the orders above the free lists.
fn beyond_lists(lists: &FreeLists, frames: Option<&FrameReport>) -> Vec<(Order, f64)> {
    let known = lists.indices.last().map(|indices| indices.order);
    let rows = frames.into_iter().flat_map(|frames| &frames.unusable_beyond_lists);
    rows.filter(|row| Some(row.order) > known)
        .filter_map(|row| Some((Order::new(row.order)?, row.unusable_free_space_index)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_of_failure_stand_only_where_a_request_would_fail() {
        let texts = |blocks: Vec<u64>| -> Vec<Vec<String>> {
            let table = lists_table("zone", &FreeLists::new(blocks, Vec::new()), None);
            let headings = table.columns.iter().map(|column| column.heading.clone()).collect();
            let row = |row: &Vec<Cell>| row.iter().map(|cell| cell.text.clone()).collect();
            std::iter::once(headings).chain(table.rows.iter().map(row)).collect()
        };
        let failing = texts(vec![4, 2, 0, 1, 0]);
        assert_eq!(failing[0], ["order", "block", "F_u", "F_i", "kernel's F_i", "all free blocks"]);
        assert_eq!(failing[2], ["1", "8\u{202f}KiB", "0.250", "", "", "2"]);
        // 16 free frames in 7 blocks: 1 − (16 / 16) / 7; the kernel's rounds.
        assert_eq!(failing[5], ["4", "64\u{202f}KiB", "1.000", "0.857", "0.715", "0"]);
        let served = texts(vec![4, 2]);
        assert_eq!(served[0], ["order", "block", "F_u", "all free blocks"]);
        assert_eq!(served[1].len(), 4);
    }
}
