//! How many accesses a second the timing simulator goes through, in CPU time of one thread.
//!
//! `migrate_rate [--rounds N] [--cores N] [--stream NAME]`: for each machine and stream, or the one
//! that is named, the median of N rounds. Counted are the accesses of the program; reads of page
//! tables come on top.

use std::process::ExitCode;

use prairie_migrate::address::PageSize;
use prairie_migrate::params::Params;
use prairie_migrate::sim::{Outcome, Plan, Simulation};
use prairie_migrate::workload::Kind;

/// Settings of the measurement.
struct Settings {
    rounds: usize,
    cores: Vec<u64>,
    streams: Vec<Kind>,
    /// Accesses of all cores that are timed, about.
    accesses: u64,
}

fn main() -> ExitCode {
    let Some(settings) = settings(std::env::args().skip(1)) else {
        eprintln!("usage: migrate_rate [--rounds N] [--cores N] [--stream NAME] [--millions N]");
        return ExitCode::from(2);
    };
    println!("cores  stream     accesses  L1 hits  walks  CPU s  M accesses/s  caches MiB");
    for cores in &settings.cores {
        for stream in &settings.streams {
            measure(*cores, *stream, &settings);
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or(" unknown");
    println!("most memory resident at any time: {}", peak.trim());
    ExitCode::SUCCESS
}

fn settings(mut arguments: impl Iterator<Item = String>) -> Option<Settings> {
    let mut settings = Settings {
        rounds: 3,
        cores: vec![16, 64, 256],
        streams: vec![Kind::Hot, Kind::Random, Kind::Memcached, Kind::Nginx],
        accesses: 24_000_000,
    };
    while let Some(argument) = arguments.next() {
        let value = arguments.next()?;
        match argument.as_str() {
            "--rounds" => settings.rounds = value.parse().ok().filter(|rounds| *rounds > 0)?,
            "--cores" => settings.cores = vec![value.parse().ok()?],
            "--stream" => {
                let kind = Kind::ALL.into_iter().find(|kind| kind.name() == value)?;
                settings.streams = vec![kind];
            }
            "--millions" => settings.accesses = value.parse::<u64>().ok()? * 1_000_000,
            _ => return None,
        }
    }
    Some(settings)
}

fn measure(cores: u64, workload: Kind, settings: &Settings) {
    let text = format!("[cores]\ncount = {cores}\n[llc]\nslices = {cores}\n[mesh]\ncolumns = 8");
    let params = Params::read(&text).expect("a machine that can be");
    let per_request = match workload {
        Kind::Memcached => 3800,
        Kind::Nginx => 8400,
        _ => 1000,
    };
    let requests = (settings.accesses / cores / per_request).max(4);
    let plan = Plan {
        workload,
        seed: 1,
        heap: PageSize::Base,
        requests,
        warm_up: requests / 3 + 1,
        interarrival_ns: None,
        migrations: None,
    };
    let mut rounds: Vec<(f64, u64, Outcome)> =
        (0..settings.rounds).map(|_| one(&params, &plan, cores)).collect();
    rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (seconds, accesses, outcome) = &rounds[rounds.len() / 2];
    let c = &outcome.counts;
    let l1_hits = 1.0 - (c.l2_hits + c.llc_requests) as f64 / c.accesses as f64;
    let program = c.accesses - outcome.translations.walk_reads;
    println!(
        "{cores:>5}  {:<9}  {:>8.1}M  {:>6.1}%  {:>4.1}%  {seconds:>5.2}  {:>12.1}  {:>10.0}",
        workload.name(),
        *accesses as f64 / 1e6,
        100.0 * l1_hits,
        100.0 * outcome.translations.walks as f64 / program as f64,
        *accesses as f64 / seconds / 1e6,
        outcome.host_bytes as f64 / f64::from(1 << 20),
    );
}

/// CPU seconds and accesses of a run after its warm-up, and the run.
fn one(params: &Params, plan: &Plan, cores: u64) -> (f64, u64, Outcome) {
    let simulation = Simulation::new(params, plan).expect("memory enough");
    let (mut from, mut to) = (None, None);
    let outcome = simulation.run(&mut |progress| {
        if progress.served >= plan.warm_up * cores {
            to = Some((cpu_seconds(), progress.accesses));
            from = from.or(to);
        }
        true
    });
    let ((from_s, from_n), (to_s, to_n)) = from.zip(to).expect("a run longer than a window");
    (to_s - from_s, to_n - from_n, outcome.expect("it was not stopped"))
}

/// CPU seconds of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    let ns: u64 = stat.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number");
    ns as f64 / 1e9
}
