//! Memory cut into equal cells, for a picture: what fills each, zone by zone.

use prairie_frames::{Mobility, Order, Pfn};

use crate::layout::{Layout, ZoneRun};
use crate::{Capture, Classifier, Error, FrameClass, ZoneId};

/// One cell of the map. Frames that do not exist, or belong to another zone, are counted nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The class that most of the cell's frames have; of equals the first in
    /// [`FrameClass::ALL`]. [`FrameClass::Absent`] where no frame exists.
    pub class: FrameClass,
    /// Frames of that class.
    pub class_frames: u32,
    /// Frames that exist.
    pub present_frames: u32,
    /// Frames that software cannot move: one of them pollutes a pageblock.
    pub unmovable_frames: u32,
}

impl Cell {
    const ABSENT: Cell =
        Cell { class: FrameClass::Absent, class_frames: 0, present_frames: 0, unmovable_frames: 0 };
}

/// The cells of one zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneCells {
    /// The zone.
    pub id: ZoneId,
    /// First frame of the first cell, a multiple of the cells' size. The zone may start within
    /// the cell.
    pub start: Pfn,
    /// The cells, ascending without gap, to the last that has a frame.
    pub cells: Vec<Cell>,
}

/// A host's memory as cells of one size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMap {
    /// The cells' size.
    pub cell: Order,
    /// The zones, ascending by their first frame.
    pub zones: Vec<ZoneCells>,
}

impl BlockMap {
    /// The largest cell: 1 TiB.
    pub const LARGEST_CELL: Order = match Order::new(28) {
        Some(order) => order,
        None => unreachable!(),
    };

    /// The map of a capture's frames with cells of `cell` (at most
    /// [`BlockMap::LARGEST_CELL`]; larger is taken as that); `None` without frames.
    ///
    /// Linear in the runs and the cells; 16 bytes a cell.
    ///
    /// # Errors
    /// As [`Layout::of`] and [`Classifier::push`].
    pub fn of(capture: &Capture, cell: Order) -> Result<Option<BlockMap>, Error> {
        let Some(frames) = &capture.frames else { return Ok(None) };
        let layout = Layout::of(capture)?;
        let mut builder = MapBuilder::new(&layout, cell);
        let mut classifier = Classifier::new();
        let mut cursor = 0;
        let mut take = |run| layout.split(run, &mut cursor, &mut |part| builder.push(part));
        for run in frames {
            classifier.push(*run, &mut take)?;
        }
        classifier.finish(&mut take);
        Ok(Some(builder.finish()))
    }
}

/// Builds a map from runs as they pass.
#[derive(Clone, Debug)]
pub struct MapBuilder {
    cell: Order,
    zones: Vec<ZoneBuilder>,
}

/// One zone's cells, the last of them still open.
#[derive(Clone, Debug)]
struct ZoneBuilder {
    done: ZoneCells,
    /// Frames of each class in the cell after the last that is done.
    open: [u32; FrameClass::ALL.len()],
}

impl MapBuilder {
    /// An empty map of the layout's zones.
    pub fn new(layout: &Layout, cell: Order) -> MapBuilder {
        let cell = cell.min(BlockMap::LARGEST_CELL);
        let zone = |span: &crate::layout::ZoneSpan| ZoneBuilder {
            done: ZoneCells { id: span.id, start: span.start.align_down(cell), cells: Vec::new() },
            open: [0; FrameClass::ALL.len()],
        };
        MapBuilder { cell, zones: layout.zones().iter().map(zone).collect() }
    }

    /// Counts frames; parts of one zone come ascending.
    pub fn push(&mut self, part: ZoneRun) {
        let zone = &mut self.zones[part.zone];
        let size = self.cell.frames();
        let (mut at, end) = (part.run.start.0, part.run.end().0);
        while at < end {
            let index = ((at - zone.done.start.0) / size) as usize;
            while zone.done.cells.len() < index {
                zone.close();
            }
            let stop = end.min(zone.done.start.0 + (index as u64 + 1) * size);
            zone.open[part.run.class.index()] += (stop - at) as u32;
            at = stop;
        }
    }

    /// The map of what was pushed.
    pub fn finish(self) -> BlockMap {
        let close = |mut zone: ZoneBuilder| {
            if zone.open.iter().any(|&frames| frames > 0) {
                zone.close();
            }
            zone.done
        };
        BlockMap { cell: self.cell, zones: self.zones.into_iter().map(close).collect() }
    }
}

impl ZoneBuilder {
    /// Ends the open cell and opens the next.
    fn close(&mut self) {
        let counted = FrameClass::ALL.into_iter().zip(self.open).filter(|(_, frames)| *frames > 0);
        let mut cell = Cell::ABSENT;
        for (class, frames) in counted {
            cell.present_frames += frames;
            if class.mobility() == Mobility::Unmovable {
                cell.unmovable_frames += frames;
            }
            if frames > cell.class_frames {
                (cell.class, cell.class_frames) = (class, frames);
            }
        }
        self.done.cells.push(cell);
        self.open = [0; FrameClass::ALL.len()];
    }
}
