//! What each parameter of Contiguitas's resizer is worth: the experiment that its defaults come
//! from (`docs/src/internals/contiguitas.md`).
//!
//! ```text
//! cargo run --release -p experiments --bin resizer_sweep -- [SEEDS]
//! ```
//!
//! A node of 2 GiB, nine tenths full. Every wake-up a 240th of its movable memory is freed and
//! requested again. The demand for unmovable memory varies: `calm` wanders by some MiB, `bursts`
//! requests 32 MiB at once now and then and returns them later, `day` swings between 2 and 14
//! percent of memory over the 160 wake-ups of a run, `swing` takes and returns 32 MiB with every
//! second wake-up, and `pins` pins 16 MiB of user pages for some tens of wake-ups. One parameter at
//! a time takes a quarter, half, twice and four times its default. For each wake-up, the mean over
//! demands and seeds:
//!
//! - `at once`: pageblocks that changed sides on the path of an allocation, which is what the paper
//!   wants to avoid;
//! - `failed`: allocations and pins refused to the unmovable region, of all runs;
//! - `moved`: pages copied;
//! - `border`: pageblocks that the border passed;
//! - `idle`: free memory of the unmovable region, share of the node in thousandths;
//! - `cost`: all of them in microseconds, by the prices below; and what it would be if memory were
//!   worth a quarter as much and four times as much.

use std::sync::atomic::{AtomicUsize, Ordering};

use experiments::measure::one_zone;
use prairie_frames::layout::Watermarks;
use prairie_frames::placement::regions::{Config, Hardware, Region, Regions};
use prairie_frames::placement::{Placement, Request};
use prairie_frames::table::{Owner, mobility_of};
use prairie_frames::{Frame, FrameTable, MigrateType, Order};

const FRAMES: u32 = 1 << 19;
const MIB: u32 = 256;
const WAKE_UPS: u32 = 160;
const DEMANDS: [&str; 5] = ["calm", "bursts", "day", "swing", "pins"];

/// Microseconds of a CPU for a page that is migrated: its copy, and telling other CPUs.
const PAGE_US: f64 = 1.5;
/// An allocation that waits for a pageblock waits for up to 512 such pages, and a program's time is
/// dearer than a daemon's: ten times as much.
const AT_ONCE_US: f64 = 10.0 * 512.0 * PAGE_US;
/// A refused request goes through reclaim and is made again.
const FAILED_US: f64 = 10_000.0;
/// A thousandth of memory that lies idle for the 100 ms between two wake-ups is worth a thousandth
/// of that time: as if throughput were proportional to memory.
const IDLE_US: f64 = 100.0;

/// A parameter's name, and how it is scaled, in quarters of its default.
type Parameter = (&'static str, fn(&mut Config, u32));

const PARAMETERS: [Parameter; 8] = [
    ("low_per_1024", |c, q| c.low_per_1024 = c.low_per_1024 * u64::from(q) / 4),
    ("target_lows", |c, q| {
        c.target_lows = (c.target_lows * u64::from(q) / 4).max(1);
        c.high_lows = c.high_lows.max(c.target_lows + 1);
    }),
    ("high_lows", |c, q| {
        c.high_lows = (c.high_lows * u64::from(q) / 4).max(c.target_lows + 1);
    }),
    ("step_pageblocks", |c, q| c.step_pageblocks = c.step_pageblocks * u64::from(q) / 4),
    ("threshold", |c, q| c.tuning.threshold = c.tuning.threshold.map(|t| (t * q / 4).max(1))),
    ("weight", |c, q| c.tuning.weight = c.tuning.weight.map(|w| w * q / 4)),
    ("largest_step", |c, q| c.tuning.largest_step = c.tuning.largest_step * q / 4),
    ("hold", |c, q| c.tuning.hold = c.tuning.hold * q / 4),
];

/// One line of the table: its name, and the runs it summarizes.
struct Row {
    name: &'static str,
    times: &'static str,
    config: Config,
    demands: &'static [&'static str],
}

fn main() {
    let seeds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3);
    println!(
        "| parameter | times | at once | failed | moved | border | idle | cost | ¼ price | 4 times the price |\n|{}",
        " --- |".repeat(10)
    );
    let rows = rows();
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut outcomes: Vec<(usize, Outcome)> = std::thread::scope(|scope| {
        let work = || {
            let mut done = Vec::new();
            while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                let at = rows.iter().position(|other| std::ptr::eq(other, row));
                done.push((at.expect("one of them"), row.run(seeds)));
            }
            done
        };
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    outcomes.sort_by_key(|&(at, _)| at);
    for (at, outcome) in outcomes {
        outcome.print(&rows[at]);
    }
}

/// All lines: the whole, each demand, then each parameter.
fn rows() -> Vec<Row> {
    let whole = |name, config| Row { name, times: "", config, demands: &DEMANDS };
    let mut no_pressure = Config::default();
    no_pressure.tuning.weight = [0, 0];
    let hardware = Some(Hardware::default());
    let mut rows = vec![
        whole("defaults", Config::default()),
        whole("without pressure", no_pressure.clone()),
        whole("hardware", Config { hardware, ..Config::default() }),
        whole("  without pressure", Config { hardware, ..no_pressure }),
    ];
    for demand in DEMANDS.chunks(1) {
        rows.push(Row { name: demand[0], times: "", config: Config::default(), demands: demand });
    }
    for (name, scale) in PARAMETERS {
        for (quarters, times) in [(1, "1/4"), (2, "1/2"), (8, "2"), (16, "4")] {
            let mut config = Config::default();
            scale(&mut config, quarters);
            rows.push(Row { name, times, config, demands: &DEMANDS });
        }
    }
    rows
}

impl Row {
    fn run(&self, seeds: u64) -> Outcome {
        let mut sum = Outcome::default();
        for demand in self.demands {
            for seed in 0..seeds {
                sum.add(&Run::new(&self.config, seed).play(demand));
            }
        }
        sum
    }
}

#[derive(Default)]
struct Outcome {
    at_once: u64,
    failed: u64,
    moved: u64,
    border: u64,
    /// Sum over the runs.
    idle: f64,
    runs: u32,
}

impl Outcome {
    fn add(&mut self, other: &Outcome) {
        self.at_once += other.at_once;
        self.failed += other.failed;
        self.moved += other.moved;
        self.border += other.border;
        self.idle += other.idle;
        self.runs += other.runs;
    }

    /// Microseconds a wake-up, if memory is worth `price` times as much.
    fn cost(&self, price: f64) -> f64 {
        let wake_ups = f64::from(self.runs * WAKE_UPS);
        (self.at_once as f64 * AT_ONCE_US
            + self.failed as f64 * FAILED_US
            + self.moved as f64 * PAGE_US)
            / wake_ups
            + self.idle / f64::from(self.runs) * IDLE_US * price
    }

    fn print(&self, row: &Row) {
        let wake_ups = f64::from(self.runs * WAKE_UPS);
        println!(
            "| {} | {} | {:.4} | {} | {:.1} | {:.3} | {:.1} | {:.0} | {:.0} | {:.0} |",
            row.name,
            row.times,
            self.at_once as f64 / wake_ups,
            self.failed,
            self.moved as f64 / wake_ups,
            self.border as f64 / wake_ups,
            self.idle / f64::from(self.runs),
            self.cost(1.0),
            self.cost(0.25),
            self.cost(4.0),
        );
    }
}

struct Run {
    table: FrameTable,
    regions: Regions,
    random: u64,
    owners: Vec<Owner>,
    movable: Vec<Owner>,
    unmovable: Vec<Owner>,
}

impl Run {
    fn new(config: &Config, seed: u64) -> Run {
        let min = 11 * 512;
        let watermarks = Watermarks { min, low: min + min / 4, high: min + min / 2 };
        let layout = one_zone(FRAMES, watermarks);
        let mut run = Run {
            table: FrameTable::new(&layout),
            regions: Regions::new(&layout, config.clone()),
            random: seed * 2 + 1,
            owners: (0..FRAMES).rev().collect(),
            movable: Vec::new(),
            unmovable: Vec::new(),
        };
        for start in (0..FRAMES).step_by(1024) {
            run.table.add_memory(Frame(start), Order::LARGEST_FREE);
            run.regions.seed(&mut run.table, Frame(start), Order::LARGEST_FREE);
        }
        run.regions.start(&mut run.table);
        run
    }

    fn below(&mut self, limit: u32) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as u32 % limit.max(1)
    }

    fn allocate(&mut self, migrate_type: MigrateType) {
        let Some(owner) = self.owners.pop() else { return };
        let mobility = mobility_of(migrate_type);
        let request = Request { migrate_type, mobility, ..Request::default() };
        match self.regions.allocate(&mut self.table, &request, owner) {
            None => self.owners.push(owner),
            Some(_) if migrate_type == MigrateType::Movable => self.movable.push(owner),
            Some(_) => self.unmovable.push(owner),
        }
    }

    fn free(&mut self, owner: Owner) {
        let frame = self.table.block_of(owner).expect("a live page");
        self.regions.free(&mut self.table, frame, 0);
        self.owners.push(owner);
    }

    /// Brings the number of unmovable pages to `wanted`; those freed are any.
    fn demand(&mut self, wanted: u32) {
        while (self.unmovable.len() as u32) < wanted {
            let before = self.unmovable.len();
            self.allocate(MigrateType::Unmovable);
            if self.unmovable.len() == before {
                break;
            }
        }
        while self.unmovable.len() as u32 > wanted {
            let at = self.below(self.unmovable.len() as u32) as usize;
            let owner = self.unmovable.swap_remove(at);
            self.free(owner);
        }
    }

    fn pin(&mut self, pages: u32) -> Vec<Owner> {
        let mut pinned = Vec::new();
        for _ in 0..pages {
            if self.movable.is_empty() {
                break;
            }
            let at = self.below(self.movable.len() as u32) as usize;
            let owner = self.movable.swap_remove(at);
            match self.regions.pin(&mut self.table, owner) {
                Ok(()) => pinned.push(owner),
                Err(_) => self.movable.push(owner),
            }
        }
        pinned
    }

    fn play(mut self, demand: &str) -> Outcome {
        let mut base = FRAMES / 20;
        let mut pins: Vec<(u32, Vec<Owner>)> = Vec::new();
        let mut idle = 0.0;
        for now in 0..WAKE_UPS {
            let per_cent = FRAMES / 100;
            let wanted = match demand {
                "calm" => {
                    base = (base + self.below(4 * MIB)).saturating_sub(2 * MIB).max(32 * MIB);
                    base
                }
                "bursts" => base + if now % 60 < 20 && now >= 60 { 32 * MIB } else { 0 },
                "day" => 2 * per_cent + 24 * per_cent * now.min(WAKE_UPS - now) / WAKE_UPS,
                "swing" => base + now / 2 % 2 * 32 * MIB,
                _ => base,
            };
            self.demand(wanted);
            if demand == "pins" {
                if now % 10 == 0 {
                    let pinned = self.pin(16 * MIB);
                    let until = now + 10 + self.below(40);
                    pins.push((until, pinned));
                }
                let (due, kept) = pins.into_iter().partition(|&(until, _)| until <= now);
                pins = kept;
                let due: Vec<(u32, Vec<Owner>)> = due;
                for owner in due.into_iter().flat_map(|(_, owners)| owners) {
                    self.regions.unpin(&mut self.table, owner);
                    self.free(owner);
                }
            }
            self.churn();
            self.regions.maintain(&mut self.table);
            idle += self.regions.free_frames(0, Region::Unmovable) as f64;
        }
        self.regions.validate(&self.table);
        let counters = self.regions.counters();
        let count = |name: &str| {
            counters.iter().find(|counter| counter.name == name).expect("a counter").value
        };
        Outcome {
            at_once: count("grown_on_failure") + count("shrunk_on_failure"),
            failed: count("failed_unmovable") + count("pins_refused"),
            moved: count("pages_moved"),
            border: count("growths") + count("shrinks"),
            idle: idle / f64::from(WAKE_UPS) / f64::from(FRAMES) * 1000.0,
            runs: 1,
        }
    }

    /// Users free a 240th of what they have, and then ask for memory until nine tenths of the
    /// node are in use, as they can as long as reclaim keeps up.
    fn churn(&mut self) {
        for _ in 0..self.movable.len() / 240 {
            let at = self.below(self.movable.len() as u32) as usize;
            let owner = self.movable.swap_remove(at);
            self.free(owner);
        }
        while self.owners.len() as u32 > FRAMES / 10 {
            let before = self.movable.len();
            self.allocate(MigrateType::Movable);
            if self.movable.len() == before {
                break;
            }
        }
    }
}
