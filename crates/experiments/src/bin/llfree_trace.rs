//! Writes generated events twice: as a recording, and in the format that LLFree's `replay` reads,
//! so that both programs can be timed on the same events.
//!
//! ```text
//! cargo run --release -p experiments --bin llfree_trace -- FRAMES EVENTS OUT.parquet OUT.bin
//! ```
//!
//! The format is described in `crates/trace/src/import/llfree.rs`. All events are written as one CPU's, so that
//! their order is kept: LLFree sorts by times of 32-bit floats. It ends a page at frame 0, so the
//! block there is left out of both files.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use prairie_trace::generate::Workload;
use prairie_trace::{Event, EventKind, Metadata, Texts, Writer};

const PAGE: usize = 4096;
const FIRST_ENTRY: usize = 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [frames, events, recording, llfree] = words.as_slice() else {
        return Err("usage: llfree_trace FRAMES EVENTS OUT.parquet OUT.bin".into());
    };
    let (frames, events): (u64, usize) = (frames.parse()?, events.parse()?);
    if frames > 1 << 24 {
        return Err("LLFree's format has frame numbers of 24 bits".into());
    }
    let mut ours = Writer::create(&PathBuf::from(recording))?;
    let mut theirs = Pages { file: BufWriter::new(File::create(llfree)?), page: Vec::new() };
    let header = [events.div_ceil(255) as u32, 1, frames as u32 - 1];
    theirs.page.extend(header.map(u32::to_le_bytes).concat());
    theirs.end_page()?;
    let workload = Workload { cpus: 1, ..Workload::typical(frames, 1) };
    let texts = Texts::default();
    for event in workload.events().filter(|event| entry(event).is_some()).take(events) {
        ours.event(&event, &texts)?;
        entry(&event).map_or(Ok(()), |entry| theirs.push(entry))?;
    }
    theirs.end_page()?;
    theirs.file.flush()?;
    let metadata = Metadata { page_bytes: 4096, frames_named: frames, ..Metadata::default() };
    ours.finish(metadata)?;
    Ok(())
}

/// An event as LLFree writes it; `None` for frame 0.
fn entry(event: &Event) -> Option<u128> {
    let (pfn, order, gfp, alloc) = match event.what {
        EventKind::Alloc { pfn, order, gfp, .. } => (pfn, order, gfp.0, true),
        EventKind::Free { pfn, order } => (pfn, order, 0, false),
        _ => return None,
    };
    let time = u128::from(event.time_ns / 1000) & ((1 << 38) - 1);
    let (order, gfp) = (u128::from(order.get()), u128::from(gfp) & ((1 << 29) - 1));
    let process = u128::from(event.pid as u32) << 96;
    let entry = process | gfp << 67 | order << 63 | u128::from(alloc) << 62;
    (pfn.0 != 0).then_some(entry | u128::from(pfn.0) << 38 | time)
}

/// Pages of CPU 0.
struct Pages {
    file: BufWriter<File>,
    page: Vec<u8>,
}

impl Pages {
    fn push(&mut self, entry: u128) -> io::Result<()> {
        self.page.resize(self.page.len().max(FIRST_ENTRY), 0);
        self.page.extend(entry.to_le_bytes());
        if self.page.len() == PAGE { self.end_page() } else { Ok(()) }
    }

    fn end_page(&mut self) -> io::Result<()> {
        if self.page.is_empty() {
            return Ok(());
        }
        self.page.resize(PAGE, 0);
        self.file.write_all(&self.page)?;
        self.page.clear();
        Ok(())
    }
}
