//! The cost of reading a file that the kernel generates: CPU time of this thread, and bytes. The
//! daemon's own cost is made of such reads.
//!
//! `read_cost [ROUNDS [FILE...]]` prints the median cost of ROUNDS batches of ten reads of each file,
//! held open [default: 100, /proc/meminfo].

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;

use rustix::time::{ClockId, clock_gettime};

fn cpu_ns() -> i64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The median of `rounds` batches of ten reads, in nanoseconds a read, and what one read gives.
fn cost(path: &str, rounds: usize) -> std::io::Result<(i64, usize)> {
    let file = File::open(path)?;
    let mut buffer = vec![0; 16 << 10];
    let mut bytes = file.read_at(&mut buffer, 0)?;
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let started = cpu_ns();
        for _ in 0..10 {
            bytes = file.read_at(&mut buffer, 0)?;
        }
        times.push((cpu_ns() - started) / 10);
    }
    times.sort_unstable();
    Ok((times[rounds / 2], bytes))
}

fn main() -> ExitCode {
    // `cargo bench` adds the option.
    let mut arguments = std::env::args().skip(1).filter(|word| word != "--bench");
    let rounds = arguments.next().map_or(Some(100), |rounds| rounds.parse().ok());
    let Some(rounds) = rounds.filter(|rounds| *rounds > 0) else {
        eprintln!("usage: read_cost [ROUNDS [FILE...]]");
        return ExitCode::from(2);
    };
    let mut files: Vec<String> = arguments.collect();
    if files.is_empty() {
        files.push("/proc/meminfo".to_owned());
    }
    let mut ended = ExitCode::SUCCESS;
    for path in files {
        match cost(&path, rounds) {
            Ok((ns, bytes)) => println!("{path}: {ns} ns, {bytes} bytes"),
            Err(error) => {
                eprintln!("{path}: {error}");
                ended = ExitCode::FAILURE;
            }
        }
    }
    ended
}
