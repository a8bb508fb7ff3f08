//! Whose memory was short: the host's, or that of a cgroup at its own limit.
//!
//! `/proc/pressure/memory` and `oom_kill` count both. Only the host's own reclaim counts in
//! `pgscan_kswapd`, `pgscan_direct`, and `allocstall_*`: for the limit of a cgroup the kernel reclaims
//! without them. And before the kernel kills for the host, requests have reclaimed without success.

use std::time::Duration;

use crate::sample::Sample;

/// A kill this long after the host's last direct reclaim is for its lack of memory (*chosen*; Linux
/// 6.12 stalls for many seconds between the last attempts and the kill).
const BEFORE_A_KILL: Duration = Duration::from_secs(60);

/// What the samples so far say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blame {
    /// When requests of the host last reclaimed.
    reclaimed: Option<Duration>,
}

impl Blame {
    /// Takes the next sample; whether the kernel has killed a process since the one before because the
    /// host lacks memory.
    pub(super) fn kills(&mut self, before: &Sample, sample: &Sample) -> bool {
        let stalls = |of: &Sample| of.kernel_stalls + of.user_stalls;
        if stalls(sample) > stalls(before) {
            self.reclaimed = Some(sample.at);
        }
        let lately = self.reclaimed.is_some_and(|at| sample.at <= at + BEFORE_A_KILL);
        sample.oom_kills > before.oom_kills && (lately || sample.scanned.is_none())
    }
}

/// Whether what stalled between two samples may have waited for the host.
pub(super) fn stalls(before: &Sample, sample: &Sample) -> bool {
    let waits = |of: &Sample| (of.kernel_stalls, of.user_stalls, of.scanned);
    sample.scanned.is_none() || waits(sample) != waits(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn sample(at: u64, oom_kills: u64, user_stalls: u64, scanned: Option<u64>) -> Sample {
        Sample { at: SECOND * at as u32, oom_kills, user_stalls, scanned, ..Sample::default() }
    }

    #[test]
    fn a_kill_without_reclaim_is_that_of_a_cgroup() {
        let mut blame = Blame::default();
        let mut kills = |a: (u64, u64, u64), b: (u64, u64, u64)| {
            let of = |(at, kills, stalls)| sample(at, kills, stalls, Some(0));
            blame.kills(&of(a), &of(b))
        };
        assert!(!kills((1, 0, 0), (2, 1, 0)), "at its own limit");
        assert!(kills((2, 1, 0), (3, 2, 1)), "requests reclaimed");
        assert!(kills((3, 2, 1), (63, 3, 1)), "a minute ago");
        assert!(!kills((63, 3, 1), (64, 4, 1)));
        assert!(!kills((64, 4, 1), (65, 4, 2)), "none was killed");
        let (before, after) = (sample(1, 0, 0, None), sample(2, 1, 0, None));
        assert!(Blame::default().kills(&before, &after), "the kernel does not say");
    }

    #[test]
    fn a_stall_without_reclaim_is_that_of_a_cgroup() {
        let before = sample(1, 0, 0, Some(5));
        assert!(!stalls(&before, &sample(2, 0, 0, Some(5))));
        assert!(stalls(&before, &sample(2, 0, 0, Some(6))), "kswapd");
        assert!(stalls(&before, &sample(2, 0, 1, Some(5))), "direct reclaim");
        assert!(stalls(&before, &sample(2, 0, 0, None)), "the kernel does not say");
    }
}
