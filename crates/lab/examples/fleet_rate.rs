//! How long a simulated server of a fleet takes, and what is left of its memory.
//!
//! ```text
//! cargo run --release -p prairie-lab --example fleet_rate [SERVERS] [GIB] [DAYS] [ORDER] [SYSTEMS]
//! ```
//!
//! One server after another on one thread, each workload in turn, under `linux,contiguitas`; user
//! memory comes in blocks of ORDER; times are of CPU.

use std::error::Error;

use frames::Order;
use lab::fleet::row::Row;
use lab::fleet::study::Study;
use lab::fleet::workload::{SHIPPED, Workload};
use lab::variant::Variant;
use rustix::time::{ClockId, clock_gettime};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: f64| -> Result<f64, Box<dyn Error>> {
        Ok(arguments.next().map(|text| text.parse()).transpose()?.unwrap_or(default))
    };
    let (servers, gib, days) = (number(4.0)? as u64, number(64.0)?, number(1.0)?);
    let granule = Order::new(number(0.0)? as u8).ok_or("an order")?;
    let systems = std::env::args().nth(5).unwrap_or("linux,contiguitas".to_owned());
    let systems: Vec<Variant> = systems.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let workloads = SHIPPED.iter().filter_map(|(name, _)| Workload::shipped(name)).collect();
    let frames = (gib * 262_144.0) as u64;
    let mut study = Study { workloads, systems: Vec::new(), frames, days, granule, seed: 1 };
    println!(
        "workload  system        hours  allocations  ns each  CPU s  free %  contiguity 2M/4M/32M/1G %   potential 2M/32M/1G %  unmovable %  spoiled %  failed k/m/h"
    );
    for server in 0..servers {
        for system in &systems {
            study.systems = vec![system.clone()];
            let begin = cpu_seconds();
            let rows = study.server(server)?;
            print(&rows[0], cpu_seconds() - begin);
        }
    }
    Ok(())
}

fn print(row: &Row, seconds: f64) {
    let of = |part: u64| part as f64 * 100.0 / row.frames as f64;
    let per_cent = |shares: &[f64]| {
        shares.iter().map(|share| format!("{:5.1}", share * 100.0)).collect::<Vec<_>>().join(" ")
    };
    println!(
        "{:9} {:12} {:6.1} {:12} {:8.1} {seconds:6.2} {:7.1}  {}     {}     {:7.1} {:9.1}     {} {} {}",
        row.workload,
        row.system,
        row.uptime_s / 3600.0,
        row.allocations,
        seconds * 1e9 / row.allocations.max(1) as f64,
        of(row.free_frames),
        per_cent(&row.contiguity()),
        per_cent(&row.potential()),
        of(row.unmovable_frames),
        of(row.spoiled_blocks * 512),
        row.failed_kernel,
        row.failed_movable,
        row.failed_huge,
    );
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
