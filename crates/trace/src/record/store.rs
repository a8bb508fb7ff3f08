//! The thread that writes: first the snapshot, then the history as it comes.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use host::{Capture, Kallsyms, Roots};

use super::collect::{Batch, Step, Tells};
use super::stacks;
use crate::{Error, Event, Result, Text, Texts, What, Writer};

/// What the recording thread and the writing thread know of each other.
#[derive(Default)]
pub struct Shared {
    /// The snapshot is taken: the recording proper begins.
    pub snapshot_taken: AtomicBool,
    /// Steps that were handed over and are not written yet.
    pub waiting: AtomicU64,
    /// Set by the recording thread to break off the snapshot.
    pub interrupted: AtomicBool,
}

/// Writes a recording.
pub struct Store {
    writer: Writer,
    texts: Texts,
    names: HashMap<i32, Text>,
    symbols: Kallsyms,
}

impl Store {
    /// Begins a recording at `path`.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn create(path: &Path, symbols: Kallsyms) -> Result<Store> {
        let writer = Writer::create(path)?;
        Ok(Store { writer, texts: Texts::default(), names: HashMap::new(), symbols })
    }

    /// Takes the snapshot, then writes batches until their sender is gone. Returns the open
    /// writer and the description of the machine that goes with the snapshot. `started_ns` is
    /// when the events were switched on: from then on the processes that run have their names.
    ///
    /// # Errors
    /// [`Error::Write`], and those of reading the host.
    pub fn run(
        mut self,
        roots: &Roots,
        threads: usize,
        started_ns: u64,
        batches: &Receiver<Batch>,
        shared: &Shared,
    ) -> Result<(Writer, Capture)> {
        let capture = self.snapshot(roots, threads, shared)?;
        let names = running(roots);
        shared.snapshot_taken.store(true, Ordering::Release);
        for (pid, name) in names {
            self.name(started_ns, 0, pid, &name)?;
        }
        for batch in batches {
            self.write(&batch)?;
            shared.waiting.fetch_sub(batch.steps.len() as u64, Ordering::Relaxed);
        }
        Ok((self.writer, capture))
    }

    fn snapshot(&mut self, roots: &Roots, threads: usize, shared: &Shared) -> Result<Capture> {
        let mut failure = None;
        let options = host::Options {
            frames: true,
            threads,
            largest_processes: 0,
            interrupted: &shared.interrupted,
            progress: &mut |_, _| {},
        };
        let captured = host::capture_to(roots, options, &mut |runs| {
            let written = runs.iter().try_for_each(|run| self.writer.frames(run));
            if let Err(error) = written {
                failure.get_or_insert(error);
                shared.interrupted.store(true, Ordering::Relaxed);
            }
        });
        match (failure, captured) {
            (Some(error), _) => Err(error),
            (None, Ok(capture)) => Ok(capture),
            (None, Err(error)) => Err(Error::Record {
                what: "the snapshot of the machine's frames".into(),
                why: error.to_string(),
                remedy: "recording was given up".into(),
            }),
        }
    }

    fn write(&mut self, batch: &Batch) -> Result<()> {
        if let Some(first) = batch.steps.first() {
            for (id, chain) in &batch.chains {
                let folded = self.texts.intern(&stacks::fold(&self.symbols, chain));
                let what = What::Stack { id: *id, folded };
                let event = Event { time_ns: first.time_ns, pid: -1, cpu: first.cpu, what };
                self.writer.event(&event, &self.texts)?;
            }
        }
        batch.steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        match step.tells {
            Tells::What(what) => self.writer.event(&step.event(what), &self.texts),
            Tells::Named { pid, name } => {
                let length = name.iter().position(|&b| b == 0).unwrap_or(name.len());
                let name = String::from_utf8_lossy(&name[..length]);
                self.name(step.time_ns, step.cpu, pid, &name)
            }
            Tells::Forked { pid, parent } => {
                let name = self.names.get(&parent).copied().unwrap_or(Text::EMPTY);
                let name = self.texts.get(name).to_owned();
                self.name(step.time_ns, step.cpu, pid, &name)
            }
        }
    }

    fn name(&mut self, time_ns: u64, cpu: u16, pid: i32, name: &str) -> Result<()> {
        let name = self.texts.intern(name);
        if self.names.insert(pid, name) == Some(name) {
            return Ok(());
        }
        let event = Event { time_ns, pid, cpu, what: What::Process { name } };
        self.writer.event(&event, &self.texts)
    }
}

/// The processes that run now, with their names; the idle task, which has no directory, is known
/// as `swapper`.
fn running(roots: &Roots) -> BTreeMap<i32, String> {
    let mut names = BTreeMap::from([(0, "swapper".to_owned())]);
    for entry in fs::read_dir(&roots.proc).into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Ok(comm) = fs::read(entry.path().join("comm")) {
            names.insert(pid, String::from_utf8_lossy(&comm).trim_end_matches('\n').to_owned());
        }
    }
    names
}
