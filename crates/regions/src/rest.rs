//! Rest and bursts: what a glance at free memory says about the need of a full sample. A pure
//! comparison.
//!
//! Free memory of the kernel zones is the only signal that warns (`docs/src/internals/regions.md`),
//! and `/proc/buddyinfo` has it for a fraction of what the full sample costs; where page cache fills
//! memory, free user memory says nothing, and `/proc/meminfo` has how much cache there is. Each poll
//! therefore begins with that glance, so that a burst is seen as early as without rest. A full sample
//! follows if either has changed, if anything is under way, and in any case from time to time, for
//! what a glance does not show: stalls and kills.
//!
//! Between polls the same glance, at the kernel zones alone, finds bursts that would use up the
//! reserve before the next poll.

use std::time::Duration;

/// Free frames of a node at a glance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// The kernel's number for the node.
    pub node: u32,
    /// Free in its kernel zones.
    pub kernel: u64,
    /// Free in its movable zone.
    pub movable: u64,
}

/// All of a glance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glance {
    /// The nodes, by number.
    pub nodes: Vec<Free>,
    /// Frames of page cache on the LRU lists of all nodes.
    pub cache: u64,
}

/// Changes of less than a block's Nth part are noise (*chosen*): 4 MiB of 128 MiB, a thirtieth of
/// the least reserve.
const NOISE: u64 = 32;

/// Frames that free memory may change by before it counts as a change.
pub const fn noise(block_frames: u64) -> u64 {
    block_frames / NOISE
}

/// A fall of free kernel memory by a block's Nth part between two polls is a burst (*chosen*):
/// 32 MiB of 128 MiB, which the mixed load of `vm/regions` does not reach within half a second.
const BURST: u64 = 4;

/// What a glance showed at the last full sample.
#[derive(Clone, Debug, Default)]
pub struct Rest {
    since: Option<Duration>,
    resting: bool,
    seen: Glance,
}

impl Rest {
    /// A full sample was taken at `now`, and a glance beside it. If there is nothing to do, it is
    /// the beginning of `resting`.
    pub fn begin(&mut self, seen: Glance, now: Duration, resting: bool) {
        (self.since, self.seen, self.resting) = (Some(now), seen, resting);
    }

    /// Nothing is known: the next sample is a full one.
    pub fn end(&mut self) {
        self.since = None;
    }

    /// Whether there was nothing to do at the last full sample.
    pub const fn is_resting(&self) -> bool {
        self.resting && self.since.is_some()
    }

    /// Whether the last full sample was less than `longest` before `now`.
    pub fn is_recent(&self, now: Duration, longest: Duration) -> bool {
        self.since.is_some_and(|since| since <= now && now < since + longest)
    }

    /// Whether kernel memory of some node is used up so fast that the next poll is too late.
    pub fn is_burst(&self, nodes: &[Free], block_frames: u64) -> bool {
        let fell = |(a, b): (&Free, &Free)| {
            a.node == b.node && a.kernel.saturating_sub(b.kernel) >= (block_frames / BURST).max(1)
        };
        self.since.is_some() && self.seen.nodes.iter().zip(nodes).any(fell)
    }

    /// Whether all of it is as it was.
    pub fn is_still(&self, seen: &Glance, block_frames: u64) -> bool {
        let near = |a: u64, b: u64| a.abs_diff(b) < noise(block_frames).max(1);
        let same = |(a, b): (&Free, &Free)| {
            a.node == b.node && near(a.kernel, b.kernel) && near(a.movable, b.movable)
        };
        let (before, nodes) = (&self.seen.nodes, &seen.nodes);
        near(self.seen.cache, seen.cache)
            && before.len() == nodes.len()
            && before.iter().zip(nodes).all(same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 32_768;
    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_change_of_either_zone_of_any_node_ends_rest() {
        let free = |kernel, movable| Free { node: 1, kernel, movable };
        let mut rest = Rest::default();
        let glance = |nodes| Glance { nodes, cache: 7000 };
        rest.begin(glance(vec![Free::default(), free(5000, 9000)]), SECOND, true);
        let still = |second| rest.is_still(&glance(vec![Free::default(), second]), BLOCK);
        assert!(still(free(5000, 9000)) && still(free(6023, 7977)), "less than 1024 frames");
        for changed in [free(6024, 9000), free(3976, 9000), free(5000, 10_024), free(5000, 0)] {
            assert!(!still(changed), "{changed:?}");
        }
        assert!(!still(Free { node: 2, ..free(5000, 9000) }), "another node");
        assert!(!rest.is_still(&glance(vec![Free::default()]), BLOCK), "a node vanished");
        let more = Glance { cache: 7000 + 1024, ..glance(vec![Free::default(), free(5000, 9000)]) };
        assert!(!rest.is_still(&more, BLOCK), "page cache");
    }

    #[test]
    fn rest_ends_by_itself() {
        let mut rest = Rest::default();
        assert!(!rest.is_resting() && !rest.is_recent(SECOND, 10 * SECOND), "no sample yet");
        rest.begin(Glance::default(), 5 * SECOND, false);
        assert!(!rest.is_resting(), "there is something to do");
        rest.begin(Glance::default(), 5 * SECOND, true);
        assert!(rest.is_resting());
        for (second, recent) in [(4, false), (5, true), (14, true), (15, false)] {
            assert_eq!(rest.is_recent(second * SECOND, 10 * SECOND), recent, "{second}");
        }
        rest.end();
        assert!(!rest.is_resting() && !rest.is_recent(6 * SECOND, 10 * SECOND));
    }

    #[test]
    fn only_a_fall_of_kernel_memory_is_a_burst() {
        let free = |kernel, movable| Free { node: 0, kernel, movable };
        let mut rest = Rest::default();
        assert!(!rest.is_burst(&[free(0, 0)], BLOCK), "no sample yet");
        let seen = Glance { nodes: vec![free(90_000, 90_000)], cache: 0 };
        rest.begin(seen, SECOND, false);
        for (kernel, burst) in [(81_809, false), (81_808, true), (0, true), (200_000, false)] {
            assert_eq!(rest.is_burst(&[free(kernel, 0)], BLOCK), burst, "{kernel}");
        }
        assert!(!rest.is_burst(&[], BLOCK));
    }
}
