//! Inference of a machine's initial state.

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::{Frame, MigrateType, Mobility, Order, Pfn, ZoneKind};
use prairie_replay::initial_state::{Content, InitialState, Stretch};

/// A zone of eight pageblocks.
fn zone(node: u16, start: u64, managed: u64) -> ZoneSpan {
    ZoneSpan {
        node,
        kind: ZoneKind::Normal,
        start: Pfn(start),
        spanned: 4096,
        managed,
        watermarks: Watermarks::default(),
        lowmem_reserve: [0; 6],
    }
}

/// A zone of eight pageblocks in which these stretches are in use.
fn found(stretches: &[(u32, u64, Mobility, bool)]) -> InitialState {
    let mut found = InitialState::empty(vec![zone(0, 0, 4096)]).unwrap();
    found.stretches = stretches
        .iter()
        .map(|&(start, frames, mobility, slab)| Stretch {
            start: Frame(start),
            frames,
            content: Content::Held(mobility),
            slab,
        })
        .collect();
    found
}

/// Block 0: 300 unmovable, no slab. Block 1: 200 of slab. Block 2: 10 unmovable among 400 movable.
/// Block 3 to 4: a stretch of movable across the border. Block 5: 40 of slab.
fn mixed() -> InitialState {
    found(&[
        (0, 300, Mobility::Unmovable, false),
        (512, 200, Mobility::Unmovable, true),
        (1024, 400, Mobility::Movable, false),
        (1424, 10, Mobility::Unmovable, false),
        (1536, 1024, Mobility::Movable, false),
        (2560, 40, Mobility::Unmovable, true),
    ])
}

#[test]
fn types_of_pageblocks_follow_the_hosts_counts() {
    use MigrateType::{Reclaimable, Unmovable};
    let mut found = mixed();
    // One unmovable and two reclaimable: the three with most unmovable frames, and of those the
    // two with slab are the reclaimable ones.
    found.pageblocks[0] = Some([1, 5, 2, 0, 0, 0]);
    let mut types = found.pageblock_types();
    types.sort_unstable();
    assert_eq!(types, [(0, Unmovable), (1, Reclaimable), (5, Reclaimable)]);
    // A block without slab never counts as reclaimable.
    found.pageblocks[0] = Some([0, 4, 4, 0, 0, 0]);
    let mut types = found.pageblock_types();
    types.sort_unstable();
    assert_eq!(types, [(0, Unmovable), (1, Reclaimable), (2, Unmovable), (5, Reclaimable)]);
}

#[test]
fn without_counts_the_majority_of_a_pageblock_decides() {
    let unmovable: Vec<usize> = mixed().pageblock_types().into_iter().map(|t| t.0).collect();
    assert_eq!(unmovable, [0, 1, 5]);
}

#[test]
fn compound_pages_are_blocks_and_the_rest_single_frames() {
    let mut found = mixed();
    found.compounds = vec![(Frame(512), Order::new(3).unwrap()), (Frame(1536), Order::HUGE)];
    let mut cursor = 0;
    assert_eq!(found.block_at(Frame(511), &mut cursor), Order::BASE);
    assert_eq!(found.block_at(Frame(512), &mut cursor), Order::new(3).unwrap());
    assert_eq!(found.block_at(Frame(520), &mut cursor), Order::BASE);
    assert_eq!(found.block_at(Frame(1536), &mut cursor), Order::HUGE);
    assert_eq!(found.block_at(Frame(4000), &mut cursor), Order::BASE);
}

#[test]
fn nodes_with_memory_share_the_cpus() {
    let cpus_per_node = |managed: &[u64]| {
        let zone = |(node, &managed): (usize, &u64)| zone(node as u16, node as u64 * 4096, managed);
        let mut found =
            InitialState::empty(managed.iter().enumerate().map(zone).collect()).unwrap();
        found.cpus = 8;
        found.cpus_per_node()
    };
    assert_eq!([&[4096][..], &[4096; 2], &[4096, 0], &[4096; 3]].map(cpus_per_node), [8, 4, 8, 3]);
}
