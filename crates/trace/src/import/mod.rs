//! Other tools' traces as [`EventSource`]s, to be replayed or converted to a file.
//!
//! None of them says what the frames were when it began: there is no snapshot. A replay takes the
//! machine's size from its user or from the largest frame number that the events name
//! ([`Metadata::frames_named`](crate::Metadata::frames_named) of a converted file).

pub mod gfp_names;
pub mod line;
mod llfree;
mod text;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

pub use llfree::LlfreeTrace;
pub use text::TextTrace;

use crate::{Error, Event, EventSource, Metadata, Origin, Result, Summary, Texts, Writer};

/// A kind of trace that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// The binary traces that LLFree's `replay` reads.
    Llfree,
    /// Text: `trace-cmd report`, `perf script`, or ftrace's own `trace` file. They are so alike
    /// that one parser reads all three.
    Text,
}

impl Format {
    /// The format's name.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Llfree => "LLFree replay",
            Format::Text => "text of trace-cmd report, perf script or ftrace",
        }
    }
}

/// A trace of another tool, open for reading.
pub struct Imported {
    format: Format,
    source: Box<dyn EventSource>,
}

impl Imported {
    /// Opens a trace; its first bytes identify the format.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::Empty`], [`Error::Import`].
    pub fn open(path: &Path) -> Result<Imported> {
        let file = File::open(path).map_err(Error::read(path))?;
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let head = reader.fill_buf().map_err(Error::read(path))?;
        if head.is_empty() {
            return Err(Error::Empty { path: path.into() });
        }
        // Texts hold no zero byte; the header of a binary trace is mostly zeros.
        let format = if head.contains(&0) { Format::Llfree } else { Format::Text };
        let source: Box<dyn EventSource> = match format {
            Format::Llfree => Box::new(LlfreeTrace::open(path)?),
            Format::Text => Box::new(TextTrace::new(path, reader)),
        };
        Ok(Imported { format, source })
    }

    /// Its format.
    pub fn format(&self) -> Format {
        self.format
    }
}

impl EventSource for Imported {
    fn next_batch(&mut self) -> Result<Option<&[Event]>> {
        self.source.next_batch()
    }

    fn texts(&self) -> &Texts {
        self.source.texts()
    }
}

/// Converts another tool's trace into a file of Prairie's own, in constant memory.
///
/// # Errors
/// Those of [`Imported::open`] and [`Writer`]; no file is left then.
pub fn convert(from: &Path, to: &Path) -> Result<Summary> {
    let converted = convert_while(from, to, &mut |_| true)?;
    Ok(converted.expect("nothing asked it to stop"))
}

/// The same, as long as `go_on` returns true. It is called with the number of events read. `None`,
/// and no file, if it returns false.
///
/// # Errors
/// Those of [`convert`].
pub fn convert_while(
    from: &Path,
    to: &Path,
    go_on: &mut dyn FnMut(u64) -> bool,
) -> Result<Option<Summary>> {
    let mut imported = Imported::open(from)?;
    let mut writer = Writer::create(to)?;
    let mut batch = Vec::new();
    let mut lost_by_cpu = std::collections::BTreeMap::new();
    let mut read = 0;
    while let Some(events) = imported.next_batch()? {
        batch.clear();
        batch.extend_from_slice(events);
        for event in &batch {
            if let crate::EventKind::Lost { count } = event.what {
                *lost_by_cpu.entry(event.cpu).or_default() += count;
            }
            writer.event(event, imported.texts())?;
        }
        read += batch.len() as u64;
        if !go_on(read) {
            return Ok(None);
        }
    }
    let metadata = Metadata {
        origin: Origin::Imported { format: imported.format.name().into() },
        page_bytes: 4096,
        lost_by_cpu,
        ..Metadata::default()
    };
    writer.finish(metadata).map(Some)
}
