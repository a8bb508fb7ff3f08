//! Properties of a server's simulation.

use prairie_frames::placement::buddy::Buddy;
use prairie_frames::{Layout, Order};

use super::*;
use crate::study::Study;
use prairie_model::random::Spread;

/// Zones of 128 MiB.
fn layout() -> Layout {
    let (workloads, systems) = (Vec::new(), Vec::new());
    Study { workloads, systems, memory: vec![1 << 15], days: 1.0, seed: 0 }.layout(0).unwrap()
}

fn boot<'a>(workload: &'a Workload, layout: &Layout, seed: u64) -> Server<'a, Buddy> {
    let placement = Buddy::new(layout, Order::LARGEST_FREE);
    Server::boot(workload, layout, placement, Random::new(seed))
}

/// Programs that were made a little too large would leave no memory for the kernel: two or three
/// of them are most of a cache's memory.
#[test]
fn programs_use_at_most_the_memory_of_the_load() {
    let layout = layout();
    let mut workload = Workload::shipped("cache-a").unwrap();
    workload.jobs.size = Spread::Lognormal(35e6, 0.5);
    let mut least = f64::MAX;
    for seed in 0..100 {
        let mut server = boot(&workload, &layout, seed);
        server.start_jobs(0.0);
        let size: u64 = server.jobs.iter().map(|job| job.size).sum();
        let wanted = workload.jobs.share * server.load(0.0) * server.frames as f64;
        assert!(size as f64 <= wanted, "seed {seed}: {size} frames of {wanted:.0}");
        least = least.min(size as f64 / wanted);
    }
    assert!(least > 0.5, "{least:.2} of what the load calls for");
}

/// Reclaim frees the oldest reads completely, in order, or they stand behind all others.
#[test]
fn a_read_is_reclaimed_or_kept_as_a_whole() {
    let layout = layout();
    let workload = Workload::shipped("ci").unwrap();
    let mut server = boot(&workload, &layout, 3);
    while server.free > server.marks.1 + 4096 {
        server.burst(Source::Files, 32, 32, 0.0);
    }
    let reads = server.cache.clone();
    assert!(reads.iter().any(|read| read.count == 32));
    let before = server.free;
    assert!(server.reclaim(4096));
    let came = server.free - before;
    assert!((4096..4096 + 32).contains(&came), "{came}");
    let untouched = reads.iter().position(|read| server.cache.front() == Some(read)).unwrap();
    let (looked_at, rest) = (reads.range(..untouched), reads.range(untouched..));
    let kept: Vec<&Pages> = server.cache.range(rest.len()..).collect();
    assert!(server.cache.iter().zip(rest).all(|(now, then)| now == then));
    let gone = looked_at.clone().filter(|read| !kept.contains(read));
    assert_eq!(gone.map(|read| u64::from(read.count)).sum::<u64>(), came);
    assert!(looked_at.filter(|read| kept.contains(read)).eq(kept.iter().copied()), "in order");
    let share = kept.len() as f64 / untouched as f64;
    assert!((share - workload.used_again).abs() < 0.15, "{share:.2}");
    server.validate();
}

/// Reclaim watches what Linux's own watermarks watch, so that hardly any request finds all zones
/// low. It was one in four, and each took what it could find, while frames on per-CPU lists and
/// those that the lower zones keep back counted as free.
#[test]
fn reclaim_keeps_linuxs_zones_above_their_low_marks() {
    use prairie_frames::placement::linux::{Config, Linux};

    let layout = Study {
        workloads: Vec::new(),
        systems: Vec::new(),
        memory: vec![1 << 20],
        days: 1.0,
        seed: 0,
    };
    let layout = layout.layout(0).unwrap();
    let mut workload = Workload::shipped("ci").unwrap();
    workload.jobs.size = Spread::Lognormal(128e6, 0.5);
    // Of pages and page tables alone: reclaim cannot know whether a block of eight will be free.
    workload.jobs.huge = 0.0;
    workload.kernel.iter_mut().for_each(|kind| kind.orders = vec![(0, 1)]);
    let linux = Linux::new(&layout, Config { cpus_per_node: 16, ..Config::default() });
    let mut server = Server::boot(&workload, &layout, linux, Random::new(1));
    server.live_until(4.0 * 3600.0);
    // A program that has just ended may have left much free: the time that counts is a full one.
    while server.free >= server.frames / 20 && server.now < 12.0 * 3600.0 {
        server.live_until(server.now + 600.0);
    }
    let counters = server.placement.counters();
    let count = |name| counters.iter().find(|counter| counter.name == name).unwrap().value;
    assert!(server.free < server.frames / 20, "{} frames are free", server.free);
    assert!(server.placement.cached_frames() > 0);
    let low = count("below_low") + count("below_min");
    assert!(low * 100 < server.allocations, "{low} of {} found zones low", server.allocations);
}
