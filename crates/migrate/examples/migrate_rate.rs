//! How many accesses a second the timing simulator goes through, in CPU time of one thread.
//!
//! `migrate_rate [--rounds N] [--heap 4K|2M]`: for each machine and stream, the best of N rounds.

use std::process::ExitCode;

use migrate::address::PageSize;
use migrate::params::Params;
use migrate::sim::{Outcome, Plan, Simulation};
use migrate::workload::Kind;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let mut rounds = 3;
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.next().and_then(|value| value.parse().ok())) {
            ("--rounds", Some(value)) => rounds = value,
            _ => {
                eprintln!("usage: migrate_rate [--rounds N]");
                return ExitCode::from(2);
            }
        }
    }
    println!("cores  stream     accesses  L1 hits  walks  CPU s  M accesses/s  caches MiB");
    for cores in [16, 64, 256] {
        for workload in [Kind::Hot, Kind::Random, Kind::Memcached, Kind::Nginx] {
            measure(cores, workload, rounds);
        }
    }
    ExitCode::SUCCESS
}

fn measure(cores: u64, workload: Kind, rounds: u32) {
    let text = format!("[cores]\ncount = {cores}\n[llc]\nslices = {cores}\n[mesh]\ncolumns = 8");
    let params = Params::read(&text).expect("a machine that can be");
    let per_request = if matches!(workload, Kind::Hot | Kind::Random) { 1000 } else { 4000 };
    let plan = Plan {
        workload,
        seed: 1,
        heap: PageSize::Base,
        requests: 24_000_000 / cores / per_request,
        warm_up: 8_000_000 / cores / per_request,
        interarrival_ns: None,
        migrations: None,
    };
    let mut best: Option<(f64, u64, Outcome)> = None;
    for _ in 0..rounds {
        let simulation = Simulation::new(&params, &plan).expect("memory enough");
        let (mut from, mut to) = (None, None);
        let outcome = simulation.run(&mut |progress| {
            // Only what comes after the warm-up is timed.
            if progress.served >= plan.warm_up * cores {
                to = Some((cpu_seconds(), progress.accesses));
                from = from.or(to);
            }
            true
        });
        let outcome = outcome.expect("it was not stopped");
        let ((from_s, from_n), (to_s, to_n)) = from.zip(to).expect("a run longer than a window");
        let (seconds, accesses) = (to_s - from_s, to_n - from_n);
        if best.as_ref().is_none_or(|(least, ..)| seconds < *least) {
            best = Some((seconds, accesses, outcome));
        }
    }
    let (seconds, accesses, outcome) = best.expect("at least one round");
    let c = &outcome.counts;
    let l1_hits = 1.0 - (c.l2_hits + c.llc_requests) as f64 / c.accesses as f64;
    println!(
        "{cores:>5}  {:<9}  {:>8.1}M  {:>6.1}%  {:>4.1}%  {seconds:>5.2}  {:>12.1}  {:>10.0}",
        workload.name(),
        accesses as f64 / 1e6,
        100.0 * l1_hits,
        100.0 * outcome.translations.walks as f64 / c.accesses as f64,
        accesses as f64 / seconds / 1e6,
        outcome.host_bytes as f64 / f64::from(1 << 20),
    );
}

/// CPU seconds of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/schedstat").expect("Linux");
    let ns: u64 = stat.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number");
    ns as f64 / 1e9
}
