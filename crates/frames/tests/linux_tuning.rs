//! Per-CPU lists that adapt (Linux 6.7 and newer), worked out by hand.

mod machine;

use machine::{Machine, zone};
use prairie_frames::MigrateType::{Movable, Unmovable};
use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::linux::{Config, Pageset};
use prairie_frames::{KernelVersion, ZoneKind};

const LIMITS: Pageset = Pageset { batch: 15, high: 60, high_max: 2000, keeps_batch: false };

fn machine(version: KernelVersion, limits: Pageset) -> Machine {
    with_high(version, limits, 0)
}

/// The same with a high watermark.
fn with_high(version: KernelVersion, limits: Pageset, high: u64) -> Machine {
    let config = Config { watermark_boost_factor: 0, ..Config::of(version) };
    let watermarks = Watermarks { high, ..Watermarks::default() };
    let span = ZoneSpan { watermarks, ..zone(ZoneKind::Normal, 0, 8192) };
    let mut machine = Machine::with_zones(vec![span], config, &[]);
    machine.linux.set_pageset(0, limits);
    machine
}

fn cached(machine: &Machine) -> u64 {
    machine.linux.cached_count(0, 0)
}

#[test]
fn refills_double_until_something_is_freed() {
    let mut machine = machine(KernelVersion::new(6, 12), LIMITS);
    let mut sizes = Vec::new();
    let mut frames = Vec::new();
    for _ in 0..15 + 30 + 60 + 120 + 240 + 480 + 480 {
        let before = cached(&machine);
        frames.push(machine.allocate(0, Movable));
        if before == 0 {
            sizes.push(cached(&machine) + 1);
        }
    }
    // From 32 batches on they stay: 15 << 5.
    assert_eq!(sizes, [15, 30, 60, 120, 240, 480, 480]);
    // Each free halves the next refill.
    assert_eq!(cached(&machine), 0);
    let tuning = machine.linux.tuning(0, 0);
    assert_eq!(tuning.alloc_factor, 5);
    machine.free_all([frames[0], frames[1]]);
    assert_eq!(machine.linux.tuning(0, 0).alloc_factor, 1);
    for _ in 0..2 {
        machine.allocate(0, Movable);
    }
    machine.allocate(0, Movable);
    assert_eq!(cached(&machine), 29);
}

#[test]
fn a_refill_leaves_room_for_a_batch() {
    let limits = Pageset { high_max: 100, ..LIMITS };
    let mut machine = machine(KernelVersion::new(6, 12), limits);
    // 15, 30, then 60; the next would be 120 of at most 100 - 0 - 15.
    for _ in 0..15 + 30 + 60 {
        machine.allocate(0, Movable);
    }
    machine.allocate(0, Movable);
    assert_eq!(cached(&machine), 84);
    assert_eq!(machine.linux.tuning(0, 0).high, 100);
}

#[test]
fn larger_blocks_come_in_batches_that_do_not_double() {
    let mut machine = machine(KernelVersion::new(6, 12), LIMITS);
    for expected in [7, 7, 7] {
        machine.allocate(1, Unmovable);
        assert_eq!(cached(&machine), 2 * (expected - 1));
        for _ in 0..6 {
            machine.allocate(1, Unmovable);
        }
    }
}

#[test]
fn a_drain_returns_as_many_frames_as_were_freed_in_a_row() {
    let limits = Pageset { high_max: 60, ..LIMITS };
    let mut machine = machine(KernelVersion::new(6, 12), limits);
    let frames: Vec<u32> = (0..200).map(|_| machine.allocate(0, Movable)).collect();
    let on_lists = cached(&machine);
    let room = 60 - on_lists as usize;
    machine.free_all(frames[..room - 1].iter().copied());
    assert_eq!(cached(&machine), 59);
    // All in a row, but at least a batch stays: at most 60 - 15 go.
    machine.free_all([frames[room]]);
    let row = (room as u64).clamp(15, 45);
    assert_eq!(cached(&machine), 60 - row);
}

#[test]
fn larger_blocks_in_a_row_empty_the_lists() {
    let blocks = 20;
    let flushed_at = |version| {
        let mut machine = machine(version, LIMITS);
        let frames: Vec<u32> = (0..blocks).map(|_| machine.allocate(2, Unmovable)).collect();
        let freed = frames.into_iter().position(|frame| {
            let before = cached(&machine);
            machine.free_all([frame]);
            cached(&machine) < before
        });
        freed.map(|at| at + 1)
    };
    // The row counts four frames a block: a batch of 15 is full with the fourth, seen by the fifth.
    assert_eq!(flushed_at(KernelVersion::new(6, 12)), Some(5));
    // 6.16 waits for 15 + 30 frames.
    assert_eq!(flushed_at(KernelVersion::new(6, 18)), Some(13));
}

#[test]
fn updates_of_statistics_lower_the_mark_and_drain() {
    let mut machine = machine(KernelVersion::new(6, 12), LIMITS);
    for _ in 0..15 + 30 + 60 + 1 {
        machine.allocate(0, Movable);
    }
    // 60 + 15 + 30 + 60 + 120.
    assert_eq!((machine.linux.tuning(0, 0).high, cached(&machine)), (285, 119));
    let update = |machine: &mut Machine| {
        let frames = machine.linux.lower_high(0, 0);
        machine.linux.drain_by_batch(&mut machine.table, 0, 0, frames);
    };
    update(&mut machine);
    assert_eq!((machine.linux.tuning(0, 0).high, cached(&machine)), (285 - 35, 119));
    for _ in 0..20 {
        update(&mut machine);
    }
    assert_eq!((machine.linux.tuning(0, 0).high, cached(&machine)), (60, 60));
}

/// Lists for a zone of another node that are not used: 119 frames are left, a batch goes, the mark
/// stays.
#[test]
fn lists_for_another_node_go_back_batch_by_batch() {
    let mut machine = machine(KernelVersion::new(6, 12), LIMITS);
    for _ in 0..15 + 30 + 60 + 1 {
        machine.allocate(0, Movable);
    }
    for left in [104, 89, 74, 59, 44, 29, 14, 0, 0] {
        machine.linux.drain_batch(&mut machine.table, 0, 0);
        assert_eq!((machine.linux.tuning(0, 0).high, cached(&machine)), (285, left));
    }
}

#[test]
fn lists_of_6_1_do_not_adapt() {
    let mut machine = machine(KernelVersion::V6_1, Pageset::fixed(15, 60));
    for _ in 0..15 + 15 + 1 {
        machine.allocate(0, Movable);
    }
    assert_eq!(cached(&machine), 14);
}

/// All memory is free at first, so that a high watermark of all of it is above what is free.
#[test]
fn since_6_7_lists_hold_less_below_the_high_watermark() {
    let held = |version, high| {
        let mut machine = with_high(version, LIMITS, high);
        let frames: Vec<u32> = (0..15 + 30 + 60).map(|_| machine.allocate(0, Movable)).collect();
        let unused = cached(&machine);
        machine.free_all(frames);
        (unused, machine.linux.tuning(0, 0).high, cached(&machine))
    };
    let (old, new) = (KernelVersion::new(6, 6), KernelVersion::new(6, 7));
    assert_eq!(held(old, 0), held(old, 8192));
    assert_eq!(held(new, 0), (0, 60 + 15 + 30 + 60, 105));
    // The mark stays at 60, so that refills are 15, 30, 45, 45. Each time the frees reach it, what
    // was freed in a row goes back: 30, and then at most 45.
    assert_eq!(held(new, 8192), (30, 60, 60 - 45));
}
