//! Schedules processes round-robin: as many at a time as the scenario has CPUs, each for a slice.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use prairie_model::random::Random;
use prairie_sim::machine::scenario::Scenario;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::Serialize;

use crate::{process, stream};

/// The results of a played scenario.
#[derive(Debug, Serialize)]
pub(crate) struct Played {
    seed: u64,
    /// Processes that reached their end, by kind.
    done: BTreeMap<String, u64>,
    /// Processes that the kernel killed.
    killed: u64,
    /// Single kernel pages that came and went.
    kernel_pages: u64,
    /// Faults where a huge page could begin, and their time in microseconds.
    huge_faults: u64,
    huge_fault_mean_us: f64,
    huge_fault_p50_us: f64,
    huge_fault_p99_us: f64,
    huge_fault_max_us: f64,
}

/// A process that waits for its turn: when that is, after which other, and who it is.
struct Waiting {
    from: Instant,
    order: u64,
    process: Process,
}

struct Process {
    kind: usize,
    child: Child,
}

/// What all CPUs share.
struct Shared<'a> {
    scenario: &'a Scenario,
    file: &'a str,
    folder: &'a Path,
    random: Random,
    started: BTreeMap<usize, u32>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    order: u64,
    done: BTreeMap<String, u64>,
    killed: u64,
    faults: Histogram<u64>,
}

/// Plays the first phase of a scenario.
///
/// # Errors
/// If a process cannot be started, or the numbers of one are not understood.
pub(crate) fn play(scenario: &Scenario, file: &str, folder: &Path, seed: u64) -> Result<Played> {
    let many = Some(1 << 16);
    setrlimit(Resource::Nofile, Rlimit { current: many, maximum: many })?;
    // The kernel should kill what is simulated, not who counts.
    std::fs::write("/proc/self/oom_score_adj", "-1000").context("/proc/self/oom_score_adj")?;
    let mut shared = Shared {
        scenario,
        file,
        folder,
        random: Random::new(seed),
        started: BTreeMap::new(),
        waiting: BinaryHeap::new(),
        order: 0,
        done: BTreeMap::new(),
        killed: 0,
        // Up to a minute.
        faults: Histogram::new_with_bounds(1, 60_000_000_000, 3)?,
    };
    let phase = &scenario.phases[0];
    for (kind, config) in scenario.processes.iter().enumerate() {
        for _ in 0..phase.run.get(&config.name).copied().unwrap_or(0) {
            let process = shared.start(kind)?;
            shared.wait(process, Instant::now());
        }
    }
    let end = Instant::now() + Duration::from_nanos(phase.duration.0);
    let shared = Mutex::new(shared);
    let kernel_pages = thread::scope(|scope| -> Result<u64> {
        let streams: Vec<_> = scenario
            .kernel
            .iter()
            .zip(seed + 1..)
            .map(|(kind, seed)| scope.spawn(move || stream::play(kind, seed, end)))
            .collect();
        let cpus: Vec<_> =
            (0..scenario.machine.cpus).map(|_| scope.spawn(|| run_cpu(&shared, end))).collect();
        for cpu in cpus {
            cpu.join().map_err(|_| anyhow::anyhow!("a CPU's thread failed"))??;
        }
        let counts = streams.into_iter().map(|stream| stream.join().unwrap_or(Ok(0)));
        counts.sum()
    })?;
    let mut shared = shared.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    for Reverse(Waiting { mut process, .. }) in shared.waiting.drain() {
        process.child.kill()?;
        process.child.wait()?;
    }
    let us = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
    Ok(Played {
        seed,
        done: shared.done,
        killed: shared.killed,
        kernel_pages,
        huge_faults: shared.faults.len(),
        huge_fault_mean_us: shared.faults.mean() / 1000.0,
        huge_fault_p50_us: us(shared.faults.value_at_quantile(0.5)),
        huge_fault_p99_us: us(shared.faults.value_at_quantile(0.99)),
        huge_fault_max_us: us(shared.faults.max()),
    })
}

/// Runs slices on one CPU until `end`.
fn run_cpu(shared: &Mutex<Shared<'_>>, end: Instant) -> Result<()> {
    let lock = || shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    while Instant::now() < end {
        let Some(Reverse(Waiting { from, mut process, .. })) = lock().waiting.pop() else {
            sleep(Duration::from_millis(1));
            continue;
        };
        sleep(from.saturating_duration_since(Instant::now()));
        let answer = process.slice();
        let slice = lock().scenario.processes[process.kind].slice;
        sleep(Duration::from_nanos(slice.0));
        lock().after_slice(process, answer)?;
    }
    Ok(())
}

impl Shared<'_> {
    /// Starts a process of a kind.
    fn start(&mut self, kind: usize) -> Result<Process> {
        let number = self.started.entry(kind).or_default();
        *number += 1;
        let seed = self.random.below(u64::MAX);
        let words = [kind.to_string(), number.to_string(), seed.to_string()];
        let child = Command::new(std::env::current_exe()?)
            .args(["process", self.file])
            .arg(self.folder)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("a process cannot be started")?;
        Ok(Process { kind, child })
    }

    /// Puts a process at the end of those that may run from `from` on.
    fn wait(&mut self, process: Process, from: Instant) {
        self.order += 1;
        self.waiting.push(Reverse(Waiting { from, order: self.order, process }));
    }

    /// Counts what a slice brought; a process that ended or was killed is followed by another.
    fn after_slice(&mut self, mut process: Process, answer: io::Result<Answer>) -> Result<()> {
        let config = &self.scenario.processes[process.kind];
        let pause = config.pause.sample(&mut self.random).max(0.0) as u64;
        match answer {
            Ok(Answer { last, faults }) => {
                for time in faults {
                    self.faults.saturating_record(time.into());
                }
                if !last {
                    self.wait(process, Instant::now() + Duration::from_nanos(pause));
                    return Ok(());
                }
                *self.done.entry(config.name.clone()).or_default() += 1;
            }
            Err(_) => self.killed += 1,
        }
        process.child.wait()?;
        let next = self.start(process.kind)?;
        self.wait(next, Instant::now());
        Ok(())
    }
}

/// What a process says after a slice.
struct Answer {
    /// Whether it ends now.
    last: bool,
    /// Times of the faults that may have brought a huge page, in nanoseconds.
    faults: Vec<u32>,
}

impl Process {
    /// Has the process do a slice.
    fn slice(&mut self) -> io::Result<Answer> {
        let (Some(input), Some(output)) = (&mut self.child.stdin, &mut self.child.stdout) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        input.write_all(&[0])?;
        let mut head = [0; 2];
        output.read_exact(&mut head)?;
        let mut times = vec![0; 4 * usize::from(head[1])];
        output.read_exact(&mut times)?;
        let faults = times.as_chunks().0.iter().map(|&time| u32::from_le_bytes(time)).collect();
        Ok(Answer { last: head[0] == process::LAST, faults })
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> Ordering {
        (self.from, self.order).cmp(&(other.from, other.order))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}
