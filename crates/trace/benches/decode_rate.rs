//! Measures a trace file: bytes an event by column, and how fast a replay gets its events.
//!
//! `cargo bench -p prairie-trace --bench decode_rate -- FILE` measures a recording;
//! without a file it measures ten million generated events.

use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::time::{ClockId, clock_gettime};

use prairie_trace::generate::Workload;
use prairie_trace::{Columns, EventKind, EventSource, Metadata, Reader, Texts, Writer};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    // `cargo bench` adds the option.
    let path = match std::env::args_os().skip(1).find(|word| word != "--bench") {
        Some(path) => PathBuf::from(path),
        None => generated(&directory.path().join("generated.parquet"))?,
    };
    let reader = Reader::open(&path)?;
    let events = reader.metadata().events.max(1) as f64;
    println!("{} events, {} bytes", reader.metadata().events, reader.file_bytes());
    for (name, bytes) in reader.column_bytes() {
        println!("  {name:<18}{:8.3} bytes an event", bytes as f64 / events);
    }
    println!("  {:<18}{:8.3} bytes an event", "file", reader.file_bytes() as f64 / events);
    for (name, columns) in [("replay's columns", Columns::REPLAY), ("all columns", Columns::ALL)] {
        let seconds = (0..5).map(|_| decode(&reader, columns)).collect::<Result<Vec<_>, _>>()?;
        let seconds = seconds.into_iter().fold(f64::INFINITY, f64::min);
        println!("{name}: {:.2} ns of CPU time an event (least of 5)", seconds * 1e9 / events);
    }
    Ok(())
}

fn generated(path: &Path) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let mut writer = Writer::create(path)?;
    let texts = Texts::default();
    let begin = Instant::now();
    for event in Workload::typical(1 << 22, 1).events().take(10_000_000) {
        writer.event(&event, &texts)?;
    }
    writer.finish(Metadata { page_bytes: 4096, ..Metadata::default() })?;
    println!("written at {:.0} ns an event", begin.elapsed().as_nanos() as f64 / 1e7);
    Ok(path.into())
}

/// Seconds of CPU time to decode every event; their frames are summed so that none is optimized away.
fn decode(reader: &Reader, columns: Columns) -> prairie_trace::Result<f64> {
    let begin = cpu_seconds();
    let mut events = reader.events(columns);
    let mut sum = 0u64;
    while let Some(batch) = events.next_batch()? {
        for event in batch {
            if let EventKind::Alloc { pfn, .. } | EventKind::Free { pfn, .. } = event.what {
                sum = sum.wrapping_add(pfn.0 ^ event.time_ns);
            }
        }
    }
    std::hint::black_box(sum);
    Ok(cpu_seconds() - begin)
}

/// This thread's CPU time, which other work on the machine disturbs least.
fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
