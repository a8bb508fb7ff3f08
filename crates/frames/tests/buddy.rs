//! The baseline placement, compared with a plain model of memory.

mod model;

use prairie_frames::placement::Placement;
use prairie_frames::placement::buddy::Buddy;
use prairie_frames::{FrameTable, MigrateType, Order};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn agrees_with_a_plain_model(steps in prop::collection::vec(model::step(10), 1..120)) {
        let layout = model::layout();
        let mut buddy = Buddy::new(&layout, Order::LARGEST_FREE);
        model::exercise(&mut buddy, &layout, &steps, |_, _| {});
    }
}

#[test]
fn untouched_memory_lies_in_the_largest_blocks() {
    let layout = model::layout();
    let mut buddy = Buddy::new(&layout, Order::LARGEST_FREE);
    let mut table = FrameTable::new(&layout);
    buddy.boot(&mut table, &layout);
    // The DMA zone misses its frame 0, so one block of every order below ten, and three of ten.
    let (migrate_type, counts) = buddy.free_blocks(0).remove(0);
    assert_eq!(migrate_type, MigrateType::Movable);
    assert_eq!(counts, [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3]);
    // 8,192 frames of the Normal zone: eight blocks of 1,024.
    assert_eq!(buddy.free_blocks(2)[0].1, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8]);
}
