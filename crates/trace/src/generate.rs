//! Made-up event streams of any length, the same for the same seed.
//!
//! They exist to measure with: a billion events to stream, a machine of 1 TiB to fill. They obey
//! the page allocator's rules (a block is allocated once, aligned, and freed whole) but they are no
//! model of a workload; conclusions come from recordings.

use prairie_frames::{MigrateType, Order, Pfn};

use crate::random::SplitMix64;
use crate::{Event, EventKind, EventSource, GfpFlags, Result, StackId, Texts};

/// Adjacent blocks, as in one refill of a per-CPU list.
const RUN: u64 = 64;

/// Among how many of the youngest blocks a short-lived one is picked.
const YOUNG: u64 = 64;

/// A prime beyond the number of runs in any machine, so that multiplying by it visits all of them.
const STRIDE: u64 = (1 << 31) - 1;

/// A synthetic workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Frames of the machine. Blocks are spread over all of them.
    pub frames: u64,
    /// Frames in use once the stream has warmed up; at most half of `frames`.
    pub working_set: u64,
    /// How often each order is asked for, by weight.
    pub orders: Vec<(Order, u32)>,
    /// The share of allocations that are unmovable.
    pub unmovable: f64,
    /// The share of allocations that are reclaimable; the rest are movable.
    pub reclaimable: f64,
    /// The share of frees that take one of the youngest blocks; the others take any.
    pub short_lived: f64,
    /// CPUs that events are spread over.
    pub cpus: u16,
    /// Mean time between events in nanoseconds.
    pub interval_ns: u64,
    /// What makes this stream differ from another one.
    pub seed: u64,
}

impl Workload {
    /// A workload of mostly single frames, as file systems and processes cause, with one
    /// allocation in 500 a huge page and half of the machine in use.
    pub fn typical(frames: u64, seed: u64) -> Workload {
        let order = |j| Order::new(j).expect("below the limit");
        Workload {
            frames,
            working_set: frames / 2,
            orders: vec![
                (order(0), 900),
                (order(1), 40),
                (order(2), 30),
                (order(3), 28),
                (order(9), 2),
            ],
            unmovable: 0.2,
            reclaimable: 0.1,
            short_lived: 0.7,
            cpus: 2,
            interval_ns: 1000,
            seed,
        }
    }

    /// The stream. It does not end; take as many events as are wanted.
    ///
    /// Memory: 12 bytes for each block of the working set, whatever the stream's length.
    ///
    /// # Panics
    /// If no order is given, or the machine is too small to hold one run of each.
    pub fn events(&self) -> Generated {
        Generated::new(self.clone())
    }
}

/// The frames that serve one order: numbered slots, some of them in use.
#[derive(Clone, Debug)]
struct Pool {
    order: Order,
    start: u64,
    runs: u64,
    /// Slots from here on were never used.
    fresh: u32,
    /// Slots that were used and freed.
    freed: Vec<u32>,
}

impl Pool {
    fn take(&mut self) -> Option<u32> {
        if let Some(slot) = self.freed.pop() {
            return Some(slot);
        }
        let fresh = (u64::from(self.fresh) < self.runs * RUN).then_some(self.fresh)?;
        self.fresh += 1;
        Some(fresh)
    }

    fn pfn(&self, slot: u32) -> Pfn {
        let (run, place) = (u64::from(slot) / RUN, u64::from(slot) % RUN);
        let scattered = run * STRIDE % self.runs;
        Pfn(self.start + (scattered * RUN + place) * self.order.frames())
    }
}

/// The stream of a [`Workload`].
#[derive(Clone, Debug)]
pub struct Generated {
    workload: Workload,
    random: SplitMix64,
    pools: Vec<Pool>,
    /// Cumulated weights of the pools' orders.
    weights: Vec<u64>,
    /// Blocks in use, oldest first as far as frees have not mixed them: pool and slot.
    live: Vec<(u8, u32)>,
    live_frames: u64,
    now_ns: u64,
}

impl Generated {
    fn new(workload: Workload) -> Generated {
        assert!(!workload.orders.is_empty(), "a workload asks for at least one order");
        let frames_of =
            |&(order, weight): &(Order, u32)| u128::from(weight) * u128::from(order.frames());
        let all: u128 = workload.orders.iter().map(frames_of).sum();
        let (mut pools, mut weights) = (Vec::new(), Vec::new());
        let (mut start, mut weight) = (0, 0);
        for entry in &workload.orders {
            let order = entry.0;
            start = Pfn(start + order.frames() - 1).align_down(order).0;
            let share = (u128::from(workload.frames) * frames_of(entry) / all) as u64;
            let runs = (share.saturating_sub(order.frames()) / (RUN * order.frames())).min(1 << 25);
            assert!(runs > 0, "{} frames hold no run of order {order}", workload.frames);
            pools.push(Pool { order, start, runs, fresh: 0, freed: Vec::new() });
            start += runs * RUN * order.frames();
            weight += u64::from(entry.1);
            weights.push(weight);
        }
        let random = SplitMix64::new(workload.seed);
        Generated { workload, random, pools, weights, live: Vec::new(), live_frames: 0, now_ns: 0 }
    }

    fn alloc(&mut self) -> Option<EventKind> {
        let at = self.random.below(*self.weights.last()?);
        let pool = self.weights.iter().position(|&w| at < w)?;
        let slot = self.pools[pool].take()?;
        self.live.push((pool as u8, slot));
        let (pfn, order) = (self.pools[pool].pfn(slot), self.pools[pool].order);
        self.live_frames += order.frames();
        let share = self.random.share();
        let (migrate_type, gfp) = if share < self.workload.unmovable {
            (MigrateType::Unmovable, GfpFlags(0))
        } else if share < self.workload.unmovable + self.workload.reclaimable {
            (MigrateType::Reclaimable, GfpFlags::RECLAIMABLE)
        } else {
            (MigrateType::Movable, GfpFlags::MOVABLE.with(GfpFlags::HIGHMEM))
        };
        Some(EventKind::Alloc { pfn, order, migrate_type, gfp, stack: StackId::NONE })
    }

    fn free(&mut self) -> Option<EventKind> {
        let blocks = self.live.len() as u64;
        if blocks == 0 {
            return None;
        }
        let young = self.random.share() < self.workload.short_lived;
        let among = if young { blocks.min(YOUNG) } else { blocks };
        let victim = blocks - 1 - self.random.below(among);
        let (pool, slot) = self.live.swap_remove(victim as usize);
        let pool = &mut self.pools[pool as usize];
        pool.freed.push(slot);
        self.live_frames -= pool.order.frames();
        Some(EventKind::Free { pfn: pool.pfn(slot), order: pool.order })
    }
}

impl Iterator for Generated {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let grow = self.live_frames < self.workload.working_set;
        // Two allocations a free while the working set fills, and the reverse beyond it.
        let allocate = self.random.below(3) < if grow { 2 } else { 1 };
        let what = if allocate {
            self.alloc().or_else(|| self.free())
        } else {
            self.free().or_else(|| self.alloc())
        };
        self.now_ns += 1 + self.random.below(2 * self.workload.interval_ns.max(1));
        let cpu = self.random.below(self.workload.cpus.max(1).into()) as u16;
        Some(Event { time_ns: self.now_ns, pid: 1 + i32::from(cpu), cpu, what: what? })
    }
}

/// Any iterator of events as an [`EventSource`], for those who take one.
#[derive(Clone, Debug)]
pub struct Batches<I> {
    events: I,
    batch: Vec<Event>,
    texts: Texts,
}

impl<I: Iterator<Item = Event>> Batches<I> {
    /// The events of `events`, whose texts are in `texts`.
    pub fn new(events: I, texts: Texts) -> Batches<I> {
        Batches { events, batch: Vec::with_capacity(4096), texts }
    }
}

impl<I: Iterator<Item = Event>> EventSource for Batches<I> {
    fn next_batch(&mut self) -> Result<Option<&[Event]>> {
        self.batch.clear();
        self.batch.extend(self.events.by_ref().take(4096));
        Ok((!self.batch.is_empty()).then_some(&self.batch))
    }

    fn texts(&self) -> &Texts {
        &self.texts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the stream with a bitmap: nothing is allocated twice, and only blocks in use are
    /// freed.
    #[test]
    fn the_stream_obeys_the_allocator() {
        let workload = Workload::typical(1 << 20, 7);
        let mut used = vec![false; workload.frames as usize];
        let (mut allocs, mut frees) = (0, 0);
        for event in workload.events().take(600_000) {
            let (pfn, order, now) = match event.what {
                EventKind::Alloc { pfn, order, .. } => (pfn, order, true),
                EventKind::Free { pfn, order } => (pfn, order, false),
                other => panic!("{other:?}"),
            };
            assert!(pfn.is_aligned(order));
            for frame in &mut used[pfn.0 as usize..(pfn.0 + order.frames()) as usize] {
                assert_eq!(*frame, !now);
                *frame = now;
            }
            if now { allocs += 1 } else { frees += 1 }
        }
        let in_use = used.iter().filter(|&&u| u).count() as u64;
        assert!(allocs > frees && frees > 200_000, "{allocs} allocations, {frees} frees");
        assert!(in_use > 100_000 && in_use <= workload.working_set + 4096, "{in_use} in use");
    }

    #[test]
    fn a_seed_means_one_stream() {
        let stream =
            |seed| Workload::typical(1 << 20, seed).events().take(1000).collect::<Vec<_>>();
        assert_eq!(stream(1), stream(1));
        assert_ne!(stream(1), stream(2));
    }
}
