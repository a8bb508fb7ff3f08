//! A study: which servers there are, and one shard's part of them.

use prairie_frames::Layout;
use prairie_frames::layout::LayoutError;

use crate::identity::{self, Identity};
use crate::row::Row;
use crate::server::{DAY, Server};
use prairie_model::allocator::{Allocator, Site, World};
use prairie_model::random::Random;
use prairie_model::zones::{Architecture, Marks, Shape, layout};
use prairie_sim::workload::Workload;

/// CPUs of every server, which share what Linux's per-CPU lists may hold.
const CPUS: u16 = 16;

/// Servers to simulate.
#[derive(Clone, Debug)]
pub struct Study {
    /// Server `i` runs workload `i` modulo their number.
    pub workloads: Vec<Workload>,
    /// The systems that each server is simulated under, with the same demand.
    pub systems: Vec<Allocator>,
    /// Frames of the servers: the first of all workloads have the first, the next the next.
    pub memory: Vec<u64>,
    /// Longest time since boot in days. A server's own is drawn evenly from a fiftieth of it up.
    pub days: f64,
    /// Random seed.
    pub seed: u64,
}

/// One part of a study's servers: those whose number is `index` modulo `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which part, from 0.
    pub index: u64,
    /// How many parts there are.
    pub of: u64,
}

impl Shard {
    /// The whole.
    pub const ALL: Shard = Shard { index: 0, of: 1 };

    /// Its servers' numbers, of `servers` in all.
    pub fn servers(self, servers: u64) -> impl Iterator<Item = u64> {
        (self.index..servers).step_by(self.of.max(1) as usize)
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let wrong = || format!("`{text}` is no shard such as 0/4: the part, from 0, and how many");
        let (index, of) = text.split_once('/').ok_or_else(wrong)?;
        let shard = Shard {
            index: index.parse().map_err(|_| wrong())?,
            of: of.parse().map_err(|_| wrong())?,
        };
        if shard.index < shard.of { Ok(shard) } else { Err(wrong()) }
    }
}

impl Study {
    /// What distinguishes this study of `servers` servers from any other.
    pub fn identity(&self, servers: u64) -> Identity {
        // A workload's file may change while its name stays.
        let workload = |workload: &Workload| {
            format!("{} {}", workload.name, identity::hash(&format!("{workload:?}")))
        };
        let systems: Vec<&str> = self.systems.iter().map(Allocator::name).collect();
        Identity::new([
            ("prairie_version", env!("CARGO_PKG_VERSION").into()),
            ("workloads", self.workloads.iter().map(workload).collect::<Vec<_>>().into()),
            ("systems", systems.into()),
            ("servers", servers.into()),
            ("memory_frames", self.memory.clone().into()),
            ("days", self.days.into()),
            ("pinned_shares", self.workloads.iter().map(Workload::pinned_share).collect()),
            ("seed", self.seed.into()),
        ])
    }

    /// Simulates one server under each system. The row depends on the study, the number, and the
    /// system alone, not on which other servers are simulated.
    ///
    /// # Errors
    /// If the machine has too little or too much memory for a layout.
    pub fn server(&self, number: u64) -> Result<Vec<Row>, LayoutError> {
        self.simulate(number, None)
    }

    /// As [`server`](Study::server), for a server that is sampled N seconds after boot instead of
    /// after the time that is drawn for it.
    ///
    /// # Errors
    /// If the machine has too little or too much memory for a layout.
    pub fn server_after(&self, number: u64, seconds: f64) -> Result<Vec<Row>, LayoutError> {
        self.simulate(number, Some(seconds))
    }

    fn simulate(&self, number: u64, uptime: Option<f64>) -> Result<Vec<Row>, LayoutError> {
        let layout = self.layout(number)?;
        let under = |system| self.under(system, number, &layout, uptime);
        Ok(self.systems.iter().map(under).collect())
    }

    /// The zones of a server.
    ///
    /// # Errors
    /// If there is too little or too much memory for a layout.
    pub fn layout(&self, number: u64) -> Result<Layout, LayoutError> {
        let round = number / self.workloads.len().max(1) as u64;
        let frames = self.memory[(round % self.memory.len() as u64) as usize];
        let marks = Marks::Linux6 { scale_factor: 10, huge_pages: true };
        let shape = Shape {
            frames,
            nodes: 1,
            architecture: Architecture::X86_64,
            kernelcore: None,
            marks,
            low: None,
            min_free: None,
        };
        layout(&shape)
    }

    fn under(&self, system: &Allocator, number: u64, layout: &Layout, uptime: Option<f64>) -> Row {
        let site = Site { cpus_per_node: CPUS, ..Site::new(layout, World::Fleet) };
        let (workload, mut random) = (self.workload(number), self.chance(number));
        let drawn = (0.02 + 0.98 * random.share()) * self.days * DAY;
        let uptime = uptime.unwrap_or(drawn);
        let mut server = Server::boot(workload, layout, system.build(&site), random);
        server.live_until(uptime);
        if cfg!(debug_assertions) {
            server.validate();
        }
        Row::of(number, &workload.name, system.name(), uptime, &server)
    }

    /// A server's workload.
    pub(super) fn workload(&self, number: u64) -> &Workload {
        &self.workloads[(number % self.workloads.len() as u64) as usize]
    }

    /// A server's own chance. Neighboring seeds must not give neighboring streams.
    pub(super) fn chance(&self, number: u64) -> Random {
        Random::new(self.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}
