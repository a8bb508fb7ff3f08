//! Which zone a frame belongs to, and whether it exists.

use std::ops::Range;

use prairie_frames::Pfn;

use crate::texts::zoneinfo::ZoneInfo;
use crate::texts::{ZoneId, iomem, zoneinfo};
use crate::{Capture, ClassRun, Error, FrameClass};

/// One zone's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZoneSpan {
    /// The zone.
    pub id: ZoneId,
    /// The first frame.
    pub start: Pfn,
    /// One past the last frame.
    pub end: Pfn,
}

/// The zones of a host and the frames that exist in them.
///
/// A frame exists if a zone spans it and, where the memory map is known, `System RAM` covers it
/// whole. Where zones' spans overlap (nodes may be interleaved) the zone that starts last has the
/// frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    zones: Vec<ZoneSpan>,
    /// Disjoint, ascending: frames that exist, and the zone's place in `zones`.
    pieces: Vec<(Range<u64>, usize)>,
}

/// Frames of one class within one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRun {
    /// The zone's place in [`Layout::zones`].
    pub zone: usize,
    /// The frames.
    pub run: ClassRun,
}

impl Layout {
    /// The largest zone that is understood: 64 TiB. What is kept for each pageblock grows with
    /// the zone, so a nonsensical span must not be believed.
    pub(crate) const LARGEST_ZONE_FRAMES: u64 = 1 << 34;

    /// The layout by zones' spans and the memory map, ascending and joined ([`iomem::system_ram`]);
    /// an empty map counts as unknown.
    ///
    /// # Errors
    /// [`Error::FrameLimit`] where a zone is larger than 64 TiB.
    pub fn new(zones: &[ZoneInfo], memory: &[Range<u64>]) -> Result<Layout, Error> {
        let spanned = zones.iter().filter(|zone| zone.spanned_frames > 0);
        let mut zones: Vec<ZoneSpan> = spanned
            .map(|zone| ZoneSpan { id: zone.id, start: zone.start, end: zone.end() })
            .collect();
        zones.sort_by_key(|zone| (zone.start, zone.id));
        for zone in &zones {
            let limit = zone.start.0 + Self::LARGEST_ZONE_FRAMES;
            if zone.end.0 > limit {
                let what = format!("{}: {} in {}", zone.id, "the zone's span", zoneinfo::FILE);
                return Err(Error::FrameLimit { what, frame: zone.end.0, limit });
            }
        }
        let mut pieces = innermost(&zones);
        if !memory.is_empty() {
            pieces = intersect(&pieces, memory);
        }
        Ok(Layout { zones, pieces })
    }

    /// The layout from a capture's texts; empty without `zoneinfo`.
    ///
    /// # Errors
    /// [`Error::Parse`], and as [`Layout::new`].
    pub fn of(capture: &Capture) -> Result<Layout, Error> {
        let text = |file| capture.files.get(file).map(String::as_str).unwrap_or_default();
        let zones = zoneinfo::parse(text(zoneinfo::FILE))?;
        Layout::new(&zones, &iomem::system_ram(text(iomem::FILE))?)
    }

    /// The zones that have memory, ascending by their first frame.
    pub fn zones(&self) -> &[ZoneSpan] {
        &self.zones
    }

    /// Frames that exist in each zone, by place in [`Layout::zones`].
    pub fn frames_by_zone(&self) -> Vec<u64> {
        let mut frames = vec![0; self.zones.len()];
        for (range, zone) in &self.pieces {
            frames[*zone] += range.end - range.start;
        }
        frames
    }

    /// Gives the parts of `run` that exist, zone by zone, to `out`, and drops the rest and what
    /// is [`FrameClass::Absent`]. `cursor` speeds up a walk through ascending runs: start it
    /// at 0 and pass it on.
    pub fn split(&self, run: ClassRun, cursor: &mut usize, out: &mut impl FnMut(ZoneRun)) {
        while self.pieces.get(*cursor).is_some_and(|(piece, _)| piece.end <= run.start.0) {
            *cursor += 1;
        }
        if run.class == FrameClass::Absent {
            return;
        }
        for (piece, zone) in &self.pieces[*cursor..] {
            let start = piece.start.max(run.start.0);
            let end = piece.end.min(run.end().0);
            if start >= end {
                break;
            }
            let run = ClassRun { start: Pfn(start), frames: end - start, ..run };
            out(ZoneRun { zone: *zone, run });
        }
    }
}

/// Disjoint pieces of spans that may overlap: each frame goes to the span that starts last.
/// `zones` is sorted by start. `n log n` in the number of zones.
fn innermost(zones: &[ZoneSpan]) -> Vec<(Range<u64>, usize)> {
    let mut pieces = Vec::new();
    let mut open: Vec<(u64, usize)> = Vec::new();
    let mut at = 0;
    let mut advance = |open: &mut Vec<(u64, usize)>, until: u64| {
        while let Some(&(end, zone)) = open.last() {
            let stop = end.min(until);
            if at < stop {
                pieces.push((at..stop, zone));
                at = stop;
            }
            if end > until {
                break;
            }
            open.pop();
        }
        at = at.max(until);
    };
    for (i, zone) in zones.iter().enumerate() {
        advance(&mut open, zone.start.0);
        open.push((zone.end.0, i));
    }
    advance(&mut open, u64::MAX);
    pieces
}

/// The parts of `pieces` that lie in `memory`; both are disjoint and ascending.
fn intersect(pieces: &[(Range<u64>, usize)], memory: &[Range<u64>]) -> Vec<(Range<u64>, usize)> {
    let mut out = Vec::new();
    let mut first = 0;
    for (piece, zone) in pieces {
        while memory.get(first).is_some_and(|range| range.end <= piece.start) {
            first += 1;
        }
        for range in memory[first..].iter().take_while(|range| range.start < piece.end) {
            out.push((range.start.max(piece.start)..range.end.min(piece.end), *zone));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(spans: &[(u64, u64)], memory: &[Range<u64>]) -> Layout {
        let text: String = spans
            .iter()
            .enumerate()
            .map(|(node, (start, end))| {
                let spanned = end - start;
                format!("Node {node}, zone Normal\n spanned {spanned}\n start_pfn: {start}\n")
            })
            .collect();
        Layout::new(&zoneinfo::parse(&text).unwrap(), memory).unwrap()
    }

    #[test]
    fn the_zone_that_starts_last_has_the_frame() {
        let nested = layout(&[(0, 100), (20, 30), (25, 40), (200, 210)], &[]);
        let pieces = [(0..20, 0), (20..25, 1), (25..40, 2), (40..100, 0), (200..210, 3)];
        assert_eq!(nested.pieces, pieces);
        assert_eq!(nested.frames_by_zone(), [80, 5, 15, 10]);
    }

    #[test]
    fn a_run_is_split_at_zones_and_holes() {
        let layout = layout(&[(0, 100), (100, 200)], &[1..50, 60..150]);
        let run = |start, frames, class| ClassRun {
            start: Pfn(start),
            frames,
            class,
            unevictable: false,
        };
        let mut cursor = 0;
        let mut split = |run| {
            let mut parts = Vec::new();
            layout.split(run, &mut cursor, &mut |part| {
                parts.push((part.zone, part.run.start.0, part.run.frames));
            });
            parts
        };
        assert_eq!(split(run(0, 10, FrameClass::Reserved)), [(0, 1, 9)]);
        assert_eq!(split(run(10, 110, FrameClass::Free)), [(0, 10, 40), (0, 60, 40), (1, 100, 20)]);
        assert_eq!(split(run(120, 1, FrameClass::Absent)), []);
        assert_eq!(split(run(140, 1000, FrameClass::Free)), [(1, 140, 10)]);
        assert_eq!(split(run(5000, 1, FrameClass::Free)), []);
    }

    #[test]
    fn an_absurd_zone_is_refused() {
        let text = "Node 0, zone DMA\n spanned 1000000000000\n start_pfn: 1\n";
        let error = Layout::new(&zoneinfo::parse(text).unwrap(), &[]).unwrap_err();
        assert!(matches!(error, Error::FrameLimit { .. }), "{error}");
    }
}
