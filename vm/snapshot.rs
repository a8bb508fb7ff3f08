//! Copies what the kernel says of its memory, between two markers in the trace, and disturbs the
//! memory as little as it can: everything is open, allocated and touched beforehand, and each file
//! is read once before it counts, so that the kernel has what it needs to show it.
//!
//! Usage: snapshot FOLDER NAME [SECONDS]: waits, then writes FOLDER/NAME.buddyinfo and so on.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::time::Duration;

const TEXTS: [&str; 4] = ["buddyinfo", "pagetypeinfo", "zoneinfo", "vmstat"];
const FLAGS: &str = "kpageflags";
const TEXT_BYTES: usize = 64 << 10;

struct Source {
    name: &'static str,
    file: File,
    buffer: Vec<u8>,
    length: usize,
}

impl Source {
    fn open(name: &'static str, bytes: usize) -> std::io::Result<Source> {
        let file = File::open(format!("/proc/{name}"))?;
        Ok(Source { name, file, buffer: vec![1; bytes], length: 0 })
    }

    fn read(&mut self) -> std::io::Result<()> {
        self.file.rewind()?;
        self.length = 0;
        loop {
            match self.file.read(&mut self.buffer[self.length..])? {
                0 => return Ok(()),
                read => self.length += read,
            }
        }
    }
}

/// One more than the last frame, from the ends of the zones.
fn frames() -> std::io::Result<usize> {
    let (mut end, mut spanned) = (0, 0);
    for line in fs::read_to_string("/proc/zoneinfo")?.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next().map(|word| word.trim_end_matches(':'))) {
            (Some("spanned"), Some(number)) => spanned = number.parse().unwrap_or(0),
            (Some("start_pfn:"), Some(number)) if spanned > 0 => {
                end = end.max(number.parse::<usize>().unwrap_or(0) + spanned);
            }
            _ => {}
        }
    }
    Ok(end)
}

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, name, rest @ ..] = &arguments[..] else {
        eprintln!("usage: snapshot FOLDER NAME [SECONDS]");
        std::process::exit(2);
    };
    let wait = rest.first().and_then(|seconds| seconds.parse().ok()).unwrap_or(0.0);
    let mut marker = OpenOptions::new().write(true).open("/sys/kernel/tracing/trace_marker")?;
    let mut sources = vec![Source::open(FLAGS, frames()? * 8 + 8)?];
    for text in TEXTS {
        sources.push(Source::open(text, TEXT_BYTES)?);
    }
    let (begin, end) = (format!("snapshot {name} begin\n"), format!("snapshot {name} end\n"));
    for source in &mut sources {
        source.read()?;
    }
    std::thread::sleep(Duration::from_secs_f64(wait));
    marker.write_all(begin.as_bytes())?;
    for source in &mut sources {
        source.read()?;
    }
    marker.write_all(end.as_bytes())?;
    for source in &sources {
        fs::write(format!("{folder}/{name}.{}", source.name), &source.buffer[..source.length])?;
    }
    Ok(())
}
