//! What a server of a fleet runs: shares of its memory, sizes and lifetimes, as TOML has them.

use prairie_frames::Order;
use serde::Deserialize;

use crate::machine::scenario::{ScenarioError, from_toml};
use prairie_model::random::{Size, Spread, Time};

/// A kind of server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// What it is called in reports.
    pub name: String,
    /// Share of memory that the kernel takes at boot and never gives back.
    pub boot: f64,
    /// How far the load swings over a day about its mean, 0 to below 1.
    pub diurnal: f64,
    /// Share of memory that is read from files in an hour; all of it stays until it is reclaimed.
    pub reads_per_hour: f64,
    /// Share of reads that had been used again when reclaim came to them, and are kept once more.
    pub used_again: f64,
    /// Programs that come, take memory, and end.
    pub jobs: Jobs,
    /// Kernel memory.
    pub kernel: Vec<Kernel>,
    /// Memory of programs that is pinned as soon as they have it and until they give it back, such
    /// as buffers that a device reads and writes.
    #[serde(default)]
    pub pinned: Vec<Kernel>,
}

/// Programs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// Share of memory that they have together, at mean load.
    pub share: f64,
    /// Anonymous memory of one.
    pub size: Spread<Size>,
    /// How long one runs.
    pub lifetime: Spread<Time>,
    /// How long one takes to touch all of its memory.
    pub growth: Spread<Time>,
    /// Share of its memory that it asks for in huge pages; what none is left for comes as small
    /// ones.
    pub huge: f64,
}

/// Kernel memory of one kind.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// What it is.
    pub name: String,
    /// Share of memory, at mean load.
    pub share: f64,
    /// Sizes of its blocks: order and weight.
    pub orders: Vec<(u8, u32)>,
    /// How long a block lives.
    pub lifetime: Spread<Time>,
    /// Whether it can be given back when memory is short, as dentries and inodes can.
    #[serde(default)]
    pub reclaimable: bool,
}

/// The workloads that come with Prairie, after the four of the paper's Figure 5.
pub const SHIPPED: [(&str, &str); 4] = [
    ("ci", include_str!("workloads/ci.toml")),
    ("web", include_str!("workloads/web.toml")),
    ("cache-a", include_str!("workloads/cache-a.toml")),
    ("cache-b", include_str!("workloads/cache-b.toml")),
];

impl Workload {
    /// One of the [`SHIPPED`].
    pub fn shipped(name: &str) -> Option<Workload> {
        let (_, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
        Some(Workload::parse(text).expect("what is shipped is tested"))
    }

    /// Reads and checks a workload.
    ///
    /// # Errors
    /// One line that names the line, the key and what would be right.
    pub fn parse(text: &str) -> Result<Workload, ScenarioError> {
        let workload: Workload = from_toml(text)?;
        match workload.complaint() {
            Some(complaint) => Err(ScenarioError::Syntax(complaint)),
            None => Ok(workload),
        }
    }

    /// Kernel memory and what is pinned.
    fn unmovable(&self) -> impl Iterator<Item = &Kernel> {
        self.kernel.iter().chain(&self.pinned)
    }

    /// What is wrong with it, if anything is.
    fn complaint(&self) -> Option<String> {
        let shares = [
            ("boot", self.boot, 0.5),
            ("diurnal", self.diurnal, 0.99),
            ("used_again", self.used_again, 0.99),
            ("jobs.share", self.jobs.share, 1.0),
            ("jobs.huge", self.jobs.huge, 1.0),
        ];
        for (key, value, most) in shares {
            if !(0.0..=most).contains(&value) {
                return Some(format!("{key} is {value}; it must lie from 0 to {most}"));
            }
        }
        if !(0.0..=100.0).contains(&self.reads_per_hour) {
            let value = self.reads_per_hour;
            return Some(format!("reads_per_hour is {value}; it must lie from 0 to 100"));
        }
        for (key, mean) in
            [("jobs.size", self.jobs.size.mean()), ("jobs.lifetime", self.jobs.lifetime.mean())]
        {
            if mean <= 0.0 {
                return Some(format!("{key} must be more than 0"));
            }
        }
        self.unmovable().find_map(Kernel::complaint).or_else(|| {
            let peak = 1.0 + self.diurnal;
            let kernel: f64 = self.unmovable().map(|kind| kind.share).sum();
            let wanted = self.boot + (self.jobs.share + kernel) * peak;
            let per_cent = wanted * 100.0;
            (wanted > 0.98)
                .then(|| format!("at peak load {per_cent:.0} % of memory is wanted; 98 % is most"))
        })
    }
}

impl Kernel {
    fn complaint(&self) -> Option<String> {
        let name = &self.name;
        if !(0.0..=0.5).contains(&self.share) {
            return Some(format!("kernel `{name}`: share must lie from 0 to 0.5"));
        }
        if self.lifetime.mean() <= 0.0 {
            return Some(format!("kernel `{name}`: lifetime must be more than 0"));
        }
        let sound = |&(order, weight): &(u8, u32)| {
            weight > 0 && Order::new(order).is_some_and(|order| order <= Order::LARGEST_FREE)
        };
        let all_sound = !self.orders.is_empty() && self.orders.iter().all(sound);
        let largest = Order::LARGEST_FREE;
        (!all_sound).then(|| {
            format!("kernel `{name}`: orders are pairs of an order up to {largest} and a weight")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_is_sound_and_has_the_papers_sources() {
        for (name, text) in SHIPPED {
            let workload = Workload::parse(text).unwrap();
            assert_eq!(workload.name, name);
            let unmovable = |kind: &&Kernel| !kind.reclaimable;
            let all: f64 = workload.unmovable().filter(unmovable).map(|kind| kind.share).sum();
            let network = workload.kernel.iter().find(|kind| kind.name == "network").unwrap();
            let share = network.share / all;
            assert!((share - 0.73).abs() < 0.08, "{name}: {share:.2} of kernel memory is network");
            assert!(workload.pinned.iter().all(|kind| kind.share > 0.0), "{name}");
        }
    }

    #[test]
    fn nonsense_is_refused_in_one_line() {
        let web = SHIPPED[1].1;
        for (from, to, expected) in [
            ("boot = 0", "boot = 7", "boot is 7"),
            ("used_again", "usedagain", "did you mean `used_again`?"),
            ("orders = [[", "orders = [[15, 1], [", "orders are pairs"),
        ] {
            let text = web.replacen(from, to, 1);
            assert_ne!(text, web, "{from}");
            let error = Workload::parse(&text).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
