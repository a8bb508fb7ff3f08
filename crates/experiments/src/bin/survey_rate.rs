//! The speed of surveying this host's frames, compared with a plain read loop over the same file.
//!
//! Rounds are interleaved, so that a busy machine slows all alike; the table shows medians and
//! the ratio of medians. Run as root through `bench/survey.sh`.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use experiments::measure::median;
use prairie_frames::Order;
use prairie_host::layout::Layout;
use prairie_host::{FrameOptions, FrameTally, Roots, Survey};

const PATH: &str = "/proc/kpageflags";

/// Reads the file a MiB at a time, without processing.
fn bare_loop() -> io::Result<u64> {
    let mut file = File::open(PATH)?;
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(bytes / 8),
            n => bytes += n as u64,
        }
    }
}

/// Reads the file into runs and counts these, without any text or process.
fn encode(threads: usize) -> Result<u64, prairie_host::Error> {
    let options = prairie_host::kpageflags::Options {
        threads,
        clock: &prairie_host::monotonic_ns,
        interrupted: &AtomicBool::new(false),
        progress: &mut |_| {},
    };
    let all = std::slice::from_ref(&(0..u64::MAX));
    prairie_host::kpageflags::read(PATH.as_ref(), all, options, &mut |_| {})
}

/// The whole of `prairie survey`: texts, processes, frames, classes, measures.
fn survey(threads: usize) -> Result<u64, prairie_host::Error> {
    let roots = Roots::live();
    let mut capture = prairie_host::capture_texts(&roots, 20)?;
    let mut tally = FrameTally::new(Layout::of(&capture)?, Order::HUGE);
    let mut frames = 0;
    let mut counted = Ok(());
    let options = FrameOptions {
        threads,
        interrupted: &AtomicBool::new(false),
        progress: &mut |done, _| frames = done,
    };
    prairie_host::read_frames(&roots, &mut capture, options, &mut |runs| {
        if counted.is_ok() {
            counted = runs.iter().try_for_each(|run| tally.push(*run));
        }
    })?;
    counted?;
    let survey = Survey::with_counts(&capture, Some(&tally.finish()))?;
    assert!(survey.frames.is_some(), "a survey without frames measures nothing");
    Ok(frames)
}

/// One way of reading, and the rates it reached.
struct Contestant<'a> {
    name: String,
    read: Box<dyn Fn() -> Result<u64, Box<dyn std::error::Error>> + 'a>,
    frames_per_second: Vec<f64>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds = std::env::args().nth(1).map_or(Ok(11), |rounds| rounds.parse::<usize>())?.max(1);
    let cores = std::thread::available_parallelism()?.get();
    let mut contestants = vec![Contestant {
        name: "bare loop, 1 MiB reads".to_owned(),
        read: Box::new(|| Ok(bare_loop()?)),
        frames_per_second: Vec::new(),
    }];
    let mut thread_counts: Vec<usize> = std::iter::successors(Some(1), |n| Some(n * 2))
        .take_while(|threads| *threads < cores)
        .chain([cores])
        .collect();
    thread_counts.dedup();
    for &threads in &thread_counts {
        contestants.push(Contestant {
            name: format!("runs, threads: {threads}"),
            read: Box::new(move || Ok(encode(threads)?)),
            frames_per_second: Vec::new(),
        });
        contestants.push(Contestant {
            name: format!("whole survey, threads: {threads}"),
            read: Box::new(move || Ok(survey(threads)?)),
            frames_per_second: Vec::new(),
        });
    }
    let mut frames = 0;
    for _ in 0..rounds {
        for contestant in &mut contestants {
            let start = Instant::now();
            frames = (contestant.read)()?;
            let seconds = start.elapsed().as_secs_f64();
            contestant.frames_per_second.push(frames as f64 / seconds);
        }
    }
    println!("{frames} frames, {rounds} interleaved rounds, {cores} cores; medians");
    println!("{:<28} {:>16} {:>18}", "", "frames a second", "times the loop");
    let loop_rate = median(contestants[0].frames_per_second.iter().copied());
    for contestant in &contestants {
        let rate = median(contestant.frames_per_second.iter().copied());
        let time_ratio = loop_rate / rate;
        println!("{:<28} {:>14.2} M {:>18.2}", contestant.name, rate / 1e6, time_ratio);
    }
    Ok(())
}
