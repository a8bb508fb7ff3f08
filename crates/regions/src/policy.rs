//! What to do next: a pure decision. The size of each node's kernel region follows the shared
//! resizer; this adds what a host needs beyond it: setting up, what fits, back-off, and bounds.
//!
//! ```text
//! reserve = rate × (poll + time to convert a block) + high watermark + ready blocks
//! grow    when the kernel region has less available than the reserve, or kernel requests stall
//! shrink  when it has excess blocks more than the reserve for a while, and PSI is low
//! yield   when user memory is short and the kernel region has a block to spare
//! ```

mod blame;
mod evacuation;
mod grow;
mod node;
pub mod room;
mod shrink;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use prairie_frames::placement::regions::resizer::Resize;

use crate::choice::{self, Block, Place};
use crate::config::{Config, KernelConfig, LimitsConfig};
use crate::limits::{Backoff, Budget};
use crate::rest;
use crate::sample::{NodeSample, Sample};
use blame::Blame;
use node::{Node, Terms};

pub use node::NodeReport;
pub use words::{Guard, Reason};

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing for now.
    Wait,
    /// Read what fills these blocks, then ask again.
    Scan(Vec<u64>),
    /// Let the kernel free empty slabs, then ask again.
    Drain,
    /// Bring an offline block back: it is lost memory.
    Online(u64),
    /// Move a block to the other region.
    Convert {
        /// Which.
        block: u64,
        /// [`Place::Kernel`] or [`Place::Movable`].
        to: Place,
        /// Why.
        reason: Reason,
    },
}

/// How a conversion ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finished {
    /// The block.
    pub block: u64,
    /// Where it was to go.
    pub to: Place,
    /// Whether it is there.
    pub done: bool,
    /// How long it took.
    pub took: Duration,
}

/// A block's occupancy is believed for this long when the block is chosen (*chosen*).
const FRESH: Duration = Duration::from_secs(2);

/// Candidates that are read before one is chosen: eight of 128 MiB take 16 ms (*chosen*).
const SCANNED_AT_ONCE: usize = 8;

/// Time until an offline block is brought online again after a failure: it is lost memory
/// (*chosen*).
const ONLINE_AGAIN: Duration = Duration::from_secs(60);

/// Time until a block is tried again after the daemon itself interrupted its conversion (*chosen*).
const INTERRUPTED_AGAIN: Duration = Duration::from_secs(10);

/// The policy of a host.
#[derive(Clone, Debug)]
pub struct Policy {
    kernel: KernelConfig,
    limits: LimitsConfig,
    poll: Duration,
    managed_nodes: Vec<u32>,
    block_frames: u64,
    nodes: BTreeMap<u32, Node>,
    before: Option<Sample>,
    /// Until when the zones were as in the last sample.
    still_until: Duration,
    blame: Blame,
    /// The host has lacked memory since the sample before the last, and a process was killed for it.
    killed: bool,
    /// Shares of time stalled, in thousandths, averaged over some ten seconds.
    stalled: [f64; 2],
    swap_free: u64,
    hugetlb: u64,
    /// Pools of huge pages changed between the last two samples.
    pooled: bool,
    backoff: Backoff,
    budget: Budget,
    /// Offline blocks that did not come back, and when each is tried again.
    lost: BTreeMap<u64, Duration>,
    /// Blocks that went to the kernel region, in order.
    youngest: Vec<u64>,
    busy: Option<u64>,
    /// A conversion has failed since the last sample.
    failed: bool,
    /// Frames that the last block chosen for growth had to move.
    moving: u64,
    reserving: bool,
    grow_only: bool,
}

impl Policy {
    /// A policy that has seen nothing.
    pub fn new(config: &Config, block_frames: u64) -> Policy {
        Policy {
            kernel: config.kernel,
            limits: config.limits,
            poll: config.daemon.poll,
            managed_nodes: config.daemon.nodes.clone(),
            block_frames: block_frames.max(1),
            nodes: BTreeMap::new(),
            before: None,
            still_until: Duration::ZERO,
            blame: Blame::default(),
            killed: false,
            stalled: [0.0; 2],
            swap_free: 0,
            hugetlb: 0,
            pooled: false,
            backoff: Backoff::default(),
            budget: Budget::new(config.limits.operations_per_hour),
            lost: BTreeMap::new(),
            youngest: Vec::new(),
            busy: None,
            failed: false,
            moving: 0,
            reserving: false,
            grow_only: false,
        }
    }

    /// The same policy, but nothing is ever set up, shrunk, or yielded: for the guardian.
    pub fn grow_only(mut self) -> Policy {
        self.grow_only = true;
        self
    }

    /// Another configuration.
    pub fn configure(&mut self, config: &Config) {
        (self.kernel, self.limits, self.poll) = (config.kernel, config.limits, config.daemon.poll);
        self.managed_nodes.clone_from(&config.daemon.nodes);
        self.budget.limit(config.limits.operations_per_hour);
    }

    /// Takes a look at the zones: once a poll.
    pub fn sample(&mut self, sample: &Sample) {
        let since = self.before.as_ref().map_or(Duration::ZERO, |b| sample.at.saturating_sub(b.at));
        // Right after a failure there may be a sample within milliseconds: no rate comes from that.
        let hasty = std::mem::take(&mut self.failed) && since < self.poll / 10;
        let seconds = if hasty { 0.0 } else { since.as_secs_f64() };
        self.stalls(sample, seconds);
        (self.swap_free, self.hugetlb) = (sample.swap_free, sample.hugetlb);
        let pools = |of: &Sample| (of.hugetlb, of.pool_requests);
        let pooled = self.before.as_ref().is_some_and(|b| pools(sample) != pools(b));
        let pooling = pooled || self.pooled;
        self.pooled = pooled;
        self.killed = self.before.as_ref().is_some_and(|b| self.blame.kills(b, sample));
        let terms = Terms {
            block_frames: self.block_frames,
            kernel: self.kernel,
            excess_blocks: self.limits.excess_blocks,
            poll: self.poll,
            stalled: self.stalled,
            busy: self.busy.is_some() || self.reserving,
            seconds,
            changed_in: self.changed_in(sample.at, seconds),
            now: sample.at,
            killed: self.killed,
            pooling,
        };
        // A node of CPUs alone has no memory.
        let managed = |node: &&NodeSample| self.manages(node.node) && node.managed() > 0;
        let managed: Vec<NodeSample> = sample.nodes.iter().filter(managed).copied().collect();
        self.nodes.retain(|number, _| managed.iter().any(|node| node.node == *number));
        for node in managed {
            let before = self.before.as_ref();
            let before = before.and_then(|b| b.nodes.iter().find(|n| n.node == node.node)).copied();
            self.nodes.entry(node.node).or_insert_with(Node::new).observe(node, before, &terms);
        }
        self.before = Some(sample.clone());
    }

    /// Whether a node is to be managed, by the configuration.
    fn manages(&self, node: u32) -> bool {
        self.managed_nodes.is_empty() || self.managed_nodes.contains(&node)
    }

    /// Notes that free memory was read, and is unchanged since the last sample.
    pub fn still(&mut self, now: Duration) {
        self.still_until = now;
    }

    /// Seconds in which what has changed since the last sample did so.
    fn changed_in(&self, now: Duration, seconds: f64) -> f64 {
        let moving = now.saturating_sub(self.still_until).max(self.poll / 2);
        seconds.min(moving.as_secs_f64())
    }

    /// Whether nothing is under way and nothing is short, so that there is nothing to do before free
    /// memory changes.
    pub fn rests(&self, now: Duration) -> bool {
        let noise = rest::noise(self.block_frames);
        self.busy.is_none()
            && !self.reserving
            && self.lost.is_empty()
            && !self.nodes.is_empty()
            && !self.is_pressed()
            && self.nodes.values().all(|node| {
                let roomy = node.view.available[0] >= node.view.low[0] + 2 * noise;
                let shrinks = matches!(node.want, Resize::Shrink)
                    && self.against_shrinking(node, now, Reason::Excess) == Guard::None;
                let calm = matches!(node.want, Resize::Stay | Resize::Shrink) && !shrinks;
                let set_up = node.set_up || self.grow_only;
                // There is nothing to grow by, however little the kernel has.
                let grows = matches!(node.want, Resize::Grow { .. });
                let fixed = !node.has_movable() && (node.set_up || grows);
                fixed
                    || set_up
                        && roomy
                        && calm
                        && now >= node.borrow_until
                        && now >= node.room_until
                        && node.searching.is_none()
            })
    }

    /// Time stalled since the last sample, divided between kernel and user requests as their
    /// direct reclaims are: PSI knows no zones.
    fn stalls(&mut self, sample: &Sample, seconds: f64) {
        let Some(before) = &self.before else { return };
        if seconds <= 0.0 {
            return;
        }
        let stalled_us = match blame::stalls(before, sample) {
            true => sample.psi_us.saturating_sub(before.psi_us),
            false => 0,
        };
        let share = stalled_us as f64 / 1e6 / seconds;
        let kernel = sample.kernel_stalls.saturating_sub(before.kernel_stalls) as f64;
        let user = sample.user_stalls.saturating_sub(before.user_stalls) as f64;
        let part = if kernel + user > 0.0 { kernel / (kernel + user) } else { 0.0 };
        let weight = (seconds / 10.0).min(1.0);
        for (average, part) in self.stalled.iter_mut().zip([part, 1.0 - part]) {
            let now = share.min(1.0) * part * 1000.0;
            *average += (now - *average) * weight;
        }
    }

    /// Whether user memory is short, so that it should borrow from the kernel region.
    pub fn borrows(&self, now: Duration) -> bool {
        self.nodes.values().any(|node| now < node.borrow_until)
    }

    /// Whether kswapd should make room in the movable zone, because the kernel region grows soon.
    pub fn makes_room(&self, now: Duration) -> bool {
        self.nodes.values().any(|node| now < node.room_until)
    }

    /// Nodes and their reserves, for the kernel's own reserves.
    pub fn reserves(&self) -> Vec<(NodeSample, u64)> {
        self.nodes.values().map(|node| (node.sample, node.view.low[0])).collect()
    }

    /// What is to be done now. While a conversion is under way: nothing.
    pub fn next(&mut self, blocks: &[Block], now: Duration) -> Step {
        if self.busy.is_some() {
            return Step::Wait;
        }
        self.lost.retain(|lost, _| {
            blocks.iter().any(|block| block.number == *lost && block.place == Place::Offline)
        });
        let lost = |block: &&Block| {
            let again = self.lost.get(&block.number);
            block.place == Place::Offline && again.is_none_or(|again| *again <= now)
        };
        // Memory of other nodes may be offline for a reason.
        if let Some(block) = blocks.iter().find(|block| lost(block) && self.manages(block.node)) {
            return Step::Online(block.number);
        }
        for (number, node) in &mut self.nodes {
            let candidates = choice::candidates(blocks, *number);
            let allowed = candidates.filter(|block| self.backoff.allows(block.number, now));
            node.evacuation.look(allowed.filter_map(|b| Some(b.occupancy?.to_move())));
        }
        // The node that is nearest to running out comes first.
        let mut order: Vec<u32> = self.nodes.keys().copied().collect();
        order.sort_by_key(|number| {
            let view = &self.nodes[number].view;
            view.available[0] * 1000 / view.low[0].max(1)
        });
        for number in &order {
            if matches!(self.nodes[number].want, Resize::Grow { .. }) {
                match self.grow(*number, blocks, now) {
                    Step::Wait => {}
                    step => return step,
                }
            }
        }
        if self.grow_only {
            return Step::Wait;
        }
        for number in &order {
            let step = match self.nodes[number].want {
                Resize::Grow { .. } => Step::Wait,
                _ if !self.nodes[number].set_up => self.set_up(*number, blocks, now),
                Resize::Shrink => self.shrink(*number, blocks, now, Reason::Excess),
                Resize::Yield { .. } => self.shrink(*number, blocks, now, Reason::UserShort),
                Resize::Stay => Step::Wait,
            };
            if step != Step::Wait {
                return step;
            }
        }
        Step::Wait
    }

    /// A conversion begins.
    pub fn began(&mut self, block: u64) {
        self.busy = Some(block);
    }

    /// The conversion of `node`'s block ended.
    pub fn finished(&mut self, node: u32, finished: Finished, now: Duration) {
        self.busy = None;
        let Finished { block, to, done, took } = finished;
        // The setup takes as many as it has to, and leaves the hour's operations to what follows.
        let sets_up = self.nodes.get(&node).is_some_and(|node| !node.set_up);
        if !(sets_up && to == Place::Movable) {
            self.budget.spend(now);
        }
        self.failed = !done;
        if !done {
            self.backoff.refuse(block, now, self.limits.retry_after);
            return;
        }
        self.backoff.forgive(block);
        self.youngest.retain(|number| *number != block);
        let Some(node) = self.nodes.get_mut(&node) else { return };
        match to {
            Place::Kernel => {
                self.youngest.push(block);
                node.evacuation.measured(took, self.moving, self.block_frames);
                node.resizer.moved(Resize::Grow { beyond: 0 });
            }
            _ if node.set_up => node.resizer.moved(Resize::Shrink),
            _ => {}
        }
        node.wanted_since = None;
        (node.fruitless, node.search_after) = (0, Duration::ZERO);
    }

    /// The conversion of a block was interrupted, because user memory ran short meanwhile. That says
    /// nothing about the block.
    pub fn interrupted(&mut self, block: u64, now: Duration) {
        (self.busy, self.failed) = (None, true);
        self.budget.spend(now);
        self.backoff.rest(block, now + INTERRUPTED_AGAIN);
    }

    /// Bringing an offline block back has ended. That is no conversion: it counts neither as growth
    /// nor against the hour's operations, and what the block refused before still stands.
    pub fn onlined(&mut self, block: u64, done: bool, now: Duration) {
        self.busy = None;
        match done {
            true => drop(self.lost.remove(&block)),
            false => drop(self.lost.insert(block, now + ONLINE_AGAIN)),
        }
    }

    /// Conversions of the hour that ends at `now`, without those of the setup, and blocks that are left alone.
    pub fn counts(&self, now: Duration) -> (usize, usize) {
        (self.budget.used(now), self.backoff.len_at(now))
    }

    /// A reservation of huge pages is under way, or over: meanwhile blocks change sides and pages of
    /// the pool look like kernel memory, so that no rate is derived.
    pub fn reserving(&mut self, under_way: bool) {
        self.reserving = under_way;
    }

    /// Whether the kernel has killed a process between the last two samples because the host lacks
    /// memory.
    pub const fn has_killed(&self) -> bool {
        self.killed
    }

    /// Whether some node's kernel region has less than its reserve, and could grow.
    pub fn is_short(&self) -> bool {
        let short = |node: &Node| node.view.available[0] < node.view.low[0];
        self.nodes.values().any(|node| node.has_movable() && short(node))
    }

    /// The nodes' states.
    pub fn reports(&self) -> Vec<NodeReport> {
        self.nodes.values().map(Node::report).collect()
    }

    fn is_pressed(&self) -> bool {
        self.stalled.iter().sum::<f64>() > self.limits.pressure_percent * 10.0
    }
}
