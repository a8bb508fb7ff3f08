//! The formula as published, and nothing else: for comparison on a real kernel.
//!
//! ```text
//! published CGROUP [RATIO [THRESHOLD]]
//! ```
//!
//! CGROUP is a folder of cgroup v2. Every six seconds it asks `memory.reclaim` for
//! `memory.current × RATIO × max(0, 1 − pressure / THRESHOLD)`; pressure is the larger growth of
//! `total=` of memory and IO `some` (TMO, §3.3). No age, no guard, no account of refaults.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, io, thread};

use prairie_offload::pressure::Pressure;
use prairie_offload::senpai::Senpai;
use prairie_offload::signal::{self, memory};
use prairie_offload::{Counters, Observation};

const PERIOD: Duration = Duration::from_secs(6);

fn number(text: &str) -> io::Result<u64> {
    text.trim().parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// `total=` of the line `some`.
fn stalled_us(cgroup: &Path, file: &str) -> io::Result<u64> {
    let text = fs::read_to_string(cgroup.join(file))?;
    let some = text.lines().next().and_then(|line| line.rsplit_once("total="));
    number(some.map_or("", |(_, total)| total))
}

fn observe(cgroup: &Path, at: Duration) -> io::Result<Observation> {
    Ok(Observation {
        at,
        current_bytes: number(&fs::read_to_string(cgroup.join("memory.current"))?)?,
        counters: Counters::of([
            (memory::SOME, stalled_us(cgroup, "memory.pressure")?),
            (signal::io::SOME, stalled_us(cgroup, "io.pressure")?),
        ]),
        ..Observation::default()
    })
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [cgroup, rest @ ..] = &words[..] else {
        eprintln!("published CGROUP [RATIO [THRESHOLD]]");
        std::process::exit(2);
    };
    let mut law = Senpai::default();
    for (word, field) in rest.iter().zip([&mut law.reclaim_ratio, &mut law.threshold]) {
        *field = word.parse().expect("a number");
    }
    let cgroup = Path::new(cgroup);
    let started = Instant::now();
    let mut before = observe(cgroup, started.elapsed())?;
    loop {
        thread::sleep(PERIOD);
        let now = observe(cgroup, started.elapsed())?;
        let pressure = Pressure::between(&before, &now, Duration::ZERO).governing().1;
        let bytes = law.reclaim_bytes(now.current_bytes, pressure);
        let mut file = fs::OpenOptions::new().write(true).open(cgroup.join("memory.reclaim"))?;
        // Less than was requested is EAGAIN: all the same to the formula.
        let _ = file.write_all(bytes.to_string().as_bytes());
        before = now;
    }
}
