//! Two regions and a moving border: cases worked by hand.

mod regions_machine;

use prairie_frames::contiguity::{Blocks, Unknown, potential_blocks};
use prairie_frames::layout::Watermarks;
use prairie_frames::placement::regions::{Config, Region};
use prairie_frames::placement::{Placement, gfp};
use prairie_frames::table::Owner;
use prairie_frames::{Frame, MigrateType, Mobility, Order, Pfn, ZoneKind};
use regions_machine::{Machine, PAGEBLOCK, Random, order, zone};

const SINGLE: Order = Order::BASE;
use MigrateType::{Movable, Reclaimable, Unmovable};

#[test]
fn each_region_fills_from_the_end_away_from_the_border() {
    let mut m = Machine::simple(16, 4);
    assert_eq!(m.border(), 4);
    let placed = |m: &mut Machine, size, kind| {
        let owner = m.allocate(order(size), kind).unwrap();
        m.at(owner)
    };
    assert_eq!(placed(&mut m, 0, Unmovable), 0);
    assert_eq!(placed(&mut m, 0, Reclaimable), 1);
    assert_eq!(placed(&mut m, 3, Unmovable), 8);
    assert_eq!(placed(&mut m, 0, Unmovable), 2);
    assert_eq!(placed(&mut m, 0, Movable), 8191);
    assert_eq!(placed(&mut m, 0, Movable), 8190);
    assert_eq!(placed(&mut m, 3, Movable), 8176);
    assert_eq!(placed(&mut m, 0, Movable), 8189);
    m.validate();
}

#[test]
fn a_freed_block_goes_back_to_where_it_lies() {
    let mut m = Machine::simple(4, 1);
    let low = m.allocate(SINGLE, Unmovable).unwrap();
    let high = m.allocate(SINGLE, Movable).unwrap();
    assert_eq!(m.regions.free_frames(0, Region::Unmovable), 511);
    assert_eq!(m.regions.free_frames(0, Region::Movable), 3 * 512 - 1);
    m.free(low);
    m.free(high);
    // As free as before, though on a list in front of the free blocks.
    assert_eq!(m.regions.free_frames(0, Region::Unmovable), 512);
    assert_eq!(m.regions.free_frames(0, Region::Movable), 3 * 512);
    assert!(m.regions.cached_frames() > 0);
    m.drain();
    let lists = m.regions.free_blocks(0);
    // Pageblock 0 is alone below the border and must not merge with pageblock 1.
    assert_eq!(lists[0], (Unmovable, vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]));
    assert_eq!(lists[1], (Movable, vec![0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]));
    assert_eq!(m.regions.pageblocks(0), Some([1, 3, 0, 0, 0, 0]));
}

/// Fills the movable region with single pages, by address.
fn fill(m: &mut Machine) -> Vec<(u32, Owner)> {
    let mut pages: Vec<(u32, Owner)> = Vec::new();
    let end = m.table.frames() as u32 - m.border() * PAGEBLOCK;
    for _ in 0..end {
        let Some(owner) = m.allocate(SINGLE, Movable) else { break };
        pages.push((m.at(owner), owner));
    }
    pages.sort_unstable();
    pages
}

#[test]
fn growth_moves_exactly_the_pages_in_the_way() {
    let zones = vec![zone(0, ZoneKind::Normal, 0, 4 * 512)];
    let config = Config { initial_frames: vec![(0, 512)], ..Config::default() };
    let mut m = Machine::bare(zones, config);
    // Memory beyond the zone is absent; the zone is four pageblocks.
    m = m.started();
    m.allocate(Order::HUGE, Unmovable).unwrap();
    let block = m.allocate(order(3), Movable).unwrap();
    assert_eq!(m.at(block), 2040);
    let pages = fill(&mut m);
    assert_eq!(pages.len(), 3 * 512 - 8);
    // Pageblock 1 keeps five pages; the last two pageblocks lose sixteen.
    let (mut kept, mut elsewhere) = (Vec::new(), Vec::new());
    for &(frame, owner) in &pages {
        match frame {
            512..1024 if frame % 100 == 0 => kept.push(owner),
            512..1024 => m.free(owner),
            1500..1516 => m.free(owner),
            _ => elsewhere.push((frame, owner)),
        }
    }
    assert_eq!(kept.len(), 5);
    let first = m.allocate(SINGLE, Unmovable).expect("the region grows");
    assert_eq!((m.border(), m.at(first)), (2, 512));
    assert_eq!((m.counter("growths"), m.counter("grown_on_failure")), (1, 1));
    assert_eq!((m.counter("pages_moved"), m.counter("bytes_copied")), (5, 5 * 4096));
    assert_eq!(m.counter("blocks_emptied"), 1);
    // They went to the smallest gap that is not beside the border, then to the next: the gap has
    // blocks of 4, 8 and 4 pages. Nothing else moved.
    let mut places: Vec<u32> = kept.iter().map(|&owner| m.at(owner)).collect();
    places.sort_unstable();
    assert_eq!(places, [1503, 1512, 1513, 1514, 1515]);
    assert!(elsewhere.iter().all(|&(frame, owner)| m.at(owner) == frame));
    assert_eq!(m.at(block), 2040);
    m.validate();
}

#[test]
fn a_request_that_may_not_wait_has_no_page_moved_for_it() {
    let mut m = Machine::simple(4, 1);
    m.allocate(Order::HUGE, Unmovable).unwrap();
    let pages = fill(&mut m);
    for &(frame, owner) in &pages {
        if frame != 512 && frame < 1024 || frame == 1600 {
            m.free(owner);
        }
    }
    let atomic = |m: &mut Machine| {
        m.request(SINGLE, Unmovable, |request| request.gfp_flags = gfp::ATOMIC_REQUEST)
    };
    assert_eq!(atomic(&mut m), None);
    assert_eq!((m.border(), m.counter("failed_unmovable")), (1, 1));
    // With nothing in the way the border may move for it.
    m.free(pages[0].1);
    assert!(atomic(&mut m).is_some());
    assert_eq!((m.border(), m.counter("pages_moved")), (2, 0));
}

#[test]
fn growth_needs_room_for_what_is_in_the_way() {
    let mut m = Machine::simple(4, 1);
    m.allocate(Order::HUGE, Unmovable).unwrap();
    let pages = fill(&mut m);
    assert_eq!(pages.len(), 3 * 512);
    assert_eq!(m.allocate(SINGLE, Unmovable), None);
    // A hole within the pageblock itself is no room.
    m.free(pages[0].1);
    assert_eq!(m.allocate(SINGLE, Unmovable), None);
    assert_eq!((m.border(), m.counter("growths"), m.counter("failed_unmovable")), (1, 0, 2));
    m.validate();
}

#[test]
fn maintenance_grows_before_anything_fails() {
    // The low mark of so small a node is one pageblock, the target two, the high mark four.
    let mut m = Machine::simple(16, 2);
    for _ in 0..513 {
        m.allocate(SINGLE, Unmovable).unwrap();
    }
    m.maintain();
    assert_eq!(m.border(), 4);
    assert_eq!((m.counter("growths"), m.counter("grown_on_failure")), (2, 0));
    m.maintain();
    assert_eq!(m.border(), 4);
    m.validate();
}

#[test]
fn what_is_not_needed_goes_back_with_hysteresis() {
    let mut m = Machine::simple(32, 8);
    let held: Vec<Owner> = (0..4).map(|_| m.allocate(Order::HUGE, Unmovable).unwrap()).collect();
    // Four pageblocks free: not above the high mark.
    m.maintain();
    assert_eq!(m.border(), 8);
    // Freed at the far end, where no pageblock next to the border comes free; five are free now.
    m.free(held[0]);
    m.maintain();
    assert_eq!((m.border(), m.counter("shrinks")), (5, 3));
    m.free(held[1]);
    m.maintain();
    assert_eq!(m.border(), 5);
    m.free(held[3]);
    m.free(held[2]);
    m.maintain();
    assert_eq!((m.border(), m.counter("shrinks")), (2, 6));
    m.validate();
}

#[test]
fn shrinking_stops_at_what_is_in_use() {
    let mut m = Machine::simple(32, 8);
    let all: Vec<Owner> = (0..8).map(|_| m.allocate(Order::HUGE, Unmovable).unwrap()).collect();
    for &owner in &all[..7] {
        m.free(owner);
    }
    m.maintain();
    assert_eq!((m.border(), m.counter("shrinks")), (8, 0));
}

#[test]
fn a_short_movable_region_gets_what_the_other_can_spare() {
    let mut m = Machine::simple(8, 4);
    // Taken: all four of its own, and two that the unmovable region can give up above its low
    // mark of one pageblock. A third would leave nothing; it is refused.
    let got = (0..8).filter(|_| m.allocate(Order::HUGE, Movable).is_some()).count();
    assert_eq!(got, 7);
    assert_eq!((m.border(), m.counter("shrunk_on_failure")), (1, 3));
    assert_eq!(m.counter("failed_movable"), 1);
    m.validate();
}

/// A huge page that a fault would like to have is no reason to move the border: the fault takes
/// small pages. Who waits for it is another matter.
#[test]
fn the_border_stays_where_it_is_for_who_can_do_without() {
    let mut m = Machine::simple(8, 4);
    let optional = |m: &mut Machine| {
        m.request(Order::HUGE, Movable, |request| request.gfp_flags &= !gfp::DIRECT_RECLAIM)
    };
    let got = (0..8).filter(|_| optional(&mut m).is_some()).count();
    assert_eq!((got, m.border(), m.counter("waited")), (4, 4, 0));
    assert!(m.allocate(Order::HUGE, Movable).is_some());
    assert_eq!((m.border(), m.counter("waited")), (3, 1));
    // The kernel's own request has nothing to fall back on.
    let mut m = Machine::simple(8, 4);
    let urgent = |m: &mut Machine| {
        m.request(Order::HUGE, Unmovable, |request| request.gfp_flags &= !gfp::DIRECT_RECLAIM)
    };
    let got = (0..8).filter(|_| urgent(&mut m).is_some()).count();
    assert_eq!((got, m.border(), m.counter("waited")), (8, 8, 4));
    m.validate();
}

#[test]
fn zones_are_limits() {
    let reserve = |mut span: prairie_frames::layout::ZoneSpan, kept: [u64; 6]| {
        span.lowmem_reserve = kept;
        span.watermarks = Watermarks { min: 8, low: 10, high: 12 };
        span
    };
    let zones = vec![
        reserve(zone(0, ZoneKind::Dma, 1, 4096), [0, 100, 4095, 4095, 4095, 4095]),
        reserve(zone(0, ZoneKind::Dma32, 4096, 12288), [0, 0, 512, 512, 512, 512]),
        reserve(zone(0, ZoneKind::Normal, 12288, 20480), [0; 6]),
    ];
    let config = Config { initial_frames: vec![(0, 14336)], ..Config::default() };
    let mut m = Machine::bare(zones, config).started();
    assert_eq!(m.border(), 28 + 1);
    let place = |m: &mut Machine, kind, highest| {
        m.request(SINGLE, kind, |request| request.highest_zone = highest).map(|owner| m.at(owner))
    };
    assert_eq!(place(&mut m, Unmovable, ZoneKind::Dma), Some(1));
    // The DMA zone would be furthest from the border, but is kept from who can do without.
    assert_eq!(place(&mut m, Unmovable, ZoneKind::Normal), Some(4096));
    // For DMA32 requests its reserve is small.
    assert_eq!(place(&mut m, Unmovable, ZoneKind::Dma32), Some(2));
    assert_eq!(place(&mut m, Movable, ZoneKind::Movable), Some(20479));
    // No movable memory lies so low, and none may.
    assert_eq!(place(&mut m, Movable, ZoneKind::Dma), None);
    assert_eq!(place(&mut m, Movable, ZoneKind::Dma32), None);
    // Above DMA32's reserve is used up, what is left is the Normal zone's.
    for _ in 0..8192 - 512 - 10 - 1 {
        place(&mut m, Unmovable, ZoneKind::Normal).unwrap();
    }
    assert_eq!(place(&mut m, Unmovable, ZoneKind::Normal), Some(12288));
    assert_eq!(m.counter("below_low"), 0);
    m.validate();
}

#[test]
fn the_border_stays_out_of_the_movable_zone() {
    let zones = vec![zone(0, ZoneKind::Normal, 0, 2048), zone(0, ZoneKind::Movable, 2048, 4096)];
    let config = Config { initial_frames: vec![(0, 4096)], ..Config::default() };
    let mut m = Machine::bare(zones, config).started();
    assert_eq!(m.border(), 4);
    for _ in 0..4 {
        m.allocate(Order::HUGE, Unmovable).unwrap();
    }
    assert_eq!(m.allocate(SINGLE, Unmovable), None);
    m.maintain();
    assert_eq!(m.border(), 4);
}

#[test]
fn blocks_larger_than_a_pageblock_never_reach_across_the_border() {
    // Border in the middle of an aligned 4 MiB block.
    let mut m = Machine::simple(8, 1);
    assert_eq!(m.regions.free_blocks(0)[0].1[9..], [1, 0]);
    assert_eq!(m.regions.free_blocks(0)[1].1[9..], [1, 3]);
    // The pageblock next to the border completes the pair.
    let first = m.allocate(Order::LARGEST_FREE, Unmovable).unwrap();
    assert_eq!((m.at(first), m.border()), (0, 2));
    // Now two are needed.
    let second = m.allocate(Order::LARGEST_FREE, Unmovable).unwrap();
    assert_eq!((m.at(second), m.border()), (1024, 4));
    assert_eq!(m.allocate(order(11), Unmovable), None);
    m.free(second);
    m.free(first);
    assert_eq!(m.regions.free_blocks(0)[0].1[9..], [0, 2]);
    m.validate();
}

#[test]
fn a_large_block_in_the_way_moves_whole_or_in_halves() {
    let in_the_way = |room: usize| {
        let mut m = Machine::simple(8, 2);
        m.allocate(Order::LARGEST_FREE, Unmovable).unwrap();
        // Three blocks of two pageblocks, the last of them next to the border.
        let large: Vec<Owner> =
            (0..3).map(|_| m.allocate(Order::LARGEST_FREE, Movable).unwrap()).collect();
        assert_eq!(m.at(large[2]), 1024);
        m.free(large[0]);
        if room == 1 {
            m.allocate(Order::HUGE, Movable).unwrap();
        }
        m.allocate(SINGLE, Unmovable).unwrap();
        m.validate();
        (m, large[2])
    };
    let (m, moved) = in_the_way(2);
    assert_eq!((m.at(moved), m.border()), (3072, 3));
    assert_eq!((m.counter("pages_moved"), m.counter("moved_blocks_split")), (1024, 0));
    // With one free pageblock only the half that is in the way moves.
    let (m, moved) = in_the_way(1);
    assert_eq!((m.at(moved), m.at(moved + 512), m.border()), (3072, 1536, 3));
    assert_eq!((m.counter("pages_moved"), m.counter("moved_blocks_split")), (512, 1));
}

#[test]
fn inherited_strays_are_excused_until_they_are_freed() {
    let zones = vec![zone(0, ZoneKind::Normal, 0, 16 * 512)];
    let config = Config { initial_frames: vec![(0, 4 * 512)], ..Config::default() };
    let mut m = Machine::bare(zones, config);
    let above = m.inherit(5000, SINGLE, Unmovable);
    let below = m.inherit(64, order(4), Movable);
    let at_home = m.inherit(0, order(3), Unmovable);
    // Four pageblocks of movable memory across the border at pageblock 4, and 4 MiB of unmovable.
    let across = m.inherit(0x800 - 0x200, Order::HUGE, Movable);
    let large = m.inherit(10 * 512, Order::LARGEST_FREE, Reclaimable);
    let mut m = m.started();
    assert_eq!(m.counter("inherited_strays"), 1 + 16 + 512 + 1024);
    m.free(at_home);
    assert_eq!(m.counter("inherited_strays"), 1 + 16 + 512 + 1024);
    m.free(large);
    m.free(above);
    assert_eq!(m.counter("inherited_strays"), 16 + 512);
    m.validate();
    m.free(below);
    m.free(across);
    assert_eq!(m.counter("inherited_strays"), 0);
    m.validate();
}

#[test]
fn movable_strays_make_room_before_the_border_moves() {
    let zones = vec![zone(0, ZoneKind::Normal, 0, 16 * 512)];
    let config = Config { initial_frames: vec![(0, 4 * 512)], ..Config::default() };
    let mut m = Machine::bare(zones, config);
    // The unmovable region is full of what belongs above it, but for a few frames.
    let large = m.inherit(0, Order::LARGEST_FREE, Movable);
    for frame in 1024..2000 {
        m.inherit(frame, SINGLE, Movable);
    }
    let mut m = m.started();
    assert_eq!(m.counter("inherited_strays"), 2000);
    // 48 frames are free, the target is two pageblocks: the large block alone is enough.
    m.maintain();
    assert_eq!((m.border(), m.counter("strays_evicted")), (4, 1024));
    assert_eq!((m.counter("pages_moved"), m.counter("inherited_strays")), (1024, 976));
    assert_eq!(m.at(large), 7 * 1024);
    assert_eq!(m.regions.free_frames(0, Region::Unmovable), 48 + 1024);
    m.validate();
    m.allocate(Order::LARGEST_FREE, Unmovable).unwrap();
    m.maintain();
    assert_eq!((m.border(), m.counter("inherited_strays")), (4, 0));
    // 48 + 976 frames are two pageblocks again, without the border having moved.
    assert_eq!(m.regions.free_frames(0, Region::Unmovable), 1024);
    assert_eq!(m.counter("growths"), 0);
    m.validate();
}

#[test]
fn the_policy_takes_little_beside_the_table() {
    let m = Machine::bare(vec![zone(0, ZoneKind::Normal, 0, 1 << 20)], Config::default());
    // Two bits a frame for the trees, and six bytes a pageblock for strays and reserved frames.
    let per_frame = m.regions.bytes() as f64 / f64::from(1 << 20);
    assert!((0.25..0.27).contains(&per_frame), "{per_frame}");
}

#[test]
fn an_inherited_block_across_the_border_is_a_stray_by_half() {
    for kind in [Movable, Unmovable] {
        let zones = vec![zone(0, ZoneKind::Normal, 0, 16 * 512)];
        let config = Config { initial_frames: vec![(0, 5 * 512)], ..Config::default() };
        let mut m = Machine::bare(zones, config);
        // Eight pageblocks from 0 on: five below the border, three above.
        let block = m.inherit(0, order(12), kind);
        let mut m = m.started();
        let wrong = if kind == Movable { 5 } else { 3 };
        assert_eq!(m.counter("inherited_strays"), wrong * 512);
        // Split where the border is: 4 + 1 below, 1 + 2 above. Each part is still its owner's.
        for (first, pageblocks) in [(0, 4), (4, 1), (5, 1), (6, 2)] {
            let owner = block + first * PAGEBLOCK;
            assert_eq!(m.at(owner), first * PAGEBLOCK);
            assert_eq!(m.table.order(Frame(first * PAGEBLOCK)).frames(), pageblocks * 512);
            m.free(owner);
            m.validate();
        }
        assert_eq!(m.counter("inherited_strays"), 0);
        assert_eq!(m.regions.free_frames(0, Region::Movable), 11 * 512);
    }
}

#[test]
fn growth_passes_what_cannot_be_moved() {
    let zones = vec![zone(0, ZoneKind::Normal, 0, 8 * 512)];
    let config = Config { initial_frames: vec![(0, 512)], ..Config::default() };
    let mut m = Machine::bare(zones, config);
    let stray = m.inherit(512 + 100, SINGLE, Unmovable);
    let page = m.inherit(512 + 101, SINGLE, Movable);
    m.table.reserve(Frame(512 + 200), Mobility::Unmovable);
    m.table.reserve(Frame(2 * 512), Mobility::Unknown);
    let mut m = m.started();
    assert_eq!(m.counter("inherited_strays"), 1);
    m.allocate(Order::HUGE, Unmovable).unwrap();
    // No block of order 9 can come free before pageblock 3, for which three pageblocks are taken.
    let huge = m.allocate(Order::HUGE, Unmovable).unwrap();
    assert_eq!((m.at(huge), m.border()), (3 * 512, 4));
    assert_eq!((m.counter("pages_moved"), m.counter("inherited_strays")), (1, 0));
    assert_eq!((m.at(stray), m.at(page)), (512 + 100, 8 * 512 - 1));
    m.validate();
    // The stray is at home now, and the reserved frames do not keep the border from going back.
    m.free(stray);
    m.free(huge);
    m.free(page);
    let taken: Vec<Owner> = (0..5).map_while(|_| m.allocate(Order::HUGE, Movable)).collect();
    assert_eq!((taken.len(), m.border()), (5, 3));
    m.validate();
}

#[test]
fn growth_passes_a_large_inherited_block() {
    let zones = vec![zone(0, ZoneKind::Normal, 0, 16 * 512)];
    let config = Config { initial_frames: vec![(0, 1024)], ..Config::default() };
    let mut m = Machine::bare(zones, config);
    let stray = m.inherit(4 * 512, order(11), Unmovable);
    let mut m = m.started();
    assert_eq!(m.counter("inherited_strays"), 4 * 512);
    let held: Vec<Owner> = (0..4).map(|_| m.allocate(Order::HUGE, Unmovable).unwrap()).collect();
    assert_eq!((m.border(), m.counter("inherited_strays")), (4, 4 * 512));
    // The next free pageblock is behind the four that cannot be emptied.
    let next = m.allocate(Order::HUGE, Unmovable).unwrap();
    assert_eq!((m.at(next), m.border()), (8 * 512, 9));
    assert_eq!(m.counter("inherited_strays"), 0);
    m.validate();
    // The border split it on its way.
    m.free_all(stray, order(11));
    for owner in held {
        m.free(owner);
    }
    m.validate();
    assert_eq!(m.regions.free_frames(0, Region::Unmovable), 8 * 512);
}

#[test]
fn the_border_does_not_move_for_who_could_not_use_what_it_gains() {
    let zones = vec![zone(0, ZoneKind::Dma, 0, 4 * 512), zone(0, ZoneKind::Normal, 2048, 8192)];
    let config = Config { initial_frames: vec![(0, 6 * 512)], ..Config::default() };
    let mut m = Machine::bare(zones, config).started();
    let dma = |m: &mut Machine| {
        m.request(Order::HUGE, Unmovable, |request| request.highest_zone = ZoneKind::Dma)
    };
    let got = (0..5).filter(|_| dma(&mut m).is_some()).count();
    assert_eq!((got, m.border(), m.counter("failed_unmovable")), (4, 6, 1));
}

#[test]
#[should_panic(expected = "frames in the wrong region, of which 1 inherited")]
fn a_new_violation_is_caught_beside_an_inherited_one() {
    let zones = vec![zone(0, ZoneKind::Normal, 0, 8 * 512)];
    let mut m = Machine::bare(zones, Config::default());
    m.inherit(4095, SINGLE, Unmovable);
    let mut m = m.started();
    let page = m.allocate(SINGLE, Movable).unwrap();
    // What the placement would have to do to break its promise.
    let frame = Frame(m.at(page));
    m.table.release(frame);
    m.table.allocate(frame, SINGLE, Mobility::Unmovable, page);
    m.regions.check_confinement(&m.table);
}

#[test]
fn each_node_has_its_own_border() {
    let zones = vec![
        zone(0, ZoneKind::Normal, 0, 8 * 512),
        zone(1, ZoneKind::Normal, 1 << 20, (1 << 20) + 8 * 512),
    ];
    let config = Config { initial_frames: vec![(0, 512), (1, 1024)], ..Config::default() };
    let mut m = Machine::bare(zones, config).started();
    let second = m.layout.frame(Pfn(1 << 20)).unwrap().0;
    let on = |m: &mut Machine, node, kind| {
        let owner = m.request(Order::HUGE, kind, |request| request.node = node).unwrap();
        m.at(owner)
    };
    assert_eq!(on(&mut m, 1, Unmovable), second);
    assert_eq!(on(&mut m, 1, Movable), second + 7 * 512);
    assert_eq!(on(&mut m, 0, Unmovable), 0);
    // Node 0's region is full. The other node has some left, which costs no resizing.
    assert_eq!(on(&mut m, 0, Unmovable), second + 512);
    // Now both are full, and the nearest border moves.
    assert_eq!(on(&mut m, 0, Unmovable), 512);
    assert_eq!(m.regions.border(0), Some(Frame(1024)));
    assert_eq!(m.regions.border(1), Some(Frame(second + 1024)));
    assert_eq!(m.regions.border(2), None);
    assert_eq!(m.counter("border_node_1"), u64::from(second + 1024));
    m.validate();
}

#[test]
fn churn_never_pollutes_the_movable_region() {
    // 4 GiB, so that gigantic pages can be told.
    let gigabytes = 4u64;
    let zones = vec![zone(0, ZoneKind::Normal, 0, gigabytes << 18)];
    let mut m = Machine::bare(zones, Config::default()).started();
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    let mut next = |below: u64| random.below(below);
    // Something that stays, as in every kernel, or the lowest gigabyte could at times be had too.
    m.allocate(SINGLE, Unmovable).unwrap();
    let mut live: Vec<(Owner, Order)> = Vec::new();
    for step in 0..60_000 {
        // The machine fills to nine tenths, then breathes.
        let full = m.regions.free_frames(0, Region::Movable) < (gigabytes << 18) / 10;
        if (full || next(8) < 3) && !live.is_empty() {
            let (owner, size) = live.swap_remove(next(live.len() as u64) as usize);
            m.free_all(owner, size);
            continue;
        }
        let (kind, size) = match next(10) {
            0..=2 => (Unmovable, next(4)),
            3 => (Reclaimable, 0),
            4 if live.iter().filter(|(_, size)| *size == Order::HUGE).count() < 1700 => {
                (Movable, 9)
            }
            _ => (Movable, next(3)),
        };
        let size = order(size as u8);
        live.extend(m.allocate(size, kind).map(|owner| (owner, size)));
        if step % 200 == 0 {
            m.maintain();
            m.regions.check_confinement(&m.table);
            let border = u64::from(m.border());
            let blocks = Blocks { start: Pfn(0), counts: m.table.blocks() };
            let potential = |order| potential_blocks(blocks, order, Unknown::AsUnmovable);
            // All of the movable region could be made whole, whatever was done. Below the border
            // only pageblocks that happen to hold nothing can be.
            let above = potential_blocks(
                Blocks { start: Pfn(border << 9), counts: &m.table.blocks()[border as usize..] },
                Order::HUGE,
                Unknown::AsUnmovable,
            );
            assert_eq!(above, (gigabytes << 9) - border);
            assert_eq!(potential(Order::GIGANTIC), gigabytes - border.div_ceil(512));
        }
    }
    m.validate();
    assert_eq!(m.counter("failed_unmovable"), 0);
    assert!(m.counter("growths") + m.counter("shrinks") > 0, "the border never moved");
}

/// The list of a CPU is a stack, refilled with a batch from the far end, and emptied before the
/// border moves: no frame on it may change sides.
#[test]
fn single_frames_pass_through_a_list_that_the_border_empties() {
    let mut m = Machine::simple(64, 16);
    let pages: Vec<Owner> = (0..100).map(|_| m.allocate(SINGLE, Unmovable).unwrap()).collect();
    let places: Vec<u32> = pages.iter().map(|&page| m.at(page)).collect();
    assert_eq!(places, (0..100).collect::<Vec<u32>>());
    m.free(pages[40]);
    m.free(pages[7]);
    let again: Vec<Owner> = (0..2).map(|_| m.allocate(SINGLE, Unmovable).unwrap()).collect();
    assert_eq!([m.at(again[0]), m.at(again[1])], [7, 40]);
    assert!(m.regions.cached_frames() > 0);

    // All of the unmovable region is asked for, and more: the border has to move up.
    let border = m.border();
    while m.border() == border {
        m.allocate(SINGLE, Unmovable).unwrap();
        m.allocate(SINGLE, Movable).unwrap();
    }
    m.validate();
}
