//! The thread that writes: first the snapshot, then the history as it comes.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use prairie_frames::Order;
use prairie_host::{Capture, Kallsyms, Roots};

use super::cgroups::Cgroups;
use super::collect::{Batch, Step, StepKind};
use super::names::{Names, running};
use super::pins::{PinCall, PinChange, PinCounts, Pins};
use super::stacks;
use crate::{Error, Event, EventKind, Result, Text, Texts, Writer};

/// State shared by the recording thread and the writing thread.
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
    names: Names,
    symbols: Kallsyms,
    cgroups: Cgroups,
    pins: Pins,
    /// Notes whose step is still held back.
    notes: HashMap<u32, String>,
}

impl Store {
    /// Begins a recording at `path` that calls processes by `names`.
    ///
    /// # Errors
    /// [`Error::Write`].
    pub fn create(path: &Path, symbols: Kallsyms, names: Names) -> Result<Store> {
        let writer = Writer::create(path)?;
        let (cgroups, pins, notes) = (Cgroups::default(), Pins::default(), HashMap::new());
        Ok(Store { writer, names, symbols, cgroups, pins, notes })
    }

    /// Takes the snapshot, then writes batches until their sender is gone. Returns the open
    /// writer, the description of the machine that goes with the snapshot, and what was pinned. `started_ns` is
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
    ) -> Result<(Writer, Capture, PinCounts)> {
        let capture = self.snapshot(roots, threads, shared)?;
        let processes = running(roots);
        shared.snapshot_taken.store(true, Ordering::Release);
        for process in processes {
            let name = self.names.running(&process);
            self.process(started_ns, 0, process.pid, name)?;
        }
        for batch in batches {
            let steps = batch.steps.len() as u64;
            self.write(roots, batch)?;
            shared.waiting.fetch_sub(steps, Ordering::Relaxed);
        }
        Ok((self.writer, capture, self.pins.counts()))
    }

    fn snapshot(&mut self, roots: &Roots, threads: usize, shared: &Shared) -> Result<Capture> {
        let mut failure = None;
        let options = prairie_host::Options {
            frames: true,
            threads,
            largest_processes: 0,
            interrupted: &shared.interrupted,
            progress: &mut |_, _| {},
        };
        let captured = prairie_host::capture_to(roots, options, &mut |runs| {
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

    fn write(&mut self, roots: &Roots, batch: Batch) -> Result<()> {
        self.notes.extend(batch.notes);
        if let Some(first) = batch.steps.first() {
            for (id, chain) in &batch.chains {
                let folded = stacks::fold(&self.symbols, chain);
                let folded = self.names.texts().intern(&folded);
                let what = EventKind::Stack { id: *id, folded };
                let event = Event { time_ns: first.time_ns, pid: -1, cpu: first.cpu, what };
                self.writer.event(&event, self.names.texts())?;
            }
        }
        batch.steps.iter().try_for_each(|step| self.step(roots, step))
    }

    fn step(&mut self, roots: &Roots, step: &Step) -> Result<()> {
        let (pid, name) = match step.kind {
            StepKind::EventKind(what) => {
                match what {
                    EventKind::Stall { .. } => self.cgroup(roots, step)?,
                    EventKind::Free { pfn, order } => self.pins.free(pfn, order),
                    _ => {}
                }
                return self.writer.event(&step.event(what), self.names.texts());
            }
            StepKind::Note(number) => {
                // A table of its own, because hardly any two notes are equal.
                let mut texts = Texts::default();
                let text = texts.intern(&self.notes.remove(&number).unwrap_or_default());
                return self.writer.event(&step.event(EventKind::Marker { text }), &texts);
            }
            StepKind::Pin(call) => return self.pin(step, call),
            StepKind::Named { pid, name } => {
                let length = name.iter().position(|&b| b == 0).unwrap_or(name.len());
                (pid, self.names.named(pid, &String::from_utf8_lossy(&name[..length])))
            }
            StepKind::Forked { pid, parent } => (pid, self.names.forked(pid, parent)),
            StepKind::Exited { pid } => {
                self.cgroups.forget(pid);
                self.names.forget(pid);
                let event = Event { pid, ..step.event(EventKind::Exit) };
                return self.writer.event(&event, self.names.texts());
            }
        };
        self.process(step.time_ns, step.cpu, pid, name)
    }

    /// Writes whether an allocation is pinned long-term, if that changes. A replay pins allocations as a
    /// whole.
    fn pin(&mut self, step: &Step, call: PinCall) -> Result<()> {
        let (pfn, order) = (call.first, Order::BASE);
        let what = match self.pins.take(step.cpu, step.pid, call) {
            Some(PinChange::Pinned) => EventKind::Pin { pfn, order },
            Some(PinChange::Unpinned) => EventKind::Unpin { pfn, order },
            None => return Ok(()),
        };
        self.writer.event(&step.event(what), self.names.texts())
    }

    /// Writes the cgroup of a process that waits for memory for the first time. Processes whose
    /// names are hidden have none: a path names a service or a user.
    fn cgroup(&mut self, roots: &Roots, step: &Step) -> Result<()> {
        if !self.names.may_be_reported(step.pid) {
            return Ok(());
        }
        let Some(path) = self.cgroups.first(roots, step.pid) else { return Ok(()) };
        let path = self.names.texts().intern(path);
        self.writer.event(&step.event(EventKind::Cgroup { path }), self.names.texts())
    }

    /// Writes that a process has a name, if that is new.
    fn process(&mut self, time_ns: u64, cpu: u16, pid: i32, name: Option<Text>) -> Result<()> {
        let Some(name) = name else { return Ok(()) };
        let event = Event { time_ns, pid, cpu, what: EventKind::Process { name } };
        self.writer.event(&event, self.names.texts())
    }
}
