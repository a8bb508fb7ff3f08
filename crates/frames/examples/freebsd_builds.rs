//! Free lists before and after a build-like load, and the fragmentation index over ten builds with
//! and without compactd (FreeBSD, Table 1 and Figure 7).
//!
//! ```text
//! cargo run --release -p prairie-frames --example freebsd_builds [SEED]
//! ```
//!
//! A domain of 1 GiB under `freebsd`. A build is 100 jobs, eight at a time. A job takes 2 to 24 MiB
//! of anonymous memory page by page, its page tables, reads 1 to 8 MiB of files into the page cache
//! and frees its memory when it ends. The cache keeps what it can: when less than an eighth of
//! memory is free, the pages read first are dropped. Each job leaves a few pages of kernel memory
//! behind, most of which later jobs free. compactd looks at the domain after each job, as one that
//! sleeps a second would, if its rest is over; a job counts as half a second.

use std::collections::VecDeque;

use frames::compaction::Plain;
use frames::compaction::two_finger::compactd::{Compactd, Reading};
use frames::layout::{Layout, Watermarks, ZoneSpan};
use frames::placement::freebsd::FreeBsd;
use frames::placement::{Placement, Request};
use frames::table::{Owner, mobility_of};
use frames::{Frame, FrameTable, MigrateType, Order, Pfn, ZoneKind};

const FRAMES: u32 = 1 << 18;
const MIB: u32 = 256;
const BUILDS: usize = 10;
const JOBS: u32 = 100;
const JOB_MS: u64 = 500;

fn main() {
    let seed = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let daemons = [
        ("none", None),
        ("as intended", Some(Reading::AsIntended)),
        ("as written", Some(Reading::AsWritten)),
        ("as presented", Some(Reading::AsPresented)),
    ];
    let mut curves = Vec::new();
    for (name, reading) in daemons {
        let mut load = Load::new(seed);
        let daemon = reading.map(|reading| Compactd { reading, ..Compactd::default() });
        let before = load.freebsd.domain_counts(0);
        let mut curve = Vec::new();
        for build in 0..BUILDS {
            load.build(daemon.as_ref());
            curve.push((load.freebsd.fragmentation(0), load.huge_pages()));
            if build == 0 && reading.is_none() {
                println!("order    before    after a build (compactd: {name})");
                let after = load.freebsd.domain_counts(0);
                for order in (0..=12).rev() {
                    println!("{order:5} {:9} {:8}", before[order], after[order]);
                }
                println!();
            }
        }
        load.freebsd.validate(&load.table);
        curves.push((name, curve, load.runs, load.moved));
    }
    println!("FMFI(9) in thousandths, and free superpages, after each build");
    for (name, curve, runs, moved) in curves {
        let points: Vec<String> =
            curve.iter().map(|(index, huge)| format!("{index:5} {huge:4}")).collect();
        println!("{name:12} {}   {runs} runs, {moved} pages moved", points.join(" | "));
    }
}

struct Load {
    table: FrameTable,
    freebsd: FreeBsd,
    random: u64,
    free: Vec<Owner>,
    cache: VecDeque<Owner>,
    kernel: Vec<Owner>,
    jobs: VecDeque<Vec<Owner>>,
    clock_ms: u64,
    looks_at_ms: u64,
    runs: u64,
    moved: u64,
}

impl Load {
    fn new(seed: u64) -> Load {
        let zone = ZoneSpan {
            node: 0,
            kind: ZoneKind::Normal,
            start: Pfn(0),
            spanned: u64::from(FRAMES),
            managed: u64::from(FRAMES),
            watermarks: Watermarks::default(),
            lowmem_reserve: [0; 6],
        };
        let layout = Layout::new(vec![zone]).expect("a zone with memory");
        let mut load = Load {
            table: FrameTable::new(&layout),
            freebsd: FreeBsd::new(&layout, Default::default()),
            random: seed * 2 + 1,
            free: (0..FRAMES).rev().collect(),
            cache: VecDeque::new(),
            kernel: Vec::new(),
            jobs: VecDeque::new(),
            clock_ms: 0,
            looks_at_ms: 0,
            runs: 0,
            moved: 0,
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
    fn page(&mut self, migrate_type: MigrateType) -> Option<Owner> {
        while (self.free.len() as u32) < FRAMES / 8 {
            let Some(oldest) = self.cache.pop_front() else { break };
            self.give(oldest);
        }
        let owner = self.free.pop()?;
        let mobility = mobility_of(migrate_type);
        let cpu = self.below(8) as u16;
        let request = Request { migrate_type, mobility, cpu, ..Request::default() };
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

    fn build(&mut self, daemon: Option<&Compactd>) {
        for _ in 0..JOBS {
            self.begin_job();
            if self.jobs.len() > 8 {
                let at = self.below(self.jobs.len() as u32) as usize;
                let ended = self.jobs.remove(at).unwrap_or_default();
                ended.into_iter().for_each(|owner| self.give(owner));
            }
            self.clock_ms += JOB_MS;
            if let Some(daemon) = daemon
                && self.clock_ms >= self.looks_at_ms
            {
                let ran = self.freebsd.compactd(&mut self.table, &mut Plain, 0, daemon);
                let ran = ran.expect("node 0");
                self.runs += u64::from(ran.rounds > 0);
                self.moved += ran.cost.moved;
                self.looks_at_ms = self.clock_ms + ran.rest_ms;
            }
        }
        // The build ends: its jobs do, and what they read stays cached.
        for owner in std::mem::take(&mut self.jobs).into_iter().flatten() {
            self.give(owner);
        }
    }

    fn begin_job(&mut self) {
        let (anonymous, files) = (2 * MIB + self.below(22 * MIB), MIB + self.below(7 * MIB));
        let mut own = Vec::new();
        let mut left = (anonymous, files);
        // Faults and reads come mixed, and the kernel's own pages between them.
        while left.0 + left.1 > 0 {
            if self.below(left.0 + left.1) < left.0 {
                left.0 -= 1;
                own.extend(self.page(MigrateType::Movable));
                if left.0 % 400 == 0 {
                    own.extend(self.page(MigrateType::Unmovable));
                }
            } else {
                left.1 -= 1;
                let read = self.page(MigrateType::Movable);
                self.cache.extend(read);
            }
        }
        for _ in 0..20 {
            let kept = self.page(MigrateType::Unmovable);
            self.kernel.extend(kept);
        }
        while self.kernel.len() > 8 * MIB as usize {
            let at = self.below(self.kernel.len() as u32) as usize;
            let owner = self.kernel.swap_remove(at);
            self.give(owner);
        }
        self.jobs.push_back(own);
    }

    /// Superpages in free blocks.
    fn huge_pages(&self) -> u64 {
        let counts = self.freebsd.domain_counts(0);
        counts.iter().enumerate().skip(9).map(|(order, count)| count << (order - 9)).sum()
    }
}
