//! The allocators: one entry each. Replay, the simulators, `--help`, and the docs read this table.
//!
//! A new allocator touches this file and a new one, `registry/NAME.rs`: its policy there, `mod NAME;`
//! and its entry here. An option of its own also needs a `Switch` in `options.rs` and usually a field
//! of `Settings`. Policies that programs use without the registry are in `prairie-frames`.

use prairie_frames::KernelVersion;
use prairie_frames::compaction::Compactable;
use prairie_frames::placement::buddy::Buddy;
use prairie_frames::placement::classes::{self, Classes};
use prairie_frames::placement::freebsd::{self, FreeBsd};
use prairie_frames::placement::linux::{self, Linux, Pageset};
use prairie_frames::placement::lists::{Division, Lists};
use prairie_frames::placement::regions::{self, Hardware, Regions};
use prairie_frames::placement::superpageblocks::Superpageblocks;
use prairie_frames::placement::zones::Zones;

use super::options::{self, Switch};
use super::{AnyPlacement, MachinePlacement, Policies, Settings, Site, World, Worlds};
use crate::compacting::Compacting;
use crate::confining::{AroundLinux, Confining};

/// One allocator.
pub struct Entry {
    /// The name that commands and files use.
    pub name: &'static str,
    /// What it does, in less than a line.
    pub description: &'static str,
    /// Why one would choose it.
    pub purpose: &'static str,
    /// What no option of a replay simulates; empty if nothing is missing.
    pub not_modeled: &'static str,
    /// The options that it takes.
    pub options: &'static [&'static [Switch]],
    /// Whether it takes a kernel version (`NAME@VERSION`).
    pub versions: bool,
    /// Where it can run.
    pub worlds: Worlds,
    /// Whether a replay can [compact](Site::compacts) around it.
    pub compacts_in_replay: bool,
    /// Its settings before any option.
    pub settings: fn() -> Settings,
    /// Builds its placement.
    pub build: Build,
}

/// How a placement is built.
pub enum Build {
    /// A policy that places and frees, which is all that a replay asks of it.
    Placement(fn(&Settings, &Site) -> AnyPlacement),
    /// A policy that a machine with reclaim can drive, too.
    Machine(fn(&Settings, &Site) -> MachinePlacement),
}

impl Entry {
    /// The options, one after another.
    pub fn switches(&self) -> impl Iterator<Item = &'static Switch> {
        self.options.iter().copied().flatten()
    }
}

/// All allocators, baseline first.
pub static ALLOCATORS: [Entry; 10] = [
    Entry {
        name: "buddy",
        description: "one free list per order, without grouping by mobility (Linux 2.6.16)",
        purpose: "baseline without anti-fragmentation",
        not_modeled: "",
        options: &[&options::LINUX_2_6],
        versions: false,
        worlds: Worlds::ALL,
        compacts_in_replay: false,
        settings: Settings::linux_2_6,
        build: Build::Machine(|_, site| {
            MachinePlacement::other(Buddy::new(site.layout, site.largest))
        }),
    },
    Entry {
        name: "lists",
        description: "buddy with separate lists for easily reclaimed pages (2006 paper, section 5)",
        purpose: "anti-fragmentation without a size to set; under load, stealing between the lists \
                  lets kernel pages into all of memory",
        not_modeled: "",
        options: &[&options::LINUX_2_6, &options::LISTS],
        versions: false,
        worlds: Worlds::ALL,
        compacts_in_replay: false,
        settings: Settings::linux_2_6,
        build: Build::Machine(|s, site| {
            MachinePlacement::other(Lists::new(site.layout, site.largest, s.division))
        }),
    },
    Entry {
        name: "zones",
        description: "buddy with a separate zone for easily reclaimed pages (2006 paper, section 6)",
        purpose: "a hard limit for kernel pages, whose size must be known at boot; without \
                  `kernelcore` the zone is empty",
        not_modeled: "",
        options: &[&options::LINUX_2_6, &options::ZONES],
        versions: false,
        worlds: Worlds::ALL,
        compacts_in_replay: false,
        settings: || Settings { movable_zone: true, ..Settings::linux_2_6() },
        build: Build::Machine(zones),
    },
    Entry {
        name: "freebsd",
        description: "FreeBSD's vm_phys: FIFO free lists up to 16 MiB in two pools, reservations",
        purpose: "keeping pages of an object together from the start, instead of compacting later",
        not_modeled: "compaction, and reservations, because recordings do not name objects",
        options: &[&options::FREEBSD],
        versions: false,
        worlds: Worlds::ALL,
        compacts_in_replay: false,
        settings: Settings::freebsd,
        build: Build::Machine(|s, site| {
            MachinePlacement::FreeBsd(Box::new(FreeBsd::new(site.layout, s.freebsd)))
        }),
    },
    Entry {
        name: "linux",
        description: "pageblocks by migrate type with fallbacks and claiming, per-CPU lists",
        purpose: "stock kernels; `linux@VERSION` selects a release",
        not_modeled: "",
        options: &[&options::LINUX],
        versions: true,
        worlds: Worlds::ALL,
        compacts_in_replay: true,
        settings: || Settings::linux(KernelVersion::V6_1),
        build: Build::Machine(linux),
    },
    Entry {
        name: "linux-defrag",
        description: "linux with vm.defrag_mode=1 of 6.15: reclaim and compaction before fallback",
        purpose: "the effect of this sysctl on fragmentation; use `--reclaim` in a replay",
        not_modeled: "",
        options: &[&options::DEFRAG, &options::LINUX],
        versions: false,
        worlds: Worlds::ALL,
        compacts_in_replay: true,
        settings: linux_defrag,
        build: Build::Machine(linux),
    },
    Entry {
        name: "classes",
        description: "trees of 64 MiB, each for one class of requests, reserved by CPUs (after LLFree)",
        purpose: "grouping by mobility in an allocator built for many CPUs, without compaction",
        not_modeled: "the lock-free algorithms",
        options: &[&options::CLASSES],
        versions: false,
        worlds: Worlds::PLACEMENT,
        compacts_in_replay: false,
        settings: || Settings::linux(KernelVersion::V6_1),
        build: Build::Placement(|s, site| Box::new(Classes::new(site.layout, s.classes))),
    },
    Entry {
        name: "contiguitas",
        description: "an unmovable and a movable region that never mix, with a moving border",
        purpose: "1 GiB blocks that stay free of unmovable pages, at the cost of memory reserved \
                  for each region",
        not_modeled: "compaction of the movable region; pins, unless the recording has them",
        options: &[&options::CONTIGUITAS],
        versions: false,
        worlds: Worlds::ALL,
        compacts_in_replay: false,
        settings: || Settings::linux(KernelVersion::V6_1),
        build: Build::Machine(contiguitas),
    },
    Entry {
        name: "contiguitas-hw",
        description: "contiguitas with hardware that migrates unmovable pages, too",
        purpose: "a border that unmovable pages do not stop",
        not_modeled: "compaction of the movable region; pins, unless the recording has them; the \
                      hardware's timing",
        options: &[&options::CONTIGUITAS],
        versions: false,
        worlds: Worlds::PLACEMENT,
        compacts_in_replay: false,
        settings: contiguitas_hw,
        build: Build::Machine(contiguitas),
    },
    Entry {
        name: "superpageblocks",
        description: "unmovable pages in as few gigabytes as possible (proposed to Linux in 2026)",
        purpose: "clean gigabytes without a border or reserved memory, but also without a guarantee",
        not_modeled: "per-CPU lists",
        options: &[],
        versions: false,
        worlds: Worlds::ALL,
        compacts_in_replay: false,
        settings: Settings::without_compaction,
        build: Build::Machine(|_, site| {
            let placement = Superpageblocks::new(site.layout, Default::default());
            MachinePlacement::Superpageblocks(Box::new(placement))
        }),
    },
];

impl Settings {
    /// Linux 2.6.16.
    fn linux_2_6() -> Settings {
        Settings { policies: Policies::LINUX_2_6, ..Settings::linux(KernelVersion::V6_1) }
    }

    /// Linux of one release.
    pub(super) fn linux(version: KernelVersion) -> Settings {
        Settings {
            policies: Policies::LINUX_6_1,
            linux: linux::Config::of(version),
            regions: regions::Config::default(),
            freebsd: freebsd::Config::default(),
            division: Division::TwoWay,
            movable_zone: false,
            kernelcore: None,
            classes: classes::Config::default(),
            memory_blocks: None,
        }
    }

    /// Reclaim of Linux 6.1 without its compaction.
    fn without_compaction() -> Settings {
        Settings { policies: Policies::WITHOUT_COMPACTION, ..Settings::linux(KernelVersion::V6_1) }
    }

    /// Refault distances and khugepaged are Linux's own, and so are huge pages at the first fault:
    /// FreeBSD's come from reservations whose pages are all in use.
    fn freebsd() -> Settings {
        let policies = Policies {
            workingset: false,
            huge_pages: false,
            khugepaged: false,
            stacks_in_object: true,
            keeps_process_slabs: true,
            batched_reads: true,
            ..Policies::WITHOUT_COMPACTION
        };
        Settings { policies, ..Settings::linux(KernelVersion::V6_1) }
    }
}

impl Default for Settings {
    /// Those of Linux 6.1.
    fn default() -> Settings {
        Settings::linux(KernelVersion::V6_1)
    }
}

fn linux_defrag() -> Settings {
    let mut settings = Settings::linux(linux::version::DEFRAG_MODE.since);
    settings.policies.defrag_mode = true;
    // The rules of 6.1 but for what defrag mode is about, so that the two can be compared.
    settings.linux = linux::Config::linux_6_15();
    settings
}

fn contiguitas_hw() -> Settings {
    let mut settings = Settings::linux(KernelVersion::V6_1);
    settings.regions.hardware = Some(Hardware::default());
    settings
}

/// Recordings have none of its movable region compacted: whether a block is free for a request
/// (`suitable`) is asked of the zone, and there one of the other region counts as well.
fn contiguitas(settings: &Settings, site: &Site) -> MachinePlacement {
    let site = Site { compacts: site.compacts && site.world != World::Replay, ..*site };
    let regions = Regions::new(site.layout, settings.regions.clone());
    match compacts(settings, &site) {
        true => compacted(settings, &site, regions),
        false => MachinePlacement::Regions(Box::new(regions)),
    }
}

/// The layout of a simulated machine has the zone for easily reclaimed pages already.
fn zones(settings: &Settings, site: &Site) -> MachinePlacement {
    match site.world {
        World::Machine => MachinePlacement::other(Buddy::new(site.layout, site.largest)),
        _ => {
            let kernelcore = settings.kernelcore.or(site.kernelcore);
            MachinePlacement::other(Zones::new(site.layout, site.largest, kernelcore))
        }
    }
}

/// Whether Linux's compaction runs around a placement.
fn compacts(settings: &Settings, site: &Site) -> bool {
    site.compacts && settings.policies.compaction
}

/// A placement with Linux's compaction around it, which a simulated machine does itself.
fn compacted(
    settings: &Settings,
    site: &Site,
    placement: impl Compactable + Send + 'static,
) -> MachinePlacement {
    let compacting = Compacting::new(site.layout, placement, settings.policies.defrag_mode);
    MachinePlacement::other(match site.world {
        World::Replay => compacting.without_reclaim(),
        _ => compacting,
    })
}

/// Linux with per-CPU lists of the size that the machine gives them. A simulated machine ends
/// watermark boosts itself, when its kswapd has reclaimed enough, and so does a server that compacts.
fn linux(settings: &Settings, site: &Site) -> MachinePlacement {
    let watermark_boost_factor = match settings.linux.watermark_boost_factor {
        0 => 0,
        default => site.watermark_boost_factor.unwrap_or(default),
    };
    let config = linux::Config {
        cpus_per_node: site.cpus_per_node,
        watermark_boost_factor,
        keep_boost: site.world == World::Machine || compacts(settings, site),
        ..settings.linux
    };
    // The layout of a simulated machine has the zones that blocks move between already.
    let blocks = settings.memory_blocks.filter(|_| site.world != World::Machine);
    let layout = blocks.map_or_else(|| site.layout.clone(), |_| site.layout.with_hotplug());
    let mut linux = Linux::new(&layout, config);
    for (zone, pageset) in site.pagesets.iter().enumerate() {
        let Some(pageset) = *pageset else { continue };
        // The high mark of lists that adapt is that of one moment.
        let adaptive = Pageset { batch: pageset.batch, ..linux.pageset(zone) };
        linux.set_pageset(zone, if config.adaptive_lists { adaptive } else { pageset });
    }
    match blocks {
        Some(frames) if linux.has_hotplug() => {
            confined(settings, &Site { layout: &layout, ..*site }, linux, frames)
        }
        _ if compacts(settings, site) => compacted(settings, site, linux),
        _ => MachinePlacement::Linux(Box::new(linux)),
    }
}

/// Linux with the regions daemon, which surrounds its compaction as well.
fn confined(settings: &Settings, site: &Site, linux: Linux, frames: u64) -> MachinePlacement {
    fn daemon<P>(site: &Site, placement: P, frames: u64) -> MachinePlacement
    where
        P: AroundLinux + Send + 'static,
    {
        let punctual = site.world == World::Replay;
        MachinePlacement::other(Confining::new(site.layout, placement, frames, punctual))
    }
    if !compacts(settings, site) {
        return daemon(site, linux, frames);
    }
    let compacting = Compacting::new(site.layout, linux, settings.policies.defrag_mode);
    match site.world {
        World::Replay => daemon(site, compacting.without_reclaim(), frames),
        _ => daemon(site, compacting, frames),
    }
}
