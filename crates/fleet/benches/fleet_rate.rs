//! How long a simulated server of a fleet takes, and what is left of its memory.
//!
//! ```text
//! cargo bench -p prairie-fleet --bench fleet_rate -- [SERVERS] [GIB] [DAYS] [SYSTEMS] [whole]
//! ```
//!
//! One server after another on one thread, one of each workload, under `linux,contiguitas`. Each
//! has a random uptime up to DAYS, or with `whole` exactly DAYS. Failed are requests of the kernel,
//! of programs for small pages and for huge ones; waited, allocations that had the border moved for
//! them. Times are of CPU; the last lines say what a day of a server costs under each system, mean
//! over workloads.

use std::error::Error;

use prairie_fleet::row::{Counters, Row};
use prairie_fleet::study::Study;
use prairie_model::allocator::Allocator;
use prairie_sim::workload::{SHIPPED, Workload};
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo bench` adds the option.
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let mut number = |default: f64| -> Result<f64, Box<dyn Error>> {
        Ok(arguments.next().map(|text| text.parse()).transpose()?.unwrap_or(default))
    };
    let (servers, gib, days) = (number(4.0)? as u64, number(64.0)?, number(1.0)?);
    let systems = arguments.next().unwrap_or("linux,contiguitas".to_owned());
    let systems: Vec<Allocator> = systems.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let whole = match arguments.next().as_deref() {
        None => false,
        Some("whole") => true,
        Some(other) => {
            return Err(format!("`{other}` is not `whole`, which is all it could be").into());
        }
    };
    let workloads = SHIPPED.iter().filter_map(|(name, _)| Workload::shipped(name)).collect();
    let frames = (gib * 262_144.0) as u64;
    let mut study = Study { workloads, systems: Vec::new(), memory: vec![frames], days, seed: 1 };
    println!(
        "workload  system        hours  allocations  ns each  CPU s  a day  free %  contiguity 2M/4M/32M/1G %   potential 2M/32M/1G %  unmovable %  polluted %  failed k/m/h  waited"
    );
    let mut sums = vec![0.0; systems.len()];
    for server in 0..servers {
        for (system, sum) in systems.iter().zip(&mut sums) {
            study.systems = vec![system.clone()];
            let begin = cpu_seconds();
            let rows = match whole {
                true => study.server_after(server, days * 86_400.0)?,
                false => study.server(server)?,
            };
            let seconds = cpu_seconds() - begin;
            print(&rows[0], seconds);
            *sum += a_day(&rows[0], seconds);
        }
    }
    for (system, sum) in systems.iter().zip(sums) {
        println!("{:12} {:.1} s of CPU a server and day", system.name(), sum / servers as f64);
    }
    Ok(())
}

/// The extrapolated time of a day.
fn a_day(row: &Row, seconds: f64) -> f64 {
    seconds * 86_400.0 / row.uptime_s
}

fn print(row: &Row, seconds: f64) {
    let of = |part: u64| part as f64 * 100.0 / row.frames as f64;
    let per_cent = |shares: &[f64]| {
        shares.iter().map(|share| format!("{:5.1}", share * 100.0)).collect::<Vec<_>>().join(" ")
    };
    println!(
        "{:9} {:12} {:6.1} {:12} {:8.1} {seconds:6.2} {:6.1} {:7.1}  {}     {}     {:7.1} {:9.1}     {} {} {}  {}",
        row.workload,
        row.system,
        row.uptime_s / 3600.0,
        counted(row).allocations,
        seconds * 1e9 / counted(row).allocations.max(1) as f64,
        a_day(row, seconds),
        of(row.free_frames),
        per_cent(&row.contiguity()),
        per_cent(&row.potential()),
        of(row.unmovable_frames),
        of(row.polluted_max * 512),
        counted(row).failed_kernel,
        counted(row).failed_movable,
        counted(row).failed_huge,
        counted(row).waited,
    );
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn counted(row: &Row) -> &Counters {
    row.simulated.as_ref().expect("a simulated server")
}
