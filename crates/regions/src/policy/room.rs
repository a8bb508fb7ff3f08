//! How far apart the watermarks of the movable zones have to be.

use std::time::Duration;

use super::Policy;
use crate::sample::page_bytes;

/// Compaction for a page of `order` starts in a zone that has 2 × 2^order frames above its low
/// watermark (the kernel's `compact_gap`). The watermarks are this many times as far apart
/// (*chosen*): sixteen huge pages fit between two of them, so that kswapd gets to run before a request
/// for many huge pages has used up what kswapd freed before, some of it in smaller pieces.
const COMPACT_GAPS: u64 = 8;

/// That distance is at most this share of what kswapd frees for a growth: 1 in N (*chosen*).
const SMALL: u64 = 2;

impl Policy {
    /// Frames that should at least lie between the watermarks of each movable zone; nothing until the
    /// regions are set up. If `kswapd_makes_room`, it frees what a growth moves: kswapd stops at the
    /// high watermark, which is twice the distance above the min watermark.
    pub fn watermark_distance(&self, now: Duration, kswapd_makes_room: bool) -> Option<u64> {
        let is_set_up = !self.nodes.is_empty() && self.nodes.values().all(|node| node.set_up);
        let growth = (self.block_frames + self.block_frames / 8) / 2;
        is_set_up.then(|| match kswapd_makes_room && self.makes_room(now) {
            true => growth,
            false => compaction().min(growth / SMALL),
        })
    }
}

/// Frames between the watermarks of a zone in which kswapd lets compaction start. Page tables of a
/// page have eight bytes for each frame of the smallest huge page.
fn compaction() -> u64 {
    let huge_page = page_bytes() / 8;
    COMPACT_GAPS * 2 * huge_page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::policy::node::Node;

    #[test]
    fn watermarks_of_a_node_that_is_set_up_leave_room_for_compaction() {
        let distance = |policy: &Policy, kswapd| policy.watermark_distance(Duration::ZERO, kswapd);
        for (block, expected) in [(32_768, compaction()), (1 << 19, compaction()), (4096, 1152)] {
            let mut policy = Policy::new(&Config::default(), block);
            assert_eq!(distance(&policy, true), None, "no node");
            policy.nodes.insert(0, Node::new());
            assert_eq!(distance(&policy, true), None, "the setup goes on");
            policy.nodes.get_mut(&0).unwrap().set_up = true;
            assert_eq!(distance(&policy, true), Some(expected));
            // The kernel region grows.
            policy.nodes.get_mut(&0).unwrap().room_until = Duration::from_secs(1);
            assert_eq!(distance(&policy, true), Some(block * 9 / 16));
            assert_eq!(distance(&policy, false), Some(expected), "kswapd does not make the room");
        }
    }
}
