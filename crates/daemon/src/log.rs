//! The daemon's log: every decision with the numbers behind it, as text or as JSON.

use std::io::{self, Write};
use std::sync::Mutex;

use serde::Serialize;

/// How lines are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How much is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// What happens to the daemon, and warnings.
    Quiet,
    /// And each request, and each change of a container's guard.
    #[default]
    Changes,
    /// And every decision of every period.
    All,
}

/// Something to say.
pub trait Line: Serialize {
    /// As text.
    fn text(&self, out: &mut dyn Write) -> io::Result<()>;
}

/// Where it is said.
pub struct Log {
    format: Format,
    verbosity: Verbosity,
    out: Mutex<Out>,
}

struct Out {
    to: Box<dyn Write + Send>,
    line: Vec<u8>,
}

impl Log {
    /// A log that writes whole lines to `to`.
    pub fn new(format: Format, verbosity: Verbosity, to: Box<dyn Write + Send>) -> Log {
        Log { format, verbosity, out: Mutex::new(Out { to, line: Vec::with_capacity(1024) }) }
    }

    /// Its format.
    pub const fn format(&self) -> Format {
        self.format
    }

    /// Whether lines of that kind are wanted.
    pub fn wants(&self, verbosity: Verbosity) -> bool {
        verbosity <= self.verbosity
    }

    /// Writes the line. Write errors are ignored.
    pub fn say(&self, verbosity: Verbosity, line: &impl Line) {
        if !self.wants(verbosity) {
            return;
        }
        let mut out = self.out.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Out { to, line: bytes } = &mut *out;
        bytes.clear();
        let written = match self.format {
            Format::Text => line.text(bytes),
            Format::Json => serde_json::to_writer(&mut *bytes, line).map_err(io::Error::from),
        };
        if written.is_ok() {
            bytes.push(b'\n');
            let _ = to.write_all(bytes).and_then(|()| to.flush());
        }
    }

    /// Says something about the daemon itself.
    pub fn note(&self, event: &'static str, message: std::fmt::Arguments<'_>) {
        self.say(Verbosity::Quiet, &Note { event, message: message.to_string() });
    }
}

/// A line about the daemon itself, or a warning.
#[derive(Serialize)]
struct Note {
    event: &'static str,
    message: String,
}

impl Line for Note {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{}: {}", self.event, self.message)
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log({:?}, {:?})", self.format, self.verbosity)
    }
}
