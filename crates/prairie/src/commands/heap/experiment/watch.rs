//! Processes that run already.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use prairie_heap::experiment::{Observation, Subject};
use prairie_heap::inspect::{self, Reading};

use super::process::{cpu_seconds, name, resident_bytes};
use super::{Args, Observed};

/// How long a wait is at most before an interruption is noticed.
const NAP: Duration = Duration::from_millis(50);

/// A process, and its CPU time at the first and the last observation.
struct Watched {
    observed: Observed,
    cpu: (f64, f64),
}

/// Observes the processes for the time of the arguments, or until an interruption.
pub fn observe(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<Vec<Observed>> {
    for &pid in &args.pids {
        inspect::read(pid).with_context(|| format!("process {pid}"))?;
    }
    let began = Instant::now();
    let mut watched = BTreeMap::new();
    let mut next = began;
    loop {
        for (pid, reading) in readings(&args.pids)? {
            look(&mut watched, pid, &reading, began.elapsed().as_secs_f64());
        }
        next += args.every;
        while Instant::now() < next && !interrupted.load(Relaxed) {
            std::thread::sleep((next - Instant::now()).min(NAP));
        }
        if began.elapsed() >= args.time || interrupted.load(Relaxed) {
            break;
        }
    }
    if watched.is_empty() {
        bail!("no process runs on the heap (start some with `prairie heap run -- PROGRAM`)");
    }
    Ok(watched.into_values().map(finished).collect())
}

fn readings(pids: &[u32]) -> anyhow::Result<Vec<(u32, Reading)>> {
    if pids.is_empty() {
        return Ok(inspect::read_all().context("/proc")?.readings);
    }
    // A process that has ended keeps what was seen of it.
    Ok(pids.iter().filter_map(|&pid| Some((pid, inspect::read(pid).ok()?))).collect())
}

fn look(watched: &mut BTreeMap<u32, Watched>, pid: u32, reading: &Reading, at: f64) {
    let Some(cpu) = cpu_seconds(pid) else { return };
    let entry = watched.entry(pid).or_insert_with(|| Watched {
        observed: Observed {
            pid,
            at: Vec::new(),
            subject: Subject {
                program: name(pid),
                arm: reading.statistics.page_heap.page_heap.to_owned(),
                observations: Vec::new(),
                seconds: 0.0,
                cpu_seconds: 0.0,
                peak_resident_bytes: None,
            },
        },
        cpu: (cpu, cpu),
    });
    entry.cpu.1 = cpu;
    entry.observed.at.push(at);
    let observation = Observation::new(&reading.statistics, resident_bytes(pid));
    entry.observed.subject.observations.push(observation);
}

fn finished(watched: Watched) -> Observed {
    let Watched { mut observed, cpu: (first, last) } = watched;
    let (begin, end) = (observed.at.first(), observed.at.last());
    observed.subject.seconds = end.unwrap_or(&0.0) - begin.unwrap_or(&0.0);
    observed.subject.cpu_seconds = last - first;
    observed
}
