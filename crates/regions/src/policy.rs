//! What to do next: a pure decision. The size of each node's kernel region follows the shared
//! resizer; this adds what a host needs beyond it: setting up, what fits, back-off, and bounds.
//!
//! ```text
//! reserve = rate × (poll + time to convert a block) + high watermark + ready blocks
//! grow    when the kernel region has less available than the reserve, or kernel requests stall
//! shrink  when it has excess blocks more than the reserve for a while, and PSI is low
//! yield   when user memory is short and the kernel region has a block to spare
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use prairie_frames::placement::regions::resizer::{
    Demand, Resize, Resizer, Stock, Tuning as Resizing, View,
};
use serde::Serialize;

use crate::choice::{self, Block, Place};
use crate::config::{Config, KernelConfig, LimitsConfig};
use crate::limits::{Backoff, Budget};
use crate::sample::{NodeSample, Sample};

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing for now.
    Wait,
    /// Read what fills these blocks, then ask again.
    Scan(Vec<u64>),
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

/// Why a block changes sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The regions are being set up.
    Setup,
    /// The kernel region has less than its reserve.
    Reserve,
    /// Kernel requests stall.
    Stalls,
    /// The kernel region has had too much for a while.
    Excess,
    /// User memory is short.
    UserShort,
    /// Somebody asked for huge pages.
    HugePages,
    /// Everything is returned.
    Undo,
    /// It was found offline.
    Offline,
}

impl Reason {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Reason::Setup => "setup",
            Reason::Reserve => "kernel memory below its reserve",
            Reason::Stalls => "kernel requests stalled",
            Reason::Excess => "kernel memory idle",
            Reason::UserShort => "user memory short",
            Reason::HugePages => "huge pages requested",
            Reason::Undo => "undo",
            Reason::Offline => "found offline",
        }
    }
}

/// Why nothing more is done, where something would be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guard {
    /// Nothing stands against anything.
    #[default]
    None,
    /// As many conversions this hour as are allowed.
    Budget,
    /// Memory pressure is high.
    Pressure,
    /// The kernel region ran short lately.
    Frozen,
    /// The regions are at their bounds.
    Bound,
    /// It has not lasted long enough.
    Waiting,
    /// No block holds only what fits elsewhere.
    NothingFits,
    /// Every block that could change sides refused lately, or holds what cannot move.
    AllRefused,
}

impl Guard {
    /// In words; empty for none.
    pub const fn words(self) -> &'static str {
        match self {
            Guard::None => "",
            Guard::Budget => "operations of this hour are used up",
            Guard::Pressure => "memory pressure is high",
            Guard::Frozen => "no shrinking, the kernel region ran short lately",
            Guard::Bound => "the region is at its bound",
            Guard::Waiting => "the excess has not lasted long enough",
            Guard::NothingFits => "no block's contents fit elsewhere: user memory is full",
            Guard::AllRefused => "no block can be converted: pinned, unmovable, or refused lately",
        }
    }
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

/// For this long nothing shrinks after the kernel region ran short (*chosen*).
const FREEZE: Duration = Duration::from_secs(600);

/// User memory may borrow for this long after it was short (*chosen*).
const BORROW: Duration = Duration::from_secs(60);

/// User memory has to be short for this long before a block is yielded (*chosen*).
const YIELD_AFTER: Duration = Duration::from_secs(10);

/// Without a block that could shrink, the next search comes after this (*chosen*).
const SEARCH_AGAIN: Duration = Duration::from_secs(300);

/// A block that is offline and did not come back is tried again after this: it is lost memory
/// (*chosen*).
const ONLINE_AGAIN: Duration = Duration::from_secs(60);

/// Until a conversion was measured, one is taken to last this long (*measured*: 0.8 to 1.6 s for a
/// full block of 128 MiB in an emulated machine).
const FIRST_GRANULE_MS: u64 = 1000;

/// Time in which an observed rate halves is some 7 s (*chosen*).
const RATE_DECAY: f64 = 0.9;

/// The state of one node.
#[derive(Clone, Debug)]
struct Node {
    resizer: Resizer,
    sample: NodeSample,
    rate: f64,
    demand: Demand,
    /// Durations of the last growths, in milliseconds.
    growths: [u64; 4],
    view: View,
    want: Resize,
    /// Since when the resizer has wanted to shrink or yield.
    wanted_since: Option<(bool, Duration)>,
    search_after: Duration,
    frozen_until: Duration,
    borrow_until: Duration,
    set_up: bool,
    guard: Guard,
}

/// What a node's state is, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NodeReport {
    /// What was sampled.
    pub sample: NodeSample,
    /// The reserve, in frames.
    pub reserve: u64,
    /// Above this the kernel region has too much, in frames.
    pub excess: u64,
    /// What the kernel uses more, in frames a second.
    pub rate: u64,
    /// Until the kernel region is used up at that rate, in milliseconds.
    pub exhausted_in_ms: Option<u64>,
    /// What a conversion takes, in milliseconds.
    pub granule_ms: u64,
    /// Shares of time stalled for kernel and for user memory, in thousandths.
    pub pressure: [u32; 2],
    /// Why nothing more is done.
    pub guard: Guard,
    /// Setting up is over.
    pub set_up: bool,
}

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
    /// Shares of time stalled, in thousandths, averaged over some ten seconds.
    stalled: [f64; 2],
    swap_free: u64,
    hugetlb: bool,
    backoff: Backoff,
    budget: Budget,
    /// Offline blocks that did not come back, and when each is tried again.
    lost: BTreeMap<u64, Duration>,
    /// Blocks that went to the kernel region, in order.
    youngest: Vec<u64>,
    busy: Option<u64>,
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
            stalled: [0.0; 2],
            swap_free: 0,
            hugetlb: false,
            backoff: Backoff::default(),
            budget: Budget::new(config.limits.operations_per_hour),
            lost: BTreeMap::new(),
            youngest: Vec::new(),
            busy: None,
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
        self.budget = Budget::new(config.limits.operations_per_hour);
    }

    /// Takes a look at the zones: once a poll.
    pub fn sample(&mut self, sample: &Sample) {
        let seconds =
            self.before.as_ref().map_or(0.0, |b| (sample.at.saturating_sub(b.at)).as_secs_f64());
        self.stalls(sample, seconds);
        (self.swap_free, self.hugetlb) = (sample.swap_free, sample.hugetlb);
        let killed = self.before.as_ref().is_some_and(|b| sample.oom_kills > b.oom_kills);
        self.nodes.retain(|number, _| sample.nodes.iter().any(|node| node.node == *number));
        for node in &sample.nodes {
            if !self.managed_nodes.is_empty() && !self.managed_nodes.contains(&node.node) {
                continue;
            }
            let before = self.before.as_ref();
            let before = before.and_then(|b| b.nodes.iter().find(|n| n.node == node.node)).copied();
            self.sample_node(node, before, seconds, sample.at, killed);
        }
        self.before = Some(sample.clone());
    }

    /// Time stalled since the last sample, divided between kernel and user requests as their
    /// direct reclaims are: PSI knows no zones.
    fn stalls(&mut self, sample: &Sample, seconds: f64) {
        let Some(before) = &self.before else { return };
        if seconds <= 0.0 {
            return;
        }
        let share = sample.psi_us.saturating_sub(before.psi_us) as f64 / 1e6 / seconds;
        let kernel = sample.kernel_stalls.saturating_sub(before.kernel_stalls) as f64;
        let user = sample.user_stalls.saturating_sub(before.user_stalls) as f64;
        let part = if kernel + user > 0.0 { kernel / (kernel + user) } else { 0.0 };
        let weight = (seconds / 10.0).min(1.0);
        for (average, part) in self.stalled.iter_mut().zip([part, 1.0 - part]) {
            let now = share.min(1.0) * part * 1000.0;
            *average += (now - *average) * weight;
        }
    }

    fn sample_node(
        &mut self,
        sample: &NodeSample,
        before: Option<NodeSample>,
        seconds: f64,
        now: Duration,
        killed: bool,
    ) {
        let block = self.block_frames;
        let (kernel, poll, stalled) = (self.kernel, self.poll, self.stalled);
        let excess = (self.limits.excess_blocks * block as f64) as u64;
        let busy = self.busy.is_some();
        let node = self.nodes.entry(sample.node).or_insert_with(|| Node::new(*sample));
        node.sample = *sample;
        node.observe_rate(before, seconds, busy);
        node.demand = Demand {
            frames_per_second: node.rate as u64,
            poll_ms: poll.as_millis() as u64,
            granule_ms: node.growths.iter().copied().max().unwrap_or(0),
        };
        let spare = (kernel.ready_blocks * block).max(kernel.min_reserve / 4096);
        // An eighth of the node is the most that a rate asks for (chosen): beyond that it is a
        // burst that no reserve would last for.
        let most = (sample.managed() / 8).max(sample.kernel.high + spare);
        let low = node.demand.low(sample.kernel.high, spare).min(most);
        let movable = sample.movable;
        let user = movable.free + movable.cache / 4 * 3 + sample.kernel.borrowable;
        let user_low = movable.high + block / 2;
        let available = sample.kernel.available;
        // A stalled kernel request lacks kernel memory only if there is not plenty of it.
        let lacks = if available > low + excess { 0.0 } else { stalled[0] };
        node.view = View {
            size: sample.kernel.managed,
            available: [available, user],
            low: [low, user_low],
            high: low + excess,
            pressure: [lacks as u32, stalled[1] as u32],
        };
        let stocks = [
            Stock { available, low, target: low + block / 4, high: low + excess },
            Stock { available: user, low: user_low, target: user_low + block / 2, high: u64::MAX },
        ];
        let decided = node.resizer.decide(&node.view);
        // A growth that has begun goes on to its target.
        let goes_on = matches!(node.want, Resize::Grow { .. })
            && node.want.goes_on(stocks[0], stocks[1], block);
        node.want = if goes_on && decided == Resize::Stay { node.want } else { decided };
        node.follow(now, killed);
    }

    /// Whether user memory is short, so that it should borrow from the kernel region.
    pub fn borrows(&self, now: Duration) -> bool {
        self.nodes.values().any(|node| now < node.borrow_until)
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
        let lost = |block: &&Block| {
            let again = self.lost.get(&block.number);
            block.place == Place::Offline && again.is_none_or(|again| *again <= now)
        };
        if let Some(block) = blocks.iter().find(lost) {
            return Step::Online(block.number);
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
        self.budget.spend(now);
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
                node.growths.rotate_right(1);
                node.growths[0] = took.as_millis() as u64;
                node.resizer.moved(Resize::Grow { beyond: 0 });
            }
            _ if node.set_up => node.resizer.moved(Resize::Shrink),
            _ => {}
        }
        node.wanted_since = None;
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

    /// Conversions of the hour that ends at `now`, and blocks that are left alone.
    pub fn counts(&self, now: Duration) -> (usize, usize) {
        (self.budget.used(now), self.backoff.len_at(now))
    }

    /// The nodes' states.
    pub fn reports(&self) -> Vec<NodeReport> {
        self.nodes.values().map(Node::report).collect()
    }

    fn grow(&mut self, number: u32, blocks: &[Block], now: Duration) -> Step {
        let node = &self.nodes[&number];
        let view = node.view;
        let short = view.available[0] < view.low[0];
        let guard = if !self.may_grow(node) {
            Guard::Bound
        } else if !short && self.is_pressed() {
            Guard::Pressure
        } else if !short && !self.budget.allows(now) {
            Guard::Budget
        } else {
            Guard::None
        };
        let reason = if short { Reason::Reserve } else { Reason::Stalls };
        let step = match guard {
            Guard::None => self.growth(number, blocks, now, reason),
            guard => Err(guard),
        };
        let node = self.nodes.get_mut(&number).expect("a sampled node");
        match step {
            Ok(step) => {
                node.guard = Guard::None;
                step
            }
            Err(guard) => {
                node.guard = guard;
                if short {
                    node.frozen_until = now + FREEZE;
                }
                Step::Wait
            }
        }
    }

    /// The next block for the kernel region.
    fn growth(
        &self,
        number: u32,
        blocks: &[Block],
        now: Duration,
        reason: Reason,
    ) -> Result<Step, Guard> {
        let node = &self.nodes[&number];
        let urgent = node.view.available[0] < node.view.low[0] / 2;
        let swap = if urgent { self.swap_free / 2 } else { 0 };
        let allowed = |block: &&Block| self.backoff.allows(block.number, now);
        let candidates: Vec<&Block> =
            choice::by_cost(blocks, number, self.block_frames).filter(allowed).collect();
        if candidates.is_empty() {
            return Err(Guard::AllRefused);
        }
        let fits = |block: &&&Block| match &block.occupancy {
            Some(found) => choice::fits_elsewhere(found, &node.sample, swap),
            // What cannot be read may hold hugetlb pages in use, which would be tried forever.
            None => {
                let full = self.block_frames;
                let found = prairie_host::Occupancy { movable: full, ..Default::default() };
                !self.hugetlb && choice::fits_elsewhere(&found, &node.sample, swap)
            }
        };
        let readable = |block: &&Block| block.occupancy.is_some();
        let stale = |block: &&&Block| readable(block) && block.scanned + FRESH < now;
        let first: Vec<u64> =
            candidates.iter().take(SCANNED_AT_ONCE).filter(stale).map(|b| b.number).collect();
        if !first.is_empty() {
            return Ok(Step::Scan(first));
        }
        let chosen = candidates.iter().find(fits).ok_or(Guard::NothingFits)?;
        if stale(&chosen) {
            return Ok(Step::Scan(vec![chosen.number]));
        }
        Ok(Step::Convert { block: chosen.number, to: Place::Kernel, reason })
    }

    /// Whether one block more keeps the kernel region below its ceiling, and a block movable.
    fn may_grow(&self, node: &Node) -> bool {
        let sample = &node.sample;
        let after = sample.kernel.managed + self.block_frames;
        let ceiling = sample.managed() as f64 * self.kernel.ceiling_percent / 100.0;
        after as f64 <= ceiling && sample.movable.managed >= 2 * self.block_frames
    }

    /// Frames that the kernel region of a node keeps when it shrinks.
    fn floor(&self, node: &Node) -> u64 {
        (node.sample.managed() as f64 * self.kernel.floor_percent / 100.0) as u64
    }

    fn is_pressed(&self) -> bool {
        self.stalled.iter().sum::<f64>() > self.limits.pressure_percent * 10.0
    }

    /// Confines the kernel to its initial share: its highest blocks become movable.
    fn set_up(&mut self, number: u32, blocks: &[Block], now: Duration) -> Step {
        let node = &self.nodes[&number];
        let (sample, low) = (node.sample, node.view.low[0]);
        let initial = (sample.managed() as f64 * self.kernel.initial_percent / 100.0) as u64;
        let after = sample.kernel.managed.saturating_sub(self.block_frames);
        if after < initial {
            return self.end_setup(number, Guard::None);
        }
        if self.is_pressed() {
            self.nodes.get_mut(&number).expect("a sampled node").guard = Guard::Pressure;
            return Step::Wait;
        }
        // After the conversion there must be no reason to take it back at once.
        let keep = low + self.block_frames / 2;
        let allowed = |block: &&Block| {
            let fits = |found| choice::fits_without(found, &sample, keep);
            self.backoff.allows(block.number, now) && block.occupancy.as_ref().is_some_and(fits)
        };
        match choice::by_age(blocks, number, &[]).find(allowed) {
            Some(block) => self.leave(block, now, Reason::Setup),
            None => self.end_setup(number, Guard::AllRefused),
        }
    }

    fn end_setup(&mut self, number: u32, guard: Guard) -> Step {
        let node = self.nodes.get_mut(&number).expect("a sampled node");
        (node.set_up, node.guard) = (true, guard);
        Step::Wait
    }

    fn leave(&self, block: &Block, now: Duration, reason: Reason) -> Step {
        match block.scanned + FRESH < now {
            true => Step::Scan(vec![block.number]),
            false => Step::Convert { block: block.number, to: Place::Movable, reason },
        }
    }

    /// Returns a block of the kernel region to user memory, if nothing stands against it.
    fn shrink(&mut self, number: u32, blocks: &[Block], now: Duration, reason: Reason) -> Step {
        let node = &self.nodes[&number];
        let wait = match reason {
            Reason::UserShort => YIELD_AFTER,
            _ => self.limits.shrink_after,
        };
        let lasted = node.wanted_since.is_some_and(|(_, since)| since + wait <= now);
        let low = node.view.low[0];
        let guard = if now < node.frozen_until {
            Guard::Frozen
        } else if node.sample.kernel.managed.saturating_sub(self.block_frames) < self.floor(node) {
            Guard::Bound
        } else if !lasted {
            Guard::Waiting
        } else if reason == Reason::Excess && self.is_pressed() {
            Guard::Pressure
        } else if !self.budget.allows(now) {
            Guard::Budget
        } else if now < node.search_after {
            Guard::AllRefused
        } else {
            Guard::None
        };
        let keep = low + self.block_frames / 2;
        let sample = node.sample;
        let allowed = |block: &&Block| {
            let fits = |found| choice::fits_without(found, &sample, keep);
            self.backoff.allows(block.number, now) && block.occupancy.as_ref().is_some_and(fits)
        };
        let found = match guard {
            Guard::None => choice::by_age(blocks, number, &self.youngest).find(allowed),
            _ => None,
        };
        // What a block held while the kernel was short says nothing: read again before giving up.
        let stale = blocks.iter().filter(|block| {
            block.node == number && block.place == Place::Kernel && block.scanned + FRESH < now
        });
        let stale: Vec<u64> = match (guard, found) {
            (Guard::None, None) => stale.map(|b| b.number).take(SCANNED_AT_ONCE).collect(),
            _ => Vec::new(),
        };
        let step = match (found, stale.is_empty()) {
            (Some(block), _) => self.leave(block, now, reason),
            (None, true) => Step::Wait,
            (None, false) => Step::Scan(stale),
        };
        let node = self.nodes.get_mut(&number).expect("a sampled node");
        node.guard = guard;
        if guard == Guard::None && step == Step::Wait {
            (node.guard, node.search_after) = (Guard::AllRefused, now + SEARCH_AGAIN);
        }
        step
    }
}

impl Node {
    fn new(sample: NodeSample) -> Node {
        let view = View { size: 0, available: [0; 2], low: [0; 2], high: 0, pressure: [0; 2] };
        Node {
            resizer: Resizer::new(Resizing::default()),
            sample,
            rate: 0.0,
            demand: Demand::default(),
            growths: [FIRST_GRANULE_MS, 0, 0, 0],
            view,
            want: Resize::Stay,
            wanted_since: None,
            search_after: Duration::ZERO,
            frozen_until: Duration::ZERO,
            borrow_until: Duration::ZERO,
            set_up: false,
            guard: Guard::None,
        }
    }

    /// What the kernel uses more per second: up at once, down slowly. While a block changes sides,
    /// its frames are neither here nor there.
    fn observe_rate(&mut self, before: Option<NodeSample>, seconds: f64, busy: bool) {
        self.rate *= RATE_DECAY.powf(seconds);
        let Some(before) = before else { return };
        if busy || seconds <= 0.0 || before.kernel.managed != self.sample.kernel.managed {
            return;
        }
        let more = self.sample.kernel.own.saturating_sub(before.kernel.own);
        self.rate = self.rate.max(more as f64 / seconds);
    }

    /// Keeps track of how long something has been wanted, and of shortages.
    fn follow(&mut self, now: Duration, killed: bool) {
        let yields = matches!(self.want, Resize::Yield { .. });
        self.wanted_since = match (self.want, self.wanted_since) {
            (Resize::Shrink | Resize::Yield { .. }, Some((kind, since))) if kind == yields => {
                Some((kind, since))
            }
            (Resize::Shrink | Resize::Yield { .. }, _) => Some((yields, now)),
            _ => None,
        };
        let [kernel, user] = self.view.available;
        if killed || kernel < self.sample.kernel.high {
            self.frozen_until = now + FREEZE;
        }
        if user < self.view.low[1] {
            self.borrow_until = now + BORROW;
        }
        if self.want == Resize::Stay {
            self.guard = Guard::None;
        }
    }

    fn report(&self) -> NodeReport {
        NodeReport {
            sample: self.sample,
            reserve: self.view.low[0],
            excess: self.view.high,
            rate: self.rate as u64,
            exhausted_in_ms: self.demand.exhausted_in_ms(self.view.available[0]),
            granule_ms: self.demand.granule_ms,
            pressure: self.view.pressure,
            guard: self.guard,
            set_up: self.set_up,
        }
    }
}
