//! Refaulted pages times the cost of one: stalls that the kernel does not count.
//!
//! A refault from zswap counts as a memory stall only if the page was on the active list before it
//! was reclaimed. On many kernels a container can therefore read back all its memory while both
//! pressure totals stay unchanged. The number of refaulted pages is known from counters, and the
//! cost of one is measured on the host.

use super::term::{Period, Signal};
use crate::guard::{Guard, History};
use crate::observation::Observation;
use crate::profile::Profile;

/// The signal. Several tasks may wait at once, so its share can exceed 1.
pub const SIGNAL: Signal = Signal {
    name: "returned",
    help: "Returns times their cost",
    source: None,
    share,
    guard: Some(returning),
};

fn share(period: &Period<'_>) -> f64 {
    let returned = returned_pages(period.before, period.now) as f64;
    returned * period.return_cost.as_secs_f64() * 1e6 / period.wall_us()
}

/// Blocks reclaim for a while after more pages refaulted than the profile allows.
fn returning(_: &Profile, history: &History, now: &Observation) -> Option<Guard> {
    let (returned_pages, taken_pages, until) = history.returning?;
    let remaining = until.saturating_sub(now.at);
    (!remaining.is_zero()).then_some(Guard::Returning { returned_pages, taken_pages, remaining })
}

/// Pages that refaulted between two observations.
///
/// The counters overlap: a page read from zswap counts as `zswpin`, as a major fault, and as a
/// refault if its shadow entry still existed. Anonymous returns are the larger of the first and
/// the last. Together with refaults of files they are compared with major faults, and the larger
/// is used. So no return is missed that any counter saw, and none counts twice.
pub fn returned_pages(before: &Observation, now: &Observation) -> u64 {
    let major_faults = now.stat.pgmajfault.saturating_sub(before.stat.pgmajfault);
    returned_anon(before, now).saturating_add(returned_files(before, now)).max(major_faults)
}

/// The anonymous ones among them, as far as counters tell them apart.
pub fn returned_anon(before: &Observation, now: &Observation) -> u64 {
    let (b, n) = (&before.stat, &now.stat);
    (n.zswpin.saturating_sub(b.zswpin))
        .saturating_add(n.pswpin.saturating_sub(b.pswpin))
        .max(n.workingset_refault_anon.saturating_sub(b.workingset_refault_anon))
}

/// Those of the page cache.
pub fn returned_files(before: &Observation, now: &Observation) -> u64 {
    now.stat.workingset_refault_file.saturating_sub(before.stat.workingset_refault_file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_host::cgroup::MemoryStat;

    #[test]
    fn returns_are_counted_once() {
        let before = Observation::default();
        let stat = MemoryStat {
            zswpin: 100,
            workingset_refault_anon: 90,
            workingset_refault_file: 7,
            pgmajfault: 105,
            ..MemoryStat::default()
        };
        let now = Observation { stat, ..before };
        assert_eq!(returned_pages(&before, &now), 107);
        let stat = MemoryStat { pgmajfault: 300, ..stat };
        assert_eq!(returned_pages(&before, &Observation { stat, ..before }), 300);
        assert_eq!(returned_pages(&now, &before), 0, "backwards is no growth");
    }
}
