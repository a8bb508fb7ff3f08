//! The load: builds, their jobs, the page cache and the kernel's own memory, on one domain.

use std::collections::VecDeque;

use experiments::measure::one_zone;
use prairie_frames::compaction::Plain;
use prairie_frames::compaction::two_finger::compactd::Compactd;
use prairie_frames::kva::{self, kernel_page};
use prairie_frames::layout::Watermarks;
use prairie_frames::placement::freebsd::{Config, FreeBsd};
use prairie_frames::placement::{ObjectPage, Placement, Request};
use prairie_frames::table::{Owner, mobility_of};
use prairie_frames::{Frame, FrameTable, MigrateType, Order};

pub const FRAMES: u32 = 1 << 18;
const MIB: u32 = 256;
const JOBS: u32 = 100;
const JOB_MS: u64 = 500;
/// Pages of one of the kernel's own allocations, where they go through its address space.
const KERNEL_RUN: u64 = 4;

/// Where the kernel's lasting pages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Single pages of the direct map, as small slabs have them (`uma_small_alloc`).
    DirectMap,
    /// Runs of four pages of kernel address space, as larger slabs have them (`kmem_malloc`).
    Object,
}

/// What one run differs in from another.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub reservations: bool,
    pub kernel: Kernel,
    pub daemon: Option<Compactd>,
}

/// What a domain looks like at one instant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// FMFI(9) in thousandths.
    pub index: f64,
    /// Superpages in free blocks.
    pub free: f64,
    /// Superpages that lie in no free block but would if every movable page went elsewhere, as far as
    /// free memory goes.
    pub bound: f64,
    /// Superpages with at least one page that cannot move.
    pub polluted: f64,
    /// Of the jobs' memory, the share that lies in full reservations.
    pub promoted: f64,
}

/// A page in use: its owner, and its address if it is the kernel's own.
type Run = (Vec<Owner>, u64);

pub struct Load {
    pub table: FrameTable,
    pub freebsd: FreeBsd,
    setting: Setting,
    random: u64,
    free: Vec<Owner>,
    cache: VecDeque<Owner>,
    arena: kva::Arena,
    kernel: Vec<Run>,
    kernel_pages: usize,
    jobs: VecDeque<Vec<Owner>>,
    objects: u64,
    clock_ms: u64,
    looks_at_ms: u64,
    pub runs: u64,
    pub moved: u64,
    /// The domain after each job.
    pub curve: Vec<Look>,
}

impl Load {
    pub fn new(seed: u64, setting: Setting) -> Load {
        let layout = one_zone(FRAMES, Watermarks::default());
        let config = Config { reservations: setting.reservations, ..Config::default() };
        let mut load = Load {
            table: FrameTable::new(&layout),
            freebsd: FreeBsd::new(&layout, config),
            setting,
            random: seed * 2 + 1,
            free: (0..FRAMES).rev().collect(),
            cache: VecDeque::new(),
            arena: kva::Arena::default(),
            kernel: Vec::new(),
            kernel_pages: 0,
            jobs: VecDeque::new(),
            objects: 0,
            clock_ms: 0,
            looks_at_ms: 0,
            runs: 0,
            moved: 0,
            curve: Vec::new(),
        };
        for start in (0..FRAMES).step_by(1024) {
            load.table.add_memory(Frame(start), Order::LARGEST_FREE);
            load.freebsd.seed(&mut load.table, Frame(start), Order::LARGEST_FREE);
        }
        load.freebsd.start(&mut load.table);
        load
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as u32 % limit.max(1)
    }

    /// A page, for which the cache makes room.
    fn page(&mut self, migrate_type: MigrateType, page: Option<ObjectPage>) -> Option<Owner> {
        while (self.free.len() as u32) < FRAMES / 8 {
            let Some(oldest) = self.cache.pop_front() else { break };
            self.give(oldest);
        }
        let owner = self.free.pop()?;
        let mobility = mobility_of(migrate_type);
        let cpu = self.below(8) as u16;
        let request = Request { migrate_type, mobility, cpu, page, ..Request::default() };
        let placed = self.freebsd.allocate(&mut self.table, &request, owner);
        if placed.is_none() {
            self.free.push(owner);
        }
        placed.map(|_| owner)
    }

    fn give(&mut self, owner: Owner) {
        let frame = self.table.block_of(owner).expect("a live page");
        let cpu = self.below(8) as u16;
        self.freebsd.free(&mut self.table, frame, cpu);
        self.free.push(owner);
    }

    pub fn build(&mut self) {
        for _ in 0..JOBS {
            self.begin_job();
            if self.jobs.len() > 8 {
                let at = self.below(self.jobs.len() as u32) as usize;
                let ended = self.jobs.remove(at).unwrap_or_default();
                ended.into_iter().for_each(|owner| self.give(owner));
            }
            self.clock_ms += JOB_MS;
            self.compact();
            let look = self.look();
            self.curve.push(look);
        }
        // The build ends: its jobs do, and what they read stays cached.
        for owner in std::mem::take(&mut self.jobs).into_iter().flatten() {
            self.give(owner);
        }
    }

    /// Lets the daemon look, if there is one and its rest is over.
    fn compact(&mut self) {
        let Some(daemon) = self.setting.daemon.filter(|_| self.clock_ms >= self.looks_at_ms) else {
            return;
        };
        let ran = self.freebsd.compactd(&mut self.table, &mut Plain, 0, &daemon).expect("node 0");
        self.runs += u64::from(ran.rounds > 0);
        self.moved += ran.cost.moved;
        self.looks_at_ms = self.clock_ms + ran.rest_ms;
    }

    fn begin_job(&mut self) {
        let (anonymous, files) = (2 * MIB + self.below(22 * MIB), MIB + self.below(7 * MIB));
        self.objects += 1;
        let object = self.objects;
        let mut own = Vec::new();
        let mut left = (anonymous, files);
        // Faults and reads come mixed, and page tables between them.
        while left.0 + left.1 > 0 {
            if self.below(left.0 + left.1) < left.0 {
                left.0 -= 1;
                let index = u64::from(anonymous - 1 - left.0);
                let page = ObjectPage { object, index, pages: u64::MAX };
                own.extend(self.page(MigrateType::Movable, Some(page)));
                if left.0 % 400 == 0 {
                    own.extend(self.page(MigrateType::Unmovable, None));
                }
            } else {
                left.1 -= 1;
                // Read, not mapped: nothing is set aside for it.
                let read = self.page(MigrateType::Movable, None);
                self.cache.extend(read);
            }
        }
        (0..20 / KERNEL_RUN).for_each(|_| self.keep_kernel_pages());
        while self.kernel_pages > 8 * MIB as usize {
            let at = self.below(self.kernel.len() as u32) as usize;
            let (owners, address) = self.kernel.swap_remove(at);
            self.kernel_pages -= owners.len();
            if self.setting.kernel == Kernel::Object {
                self.arena.give(address, KERNEL_RUN);
            }
            owners.into_iter().for_each(|owner| self.give(owner));
        }
        self.jobs.push_back(own);
    }

    /// The kernel allocates something that lasts.
    fn keep_kernel_pages(&mut self) {
        let through_object = self.setting.kernel == Kernel::Object;
        let address = if through_object { self.arena.take(KERNEL_RUN) } else { 0 };
        let page_at = |at| through_object.then(|| kernel_page(address + at));
        let owners: Vec<Owner> = (0..KERNEL_RUN)
            .filter_map(|at| self.page(MigrateType::Unmovable, page_at(at)))
            .collect();
        self.kernel_pages += owners.len();
        self.kernel.push((owners, address));
    }

    /// Of the running jobs' pages, those in full reservations.
    fn share_promoted(&self) -> f64 {
        let pages = self.jobs.iter().map(Vec::len).sum::<usize>() as f64;
        let full = self.freebsd.set_aside().full * Order::HUGE.frames();
        full as f64 / pages.max(1.0)
    }

    pub fn look(&self) -> Look {
        let counts = self.freebsd.domain_counts(0);
        let free: u64 =
            counts.iter().enumerate().skip(9).map(|(order, count)| count << (order - 9)).sum();
        let blocks = self.table.blocks();
        let polluted = blocks.iter().filter(|block| block.is_polluted()).count() as u64;
        let frames: u64 = blocks.iter().map(|block| u64::from(block.free)).sum();
        // Free frames of polluted superpages take what movable pages have to leave.
        let bound = (frames / 512).min(blocks.len() as u64 - polluted);
        Look {
            index: self.freebsd.fragmentation(0) as f64,
            free: free as f64,
            bound: bound as f64,
            polluted: polluted as f64,
            promoted: self.share_promoted(),
        }
    }
}
