//! Data of the per-CPU lists: their limits, and which blocks they hold.

use alloc::collections::VecDeque;

use super::slow_path::COSTLY;
use crate::layout::{Frame, ZoneSpan};
use crate::{MigrateType, Order};

/// Types that have lists of their own (`MIGRATE_PCPTYPES`).
const TYPES: usize = 3;
/// Lists of the orders that are not costly.
const LOW_LISTS: usize = TYPES * (COSTLY.index() + 1);
/// Those and two for huge pages (`NR_PCP_LISTS`).
pub(super) const LISTS: usize = LOW_LISTS + 2;

/// The limits of the per-CPU lists of a zone, in frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pageset {
    /// Frames moved between the per-CPU lists and the free lists at once.
    pub batch: u32,
    /// Frames on one CPU's lists at which some are given back; since 6.7 the least that this may
    /// come to (`high_min`).
    pub high: u32,
    /// Since 6.7 the most that it may come to (`high_max`).
    pub high_max: u32,
    /// Since 6.7, whether a batch stays on the lists while larger blocks are freed in a row, as the
    /// cache of a CPU is large (`PCPF_FREE_HIGH_BATCH`).
    pub keeps_batch: bool,
}

impl Pageset {
    /// The lists before the kernel knows its CPUs: nothing stays on them
    /// (`BOOT_PAGESET_HIGH`, `BOOT_PAGESET_BATCH`).
    pub const BOOT: Pageset = Pageset::fixed(1, 0);

    /// Part of a zone that one CPU's lists may come to (`MIN_PERCPU_PAGELIST_HIGH_FRACTION`).
    const FRACTION: u64 = 8;

    /// Limits that do not adapt.
    pub const fn fixed(batch: u32, high: u32) -> Pageset {
        Pageset { batch, high, high_max: high, keeps_batch: false }
    }

    /// The limits that the kernel computes (`zone_batchsize`, `zone_highsize`): a batch of about
    /// a thousandth of the zone up to 1 MiB, a quarter of that, one less than a power of two; and
    /// as much as lies below the low watermark, shared by the node's CPUs.
    pub fn of_zone(span: &ZoneSpan, cpus: u16) -> Pageset {
        Pageset::of_size(span.managed, span.watermarks.low, cpus)
    }

    /// The same of a zone with `managed` frames and a low watermark.
    pub fn of_size(managed: u64, low: u64, cpus: u16) -> Pageset {
        let quarter = ((managed >> 10).min((1 << 20) / Order::BASE.bytes()) / 4).max(1);
        let rounded = quarter + quarter / 2;
        let batch = ((1u64 << rounded.ilog2()) - 1).max(1);
        let shared = |frames: u64| {
            let high = (frames / u64::from(cpus.max(1))).max(batch * 4);
            high.min(u64::from(u32::MAX)) as u32
        };
        Pageset {
            batch: batch as u32,
            high: shared(low),
            high_max: shared(managed / Pageset::FRACTION),
            keeps_batch: true,
        }
    }
}

/// The lists of one CPU for one zone (`struct per_cpu_pages`).
#[derive(Clone, Debug, Default)]
pub(super) struct PerCpuPages {
    /// Frames on all lists.
    pub(super) count: u32,
    /// How often the number of frames freed at once has doubled; until 6.7.
    pub(super) free_factor: u32,
    /// How the lists have adapted; since 6.7.
    pub(super) tuning: Tuning,
    pub(super) lists: [VecDeque<Frame>; LISTS],
}

/// How one CPU's lists have adapted to what was allocated and freed, since 6.7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Frames at which some are given back.
    pub high: u32,
    /// Frames freed in a row: halved by each allocation.
    pub free_count: u32,
    /// How often the size of a refill has doubled.
    pub alloc_factor: u8,
    /// Whether the last free was of a larger block that is not huge
    /// (`PCPF_PREV_FREE_HIGH_ORDER`).
    pub freed_larger: bool,
}

/// Which list a block goes to (`order_to_pindex`). Atomic reserves and areas of the contiguous
/// memory allocator count as movable.
#[inline]
pub(super) fn list_of(migrate_type: MigrateType, order: Order) -> usize {
    let column = match migrate_type {
        MigrateType::Unmovable => 0,
        MigrateType::Reclaimable => 2,
        _ => 1,
    };
    if order <= COSTLY {
        TYPES * order.index() + column
    } else {
        LOW_LISTS + usize::from(column == 1)
    }
}

/// The order of the blocks on a list (`pindex_to_order`).
pub(super) fn order_of(list: usize) -> Order {
    if list >= LOW_LISTS {
        Order::HUGE
    } else {
        Order::new((list / TYPES) as u8).expect("a small order")
    }
}
