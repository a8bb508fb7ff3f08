//! The difficulty of freeing a block by reclaim without regard to contiguity (2006 paper, section 10
//! and Figure 9).

use prairie_frames::placement::buddy::Buddy;
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::zonelist::Depth;
use prairie_frames::placement::{Placement, Request};
use prairie_frames::{Frame, FrameTable, Order};
use prairie_model::zones::{Architecture, Marks, Shape, layout};

/// Orders of the paper's Figure 9.
pub const ORDERS: [u8; 8] = [1, 2, 3, 4, 5, 6, 10, 12];
/// Frames of the simulated zone: 64 MiB.
pub const FRAMES: u64 = 16 << 10;

/// Frees single frames of a full zone until the buddy allocator has a block of `order`, in the worst
/// order: an adversary always picks a frame whose block has another in use. Returns the share of the
/// zone that had to be freed.
///
/// # Panics
/// If `order` is above 12.
pub fn worst_case_simulated(order: Order) -> f64 {
    let shape = Shape {
        frames: FRAMES,
        nodes: 1,
        architecture: Architecture::Ppc64,
        kernelcore: None,
        marks: Marks::Linux2_6,
        low: None,
        min_free: None,
    };
    let layout = layout(&shape).expect("64 MiB make a zone");
    let mut table = FrameTable::new(&layout);
    let mut buddy = Buddy::new(&layout, Order::new(12).expect("a small order"));
    buddy.boot(&mut table, &layout);
    for owner in 0..FRAMES as u32 {
        let taken = buddy.attempt(&mut table, &Request::default(), owner, Depth::All);
        taken.expect("the zone is not full yet");
    }
    // All but the first frame of every block, block by block; then one more.
    let blocks = FRAMES >> order.get();
    let mut adversary = (1..order.frames())
        .flat_map(|inside| (0..blocks).map(move |block| (block << order.get()) + inside))
        .chain(0..1);
    let mut freed = 0;
    loop {
        buddy.drain(&mut table);
        if buddy.free_counts(0)[order.index()..].iter().any(|&count| count > 0) {
            return freed as f64 / FRAMES as f64;
        }
        let frame = adversary.next().expect("the last frame frees a block");
        buddy.free(&mut table, Frame(frame as u32), 0);
        freed += 1;
    }
}
