//! Many single frames at once are the same frames, in the same order, as one by one; and frames in a
//! row that leave a per-CPU list together leave what one by one would have left.

use prairie_frames::layout::{Layout, Watermarks, ZoneSpan};
use prairie_frames::placement::linux::{Config, Linux, Pageset};
use prairie_frames::placement::regions::{self, Regions};
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::{Placement, Request};
use prairie_frames::table::{Owner, mobility_of};
use prairie_frames::{Frame, FrameTable, MigrateType, Order, Pfn, ZoneKind};
use proptest::prelude::*;

/// Frames of the machine, and of its lower zone.
const FRAMES: u32 = 12_288;
const LOWER: u32 = 4096;

/// A machine of 48 MiB in two zones, whose watermarks matter.
fn layout() -> Layout {
    let zone = |kind, start: u32, frames: u32, low| ZoneSpan {
        node: 0,
        kind,
        start: Pfn(u64::from(start)),
        spanned: u64::from(frames),
        managed: u64::from(frames),
        watermarks: Watermarks { min: low / 2, low, high: low * 2 },
        lowmem_reserve: [0; ZoneKind::ALL.len()],
    };
    let zones = vec![
        zone(ZoneKind::Dma32, 0, LOWER, 100),
        zone(ZoneKind::Normal, LOWER, FRAMES - LOWER, 300),
    ];
    let layout = Layout::new(zones).unwrap();
    assert_eq!(layout.zones().last().unwrap().end, Frame(FRAMES), "no gap");
    layout
}

/// A placement with the whole machine free.
fn started<P: Placement>(layout: &Layout, mut placement: P) -> (FrameTable, P) {
    let mut table = FrameTable::new(layout);
    for zone in layout.zones() {
        for at in (zone.start.0..zone.end.0).step_by(1024) {
            table.add_memory(Frame(at), Order::LARGEST_FREE);
            placement.seed(&mut table, Frame(at), Order::LARGEST_FREE);
        }
    }
    placement.start(&mut table);
    (table, placement)
}

fn linux(layout: &Layout, config: Config) -> Linux {
    let mut linux = Linux::new(layout, Config { cpus_per_node: 2, ..config });
    (0..2).for_each(|zone| linux.set_pageset(zone, Pageset::fixed(15, 90)));
    linux
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate { count: u32, migrate_type: MigrateType, cpu: u16 },
    Free { from: prop::sample::Index, count: usize, cpu: u16 },
    Maintain,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let types = [MigrateType::Movable, MigrateType::Movable, MigrateType::Unmovable];
    let step = prop_oneof![
        5 => (1..700u32, prop::sample::select(types.to_vec()), 0..2u16)
            .prop_map(|(count, migrate_type, cpu)| Step::Allocate { count, migrate_type, cpu }),
        4 => (any::<prop::sample::Index>(), 1..600usize, 0..2u16)
            .prop_map(|(from, count, cpu)| Step::Free { from, count, cpu }),
        1 => Just(Step::Maintain),
    ];
    prop::collection::vec(step, 1..80)
}

/// Takes both machines through the steps, one in batches and one frame by frame.
fn compare<P: Placement + Clone>(layout: &Layout, placement: P, steps: &[Step]) {
    let (mut table, mut batches) = started(layout, placement);
    let (mut plain_table, mut plain) = (table.clone(), batches.clone());
    let mut held: Vec<Owner> = Vec::new();
    let mut fresh: Owner = 0;
    for &step in steps {
        match step {
            Step::Allocate { count, migrate_type, cpu } => {
                let count = count.min(table.owners() as u32 - fresh);
                let mobility = mobility_of(migrate_type);
                let highest_zone = ZoneKind::Normal;
                let request =
                    Request { migrate_type, mobility, cpu, highest_zone, ..Request::default() };
                let came = batches.allocate_singles(&mut table, &request, fresh, count);
                let one =
                    |&owner: &Owner| plain.allocate(&mut plain_table, &request, owner).is_some();
                let expected = (fresh..fresh + count).take_while(one).count() as u32;
                assert_eq!(came, expected);
                held.extend(fresh..fresh + came);
                fresh += came;
            }
            Step::Free { from, count, cpu } if !held.is_empty() => {
                let from = from.index(held.len());
                let freed: Vec<Owner> = held.drain(from..(from + count).min(held.len())).collect();
                for &owner in &freed {
                    let frame = plain_table.block_of(owner).unwrap();
                    assert_eq!(table.block_of(owner), Some(frame));
                    plain.free(&mut plain_table, frame, cpu);
                }
                for row in freed.chunk_by(|owner, next| owner + 1 == *next) {
                    batches.free_singles(&mut table, row[0]..row[row.len() - 1] + 1, cpu);
                }
            }
            Step::Free { .. } => {}
            Step::Maintain => {
                batches.maintain(&mut table);
                plain.maintain(&mut plain_table);
            }
        }
        for &owner in &held {
            assert_eq!(table.block_of(owner), plain_table.block_of(owner), "owner {owner}");
        }
        assert_eq!(batches.cached_frames(), plain.cached_frames());
        assert_eq!(batches.counters(), plain.counters());
        (0..2).for_each(|zone| assert_eq!(batches.free_blocks(zone), plain.free_blocks(zone)));
    }
    batches.validate(&table);
}

/// Every list of a machine, in order.
fn lists(linux: &Linux, table: &FrameTable) -> Vec<Vec<Frame>> {
    let mut lists = Vec::new();
    for zone in 0..2 {
        for migrate_type in [MigrateType::Unmovable, MigrateType::Movable] {
            for order in Order::up_to(Order::LARGEST_FREE) {
                lists.push(linux.free_list(table, zone, order, migrate_type).collect());
            }
        }
    }
    lists
}

/// Stretches of a machine in some order, upward and downward, each frame once at most.
fn stretches() -> impl Strategy<Value = Vec<u32>> {
    let stretch = (0..FRAMES, 1..200u32, any::<bool>());
    prop::collection::vec(stretch, 1..60).prop_map(|stretches| {
        let mut seen = std::collections::BTreeSet::new();
        let each = stretches.into_iter().flat_map(|(start, frames, downward)| {
            let mut stretch: Vec<u32> = (start..(start + frames).min(FRAMES)).collect();
            if downward {
                stretch.reverse();
            }
            stretch
        });
        each.filter(|&frame| seen.insert(frame)).collect()
    })
}

/// Gives every frame to somebody.
fn fill<P: Placement>(table: &mut FrameTable, placement: &mut P) {
    let request = Request {
        migrate_type: MigrateType::Movable,
        mobility: mobility_of(MigrateType::Movable),
        ..Request::default()
    };
    let all = FRAMES;
    assert_eq!(placement.allocate_singles(table, &request, 0, all), all);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn linux_gives_the_same_frames(steps in steps(), defrag in any::<bool>()) {
        let layout = layout();
        let config = if defrag { Config::linux_6_15() } else { Config::default() };
        compare(&layout, linux(&layout, config), &steps);
    }

    #[test]
    fn linux_gives_the_same_frames_without_lists(steps in steps()) {
        let layout = layout();
        let config = Config { per_cpu_lists: false, ..Config::default() };
        compare(&layout, linux(&layout, config), &steps);
    }

    #[test]
    fn regions_give_the_same_frames(steps in steps(), bias in any::<bool>()) {
        let layout = layout();
        let config = regions::Config { bias, initial_per_1024: 300, ..Default::default() };
        compare(&layout, Regions::new(&layout, config), &steps);
    }

    /// Frames that leave a list are freed in runs. `free_to_buddy` frees each by itself.
    #[test]
    fn linux_drains_runs_as_frames(order in stretches()) {
        let layout = layout();
        let mut through = Linux::new(&layout, Config::default());
        (0..2).for_each(|zone| {
            through.set_pageset(zone, Pageset::fixed(63, 1 << 20));
        });
        let (mut table, mut through) = started(&layout, through);
        fill(&mut table, &mut through);
        through.drain_all(&mut table);
        let (mut plain_table, mut plain) = (table.clone(), through.clone());
        for &frame in &order {
            through.free(&mut table, Frame(frame), 0);
        }
        prop_assert_eq!(through.cached_frames(), order.len() as u64);
        through.drain_all(&mut table);
        // Zone by zone, as the lists are drained.
        for lower in [true, false] {
            for &frame in order.iter().filter(|&&frame| (frame < LOWER) == lower) {
                plain.free_to_buddy(&mut plain_table, Frame(frame), None);
            }
        }
        prop_assert_eq!(lists(&through, &table), lists(&plain, &plain_table));
        through.validate(&table);
    }

    #[test]
    fn regions_drain_runs_as_frames(order in stretches()) {
        let layout = layout();
        let free = |per_cpu_lists: bool| {
            let config = regions::Config {
                per_cpu_lists,
                initial_frames: vec![(0, 0)],
                ..Default::default()
            };
            let (mut table, mut regions) = started(&layout, Regions::new(&layout, config));
            fill(&mut table, &mut regions);
            order.iter().for_each(|&frame| regions.free(&mut table, Frame(frame), 0));
            regions.drain(&mut table);
            regions.validate(&table);
            [0, 1].map(|zone| regions.free_blocks(zone))
        };
        prop_assert_eq!(free(true), free(false));
    }
}
