//! How much of each list is scanned (`get_scan_count`, `inactive_is_low`).

use crate::machine::lru::Kind;

/// The inputs of the decision.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Frames on each list, by [`Kind`].
    pub sizes: [u64; 4],
    /// How far sizes are shifted right.
    pub priority: u32,
    /// Whether anonymous pages may go anywhere.
    pub may_swap: bool,
    /// `vm.swappiness`.
    pub swappiness: u64,
    /// What reclaiming has cost: anonymous, file.
    pub cost: [u64; 2],
    /// Hardly any page cache is left.
    pub file_is_tiny: bool,
    /// Active file pages are being deactivated.
    pub deactivates_file: bool,
}

/// Frames to scan on each list, by [`Kind`].
pub fn scan_counts(facts: &Facts) -> [u64; 4] {
    let by_size = facts.sizes.map(|size| size >> facts.priority);
    let only = |file: bool| {
        let keep = |kind: Kind| if kind.is_file() == file { by_size[kind as usize] } else { 0 };
        Kind::ALL.map(keep)
    };
    let trims_cache = by_size[Kind::InactiveFile as usize] > 0 && !facts.deactivates_file;
    if !facts.may_swap {
        return only(true);
    }
    if facts.priority == 0 && facts.swappiness > 0 {
        return by_size;
    }
    if facts.file_is_tiny {
        return only(false);
    }
    if trims_cache {
        return only(true);
    }
    // Each kind bears at least a third of the pressure before swappiness.
    let total = facts.cost[0] + facts.cost[1];
    let costs = facts.cost.map(|cost| total + cost);
    let total = costs[0] + costs[1];
    let share_of = |weight: u64, cost: u64| weight * (total + 1) / (cost + 1);
    let anon = share_of(facts.swappiness, costs[0]);
    let file = share_of(200 - facts.swappiness, costs[1]);
    Kind::ALL.map(|kind| {
        let share = if kind.is_file() { file } else { anon };
        (u128::from(by_size[kind as usize]) * u128::from(share) / u128::from((anon + file).max(1)))
            as u64
    })
}

/// Whether there are too few inactive pages for the active ones: below 1 GiB as many, above one to
/// the square root of ten times the GiB (`inactive_is_low`).
pub fn inactive_is_low(inactive: u64, active: u64) -> bool {
    let gib = (inactive + active) >> 18;
    let ratio = if gib > 0 { (10 * gib).isqrt() } else { 1 };
    inactive * ratio < active
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            sizes: [4096, 8192, 16_384, 32_768],
            priority: 4,
            may_swap: true,
            swappiness: 60,
            cost: [0, 0],
            file_is_tiny: false,
            deactivates_file: true,
        }
    }

    #[test]
    fn swappiness_splits_the_pressure() {
        // Nothing has cost anything: 60 parts anonymous, 140 parts file.
        assert_eq!(
            scan_counts(&facts()),
            [256 * 60 / 200, 512 * 60 / 200, 1024 * 140 / 200, 2048 * 140 / 200]
        );
        // File pages all refaulted: cost 300, so anon:file weights are 60*901/301 to 140*901/601.
        let thrashing = Facts { cost: [0, 300], ..facts() };
        let [anon, _, file, _] = scan_counts(&thrashing);
        assert_eq!((anon, file), (256 * 179 / 388, 1024 * 209 / 388));
    }

    #[test]
    fn one_kind_alone_where_the_other_is_out_of_question() {
        assert_eq!(scan_counts(&Facts { may_swap: false, ..facts() }), [0, 0, 1024, 2048]);
        assert_eq!(scan_counts(&Facts { file_is_tiny: true, ..facts() }), [256, 512, 0, 0]);
        assert_eq!(scan_counts(&Facts { deactivates_file: false, ..facts() }), [0, 0, 1024, 2048]);
        let desperate = Facts { priority: 0, file_is_tiny: true, ..facts() };
        assert_eq!(scan_counts(&desperate), desperate.sizes);
    }

    #[test]
    fn the_inactive_share_shrinks_with_memory() {
        assert!(inactive_is_low(99, 100) && !inactive_is_low(100, 100));
        // 4 GiB on the lists: one to six.
        let frames = 4 << 18;
        assert!(!inactive_is_low(frames / 7 + 1, frames - frames / 7 - 1));
        assert!(inactive_is_low(frames / 7 - 1, frames - frames / 7 + 1));
    }
}
