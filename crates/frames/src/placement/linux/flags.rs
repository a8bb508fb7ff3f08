//! Permissions of an allocation attempt.

use super::Config;
use crate::placement::{Request, gfp};
use crate::{MigrateType, Order};

/// The `ALLOC_*` flags of `mm/internal.h`, but for the watermark, which is a
/// [`Depth`](crate::placement::zonelist::Depth).
///
/// One word instead of fields, because every call passes them on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AllocFlags(u8);

impl AllocFlags {
    /// Nothing beyond the ordinary.
    pub(super) const NONE: AllocFlags = AllocFlags(0);
    /// May use half of what the min watermark keeps back (`ALLOC_MIN_RESERVE`).
    pub(super) const MIN_RESERVE: AllocFlags = AllocFlags(1 << 0);
    /// Cannot wait (`ALLOC_NON_BLOCK`).
    pub(super) const NON_BLOCK: AllocFlags = AllocFlags(1 << 1);
    /// May take from, and adds to, the reserve for atomic requests (`ALLOC_HIGHATOMIC`).
    pub(super) const HIGHATOMIC: AllocFlags = AllocFlags(1 << 2);
    /// Must not break up pageblocks of other types (`ALLOC_NOFRAGMENT`).
    pub(super) const NOFRAGMENT: AllocFlags = AllocFlags(1 << 3);
    /// May wake kswapd (`ALLOC_KSWAPD`).
    pub(super) const KSWAPD: AllocFlags = AllocFlags(1 << 4);
    /// May use areas of the contiguous memory allocator (`ALLOC_CMA`).
    pub(super) const CMA: AllocFlags = AllocFlags(1 << 5);
    /// Not held back by a boost: set for a single frame with `__GFP_ATOMIC`, since 6.3 with
    /// `__GFP_HIGH`.
    pub(super) const IGNORES_BOOST: AllocFlags = AllocFlags(1 << 6);
    /// All that open a reserve (`ALLOC_RESERVES`).
    pub(super) const RESERVES: AllocFlags =
        Self::MIN_RESERVE.with(Self::NON_BLOCK).with(Self::HIGHATOMIC);

    /// Whether any of `flags` is set.
    pub(super) const fn has(self, flags: AllocFlags) -> bool {
        self.0 & flags.0 != 0
    }

    pub(super) const fn with(self, flags: AllocFlags) -> AllocFlags {
        AllocFlags(self.0 | flags.0)
    }

    pub(super) const fn without(self, flags: AllocFlags) -> AllocFlags {
        AllocFlags(self.0 & !flags.0)
    }

    const fn with_if(self, condition: bool, flags: AllocFlags) -> AllocFlags {
        if condition { self.with(flags) } else { self }
    }

    /// Of the first attempt (`__alloc_pages`), but for [`AllocFlags::NOFRAGMENT`], which depends
    /// on the zone.
    #[inline]
    pub(super) fn fast(
        request: &Request,
        migrate_type: MigrateType,
        config: &Config,
    ) -> AllocFlags {
        let early = config.early_reserve && config.highatomic && is_highatomic(request);
        AllocFlags(0)
            .with_if(request.gfp_flags & gfp::KSWAPD_RECLAIM != 0, AllocFlags::KSWAPD)
            .with_if(config.cma && migrate_type == MigrateType::Movable, AllocFlags::CMA)
            .with_if(early, AllocFlags::HIGHATOMIC)
    }

    /// Of the attempts after that (`gfp_to_alloc_flags`).
    pub(super) fn slow(request: &Request, migrate_type: MigrateType, config: &Config) -> Self {
        let has = |bits| request.gfp_flags & bits != 0;
        let single = request.order == Order::BASE;
        let high = has(gfp::HIGH);
        let non_block = is_non_blocking(request);
        let highatomic = config.highatomic && is_highatomic(request);
        let ignores_boost = if config.high_ignores_boost { gfp::HIGH } else { gfp::ATOMIC };
        AllocFlags::fast(request, migrate_type, config)
            .with_if(high, AllocFlags::MIN_RESERVE)
            .with_if(non_block, AllocFlags::NON_BLOCK)
            .with_if(highatomic, AllocFlags::HIGHATOMIC)
            .with_if(single && has(ignores_boost), AllocFlags::IGNORES_BOOST)
    }
}

/// Whether a request cannot wait and may use reserves.
fn is_non_blocking(request: &Request) -> bool {
    request.gfp_flags & (gfp::DIRECT_RECLAIM | gfp::NOMEMALLOC) == 0
}

/// Whether a request is one that the reserve for atomic requests is for.
fn is_highatomic(request: &Request) -> bool {
    is_non_blocking(request) && request.gfp_flags & gfp::HIGH != 0 && request.order > Order::BASE
}

/// Whether a request may use all memory by right, because it will free more
/// (`__gfp_pfmemalloc_flags`).
pub(super) fn is_memalloc(request: &Request) -> bool {
    request.gfp_flags & (gfp::MEMALLOC | gfp::NOMEMALLOC) == gfp::MEMALLOC
}
