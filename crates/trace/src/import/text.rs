//! A tracing tool's text as a stream of events.

use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use prairie_frames::MigrateType;

use super::line::{self, Line, LineContent, Parsed};
use crate::record::decode::kernel_types;
use crate::{Error, Event, EventKind, EventSource, Result, Text, Texts};

/// No line of these tools is longer; a longer one is not their output.
const LONGEST_LINE: u64 = 1 << 16;

/// Events in a batch.
const BATCH: usize = 4096;

/// Reads the text of `trace-cmd report`, of `perf script`, or an ftrace `trace` file.
///
/// Events stay in the order of the lines, whatever their times: while a kernel boots its clock
/// stands still. A process's name becomes an event when it is first seen and when it changes.
pub struct TextTrace<R> {
    path: PathBuf,
    reader: R,
    types: Vec<MigrateType>,
    line: Vec<u8>,
    line_number: u64,
    names: HashMap<i32, Text>,
    texts: Texts,
    batch: Vec<Event>,
    last_ns: u64,
    found: bool,
    ended: bool,
}

impl<R: BufRead> TextTrace<R> {
    /// Reads from `reader`; `path` names it in errors. A text does not say whether its kernel has CMA,
    /// which would be type 4 and would make isolated pageblocks type 5: both numbers are read as
    /// isolated, see [`TextTrace::with_types`].
    pub fn new(path: &Path, reader: R) -> TextTrace<R> {
        let mut types = kernel_types(None);
        types.push(MigrateType::Isolate);
        TextTrace {
            path: path.into(),
            reader,
            types,
            line: Vec::new(),
            line_number: 0,
            names: HashMap::new(),
            texts: Texts::default(),
            batch: Vec::with_capacity(BATCH),
            last_ns: 0,
            found: false,
            ended: false,
        }
    }

    /// The same for a kernel that numbers its migrate types in another order.
    pub fn with_types(self, types: Vec<MigrateType>) -> TextTrace<R> {
        TextTrace { types, ..self }
    }

    fn bad(&self, what: impl Into<String>) -> Error {
        let place = format!("line {}", self.line_number);
        Error::Import { path: self.path.clone(), place, what: what.into() }
    }

    /// Reads the next line into `self.line`; false at the end.
    fn read_line(&mut self) -> Result<bool> {
        self.line.clear();
        let read = self.reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.line);
        let read = read.map_err(Error::read(&self.path))?;
        self.line_number += 1;
        if read as u64 == LONGEST_LINE {
            return Err(self.bad("longer than any line of a trace"));
        }
        Ok(read > 0)
    }

    /// Adds what the current line content.
    fn take_line(&mut self) -> Result<()> {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let parsed = line::parse(text.trim_end_matches(['\n', '\r']), &self.types);
        let taken = match parsed {
            Parsed::Other => Ok(()),
            Parsed::Bad(why) => Err(self.bad(why)),
            Parsed::Lost { cpu, count } => {
                let what = EventKind::Lost { count };
                self.batch.push(Event { time_ns: self.last_ns, pid: -1, cpu, what });
                Ok(())
            }
            Parsed::Line(line) => {
                self.take(&line);
                Ok(())
            }
        };
        self.line = bytes;
        taken
    }

    fn take(&mut self, line: &Line<'_>) {
        self.found = true;
        self.last_ns = line.time_ns;
        let event = |what| Event { time_ns: line.time_ns, pid: line.pid, cpu: line.cpu, what };
        let name = self.texts.intern(line.name);
        if self.names.insert(line.pid, name) != Some(name) {
            self.batch.push(event(EventKind::Process { name }));
        }
        self.batch.push(event(match line.content {
            LineContent::EventKind(what) => what,
            LineContent::Marker(text) => EventKind::Marker { text: self.texts.intern(text) },
        }));
    }

    fn fill(&mut self) -> Result<()> {
        while self.batch.len() < BATCH - 1 && self.read_line()? {
            self.take_line()?;
        }
        if self.batch.is_empty() && !self.found {
            return Err(Error::Import {
                path: self.path.clone(),
                place: format!("all of its {} lines", self.line_number - 1),
                what: "no event of the page allocator; expected the text of `trace-cmd report` \
                       or `perf script` with events like mm_page_alloc"
                    .into(),
            });
        }
        Ok(())
    }
}

impl<R: BufRead> EventSource for TextTrace<R> {
    fn next_batch(&mut self) -> Result<Option<&[Event]>> {
        self.batch.clear();
        if !self.ended
            && let Err(error) = self.fill()
        {
            self.ended = true;
            return Err(error);
        }
        Ok((!self.batch.is_empty()).then_some(&self.batch))
    }

    fn texts(&self) -> &Texts {
        &self.texts
    }
}
