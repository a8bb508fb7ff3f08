//! The order within the free lists of Linux 6.1, worked out by hand.

mod machine;

use machine::{BARE, Machine, order, zone};
use prairie_frames::MigrateType::{HighAtomic, Movable, Unmovable};
use prairie_frames::free_area::{End, FreeArea};
use prairie_frames::placement::linux::Config;
use prairie_frames::{Frame, FrameTable, Order, ZoneKind};
use proptest::prelude::*;

/// Four pageblocks of which the frames given are taken, and the rest is free.
fn area_without(taken: &[u32]) -> (FreeArea<1>, FrameTable) {
    let mut table = FrameTable::with_frames(2048);
    let mut area = FreeArea::new(Frame(0)..Frame(2048), Order::LARGEST_FREE);
    for frame in (0..2048).filter(|frame| !taken.contains(frame)).map(Frame) {
        table.add_memory(frame, Order::BASE);
        let (frame, order) = area.merge(&mut table, frame, Order::BASE, |_, _, _| true);
        area.insert(&mut table, frame, order, 0, End::Head);
    }
    (area, table)
}

fn lists(area: &FreeArea<1>, table: &FrameTable) -> Vec<Vec<u32>> {
    let of = |order| area.list(order, 0).iter(table).map(|frame| frame.0).collect();
    Order::up_to(area.largest()).map(of).collect()
}

proptest! {
    /// A run allocates what taking block after block would, and leaves the same lists.
    #[test]
    fn a_run_is_one_block_after_another(
        taken in prop::collection::vec(0..2048_u32, 0..40),
        requests in prop::collection::vec((0..=10_u8, 1..70_u32), 1..8),
    ) {
        let (mut area, mut table) = area_without(&taken);
        let (mut plain, mut plain_table) = (area.clone(), table.clone());
        for (of_order, wanted) in requests {
            let of_order = order(of_order);
            let (start, count) =
                area.take_run(&mut table, of_order, 0, wanted).unwrap_or((Frame(0), 0));
            let block = |at: u32| start.offset(u64::from(at) << of_order.get());
            let run: Vec<Frame> = (0..count).map(block).collect();
            let mut singles = Vec::new();
            for _ in 0..count {
                singles.extend(plain.take_smallest(&mut plain_table, of_order, 0));
            }
            prop_assert_eq!(run, singles);
            prop_assert_eq!(lists(&area, &table), lists(&plain, &plain_table));
            prop_assert!(count > 0 || !plain.has_block(of_order));
            area.validate(&table);
        }
    }
}

#[test]
fn a_split_keeps_the_low_half() {
    let mut machine = Machine::new(2, BARE);
    assert_eq!(machine.allocate(0, Movable), 0);
    for order in 0..10 {
        assert_eq!(machine.list(order, Movable), [1 << order]);
    }
    assert_eq!(machine.allocate(0, Movable), 1);
    assert_eq!(machine.allocate(0, Movable), 2);
    assert_eq!(machine.list(0, Movable), [3]);
    assert_eq!(machine.list(1, Movable), []);
    // The smallest sufficient block, not the lowest.
    assert_eq!(machine.allocate(2, Movable), 4);
    assert_eq!(machine.allocate(1, Movable), 8);
}

/// Frames 0 to 7 allocated one by one. 0 and 4 come back, then 6 and 7, then 5 or 2: where each
/// goes depends on whether its pair's buddy is free.
#[test]
fn a_block_that_may_soon_merge_goes_to_the_tail() {
    for likely in [true, false] {
        let mut machine = Machine::new(2, Config { merge_likely_to_tail: likely, ..BARE });
        machine.fill(0..8, Movable);
        machine.free(0);
        machine.free(6);
        assert_eq!(machine.list(0, Movable), [6, 0], "head: no pair is free");
        machine.free(7);
        assert_eq!(machine.list(0, Movable), [0]);
        assert_eq!(machine.list(1, Movable), [6]);
        // Once 5 is free too, 4 and 5 merge with 6 and 7: better keep 4 back.
        machine.free(4);
        assert_eq!(machine.list(0, Movable), if likely { [0, 4] } else { [4, 0] });
        machine.free(2);
        let expected = if likely { [2, 0, 4] } else { [2, 4, 0] };
        assert_eq!(machine.list(0, Movable), expected, "head: 0 and 1 are no free pair");
        machine.free(5);
        assert_eq!(machine.list(2, Movable), [4]);
        assert_eq!(machine.list(0, Movable), [2, 0]);
    }
}

#[test]
fn a_direct_free_can_name_its_end_of_the_list() {
    let mut machine = Machine::new(2, BARE);
    machine.fill(0..8, Movable);
    machine.free(0);
    machine.linux.free_to_buddy(&mut machine.table, Frame(2), Some(End::Tail));
    assert_eq!(machine.list(0, Movable), [0, 2]);
}

#[test]
fn pageblocks_merge_if_their_types_fall_back_on_each_other() {
    let normal = || vec![zone(ZoneKind::Normal, 0, 1024)];
    let machine = Machine::with_zones(normal(), BARE, &[Unmovable, Movable]);
    assert_eq!(machine.list(10, Movable), [0], "on the list of the half that came last");
    let machine = Machine::with_zones(normal(), BARE, &[HighAtomic, Movable]);
    assert_eq!((machine.list(9, HighAtomic), machine.list(9, Movable)), (vec![0], vec![512]));
    let machine = Machine::with_zones(normal(), BARE, &[HighAtomic, HighAtomic]);
    assert_eq!(machine.list(10, HighAtomic), [0]);
}

#[test]
fn buddies_merge_across_lists_below_a_pageblock() {
    let mut machine = Machine::new(2, BARE);
    machine.fill(0..1024, Movable);
    machine.free(0);
    // The lone frame moves to the unmovable list, its pageblock stays movable.
    assert_eq!(machine.allocate(0, Unmovable), 0);
    assert_eq!(machine.type_of(0), Movable);
    machine.free(0);
    machine.free(1);
    assert_eq!(machine.list(1, Movable), [0]);
}

#[test]
fn blocks_of_different_zones_do_not_merge() {
    let zones = vec![zone(ZoneKind::Dma32, 0, 512), zone(ZoneKind::Normal, 512, 512)];
    let machine = Machine::with_zones(zones, BARE, &[]);
    assert_eq!(machine.list(9, Movable), [0]);
}
