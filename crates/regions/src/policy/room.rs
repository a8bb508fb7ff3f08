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

/// Frames that should at least lie between the watermarks of movable zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Distances {
    /// Of the largest zone, while kswapd makes room for a growth; 0 otherwise.
    pub for_growth: u64,
    /// Of the largest zone, for compaction; 0 during the setup.
    pub for_compaction: u64,
}

impl Policy {
    /// The distances at that time. If `kswapd_makes_room`, it frees what a growth moves: kswapd stops
    /// at the high watermark, which is twice the distance above the min watermark.
    pub fn watermark_distances(&self, now: Duration, kswapd_makes_room: bool) -> Distances {
        let is_set_up = self.nodes.values().all(|node| node.set_up);
        let growth = (self.block_frames + self.block_frames / 8) / 2;
        let compaction = (COMPACT_GAPS * compact_gap()).min(growth / SMALL);
        Distances {
            for_growth: if kswapd_makes_room && self.makes_room(now) { growth } else { 0 },
            for_compaction: if is_set_up { compaction } else { 0 },
        }
    }
}

/// The kernel's `compact_gap` for the smallest huge page, in frames. Page tables of a page have eight
/// bytes for each frame of that.
fn compact_gap() -> u64 {
    2 * page_bytes() / 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::policy::node::Node;

    #[test]
    fn a_growth_needs_more_than_compaction() {
        let wide = COMPACT_GAPS * compact_gap();
        for (block, for_compaction) in [(32_768, wide), (1 << 19, wide), (4096, 1152)] {
            let mut policy = Policy::new(&Config::default(), block);
            policy.nodes.insert(0, Node::new());
            policy.nodes.get_mut(&0).unwrap().set_up = true;
            let of = |policy: &Policy, kswapd| policy.watermark_distances(Duration::ZERO, kswapd);
            assert_eq!(of(&policy, true), Distances { for_growth: 0, for_compaction });
            policy.nodes.get_mut(&0).unwrap().room_until = Duration::from_secs(1);
            let for_growth = block * 9 / 16;
            assert_eq!(of(&policy, true), Distances { for_growth, for_compaction });
            let kswapd_does_not = Distances { for_growth: 0, for_compaction };
            assert_eq!(of(&policy, false), kswapd_does_not);
        }
    }

    #[test]
    fn a_node_grows_while_another_is_set_up() {
        let mut policy = Policy::new(&Config::default(), 32_768);
        policy.nodes.insert(0, Node::new());
        policy.nodes.insert(1, Node::new());
        policy.nodes.get_mut(&1).unwrap().room_until = Duration::from_secs(1);
        let expected = Distances { for_growth: 18_432, for_compaction: 0 };
        assert_eq!(policy.watermark_distances(Duration::ZERO, true), expected);
    }
}
