//! Control by a fixed promotion rate (g-swap), and nothing else: for comparison on a real kernel.
//!
//! ```text
//! promotions CGROUP
//! ```
//!
//! CGROUP is a folder of cgroup v2. Every six seconds it asks `memory.reclaim` for what
//! `prairie_offload::g_swap` decides with its defaults.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Context, Result};
use prairie_host::cgroup::memory_stat;
use prairie_offload::Observation;
use prairie_offload::g_swap::GSwap;

const PERIOD: Duration = Duration::from_secs(6);

fn observe(cgroup: &Path, at: Duration) -> Result<Observation> {
    let read = |file: &str| fs::read_to_string(cgroup.join(file)).context(file.to_owned());
    let current_bytes = read("memory.current")?.trim().parse()?;
    let stat = memory_stat::parse("memory.stat", &read("memory.stat")?)?;
    Ok(Observation { at, current_bytes, stat, ..Observation::default() })
}

fn main() -> Result<()> {
    let cgroup = std::env::args().nth(1).context("expected CGROUP")?;
    let cgroup = Path::new(&cgroup);
    let law = GSwap::default();
    let started = Instant::now();
    let mut before = observe(cgroup, started.elapsed())?;
    loop {
        thread::sleep(PERIOD);
        let now = observe(cgroup, started.elapsed())?;
        let bytes = law.reclaim_bytes(&before, &now);
        if bytes >= 4096 {
            // Less than was requested is EAGAIN: all the same to the law.
            let _ = fs::write(cgroup.join("memory.reclaim"), bytes.to_string());
        }
        before = now;
    }
}
