//! Where a request may look for memory, in which order, and when a zone is too low to give.

use alloc::vec::Vec;

use super::Request;
use crate::free_area::FreeArea;
use crate::layout::{Layout, Zone};
use crate::{Order, ZoneKind};

/// How deep a request may reach into a zone. Without reclaim, which would have refilled the zone, a
/// request tries one depth after another, and the policy counts how deep it had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// Down to the low watermark: the fast path.
    Low,
    /// Down to the min watermark: the slow path, after waking kswapd.
    Min,
    /// To the last frame: where the kernel would have reclaimed or compacted first.
    All,
}

impl Depth {
    /// All of them, gentlest first.
    pub(crate) const EACH: [Depth; 3] = [Depth::Low, Depth::Min, Depth::All];
}

/// The zonelists of a machine: for each node and highest kind, the zones best first.
#[derive(Clone, Debug)]
pub(crate) struct Zonelists {
    nodes: usize,
    lists: Vec<Vec<usize>>,
}

impl Zonelists {
    /// Builds all lists of `layout`.
    pub fn new(layout: &Layout) -> Zonelists {
        let nodes = layout.zones().iter().map(|z| usize::from(z.span.node) + 1).max().unwrap_or(1);
        let lists = (0..nodes)
            .flat_map(|node| ZoneKind::ALL.map(|kind| layout.zonelist(node as u16, kind)))
            .collect();
        Zonelists { nodes, lists }
    }

    /// The same lists with the zones that `keep` names.
    pub fn retaining(&self, keep: impl Fn(usize) -> bool) -> Zonelists {
        let mut lists = self.clone();
        lists.lists.iter_mut().for_each(|list| list.retain(|&zone| keep(zone)));
        lists
    }

    /// The zones for a request, as indices into [`Layout::zones`]. A node that does not exist is
    /// taken as the last one.
    #[inline]
    pub fn get(&self, node: u16, highest: ZoneKind) -> &[usize] {
        let node = usize::from(node).min(self.nodes - 1);
        &self.lists[node * ZoneKind::ALL.len() + highest as usize]
    }
}

/// Whether a zone of Linux 2.6.16 may give a block to a request that reaches down to `depth`.
#[inline]
pub(super) fn allows<const LISTS: usize>(
    zone: &Zone,
    area: &FreeArea<LISTS>,
    request: &Request,
    depth: Depth,
) -> bool {
    let mark = match depth {
        Depth::Low => zone.span.watermarks.low,
        Depth::Min => zone.span.watermarks.min,
        Depth::All => return true,
    };
    is_above(zone, area, request.order, mark, request.highest_zone)
}

/// Whether enough is free above `mark` for a block (`zone_watermark_ok`, 2.6.16): at each higher
/// order half as much again.
#[inline]
pub(super) fn is_above<const LISTS: usize>(
    zone: &Zone,
    area: &FreeArea<LISTS>,
    order: Order,
    mark: u64,
    highest: ZoneKind,
) -> bool {
    let reserve = zone.span.lowmem_reserve[highest as usize];
    let wanted = order.frames() - 1;
    if area.free_frames() <= mark + reserve + wanted {
        return false;
    }
    let mut free = area.free_frames() - wanted;
    // An order without a block leaves `free` as it is and asks for less than the one before, so
    // only those that have one are checked.
    let mut smaller = area.occupied_by_any() & ((1 << order.get()) - 1);
    while smaller != 0 {
        let order = smaller.trailing_zeros();
        smaller &= smaller - 1;
        free = free.saturating_sub(area.blocks(order as usize) << order);
        if free <= mark >> (order + 1) {
            return false;
        }
    }
    true
}
