//! One zone's part of a survey.

use std::collections::BTreeSet;

use serde::Serialize;

use super::frame_report::FrameReport;
use super::free_lists::{self, FreeLists};
use super::tally::FrameCounts;
use crate::texts::zoneinfo::{Watermarks, ZoneInfo};
use crate::texts::{buddyinfo, pagetypeinfo};
use crate::{Capture, Error, ZoneId};

/// One zone of one node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ZoneSurvey {
    /// The zone.
    #[serde(flatten)]
    pub id: ZoneId,
    /// Its place and watermarks; `None` without `zoneinfo`.
    pub extent: Option<ZoneExtent>,
    /// Its free lists; `None` without `buddyinfo`.
    pub free_lists: Option<FreeLists>,
    /// Its pageblocks by migrate type; empty where they are not known.
    pub pageblocks: Vec<PageblocksOfType>,
    /// Measures over its frames; `None` where these could not be read.
    pub frames: Option<FrameReport>,
}

/// What `/proc/zoneinfo` says of a zone, in frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ZoneExtent {
    /// The first frame's number.
    pub start_pfn: u64,
    /// Frames from the first to the last, holes included.
    pub spanned_frames: u64,
    /// Frames that exist.
    pub present_frames: u64,
    /// Frames that the page allocator was given.
    pub managed_frames: u64,
    /// Free frames on the buddy lists.
    pub free_frames: u64,
    /// Free frames parked on per-CPU lists.
    pub per_cpu_frames: u64,
    /// Watermarks, in free frames.
    pub watermark_frames: Watermarks,
    /// Frames kept back from requests that a higher zone could serve, by that zone's number.
    pub lowmem_reserve_frames: Vec<u64>,
}

/// Pageblocks of one migrate type.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PageblocksOfType {
    /// The type, by the kernel's name.
    pub migrate_type: &'static str,
    /// Pageblocks.
    pub blocks: u64,
    /// Of them, those that hold allocations of other types; known with `page_owner=on` only.
    pub mixed_blocks: Option<u64>,
}

/// Every zone that any of the files shows with memory, by node and kind.
pub(super) fn survey(
    capture: &Capture,
    infos: &[ZoneInfo],
    counts: Option<&FrameCounts>,
) -> Result<Vec<ZoneSurvey>, Error> {
    let text = |file| capture.files.get(file).map(String::as_str);
    let buddy = buddyinfo::parse(text(buddyinfo::FILE).unwrap_or_default())?;
    let types = text(pagetypeinfo::FILE).map(pagetypeinfo::parse).transpose()?;
    let with_memory = infos.iter().filter(|zone| zone.present_frames > 0).map(|zone| zone.id);
    let ids: BTreeSet<ZoneId> = with_memory.chain(buddy.iter().map(|zone| zone.id)).collect();
    let zone = |id: ZoneId| {
        let blocks = buddy.iter().find(|zone| zone.id == id).map(|zone| zone.blocks.clone());
        let free_lists = blocks.map(|blocks| {
            let by_type = types.as_ref().map(|info| free_lists::by_type(info, id, &blocks));
            FreeLists::new(blocks, by_type.unwrap_or_default())
        });
        let tally = counts.and_then(|counts| counts.zones.iter().find(|zone| zone.id == id));
        ZoneSurvey {
            id,
            extent: infos.iter().find(|zone| zone.id == id).map(extent),
            free_lists,
            pageblocks: types.as_ref().map(|info| pageblocks(info, id)).unwrap_or_default(),
            frames: tally.map(|tally| FrameReport::of(&[tally])),
        }
    };
    Ok(ids.into_iter().map(zone).collect())
}

fn extent(zone: &ZoneInfo) -> ZoneExtent {
    ZoneExtent {
        start_pfn: zone.start.0,
        spanned_frames: zone.spanned_frames,
        present_frames: zone.present_frames,
        managed_frames: zone.managed_frames,
        free_frames: zone.free_frames,
        per_cpu_frames: zone.per_cpu_frames(),
        watermark_frames: zone.watermarks,
        lowmem_reserve_frames: zone.lowmem_reserve_frames.clone(),
    }
}

fn pageblocks(info: &pagetypeinfo::PageTypeInfo, id: ZoneId) -> Vec<PageblocksOfType> {
    let row = |table: &[pagetypeinfo::ZonePageblocks]| {
        table.iter().find(|zone| zone.id == id).map(|zone| zone.blocks.clone())
    };
    let mixed = row(&info.mixed);
    let of_type = |(migrate_type, blocks): (prairie_frames::MigrateType, u64)| PageblocksOfType {
        migrate_type: migrate_type.name(),
        blocks,
        mixed_blocks: mixed
            .as_ref()
            .and_then(|mixed| mixed.iter().find(|(t, _)| *t == migrate_type))
            .map(|(_, blocks)| *blocks),
    };
    row(&info.pageblocks).unwrap_or_default().into_iter().map(of_type).collect()
}
