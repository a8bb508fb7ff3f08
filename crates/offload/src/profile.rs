//! Profiles: how eagerly a container is offloaded, and what it is spared.

use std::time::Duration;

use serde::Serialize;

use crate::senpai::Senpai;

/// All parameters of a container's controller.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// The formula.
    #[serde(flatten)]
    pub senpai: Senpai,
    /// Time between two decisions. The paper's six seconds leave time for reclaimed pages to
    /// refault and be counted.
    pub period: Duration,
    /// How long memory must have been idle before it may be taken, where the host can determine.
    pub min_age: Duration,
    /// Time after a container appears in which nothing is taken: programs read at start what
    /// they will not read again, and everything looks used.
    pub warm_up: Duration,
    /// The container is never made smaller than this, in bytes.
    pub min_size_bytes: u64,
    /// Share of swap that is left free. A full swap turns the next reclaim into thrashing of
    /// the page cache, or an OOM kill.
    pub swap_reserve: f64,
    /// Share of the reclaimed pages that may refault. Beyond, and if refaults cost much, reclaim
    /// stops for a while, and then takes only memory that has been idle for longer.
    pub return_limit: f64,
    /// Share of the reclaimed pages beyond which the same follows even if refaults cost little.
    pub return_maximum: f64,
    /// Time without reclaim after a burst of pressure or too many refaults.
    pub hold: Duration,
    /// Share of time in which *all* tasks may be stalled on memory before nothing is taken:
    /// systemd-oomd kills at 60 %, and ranks its victims by how much was scanned.
    pub full_limit: f64,
    /// Pages that may be scanned for each page taken. Beyond, reclaim costs more than it gains
    /// and makes the container a likely victim of systemd-oomd.
    pub scan_limit: f64,
    /// Share of itself by which a container may grow or shrink on its own in a period and
    /// still be offloaded. A container in motion has no steady working set.
    pub motion_limit: f64,
}

/// The paper's constants; see each field for the rest.
impl Default for Profile {
    fn default() -> Profile {
        Profile {
            senpai: Senpai::default(),
            period: Duration::from_secs(6),
            min_age: Duration::from_secs(120),
            warm_up: Duration::from_secs(30),
            min_size_bytes: 32 << 20,
            swap_reserve: 0.1,
            return_limit: 0.01,
            return_maximum: 0.1,
            hold: Duration::from_secs(60),
            full_limit: 0.01,
            scan_limit: 32.0,
            motion_limit: 0.05,
        }
    }
}

impl Profile {
    /// Batch jobs, which mind delay less than they like memory: the largest step that the paper
    /// allows, five times its pressure, and memory that is used every minute is left alone, but
    /// not all that is used every other. Refaults matter only by their cost.
    pub fn aggressive() -> Profile {
        let senpai = Senpai { reclaim_ratio: 0.01, threshold: 0.005, ..Senpai::default() };
        Profile {
            senpai,
            min_age: Duration::from_secs(90),
            return_maximum: 1.0,
            ..Profile::default()
        }
    }

    /// Sidecars, the paper's memory tax (§2.3): small containers whose objective is relaxed.
    pub fn sidecar() -> Profile {
        let senpai = Senpai { reclaim_ratio: 0.005, threshold: 0.01, ..Senpai::default() };
        Profile { senpai, min_size_bytes: 4 << 20, ..Profile::default() }
    }

    /// The profile of that name: `default`, `aggressive` or `sidecar`.
    pub fn named(name: &str) -> Option<Profile> {
        match name {
            "default" => Some(Profile::default()),
            "aggressive" => Some(Profile::aggressive()),
            "sidecar" => Some(Profile::sidecar()),
            _ => None,
        }
    }

    /// The names that [`Profile::named`] knows.
    pub const NAMES: [&str; 3] = ["default", "aggressive", "sidecar"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_a_profile_within_the_papers_step() {
        for name in Profile::NAMES {
            let profile = Profile::named(name).unwrap();
            assert!(profile.senpai.reclaim_ratio <= profile.senpai.max_step, "{name}");
            assert!(profile.senpai.max_step <= 0.01, "{name}");
        }
        assert_eq!(Profile::named("eager"), None);
    }
}
