//! Fallback since Linux 6.15 and 6.12.29: claim a whole pageblock, or take one block and no more.
//!
//! 6.1 moves blocks to the lists of the type that asks, whether or not it gets their pageblock, so
//! that the lists of one type hold memory of pageblocks of another. Since 6.10 a free block is only
//! ever on the lists of its pageblock's type. What cannot be claimed is then broken up in place: the
//! remainder stays with the pageblock's type.

use super::Context;
use super::fallback::{FALLBACKS, Fallback, HALF_HUGE, is_claimable};
use super::flags::AllocFlags;
use super::taken_from::TakenFrom;
use super::zone::LinuxZone;
use crate::layout::Frame;
use crate::{MigrateType, Order};

impl LinuxZone {
    /// A block from foreign lists (`__rmqueue`), and the type whose list it came from in the end.
    #[cold]
    pub(super) fn claim_or_steal(
        &mut self,
        context: &mut Context<'_>,
        order: Order,
        migrate_type: MigrateType,
        flags: AllocFlags,
        found: &mut TakenFrom,
    ) -> Option<(Frame, MigrateType)> {
        if *found == TakenFrom::Own
            && let Some(frame) = self.claim_block(context, order, migrate_type, flags)
        {
            return Some((frame, migrate_type));
        }
        if flags.has(AllocFlags::NOFRAGMENT) {
            return None;
        }
        let stolen = self.steal_block(context, order, migrate_type)?;
        *found = TakenFrom::Foreign;
        Some(stolen)
    }

    /// Claims the pageblock of the largest foreign block for which that is allowed
    /// (`__rmqueue_claim`). Who spares foreign pageblocks claims only those that are wholly free.
    fn claim_block(
        &mut self,
        context: &mut Context<'_>,
        order: Order,
        migrate_type: MigrateType,
        flags: AllocFlags,
    ) -> Option<Frame> {
        let min = if flags.has(AllocFlags::NOFRAGMENT) { order.max(Order::HUGE) } else { order };
        for found in Order::up_to(self.area.largest()).rev().take_while(|&found| found >= min) {
            if found < HALF_HUGE && migrate_type == MigrateType::Movable {
                // From here on a movable request does no lasting harm where it is.
                break;
            }
            let Some(from) = self.foreign_at(found, migrate_type) else { continue };
            let frame = self.area.list(found, from.index()).front().expect("an occupied list");
            if let Some(taken) = self.try_to_claim(context, frame, order, migrate_type, flags) {
                context.counts.extfrag(Fallback {
                    frame,
                    order: found,
                    wanted: migrate_type,
                    from,
                    change_ownership: true,
                });
                return Some(taken);
            }
        }
        None
    }

    /// Claims the pageblock of a free block if enough of it is free or akin, and takes a block from
    /// it (`try_to_claim_block`).
    fn try_to_claim(
        &mut self,
        context: &mut Context<'_>,
        frame: Frame,
        order: Order,
        migrate_type: MigrateType,
        flags: AllocFlags,
    ) -> Option<Frame> {
        let found = context.table.order(frame);
        if found >= Order::HUGE {
            context.blocks.set_all(frame, found, migrate_type);
            self.move_to_tail(context.table, frame, migrate_type);
            return self.area.take_smallest(context.table, order, migrate_type.index());
        }
        self.boost_watermark(context, flags);
        let free = self.listed_in_block(context, frame)?;
        let movable = u64::from(context.table.block(frame).movable);
        let old = context.blocks.get(frame);
        if !is_claimable(migrate_type, old, free, movable) && context.config.grouping
            || !context.config.claiming
        {
            return None;
        }
        self.move_free_blocks(context, frame, migrate_type);
        context.blocks.set(frame, migrate_type);
        context.counts.block_steals += 1;
        context.counts.claims += 1;
        self.area.take_smallest(context.table, order, migrate_type.index())
    }

    /// Takes the smallest foreign block that fits; what is left of it stays with its own type
    /// (`__rmqueue_steal`).
    fn steal_block(
        &mut self,
        context: &mut Context<'_>,
        order: Order,
        migrate_type: MigrateType,
    ) -> Option<(Frame, MigrateType)> {
        let mut orders = Order::up_to(self.area.largest()).skip_while(|&found| found < order);
        let (found, from) =
            orders.find_map(|found| Some((found, self.foreign_at(found, migrate_type)?)))?;
        let frame = self.area.list(found, from.index()).front()?;
        context.counts.single_steals += 1;
        context.counts.extfrag(Fallback {
            frame,
            order: found,
            wanted: migrate_type,
            from,
            change_ownership: false,
        });
        let taken = self.area.take_smallest(context.table, order, from.index())?;
        Some((taken, from))
    }

    /// The first of the types that `migrate_type` falls back on with a free block of just this
    /// order (`find_suitable_fallback`).
    fn foreign_at(&self, order: Order, migrate_type: MigrateType) -> Option<MigrateType> {
        let bit = 1 << order.get();
        let foreign = FALLBACKS[migrate_type.index()].into_iter();
        foreign.into_iter().find(|from| u32::from(self.area.occupied(from.index())) & bit != 0)
    }
}
