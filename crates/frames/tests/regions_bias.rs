//! The experiment that decided which free block of a region is taken first.
//!
//! A machine of 1 GiB breathes: kernel memory swells to a quarter of it and shrinks to a tenth,
//! over and over, in blocks of different sizes and lifetimes, while page cache takes what is left.
//! All rules see the same requests. What counts is how little the border's movement costs and
//! how closely the unmovable region follows what it holds.
//!
//! `cargo test -p prairie-frames --test regions_bias -- --nocapture` prints the figures.

mod regions_machine;

use prairie_frames::layout::Watermarks;
use prairie_frames::placement::Placement;
use prairie_frames::placement::regions::{Config, Region};
use prairie_frames::table::Owner;
use prairie_frames::{MigrateType, Order, ZoneKind};
use regions_machine::{Machine, Random, order, zone};

/// Blocks that are in use, each with its order.
type Live = Vec<(Owner, Order)>;

const FRAMES: u64 = 1 << 18;

#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    pages_moved: u64,
    grown_on_failure: u64,
    failed_unmovable: u64,
    failed_movable: u64,
    /// Frames of the unmovable region that hold nothing, as a share of memory, mean over samples.
    idle: f64,
    /// Frames of the movable region's free memory in blocks of 2 MiB and more, mean over samples.
    huge: f64,
}

fn free_some(m: &mut Machine, live: &mut Live, random: &mut Random) -> u64 {
    let (owner, size) = live.swap_remove(random.below(live.len() as u64) as usize);
    m.free_all(owner, size);
    size.frames()
}

/// Most blocks are small; slabs and buffers are of order 3, now and then something is larger.
fn size(random: &mut Random) -> Order {
    order(match random.below(100) {
        0..=69 => 0,
        70..=84 => 1,
        85..=89 => 2,
        90..=97 => 3,
        98 => 4,
        _ => 6,
    })
}

/// What moves the border: free memory alone, or pressure as well. The first shows the rule by
/// itself, since pressure answers to what the rule leaves free.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Border {
    ByFreeMemory,
    ByPressureToo,
}

fn breathe(bands: [u64; 2], kept: u64, seed: u64, border: Border) -> Outcome {
    let mut span = zone(0, ZoneKind::Normal, 0, FRAMES);
    span.watermarks = Watermarks { min: 700, low: 900, high: 1100 };
    let mut m =
        Machine::bare(vec![span], Config { band_per_1024: bands, ..Config::default() }).started();
    if border == Border::ByFreeMemory {
        m.regions.report_pressure(0, [0, 0]);
    }
    let mut random = Random::new(seed);
    let (mut kernel, mut short, mut cache) = (Live::new(), Live::new(), Live::new());
    let (mut held, mut outcome, mut samples) = (0, Outcome::default(), 0u32);
    for step in 0..300_000u64 {
        // A triangle wave between a tenth and a quarter of memory.
        let phase = step % 60_000;
        let height = phase.min(60_000 - phase) as f64 / 30_000.0;
        let wanted = (FRAMES as f64 * (0.10 + 0.15 * height)) as u64;
        if held < wanted {
            let size = size(&mut random);
            if let Some(owner) = m.allocate(size, MigrateType::Unmovable) {
                kernel.push((owner, size));
                held += size.frames();
            }
        } else {
            held -= free_some(&mut m, &mut kernel, &mut random);
        }
        // Buffers that live for some hundred steps.
        short.extend(m.allocate(order(1), MigrateType::Unmovable).map(|owner| (owner, order(1))));
        if short.len() > 500 {
            free_some(&mut m, &mut short, &mut random);
        }
        // Page cache, until only so much is free.
        for _ in 0..2 {
            if m.regions.free_frames(0, Region::Movable) > FRAMES / kept {
                let size = size(&mut random);
                cache.extend(m.allocate(size, MigrateType::Movable).map(|owner| (owner, size)));
            } else {
                free_some(&mut m, &mut cache, &mut random);
            }
        }
        if step % 200 == 0 {
            m.maintain();
        }
        if step % 1000 == 0 && step >= 60_000 {
            let free = m.regions.free_blocks(0)[1].1.clone();
            let huge: u64 = free.iter().enumerate().skip(9).map(|(j, count)| count << j).sum();
            outcome.idle += m.regions.free_frames(0, Region::Unmovable) as f64 / FRAMES as f64;
            outcome.huge += huge as f64 / m.regions.free_frames(0, Region::Movable) as f64;
            samples += 1;
        }
    }
    m.validate();
    outcome.idle /= f64::from(samples);
    outcome.huge /= f64::from(samples);
    outcome.pages_moved = m.counter("pages_moved");
    outcome.grown_on_failure = m.counter("grown_on_failure");
    outcome.failed_unmovable = m.counter("failed_unmovable");
    outcome.failed_movable = m.counter("failed_movable");
    println!(
        "{bands:?} 1/{kept} {border:?}: {outcome:?} growths {} shrinks {}",
        m.counter("growths"),
        m.counter("shrinks")
    );
    outcome
}

#[test]
fn a_narrow_band_beside_the_border_keeps_it_cheap_to_move_and_blocks_large() {
    for seed in [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03] {
        let breathe = |bands| breathe(bands, 20, seed, Border::ByFreeMemory);
        let band = breathe(Config::default().band_per_1024);
        let smallest = breathe([0, 0]);
        let furthest = breathe([1024, 1024]);
        assert!(band.pages_moved * 10 < smallest.pages_moved);
        assert!(band.huge > smallest.huge * 0.85);
        assert!(band.huge > furthest.huge * 10.0);
        assert_eq!(band.failed_unmovable + band.failed_movable, 0);
        assert!(band.idle < smallest.idle * 1.05);
    }
}

#[test]
fn the_band_does_no_harm_when_memory_is_short() {
    let seed = 0x2545_f491_4f6c_dd1d;
    let band = breathe(Config::default().band_per_1024, 50, seed, Border::ByFreeMemory);
    let smallest = breathe([0, 0], 50, seed, Border::ByFreeMemory);
    assert!(band.pages_moved * 4 < smallest.pages_moved);
    assert!(band.huge > smallest.huge * 0.85);
}

/// Pressure makes the border move more, also where the band lies; it still costs less than
/// without one.
#[test]
fn under_pressure_the_band_still_saves_copies() {
    for (kept, seed) in
        [(20, 0x9e37_79b9_7f4a_7c15), (20, 0xd1b5_4a32_d192_ed03), (50, 0x2545_f491)]
    {
        let breathe = |bands| breathe(bands, kept, seed, Border::ByPressureToo);
        let band = breathe(Config::default().band_per_1024);
        let smallest = breathe([0, 0]);
        assert!(band.pages_moved < smallest.pages_moved, "{band:?} {smallest:?}");
        assert_eq!(band.failed_unmovable + band.failed_movable, 0);
    }
}
