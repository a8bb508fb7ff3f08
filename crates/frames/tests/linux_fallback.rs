//! What Linux 6.1 takes from foreign lists, worked out by hand.

mod machine;

use machine::{BARE, Machine, order, zone};
use prairie_frames::MigrateType::{Cma, Movable, Reclaimable, Unmovable};
use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::placement::Request;
use prairie_frames::placement::linux::Config;
use prairie_frames::{MigrateType, ZoneKind};

#[test]
fn a_block_of_pageblock_size_changes_hands_whole() {
    let mut machine = Machine::new(4, BARE);
    assert_eq!(machine.allocate(0, Unmovable), 0);
    assert_eq!([0, 512, 1024].map(|f| machine.type_of(f)), [Unmovable, Unmovable, Movable]);
    assert_eq!(machine.list(9, Unmovable), [512]);
    assert_eq!(machine.list(10, Movable), [1024]);
    assert_eq!(machine.counter("extfrag"), 1);
    assert_eq!(machine.counter("extfrag_change_ownership"), 1);
    assert_eq!(machine.counter("extfrag_fragmenting"), 0);
    assert_eq!(machine.counter("watermark_boost"), 0);
}

/// A machine full of movable frames, of which the second pageblock's upper part is then freed.
fn with_free(frames: std::ops::Range<u32>) -> Machine {
    let mut machine = Machine::new(4, BARE);
    machine.fill(0..2048, Movable);
    machine.free_all(frames);
    machine
}

#[test]
fn a_pageblock_is_claimed_at_half() {
    let mut machine = with_free(768..1024);
    assert_eq!(machine.allocate(0, Unmovable), 768);
    assert_eq!(machine.type_of(768), Unmovable);
    assert_eq!(machine.counter("steal_claim"), 1);
    assert_eq!(machine.counter("extfrag_unmovable_in_movable"), 1);
    assert_eq!(machine.counter("extfrag_change_ownership"), 1);
}

#[test]
fn below_half_the_free_blocks_go_along_without_their_pageblock() {
    let mut machine = with_free(769..1024);
    // The largest block is 896..1024, but the smallest of those that moved is taken.
    assert_eq!(machine.allocate(0, Unmovable), 769);
    assert_eq!(machine.type_of(769), Movable);
    assert_eq!(machine.list(1, Unmovable), [770]);
    assert_eq!(machine.list(7, Unmovable), [896]);
    assert_eq!((machine.counter("steal_block"), machine.counter("steal_claim")), (1, 0));
    // A frame freed there goes back to the pageblock's own type.
    machine.free(769);
    assert_eq!(machine.list(0, Movable), [769]);
}

/// In a movable pageblock everything in use that is not movable counts for an unmovable request:
/// with 200 free frames, 56 unmovable ones are enough, 55 are not.
#[test]
fn unmovable_neighbors_count_as_alike() {
    for (neighbors, claims) in [(56, 1), (55, 0)] {
        let mut machine = Machine::new(4, Config { claiming: true, ..BARE });
        machine.fill(0..2048, Movable);
        // A lone frame each time, so that nothing else moves along and no pageblock is claimed.
        for frame in (512..512 + 2 * neighbors).step_by(2) {
            machine.free(frame);
            assert_eq!(machine.allocate(0, Unmovable), frame);
        }
        assert_eq!(machine.type_of(512), Movable);
        let before = machine.counter("steal_claim");
        machine.free_all(1024 - 200..1024);
        machine.allocate(0, Unmovable);
        assert_eq!(machine.counter("steal_claim") - before, claims, "{neighbors}");
    }
}

/// A movable request claims what is half free or movable, whoever has the rest.
#[test]
fn movable_neighbors_count_as_alike() {
    for (movable, claims) in [(240, 1), (239, 0)] {
        let mut machine = half_unmovable();
        // Movable frames come into the unmovable pageblock one by one.
        for frame in (0..2 * movable).step_by(2) {
            machine.free(frame);
            assert_eq!(machine.allocate(0, Movable), frame);
        }
        machine.free_all(496..512);
        machine.allocate(0, Movable);
        assert_eq!(machine.counter("steal_claim"), claims, "{movable}");
    }
}

#[test]
fn moved_blocks_queue_up_in_ascending_order() {
    // Single frames at odd places, freed from the top: none merge.
    let mut machine = Machine::new(4, BARE);
    machine.fill(0..2048, Movable);
    machine.free_all([521, 519, 517, 515, 513]);
    assert_eq!(machine.list(0, Movable), [513, 515, 517, 519, 521]);
    machine.free_all([523]);
    assert_eq!(machine.list(0, Movable), [523, 513, 515, 517, 519, 521]);
    assert_eq!(machine.allocate(0, Unmovable), 513);
    assert_eq!(machine.list(0, Unmovable), [515, 517, 519, 521, 523]);
}

/// A full machine of four pageblocks, the first two unmovable, the others movable.
fn half_unmovable() -> Machine {
    let types = [Unmovable, Unmovable, Movable, Movable];
    let zones = vec![zone(ZoneKind::Normal, 0, 2048)];
    let mut machine = Machine::with_zones(zones, BARE, &types);
    machine.fill(0..1024, Unmovable);
    machine.fill(1024..2048, Movable);
    machine
}

#[test]
fn movable_that_cannot_claim_takes_the_smallest() {
    let mut machine = half_unmovable();
    machine.free_all(8..16);
    machine.free_all([34, 35]);
    assert_eq!(machine.list(3, Unmovable), [8]);
    assert_eq!(machine.allocate(0, Movable), 34);
    assert_eq!(machine.list(0, Movable), [35], "the rest of the block it took");
    assert_eq!(machine.list(3, Unmovable), [8], "all else stays");
    assert_eq!(machine.type_of(34), Unmovable);
    assert_eq!(machine.counter("steal_single"), 1);
    assert_eq!(machine.counter("extfrag_movable_in_unmovable"), 1);
}

#[test]
fn movable_takes_blocks_of_order_four_and_what_lies_beside_them() {
    let mut machine = half_unmovable();
    machine.free_all(16..32);
    machine.free_all([34]);
    assert_eq!(machine.allocate(0, Movable), 34);
    assert_eq!(machine.list(4, Movable), [16]);
    assert_eq!(machine.type_of(34), Unmovable, "17 of 512 are not half");
    assert_eq!(machine.counter("steal_block"), 1);
}

#[test]
fn unmovable_takes_the_largest() {
    let mut machine = half_unmovable();
    machine.free_all([1100, 1101]);
    machine.free_all(1600..1604);
    assert_eq!(machine.allocate(0, Unmovable), 1600);
    assert_eq!(machine.list(1, Movable), [1100]);
}

#[test]
fn each_type_has_its_own_order_of_preference() {
    let cases: [(MigrateType, u32); 3] = [(Unmovable, 1024), (Reclaimable, 0), (Movable, 1024)];
    for (migrate_type, expected) in cases {
        let types = [Unmovable, Unmovable, Reclaimable, Reclaimable, Movable, Movable];
        let zones = vec![zone(ZoneKind::Normal, 0, 3072)];
        let mut machine = Machine::with_zones(zones, BARE, &types);
        machine.fill(0..1024, Unmovable);
        machine.fill(1024..2048, Reclaimable);
        machine.fill(2048..3072, Movable);
        machine.free_all(
            [0, 1024, 2048].into_iter().filter(|&frame| machine_type(frame) != migrate_type),
        );
        assert_eq!(machine.allocate(0, migrate_type), expected, "{migrate_type}");
    }
}

fn machine_type(frame: u32) -> MigrateType {
    [Unmovable, Reclaimable, Movable][frame as usize / 1024]
}

#[test]
fn without_claiming_only_single_blocks_change_lists() {
    let mut machine = Machine::new(4, Config { claiming: false, ..BARE });
    machine.fill(0..2048, Movable);
    machine.free_all(768..1024);
    machine.free(600);
    assert_eq!(machine.allocate(0, Unmovable), 768);
    assert_eq!(machine.type_of(768), Movable);
    assert_eq!(machine.list(0, Movable), [600]);
    assert_eq!(machine.list(7, Unmovable), [896]);
}

#[test]
fn without_grouping_there_is_one_type() {
    let mut machine = Machine::new(4, Config { grouping: false, ..BARE });
    assert_eq!(machine.allocate(0, Movable), 0);
    assert_eq!(machine.allocate(0, Unmovable), 1);
    assert_eq!(machine.counter("extfrag"), 0);
}

/// DMA32 below Normal, four pageblocks each. Normal is full of movable memory but for half a
/// pageblock.
fn two_zones(config: Config) -> Machine {
    let zones = vec![zone(ZoneKind::Dma32, 0, 2048), zone(ZoneKind::Normal, 2048, 2048)];
    let mut machine = Machine::with_zones(zones, config, &[]);
    machine.fill(2048..4096, Movable);
    machine.free_all(3072 + 256..3072 + 512);
    machine
}

#[test]
fn the_zone_below_is_used_before_a_pageblock_is_broken_up() {
    let mut machine = two_zones(BARE);
    assert_eq!(machine.allocate(0, Unmovable), 0);
    assert_eq!(machine.counter("extfrag_fragmenting"), 0);
    assert_eq!(machine.counter("nofragment_retry"), 0);
    let mut machine = two_zones(Config { nofragment: false, ..BARE });
    assert_eq!(machine.allocate(0, Unmovable), 3072 + 256);
    assert_eq!(machine.counter("extfrag_fragmenting"), 1);
}

#[test]
fn pageblocks_are_broken_up_once_no_zone_can_spare_them() {
    let mut machine = two_zones(BARE);
    machine.fill(0..1, Unmovable);
    // Fill DMA32's whole pageblocks: its first two became unmovable, the others follow.
    for _ in 1..2048 {
        machine.allocate(0, Unmovable);
    }
    assert_eq!(machine.allocate(0, Unmovable), 3072 + 256);
    assert_eq!(machine.counter("nofragment_retry"), 1);
    assert_eq!(machine.counter("steal_claim"), 1);
}

/// Two nodes: rather than go to the other, a request breaks up a pageblock on its own.
#[test]
fn nearness_counts_more_than_whole_pageblocks() {
    let on_node = |node, zone| ZoneSpan { node, ..zone };
    let zones = vec![
        on_node(0, zone(ZoneKind::Dma32, 0, 1024)),
        on_node(0, zone(ZoneKind::Normal, 1024, 2048)),
        on_node(1, zone(ZoneKind::Normal, 3072, 2048)),
    ];
    let mut machine = Machine::with_zones(zones, BARE, &[]);
    machine.fill(1024..3072, Movable);
    machine.fill(0..1024, Movable);
    machine.free_all(2048 + 256..2560);
    assert_eq!(machine.allocate(0, Unmovable), 2048 + 256);
    assert_eq!(machine.counter("nofragment_retry"), 1);
    // A full node leaves no choice.
    for _ in 1..256 {
        machine.allocate(0, Unmovable);
    }
    assert_eq!(machine.allocate(0, Unmovable), 3072);
}

/// Areas of the contiguous memory allocator serve movable requests: once these have nothing else,
/// and while more than half of what is free lies there.
#[test]
fn contiguous_areas_are_for_movable_memory() {
    let zones = || vec![zone(ZoneKind::Normal, 0, 2048)];
    let with_cma = Config { cma: true, ..BARE };
    let mut machine = Machine::with_zones(zones(), with_cma, &[Cma, Movable, Movable, Movable]);
    machine.fill(512..1536, Movable);
    assert_eq!(machine.allocate(0, Movable), 1536, "half is not more than half");
    assert_eq!(machine.allocate(0, Movable), 0);
    assert_eq!(machine.allocate(0, Movable), 1537, "511 frames in 1,022");
    machine.fill(1..2, Movable);
    // Frames freed there go back there.
    machine.free(1);
    assert_eq!(machine.list(0, Cma), [1]);
    for _ in 0..510 {
        machine.allocate(0, Unmovable);
    }
    let unmovable = Request { order: order(0), ..Request::default() };
    assert_eq!(machine.request(unmovable), None, "511 free frames are not for it");
    assert_eq!(machine.allocate(0, Movable), 1);

    let mut machine = Machine::with_zones(zones(), BARE, &[Cma, Movable, Movable, Movable]);
    machine.fill(512..2048, Movable);
    let movable = Request { migrate_type: Movable, ..Request::default() };
    assert_eq!(machine.request(movable), None);
}

#[test]
fn a_fragmenting_steal_boosts_the_watermarks() {
    let boosted = |config| {
        let mut normal = zone(ZoneKind::Normal, 0, 2048);
        normal.watermarks = Watermarks { min: 0, low: 0, high: 400 };
        let mut machine = Machine::with_zones(vec![normal], config, &[]);
        machine.fill(0..2048, Movable);
        machine.free_all(768..1024);
        machine.free(100);
        assert_eq!(machine.allocate(0, Unmovable), 768);
        machine
    };
    let keep = Config { keep_boost: true, ..BARE };
    let mut machine = boosted(keep);
    assert_eq!(machine.linux.boost(0), 512, "one pageblock");
    assert_eq!(machine.counter("kswapd_wake_boost"), 1);
    // At most one and a half times the high watermark.
    machine.free_all([1500]);
    let request = Request { order: order(0), migrate_type: Reclaimable, ..Request::default() };
    assert!(machine.request(request).is_some());
    assert_eq!(machine.linux.boost(0), 600);
    machine.linux.end_boost(0);
    assert_eq!(machine.linux.boost(0), 0);

    assert_eq!(boosted(BARE).linux.boost(0), 0, "kswapd took it back");
    let machine = boosted(Config { watermark_boost_factor: 0, ..keep });
    assert_eq!(machine.counter("watermark_boost"), 0);
}
