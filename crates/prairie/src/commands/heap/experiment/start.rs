//! Processes that the experiment starts, on one page heap after another.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use prairie_heap::experiment::{Observation, Subject};
use prairie_heap::inspect;
use wait4::{ResUse, Wait4};

use super::super::run::{PageHeap, library, preloads};
use super::process::resident_bytes;
use super::{ARMS, Args, Observed};
use crate::progress;

/// How late the end of a program is noticed at most, which counts for nothing but the interval.
const NAP: Duration = Duration::from_millis(5);

/// Starts the program as often as asked, alternating between the page heaps. An interruption ends
/// the experiment after the current run.
pub fn observe(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<Vec<Observed>> {
    let library = library(args.library.as_deref())?;
    let began = Instant::now();
    let mut observed = Vec::new();
    let runs = u64::from(args.rounds) * ARMS.len() as u64;
    let progress = progress::bar(Some(runs), "runs");
    for _ in 0..args.rounds {
        for arm in ARMS {
            if interrupted.load(Relaxed) {
                return Ok(observed);
            }
            observed.push(run(args, arm, &library, began)?);
            progress.inc(1);
        }
    }
    Ok(observed)
}

fn run(args: &Args, arm: PageHeap, library: &Path, began: Instant) -> anyhow::Result<Observed> {
    let name = args.program[0].to_string_lossy().into_owned();
    let started = Instant::now();
    let child = Command::new(&args.program[0])
        .args(&args.program[1..])
        .env("LD_PRELOAD", preloads(library))
        .env("PRAIRIE_PAGE_HEAP", arm.name())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| name.clone())?;
    let pid = child.id();
    let (mut at, mut observations) = (Vec::new(), Vec::new());
    let ResUse { status, rusage } = until_it_ends(child, args.every, || {
        if let Ok(reading) = inspect::read(pid) {
            at.push(began.elapsed().as_secs_f64());
            observations.push(Observation::new(&reading.statistics, resident_bytes(pid)));
        }
    })?;
    if !status.success() {
        bail!("{name}: {status}: expected a program that succeeds");
    }
    let program = Path::new(&args.program[0]).file_name();
    let subject = Subject {
        program: program.unwrap_or(&args.program[0]).to_string_lossy().into_owned(),
        arm: arm.name().to_owned(),
        observations,
        seconds: started.elapsed().as_secs_f64(),
        cpu_seconds: (rusage.utime + rusage.stime).as_secs_f64(),
        peak_resident_bytes: Some(rusage.maxrss),
    };
    Ok(Observed { pid, at, subject })
}

/// Calls `look` at the interval until the process ends. What the kernel says of it then.
fn until_it_ends(
    mut child: Child,
    every: Duration,
    mut look: impl FnMut() + Send,
) -> anyhow::Result<ResUse> {
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = Instant::now() + every;
            while !ended.load(Relaxed) {
                if Instant::now() >= next {
                    look();
                    next += every;
                }
                thread::sleep(every.min(NAP));
            }
        });
        let usage = child.wait4();
        ended.store(true, Relaxed);
        usage
    })
    .context("wait for the program")
}
