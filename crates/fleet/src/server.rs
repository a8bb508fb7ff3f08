//! One server's life.

mod jobs;
mod kernel;
mod reclaim;

use std::collections::VecDeque;

use prairie_frames::placement::{Placement, Request, Surroundings, gfp};
use prairie_frames::table::{Owner, mobility_of};
use prairie_frames::{FrameTable, Layout, MigrateType, Order, ZoneKind};

use self::jobs::Job;
use self::kernel::PlacesByOwner;
use super::demand::{Owners, PageOwners, Pages, Population};
use prairie_model::random::Random;
use prairie_sim::workload::Workload;

/// Seconds of a day.
pub(super) const DAY: f64 = 86_400.0;
/// Seconds in a step.
const STEP: f64 = 30.0;
/// Blocks that one source of requests takes in a row, at most.
const BURST: u64 = 32;
/// CPUs that take turns.
const CPUS: u64 = 16;
/// How many list entries ahead pages are prefetched: their locations, then what freeing them
/// touches.
const AHEAD: [usize; 2] = [8, 4];
/// Operations between two wake-ups of the system's own upkeep.
const MAINTENANCE_EVERY: u64 = 1024;

/// Frames that a zone keeps free, by the highest zone of the request.
type Reserves = [u64; ZoneKind::ALL.len()];

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

/// A server under one system.
pub(super) struct Server<'a, P> {
    workload: &'a Workload,
    pub(super) table: FrameTable,
    pub(super) placement: P,
    /// Of blocks, and of single pages for programs and files.
    owners: Owners,
    page_owners: PageOwners,
    random: Random,
    pub(super) frames: u64,
    pub(super) free: u64,
    /// Reclaim starts below the first and stops at the second.
    marks: (u64, u64),
    /// Of each zone.
    reserves: Vec<Reserves>,
    kernel: Vec<Population>,
    stacks: PlacesByOwner,
    jobs: Vec<Job>,
    /// Reads of files, oldest first: of each the pages that it brought at once.
    cache: VecDeque<Pages>,
    /// How many pages there are.
    cached: u64,
    cpu: u16,
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
    ) -> Server<'a, P> {
        let frames: u64 = layout.zones().iter().map(|zone| zone.span.managed).sum();
        // Twice as many numbers as frames, so that long runs of free numbers exist.
        let (of_pages, bound) = (frames * 2, (frames * 4).min(u64::from(u32::MAX) - 1));
        let mut table = FrameTable::with_owners(layout.frames(), bound);
        placement.boot(&mut table, layout);
        let sum = |of: fn(&prairie_frames::layout::Watermarks) -> u64| {
            layout.zones().iter().map(|zone| of(&zone.span.watermarks)).sum::<u64>()
        };
        let phase = random.share() * DAY;
        let mut server = Server {
            kernel: kernel::populations(workload, frames),
            stacks: PlacesByOwner::default(),
            workload,
            table,
            placement,
            owners: Owners::new(of_pages, bound),
            page_owners: PageOwners::new(of_pages),
            random,
            frames,
            free: frames,
            marks: (sum(|marks| marks.low), sum(|marks| marks.high)),
            reserves: layout.zones().iter().map(|zone| zone.span.lowmem_reserve).collect(),
            jobs: Vec::new(),
            cache: VecDeque::new(),
            cached: 0,
            cpu: 0,
            phase,
            now: 0.0,
            operations: 0,
            allocations: 0,
            failures: Failures::default(),
        };
        for _ in 0..(workload.boot * frames as f64) as u64 {
            let request = server.request(Order::BASE, MigrateType::Unmovable, gfp::KERNEL);
            server.allocate_as(Request { permanent: true, ..request });
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
            self.change_cpu();
            while let Some((owner, order)) = self.kernel[kind].due(now) {
                let ahead = AHEAD.map(|distance| self.kernel[kind].ahead(distance));
                fetch_ahead(
                    &self.table,
                    ahead.map(|owner| Some(Pages { owner: owner?, count: 1 })),
                );
                self.release(owner, order);
                self.stacks.give(owner);
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
        self.change_cpu();
        let mut given = 0;
        if let Source::Files = source {
            return self.read(frames.min(blocks));
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

    /// Reads up to `frames` of a file, which reclaim will look at together.
    fn read(&mut self, frames: u64) -> u64 {
        let mut given = 0;
        while given < frames {
            let Some(pages) = self.take_pages(frames - given) else { break };
            self.cache.push_back(pages);
            given += u64::from(pages.count);
        }
        self.cached += given;
        given
    }

    /// A program touches what one page table maps.
    fn fault(&mut self, job: usize) -> u64 {
        let Some(table) = self.allocate(Order::BASE, MigrateType::Unmovable, gfp::KERNEL) else {
            self.failures.kernel += 1;
            return 0;
        };
        self.jobs[job].page_tables.push(table);
        let wanted = self.jobs[job].wanted.min(Order::HUGE.frames());
        if wanted == Order::HUGE.frames() && self.random.share() < self.workload.jobs.huge {
            // As a fault does whose program did not ask for huge pages: without waiting.
            let light = gfp::KERNEL & !gfp::DIRECT_RECLAIM;
            if let Some(owner) = self.allocate(Order::HUGE, MigrateType::Movable, light) {
                self.jobs[job].huge_pages.push(owner);
                self.jobs[job].wanted -= wanted;
                return wanted;
            }
            self.failures.huge += 1;
        }
        let mut given = 0;
        while given < wanted {
            let Some(pages) = self.take_pages(wanted - given) else {
                self.failures.movable += 1;
                break;
            };
            self.jobs[job].pages.push(pages);
            given += u64::from(pages.count);
        }
        self.jobs[job].wanted -= given;
        given
    }

    /// Single pages for a program or a file, up to `wanted`: those that come before anything else
    /// happens, be it reclaim or upkeep. `None` if there is not even one.
    fn take_pages(&mut self, wanted: u64) -> Option<Pages> {
        let request = self.request(Order::BASE, MigrateType::Movable, gfp::KERNEL);
        self.keep_free(&request);
        let until_upkeep = MAINTENANCE_EVERY - 1 - self.operations % MAINTENANCE_EVERY;
        let until_reclaim = self.available(&request).saturating_sub(self.marks.0);
        let most = wanted.min(until_upkeep).min(until_reclaim).max(1);
        let Pages { owner, count } = self.page_owners.take(most as u32)?;
        self.pass(u64::from(count));
        let mut came = self.placement.allocate_singles(&mut self.table, &request, owner, count);
        self.operations -= u64::from(count - came.max(1));
        if came == 0 && self.try_again(&request, owner) {
            came = 1;
        }
        if came < count {
            self.page_owners.give(Pages { owner: owner + came, count: count - came });
        }
        self.free -= u64::from(came);
        self.allocations += u64::from(came);
        (came > 0).then_some(Pages { owner, count: came })
    }

    /// Asks the system for a block.
    fn allocate(&mut self, order: Order, migrate_type: MigrateType, flags: u32) -> Option<Owner> {
        self.allocate_as(self.request(order, migrate_type, flags))
    }

    fn allocate_as(&mut self, request: Request) -> Option<Owner> {
        let owner = self.owners.take(request.order)?;
        if self.place(&request, owner) {
            return Some(owner);
        }
        self.owners.give(owner, request.order);
        None
    }

    /// Asks the system for a block for these owners; returns whether it came.
    fn place(&mut self, request: &Request, owner: Owner) -> bool {
        self.keep_free(request);
        self.pass(1);
        if self.placement.allocate(&mut self.table, request, owner).is_none()
            && !self.try_again(request, owner)
        {
            return false;
        }
        self.free -= request.order.frames();
        self.allocations += 1;
        true
    }

    fn request(&self, order: Order, migrate_type: MigrateType, flags: u32) -> Request {
        let movable = migrate_type == MigrateType::Movable;
        Request {
            order,
            migrate_type,
            mobility: mobility_of(migrate_type),
            highest_zone: if movable { ZoneKind::Movable } else { ZoneKind::Normal },
            cpu: self.cpu,
            gfp_flags: flags,
            ..Request::default()
        }
    }

    /// Hands over to the CPU whose turn it is. A burst of requests comes from one CPU, and so does
    /// memory that a program frees at its end.
    fn change_cpu(&mut self) {
        self.cpu = (self.operations / BURST % CPUS) as u16;
    }

    /// Frees all parts of a block.
    fn release(&mut self, owner: Owner, order: Order) {
        self.release_parts(owner, order);
        self.owners.give(owner, order);
    }

    fn release_parts(&mut self, owner: Owner, order: Order) {
        let mut at = owner;
        while at < owner + order.frames() as Owner {
            // Upkeep may move a block, or break it up.
            self.pass(1);
            let frame = self.table.block_of(at).expect("what is held lies somewhere");
            let frames = self.table.order(frame).frames();
            self.placement.free(&mut self.table, frame, self.cpu);
            self.free += frames;
            at += frames as Owner;
        }
    }

    /// Frees single pages.
    fn give_back(&mut self, list: &[Pages]) {
        for (at, pages) in list.iter().enumerate() {
            let ahead = AHEAD.map(|distance| list.get(at + distance).copied());
            fetch_ahead(&self.table, ahead);
            self.release_pages(*pages);
        }
    }

    /// Frees pages with consecutive numbers, together as long as no upkeep is due.
    fn release_pages(&mut self, pages: Pages) {
        let (mut at, end) = (pages.owner, pages.owner + pages.count);
        while at < end {
            let until_upkeep = MAINTENANCE_EVERY - 1 - self.operations % MAINTENANCE_EVERY;
            let count = (end - at).min(until_upkeep.max(1) as u32);
            self.pass(u64::from(count));
            self.placement.free_singles(&mut self.table, at..at + count, self.cpu);
            at += count;
        }
        self.free += u64::from(pages.count);
        self.page_owners.give(pages);
    }

    /// Counts operations, and lets the system do its upkeep from time to time.
    fn pass(&mut self, operations: u64) {
        let before = self.operations / MAINTENANCE_EVERY;
        self.operations += operations;
        if self.operations / MAINTENANCE_EVERY > before {
            let now_ns = (self.now * 1e9) as u64;
            self.placement.observe(Surroundings { now_ns, cache: self.cached });
            self.placement.maintain(&mut self.table);
        }
    }
}

/// Prefetches the locations of some pages, and the table entries that freeing others will touch.
fn fetch_ahead(table: &FrameTable, [far, near]: [Option<Pages>; 2]) {
    if let Some(pages) = far {
        table.prefetch_location(pages.owner);
    }
    if let Some(pages) = near {
        table.prefetch_owners(pages.owner..pages.owner + pages.count);
    }
}

/// The requester of memory.
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
            let pages: u64 = job.pages.iter().map(|pages| u64::from(pages.count)).sum();
            let huge = job.huge_pages.len() as u64 * Order::HUGE.frames();
            pages + huge + job.page_tables.len() as u64
        });
        let kernel: u64 = self.kernel.iter().map(|kind| kind.frames).sum();
        let boot = (self.workload.boot * self.frames as f64) as u64;
        let held = jobs.sum::<u64>() + kernel + boot + self.cached;
        assert_eq!(held + free, self.frames, "every frame is free or somebody's");
    }
}

#[cfg(test)]
mod tests;
