//! The systems that a machine can run, and the switches that take one mechanism away.

use std::fmt;
use std::str::FromStr;

use prairie_frames::placement::buddy::Buddy;
use prairie_frames::placement::freebsd::{self, FreeBsd};
use prairie_frames::placement::linux::{self, Linux};
use prairie_frames::placement::lists::{Division, Lists};
use prairie_frames::placement::regions::Regions;
use prairie_frames::placement::superpageblocks::Superpageblocks;
use prairie_frames::{Layout, Order};

use super::placing::Placed;
use super::scenario::{Invalid, Vm};
use prairie_model::random::{Quantity, Size};

/// Who gets which frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placing {
    /// One free list per order (Linux 2.6.16).
    Buddy,
    /// Two lists per order by reclaimability (2006 paper, section 5).
    Lists(Division),
    /// One free list per order, and a zone for easily reclaimed pages (2006 paper, section 6).
    Zones,
    /// Pageblocks by migrate type (Linux 6.1).
    Linux,
    /// FreeBSD's physical memory allocator.
    FreeBsd {
        /// Whether superpages are set aside for processes and mapped files.
        reservations: bool,
    },
    /// Two regions with a moving border (Contiguitas).
    Contiguitas,
    /// Gigabytes kept clean of unmovable memory (proposed to Linux in 2026).
    Superpageblocks,
}

/// How a system reclaims and makes contiguity. Each field is one mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policies {
    /// LRU lists of the whole node (Linux 4.8 and later) or of each zone.
    pub node_lru: bool,
    /// Reclaim is that of 2.6.16: anonymous memory and page cache share their lists, and kswapd goes
    /// on until each zone has a free block of the order that it was woken for, instead of leaving
    /// the rest to compaction.
    pub reclaims_as_2_6: bool,
    /// Per-CPU lists are given back before a request fails (since 2.6.24).
    pub drains: bool,
    /// Regions instead of LRU order for requests of order 3 and above (2006 paper, section 10).
    pub linear_reclaim: bool,
    /// Direct compaction.
    pub compaction: bool,
    /// Compaction is put off after it failed (`defer_compaction`).
    pub deferral: bool,
    /// Compaction by a daemon.
    pub kcompactd: bool,
    /// The daemon works ahead of requests (`vm.compaction_proactiveness`).
    pub proactive: bool,
    /// Refault distances decide who is activated (`workingset_refault`).
    pub workingset: bool,
    /// Fallbacks boost the watermarks.
    pub boost: bool,
    /// Transparent huge pages.
    pub huge_pages: bool,
    /// Small pages are collapsed into huge ones.
    pub khugepaged: bool,
    /// Requests never break up foreign pageblocks as long as reclaim or compaction may help, and
    /// the daemons work until there are whole pageblocks enough
    /// (`vm.defrag_mode`, 6.15).
    pub defrag_mode: bool,
}

impl Policies {
    /// Linux 2.6.16.
    pub const LINUX_2_6: Policies = Policies {
        node_lru: false,
        reclaims_as_2_6: true,
        drains: false,
        linear_reclaim: false,
        compaction: false,
        deferral: false,
        kcompactd: false,
        proactive: false,
        workingset: false,
        boost: false,
        huge_pages: false,
        khugepaged: false,
        defrag_mode: false,
    };

    /// Linux 6.1.
    pub const LINUX_6_1: Policies = Policies {
        node_lru: true,
        reclaims_as_2_6: false,
        drains: true,
        linear_reclaim: false,
        compaction: true,
        deferral: true,
        kcompactd: true,
        proactive: true,
        workingset: true,
        boost: true,
        huge_pages: true,
        khugepaged: true,
        defrag_mode: false,
    };

    /// Reclaim of 6.1 without Linux's compaction and what leans on it.
    const WITHOUT_COMPACTION: Policies = Policies {
        compaction: false,
        kcompactd: false,
        proactive: false,
        boost: false,
        ..Policies::LINUX_6_1
    };
}

/// A named set of policies.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// The name, with the options that it was given.
    pub name: String,
    /// Who gets which frame.
    pub placing: Placing,
    /// Bytes that stay outside the movable zone; `zones` alone has it.
    pub kernelcore: Option<u64>,
    /// Reclaim and contiguity.
    pub policies: Policies,
    /// Switches of the page allocator of Linux.
    pub linux: linux::Config,
}

/// A text that names no system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownSystem {
    /// There is no such system.
    #[error("there is no system `{0}`; the systems are {list}", list = System::NAMES.join(", "))]
    Name(String),
    /// It has no such option.
    #[error("`{system}` has no option `{option}`; it has {known}")]
    Option {
        /// The system.
        system: String,
        /// The option.
        option: String,
        /// Those that it has.
        known: String,
    },
}

/// An option that takes one mechanism away.
type Switch = (&'static str, fn(&mut System));

/// Of `linux`.
const LINUX_SWITCHES: [Switch; 13] = [
    ("no-boost", |s| {
        s.policies.boost = false;
        s.linux.watermark_boost_factor = 0;
    }),
    ("no-pcp", |s| s.linux.per_cpu_lists = false),
    ("no-grouping", |s| s.linux.grouping = false),
    ("no-claiming", |s| s.linux.claiming = false),
    ("no-nofragment", |s| s.linux.nofragment = false),
    ("no-highatomic", |s| s.linux.highatomic = false),
    ("no-compaction", |s| {
        s.policies.compaction = false;
        s.policies.kcompactd = false;
        s.policies.proactive = false;
    }),
    ("no-deferral", |s| s.policies.deferral = false),
    ("no-kcompactd", |s| {
        s.policies.kcompactd = false;
        s.policies.proactive = false;
    }),
    ("no-proactive", |s| s.policies.proactive = false),
    ("no-workingset", |s| s.policies.workingset = false),
    ("no-thp", |s| {
        s.policies.huge_pages = false;
        s.policies.khugepaged = false;
        s.linux.huge_pages = false;
    }),
    ("no-khugepaged", |s| s.policies.khugepaged = false),
];

impl System {
    /// The names of all systems, without options.
    pub const NAMES: [&str; 8] = [
        "buddy",
        "lists",
        "zones",
        "linux",
        "linux-defrag",
        "freebsd",
        "contiguitas",
        "superpageblocks",
    ];

    /// A system without options.
    fn plain(name: &str) -> Option<System> {
        let (placing, policies) = match name {
            "buddy" => (Placing::Buddy, Policies::LINUX_2_6),
            "lists" => (Placing::Lists(Division::TwoWay), Policies::LINUX_2_6),
            "zones" => (Placing::Zones, Policies::LINUX_2_6),
            "linux" => (Placing::Linux, Policies::LINUX_6_1),
            "linux-defrag" => {
                (Placing::Linux, Policies { defrag_mode: true, ..Policies::LINUX_6_1 })
            }
            // Refault distances and khugepaged are Linux's own, and so are huge pages at the first
            // fault: FreeBSD's come from reservations whose pages are all in use.
            "freebsd" => (
                Placing::FreeBsd { reservations: true },
                Policies {
                    workingset: false,
                    huge_pages: false,
                    khugepaged: false,
                    ..Policies::WITHOUT_COMPACTION
                },
            ),
            "contiguitas" => (Placing::Contiguitas, Policies::LINUX_6_1),
            "superpageblocks" => (Placing::Superpageblocks, Policies::WITHOUT_COMPACTION),
            _ => return None,
        };
        let linux = match policies.defrag_mode {
            true => linux::Config::linux_6_15(),
            false => linux::Config::default(),
        };
        let linux = linux::Config { keep_boost: true, ..linux };
        Some(System { name: name.to_owned(), placing, kernelcore: None, policies, linux })
    }

    /// Applies one option.
    fn apply(&mut self, option: &str) -> Result<(), UnknownSystem> {
        let reclaims_by_lru = !self.policies.compaction && self.policies.reclaims_as_2_6;
        if option == "linear" && reclaims_by_lru {
            self.policies.linear_reclaim = true;
            return Ok(());
        }
        if option == "drain" && reclaims_by_lru {
            self.policies.drains = true;
            return Ok(());
        }
        if option == "three-way" && matches!(self.placing, Placing::Lists(_)) {
            self.placing = Placing::Lists(Division::ThreeWay);
            return Ok(());
        }
        if let Some(size) = option.strip_prefix("kernelcore=")
            && self.placing == Placing::Zones
            && let Ok(bytes) = Size::parse(size)
        {
            self.kernelcore = Some(bytes as u64);
            return Ok(());
        }
        if let Placing::FreeBsd { reservations } = &mut self.placing
            && option == "no-reservations"
        {
            *reservations = false;
            return Ok(());
        }
        if option == "no-defrag-mode" && self.policies.defrag_mode {
            (self.policies.defrag_mode, self.linux.defrag_mode) = (false, false);
            return Ok(());
        }
        if self.placing == Placing::Linux
            && let Some((_, switch)) = LINUX_SWITCHES.iter().find(|(name, _)| *name == option)
        {
            switch(self);
            return Ok(());
        }
        let known: Vec<&str> = match self.placing {
            Placing::Buddy => vec!["linear", "drain"],
            Placing::Lists(_) => vec!["linear", "drain", "three-way"],
            Placing::Zones => vec!["linear", "drain", "kernelcore=SIZE"],
            Placing::Linux => {
                let own = self.policies.defrag_mode.then_some("no-defrag-mode");
                own.into_iter().chain(LINUX_SWITCHES.iter().map(|(name, _)| *name)).collect()
            }
            Placing::FreeBsd { .. } => vec!["no-reservations"],
            Placing::Contiguitas | Placing::Superpageblocks => vec!["none"],
        };
        Err(UnknownSystem::Option {
            system: self.name.split('+').next().unwrap_or_default().to_owned(),
            option: option.to_owned(),
            known: known.join(", "),
        })
    }

    /// Whether its options fit a machine of so many bytes.
    ///
    /// # Errors
    /// If the movable zone would begin beyond memory.
    pub fn check(&self, memory: u64) -> Result<(), Invalid> {
        match self.kernelcore {
            Some(core) if !(8 << 20..=memory).contains(&core) => Err(Invalid {
                key: format!("the option kernelcore of `{}`", self.name),
                value: format!("{core} bytes"),
                right: format!("it must lie between 8M and the machine's memory, {memory} bytes"),
            }),
            _ => Ok(()),
        }
    }

    /// Its placement for a machine of `layout`.
    pub fn placement(&self, layout: &Layout, cpus: u16, largest: Order, vm: &Vm) -> Placed {
        match self.placing {
            // A zone for easily reclaimed pages is a matter of the layout alone.
            Placing::Buddy | Placing::Zones => Placed::Buddy(Buddy::new(layout, largest)),
            Placing::Lists(division) => Placed::Lists(Lists::new(layout, largest, division)),
            Placing::Linux => {
                let boost = self.linux.watermark_boost_factor.min(vm.watermark_boost_factor);
                let config = linux::Config {
                    cpus_per_node: cpus,
                    // `no-boost` has made it 0.
                    watermark_boost_factor: if boost == 0 { 0 } else { vm.watermark_boost_factor },
                    ..self.linux
                };
                Placed::Linux(Box::new(Linux::new(layout, config)))
            }
            Placing::Contiguitas => {
                Placed::Regions(Box::new(Regions::new(layout, Default::default())))
            }
            Placing::FreeBsd { reservations } => {
                let config = freebsd::Config { reservations, ..Default::default() };
                Placed::FreeBsd(Box::new(FreeBsd::new(layout, config)))
            }
            Placing::Superpageblocks => {
                Placed::Superpageblocks(Box::new(Superpageblocks::new(layout, Default::default())))
            }
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
}

impl FromStr for System {
    type Err = UnknownSystem;

    /// `NAME`, or `NAME+OPTION+OPTION`.
    fn from_str(text: &str) -> Result<System, UnknownSystem> {
        let mut parts = text.split('+');
        let name = parts.next().unwrap_or_default();
        let mut system = System::plain(name).ok_or_else(|| UnknownSystem::Name(name.to_owned()))?;
        for option in parts {
            system.apply(option)?;
            system.name = format!("{}+{option}", system.name);
        }
        Ok(system)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_options() {
        let zones: System = "zones+kernelcore=1024M+linear".parse().unwrap();
        assert_eq!((zones.placing, zones.kernelcore), (Placing::Zones, Some(1 << 30)));
        assert!(zones.policies.linear_reclaim);
        assert_eq!(zones.name, "zones+kernelcore=1024M+linear");
        let linux: System = "linux+no-boost+no-kcompactd".parse().unwrap();
        assert!(!linux.policies.boost && !linux.policies.kcompactd && linux.policies.compaction);
        assert_eq!(linux.linux.watermark_boost_factor, 0);
        for name in System::NAMES {
            assert_eq!(name.parse::<System>().unwrap().name, name);
        }
    }

    #[test]
    fn every_switch_changes_something() {
        let plain: System = "linux".parse().unwrap();
        for (name, _) in LINUX_SWITCHES {
            let without: System = format!("linux+{name}").parse().unwrap();
            assert!(
                (without.policies, without.linux) != (plain.policies, plain.linux),
                "{name} changes nothing"
            );
        }
    }

    #[test]
    fn what_is_no_system_is_refused() {
        let error = "lunix".parse::<System>().unwrap_err().to_string();
        assert!(error.contains("`lunix`") && error.contains("contiguitas"), "{error}");
        let error = "buddy+kernelcore=1G".parse::<System>().unwrap_err().to_string();
        assert_eq!(error, "`buddy` has no option `kernelcore=1G`; it has linear, drain");
        assert!("linux+linear".parse::<System>().is_err());
        let system: System = "zones+kernelcore=2G".parse().unwrap();
        assert!(system.check(4 << 30).is_ok());
        let error = system.check(1 << 30).unwrap_err().to_string();
        assert!(error.contains("kernelcore") && error.contains("1073741824"), "{error}");
    }
}
