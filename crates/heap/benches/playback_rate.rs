//! How many page-heap calls a second each page heap plays back, on one core.
//!
//! Usage: playback_rate [TRACE.parquet] [ROUNDS]. Without a trace, the driver's spans after Figure 5
//! around a heap of 64 GiB. The calls are in memory before the clock starts; with a trace, its
//! decoding is timed as well. Times are CPU times.

use std::time::Duration;

use prairie_heap::driver::{Driver, Load, Settings, Sizes};
use prairie_heap::playback::{Options, Playback, Release, System};
use prairie_trace::page_heap::{Event, Reader};
use rustix::time::{ClockId, clock_gettime};

/// Calls of the driver that are timed.
const EVENTS: usize = 20_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // `cargo bench` adds the option.
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let trace = arguments.next().filter(|path| !path.is_empty());
    let rounds: u32 = arguments.next().map_or(Ok(3), |rounds| rounds.parse())?;
    let events = match &trace {
        Some(_) => Vec::new(),
        None => driven(),
    };
    for round in 1..=rounds {
        for system in System::ALL {
            let options = Options { systems: vec![system], release: Release::Recorded };
            let mut playback = Playback::new(&options);
            let start = cpu_time();
            match &trace {
                Some(path) => {
                    let reader = Reader::open(path.as_ref())?;
                    let mut stream = reader.events();
                    while let Some(batch) = stream.next_batch()? {
                        playback.play(batch);
                    }
                }
                None => events.chunks(1 << 13).for_each(|batch| playback.play(batch)),
            }
            let taken = cpu_time() - start;
            let results = playback.finish()?;
            println!(
                "round {round}  {:20} {:6.2} million calls a second, {} calls",
                system.name(),
                results.events as f64 / taken.as_secs_f64() / 1e6,
                results.events
            );
        }
    }
    Ok(())
}

/// Calls of a heap that is full from the start, without those that fill it: 64 GiB of spans are
/// created first.
fn driven() -> Vec<Event> {
    let driver = Driver::new(Settings {
        sizes: Sizes::named("figure-5").expect("it is shipped"),
        heap_bytes: (64u64 << 30) as f64,
        load: Load::named("steady", 1e6).expect("it has a name"),
        turnover: 0.1,
        seconds: 1e6,
        seed: 1,
    });
    driver.take(EVENTS).collect()
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
