//! One server's life.

use std::collections::VecDeque;

use frames::placement::{Placement, Request, gfp};
use frames::table::{Owner, mobility_of};
use frames::{FrameTable, Layout, MigrateType, Order, ZoneKind};

use super::demand::{Owners, Population};
use super::workload::Workload;
use crate::machine::random::Random;

/// Seconds of a day.
pub(super) const DAY: f64 = 86_400.0;
/// Seconds between two looks at what came and went.
const STEP: f64 = 30.0;
/// Blocks that one source of requests takes in a row, at most.
const BURST: u64 = 32;
/// Blocks that are fetched into the cache before the first of them is freed.
const AHEAD: usize = 32;
/// Operations between two wake-ups of the system's own upkeep.
const MAINTENANCE_EVERY: u64 = 1024;
/// Frames that a failed request reclaims before it tries again, and how often it tries.
const RECLAIM_FRAMES: u64 = 1024;
const RETRIES: u32 = 16;

/// What went wrong, as counts of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// Requests for kernel memory.
    pub kernel: u64,
    /// Requests of programs, small pages.
    pub movable: u64,
    /// Of programs, huge pages; small ones came in their place.
    pub huge: u64,
    /// Pins.
    pub pin: u64,
}

/// A program.
#[derive(Clone, Debug)]
struct Job {
    /// Frames that it will have.
    size: u64,
    /// Frames that it still wants.
    wanted: u64,
    /// Frames that it takes in a step.
    pace: u64,
    ends: f64,
    blocks: Vec<(Owner, Order)>,
    /// Page tables.
    tables: Vec<Owner>,
}

/// A server under one system.
pub(super) struct Server<'a, P> {
    workload: &'a Workload,
    pub(super) table: FrameTable,
    pub(super) placement: P,
    owners: Owners,
    random: Random,
    pub(super) frames: u64,
    pub(super) free: u64,
    /// Reclaim starts below the first and stops at the second.
    marks: (u64, u64),
    kernel: Vec<Population>,
    jobs: Vec<Job>,
    /// Pages of files, oldest first.
    cache: VecDeque<(Owner, Order)>,
    /// Frames of them.
    cached: u64,
    /// Programs' small pages and those of files come in blocks of this order where there are any.
    granule: Order,
    phase: f64,
    /// Seconds since boot.
    now: f64,
    operations: u64,
    /// Allocations and frees so far.
    pub(super) allocations: u64,
    pub(super) failures: Failures,
}

impl<'a, P: Placement> Server<'a, P> {
    /// A machine that has just booted.
    pub(super) fn boot(
        workload: &'a Workload,
        layout: &Layout,
        mut placement: P,
        mut random: Random,
        granule: Order,
    ) -> Server<'a, P> {
        let frames: u64 = layout.zones().iter().map(|zone| zone.span.managed).sum();
        let bound = (frames * 2).min(u64::from(u32::MAX) - 1);
        let mut table = FrameTable::with_owners(layout.frames(), bound);
        for zone in layout.zones() {
            let mut at = zone.start;
            while at < zone.end {
                let fits = |&order: &Order| {
                    at.align_down(order) == at && at.offset(order.frames()) <= zone.end
                };
                let order = Order::up_to(Order::LARGEST_FREE).rev().find(fits);
                let order = order.expect("a single frame fits");
                table.add_memory(at, order);
                placement.seed(&mut table, at, order);
                at = at.offset(order.frames());
            }
        }
        placement.start(&mut table);
        let sum = |of: fn(&frames::layout::Watermarks) -> u64| {
            layout.zones().iter().map(|zone| of(&zone.span.watermarks)).sum::<u64>()
        };
        let phase = random.share() * DAY;
        let mut server = Server {
            kernel: populations(workload, frames),
            workload,
            table,
            placement,
            owners: Owners::new(bound),
            random,
            frames,
            free: frames,
            marks: (sum(|marks| marks.low), sum(|marks| marks.high)),
            jobs: Vec::new(),
            cache: VecDeque::new(),
            cached: 0,
            granule,
            phase,
            now: 0.0,
            operations: 0,
            allocations: 0,
            failures: Failures::default(),
        };
        for _ in 0..(workload.boot * frames as f64) as u64 {
            server.allocate(Order::BASE, MigrateType::Unmovable, gfp::KERNEL);
        }
        server
    }

    /// Lives until `seconds` after boot.
    pub(super) fn live_until(&mut self, seconds: f64) {
        while self.now < seconds {
            self.now += STEP;
            self.step(self.now);
        }
    }

    fn step(&mut self, now: f64) {
        self.end_jobs(now);
        for kind in 0..self.kernel.len() {
            while let Some((owner, order)) = self.kernel[kind].due(now) {
                self.release(owner, order);
            }
        }
        self.start_jobs(now);
        self.satisfy(now);
    }

    /// The load at an instant, 1 on average.
    fn load(&self, now: f64) -> f64 {
        let angle = std::f64::consts::TAU * (now + self.phase) / DAY;
        1.0 + self.workload.diurnal * angle.sin()
    }

    fn end_jobs(&mut self, now: f64) {
        let jobs = std::mem::take(&mut self.jobs);
        let (ended, left): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.ends <= now);
        self.jobs = left;
        for mut job in ended {
            job.blocks.extend(job.tables.into_iter().map(|owner| (owner, Order::BASE)));
            for some in job.blocks.chunks(AHEAD) {
                self.touch(some.iter().copied());
                some.iter().for_each(|&(owner, order)| self.release(owner, order));
            }
        }
    }

    /// Starts programs until they want what the load calls for.
    fn start_jobs(&mut self, now: f64) {
        let wanted = self.workload.jobs.share * self.load(now) * self.frames as f64;
        let mut have: u64 = self.jobs.iter().map(|job| job.size).sum();
        loop {
            let jobs = &self.workload.jobs;
            let frames = (jobs.size.sample(&mut self.random) / 4096.0) as u64;
            // No program is larger than what all of them are to have.
            let frames = frames.clamp(512, wanted as u64 / 2 + 512);
            if have + frames / 2 > wanted as u64 {
                return;
            }
            have += frames;
            let growth = (jobs.growth.sample(&mut self.random) / 1e9).max(STEP);
            self.jobs.push(Job {
                size: frames,
                wanted: frames,
                pace: ((frames as f64 * STEP / growth) as u64).max(512),
                ends: now + jobs.lifetime.sample(&mut self.random) / 1e9,
                blocks: Vec::new(),
                tables: Vec::new(),
            });
        }
    }

    /// Gives each source what it asks for in this step, in bursts that take turns by chance.
    fn satisfy(&mut self, now: f64) {
        let load = self.load(now);
        let reads = self.workload.reads_per_hour * load * self.frames as f64 * STEP / (DAY / 24.0);
        let mut asks: Vec<(Source, u64)> = vec![(Source::Files, reads as u64)];
        for (at, kind) in self.kernel.iter().enumerate() {
            let short = (kind.target * load) as u64;
            asks.push((Source::Kernel(at), short.saturating_sub(kind.frames)));
        }
        for (at, job) in self.jobs.iter().enumerate() {
            asks.push((Source::Job(at), job.wanted.min(job.pace)));
        }
        asks.retain(|&(_, frames)| frames > 0);
        while !asks.is_empty() {
            let which = self.random.below(asks.len() as u64) as usize;
            let burst = 1 + self.random.below(BURST);
            let (source, left) = &mut asks[which];
            let given = self.burst(*source, burst, *left, now);
            *left = left.saturating_sub(given);
            if *left == 0 || given == 0 {
                asks.swap_remove(which);
            }
        }
    }

    /// Up to `blocks` requests of one source; returns the frames that it has got.
    fn burst(&mut self, source: Source, blocks: u64, frames: u64, now: f64) -> u64 {
        let mut given = 0;
        if let Source::Files = source {
            return self.read(frames.min(blocks.max(self.granule.frames())));
        }
        for _ in 0..blocks {
            if given >= frames {
                break;
            }
            let got = match source {
                Source::Files => break,
                Source::Kernel(kind) => self.feed(kind, now),
                Source::Job(job) => self.fault(job),
            };
            if got == 0 {
                break;
            }
            given += got;
        }
        given
    }

    /// Reads ahead: up to `frames` of a file, in granules or in single pages.
    fn read(&mut self, frames: u64) -> u64 {
        let mut given = 0;
        while given < frames {
            let Some((owner, order)) = self.user_pages(frames - given) else { break };
            self.cache.push_back((owner, order));
            self.cached += order.frames();
            given += order.frames();
        }
        given
    }

    /// A granule of user memory if one is wanted and there is one, or a page.
    fn user_pages(&mut self, wanted: u64) -> Option<(Owner, Order)> {
        let granule = self.granule;
        if granule > Order::BASE && wanted >= granule.frames() {
            // What there is none of comes as single pages, which fit into every hole.
            let light = gfp::KERNEL & !gfp::DIRECT_RECLAIM;
            if let Some(owner) = self.allocate(granule, MigrateType::Movable, light) {
                return Some((owner, granule));
            }
        }
        let owner = self.allocate(Order::BASE, MigrateType::Movable, gfp::KERNEL)?;
        Some((owner, Order::BASE))
    }

    fn feed(&mut self, kind: usize, now: f64) -> u64 {
        let order = self.kernel[kind].next_order(&mut self.random);
        let Population { migrate_type, pinned, .. } = self.kernel[kind];
        let Some(owner) = self.allocate(order, migrate_type, gfp::KERNEL) else {
            let failed =
                if pinned { &mut self.failures.movable } else { &mut self.failures.kernel };
            *failed += 1;
            return 0;
        };
        if pinned && !self.placement.pin_block(&mut self.table, owner, order) {
            self.failures.pin += 1;
            self.release(owner, order);
            return 0;
        }
        self.kernel[kind].hold(owner, order, now, &mut self.random);
        order.frames()
    }

    /// A program touches what one page table maps.
    fn fault(&mut self, job: usize) -> u64 {
        let Some(table) = self.allocate(Order::BASE, MigrateType::Unmovable, gfp::KERNEL) else {
            self.failures.kernel += 1;
            return 0;
        };
        self.jobs[job].tables.push(table);
        let wanted = self.jobs[job].wanted.min(Order::HUGE.frames());
        if wanted == Order::HUGE.frames() && self.random.share() < self.workload.jobs.huge {
            // As a fault does whose program did not ask for huge pages: without waiting.
            let light = gfp::KERNEL & !gfp::DIRECT_RECLAIM;
            if let Some(owner) = self.allocate(Order::HUGE, MigrateType::Movable, light) {
                self.jobs[job].blocks.push((owner, Order::HUGE));
                self.jobs[job].wanted -= wanted;
                return wanted;
            }
            self.failures.huge += 1;
        }
        let mut given = 0;
        while given < wanted {
            let Some((owner, order)) = self.user_pages(wanted - given) else {
                self.failures.movable += 1;
                break;
            };
            self.jobs[job].blocks.push((owner, order));
            given += order.frames();
        }
        self.jobs[job].wanted -= given;
        given
    }

    /// Asks the system for a block; reclaims first where memory is short, and again where the
    /// request may wait and finds nothing.
    fn allocate(&mut self, order: Order, migrate_type: MigrateType, flags: u32) -> Option<Owner> {
        if self.free < self.marks.0 + order.frames() {
            self.reclaim(self.marks.1 + order.frames() - self.free);
        }
        let owner = self.owners.take(order)?;
        let movable = migrate_type == MigrateType::Movable;
        let request = Request {
            order,
            migrate_type,
            mobility: mobility_of(migrate_type),
            highest_zone: if movable { ZoneKind::Movable } else { ZoneKind::Normal },
            cpu: (self.operations / BURST % 16) as u16,
            gfp_flags: flags,
            ..Request::default()
        };
        let mut tries = if flags & gfp::DIRECT_RECLAIM != 0 { RETRIES } else { 0 };
        loop {
            self.pass(order);
            if self.placement.allocate(&mut self.table, &request, owner).is_some() {
                self.free -= order.frames();
                self.allocations += 1;
                return Some(owner);
            }
            if tries == 0 || !self.reclaim(RECLAIM_FRAMES) {
                self.owners.give(owner, order);
                return None;
            }
            tries -= 1;
        }
    }

    /// Frees all parts of a block.
    fn release(&mut self, owner: Owner, order: Order) {
        let mut at = owner;
        while at < owner + order.frames() as Owner {
            let frame = self.table.block_of(at).expect("what is held lies somewhere");
            let frames = self.table.order(frame).frames();
            self.pass(self.table.order(frame));
            // The upkeep may have moved it.
            let frame = self.table.block_of(at).expect("it was not freed");
            let frames = self.table.order(frame).frames().min(frames);
            let cpu = (self.operations / BURST % 16) as u16;
            self.placement.free(&mut self.table, frame, cpu);
            self.free += frames;
            at += frames as Owner;
        }
        self.owners.give(owner, order);
    }

    /// Counts what a block of `order` stands for, and lets the system do its upkeep from time to
    /// time. A large block of programs is one operation, a granule as many as it has pages.
    fn pass(&mut self, order: Order) {
        let before = self.operations / MAINTENANCE_EVERY;
        self.operations += if order <= self.granule { order.frames() } else { 1 };
        if self.operations / MAINTENANCE_EVERY > before {
            self.placement.maintain(&mut self.table);
        }
    }

    /// Fetches what freeing some blocks will need into the cache, all at once.
    fn touch(&self, blocks: impl Iterator<Item = (Owner, Order)>) {
        let (mut owners, mut count) = ([0; AHEAD], 0);
        for ((owner, _), to) in blocks.zip(&mut owners) {
            self.table.prefetch_location(owner);
            (*to, count) = (owner, count + 1);
        }
        owners[..count].iter().for_each(|&owner| self.table.prefetch_block(owner));
    }

    /// Gives back at least `frames` of file pages, oldest first, or of reclaimable kernel memory
    /// if there are none; returns whether anything was.
    fn reclaim(&mut self, frames: u64) -> bool {
        let wanted = self.free + frames;
        let before = self.free;
        // Each page is kept once more at most, so that this ends.
        let mut looks = 4 * frames;
        let mut until_touch = 0;
        while self.free < wanted {
            if until_touch == 0 {
                self.touch(self.cache.iter().take(AHEAD).copied());
                until_touch = AHEAD;
            }
            until_touch -= 1;
            if looks > 0
                && let Some((owner, order)) = self.cache.pop_front()
            {
                looks = looks.saturating_sub(order.frames());
                if self.random.share() < self.workload.used_again {
                    self.cache.push_back((owner, order));
                } else {
                    self.cached -= order.frames();
                    self.release(owner, order);
                }
                continue;
            }
            let reclaimable = |kind: &&mut Population| {
                kind.migrate_type == MigrateType::Reclaimable && kind.frames > 0
            };
            let Some(kind) = self.kernel.iter_mut().find(reclaimable) else { break };
            let (owner, order) = kind.give_one().expect("it has frames");
            self.release(owner, order);
        }
        self.free > before
    }
}

/// Kernel memory of every kind, then what is pinned.
fn populations(workload: &Workload, frames: u64) -> Vec<Population> {
    let kernel = workload.kernel.iter().map(|kind| Population::new(kind, frames, false));
    let pinned = workload.pinned.iter().map(|kind| Population::new(kind, frames, true));
    kernel.chain(pinned).collect()
}

/// Who asks for memory.
#[derive(Clone, Copy, Debug)]
enum Source {
    Files,
    /// A kind of kernel memory, by number.
    Kernel(usize),
    /// A program, by number.
    Job(usize),
}

impl<P: Placement> Server<'_, P> {
    /// Compares what the server believes with the table, and the placement with both.
    ///
    /// # Panics
    /// If they contradict each other.
    pub(super) fn validate(&self) {
        self.placement.validate(&self.table);
        let free: u64 = self.table.blocks().iter().map(|block| u64::from(block.free)).sum();
        assert_eq!(free, self.free, "free frames");
        let jobs = self.jobs.iter().map(|job| {
            let blocks: u64 = job.blocks.iter().map(|(_, order)| order.frames()).sum();
            blocks + job.tables.len() as u64
        });
        let kernel: u64 = self.kernel.iter().map(|kind| kind.frames).sum();
        let boot = (self.workload.boot * self.frames as f64) as u64;
        let held = jobs.sum::<u64>() + kernel + boot + self.cached;
        assert_eq!(held + free, self.frames, "every frame is free or somebody's");
    }
}
