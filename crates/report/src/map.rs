//! The map of physical memory: one small square per block of frames, laid along a curve that
//! keeps neighbors together, colored by what fills it.
//!
//! - [`MemoryMap`] is one machine (or one simulated system) at one instant;
//! - [`MapSheet`] sets one or several of them side by side, to one scale, with one legend;
//! - a sheet is drawn as SVG ([`MapSheet::svg`]), PNG ([`MapSheet::png`]) or for the terminal
//!   ([`MapSheet::terminal`]).

mod body;
mod curve;
mod labels;
mod layout;
mod sheet;
mod text;

use crate::palette::Paint;

pub(crate) use body::{MapBody, body, has_labels_above};
pub(crate) use layout::Layout;
pub(crate) use sheet::{ClassSize, LegendEntry};

/// The use of every frame of one machine at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryMap {
    /// The name of the machine or system.
    pub title: String,
    /// One line below the title: size, instant, scale. May be empty.
    pub subtitle: String,
    /// Bytes in a frame: 4096 on x86-64.
    pub frame_bytes: u64,
    /// Frames that one cell stands for: 512 for 2 MiB of 4 KiB frames.
    pub frames_per_cell: u64,
    /// The ranges of physical memory, in rising order of address. What lies between two segments
    /// takes no room on the map.
    pub segments: Vec<MapSegment>,
    /// The classes that cells are colored by; at most 64.
    pub classes: Vec<MapClass>,
    /// Zones (or nodes, or regions) to outline and name. They may leave memory out, and a zone may
    /// be given in several pieces, each with its own label; they should not overlap, and where they
    /// do the later one counts. Borders within a cell are drawn at the cell's start.
    pub zones: Vec<MapZone>,
}

/// A range of physical memory without a hole (or whose holes are cells of an absent class).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapSegment {
    /// The first frame's number.
    pub start_pfn: u64,
    /// The class of each cell, an index into [`MemoryMap::classes`], by rising address.
    pub cells: Vec<u8>,
}

/// A class of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapClass {
    /// Its name in the legend.
    pub name: String,
    /// What belongs to it, in a sentence; may be empty.
    pub definition: String,
    /// Its paint, from [`crate::palette`]; `None` is memory that is absent and left blank.
    pub paint: Option<Paint>,
    /// Its letter where there is no color.
    pub letter: char,
}

/// A span of frames with an outline and a label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapZone {
    /// Its label: `Node 0 Normal`.
    pub label: String,
    /// The first frame's number.
    pub start_pfn: u64,
    /// The number after the last frame's.
    pub end_pfn: u64,
}

/// Maps side by side: the same instant, the same scale, the same classes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapSheet {
    /// Above all maps; with a single map it may be empty, and the map's own title stands alone.
    pub title: String,
    /// One line below the title; may be empty.
    pub subtitle: String,
    /// The maps, from the left.
    pub maps: Vec<MemoryMap>,
}

/// Why a map cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// The map has no cells.
    #[error("the map {0:?} has no cells")]
    Empty(String),
    /// A sheet without a map.
    #[error("the sheet has no maps")]
    NoMaps,
    /// A cell names a class that the map does not have.
    #[error(
        "the map {map:?} has {classes} classes, but a cell at frame {pfn:#x} is of class {class}"
    )]
    UnknownClass {
        /// The map's title.
        map: String,
        /// How many classes there are.
        classes: usize,
        /// The class that the cell names.
        class: u8,
        /// The cell's first frame.
        pfn: u64,
    },
    /// Too many classes to distinguish.
    #[error("the map {0} has more than 64 classes")]
    TooManyClasses(String),
    /// Too many cells for one picture.
    #[error(
        "the map {map} has {cells} cells, more than {}; let one cell stand for more frames",
        MemoryMap::CELLS_MAX
    )]
    TooManyCells {
        /// The map's title.
        map: String,
        /// How many cells it has.
        cells: usize,
    },
    /// A cell must stand for at least one byte, and every address must fit 64 bits.
    #[error(
        "the map {0:?} has no valid scale: a cell must be 1 byte or more, addresses below 2^64"
    )]
    Scale(String),
    /// Maps on one sheet must have one scale and the same classes.
    #[error("the maps {0:?} and {1:?} differ in scale or classes and cannot share a legend")]
    Unlike(String, String),
    /// The drawing could not be turned into an image.
    #[error("the drawing cannot be rendered: {0}")]
    Render(String),
}

impl MemoryMap {
    /// The most cells that one picture can hold: 4 Mi, which is 8 TiB in blocks of 2 MiB.
    pub const CELLS_MAX: usize = 4 << 20;

    /// All cells by rising address with the number of their first frame.
    pub fn cells(&self) -> impl Iterator<Item = (u64, u8)> + '_ {
        self.segments.iter().flat_map(|segment| {
            segment.cells.iter().enumerate().map(|(i, class)| {
                (segment.start_pfn.wrapping_add(i as u64 * self.frames_per_cell), *class)
            })
        })
    }

    /// How many cells there are.
    pub fn len(&self) -> usize {
        self.segments.iter().map(|segment| segment.cells.len()).sum()
    }

    /// Whether the map has no cells.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many cells there are of each class.
    pub fn cells_by_class(&self) -> Vec<u64> {
        let mut counts = vec![0; self.classes.len()];
        for class in self.segments.iter().flat_map(|segment| &segment.cells) {
            if let Some(count) = counts.get_mut(usize::from(*class)) {
                *count += 1;
            }
        }
        counts
    }

    /// Checks what the drawings rely on.
    ///
    /// # Errors
    /// The first [`MapError`] found.
    pub fn validate(&self) -> Result<(), MapError> {
        let title = || self.title.clone();
        if !self.has_scale() {
            return Err(MapError::Scale(title()));
        }
        if self.classes.len() > 64 {
            return Err(MapError::TooManyClasses(title()));
        }
        match self.len() {
            0 => return Err(MapError::Empty(title())),
            cells if cells > MemoryMap::CELLS_MAX => {
                return Err(MapError::TooManyCells { map: title(), cells });
            }
            _ => {}
        }
        let classes = self.classes.len();
        match self.cells().find(|(_, class)| usize::from(*class) >= classes) {
            Some((pfn, class)) => Err(MapError::UnknownClass { map: title(), classes, class, pfn }),
            None => Ok(()),
        }
    }

    /// Bytes that one cell stands for.
    pub fn cell_bytes(&self) -> u64 {
        self.frames_per_cell.saturating_mul(self.frame_bytes)
    }

    fn has_scale(&self) -> bool {
        let end = |segment: &MapSegment| {
            (segment.cells.len() as u64)
                .checked_mul(self.frames_per_cell)
                .and_then(|frames| segment.start_pfn.checked_add(frames))
        };
        let cell_bytes = self.frames_per_cell.checked_mul(self.frame_bytes).unwrap_or(0);
        let all_bytes = cell_bytes.checked_mul(self.len() as u64);
        cell_bytes > 0 && all_bytes.is_some() && self.segments.iter().all(|s| end(s).is_some())
    }
}

impl MapSheet {
    /// Checks each map, and that all share one scale and one legend.
    ///
    /// # Errors
    /// The first [`MapError`] found.
    pub fn validate(&self) -> Result<(), MapError> {
        let first = self.maps.first().ok_or(MapError::NoMaps)?;
        for map in &self.maps {
            map.validate()?;
            if map.cell_bytes() != first.cell_bytes() || map.classes != first.classes {
                return Err(MapError::Unlike(first.title.clone(), map.title.clone()));
            }
        }
        Ok(())
    }
}

impl From<MemoryMap> for MapSheet {
    fn from(map: MemoryMap) -> MapSheet {
        MapSheet { maps: vec![map], ..MapSheet::default() }
    }
}
