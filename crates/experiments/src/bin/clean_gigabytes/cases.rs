//! Two cases made to hurt a border: a burst of unmovable demand, and one long-lived page beside
//! the border when the burst is over.

use std::error::Error;

use prairie_fleet::study::Study;
use prairie_frames::placement::{Placement, Request, gfp};
use prairie_frames::table::{Owner, mobility_of};
use prairie_frames::{FrameTable, Layout, MigrateType, Order, ZoneKind};
use prairie_model::allocator::AnyPlacement;
use prairie_model::random::Random;

use experiments::document::Document;

use crate::measure::Memory;
use crate::systems::{ALLOCATORS, build};

/// Kernel memory of boot, and what the burst asks for, in 1/1024 of memory.
const BOOT: u64 = 20;
const BURST: u64 = 150;
/// Movable pages fill memory and then lose this share at random, in 1/1024: what the burst can have.
const FREED: u64 = 200;
/// Times that a request asks.
const ASKS: u32 = 16;
/// Wake-ups of upkeep after the burst is over.
const QUIET: u64 = 4096;

/// A machine without reclaim, driven by the case.
struct Machine {
    table: FrameTable,
    placement: AnyPlacement,
    next: Owner,
}

/// The outcome of both cases.
struct Outcome {
    asked: u64,
    failed: u64,
    moved_in_burst: u64,
    clean_before: u64,
    clean_in_burst: u64,
    clean_after: u64,
    tainted_after: u64,
    idle_gib: f64,
}

impl Machine {
    fn boot(layout: &Layout, mut placement: AnyPlacement) -> Machine {
        let mut table = FrameTable::with_owners(layout.frames(), layout.frames() * 2);
        placement.boot(&mut table, layout);
        Machine { table, placement, next: 0 }
    }

    fn allocate(&mut self, order: Order, migrate_type: MigrateType) -> Option<Owner> {
        let movable = migrate_type == MigrateType::Movable;
        let request = Request {
            order,
            migrate_type,
            mobility: mobility_of(migrate_type),
            highest_zone: if movable { ZoneKind::Movable } else { ZoneKind::Normal },
            gfp_flags: gfp::KERNEL,
            ..Request::default()
        };
        let owner = self.next.next_multiple_of(order.frames() as Owner);
        // Nothing can be reclaimed; a repeated request fails in the end.
        (0..ASKS).find_map(|_| self.placement.allocate(&mut self.table, &request, owner))?;
        self.next = owner + order.frames() as Owner;
        Some(owner)
    }

    fn free(&mut self, owner: Owner) {
        let frame = self.table.block_of(owner).expect("what is held lies somewhere");
        self.placement.free(&mut self.table, frame, 0);
    }

    fn moved(&self) -> u64 {
        let counters = self.placement.counters();
        counters.iter().find(|counter| counter.name == "pages_moved").map_or(0, |c| c.value)
    }
}

impl Outcome {
    /// Both cases, with a burst of blocks of `order`.
    fn of(layout: &Layout, placement: AnyPlacement, order: Order) -> Outcome {
        let memory = layout.zones().iter().map(|zone| zone.span.managed).sum::<u64>();
        let mut random = Random::new(1);
        let mut m = Machine::boot(layout, placement);
        for _ in 0..memory * BOOT / 1024 {
            m.allocate(Order::BASE, MigrateType::Unmovable);
        }
        let mut pages = Vec::new();
        while let Some(page) = m.allocate(Order::BASE, MigrateType::Movable) {
            pages.push(page);
            // As a server that fills slowly: upkeep keeps pace.
            if pages.len().is_multiple_of(1024) {
                m.placement.maintain(&mut m.table);
            }
        }
        for _ in 0..memory * FREED / 1024 {
            let which = random.below(pages.len() as u64) as usize;
            let page = pages.swap_remove(which);
            m.free(page);
        }
        (0..QUIET).for_each(|_| m.placement.maintain(&mut m.table));
        let (clean_before, moved) = (Memory::of(&m.table).clean_gigabytes, m.moved());

        // The burst: nothing wakes up meanwhile.
        let asked = memory * BURST / 1024 / order.frames();
        let burst: Vec<Owner> =
            (0..asked).filter_map(|_| m.allocate(order, MigrateType::Unmovable)).collect();
        let in_burst = Memory::of(&m.table);
        let moved_in_burst = m.moved() - moved;

        // It is over, but for its highest block.
        let last = burst.iter().copied().max_by_key(|&owner| m.table.block_of(owner));
        for &owner in burst.iter().filter(|&&owner| Some(owner) != last) {
            m.free(owner);
        }
        (0..QUIET).for_each(|_| m.placement.maintain(&mut m.table));
        let after = Memory::of(&m.table);
        // Programs ask for all there is.
        while m.allocate(Order::BASE, MigrateType::Movable).is_some() {}
        let idle: u64 = m.table.blocks().iter().map(|block| u64::from(block.free)).sum();
        Outcome {
            asked,
            failed: asked - burst.len() as u64,
            moved_in_burst,
            clean_before,
            clean_in_burst: in_burst.clean_gigabytes,
            clean_after: after.clean_gigabytes,
            tainted_after: after.tainted_blocks,
            idle_gib: idle as f64 / 262_144.0,
        }
    }
}

/// One table for single frames, one for blocks of order 3.
pub fn measure(study: &Study) -> Result<Vec<Document>, Box<dyn Error>> {
    let layout = study.layout(0)?;
    let large = Order::new(3).expect("a small order");
    Ok(vec![
        burst("clean-burst", &layout, Order::BASE),
        burst("clean-burst-order-3", &layout, large),
    ])
}

fn burst(name: &str, layout: &Layout, order: Order) -> Document {
    let columns = [
        "allocator",
        "clean GiB before",
        "blocks requested",
        "failed",
        "pages moved",
        "clean GiB",
        "clean GiB when all but one block is free",
        "polluted 2 MiB blocks",
        "GiB that programs cannot have",
    ];
    let mut document = Document::new(name, &columns, "1".to_owned());
    for name in ALLOCATORS {
        let outcome = Outcome::of(layout, build(name, layout), order);
        let counts = [
            outcome.clean_before,
            outcome.asked,
            outcome.failed,
            outcome.moved_in_burst,
            outcome.clean_in_burst,
            outcome.clean_after,
            outcome.tainted_after,
        ];
        let idle = format!("{:.2}", outcome.idle_gib);
        document.row(name, counts.map(|count| count.to_string()).into_iter().chain([idle]));
    }
    document
}
