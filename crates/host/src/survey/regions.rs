//! What fills the regions of a kernel with a movable border.

use prairie_frames::{Mobility, ZoneKind};

use super::tally::{FrameCounts, ZoneTally};
use crate::contiguitas::RegionFrames;
use crate::{Capture, Contiguitas, FrameClass, ParseError};

/// The regions, with their frames where those are known.
pub(super) fn survey(
    capture: &Capture,
    counts: Option<&FrameCounts>,
) -> Result<Option<Contiguitas>, ParseError> {
    let mut found = Contiguitas::of(capture)?;
    let (Some(contiguitas), Some(counts)) = (&mut found, counts) else { return Ok(found) };
    for node in &mut contiguitas.nodes {
        // The movable region is ZONE_MOVABLE, the unmovable one all zones below.
        let of_node = |zone: &&ZoneTally| zone.id.node == node.node;
        let (above, below): (Vec<&ZoneTally>, Vec<&ZoneTally>) =
            counts.zones.iter().filter(of_node).partition(|zone| zone.id.kind == ZoneKind::Movable);
        node.unmovable.frames = Some(frames(&below));
        node.movable.frames = Some(frames(&above));
    }
    Ok(found)
}

fn frames(zones: &[&ZoneTally]) -> RegionFrames {
    let of = |mobility| zones.iter().map(|zone| zone.frames_of(mobility)).sum::<u64>();
    let uninitialized = FrameClass::Uninitialized.index();
    let uninitialized: u64 = zones.iter().map(|zone| zone.frames_by_class[uninitialized]).sum();
    RegionFrames {
        free: of(Mobility::Free),
        movable: of(Mobility::Movable),
        unmovable: of(Mobility::Unmovable),
        unknown: of(Mobility::Unknown).saturating_sub(uninitialized),
    }
}

#[cfg(test)]
mod tests {
    use prairie_frames::Pfn;

    use super::*;
    use crate::{FrameRun, PageFlags, Survey};

    #[test]
    fn frames_are_counted_on_both_sides_of_the_border() {
        let mut capture = Capture { page_bytes: 4096, ..Capture::default() };
        let mut file = |name: &str, text: &str| {
            capture.files.insert(name.to_owned(), text.to_owned());
        };
        let zone = |name: &str, start: u64, frames: u64| {
            format!(
                "Node 0, zone {name}\n  pages free 1\n spanned {frames}\n present {frames}\n \
                 managed {frames}\n start_pfn: {start}\n"
            )
        };
        file("proc/zoneinfo", &(zone("Normal", 0, 1 << 15) + &zone("Movable", 1 << 15, 1 << 16)));
        let node = "sys/kernel/mm/contiguitas/node0";
        for (name, text) in
            [("border_pfn", "32768\n"), ("unmovable_kb", "131072\n"), ("movable_kb", "262144\n")]
        {
            file(&format!("{node}/{name}"), text);
        }
        let mut at = 0;
        let mut run = |frames: u64, flags| {
            at += frames;
            FrameRun { start: Pfn(at - frames), frames, flags, read_at_ns: 0 }
        };
        let anonymous = PageFlags::LRU | PageFlags::ANON;
        capture.frames = Some(vec![
            run(1 << 14, PageFlags::SLAB),
            run(1 << 13, PageFlags::NONE),
            run(1 << 13, PageFlags::BUDDY),
            run(1 << 15, anonymous),
            // A section of 128 MiB without a flag is not initialized.
            run(1 << 15, PageFlags::NONE),
        ]);
        let found = Survey::of(&capture).unwrap().contiguitas.unwrap();
        let (below, above) = (&found.nodes[0].unmovable, &found.nodes[0].movable);
        let (free, unmovable, unknown) = (1 << 13, 1 << 14, 1 << 13);
        assert_eq!(below.frames, Some(RegionFrames { free, movable: 0, unmovable, unknown }));
        assert_eq!(below.frames.unwrap().unmovable_shares(), (0.5, 0.75));
        let all = RegionFrames { free: 0, movable: 1 << 15, unmovable: 0, unknown: 0 };
        assert_eq!(above.frames, Some(all));
        assert_eq!(above.frames.unwrap().unmovable_shares(), (0.0, 0.0));
    }
}
