//! Freeing into the free lists: what merges, and at which end the result goes.

use super::Context;
use super::pageblocks::is_mergeable;
use super::zone::LinuxZone;
use crate::free_area::End;
use crate::layout::Frame;
use crate::{MigrateType, Order};

impl LinuxZone {
    /// Frees a block that is on no list (`__free_one_page`): merges it upward and puts the result
    /// on a list of `migrate_type`, whatever lists its buddies were on and whatever the type of
    /// its pageblock is. `end` overrides where on the list.
    #[inline]
    pub(super) fn free_one(
        &mut self,
        context: &mut Context<'_>,
        frame: Frame,
        order: Order,
        migrate_type: MigrateType,
        end: Option<End>,
    ) {
        let blocks = &*context.blocks;
        let (frame, order) = self.area.merge(context.table, frame, order, |_, buddy, order| {
            order < Order::HUGE || may_merge(migrate_type, blocks.get(buddy))
        });
        if context.config.hygiene && order > Order::HUGE {
            // What it is split into later belongs on the same lists.
            context.blocks.set_all(frame, order, migrate_type);
        }
        let end = end.unwrap_or_else(|| {
            let to_tail =
                context.config.merge_likely_to_tail && self.is_merge_likely(context, frame, order);
            if to_tail { End::Tail } else { End::Head }
        });
        self.area.insert(context.table, frame, order, migrate_type.index(), end);
    }

    /// Whether a block may soon become part of a larger one (`buddy_merge_likely`): it and its
    /// buddy, once that is free too, would find their own buddy free.
    #[inline]
    fn is_merge_likely(&self, context: &Context<'_>, frame: Frame, order: Order) -> bool {
        let above = order.doubled();
        if above >= self.area.largest() {
            return false;
        }
        let pair = frame.align_down(above);
        self.area.is_free_here(context.table, pair.buddy(above), above)
    }
}

/// Whether blocks of pageblock size or more merge: alike, or both of types that fall back on each
/// other.
fn may_merge(freed: MigrateType, buddy: MigrateType) -> bool {
    freed == buddy || (is_mergeable(freed) && is_mergeable(buddy))
}
