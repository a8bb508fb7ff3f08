//! Kernel memory that comes and goes by itself: pages in pipes, each freed with its pipe.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::OwnedFd;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use prairie_model::random::Random;
use prairie_sim::machine::scenario::KernelKind;
use rustix::pipe::pipe;

/// How often arrivals and departures are processed, as in the simulator.
const TICK: Duration = Duration::from_millis(10);

/// Allocates and frees pages of one kind until `end`; returns how many there were.
///
/// # Errors
/// If there are no more pipes.
pub(crate) fn play(kind: &KernelKind, seed: u64, end: Instant) -> Result<u64> {
    let mut random = Random::new(seed);
    let (mut kept, mut pipes): (BinaryHeap<_>, Vec<Option<[OwnedFd; 2]>>) = Default::default();
    let mut free: Vec<usize> = Vec::new();
    let mut made = 0;
    while Instant::now() < end {
        let now = Instant::now();
        while kept.peek().is_some_and(|&Reverse((until, _))| until <= now) {
            let Some(Reverse((_, at))) = kept.pop() else { break };
            pipes[at] = None;
            free.push(at);
        }
        for _ in 0..random.poisson(kind.rate * TICK.as_secs_f64()) {
            let (reader, writer) = pipe()?;
            rustix::io::write(&writer, &[3; 4096])?;
            let at = free.pop().unwrap_or(pipes.len());
            pipes.resize_with(pipes.len().max(at + 1), || None);
            pipes[at] = Some([reader, writer]);
            let life = kind.lifetime.sample(&mut random).max(0.0) as u64;
            kept.push(Reverse((now + Duration::from_nanos(life), at)));
            made += 1;
        }
        sleep(TICK.saturating_sub(now.elapsed()));
    }
    Ok(made)
}
