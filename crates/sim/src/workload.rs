//! The workload of a fleet's server in TOML: shares of its memory, sizes, and lifetimes.

use prairie_frames::Order;
use serde::Deserialize;

use crate::machine::scenario::{ScenarioError, from_toml};
use prairie_model::random::{Size, Spread, Time};

/// A kind of server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The name in reports.
    pub name: String,
    /// Share of memory that the kernel takes at boot and never frees.
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
    /// Its name.
    pub name: String,
    /// Share of memory, at mean load.
    pub share: f64,
    /// Sizes of its blocks: order and weight.
    pub orders: Vec<(u8, u32)>,
    /// How long a block lives.
    pub lifetime: Spread<Time>,
    /// Whether a shrinker can free it, as dentries and inodes.
    #[serde(default)]
    pub reclaimable: bool,
    /// Whether its blocks are kernel stacks of four pages, each mapped above a guard page.
    #[serde(default)]
    pub stacks: bool,
    /// Whether it is never freed once allocated.
    #[serde(default)]
    pub permanent: bool,
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
        workload.checked()
    }

    fn checked(self) -> Result<Workload, ScenarioError> {
        match self.complaint() {
            Some(complaint) => Err(ScenarioError::Syntax(complaint)),
            None => Ok(self),
        }
    }

    /// Share of memory that is pinned, at mean load.
    pub fn pinned_share(&self) -> f64 {
        self.pinned.iter().map(|kind| kind.share).sum()
    }

    /// The workload with another share of pinned memory; its kinds keep their proportions.
    ///
    /// # Errors
    /// If it has no pinned memory to scale, or if the sum of its memory gets too large.
    pub fn with_pinned_share(mut self, share: f64) -> Result<Workload, ScenarioError> {
        let before = self.pinned_share();
        if before <= 0.0 {
            let what = format!("workload `{}` has no [[pinned]] memory to scale", self.name);
            return Err(ScenarioError::Syntax(what));
        }
        self.pinned.iter_mut().for_each(|kind| kind.share *= share / before);
        self.checked()
    }

    /// Kernel memory and what is pinned.
    fn unmovable(&self) -> impl Iterator<Item = &Kernel> {
        self.kernel.iter().chain(&self.pinned)
    }

    /// The first error, if any.
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

    /// By the report's definition, unmovable memory is all that is not movable: boot memory,
    /// reclaimable slab, and pins as well. Page tables come on top, 0.1 % of memory.
    #[test]
    fn shipped_workloads_have_the_papers_share_of_network_memory() {
        let (mut network, mut unmovable) = (0.0, 0.0);
        for (name, text) in SHIPPED {
            let workload = Workload::parse(text).unwrap();
            assert_eq!(workload.name, name);
            let own = workload.kernel.iter().find(|kind| kind.name == "network").unwrap();
            network += own.share;
            let tables = workload.jobs.share / 512.0;
            unmovable += workload.boot + tables;
            unmovable += workload.unmovable().map(|kind| kind.share).sum::<f64>();
            assert!(workload.pinned_share() > 0.0, "{name}");
        }
        let share = network / unmovable;
        assert!((share - 0.73).abs() < 0.01, "{share:.3} of unmovable memory is network");
    }

    #[test]
    fn pins_can_be_scaled() {
        let web = Workload::shipped("web").unwrap();
        let more = web.clone().with_pinned_share(0.01).unwrap();
        assert!((more.pinned_share() - 0.01).abs() < 1e-12);
        assert_eq!(more.clone().with_pinned_share(web.pinned_share()).unwrap(), web);
        assert_eq!(more.with_pinned_share(0.0).unwrap().pinned_share(), 0.0);
        let none = Workload { pinned: Vec::new(), ..web };
        assert!(none.with_pinned_share(0.1).is_err());
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
