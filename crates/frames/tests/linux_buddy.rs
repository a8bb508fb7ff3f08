//! The order within the free lists of Linux 6.1, worked out by hand.

mod machine;

use frames::MigrateType::{HighAtomic, Movable, Unmovable};
use frames::placement::linux::Config;
use frames::{Frame, ZoneKind, free_area::End};
use machine::{BARE, Machine, zone};

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
fn a_direct_free_may_be_told_where_to_go() {
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
