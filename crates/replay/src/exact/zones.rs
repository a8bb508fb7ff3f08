//! The zones of a machine whose memory comes online or goes offline, from all of its snapshots.

use prairie_frames::Layout;
use prairie_frames::layout::{LayoutError, ZoneSpan};

use super::snapshot::Snapshot;
use crate::initial_state::zone_spans;

/// The layout of a machine with zones as large as they are in any of its snapshots, with the memory that
/// they have in the first.
///
/// # Errors
/// If two zones claim the same frame, with the name of the snapshot that shows it. Memory that changes
/// zones is in another in each snapshot.
pub fn layout(snapshots: Vec<&Snapshot>) -> Result<Layout, (String, LayoutError)> {
    let mut spans: Vec<ZoneSpan> = Vec::new();
    let mut found = Err(LayoutError::Empty);
    for (place, snapshot) in snapshots.iter().enumerate() {
        for span in zone_spans(&snapshot.zones) {
            let span = if place == 0 { span } else { absent(span) };
            widen(&mut spans, span);
        }
        found = Layout::new(spans.clone());
        if let Err(source) = found {
            return Err((snapshot.name.clone(), source));
        }
    }
    found.map_err(|source| (String::new(), source))
}

/// Takes a span of a zone over into those known.
fn widen(spans: &mut Vec<ZoneSpan>, other: ZoneSpan) {
    let same = |span: &&mut ZoneSpan| (span.node, span.kind) == (other.node, other.kind);
    match spans.iter_mut().find(same) {
        None => spans.push(other),
        Some(_) if other.spanned == 0 => {}
        Some(known) if known.spanned > 0 => {
            let end = |span: &ZoneSpan| span.start.0 + span.spanned;
            let end = end(known).max(end(&other));
            known.start = known.start.min(other.start);
            known.spanned = end - known.start.0;
        }
        Some(known) => (known.start, known.spanned) = (other.start, other.spanned),
    }
}

/// A zone without the memory that it has later.
fn absent(span: ZoneSpan) -> ZoneSpan {
    let (watermarks, lowmem_reserve) = Default::default();
    ZoneSpan { managed: 0, watermarks, lowmem_reserve, ..span }
}

#[cfg(test)]
pub(super) mod tests {
    use prairie_frames::ZoneKind;

    use super::super::snapshot::SECTION;
    use super::*;

    const BLOCK: u32 = SECTION as u32;

    pub(crate) fn snapshot(zones: &[(&str, u32, u32)]) -> Snapshot {
        let text: String = zones
            .iter()
            .map(|(name, start, frames)| {
                format!(
                    "Node 0, zone {name}\n  pages free 1\n        min 1\n        low 2\n        \
                     high 3\n        spanned {frames}\n        present {frames}\n        managed \
                     {frames}\n        protection: (0, 0, 0)\n  start_pfn: {start}\n"
                )
            })
            .collect();
        Snapshot::new("any", ["Page block order: 9\nPages per block:  512\n", &text], None).unwrap()
    }

    #[test]
    fn zones_are_as_large_as_in_any_snapshot_and_have_the_memory_of_the_first() {
        let first =
            snapshot(&[("DMA32", 0, BLOCK), ("Normal", 4 * BLOCK, BLOCK), ("Movable", 0, 0)]);
        let second = snapshot(&[
            ("DMA32", 0, BLOCK),
            ("Normal", 3 * BLOCK, 3 * BLOCK),
            ("Movable", 7 * BLOCK, BLOCK),
        ]);
        let third =
            snapshot(&[("DMA32", 0, BLOCK), ("Normal", 4 * BLOCK, BLOCK), ("Movable", 0, 0)]);
        let layout = layout(vec![&first, &second, &third]).unwrap();
        let spans = layout.zones().iter().map(|zone| &zone.span);
        let found: Vec<_> =
            spans.map(|span| (span.kind, span.start.0, span.spanned, span.managed)).collect();
        let block = u64::from(BLOCK);
        let of = [
            (ZoneKind::Dma32, 0, block, block),
            (ZoneKind::Normal, 3 * block, 3 * block, block),
            (ZoneKind::Movable, 7 * block, block, 0),
        ];
        assert_eq!(found, of);
    }

    #[test]
    fn memory_that_changes_zones_is_refused_by_name() {
        let mut second = snapshot(&[("DMA32", 0, BLOCK), ("Movable", BLOCK - 1024, 1024)]);
        second.name = "moved".into();
        let (name, error) = layout(vec![&snapshot(&[("DMA32", 0, BLOCK)]), &second]).unwrap_err();
        assert_eq!(name, "moved");
        assert_eq!(error.to_string(), "two zones claim the frame 0x7c00");
    }
}
