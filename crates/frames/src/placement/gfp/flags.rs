//! The flags of a request for pages (`gfp_t`), as far as zones and mobility depend on them.

use core::fmt;

use super::names::bits;
use crate::{MigrateType, ZoneKind};

/// `gfp_t`, as the recorded kernel numbered its bits.
///
/// Bits 0 to 3 (zones) mean the same since Linux 2.6.31, and bit 4 (`__GFP_RECLAIMABLE`) since 4.4
/// (`include/linux/gfp.h`, later `gfp_types.h`); before, bit 4 was `__GFP_WAIT`. The bits above move
/// between releases and have no names here: the text of the tracepoint's format, in the trace's
/// metadata, gives their meaning on the recorded kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct GfpFlags(pub u32);

impl GfpFlags {
    /// `__GFP_DMA`: only the lowest zone will do.
    pub(crate) const DMA: GfpFlags = GfpFlags(bits("__GFP_DMA"));
    /// `__GFP_HIGHMEM`: memory that a 32-bit kernel must map first will do.
    pub const HIGHMEM: GfpFlags = GfpFlags(bits("__GFP_HIGHMEM"));
    /// `__GFP_DMA32`: only memory below 4 GiB will do.
    pub(crate) const DMA32: GfpFlags = GfpFlags(bits("__GFP_DMA32"));
    /// `__GFP_MOVABLE`: migration can move the page, or reclaim can free it.
    pub const MOVABLE: GfpFlags = GfpFlags(bits("__GFP_MOVABLE"));
    /// `__GFP_RECLAIMABLE`: a shrinker can free the page.
    pub const RECLAIMABLE: GfpFlags = GfpFlags(bits("__GFP_RECLAIMABLE"));

    /// Whether all of `flags` are set.
    pub const fn contains(self, flags: GfpFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// These flags and `other`.
    pub const fn with(self, other: GfpFlags) -> GfpFlags {
        GfpFlags(self.0 | other.0)
    }

    /// The highest zone that may serve the request (`gfp_zone`, `include/linux/gfp.h`); lower ones
    /// may serve it too. On 64-bit machines, which have no high memory, [`ZoneKind::HighMem`]
    /// means [`ZoneKind::Normal`].
    ///
    /// Where the kernel forbids a combination the narrower zone counts.
    pub const fn highest_zone(self) -> ZoneKind {
        if self.contains(GfpFlags::DMA) {
            ZoneKind::Dma
        } else if self.contains(GfpFlags::DMA32) {
            ZoneKind::Dma32
        } else if self.contains(GfpFlags::HIGHMEM.with(GfpFlags::MOVABLE)) {
            ZoneKind::Movable
        } else if self.contains(GfpFlags::HIGHMEM) {
            ZoneKind::HighMem
        } else {
            ZoneKind::Normal
        }
    }

    /// The mobility that the flags ask for (`gfp_migratetype`, `include/linux/gfp.h`). Both bits at
    /// once are a bug that the kernel warns of; they count as unmovable.
    pub const fn migrate_type(self) -> MigrateType {
        match (self.contains(GfpFlags::MOVABLE), self.contains(GfpFlags::RECLAIMABLE)) {
            (true, false) => MigrateType::Movable,
            (false, true) => MigrateType::Reclaimable,
            _ => MigrateType::Unmovable,
        }
    }
}

impl fmt::Display for GfpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_and_mobility_follow_the_flags() {
        let user = GfpFlags::HIGHMEM.with(GfpFlags::MOVABLE);
        assert_eq!(user.highest_zone(), ZoneKind::Movable);
        assert_eq!(user.migrate_type(), MigrateType::Movable);
        assert_eq!(GfpFlags(0).highest_zone(), ZoneKind::Normal);
        assert_eq!(GfpFlags(0).migrate_type(), MigrateType::Unmovable);
        assert_eq!(GfpFlags::MOVABLE.highest_zone(), ZoneKind::Normal);
        assert_eq!(GfpFlags::DMA32.with(user).highest_zone(), ZoneKind::Dma32);
        assert_eq!(GfpFlags::RECLAIMABLE.migrate_type(), MigrateType::Reclaimable);
    }
}
