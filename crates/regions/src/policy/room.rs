//! How far apart the watermarks of the movable zones have to be.

use std::time::Duration;

use super::Policy;
use crate::sample::page_bytes;

/// Where the kernel's own watermarks are too close, they are set this many times [`compact_gap`] apart
/// (*chosen*): sixteen huge pages fit between two of them, so that kswapd gets to run before a request
/// for many huge pages has used up what kswapd freed before, some of it in smaller pieces.
const COMPACT_GAPS: u64 = 8;

/// That distance is at most this share of what kswapd frees for a growth: 1 in N (*chosen*).
const SMALL: u64 = 2;

impl Policy {
    /// Frames that should at least lie between the watermarks of each movable zone, if the kernel
    /// itself keeps them `kernels` apart; nothing until the regions are set up. If
    /// `kswapd_makes_room`, it frees what a growth moves: kswapd stops at the high watermark, which is
    /// twice the distance above the min watermark.
    pub fn watermark_distance(
        &self,
        now: Duration,
        kswapd_makes_room: bool,
        kernels: u64,
    ) -> Option<u64> {
        let is_set_up = !self.nodes.is_empty() && self.nodes.values().all(|node| node.set_up);
        let growth = (self.block_frames + self.block_frames / 8) / 2;
        let suffices = kernels >= compact_gap() + huge_page();
        is_set_up.then(|| match kswapd_makes_room && self.makes_room(now) {
            true => growth,
            false if suffices => 0,
            false => (COMPACT_GAPS * compact_gap()).min(growth / SMALL),
        })
    }
}

/// Frames above its low watermark with which a zone lets compaction for a huge page start (the
/// kernel's `compact_gap`). kswapd stops at the high watermark.
fn compact_gap() -> u64 {
    2 * huge_page()
}

/// Frames of the smallest huge page: a page of page tables has an entry of eight bytes for each.
fn huge_page() -> u64 {
    page_bytes() / 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::policy::node::Node;

    #[test]
    fn watermarks_of_a_node_that_is_set_up_leave_room_for_compaction() {
        let distance =
            |policy: &Policy, kswapd| policy.watermark_distance(Duration::ZERO, kswapd, 768);
        let wide = COMPACT_GAPS * compact_gap();
        for (block, expected) in [(32_768, wide), (1 << 19, wide), (4096, 1152)] {
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

    /// Linux 6.1 divides `min_free_kbytes` among all zones, and the distance is a quarter of a share.
    #[test]
    fn watermarks_with_room_for_compaction_stay_where_they_are() {
        let mut policy = Policy::new(&Config::default(), 32_768);
        policy.nodes.insert(0, Node::new());
        policy.nodes.get_mut(&0).unwrap().set_up = true;
        let distance = |kernels| policy.watermark_distance(Duration::ZERO, false, kernels);
        let enough = compact_gap() + huge_page();
        assert_eq!(distance(enough), Some(0));
        assert_eq!(distance(enough - 1), Some(COMPACT_GAPS * compact_gap()));
    }
}
