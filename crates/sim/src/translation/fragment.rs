//! The fragmenter, and what it leaves to the program that comes after it.
//!
//! Files fill memory page by page. Then one page in 64 is dropped at random, all over memory, and
//! the kernel takes some of what came free for pages that it keeps: its *degree* is the share of them. At
//! last all other files are dropped, and a program asks for its memory as page faults with huge
//! pages do: without waiting.
//!
//! One page in 64 is eight in each block of 2 MiB. A system that lets the kernel's pages go to
//! wherever pages came free (Linux) so pollutes as many blocks as the degree says if it takes all
//! eight of one before it continues to the next, and more where it does not. One that confines the
//! kernel's pages has to make room for them elsewhere.

use prairie_frames::placement::{Placement, Request, gfp};
use prairie_frames::table::{Owner, mobility_of};
use prairie_frames::{BlockCounts, FrameTable, Layout, MigrateType, Order, ZoneKind};
use serde::Serialize;

use super::tlb::Backing;
use prairie_model::random::Random;

/// One page of this many comes free for the kernel to take.
const DROP_ONE_IN: u64 = 64;
/// What the kernel has taken at boot, in 1/1024 of memory.
const BOOT: u64 = 12;
/// Wake-ups of the system's upkeep between the fragmenter and the program.
const UPKEEP_WAKE_UPS: u64 = 4096;

/// The memory that a program gets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FragmentedMemory {
    /// 2 MiB blocks with an unmovable frame, as a share of all.
    pub polluted: f64,
    /// Aligned gigabytes that are wholly free.
    pub free_gigabytes: u64,
    /// Share of the program's memory that came in pages of 2 MiB.
    pub huge: f64,
    /// Pages moved in total.
    pub pages_moved: u64,
}

impl FragmentedMemory {
    /// The program's memory with as much in pages of 1 GiB as is free, of `gigabytes` that it has,
    /// and the rest in 2 MiB as found.
    pub fn with_gigantic(&self, gigabytes: f64) -> Backing {
        let gigantic = (self.free_gigabytes as f64).min(gigabytes.floor()) / gigabytes.max(1e-9);
        Backing { huge: self.huge * (1.0 - gigantic), gigantic }
    }

    /// The program's memory without pages of 1 GiB.
    pub fn without_gigantic(&self) -> Backing {
        Backing { huge: self.huge, gigantic: 0.0 }
    }
}

struct Machine<P> {
    table: FrameTable,
    placement: P,
    next: Owner,
    operations: u64,
}

/// Fragments a machine to `degree`, from 0 to 1, and gives a program `share` of its memory.
pub fn fragment<P: Placement>(
    layout: &Layout,
    placement: P,
    degree: f64,
    share: f64,
    seed: u64,
) -> FragmentedMemory {
    let memory: u64 = layout.zones().iter().map(|zone| zone.span.managed).sum();
    let mut random = Random::new(seed);
    let mut m = Machine::boot(layout, placement);
    for _ in 0..memory * BOOT / 1024 {
        m.allocate(Order::BASE, MigrateType::Unmovable, gfp::KERNEL);
    }
    let mut files = Vec::new();
    while let Some(page) = m.allocate(Order::BASE, MigrateType::Movable, gfp::KERNEL) {
        files.push(page);
    }
    let dropped = files.len() as u64 / DROP_ONE_IN;
    for _ in 0..dropped {
        let page = files.swap_remove(random.below(files.len() as u64) as usize);
        m.free(page);
    }
    for _ in 0..(dropped as f64 * degree) as u64 {
        m.allocate(Order::BASE, MigrateType::Unmovable, gfp::KERNEL);
    }
    files.into_iter().for_each(|page| m.free(page));
    (0..UPKEEP_WAKE_UPS).for_each(|_| m.placement.maintain(&mut m.table));

    let blocks = m.table.blocks();
    let is_free = |block: &BlockCounts| block.free == BlockCounts::FRAMES;
    let polluted = blocks.iter().filter(|block| block.is_polluted()).count();
    let polluted = polluted as f64 / blocks.len() as f64;
    let free_gigabytes =
        blocks.chunks_exact(512).filter(|gib| gib.iter().all(is_free)).count() as u64;
    let wanted = (memory as f64 * share) as u64 / Order::HUGE.frames();
    let light = gfp::KERNEL & !gfp::DIRECT_RECLAIM;
    let huge = (0..wanted)
        .take_while(|_| m.allocate(Order::HUGE, MigrateType::Movable, light).is_some())
        .count();
    let counters = m.placement.counters();
    let moved = counters.iter().find(|counter| counter.name == "pages_moved");
    FragmentedMemory {
        polluted,
        free_gigabytes,
        huge: huge as f64 / wanted.max(1) as f64,
        pages_moved: moved.map_or(0, |counter| counter.value),
    }
}

impl<P: Placement> Machine<P> {
    fn boot(layout: &Layout, mut placement: P) -> Machine<P> {
        let mut table = FrameTable::with_owners(layout.frames(), layout.frames() * 3);
        placement.boot(&mut table, layout);
        Machine { table, placement, next: 0, operations: 0 }
    }

    fn allocate(&mut self, order: Order, migrate_type: MigrateType, flags: u32) -> Option<Owner> {
        self.pass();
        let movable = migrate_type == MigrateType::Movable;
        let request = Request {
            order,
            migrate_type,
            mobility: mobility_of(migrate_type),
            highest_zone: if movable { ZoneKind::Movable } else { ZoneKind::Normal },
            gfp_flags: flags,
            ..Request::default()
        };
        let owner = self.next.next_multiple_of(order.frames() as Owner);
        self.placement.allocate(&mut self.table, &request, owner)?;
        self.next = owner + order.frames() as Owner;
        Some(owner)
    }

    fn free(&mut self, owner: Owner) {
        self.pass();
        let frame = self.table.block_of(owner).expect("what is held lies somewhere");
        self.placement.free(&mut self.table, frame, 0);
    }

    fn pass(&mut self) {
        self.operations += 1;
        if self.operations.is_multiple_of(1024) {
            self.placement.maintain(&mut self.table);
        }
    }
}
