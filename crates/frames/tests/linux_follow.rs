//! Linux's steps one by one: what a replay does that follows a recorded kernel.

mod machine;

use machine::{BARE, Machine, movable_single, order};
use prairie_frames::free_area::End;
use prairie_frames::placement::Placement;
use prairie_frames::placement::linux::{Config, Pageset};
use prairie_frames::table::State;
use prairie_frames::{Frame, MigrateType, Order};
use proptest::prelude::*;

const MOVABLE: MigrateType = MigrateType::Movable;

fn list(machine: &Machine, of_order: u8) -> Vec<u32> {
    let frames = machine.linux.free_list(&machine.table, 0, order(of_order), MOVABLE);
    frames.map(|frame| frame.0).collect()
}

/// A block taken by mistake and returned to the head leaves all lists as they were, for it merges
/// with the very halves that were split off.
#[test]
fn a_take_that_is_undone_leaves_the_lists_as_they_were() {
    let mut machine = Machine::new(4, BARE);
    machine.fill(0..5, MOVABLE);
    let before: Vec<_> = (0..=10).map(|o| list(&machine, o)).collect();
    for of_order in [0, 2, 6, 9] {
        let Machine { table, linux, .. } = &mut machine;
        let taken = linux.take_from_lists(table, 0, order(of_order), MOVABLE).unwrap();
        linux.give_to_lists(table, taken, order(of_order), MOVABLE, Some(End::Head));
        let after: Vec<_> = (0..=10).map(|o| list(&machine, o)).collect();
        assert_eq!(before, after, "order {of_order}");
    }
}

/// Cutting frame 5 out of a free pageblock leaves the pieces around it: 4, 6, 0, 8, 16 and so on.
#[test]
fn a_frame_is_carved_out_of_the_block_around_it() {
    let mut machine = Machine::new(1, BARE);
    let Machine { table, linux, .. } = &mut machine;
    assert!(linux.carve(table, Frame(5), Order::BASE));
    assert_eq!(table.state(Frame(5)), State::Inside);
    let pieces: Vec<_> = (0..=9).map(|o| list(&machine, o)).collect();
    let expected: [&[u32]; 10] = [&[4], &[6], &[0], &[8], &[16], &[32], &[64], &[128], &[256], &[]];
    assert_eq!(pieces, expected);
    let Machine { table, linux, .. } = &mut machine;
    assert!(!linux.carve(table, Frame(5), Order::BASE), "it is free no more");
    assert!(!linux.carve(table, Frame(4), order(1)), "half of it is not free");
    linux.give_to_lists(table, Frame(5), Order::BASE, MOVABLE, None);
    assert_eq!(list(&machine, 9), [0], "whole again");
}

/// A search of compaction leaves the block that it found at the head, the next search's way, or at
/// the tail; the others keep their order around the list, and the lists stay whole.
#[test]
fn a_list_is_turned_to_a_block_or_past_it() {
    let mut machine = Machine::new(6, BARE);
    for block in [1, 3, 5, 0] {
        // Every second pageblock only, so that none merges; returned to the tail.
        let Machine { table, linux, .. } = &mut machine;
        let frame = Frame(block * 512);
        assert!(linux.carve(table, frame, Order::HUGE));
        linux.put(table, frame, Order::HUGE, MOVABLE);
    }
    let before = list(&machine, 9);
    assert!(before.len() >= 3, "{before:?}");
    let turn = |machine: &mut Machine, frame: u32, past: bool| {
        let Machine { table, linux, .. } = machine;
        match past {
            false => linux.turn_list(table, Frame(frame)),
            true => linux.turn_list_past(table, Frame(frame)),
        }
        machine.linux.validate(&machine.table);
        list(machine, 9)
    };
    for at in 0..before.len() {
        let mut expected = before.clone();
        expected.rotate_left(at);
        assert_eq!(turn(&mut machine, before[at], false), expected);
        expected.rotate_left(1);
        assert_eq!(turn(&mut machine, before[at], true), expected, "past {}", before[at]);
        assert_eq!(turn(&mut machine, before[0], false), before);
    }
    // Both ends and the links between hold: all of it can be taken, from the head on.
    let Machine { table, linux, .. } = &mut machine;
    let taken: Vec<_> = before
        .iter()
        .map(|_| linux.take_from_lists(table, 0, Order::HUGE, MOVABLE).unwrap().0)
        .collect();
    assert_eq!(taken, before);
    for frame in taken {
        linux.give_to_lists(table, Frame(frame), Order::HUGE, MOVABLE, None);
    }
}

/// A pageblock that joins the atomic reserve takes what is free in it along, and brings it back.
#[test]
fn a_pageblock_moves_to_another_type_with_what_is_free_in_it() {
    let mut machine = Machine::new(2, BARE);
    let Machine { table, linux, .. } = &mut machine;
    assert!(linux.carve(table, Frame(512), Order::BASE));
    let free = |linux: &prairie_frames::placement::linux::Linux, migrate_type: MigrateType| {
        let of_type = linux.free_blocks(0).into_iter().find(|(t, _)| *t == migrate_type).unwrap();
        of_type.1.iter().enumerate().map(|(order, blocks)| blocks << order).sum::<u64>()
    };
    linux.move_pageblock(table, Frame(600), MigrateType::HighAtomic);
    assert_eq!(linux.pageblock_type(Frame(512)), MigrateType::HighAtomic);
    assert_eq!((free(linux, MigrateType::HighAtomic), free(linux, MOVABLE)), (511, 512));
    linux.move_pageblock(table, Frame(600), MOVABLE);
    assert_eq!((free(linux, MigrateType::HighAtomic), free(linux, MOVABLE)), (0, 1023));
    linux.give_to_lists(table, Frame(512), Order::BASE, MOVABLE, None);
}

/// The first of a batch in bulk comes from the head; what stands on a list can change places with
/// what does not, and the count stays.
#[test]
fn per_cpu_lists_are_worked_by_hand() {
    let mut machine = Machine::new(2, Config::default());
    machine.linux.set_pageset(0, Pageset::fixed(4, 100));
    let Machine { table, linux, .. } = &mut machine;
    let first = linux.take_bulk(table, 0, &movable_single(), 0);
    assert_eq!(first, Some(Frame(0)));
    assert_eq!(
        linux.cached(0, 0, Order::BASE, MOVABLE).map(|f| f.0).collect::<Vec<_>>(),
        [1, 2, 3]
    );
    assert_eq!(linux.cached_count(0, 0), 3);

    assert!(linux.carve(table, Frame(100), Order::BASE));
    assert!(linux.exchange_cached(table, 0, Frame(2), Frame(100)));
    linux.give_to_lists(table, Frame(2), Order::BASE, MOVABLE, None);
    let listed: Vec<_> = linux.cached(0, 0, Order::BASE, MOVABLE).map(|f| f.0).collect();
    assert_eq!(listed, [1, 100, 3]);
    assert!(!linux.exchange_cached(table, 0, Frame(2), Frame(200)), "2 is on no such list");

    assert!(linux.uncache(table, 0, Frame(100)));
    assert!(!linux.uncache(table, 0, Frame(100)));
    let block = (Frame(100), Order::BASE);
    linux.cache_block(table, 0, block, (MOVABLE, MOVABLE), End::Tail);
    let listed: Vec<_> = linux.cached(0, 0, Order::BASE, MOVABLE).map(|f| f.0).collect();
    assert_eq!(listed, [1, 3, 100]);
    assert_eq!(linux.cached_count(0, 0), 3);
    linux.validate(table);
}

/// A free under a type looked up earlier goes to that type's list.
#[test]
fn a_free_keeps_the_type_it_was_prepared_with() {
    let mut machine = Machine::new(2, Config::default());
    machine.linux.set_pageset(0, Pageset::fixed(2, 100));
    let frame = Frame(machine.allocate(0, MOVABLE));
    let Machine { table, linux, .. } = &mut machine;
    linux.free_as(table, frame, 0, MigrateType::Reclaimable);
    let on = |kind| linux.cached(0, 0, Order::BASE, kind).any(|cached| cached == frame);
    assert!(on(MigrateType::Reclaimable) && !on(MOVABLE));
}

/// The last fallback has the fields of the tracepoint.
#[test]
fn a_fallback_is_reported() {
    let mut machine = Machine::new(2, BARE);
    assert_eq!(machine.linux.last_fallback(), (0, None));
    machine.allocate(3, MigrateType::Unmovable);
    let (count, last) = machine.linux.last_fallback();
    let last = last.expect("all memory was movable");
    assert_eq!((count, last.wanted, last.from), (1, MigrateType::Unmovable, MOVABLE));
    assert!(last.change_ownership);
    assert!(last.order >= Order::HUGE);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever is cut out and returned, everything stays consistent, and once all of it is back
    /// memory is whole again.
    #[test]
    fn carving_and_giving_back_is_consistent(
        cuts in prop::collection::vec((0u32..2048, 0u8..5), 1..40),
    ) {
        let mut machine = Machine::new(4, BARE);
        let before = machine.linux.free_blocks(0);
        let mut out = Vec::new();
        for (frame, of_order) in cuts {
            let (order, frame) = (order(of_order), Frame(frame).align_down(order(of_order)));
            let Machine { table, linux, .. } = &mut machine;
            if linux.carve(table, frame, order) {
                out.push((frame, order));
            }
        }
        prop_assert!(!out.is_empty());
        for (frame, order) in out {
            let Machine { table, linux, .. } = &mut machine;
            linux.give_to_lists(table, frame, order, MOVABLE, None);
        }
        machine.linux.validate(&machine.table);
        prop_assert_eq!(machine.linux.free_blocks(0), before);
    }
}
