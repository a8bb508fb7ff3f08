//! Where a request may look for memory, in which order, and when a zone is too low to give.

use alloc::vec::Vec;

use crate::ZoneKind;
use crate::layout::Layout;

/// How deep a request may reach into a zone. Without reclaim, which would have refilled the zone,
/// a request tries each in turn and the policy counts how deep it had to go.
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
    pub const EACH: [Depth; 3] = [Depth::Low, Depth::Min, Depth::All];
}

/// The zonelists of a machine: for each node and highest kind, the zones best first.
#[derive(Clone, Debug)]
pub struct Zonelists {
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

    /// The zones for a request, as indices into [`Layout::zones`]. A node that does not exist is
    /// taken as the last one.
    pub fn get(&self, node: u16, highest: ZoneKind) -> &[usize] {
        let node = usize::from(node).min(self.nodes - 1);
        &self.lists[node * ZoneKind::ALL.len() + highest as usize]
    }
}
