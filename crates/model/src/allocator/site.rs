//! Where an allocator is put to work.

use prairie_frames::placement::linux::Pageset;
use prairie_frames::placement::zones::Kernelcore;
use prairie_frames::{Layout, Order};

/// The kind of world that drives an allocator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum World {
    /// Recorded events (`prairie replay`), without reclaim; with compaction where it is asked for.
    Replay,
    /// Simulated servers (`prairie fleet`), with a coarse reclaim.
    Fleet,
    /// The simulated machine (`prairie lab`), with reclaim and compaction.
    Machine,
}

/// In which worlds something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worlds {
    /// [`World::Replay`].
    pub replay: bool,
    /// [`World::Fleet`].
    pub fleet: bool,
    /// [`World::Machine`].
    pub machine: bool,
}

impl Worlds {
    /// Everywhere.
    pub const ALL: Worlds = Worlds { replay: true, fleet: true, machine: true };
    /// Only placement is needed.
    pub const PLACEMENT: Worlds = Worlds { replay: true, fleet: true, machine: false };
    /// Only in worlds with reclaim.
    pub const RECLAIMING: Worlds = Worlds { replay: false, fleet: true, machine: true };
    /// Only in the simulated machine.
    pub const MACHINE: Worlds = Worlds { replay: false, fleet: false, machine: true };

    /// Whether `world` is one of them.
    pub const fn has(self, world: World) -> bool {
        match world {
            World::Replay => self.replay,
            World::Fleet => self.fleet,
            World::Machine => self.machine,
        }
    }
}

/// The machine that an allocator is built for.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// Its zones.
    pub layout: &'a Layout,
    /// The world that drives the allocator.
    pub world: World,
    /// The largest order on free lists.
    pub largest: Order,
    /// CPUs of each node, which share what per-CPU lists may hold.
    pub cpus_per_node: u16,
    /// Limits of Linux's per-CPU lists by zone, where they are known.
    pub pagesets: &'a [Option<Pageset>],
    /// `vm.watermark_boost_factor` in ten-thousandths; `None` for Linux's default.
    pub watermark_boost_factor: Option<u64>,
    /// Whether Linux's compaction runs around the placements that it can work on. The simulated
    /// machine has its own.
    pub compacts: bool,
    /// Memory that `zones` keeps for the kernel, where the allocator's options do not say.
    pub kernelcore: Option<Kernelcore>,
}

impl<'a> Site<'a> {
    /// A machine of one CPU with Linux's defaults.
    pub fn new(layout: &'a Layout, world: World) -> Site<'a> {
        Site {
            layout,
            world,
            largest: Order::LARGEST_FREE,
            cpus_per_node: 1,
            pagesets: &[],
            watermark_boost_factor: None,
            compacts: matches!(world, World::Fleet),
            kernelcore: None,
        }
    }
}
