//! How fragmented a node is, and when that alone calls for compaction.

use crate::Order;
use crate::indices::FreeBlocks;

/// Share of a zone's free memory that is in blocks smaller than `order`, in percent; 0 if nothing
/// is free (`extfrag_for_order`, `mm/vmstat.c`). It is F_u in whole percent, rounded down.
pub(crate) fn external_fragmentation(free: FreeBlocks<'_>, order: Order) -> u32 {
    let frames = free.frames();
    if frames == 0 {
        return 0;
    }
    ((frames - free.frames_from(order)) * 100 / frames) as u32
}

/// A node's score, 0 to 100: its zones' fragmentation at the order of a huge page, each weighted
/// by its share of the node (`fragmentation_score_node`). Takes each zone's free blocks and
/// present frames.
pub fn node_score<'a>(zones: impl Iterator<Item = (FreeBlocks<'a>, u64)> + Clone) -> u32 {
    let present: u64 = zones.clone().map(|(_, present)| present).sum();
    let weighted = |(free, frames): (FreeBlocks<'_>, u64)| {
        (frames * u64::from(external_fragmentation(free, Order::HUGE)) / (present + 1)) as u32
    };
    zones.map(weighted).sum()
}

/// Compaction without a request (`should_proactive_compact_node`, `kcompactd`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proactive {
    /// How eager, 0 (never) to 100 (`vm.compaction_proactiveness`).
    pub proactiveness: u32,
    timeout_ms: u64,
}

/// Interval of the checks of the score (`HPAGE_FRAG_CHECK_INTERVAL_MSEC`).
const INTERVAL_MS: u64 = 500;

impl Default for Proactive {
    fn default() -> Proactive {
        Proactive::new(20)
    }
}

impl Proactive {
    /// As eager as said.
    pub const fn new(proactiveness: u32) -> Proactive {
        Proactive { proactiveness, timeout_ms: INTERVAL_MS }
    }

    /// Compaction continues until a zone's score is at most this (`fragmentation_score_wmark`).
    pub fn low_score(&self) -> u32 {
        100u32.saturating_sub(self.proactiveness).max(5)
    }

    /// Compaction starts when the node's score is more than this.
    pub(crate) fn high_score(&self) -> u32 {
        (self.low_score() + 10).min(100)
    }

    /// Whether to compact a node now. Not while kswapd runs: reclaim may do as well.
    pub fn should_compact(&self, score: u32, kswapd_runs: bool) -> bool {
        self.proactiveness > 0 && !kswapd_runs && score > self.high_score()
    }

    /// How long to sleep, in milliseconds; `None`: until there is a request.
    pub fn sleep_ms(&self) -> Option<u64> {
        (self.proactiveness > 0).then_some(self.timeout_ms)
    }

    /// Takes note of what a run, if there was one, did to the score: without progress the next
    /// look is 64 times as far off.
    pub fn finished(&mut self, run: Option<(u32, u32)>) {
        let progress = run.is_none_or(|(before, after)| after < before);
        self.timeout_ms =
            if progress { INTERVAL_MS } else { INTERVAL_MS << super::deferral::MAX_SHIFT };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_on_a_worked_example() {
        // 100 single frames and one block of 512.
        let broken = FreeBlocks { counts: &[100, 0, 0, 0, 0, 0, 0, 0, 0, 1] };
        assert_eq!(external_fragmentation(broken, Order::HUGE), 16, "100 of 612");
        let whole = FreeBlocks { counts: &[0, 0, 0, 0, 0, 0, 0, 0, 0, 3] };
        assert_eq!(external_fragmentation(whole, Order::HUGE), 0);
        let singles = FreeBlocks { counts: &[9] };
        assert_eq!(external_fragmentation(singles, Order::HUGE), 100);
        assert_eq!(external_fragmentation(FreeBlocks { counts: &[] }, Order::HUGE), 0);
        // A quarter of the node wholly broken: 1000 * 100 / 4001 = 24.
        let zones = [(singles, 1000), (whole, 3000)];
        assert_eq!(node_score(zones.into_iter()), 24);
    }

    #[test]
    fn proactive_compaction_starts_high_stops_low_and_backs_off() {
        let mut proactive = Proactive::default();
        assert_eq!((proactive.low_score(), proactive.high_score()), (80, 90));
        assert!(proactive.should_compact(91, false));
        assert!(!proactive.should_compact(91, true), "kswapd runs");
        assert!(!proactive.should_compact(90, false));
        assert_eq!(proactive.sleep_ms(), Some(500));
        proactive.finished(Some((95, 95)));
        assert_eq!(proactive.sleep_ms(), Some(32_000));
        proactive.finished(None);
        assert_eq!(proactive.sleep_ms(), Some(500));
        let eager = Proactive::new(100);
        assert_eq!((eager.low_score(), eager.high_score()), (5, 15));
        let off = Proactive::new(0);
        assert!(!off.should_compact(100, false) && off.sleep_ms().is_none());
    }
}
