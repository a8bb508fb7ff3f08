//! The free block of a list that is nearest to a frame.

use super::region::{LISTS, Region};
use crate::Order;
use crate::free_area::{End, FreeArea};
use crate::layout::Frame;
use crate::table::FrameTable;

/// Takes the part of `order` nearest to `near` from the blocks of one list, the lower of two that
/// are equally near, and leaves the rest of its block on the list. Linear in the blocks that are
/// large enough.
pub fn take(
    region: &mut Region,
    table: &mut FrameTable,
    order: Order,
    list: usize,
    near: Frame,
) -> Option<Frame> {
    let (block, part) = find(&region.area, table, order, list, near)?;
    let mut at = block;
    let mut size = region.area.remove(table, block);
    while size > order {
        size = Order::new(size.get() - 1)?;
        let upper = at.offset(size.frames());
        let other = if part >= upper { at } else { upper };
        region.area.insert(table, other, size, list, End::Head);
        at = if part >= upper { upper } else { at };
    }
    table.set_inside(part);
    Some(part)
}

/// The block, and the aligned part of it.
fn find(
    area: &FreeArea<LISTS>,
    table: &FrameTable,
    order: Order,
    list: usize,
    near: Frame,
) -> Option<(Frame, Frame)> {
    let near = near.align_down(order);
    let sizes = Order::up_to(area.largest()).filter(|&size| size >= order);
    let parts = sizes.flat_map(|size| {
        area.list(size, list).iter(table).map(move |block| {
            let last = block.offset(size.frames() - order.frames());
            (block, near.clamp(block, last))
        })
    });
    parts.min_by_key(|&(_, part)| (part.0.abs_diff(near.0), part))
}
