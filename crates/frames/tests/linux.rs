//! Linux 6.1's placement, compared with a plain model of memory in several configurations.

mod machine;
mod model;

use machine::{BARE, Machine};
use prairie_frames::placement::linux::{Config, Linux};
use prairie_frames::placement::{Placement, Request};
use prairie_frames::table::mobility_of;
use prairie_frames::{Frame, MigrateType, Order};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn agrees(config: Config, steps: &[model::Step], marks: &[MigrateType]) {
    let layout = model::layout();
    let mut linux = Linux::new(&layout, config);
    for (block, &migrate_type) in marks.iter().enumerate() {
        linux.mark_pageblock(block, migrate_type);
    }
    model::exercise(&mut linux, &layout, steps, |_, _| {});
}

fn steps() -> impl Strategy<Value = Vec<model::Step>> {
    prop::collection::vec(model::step(10), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn agrees_with_a_plain_model(steps in steps()) {
        agrees(Config::default(), &steps, &[]);
    }

    #[test]
    fn agrees_without_per_cpu_lists(steps in steps()) {
        agrees(BARE, &steps, &[]);
    }

    #[test]
    fn agrees_with_any_single_mechanism_taken_away(
        steps in steps(),
        config in prop::sample::select(vec![
            Config { grouping: false, ..Config::default() },
            Config { claiming: false, ..Config::default() },
            Config { nofragment: false, ..Config::default() },
            Config { highatomic: false, ..Config::default() },
            Config { merge_likely_to_tail: false, ..Config::default() },
            Config { huge_pages: false, ..Config::default() },
            Config { watermark_boost_factor: 0, ..Config::default() },
            Config { keep_boost: true, ..Config::default() },
            Config { hygiene: true, ..Config::default() },
            Config { hygiene: true, ..BARE },
            Config::linux_6_15(),
        ]),
    ) {
        agrees(config, &steps, &[]);
    }

    #[test]
    fn agrees_on_a_machine_found_with_types(
        steps in steps(),
        marks in prop::collection::vec(prop::sample::select(&MigrateType::ALL), 0..300),
        cma in any::<bool>(),
    ) {
        agrees(Config { cma, ..Config::default() }, &steps, &marks);
    }
}

/// What a program on the machine without per-CPU lists may do.
#[derive(Clone, Debug)]
enum Act {
    Allocate(u8, MigrateType),
    Free(prop::sample::Index),
}

fn act() -> impl Strategy<Value = Act> {
    let types = prop::sample::select(&[
        MigrateType::Unmovable,
        MigrateType::Movable,
        MigrateType::Movable,
        MigrateType::Reclaimable,
    ]);
    prop_oneof![
        3 => (0..7u8, types).prop_map(|(order, migrate_type)| Act::Allocate(order, migrate_type)),
        2 => any::<prop::sample::Index>().prop_map(Act::Free),
    ]
}

/// Whether a whole free pageblock is on a list.
fn has_whole_pageblock(machine: &Machine) -> bool {
    let large = |(_, orders): (MigrateType, Vec<u64>)| orders[9] + orders[10] > 0;
    machine.linux.free_blocks(0).into_iter().any(large)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Unmovable memory comes to lie in a movable pageblock only where a counted steal put it, and
    /// there is no such steal as long as a whole pageblock is free.
    #[test]
    fn only_counted_steals_mix_types(acts in prop::collection::vec(act(), 1..1500)) {
        let mut machine = Machine::new(24, BARE);
        let mut live = Vec::new();
        let mut mixed = BTreeSet::new();
        for act in acts {
            let (order, migrate_type) = match act {
                Act::Allocate(order, migrate_type) => (machine::order(order), migrate_type),
                Act::Free(which) => {
                    if !live.is_empty() {
                        machine.free(live.swap_remove(which.index(live.len())));
                    }
                    continue;
                }
            };
            let mobility = mobility_of(migrate_type);
            let had_whole = has_whole_pageblock(&machine);
            let before = machine.counter("extfrag_fragmenting");
            let request = Request { order, migrate_type, mobility, ..Request::default() };
            let Some(frame) = machine.request(request) else {
                continue;
            };
            live.push(frame);
            let block = Frame(frame).pageblock();
            if machine.counter("extfrag_fragmenting") > before {
                prop_assert!(!had_whole, "a steal while a whole pageblock was free");
                mixed.insert(block);
            }
            let foreign = migrate_type != MigrateType::Movable
                && machine.type_of(frame) == MigrateType::Movable;
            prop_assert!(!foreign || mixed.contains(&block), "an uncounted steal at {frame}");
        }
        machine.linux.validate(&machine.table);
    }
}

#[test]
fn memory_is_handed_over_in_ascending_order() {
    let layout = model::layout();
    let mut linux = Linux::new(&layout, Config::default());
    let mut table = prairie_frames::FrameTable::new(&layout);
    linux.boot(&mut table, &layout);
    let largest = Order::LARGEST_FREE;
    let normal: Vec<u64> = linux
        .free_list(&table, 2, largest, MigrateType::Movable)
        .map(|frame| layout.pfn(frame).0)
        .collect();
    assert_eq!(normal, (0..8).map(|k| (1 << 17) + k * 1024).collect::<Vec<u64>>());
    // The DMA zone misses its frame 0, so one block of every order below ten, and three of ten.
    let movable = &linux.free_blocks(0)[MigrateType::Movable.index()];
    assert_eq!(movable, &(MigrateType::Movable, vec![1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3]));
    assert_eq!(linux.pageblocks(2), Some([0, 16, 0, 0, 0, 0]));
}
