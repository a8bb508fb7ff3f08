//! The recorded kernel's state of memory at one moment.

use prairie_frames::layout::Watermarks;
use prairie_frames::placement::linux::Pageset;
use prairie_frames::{Layout, MigrateType, ZoneKind};
use prairie_host::texts::zoneinfo::ZoneInfo;
use prairie_host::texts::{pagetypeinfo, zoneinfo};

use crate::initial_state::{id_of, zone_spans};

/// Bit of `/proc/kpageflags` for every frame of a free block (`KPF_BUDDY`).
const BUDDY: u64 = 1 << 10;

/// Bit of `/proc/kpageflags` where no memory is (`KPF_NOPAGE`).
const NO_PAGE: u64 = 1 << 20;

/// Frames of a section: memory exists by whole ones (`SECTION_SIZE_BITS` is 27 on x86-64, and on
/// arm64 with pages of 4 KiB). Linux 7.3 shows no flag at all in one that has no memory.
pub(super) const SECTION: usize = 1 << (27 - 12);

/// The files of one snapshot, parsed.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its name in the markers and file names.
    pub name: String,
    /// `/proc/pagetypeinfo`.
    pub types: pagetypeinfo::PageTypeInfo,
    /// `/proc/zoneinfo`.
    pub zones: Vec<ZoneInfo>,
    /// `/proc/kpageflags`, by frame number.
    pub flags: Option<Vec<u64>>,
}

impl Snapshot {
    /// Parses the texts of a snapshot.
    ///
    /// # Errors
    /// If one of them is not what the kernel writes.
    pub fn new(
        name: &str,
        [pagetypeinfo, zoneinfo]: [&str; 2],
        kpageflags: Option<&[u8]>,
    ) -> Result<Snapshot, prairie_host::Error> {
        let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("eight bytes"));
        Ok(Snapshot {
            name: name.into(),
            types: pagetypeinfo::parse(pagetypeinfo).map_err(prairie_host::Error::from)?,
            zones: zoneinfo::parse(zoneinfo).map_err(prairie_host::Error::from)?,
            flags: kpageflags.map(|bytes| bytes.chunks_exact(8).map(number).collect()),
        })
    }

    /// Whether a frame was part of a free block; false if unknown.
    pub fn is_free(&self, pfn: prairie_frames::Pfn) -> bool {
        let flags = self.flags.as_ref().and_then(|flags| flags.get(pfn.0 as usize));
        flags.is_some_and(|flags| flags & BUDDY != 0)
    }

    /// Whether there was a frame of this number; true if unknown. Linux 7.3 says so of sections
    /// without memory as well: see [`Snapshot::has_memory`].
    pub fn is_present(&self, pfn: prairie_frames::Pfn) -> bool {
        let Some(flags) = &self.flags else { return true };
        flags.get(pfn.0 as usize).is_some_and(|flags| flags & NO_PAGE == 0)
    }

    /// Whether the section of a frame has memory; true if unknown. O(frames of a section).
    pub fn has_memory(&self, pfn: prairie_frames::Pfn) -> bool {
        let Some(flags) = &self.flags else { return true };
        let section = flags.chunks(SECTION).nth(pfn.0 as usize / SECTION).unwrap_or_default();
        section.iter().any(|flags| flags & !NO_PAGE != 0)
    }

    /// The limits of the per-CPU lists of each zone of `layout`.
    pub fn pagesets(&self, layout: &Layout) -> Vec<Pageset> {
        let of = |zone: &prairie_frames::layout::Zone| {
            let info = self.zones.iter().find(|info| info.id == id_of(&zone.span));
            let lists = info.and_then(|info| info.per_cpu_lists.first());
            lists.map_or(Pageset::BOOT, |lists| {
                Pageset::fixed(lists.batch.max(1) as u32, lists.high as u32)
            })
        };
        layout.zones().iter().map(of).collect()
    }

    /// CPUs with lists.
    pub fn cpus(&self) -> u16 {
        let cpus = self.zones.iter().map(|zone| zone.per_cpu_lists.len() as u16).max();
        cpus.unwrap_or(0).max(1)
    }

    /// The watermarks of each zone of `layout`, without what fallbacks have added.
    pub fn watermarks(&self, layout: &Layout) -> Vec<Watermarks> {
        let of = |zone: &prairie_frames::layout::Zone| {
            let info = self.zones.iter().find(|info| info.id == id_of(&zone.span));
            info.map_or(Watermarks::default(), |info| {
                let marks = info.watermarks;
                let plain = |mark: u64| mark.saturating_sub(marks.boost);
                let (min, low, high) = (plain(marks.min), plain(marks.low), plain(marks.high));
                Watermarks { min, low, high }
            })
        };
        layout.zones().iter().map(of).collect()
    }

    /// What each zone of `layout` keeps from requests that could have used a higher one
    /// (`protection`).
    pub fn reserves(&self, layout: &Layout) -> Vec<[u64; ZoneKind::ALL.len()]> {
        let spans = zone_spans(&self.zones);
        let of = |zone: &prairie_frames::layout::Zone| {
            let span = spans.iter().find(|span| id_of(span) == id_of(&zone.span));
            span.map_or(Default::default(), |span| span.lowmem_reserve)
        };
        layout.zones().iter().map(of).collect()
    }

    /// Frames on the per-CPU lists of one zone, by CPU.
    pub fn per_cpu(&self, layout: &Layout, zone: usize) -> Vec<u64> {
        let id = id_of(&layout.zones()[zone].span);
        let info = self.zones.iter().find(|info| info.id == id);
        info.map_or(Vec::new(), |info| info.per_cpu_lists.iter().map(|l| l.count).collect())
    }

    /// Pageblocks of one zone by type.
    pub fn pageblocks(&self, layout: &Layout, zone: usize) -> [u64; MigrateType::ALL.len()] {
        let id = id_of(&layout.zones()[zone].span);
        let mut counts = [0; MigrateType::ALL.len()];
        for known in self.types.pageblocks.iter().filter(|known| known.id == id) {
            for &(migrate_type, blocks) in &known.blocks {
                counts[migrate_type.index()] += blocks;
            }
        }
        counts
    }

    /// Free blocks of one zone by type and order.
    pub fn free_blocks(&self, layout: &Layout, zone: usize) -> Vec<(MigrateType, Vec<u64>)> {
        let id = id_of(&layout.zones()[zone].span);
        let rows = self.types.free.iter().filter(|row| row.id == id);
        rows.map(|row| (row.migrate_type, row.blocks.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use prairie_frames::Pfn;

    use super::*;

    #[test]
    fn a_section_without_any_flag_has_no_memory() {
        let mut flags = vec![0; 3 * SECTION];
        flags[..SECTION].fill(NO_PAGE);
        flags[SECTION + 7] = BUDDY;
        let types = pagetypeinfo::PageTypeInfo {
            pageblock_order: prairie_frames::Order::HUGE,
            free: Vec::new(),
            pageblocks: Vec::new(),
            mixed: Vec::new(),
        };
        let snapshot =
            Snapshot { name: String::new(), types, zones: Vec::new(), flags: Some(flags) };
        let present = |pfn: usize| {
            let pfn = Pfn(pfn as u64);
            snapshot.has_memory(pfn) && snapshot.is_present(pfn)
        };
        assert_eq!([5, SECTION - 1].map(present), [false; 2], "as Linux 6.1 says");
        assert_eq!([SECTION, SECTION + 7, 2 * SECTION - 1].map(present), [true; 3]);
        assert_eq!([2 * SECTION, 3 * SECTION - 1].map(present), [false; 2], "as Linux 7.3 says");
    }
}
