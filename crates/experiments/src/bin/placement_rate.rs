//! How long a placement takes for an allocation and the free that follows, in nanoseconds.
//!
//! One zone of 4 GiB, one CPU, movable requests. Three patterns at orders 0 and 9:
//!
//! - `bulk`: allocate three quarters of memory, then free it in the same order;
//! - `random`: the same, freed in shuffled order;
//! - `repeat`: allocate and free a single block again and again.
//!
//! ```text
//! cargo run --release -p experiments --bin placement_rate -- [POLICY] [ROUNDS]
//! ```
//!
//! Each figure is the median of several rounds on the same machine, without the first; the table's
//! own work is part of it. Time is the thread's own, so that other programs on the machine disturb
//! little.

use std::hint::black_box;
use std::time::Duration;

use experiments::measure::{FRAMES_OF_4_GIB, median, one_zone, thread_time};
use prairie_frames::layout::Watermarks;
use prairie_frames::placement::zones::Kernelcore;
use prairie_frames::placement::{Placement, Request};
use prairie_frames::{Frame, FrameTable, Layout, MigrateType, Mobility, Order};
use prairie_model::allocator::{Allocator, AnyPlacement, Site, World};

const FRAMES: u32 = FRAMES_OF_4_GIB;
const ORDERS: [Order; 2] = [Order::BASE, Order::HUGE];

/// The allocators that are timed, behind a box as replays drive them.
const ALLOCATORS: [&str; 8] = [
    "buddy",
    "linux",
    "linux+no-pcp",
    "lists",
    "zones",
    "freebsd",
    "superpageblocks",
    "contiguitas",
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let policy = arguments.next().unwrap_or_default();
    let rounds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(15);
    let layout = layout();
    let site = Site {
        kernelcore: Some(Kernelcore::Percent(50)),
        compacts: false,
        ..Site::new(&layout, World::Replay)
    };
    println!(
        "policy        order pattern   allocate      free      pair   (ns, median of {rounds})"
    );
    for name in ALLOCATORS.iter().filter(|name| policy.is_empty() || policy == **name) {
        run(name, rounds, || Allocator::named(name).build(&site));
    }
}

/// One Normal zone with the watermarks that Linux would compute for it on a machine with huge
/// pages enabled (`set_recommended_min_free_kbytes`, `__setup_per_zone_wmarks`).
fn layout() -> Layout {
    let min = 11 * 512;
    let step = (min / 4).max(u64::from(FRAMES) / 1000);
    one_zone(FRAMES, Watermarks { min, low: min + step, high: min + 2 * step })
}

struct Machine {
    placement: AnyPlacement,
    table: FrameTable,
}

fn run(name: &str, rounds: usize, new: impl Fn() -> AnyPlacement) {
    for order in ORDERS {
        for pattern in ["bulk", "random", "repeat"] {
            let mut machine = Machine::new(new());
            let mut times: Vec<(f64, f64)> =
                (0..=rounds).map(|_| machine.round(order, pattern)).skip(1).collect();
            machine.placement.validate(&machine.table);
            let allocate = median(times.iter().map(|time| time.0));
            let free = median(times.iter().map(|time| time.1));
            let pair = median(times.drain(..).map(|time| time.0 + time.1));
            let order = order.get();
            match pattern {
                "repeat" => {
                    println!("{name:15} {order:6} {pattern:7} {:>10} {:>9} {pair:9.1}", "", "")
                }
                _ => println!(
                    "{name:15} {order:6} {pattern:7} {allocate:10.1} {free:9.1} {pair:9.1}"
                ),
            }
        }
    }
}

impl Machine {
    fn new(mut placement: AnyPlacement) -> Machine {
        let mut table = FrameTable::with_frames(FRAMES.into());
        for start in (0..FRAMES).step_by(Order::LARGEST_FREE.frames() as usize) {
            table.add_memory(Frame(start), Order::LARGEST_FREE);
            placement.seed(&mut table, Frame(start), Order::LARGEST_FREE);
        }
        placement.start(&mut table);
        Machine { placement, table }
    }

    fn allocate(&mut self, order: Order, owner: u32) -> Frame {
        let request = Request {
            order,
            migrate_type: MigrateType::Movable,
            mobility: Mobility::Movable,
            ..Request::default()
        };
        let frame = self.placement.allocate(&mut self.table, black_box(&request), owner);
        frame.expect("a quarter of memory is free")
    }

    fn free(&mut self, frame: Frame) {
        self.placement.free(&mut self.table, black_box(frame), 0);
    }

    /// One round: nanoseconds of an allocation and of a free.
    fn round(&mut self, order: Order, pattern: &str) -> (f64, f64) {
        let blocks = u64::from(FRAMES / 4 * 3) >> order.get();
        if pattern == "repeat" {
            let pairs = 1_000_000;
            let start = thread_time();
            for _ in 0..pairs {
                let frame = self.allocate(order, 0);
                self.free(frame);
            }
            return ((thread_time() - start).as_nanos() as f64 / f64::from(pairs), 0.0);
        }
        let mut frames = vec![Frame::NONE; blocks as usize];
        let (mut allocating, mut freeing) = (Duration::ZERO, Duration::ZERO);
        // Memory has few huge pages: go over it several times, for the clock's sake.
        let passes = if order < Order::HUGE { 1 } else { 64 };
        for _ in 0..passes {
            let start = thread_time();
            for (block, frame) in frames.iter_mut().enumerate() {
                *frame = self.allocate(order, (block << order.get()) as u32);
            }
            allocating += thread_time() - start;
            if pattern == "random" {
                shuffle(&mut frames);
            }
            let start = thread_time();
            for &frame in &frames {
                self.free(frame);
            }
            freeing += thread_time() - start;
        }
        let per_block = |time: Duration| time.as_nanos() as f64 / (passes * blocks) as f64;
        (per_block(allocating), per_block(freeing))
    }
}

/// Fisher and Yates, on a xorshift generator with a fixed seed: every run does the same.
fn shuffle(frames: &mut [Frame]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..frames.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        frames.swap(last, (state % (last as u64 + 1)) as usize);
    }
}
