//! One node: what was sampled, what the resizer makes of it, and how long that has lasted.

use std::time::Duration;

use prairie_frames::placement::regions::resizer::{
    Demand, Resize, Resizer, Stock, Tuning as Resizing, View,
};
use serde::Serialize;

use super::evacuation::Evacuation;
use super::words::Guard;
use crate::config::KernelConfig;
use crate::sample::{NodeSample, page_bytes};

/// For this long nothing shrinks after the kernel region ran short (*chosen*).
pub(super) const FREEZE: Duration = Duration::from_secs(600);

/// User memory may borrow for this long after it was short (*chosen*).
const BORROW: Duration = Duration::from_secs(60);

/// User memory that is used up this soon may borrow before it is (*chosen*): a process or a pool of
/// huge pages that takes it all would else find only what the kernel region left in advance.
const SOON: f64 = 3.0;

/// A growth that costs user memory nothing comes early: if the kernel region would be down to its
/// reserve within these seconds at the present rate (*chosen*).
const AHEAD: f64 = 5.0;

/// Within these seconds before a growth kswapd makes room for what it moves (*chosen*): at the speed
/// of an emulated machine it frees a block in less than one.
const ROOM_AHEAD: f64 = 4.0;

/// A rate below this share of a block each second does not make room (*chosen*).
const NOTICED: f64 = 1.0 / 64.0;

/// It goes on to do so for this long (*chosen*).
const ROOM: Duration = Duration::from_secs(10);

/// After an early growth found no block that is nearly empty, the next comes no sooner than this
/// (*chosen*): looking for one is not free.
const AHEAD_AGAIN: Duration = Duration::from_secs(10);

/// Time in which an observed rate halves is some 7 s (*chosen*).
const RATE_DECAY: f64 = 0.9;

/// What nodes are judged by, the same for all of them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Frames of a block.
    pub(super) block_frames: u64,
    /// How large the kernel region should be.
    pub(super) kernel: KernelConfig,
    /// Blocks between the reserve and too much.
    pub(super) excess_blocks: f64,
    /// How often nodes are sampled.
    pub(super) poll: Duration,
    /// Shares of time stalled for kernel and for user memory, in thousandths.
    pub(super) stalled: [f64; 2],
    /// A conversion is under way.
    pub(super) busy: bool,
    /// Seconds since the last sample; 0 if they are too few to derive a rate from.
    pub(super) seconds: f64,
    /// Of these, those in which changes happened: before that, free memory was looked at.
    pub(super) changed_in: f64,
    /// The time of this sample.
    pub(super) now: Duration,
    /// The kernel has killed a process since the last sample.
    pub(super) killed: bool,
    /// Pools of huge pages have changed since the last sample but one.
    pub(super) pooling: bool,
}

/// The state of one node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) resizer: Resizer,
    pub(super) sample: NodeSample,
    pub(super) rate: f64,
    /// What the kernel used more per second between the last two samples without a conversion.
    recent: f64,
    /// The kernel's own use at the last sample without a conversion, and its time.
    settled: Option<(u64, Duration)>,
    pub(super) demand: Demand,
    /// How long the next growth takes.
    pub(super) evacuation: Evacuation,
    /// Frames available to user memory, without what it may borrow, at the last sample.
    user_before: Option<u64>,
    pub(super) view: View,
    pub(super) want: Resize,
    /// Since when the resizer has wanted to shrink or yield.
    pub(super) wanted_since: Option<(bool, Duration)>,
    /// The next search for a block that could shrink.
    pub(super) search_after: Duration,
    /// Since when a block that could shrink is searched for.
    pub(super) searching: Option<Duration>,
    /// Slabs were drained during this search.
    pub(super) drained: bool,
    /// Searches in a row that found none.
    pub(super) fruitless: u32,
    pub(super) frozen_until: Duration,
    pub(super) borrow_until: Duration,
    /// Until then kswapd makes room in the movable zone.
    pub(super) room_until: Duration,
    /// No early growth until then.
    early_after: Duration,
    pub(super) set_up: bool,
    pub(super) guard: Guard,
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

impl Node {
    /// A node that has not been sampled.
    pub(super) fn new() -> Node {
        let view = View { size: 0, available: [0; 2], low: [0; 2], high: 0, pressure: [0; 2] };
        Node {
            resizer: Resizer::new(Resizing::default()),
            sample: NodeSample::default(),
            rate: 0.0,
            recent: 0.0,
            settled: None,
            demand: Demand::default(),
            evacuation: Evacuation::default(),
            user_before: None,
            view,
            want: Resize::Stay,
            wanted_since: None,
            search_after: Duration::ZERO,
            searching: None,
            drained: false,
            fruitless: 0,
            frozen_until: Duration::ZERO,
            borrow_until: Duration::ZERO,
            room_until: Duration::ZERO,
            early_after: Duration::ZERO,
            set_up: false,
            guard: Guard::None,
        }
    }

    /// Whether it has a movable zone.
    pub(super) const fn has_movable(&self) -> bool {
        self.sample.movable.managed > 0
    }

    /// Takes a look at the node: what it wants is [`Node::want`] from then on.
    pub(super) fn observe(
        &mut self,
        sample: NodeSample,
        before: Option<NodeSample>,
        terms: &Terms,
    ) {
        let block = terms.block_frames;
        self.sample = sample;
        self.observe_rate(before, terms);
        self.demand = Demand {
            frames_per_second: self.rate as u64,
            poll_ms: terms.poll.as_millis() as u64,
            granule_ms: self.evacuation.next_ms(sample.movable.free, block),
        };
        let low = self.reserve(terms);
        let excess = (terms.excess_blocks * block as f64) as u64;
        let movable = sample.movable;
        let user = movable.usable() + sample.kernel.borrowable;
        // Without a movable zone there is none that could run short.
        let user_low = if self.has_movable() { movable.high + block / 2 } else { 0 };
        let grow_at = self.grow_at(low, terms);
        let available = self.available(low.min(grow_at), terms);
        // A stalled kernel request lacks kernel memory only if there is not plenty of it. Here cache
        // does not count: the request waits for its reclaim.
        let plenty = sample.kernel.available > low + excess;
        let lacks = if plenty { 0.0 } else { terms.stalled[0] };
        self.view = View {
            size: sample.kernel.managed,
            available: [available, user],
            low: [low, user_low],
            high: low + excess,
            pressure: [lacks as u32, terms.stalled[1] as u32],
        };
        let stocks = [
            Stock { available, low: grow_at, target: grow_at + block / 4, high: low + excess },
            Stock { available: user, low: user_low, target: user_low + block / 2, high: u64::MAX },
        ];
        let decided = self.resizer.decide(&View { low: [grow_at, user_low], ..self.view });
        // A growth that has begun goes on to its target.
        let goes_on = matches!(self.want, Resize::Grow { .. })
            && self.want.goes_on(stocks[0], stocks[1], block);
        self.want = if goes_on && decided == Resize::Stay { self.want } else { decided };
        self.follow(terms);
        self.lend(terms);
        self.make_room(grow_at, terms);
    }

    /// Frames of ready blocks that the kernel region keeps.
    fn ready(&self, terms: &Terms) -> u64 {
        let ready = terms.kernel.ready_blocks * terms.block_frames;
        // What is lent must not be taken back as growth at once.
        if terms.now < self.borrow_until { ready / 2 } else { ready }
    }

    /// Below how much available memory the kernel region grows. That is the reserve `low`, moved by
    /// what growth costs now. With a block's worth of free user memory nothing has to be reclaimed,
    /// so growth comes early: a few seconds before the reserve is touched. Otherwise it evicts page
    /// cache, and user memory often becomes free in the next seconds, so half of the ready blocks may
    /// be used up first. What the rate asks for stays untouched.
    fn grow_at(&self, low: u64, terms: &Terms) -> u64 {
        let movable = self.sample.movable;
        let block = terms.block_frames;
        let is_free = movable.free >= movable.high + block + block / 8;
        match is_free {
            true if !self.set_up || terms.now < self.early_after => low,
            true => low + ((self.rate * AHEAD) as u64).min(block),
            false => {
                let least = self.sample.kernel.high + terms.kernel.min_reserve / page_bytes();
                low.saturating_sub(self.ready(terms) / 2).max(least.min(low))
            }
        }
    }

    /// What the kernel region has available, which is less than `short` if it lacks free memory.
    ///
    /// Page cache that has borrowed is no demand of the kernel's. If it counted as such, the region
    /// would grow without end: the cache that a conversion evicts moves into the block before.
    /// But kswapd frees it only below the low watermark, and in a small zone requests stall soon below
    /// that (`docs/src/internals/regions.md`). What kernel requests take until one more block is there
    /// has to be free memory, for as long as they take it.
    ///
    /// At most three quarters (*chosen*) of what user memory leaves alone: above that page cache fills
    /// what a conversion frees, so that growth would bring cache and no free memory.
    fn available(&self, short: u64, terms: &Terms) -> u64 {
        let kernel = self.sample.kernel;
        let now = Demand { frames_per_second: self.recent as u64, ..self.demand };
        let needed = now.low(kernel.high, 0).min(kernel.kept / 4 * 3);
        match self.recent > 0.0 && kernel.available < needed && !terms.pooling {
            true => kernel.usable().min(short.saturating_sub(1)),
            false => kernel.usable(),
        }
    }

    /// An early growth found no block that is nearly empty.
    pub(super) fn no_early_growth(&mut self, now: Duration) {
        self.early_after = now + AHEAD_AGAIN;
        (self.want, self.guard) = (Resize::Stay, Guard::None);
    }

    /// What the kernel region should have available, in frames.
    fn reserve(&self, terms: &Terms) -> u64 {
        let kernel = terms.kernel;
        let spare = self.ready(terms).max(kernel.min_reserve / page_bytes());
        // An eighth of the node is the most that a rate asks for (*chosen*): beyond that it is a
        // burst that no reserve would last for.
        let most = (self.sample.managed() / 8).max(self.sample.kernel.high + spare);
        self.demand.low(self.sample.kernel.high, spare).min(most)
    }

    /// What the kernel uses more per second: up at once, down slowly. While a block changes sides,
    /// its frames are neither here nor there.
    fn observe_rate(&mut self, before: Option<NodeSample>, terms: &Terms) {
        let seconds = terms.seconds;
        self.rate *= RATE_DECAY.powf(seconds);
        let Some(before) = before else { return };
        self.observe_recent(terms);
        let changed = before.kernel.managed != self.sample.kernel.managed;
        if terms.busy || terms.pooling || seconds <= 0.0 || changed {
            return;
        }
        let more = self.sample.kernel.own.saturating_sub(before.kernel.own);
        self.rate = self.rate.max(more as f64 / terms.changed_in.min(seconds));
    }

    /// The rate of this moment, without those before it: conversions are left out, but end to end
    /// their blocks do not change the kernel's own use.
    fn observe_recent(&mut self, terms: &Terms) {
        // Huge pages of a pool are on no LRU list: in a kernel zone they look like its own, and the
        // files that describe both are not read at once.
        if terms.pooling {
            (self.recent, self.settled) = (0.0, None);
        }
        if terms.busy || terms.seconds <= 0.0 {
            return;
        }
        let own = self.sample.kernel.own;
        if let Some((before, at)) = self.settled {
            let since = terms.now.saturating_sub(at).as_secs_f64();
            let seconds = if since <= terms.seconds { terms.changed_in } else { since };
            if seconds > 0.0 {
                self.recent = own.saturating_sub(before) as f64 / seconds;
            }
        }
        self.settled = Some((own, terms.now));
    }

    /// Keeps track of how long something has been wanted, and of shortages.
    fn follow(&mut self, terms: &Terms) {
        let now = terms.now;
        let yields = matches!(self.want, Resize::Yield { .. });
        self.wanted_since = match (self.want, self.wanted_since) {
            (Resize::Shrink | Resize::Yield { .. }, Some((kind, since))) if kind == yields => {
                Some((kind, since))
            }
            (Resize::Shrink | Resize::Yield { .. }, _) => Some((yields, now)),
            _ => None,
        };
        if terms.killed || self.view.available[0] < self.sample.kernel.high {
            self.frozen_until = now + FREEZE;
        }
        if self.want == Resize::Stay {
            self.guard = Guard::None;
        }
    }

    /// Lets user memory borrow from the kernel region if it is short, or is about to be: at the
    /// present rate used up within seconds, with less than a quarter of its zone left.
    fn lend(&mut self, terms: &Terms) {
        let movable = self.sample.movable;
        let user = movable.usable();
        let used = self.user_before.map_or(0, |before| before.saturating_sub(user));
        self.user_before = Some(user);
        let lasts = user as f64 * terms.changed_in / used.max(1) as f64;
        let ends = used > 0 && terms.seconds > 0.0 && lasts < SOON;
        let soon = ends && user < movable.managed / 4 && !terms.busy;
        if soon || self.view.available[1] < self.view.low[1] {
            self.borrow_until = terms.now + BORROW;
        }
    }

    /// Makes kswapd free room in the movable zone if the kernel region is about to grow. A growth
    /// into a full zone reclaims frame by frame as it migrates, and all allocating tasks wait.
    fn make_room(&mut self, grow_at: u64, terms: &Terms) {
        let soon = grow_at + (self.recent * ROOM_AHEAD) as u64;
        let grows = self.recent > NOTICED * terms.block_frames as f64
            && self.view.available[0] < soon
            || matches!(self.want, Resize::Grow { .. });
        if self.set_up && grows && self.has_movable() {
            self.room_until = terms.now + ROOM;
        }
    }

    /// Its state, for reports.
    pub(super) fn report(&self) -> NodeReport {
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
