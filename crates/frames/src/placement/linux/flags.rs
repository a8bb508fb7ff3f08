//! What an attempt to allocate may do.

use super::Config;
use crate::placement::zonelist::Depth;
use crate::placement::{Request, gfp};
use crate::{MigrateType, Order};

/// The `ALLOC_*` flags of `mm/internal.h`.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllocFlags {
    /// Which watermark counts.
    pub depth: Depth,
    /// May use half of what the min watermark keeps back (`ALLOC_MIN_RESERVE`).
    pub min_reserve: bool,
    /// Cannot wait (`ALLOC_NON_BLOCK`).
    pub non_block: bool,
    /// May take from, and adds to, the reserve for atomic requests (`ALLOC_HIGHATOMIC`).
    pub highatomic: bool,
    /// Must not break up pageblocks of other types (`ALLOC_NOFRAGMENT`).
    pub nofragment: bool,
    /// May wake kswapd (`ALLOC_KSWAPD`).
    pub kswapd: bool,
    /// May use areas of the contiguous memory allocator (`ALLOC_CMA`).
    pub cma: bool,
    /// The request is for one frame and has `__GFP_ATOMIC`: a boost does not hold it back.
    pub ignores_boost: bool,
}

impl AllocFlags {
    /// Of the first attempt (`alloc_flags_nofragment` and `__alloc_pages`).
    #[inline]
    pub(super) fn fast(
        request: &Request,
        migrate_type: MigrateType,
        nofragment: bool,
        config: &Config,
    ) -> AllocFlags {
        AllocFlags {
            depth: Depth::Low,
            min_reserve: false,
            non_block: false,
            highatomic: false,
            nofragment,
            kswapd: request.gfp_flags & gfp::KSWAPD_RECLAIM != 0,
            cma: config.cma && migrate_type == MigrateType::Movable,
            ignores_boost: false,
        }
    }

    /// Of the attempts after that (`gfp_to_alloc_flags`).
    pub(super) fn slow(request: &Request, migrate_type: MigrateType, config: &Config) -> Self {
        let has = |bits| request.gfp_flags & bits != 0;
        let min_reserve = has(gfp::HIGH);
        let non_block = !has(gfp::DIRECT_RECLAIM) && !has(gfp::NOMEMALLOC);
        let single = request.order == Order::BASE;
        AllocFlags {
            depth: Depth::Min,
            min_reserve,
            non_block,
            highatomic: config.highatomic && non_block && min_reserve && !single,
            ignores_boost: single && has(gfp::ATOMIC),
            ..AllocFlags::fast(request, migrate_type, false, config)
        }
    }

    /// Of the attempt that goes to the last frame. Who may use all memory by right has no need of
    /// the other reserves (`__gfp_pfmemalloc_flags`).
    pub(super) fn without_watermarks(self, entitled: bool) -> AllocFlags {
        AllocFlags {
            depth: Depth::All,
            min_reserve: self.min_reserve && !entitled,
            non_block: self.non_block && !entitled,
            highatomic: self.highatomic && !entitled,
            ..self
        }
    }

    /// Whether any reserve is open (`ALLOC_RESERVES`).
    pub(super) const fn uses_reserves(self) -> bool {
        self.min_reserve || self.non_block || self.highatomic
    }
}

/// Whether a request may use all memory, because it will free more.
pub(super) fn is_memalloc(request: &Request) -> bool {
    request.gfp_flags & (gfp::MEMALLOC | gfp::NOMEMALLOC) == gfp::MEMALLOC
}
