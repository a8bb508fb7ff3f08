//! The empirical driver (section 6.1): a synthetic program driven by random numbers.
//!
//! Objects are allocated as a Poisson process; an object of size a lives for an exponential time of
//! mean W(a) = c · p(a) / λ(a), where p(a) is its share of the live objects and λ(a) its rate of
//! allocation: by Little's law the live objects then have the wanted distribution (footnote 10).
//! The target heap size c may change over time; allocations or frees are then added at the rate at
//! which it changes.
//!
//! Between the objects and the page heap stands a central free list per size (`central`), as in
//! the paper's driver. The driver's output is a trace of page-heap calls.

mod central;
pub mod load;
pub mod sizes;

use prairie_trace::page_heap::{Call, Event};
use prairie_trace::random::SplitMix64;

use central::Central;
pub use load::Load;
pub use sizes::Sizes;

/// Settings of the driver.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The sizes that are live and that are allocated.
    pub sizes: Sizes,
    /// Live bytes where the load is 1.
    pub heap_bytes: f64,
    /// The target heap size over time, as a share of `heap_bytes`.
    pub load: Load,
    /// Allocation rate per second, as a share of `heap_bytes`.
    pub turnover: f64,
    /// Duration in seconds of the driver's own time.
    pub seconds: f64,
    /// Random seed: the same settings give the same trace.
    pub seed: u64,
}

/// One size while the driver runs.
struct Class {
    bytes: f64,
    /// Births in a second.
    birth_rate: f64,
    /// Share of live objects of this size of those that the target has, to bytes of the target.
    live_per_byte: f64,
    objects: Central,
}

/// A running driver: an iterator over page-heap calls.
pub struct Driver {
    classes: Vec<Class>,
    /// Running sums of birth rates, and of live objects wanted per byte of target.
    births: Vec<f64>,
    wanted: Vec<f64>,
    settings: Settings,
    random: SplitMix64,
    now: f64,
    /// Objects that the initial heap still lacks, in bytes.
    to_fill: f64,
    next_span: u64,
    objects_born: u64,
}

/// Something that happens to one object.
enum Change {
    Birth(usize),
    Death(usize),
}

impl Driver {
    /// A driver at its start.
    pub fn new(settings: Settings) -> Driver {
        let rate = settings.turnover * settings.heap_bytes;
        let classes: Vec<Class> = settings
            .sizes
            .entries()
            .iter()
            .map(|entry| Class {
                bytes: entry.bytes as f64,
                birth_rate: rate * entry.allocated / entry.bytes as f64,
                live_per_byte: entry.live / entry.bytes as f64,
                objects: Central::new(entry.bytes, settings.sizes.is_of_spans()),
            })
            .collect();
        Driver {
            births: running_sum(classes.iter().map(|class| class.birth_rate)),
            wanted: running_sum(classes.iter().map(|class| class.live_per_byte)),
            classes,
            random: SplitMix64::new(settings.seed),
            now: 0.0,
            to_fill: settings.load.at(0.0).0 * settings.heap_bytes,
            next_span: 0,
            objects_born: 0,
            settings,
        }
    }

    /// Live objects of each size, in the order of the sizes.
    pub fn live_objects(&self) -> Vec<usize> {
        self.classes.iter().map(|class| class.objects.live()).collect()
    }

    /// Objects allocated so far.
    pub fn objects_born(&self) -> u64 {
        self.objects_born
    }

    /// The next thing that happens to an object; time moves on to it. `None` at the end.
    fn next_change(&mut self) -> Option<Change> {
        if self.to_fill > 0.0 {
            let class = pick(&self.wanted, self.random.share());
            self.to_fill -= self.classes[class].bytes;
            return Some(Change::Birth(class));
        }
        let Settings { heap_bytes, seconds, .. } = self.settings;
        let (share, slope) = self.settings.load.at(self.now / seconds);
        let target = share * heap_bytes;
        let growth = slope * heap_bytes / seconds;
        let born = self.births.last().copied().unwrap_or(0.0);
        let wanted = self.wanted.last().copied().unwrap_or(0.0);
        let added = growth.max(0.0) * wanted;
        let died: f64 = self.death_rates(target).sum();
        let taken = (-growth).max(0.0) * wanted;
        let total = born + added + died + taken;
        self.now += self.random.exponential() / total;
        if self.now >= seconds {
            return None;
        }
        let mut at = self.random.share() * total;
        for (rate, of) in [(born, &self.births), (added, &self.wanted)] {
            if at < rate {
                return Some(Change::Birth(pick(of, at / rate)));
            }
            at -= rate;
        }
        let class = if at < died {
            pick_from(self.death_rates(target), at)
        } else {
            // What the target loses was live at random.
            let live = self.classes.iter().map(|class| class.objects.live() as f64);
            let all: f64 = live.clone().sum();
            pick_from(live, self.random.share() * all)
        };
        Some(Change::Death(class))
    }

    /// Deaths in a second of each size: live objects over mean lifetime.
    fn death_rates(&self, target: f64) -> impl Iterator<Item = f64> + '_ {
        let target = target.max(1.0);
        self.classes.iter().map(move |class| {
            let wanted = class.live_per_byte * target;
            // W = wanted / birth rate, by Little's law.
            class.objects.live() as f64 * class.birth_rate / wanted
        })
    }

    fn apply(&mut self, change: Change) -> Option<Call> {
        match change {
            Change::Birth(class) => {
                let objects = &mut self.classes[class].objects;
                self.objects_born += 1;
                let span = self.next_span;
                let created = objects.allocate(|| {
                    self.next_span += 1;
                    span
                });
                created.map(|pages| Call::New { span, pages: pages.0, align_log2: 0 })
            }
            Change::Death(class) => {
                let objects = &mut self.classes[class].objects;
                if objects.live() == 0 {
                    return None;
                }
                let victim = self.random.below(objects.live() as u64) as usize;
                objects.free(victim).map(|span| Call::Delete { span })
            }
        }
    }
}

impl Iterator for Driver {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            let change = self.next_change()?;
            if let Some(call) = self.apply(change) {
                return Some(Event { time_ns: (self.now * 1e9) as u64, call });
            }
        }
    }
}

fn running_sum(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sum = 0.0;
    values
        .map(|value| {
            sum += value;
            sum
        })
        .collect()
}

/// The entry of a running sum that a share of its total falls into.
fn pick(running: &[f64], share: f64) -> usize {
    let at = share * running.last().copied().unwrap_or(0.0);
    running.partition_point(|&sum| sum <= at).min(running.len() - 1)
}

/// The same for running sums; never a value of 0, unless all are.
fn pick_from(values: impl Iterator<Item = f64>, mut at: f64) -> usize {
    let mut last = 0;
    for (i, value) in values.enumerate() {
        if value <= 0.0 {
            continue;
        }
        last = i;
        if at < value {
            break;
        }
        at -= value;
    }
    last
}
