//! Fleets over several seeds, simulated with all cores.

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use prairie_fleet::row::{Counters, Row};
use prairie_fleet::study::Study;
use prairie_model::allocator::{Allocator, World};
use prairie_sim::workload::{SHIPPED, Workload};

/// Frames of a GiB.
pub const GIB: u64 = 1 << 18;

/// A study of the shipped workloads.
pub fn study(systems: &[&str], memory: Vec<u64>, days: f64) -> Result<Study, Box<dyn Error>> {
    Ok(Study {
        workloads: SHIPPED.iter().filter_map(|(name, _)| Workload::shipped(name)).collect(),
        systems: Allocator::parse_list(&systems.join(","), World::Fleet)?,
        memory,
        days,
        seed: 0,
    })
}

/// The rows of `servers` servers for each seed from 1 up; each lives for `seconds`, or as long as
/// is drawn for it.
pub fn simulate(
    study: &Study,
    seeds: u64,
    servers: u64,
    seconds: Option<f64>,
) -> Result<Vec<Vec<Row>>, Box<dyn Error>> {
    let all: Vec<(u64, u64)> =
        (1..=seeds).flat_map(|seed| (0..servers).map(move |server| (seed, server))).collect();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(vec![Vec::new(); all.len()]);
    let work = || {
        while let Some((at, &(seed, server))) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            all.get(at).map(|which| (at, which))
        } {
            let study = Study { seed, ..study.clone() };
            let rows = match seconds {
                Some(seconds) => study.server_after(server, seconds),
                None => study.server(server),
            };
            if let (Ok(rows), Ok(mut done)) = (rows, done.lock()) {
                done[at] = rows;
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| {
            scope.spawn(work);
        });
    });
    let rows = done.into_inner().map_err(|_| "a thread has panicked")?;
    if rows.iter().any(Vec::is_empty) {
        return Err("a server could not be simulated".into());
    }
    Ok(rows.chunks(servers as usize).map(|chunk| chunk.concat()).collect())
}

/// What a simulated server counted.
pub fn counted(row: &Row) -> &Counters {
    row.simulated.as_ref().expect("a simulated server")
}

/// The rows of one allocator.
pub fn of<'a>(rows: &'a [Row], system: &str) -> Vec<&'a Row> {
    rows.iter().filter(|row| row.system == system).collect()
}

/// The mean over servers.
pub fn mean(rows: &[&Row], of: impl Fn(&Row) -> f64) -> f64 {
    rows.iter().map(|row| of(row)).sum::<f64>() / rows.len().max(1) as f64
}

/// The sum over servers.
pub fn sum(rows: &[&Row], of: impl Fn(&Row) -> u64) -> f64 {
    rows.iter().map(|row| of(row)).sum::<u64>() as f64
}

/// Frames as percent of a server's memory.
pub fn percent(row: &Row, frames: u64) -> f64 {
    frames as f64 * 100.0 / row.frames as f64
}

/// Pearson correlation of uptime and free 2 MiB blocks; 0 where either is the same on all servers.
pub fn correlation(rows: &[&Row]) -> f64 {
    let (x, y) = (mean(rows, |row| row.uptime_s), mean(rows, |row| row.free_2_mib as f64));
    let product = |row: &Row| (row.uptime_s - x) * (row.free_2_mib as f64 - y);
    let squares = mean(rows, |row| (row.uptime_s - x).powi(2))
        * mean(rows, |row| (row.free_2_mib as f64 - y).powi(2));
    if squares > 0.0 { mean(rows, product) / squares.sqrt() } else { 0.0 }
}
