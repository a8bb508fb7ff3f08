//! The map of a surveyed host.

use prairie_frames::{Order, ZoneKind};
use prairie_host::{BlockMap, Cell, FrameClass, Survey, ZoneId};
use prairie_report::{MapSegment, MapSheet, MapZone, MemoryMap, number};

use super::summary;
use crate::view::colors;

/// The host's memory as a picture; `None` if there is none.
pub fn sheet(survey: &Survey, map: &BlockMap) -> Option<MapSheet> {
    let segments = segments(map);
    let map = MemoryMap {
        title: super::title(survey),
        subtitle: subtitle(survey),
        frame_bytes: survey.page_bytes,
        frames_per_cell: map.cell.frames(),
        classes: colors::map_classes(),
        zones: zones(survey, map),
        segments,
    };
    (!map.is_empty()).then(|| MapSheet::from(map))
}

/// The smallest cell, at least 2 MiB, with which `frames` fit one picture.
pub fn default_cell(frames: u64) -> Order {
    let fits = |order: &Order| frames / order.frames() <= MemoryMap::CELLS_MAX as u64 / 2;
    let orders = Order::up_to(BlockMap::LARGEST_CELL).skip(Order::HUGE.index());
    orders.into_iter().find(fits).unwrap_or(BlockMap::LARGEST_CELL)
}

/// The time, and the main result.
fn subtitle(survey: &Survey) -> String {
    let mut parts = vec![super::taken_at(survey)];
    if let Some(frames) = &survey.frames {
        parts.push(format!(
            "{} of {} is unmovable and pollutes {} of its {} blocks",
            summary::unmovable_share(frames),
            summary::counted_memory(frames),
            number::percent(frames.initialized.polluted_share),
            number::bytes(Order::HUGE.bytes()),
        ));
    }
    parts.join(" · ")
}

/// Maximal ranges of cells with memory: holes take no space.
fn segments(map: &BlockMap) -> Vec<MapSegment> {
    let cell_frames = map.cell.frames();
    let mut segments: Vec<MapSegment> = Vec::new();
    let mut end = None;
    for (start, cell) in present_cells(map) {
        let class = colors::map_class(cell.class, cell.unmovable_frames);
        match segments.last_mut().filter(|_| end == Some(start)) {
            Some(segment) => segment.cells.push(class),
            None => segments.push(MapSegment { start_pfn: start, cells: vec![class] }),
        }
        end = Some(start + cell_frames);
    }
    segments
}

/// Cells with memory by first frame. A cell that two zones share is one cell.
fn present_cells(map: &BlockMap) -> Vec<(u64, Cell)> {
    let of_zone = |zone: &prairie_host::ZoneCells| {
        let starts = (zone.start.0..).step_by(map.cell.frames() as usize);
        starts.zip(zone.cells.clone()).filter(|(_, cell)| cell.present_frames > 0).collect()
    };
    let mut cells: Vec<(u64, Cell)> = map.zones.iter().flat_map::<Vec<_>, _>(of_zone).collect();
    // Zones of interleaved nodes overlap.
    cells.sort_by_key(|(start, _)| *start);
    cells.dedup_by(|(start, cell), (kept_start, kept)| {
        let shared = start == kept_start;
        if shared {
            *kept = together(*kept, *cell);
        }
        shared
    });
    cells
}

/// Two zones' parts of one cell. Only the most common class of each is known.
fn together(a: Cell, b: Cell) -> Cell {
    let most = if b.class_frames > a.class_frames { b } else { a };
    Cell {
        present_frames: a.present_frames + b.present_frames,
        unmovable_frames: a.unmovable_frames + b.unmovable_frames,
        ..most
    }
}

/// The outlines of zones, by whole cells.
fn zones(survey: &Survey, map: &BlockMap) -> Vec<MapZone> {
    let outline = |zone: &prairie_host::ZoneCells| MapZone {
        label: label(survey, zone.id),
        start_pfn: zone.start.0,
        end_pfn: zone.start.0 + zone.cells.len() as u64 * map.cell.frames(),
    };
    let with_memory = |zone: &&prairie_host::ZoneCells| {
        zone.cells.iter().any(|cell| cell.class != FrameClass::Absent)
    };
    map.zones.iter().filter(with_memory).map(outline).collect()
}

/// A zone's name, and whether it begins at a border that moves.
fn label(survey: &Survey, id: ZoneId) -> String {
    let name = super::zone_name(survey, id);
    let nodes = survey.contiguitas.iter().flat_map(|regions| &regions.nodes);
    let has_border = nodes.into_iter().any(|node| node.node == id.node);
    match has_border && id.kind == ZoneKind::Movable {
        true => format!("{name}, above the border"),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use prairie_frames::Pfn;
    use prairie_host::ZoneCells;

    use super::*;

    fn cell(class: FrameClass, frames: u32) -> Cell {
        Cell { class, class_frames: frames, present_frames: frames, unmovable_frames: 0 }
    }

    fn zone(kind: ZoneKind, start: u64, cells: &[Cell]) -> ZoneCells {
        ZoneCells { id: ZoneId { node: 0, kind }, start: Pfn(start), cells: cells.to_vec() }
    }

    #[test]
    fn holes_take_no_room_and_a_shared_cell_is_drawn_once() {
        let absent = cell(FrameClass::Absent, 0);
        let slab = Cell { unmovable_frames: 40, ..cell(FrameClass::Slab, 40) };
        let (free, file) = (cell(FrameClass::Free, 512), cell(FrameClass::File, 100));
        let map = BlockMap {
            cell: Order::HUGE,
            zones: vec![
                zone(ZoneKind::Dma, 0, &[free, absent, free, slab]),
                zone(ZoneKind::Normal, 1536, &[file, free]),
            ],
        };
        let found = segments(&map);
        let index = |class: FrameClass| class.index() as u8;
        assert_eq!(
            found,
            [
                MapSegment { start_pfn: 0, cells: vec![index(FrameClass::Free)] },
                MapSegment {
                    start_pfn: 1024,
                    cells: vec![index(FrameClass::Free), colors::POLLUTED, index(FrameClass::Free)],
                },
            ]
        );
    }

    #[test]
    fn cells_grow_with_the_machine() {
        assert_eq!(default_cell(24 << 18), Order::HUGE);
        assert_eq!(default_cell(1 << 28), Order::HUGE, "1 TiB");
        assert_eq!(default_cell(1 << 31), Order::LARGEST_FREE, "8 TiB");
    }
}
