//! A plain model of memory, and the comparison of placements with it.
//!
//! The model is a list of frames, each with the owner it belongs to. It knows no orders, lists or
//! zones; whatever a placement does, the two must agree on who has what.

// Each test program uses its own part of this module.
#![allow(dead_code)]

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::{Counter, Placement, Request, gfp};
use prairie_frames::table::{Owner, State, mobility_of};
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Mobility, Order, Pfn, ZoneKind};
use proptest::prelude::*;

/// What a caller may do.
#[derive(Clone, Debug)]
pub enum Step {
    Allocate {
        order: u8,
        migrate_type: MigrateType,
        highest_zone: ZoneKind,
        cpu: u16,
        gfp_flags: u32,
    },
    /// Frees a live block: which one, and from which CPU.
    Free { which: prop::sample::Index, cpu: u16 },
    /// Splits a live block in two.
    Split { which: prop::sample::Index },
}

pub fn step(largest: u8) -> impl Strategy<Value = Step> {
    let types = prop::sample::select(&[
        MigrateType::Unmovable,
        MigrateType::Movable,
        MigrateType::Reclaimable,
    ]);
    let kinds = prop::sample::select(&[ZoneKind::Dma, ZoneKind::Dma32, ZoneKind::Normal]);
    let urgency = prop::sample::select(&[
        gfp::KERNEL,
        gfp::ATOMIC_REQUEST,
        gfp::KERNEL | gfp::NORETRY,
        gfp::KERNEL | gfp::MEMALLOC,
    ]);
    // Small orders are common, as in life; large ones are seen often enough to use memory up.
    let order = prop_oneof![4 => 0..=1u8, 2 => 0..=4u8, 1 => 0..=largest];
    prop_oneof![
        6 => (order, types, kinds, 0..3u16, urgency).prop_map(
            |(order, migrate_type, highest_zone, cpu, gfp_flags)| {
                Step::Allocate { order, migrate_type, highest_zone, cpu, gfp_flags }
            },
        ),
        5 => (any::<prop::sample::Index>(), 0..3u16)
            .prop_map(|(which, cpu)| Step::Free { which, cpu }),
        1 => any::<prop::sample::Index>().prop_map(|which| Step::Split { which }),
    ]
}

/// A small machine: a DMA zone that starts at frame 1, a DMA32 zone that ends inside a pageblock,
/// a Normal zone behind a hole, 16 MiB each or so, and watermarks that matter.
pub fn layout() -> Layout {
    let zone = |kind, start: u64, end: u64, reserve: u64| ZoneSpan {
        node: 0,
        kind,
        start: Pfn(start),
        spanned: end - start,
        managed: end - start,
        watermarks: Watermarks { min: 32, low: 40, high: 48 },
        lowmem_reserve: std::array::from_fn(|k| if k > kind as usize { reserve } else { 0 }),
    };
    Layout::new(vec![
        zone(ZoneKind::Dma, 1, 4096, 200),
        zone(ZoneKind::Dma32, 4096, 8192 + 100, 100),
        zone(ZoneKind::Normal, 1 << 17, (1 << 17) + 8192, 0),
    ])
    .unwrap()
}

/// Runs `steps` and compares with the model after each. `check` adds what only one placement
/// promises. Returns the number of allocations that failed.
pub fn exercise<P: Placement>(
    placement: &mut P,
    layout: &Layout,
    steps: &[Step],
    check: impl Fn(&P, &FrameTable),
) -> usize {
    let mut table = FrameTable::new(layout);
    placement.boot(&mut table, layout);
    placement.validate(&table);
    let memory: u64 = layout.zones().iter().map(|z| u64::from(z.end.0 - z.start.0)).sum();
    let mut live: Vec<(Owner, Order, Mobility)> = Vec::new();
    let mut next_owner: Owner = 0;
    let mut failures = 0;
    for step in steps {
        match step.clone() {
            Step::Allocate { order, migrate_type, highest_zone, cpu, gfp_flags } => {
                let order = Order::new(order).unwrap();
                let mobility = mobility_of(migrate_type);
                let request = Request {
                    order,
                    migrate_type,
                    mobility,
                    highest_zone,
                    cpu,
                    gfp_flags,
                    ..Request::default()
                };
                // Owners of a block must be aligned as frames are; they are plentiful here.
                next_owner = next_owner.next_multiple_of(order.frames() as u32);
                if u64::from(next_owner) + order.frames() > table.owners() {
                    break;
                }
                match placement.allocate(&mut table, &request, next_owner) {
                    Some(frame) => {
                        let zone = &layout.zones()[layout.zone_of(frame).expect("in a zone")];
                        assert!(zone.span.kind <= highest_zone, "{frame:?} in {}", zone.span.kind);
                        live.push((next_owner, order, mobility));
                        next_owner += order.frames() as u32;
                    }
                    None => failures += 1,
                }
            }
            Step::Free { which, cpu } if !live.is_empty() => {
                let (owner, order, _) = live.swap_remove(which.index(live.len()));
                free(placement, &mut table, owner, order, cpu);
                assert_eq!(table.block_of(owner), None, "freed");
            }
            Step::Split { which } if !live.is_empty() => {
                let at = which.index(live.len());
                let (owner, order, mobility) = live[at];
                if order > Order::BASE {
                    let half = Order::new(order.get() - 1).unwrap();
                    let frame = table.block_of(owner).unwrap();
                    if table.order(frame) == order {
                        table.split_allocated(frame);
                    }
                    live[at].1 = half;
                    live.push((owner + half.frames() as u32, half, mobility));
                }
            }
            Step::Free { .. } | Step::Split { .. } => {}
        }
        placement.validate(&table);
        compare(&table, layout, placement, &live, memory);
        check(placement, &table);
    }
    // Everything freed merges back: no frame is lost, whatever was done.
    for (owner, order, _) in live.drain(..) {
        free(placement, &mut table, owner, order, 0);
    }
    placement.validate(&table);
    compare(&table, layout, placement, &[], memory);
    failures
}

/// The blocks that hold what `owner` was given, as first owner, first frame and order: one, unless
/// the placement migrated it in pieces.
pub fn pieces(table: &FrameTable, owner: Owner, order: Order) -> Vec<(Owner, Frame, Order)> {
    let mut pieces = Vec::new();
    let (mut at, end) = (owner, owner + order.frames() as u32);
    while at < end {
        let frame = table.block_of(at).expect("a live block");
        pieces.push((at, frame, table.order(frame)));
        at += table.order(frame).frames() as u32;
    }
    assert_eq!(at, end, "more than owner {owner} was given");
    pieces
}

/// Frees what `owner` was given.
pub fn free(
    placement: &mut impl Placement,
    table: &mut FrameTable,
    owner: Owner,
    order: Order,
    cpu: u16,
) {
    for (_, frame, _) in pieces(table, owner, order) {
        placement.free(table, frame, cpu);
    }
}

/// No frame belongs to two owners, every owner has what it was given, all else is free.
fn compare(
    table: &FrameTable,
    layout: &Layout,
    placement: &impl Placement,
    live: &[(Owner, Order, Mobility)],
    memory: u64,
) {
    let mut taken = vec![false; table.frames() as usize];
    let mut used = 0;
    // Only a placement that says that it migrates in pieces may do so.
    let split = |counter: &Counter| counter.name == "moved_blocks_split" && counter.value > 0;
    let whole = !placement.counters().iter().any(split);
    for &(owner, order, mobility) in live {
        let pieces = pieces(table, owner, order);
        assert!(!whole || pieces.len() == 1, "owner {owner} has its block in pieces");
        for (first, frame, order) in pieces {
            assert_eq!(table.mobility(frame), mobility);
            for inside in 0..order.frames() {
                let at = frame.offset(inside);
                assert!(!std::mem::replace(&mut taken[at.index()], true), "{at:?} given twice");
                let found = table.block_containing(first + inside as u32).expect("owned");
                assert_eq!(found, (first, frame));
            }
        }
        used += order.frames();
    }
    let listed: u64 = (0..layout.zones().len())
        .flat_map(|zone| placement.free_blocks(zone))
        .flat_map(|(_, counts)| counts.into_iter().enumerate())
        .map(|(j, count)| count << j)
        .sum();
    assert_eq!(used + listed + placement.cached_frames(), memory, "frames lost or made up");
    let free: u64 = table.blocks().iter().map(|block| u64::from(block.free)).sum();
    assert_eq!(free, listed + placement.cached_frames());
    for frame in (0..taken.len()).filter(|&at| taken[at]).map(|at| Frame(at as u32)) {
        assert!(!matches!(table.state(frame), State::Free | State::Cached), "{frame:?} is free");
    }
}
