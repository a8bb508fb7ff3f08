//! FreeBSD's compaction: two fingers that walk a region towards its middle, and the daemon that
//! sets them to work ("Physical memory anti-fragmentation mechanisms in the FreeBSD kernel",
//! Listing 1; D40772).
//!
//! The free finger comes from below and stops at holes, the scan finger from above and stops at
//! pages that can be relocated; each page goes into a hole. In the end the region's movable pages
//! lie at its bottom and what is free at its top. There are no hints and no cached positions: which
//! regions are worth it is known beforehand ([`index`]), and when, from the fragmentation index
//! ([`compactd`]).

pub mod compactd;
pub mod index;

use core::ops::Range;

use super::{Cost, Mode, Pages};
use crate::Order;
use crate::layout::Frame;
use crate::placement::stepwise::Stepwise;
use crate::table::{FrameTable, State};

/// Free blocks of this order and above are not filled: they are what compaction is for.
pub(crate) const SUPERPAGE: Order = Order::HUGE;

/// Compacts one region (`vm_phys_compact_region`). Time linear in its frames. In the cost, what the
/// free finger checks counts as free pages scanned and what the scan finger checks as pages scanned
/// to migrate.
pub fn compact_region<P: Stepwise, S: Pages>(
    table: &mut FrameTable,
    placement: &mut P,
    pages: &mut S,
    region: Range<Frame>,
) -> Cost {
    let mut cost = Cost::default();
    let (mut free, mut scan) = (region.start.0, region.end.0);
    loop {
        // `scan` is one past the page that the finger points to.
        while free < scan && !is_hole(table, Frame(free)) {
            cost.free_scanned += 1;
            free += passed_at_once(table, Frame(free));
        }
        while free < scan && !is_relocatable(table, placement, pages, Frame(scan - 1)) {
            cost.migrate_scanned += 1;
            scan -= 1;
        }
        if free >= scan {
            return cost;
        }
        let (from, to) = (Frame(scan - 1), Frame(free));
        cost.isolated += 2;
        scan -= 1;
        if relocate(table, placement, pages, from, to) {
            cost.moved += 1;
            free += 1;
        } else {
            // The hole is as good for the next page.
            cost.failed += 1;
        }
    }
}

/// Whether a free block smaller than a superpage starts here (`vm_phys_compact_page_free`).
fn is_hole(table: &FrameTable, frame: Frame) -> bool {
    table.state(frame) == State::Free && table.order(frame) < SUPERPAGE
}

/// Frames that the free finger passes at once: a superpage that is free, or a larger block in use.
fn passed_at_once(table: &FrameTable, frame: Frame) -> u32 {
    match table.state(frame) {
        State::Free | State::Allocated => table.order(frame).frames() as u32,
        _ => 1,
    }
}

/// Whether a single page can be moved (`vm_phys_compact_page_relocatable`: unwired, valid, of an
/// object that migrates).
fn is_relocatable(
    table: &FrameTable,
    placement: &impl Stepwise,
    pages: &impl Pages,
    frame: Frame,
) -> bool {
    table.state(frame) == State::Allocated
        && table.order(frame) == Order::BASE
        && !placement.is_spared(frame)
        && pages.can_isolate(table, frame, Mode::Async)
}

/// Moves a page into the first frame of a free block, and frees its own (`vm_page_relocate_page`).
fn relocate<P: Stepwise, S: Pages>(
    table: &mut FrameTable,
    placement: &mut P,
    pages: &mut S,
    from: Frame,
    to: Frame,
) -> bool {
    let (owner, mobility) = (table.owner(from), table.mobility(from));
    if !pages.copy(owner, from, to, Mode::Async) {
        return false;
    }
    let mut order = placement.take_block(table, to);
    // Taken before the rest is returned, so that the parts cannot merge again.
    table.allocate(to, Order::BASE, mobility, owner);
    while order > Order::BASE {
        order = order.halved();
        placement.give_block(table, to.offset(order.frames()), order);
    }
    table.release(from);
    placement.give_block(table, from, Order::BASE);
    true
}
