//! Linux's compaction: cases worked by hand, and properties that hold for all memory.

mod machine;

use std::collections::BTreeSet;

use machine::{BARE, Machine, order};
use prairie_frames::compaction::suitable::{EXTFRAG_THRESHOLD, Suitable, suitable};
use prairie_frames::compaction::{
    Compactable, Compactor, Direct, Memory, Mode, Outcome, Pages, Plain, Priority, compact_zone,
};
use prairie_frames::indices::{FreeBlocks, kernel_fragmentation_index, unusable_free_space};
use prairie_frames::layout::{Watermarks, Zone};
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::table::{Owner, State};
use prairie_frames::{Frame, FrameTable, MigrateType, Mobility, Order, ZoneKind};
use proptest::prelude::*;

use MigrateType::{Movable, Unmovable};

const ASYNC: Direct = Direct {
    order: Order::HUGE,
    migrate_type: Movable,
    highest_zone: ZoneKind::Normal,
    priority: Priority::Async,
};
const LIGHT: Direct = Direct { priority: Priority::SyncLight, ..ASYNC };
const FULL: Direct = Direct { priority: Priority::SyncFull, ..ASYNC };

/// A machine and what it remembers of compaction.
struct Lab {
    machine: Machine,
    compactor: Compactor,
}

impl Lab {
    /// `blocks` pageblocks full of single movable pages.
    fn full(blocks: u32) -> Lab {
        let mut machine = Machine::new(u64::from(blocks), BARE);
        machine.fill(0..blocks * 512, Movable);
        let compactor = Compactor::new(&machine.layout());
        Lab { machine, compactor }
    }

    fn direct(&mut self, request: Direct) -> (Outcome, prairie_frames::compaction::Cost) {
        let Machine { table, linux, .. } = &mut self.machine;
        let result = self.compactor.direct(table, linux, &mut Plain, &[0], request);
        self.machine.linux.validate_all(&self.machine.table);
        result
    }

    fn compact_memory(&mut self) -> prairie_frames::compaction::Cost {
        let Machine { table, linux, .. } = &mut self.machine;
        let cost = self.compactor.whole(table, linux, &mut Plain, [0].into_iter(), None);
        self.machine.linux.validate_all(&self.machine.table);
        cost
    }

    fn unusable(&self) -> f64 {
        let counts = self.machine.linux.free_counts(0);
        unusable_free_space(FreeBlocks { counts: &counts }, Order::HUGE)
    }
}

/// Validation without the trait in scope everywhere.
trait ValidateAll {
    fn validate_all(&self, table: &FrameTable);
}

impl<P: prairie_frames::placement::Placement> ValidateAll for P {
    fn validate_all(&self, table: &FrameTable) {
        self.validate(table);
    }
}

#[test]
fn pages_move_from_the_bottom_into_holes_at_the_top() {
    // Eight pageblocks, every second page free: no block larger than a page.
    let mut lab = Lab::full(8);
    lab.machine.free_all((0..4096).step_by(2));
    assert_eq!(lab.unusable(), 1.0);
    let cost = lab.compact_memory();
    // Three pageblocks move into three others. Of the fourth a first cluster finds room in the
    // fifth; when the rest of it is isolated at once, the scanners count as having met.
    assert_eq!((cost.moved, cost.failed), (3 * 256 + 32, 1));
    assert_eq!(cost.bytes_copied(), (3 * 256 + 32) * 4096);
    assert_eq!(lab.machine.list(10, Movable), [0]);
    assert_eq!(lab.machine.list(9, Movable), [1024]);
    assert_eq!(cost.migrate_scanned, 4 * 512, "every page of the lower half");
    // Of the upper half: all of the last pageblock; of two more, every second page until there were
    // 32 (for one was checked before without finding any) and then all; 32 of the fourth.
    assert_eq!(cost.free_scanned, 512 + 2 * (32 + 449) + 32);
    assert_eq!(cost.isolated, 4 * 256 + 3 * 256 + 32);
    for owner in (1..4096).step_by(2) {
        let at = lab.machine.table.block_of(owner).expect("still there").0;
        match owner {
            0..1536 => assert!(at >= 2560 && at.is_multiple_of(2), "{owner} at {at}"),
            1536..2048 => assert!(at == owner || at / 512 == 4, "{owner} at {at}"),
            _ => assert_eq!(at, owner),
        }
    }
}

#[test]
fn pages_of_a_cluster_fill_the_highest_holes_first_from_the_last() {
    let mut lab = Lab::full(4);
    // Four pages at the bottom are to move, into eight holes at the top; all between is free.
    lab.machine.free_all(4..1536);
    lab.machine.free_all(1536..1544);
    let cost = lab.compact_memory();
    assert_eq!(cost.moved, 4);
    // Eight frames come as one block; the last of the cluster takes the last frame of it.
    let places: Vec<u32> =
        (0..4).map(|owner| lab.machine.table.block_of(owner).unwrap().0).collect();
    assert_eq!(places, [1540, 1541, 1542, 1543]);
    assert_eq!(
        lab.machine.list(2, Movable),
        [1536],
        "what was isolated and not used is free again"
    );
}

#[test]
fn an_unmovable_page_pollutes_its_own_pageblock_and_no_other() {
    let mut lab = Lab::full(8);
    // In the second pageblock, a page that nobody can move.
    lab.machine.free(600);
    assert_eq!(lab.machine.allocate(0, Unmovable), 600);
    lab.machine.free_all((0..4096).step_by(2).filter(|&frame| frame != 600));
    lab.compact_memory();
    assert_eq!(lab.machine.list(9, Movable), [1024, 0], "the first and the third");
    assert_eq!(lab.machine.table.state(Frame(600)), State::Allocated);
    assert_eq!(lab.machine.table.block(Frame(512)).free, 511);
}

#[test]
fn compound_pages_are_passed_at_once_and_stay() {
    let mut machine = Machine::new(4, BARE);
    assert_eq!(machine.allocate(9, Movable), 0);
    assert_eq!(machine.allocate(2, Movable), 512);
    machine.fill(516..2048, Movable);
    machine.free_all((1024..2048).step_by(2));
    let mut lab = Lab { compactor: Compactor::new(&machine.layout()), machine };
    let cost = lab.compact_memory();
    // The huge page's block is not scanned. The second gives a look for four pages and 508 pages,
    // of which 256 find room in the last.
    assert_eq!((cost.moved, cost.migrate_scanned), (256, 1 + 508));
    assert_eq!(lab.machine.table.state(Frame(0)), State::Allocated);
    assert_eq!(lab.machine.table.order(Frame(512)), order(2));
}

#[test]
fn direct_compaction_stops_with_the_pageblock_that_serves_the_request() {
    let mut lab = Lab::full(16);
    lab.machine.free_all((0..16 * 512).step_by(2));
    let (outcome, cost) = lab.direct(LIGHT);
    assert_eq!(outcome, Outcome::Success);
    // One pageblock's pages and not a page more.
    assert_eq!(cost.moved, 256);
    assert_eq!(lab.machine.list(9, Movable), [0]);
    // It is free now: the next run has nothing to do.
    assert_eq!(lab.direct(LIGHT), (Outcome::Success, Default::default()));
    assert_eq!(lab.machine.allocate(9, Movable), 0);
    // The next one continues where this one stopped.
    let (outcome, cost) = lab.direct(LIGHT);
    assert_eq!((outcome, cost.moved), (Outcome::Success, 256));
    assert_eq!(lab.machine.list(9, Movable), [512]);
}

#[test]
fn an_asynchronous_run_spares_foreign_pageblocks_and_hopeless_parts() {
    // A request for 64 KiB of unmovable memory: movable pageblocks are not emptied for it in
    // passing, only by a run that may wait.
    let mut lab = Lab::full(4);
    lab.machine.free_all((0..2048).step_by(2));
    let wanted = Direct { order: order(4), migrate_type: Unmovable, ..ASYNC };
    let (outcome, cost) = lab.direct(wanted);
    assert_eq!((outcome, cost.moved, cost.migrate_scanned), (Outcome::PartialSkipped, 0, 0));
    let (outcome, cost) = lab.direct(Direct { priority: Priority::SyncLight, ..wanted });
    assert_eq!((outcome, cost.moved), (Outcome::Success, 256));

    // One page that cannot move in each aligned 64 KiB: giving up early moves nothing, where a
    // run that may wait moves all it can.
    let pollute = || {
        let mut lab = Lab::full(4);
        for frame in (3..1536).step_by(16) {
            lab.machine.free(frame);
            assert_eq!(lab.machine.allocate(0, Unmovable), frame);
        }
        lab.machine.free_all((1536..2048).step_by(2));
        lab
    };
    let wanted = Direct { order: order(4), ..ASYNC };
    let (outcome, hurried) = pollute().direct(wanted);
    assert_eq!((outcome, hurried.moved), (Outcome::PartialSkipped, 0));
    // In each 16 frames, three are isolated for nothing and the fourth is the last checked.
    assert_eq!(hurried.migrate_scanned, 96 * 4);
    let (_, patient) = pollute().direct(Direct { priority: Priority::SyncLight, ..wanted });
    assert!(patient.moved > 200, "{patient:?}");
}

#[test]
fn what_gave_nothing_is_skipped_and_failures_are_deferred() {
    // Unmovable pages everywhere, half of memory free: nothing to move.
    let mut machine = Machine::new(8, BARE);
    machine.fill(0..4096, Unmovable);
    machine.free_all((0..4096).step_by(2));
    let mut lab = Lab { compactor: Compactor::new(&machine.layout()), machine };
    let (outcome, first) = lab.direct(LIGHT);
    // A zone from frame 0 on was never restarted, so that this was part of a scan, not a whole.
    assert_eq!(outcome, Outcome::PartialSkipped);
    assert!(first.migrate_scanned > 3 * 512 && first.moved == 0, "{first:?}");
    assert!((0..3).all(|block| lab.compactor.hints(0).is_skipped(Frame(block * 512))));
    // One request goes by; the one after finds the skip bits.
    assert_eq!(lab.direct(LIGHT), (Outcome::Deferred, Default::default()));
    let (outcome, second) = lab.direct(LIGHT);
    assert_eq!(outcome, Outcome::PartialSkipped);
    assert!(second.migrate_scanned == 0, "{second:?}");
    // Now three.
    let deferred = (0..10).take_while(|_| lab.direct(LIGHT).0 == Outcome::Deferred).count();
    assert_eq!(deferred, 3);
    // The highest priority ignores both.
    let (outcome, full) = lab.direct(FULL);
    assert_eq!(outcome, Outcome::Complete);
    assert!(full.migrate_scanned >= first.migrate_scanned);
    // kswapd clears the bits where a sample finds something: pages to move, in the lower half.
    while lab.machine.request(machine::movable_single()).is_some() {}
    let Machine { table, linux, .. } = &mut lab.machine;
    let memory = Memory { table, placement: linux, pages: &mut Plain, zone: 0 };
    lab.compactor.hints_mut(0).forget_skips(&memory);
    assert!((0..3).all(|block| !lab.compactor.hints(0).is_skipped(Frame(block * 512))));
}

#[test]
fn a_zone_is_suitable_for_fragmentation_and_not_for_lack_of_memory() {
    let mut lab = Lab::full(8);
    let check = |lab: &Lab, order| {
        suitable(&lab.machine.linux, 0, order, ZoneKind::Normal, EXTFRAG_THRESHOLD)
    };
    let index = |lab: &Lab| {
        let counts = lab.machine.linux.free_counts(0);
        kernel_fragmentation_index(FreeBlocks { counts: &counts }, Order::HUGE)
    };
    assert_eq!(check(&lab, Order::HUGE), Suitable::Skip, "nothing is free");
    // Two blocks' worth in single frames must be exceeded.
    lab.machine.free_all((0..2048).step_by(2));
    assert_eq!(check(&lab, Order::HUGE), Suitable::Skip);
    lab.machine.free_all([2048]);
    assert!(index(&lab) > 990);
    assert_eq!(check(&lab, Order::HUGE), Suitable::Compact);
    // As much in four blocks of 256: 1000 - (1000 + 2001) / 5 = 400.
    let mut lab = Lab::full(8);
    lab.machine.free_all((0..4).flat_map(|block| block * 512..block * 512 + 256));
    lab.machine.free(2048);
    assert_eq!(index(&lab), 400);
    assert_eq!(check(&lab, Order::HUGE), Suitable::Skip, "up to 500 counts as lack of memory");
    // For an order that is not costly the index does not count.
    let mut lab = Lab::full(2);
    lab.machine.free_all((0..40).step_by(2));
    assert_eq!(check(&lab, order(3)), Suitable::Compact);
    // And a zone that can serve the request needs nothing.
    lab.machine.free_all(512..520);
    assert_eq!(check(&lab, order(3)), Suitable::Satisfied);
}

#[test]
fn watermarks_keep_the_free_scanner_out() {
    let mut span = machine::zone(ZoneKind::Normal, 0, 4 * 512);
    span.watermarks = Watermarks { min: 600, low: 600, high: 600 };
    let mut machine = Machine::with_zones(vec![span], BARE, &[]);
    let mut at = Vec::new();
    while let Some(frame) = machine.request(machine::movable_single()) {
        at.push(frame);
        if at.len() == 2048 {
            break;
        }
    }
    at.sort_unstable();
    machine.free_all(at.iter().copied().filter(|frame| frame.is_multiple_of(4)));
    let mut lab = Lab { compactor: Compactor::new(&machine.layout()), machine };
    // 512 free frames are fewer than the mark: nothing may be isolated, so nothing moves.
    let cost = lab.compact_memory();
    assert_eq!(cost.moved, 0);
    assert_eq!(cost.failed, 1, "the first page finds no free one, and that is the end");
}

#[test]
fn kcompactd_works_where_it_makes_sense_and_backs_off() {
    let mut lab = Lab::full(8);
    lab.machine.free_all((0..4096).step_by(2));
    let Machine { table, linux, .. } = &mut lab.machine;
    let mut run = |compactor: &mut Compactor| {
        compactor.kcompactd(table, linux, &mut Plain, [0].into_iter(), Order::HUGE).0
    };
    // It has no type of its own and so looks for an unmovable block: a whole pageblock will do.
    assert_eq!(run(&mut lab.compactor), [(0, Outcome::Success)]);
    assert_eq!(run(&mut lab.compactor), [], "satisfied");
}

/// Proactive compaction stops at its score.
#[test]
fn a_score_that_is_good_enough_ends_the_run() {
    let mut lab = Lab::full(16);
    lab.machine.free_all((0..16 * 512).step_by(2));
    let Machine { table, linux, .. } = &mut lab.machine;
    let cost = lab.compactor.whole(table, linux, &mut Plain, [0].into_iter(), Some(80));
    // Of 4,096 free pages a fifth lies in huge blocks once two pageblocks are empty.
    assert_eq!(cost.moved, 512);
    assert_eq!(lab.unusable(), 0.75);
}

/// Pages of which some cannot be isolated, others fail at the last moment; and what each holds.
struct Content {
    held: Vec<Option<Owner>>,
    pinned: BTreeSet<Owner>,
    busy: BTreeSet<Owner>,
}

impl Pages for Content {
    fn can_isolate(&self, table: &FrameTable, frame: Frame, _: Mode) -> bool {
        table.mobility(frame) == Mobility::Movable && !self.pinned.contains(&table.owner(frame))
    }

    fn copy(&mut self, owner: Owner, from: Frame, to: Frame, _: Mode) -> bool {
        if self.busy.contains(&owner) {
            return false;
        }
        assert_eq!(self.held[from.index()], Some(owner), "moved from where its content is not");
        assert_eq!(self.held[to.index()].replace(owner), None, "moved onto somebody's content");
        self.held[from.index()] = None;
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn content_follows_its_owner_and_nothing_is_lost(
        freed in prop::collection::btree_set(0..4096u32, 200..2500),
        unmovable in prop::collection::btree_set(0..4096u32, 0..30),
        stuck in prop::collection::btree_set(0..4096u32, 0..60),
        asynchronous in any::<bool>(),
        wanted in prop::option::of(1..=10u8),
    ) {
        let mut machine = Machine::new(8, BARE);
        let mut owners: Vec<u32> = Vec::new();
        for frame in 0..4096 {
            let kind = if unmovable.contains(&frame) { Unmovable } else { Movable };
            owners.push(machine.allocate(0, kind));
        }
        for &frame in &freed {
            machine.free(frame);
        }
        let content = |table: &FrameTable| -> Vec<Option<Owner>> {
            let used = |&f: &u32| table.state(Frame(f)) == State::Allocated;
            (0..4096).map(|f| Some(f).filter(used).map(|f| table.owner(Frame(f)))).collect()
        };
        let before = content(&machine.table);
        let stuck: Vec<u32> = stuck.into_iter().collect();
        let half = stuck.len() / 2;
        let mut pages = Content {
            held: before.clone(),
            pinned: stuck[..half].iter().copied().collect(),
            busy: stuck[half..].iter().copied().collect(),
        };
        let layout = machine.layout();
        let mut compactor = Compactor::new(&layout);
        let Machine { table, linux, .. } = &mut machine;
        let unusable = |linux: &prairie_frames::placement::linux::Linux| {
            let counts = linux.free_counts(0);
            unusable_free_space(FreeBlocks { counts: &counts }, Order::HUGE)
        };
        let worse_than = unusable(linux);
        let cost = match wanted {
            None => compactor.whole(table, linux, &mut pages, [0].into_iter(), None),
            Some(wanted) => {
                let priority = if asynchronous { Priority::Async } else { Priority::SyncLight };
                let request = Direct { order: order(wanted), priority, ..ASYNC };
                compactor.direct(table, linux, &mut pages, &[0], request).1
            }
        };
        linux.validate_all(table);
        prop_assert_eq!(&content(table), &pages.held, "the table and the content agree");
        let moved = (0..4096).filter(|&f| before[f].is_some() && pages.held[f] != before[f]).count();
        prop_assert_eq!(moved as u64, cost.moved);
        let frames = before.iter().flatten().count();
        prop_assert_eq!(pages.held.iter().flatten().count(), frames);
        for (frame, owner) in before.iter().enumerate() {
            let Some(owner) = owner else { continue };
            let stays = pages.pinned.contains(owner)
                || pages.busy.contains(owner)
                || unmovable.contains(owner);
            prop_assert!(!stays || pages.held[frame] == Some(*owner), "{owner} moved");
        }
        prop_assert!(unusable(linux) <= worse_than, "compaction broke memory");
    }
}

#[test]
fn a_run_over_a_zone_can_be_asked_for_directly() {
    let mut lab = Lab::full(4);
    lab.machine.free_all((0..2048).step_by(2));
    let zone: Zone = lab.machine.linux.zone(0).clone();
    let mut hints = prairie_frames::compaction::hints::Hints::new(&zone);
    let Machine { table, linux, .. } = &mut lab.machine;
    let mut memory = Memory { table, placement: linux, pages: &mut Plain, zone: 0 };
    let (outcome, cost) = compact_zone(&mut memory, &mut hints, &Default::default());
    assert_eq!((outcome, cost.moved), (Outcome::Complete, 256 + 32));
}
