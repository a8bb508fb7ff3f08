//! The cost of a frame when many are requested at once, compared with the same number one by one
//! (FreeBSD, "Batched page allocations", Figure 10), and how contiguous they are.
//!
//! ```text
//! cargo run --release -p experiments --bin batch_rate -- [ROUNDS]
//! ```
//!
//! One zone of 4 GiB under `freebsd`, fresh and broken (every second page of half of it in use),
//! and N = 1, 2, 4 … 65,536. Three methods, interleaved within each round: a batch; one by one
//! through the per-CPU cache; one by one from the free lists. Time is the thread's own and that of
//! allocating alone, less that of reading the clock; everything is freed between. The figures are
//! medians over the rounds; each measurement repeats small N until it has allocated 16,384 frames.

use std::hint::black_box;
use std::ops::Range;

use experiments::measure::{FRAMES_OF_4_GIB, median, one_zone, thread_ns};
use prairie_frames::layout::Watermarks;
use prairie_frames::placement::freebsd::{Config, FreeBsd};
use prairie_frames::placement::stepwise::Stepwise;
use prairie_frames::placement::{Placement, Request};
use prairie_frames::{Frame, FrameTable, MigrateType, Mobility, Order};

const FRAMES: u32 = FRAMES_OF_4_GIB;
const AT_LEAST: u32 = 16_384;

#[derive(Clone, Copy)]
enum Way {
    Batch,
    Cached,
    Plain,
}

fn main() {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(9);
    for broken in [false, true] {
        println!("{} memory", if broken { "broken" } else { "fresh" });
        println!(
            "       N   batch  cached   plain (ns a frame)   cached/batch  plain/batch   runs of a batch, one by one"
        );
        for shift in 0..=16 {
            let n = 1u32 << shift;
            let mut times = [Vec::new(), Vec::new(), Vec::new()];
            let mut runs = [0.0; 3];
            for _ in 0..rounds {
                for (at, way) in [Way::Batch, Way::Cached, Way::Plain].into_iter().enumerate() {
                    let (time, found) = measure(n, way, broken);
                    times[at].push(time);
                    runs[at] = found;
                }
            }
            let [batch, cached, plain] = times.map(median);
            println!(
                "{n:8} {batch:7.2} {cached:7.2} {plain:7.2} {:22.1} {:12.1} {:14.1} {:10.1}",
                cached / batch,
                plain / batch,
                runs[0],
                runs[1],
            );
        }
    }
}

/// Nanoseconds a frame, and contiguous runs that N frames come in.
fn measure(n: u32, way: Way, broken: bool) -> (f64, f64) {
    let config = match way {
        Way::Plain => Config { cache_batch: 0, ..Config::default() },
        _ => Config::default(),
    };
    let layout = one_zone(FRAMES, Watermarks::default());
    let mut table = FrameTable::new(&layout);
    let mut freebsd = FreeBsd::new(&layout, config);
    for start in (0..FRAMES).step_by(1024) {
        table.add_memory(Frame(start), Order::LARGEST_FREE);
        freebsd.seed(&mut table, Frame(start), Order::LARGEST_FREE);
    }
    freebsd.start(&mut table);
    let request = Request {
        migrate_type: MigrateType::Movable,
        mobility: Mobility::Movable,
        ..Request::default()
    };
    if broken {
        let mut runs = Vec::new();
        freebsd.alloc_batch(&mut table, &request, FRAMES / 2, FRAMES / 2, &mut runs);
        for owner in (FRAMES / 2..FRAMES).step_by(2) {
            let frame = table.block_of(owner).expect("allocated");
            freebsd.free(&mut table, frame, 0);
        }
        freebsd.drain(&mut table);
    }
    let mut runs: Vec<Range<Frame>> = Vec::with_capacity(1 << 16);
    let mut frames: Vec<Frame> = vec![Frame(0); n as usize];
    let repeats = AT_LEAST.div_ceil(n);
    let (mut time, mut found) = (0.0, 0);
    for repeat in 0..=repeats {
        runs.clear();
        let before = thread_ns();
        match way {
            Way::Batch => {
                freebsd.alloc_batch(&mut table, &request, 0, n, &mut runs);
            }
            Way::Cached | Way::Plain => {
                for (owner, frame) in frames.iter_mut().enumerate() {
                    *frame = freebsd.allocate(&mut table, &request, owner as u32).expect("memory");
                }
            }
        }
        let spent = thread_ns() - before;
        black_box((&runs, &frames));
        if repeat > 0 {
            // The first time touches memory that was never touched.
            time += spent;
        }
        let placed: Vec<Frame> = (0..n).map(|o| table.block_of(o).expect("allocated")).collect();
        found = 1 + placed.windows(2).filter(|pair| pair[1].0 != pair[0].0 + 1).count();
        placed.into_iter().for_each(|frame| freebsd.free(&mut table, frame, 0));
    }
    freebsd.validate(&table);
    // Reading the clock twice takes as long as some tens of frames.
    let clock = median((0..1001).map(|_| -thread_ns() + thread_ns()));
    (((time / f64::from(repeats)) - clock) / f64::from(n), found as f64)
}
