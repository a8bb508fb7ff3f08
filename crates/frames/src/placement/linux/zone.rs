//! One zone: its free lists, its per-CPU lists and its reserves.

use alloc::vec::Vec;

use super::flags::AllocFlags;
use super::pageblocks::Pageblocks;
use super::pageset::{Pageset, PerCpuPages};
use super::taken_from::TakenFrom;
use super::{Config, Context};
use crate::free_area::FreeArea;
use crate::layout::{Frame, Layout, Zone};
use crate::placement::Request;
use crate::placement::zonelist::Depth;
use crate::table::FrameTable;
use crate::{BlockCounts, MigrateType, Order, ZoneKind};

/// Free lists by order and migrate type.
pub(super) type Area = FreeArea<{ MigrateType::ALL.len() }>;

/// A zone as the allocator keeps it (`struct zone`).
#[derive(Clone, Debug)]
pub(super) struct LinuxZone {
    pub zone: Zone,
    pub area: Area,
    pub pageset: Pageset,
    /// By CPU; grows as CPUs show up.
    pub per_cpu: Vec<PerCpuPages>,
    /// Frames of the pageblocks reserved for atomic requests.
    pub reserved_highatomic: u64,
    /// Whether watermarks leave out only the free frames of those (6.12).
    pub free_reserve: bool,
    /// Frames added to every watermark.
    pub watermark_boost: u64,
    /// kswapd is to be woken for the boost (`ZONE_BOOSTED_WATERMARK`).
    pub boosted: bool,
    pub reclaim_active: bool,
    /// Free memory was below the high watermark when last looked at (`ZONE_BELOW_HIGH`).
    pub below_high: bool,
    /// Whether any pageblock was found isolated (`has_isolate_pageblock`).
    pub has_isolated: bool,
    /// Whether requests that prefer this zone first spare foreign pageblocks.
    pub nofragment: bool,
}

impl LinuxZone {
    pub(super) fn new(layout: &Layout, zone: &Zone, several_nodes: bool, config: &Config) -> Self {
        LinuxZone {
            zone: zone.clone(),
            area: FreeArea::new(zone.start..zone.end, Order::LARGEST_FREE),
            pageset: Pageset::of_zone(&zone.span, config.cpus_per_node),
            per_cpu: Vec::new(),
            reserved_highatomic: 0,
            free_reserve: config.free_reserve,
            watermark_boost: 0,
            boosted: false,
            reclaim_active: false,
            below_high: false,
            has_isolated: false,
            nofragment: config.nofragment && spares_blocks(layout, zone, several_nodes),
        }
    }

    /// Takes note of a pageblock of this zone that was found with a type.
    pub(super) fn found(&mut self, migrate_type: MigrateType) {
        match migrate_type {
            MigrateType::HighAtomic => {
                self.reserved_highatomic += u64::from(BlockCounts::FRAMES);
            }
            MigrateType::Isolate => self.has_isolated = true,
            _ => {}
        }
    }

    /// Allocates from this zone (`rmqueue`), and wakes kswapd if that boosted the watermarks.
    #[inline]
    pub(super) fn take(
        &mut self,
        context: &mut Context<'_>,
        request: &Request,
        migrate_type: MigrateType,
        flags: AllocFlags,
        depth: Depth,
    ) -> Option<Frame> {
        let mut taken = None;
        if context.config.per_cpu_lists && context.config.goes_through_cpu(request.order) {
            taken = self.take_through_cpu(context, request.order, migrate_type, flags, request.cpu);
        }
        if taken.is_none() {
            taken = self.take_from_buddy(context, request.order, migrate_type, flags);
            if let Some(frame) = taken
                && context.config.buddy_reserve
                && depth == Depth::Min
                && flags.has(AllocFlags::HIGHATOMIC)
            {
                self.reserve_highatomic(context, frame, request.order);
            }
        }
        if self.boosted {
            self.boosted = false;
            context.counts.boost_wakeups += 1;
            if !context.config.keep_boost {
                self.watermark_boost = 0;
            }
        }
        taken
    }

    /// Takes a block straight from the free lists (`rmqueue_buddy`). Atomic requests turn to their
    /// reserve: first, if they are of more than one frame, else last.
    pub(super) fn take_from_buddy(
        &mut self,
        context: &mut Context<'_>,
        order: Order,
        migrate_type: MigrateType,
        flags: AllocFlags,
    ) -> Option<Frame> {
        let reserve = MigrateType::HighAtomic.index();
        if flags.has(AllocFlags::HIGHATOMIC)
            && let Some(frame) = self.area.take_smallest(context.table, order, reserve)
        {
            return Some(frame);
        }
        let found = &mut TakenFrom::default();
        if let Some((frame, _)) = self.take_typed(context, order, migrate_type, flags, found) {
            return Some(frame);
        }
        if flags.has(AllocFlags::NON_BLOCK) {
            return self.area.take_smallest(context.table, order, reserve);
        }
        None
    }

    /// Frees a block that is on no list, of at most the largest order (`free_the_page`).
    #[inline]
    pub(super) fn free(&mut self, context: &mut Context<'_>, frame: Frame, order: Order, cpu: u16) {
        let migrate_type = context.blocks.get(frame);
        let through_cpu = context.config.per_cpu_lists
            && context.config.goes_through_cpu(order)
            && migrate_type != MigrateType::Isolate;
        if through_cpu {
            self.free_through_cpu(context, frame, order, migrate_type, cpu);
        } else {
            self.free_one(context, frame, order, migrate_type, None);
        }
    }

    /// Visits the first frame of each block on the free lists and the per-CPU lists.
    pub(super) fn for_each_free(&self, table: &FrameTable, visit: impl Fn(Frame)) {
        for (list, order) in (0..MigrateType::ALL.len())
            .flat_map(|list| Order::up_to(self.area.largest()).map(move |order| (list, order)))
        {
            self.area.list(order, list).iter(table).for_each(&visit);
        }
        self.per_cpu.iter().flat_map(|pages| pages.lists.iter().flatten()).copied().for_each(visit);
    }

    /// Compares lists and counts with the table, and what is on a list with the types of 6.1, or
    /// with `hygiene` with those of 6.10.
    ///
    /// # Panics
    /// If they contradict each other.
    pub(super) fn validate(&self, table: &FrameTable, blocks: &Pageblocks, hygiene: bool) {
        self.area.validate(table);
        for migrate_type in MigrateType::ALL {
            for order in Order::up_to(self.area.largest()) {
                for frame in self.area.list(order, migrate_type.index()).iter(table) {
                    let here = blocks.get(frame);
                    assert!(
                        if hygiene { here == migrate_type } else { may_lie_on(migrate_type, here) },
                        "{frame:?} of a block of type {} on a list of {migrate_type}",
                        blocks.get(frame)
                    );
                }
            }
        }
        self.validate_per_cpu(table);
    }
}

/// Whether a free block on a list of `listed` may lie in a pageblock of type `block`. In 6.1 that
/// is almost anything: fallback, retyping and per-CPU lists all leave blocks behind on the lists
/// of another type. Only the areas of the contiguous memory allocator and isolated blocks keep to
/// themselves.
fn may_lie_on(listed: MigrateType, block: MigrateType) -> bool {
    let apart = |t| matches!(t, MigrateType::Cma | MigrateType::Isolate);
    listed == block || !(apart(listed) || apart(block))
}

/// Whether requests that prefer `zone` spare foreign pageblocks at first, since the zone below can
/// serve them (`alloc_flags_nofragment`). On a single node the kernel takes that zone for granted.
fn spares_blocks(layout: &Layout, zone: &Zone, several_nodes: bool) -> bool {
    let below =
        |other: &Zone| other.span.node == zone.span.node && other.span.kind == ZoneKind::Dma32;
    zone.span.kind == ZoneKind::Normal && (!several_nodes || layout.zones().iter().any(below))
}
