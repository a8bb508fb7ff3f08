//! Reads the rings of all CPUs and merges their records in order.

use std::collections::{BTreeMap, HashMap};

use super::decode::{Decoded, Decoder};
use super::merge::{Merge, Timed};
use super::perf_record::{Body, Record};
use super::pins::PinCall;
use super::ring::Ring;
use crate::{Error, Event, EventKind, Result, StackId};

/// How long events are held back to be put in order. Virtual CPUs are taken off their real ones
/// for milliseconds, also between taking an event's time and writing it.
const WINDOW_NS: u64 = 50_000_000;

/// One step of a machine's history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub time_ns: u64,
    pub pid: i32,
    pub cpu: u16,
    pub kind: StepKind,
}

/// The kind of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum StepKind {
    /// The page allocator did something, or records were lost.
    EventKind(EventKind),
    /// A line of text was written, [`Batch::notes`] with this number.
    Note(u32),
    /// Memory was pinned, or a pin given up.
    Pin(PinCall),
    /// A process got a name, padded with zeros.
    Named { pid: i32, name: [u8; 16] },
    /// A process was forked and has its parent's name.
    Forked { pid: i32, parent: i32 },
    /// A process ended.
    Exited { pid: i32 },
}

impl Timed for Step {
    fn time_ns(&self) -> u64 {
        self.time_ns
    }
    fn cpu(&self) -> u16 {
        self.cpu
    }
}

impl Step {
    /// The event of a step of the page allocator.
    pub fn event(&self, what: EventKind) -> Event {
        Event { time_ns: self.time_ns, pid: self.pid, cpu: self.cpu, what }
    }
}

/// A part of the history, in order, and the call chains and notes that it is the first to refer to.
#[derive(Debug, Default)]
pub struct Batch {
    pub chains: Vec<(StackId, Box<[u64]>)>,
    pub notes: Vec<(u32, String)>,
    pub steps: Vec<Step>,
}

/// Reads rings and keeps what is needed to make sense of them.
pub struct Collector {
    rings: Vec<Ring>,
    state: State,
}

/// Everything but the rings, which are borrowed while a record is handled.
struct State {
    /// By the perf numbers of events.
    decoders: HashMap<u64, Decoder>,
    chains: HashMap<Box<[u64]>, StackId>,
    new_chains: Vec<(StackId, Box<[u64]>)>,
    notes: u32,
    new_notes: Vec<(u32, String)>,
    merge: Merge<Step>,
    lost_by_cpu: BTreeMap<u16, u64>,
    events: u64,
    failure: Option<Error>,
}

impl Collector {
    /// A collector for `rings`, whose tracepoints are decoded by `decoders`, in the order in
    /// which each ring's tracepoints were wanted.
    pub fn new(rings: Vec<Ring>, decoders: &[Decoder]) -> Collector {
        let pair = |ring: &Ring| ring.ids().zip(decoders.iter().cloned()).collect::<Vec<_>>();
        let decoders = rings.iter().flat_map(pair).collect();
        let state = State {
            decoders,
            chains: HashMap::new(),
            new_chains: Vec::new(),
            notes: 0,
            new_notes: Vec::new(),
            merge: Merge::default(),
            lost_by_cpu: BTreeMap::new(),
            events: 0,
            failure: None,
        };
        Collector { rings, state }
    }

    /// Switches the events on.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn enable(&mut self) -> std::io::Result<()> {
        self.rings.iter_mut().try_for_each(Ring::enable)
    }

    /// Switches the events off.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn disable(&mut self) -> std::io::Result<()> {
        self.rings.iter_mut().try_for_each(Ring::disable)
    }

    /// Reads every ring and returns what can be put in order by now; `now_ns` is the time before
    /// the reading began.
    ///
    /// # Errors
    /// [`Error::Record`] if a record cannot be understood.
    pub fn collect(&mut self, now_ns: u64) -> Result<Batch> {
        self.read()?;
        Ok(self.state.release(now_ns.saturating_sub(WINDOW_NS)))
    }

    /// Reads the remaining records after the events are off, and returns all that were held back.
    ///
    /// # Errors
    /// [`Error::Record`] if a record cannot be understood.
    pub fn finish(&mut self, now_ns: u64) -> Result<Batch> {
        self.read()?;
        for ring in &mut self.rings {
            // The ring reports a loss when it has room again; after the last loss it never did.
            let told = self.state.lost_by_cpu.get(&ring.cpu).copied().unwrap_or(0);
            let untold = ring.lost().unwrap_or(0).saturating_sub(told);
            if untold > 0 {
                self.state.lose(now_ns, ring.cpu, untold);
            }
        }
        Ok(self.state.release(u64::MAX))
    }

    /// Events read so far, without what was lost.
    pub fn events(&self) -> u64 {
        self.state.events
    }

    /// Events lost so far, by CPU.
    pub fn lost_by_cpu(&self) -> &BTreeMap<u16, u64> {
        &self.state.lost_by_cpu
    }

    /// Events that came too late to be put in their place.
    pub fn out_of_order(&self) -> u64 {
        self.state.merge.out_of_order()
    }

    fn read(&mut self) -> Result<()> {
        for ring in &mut self.rings {
            let cpu = ring.cpu;
            ring.drain(&mut |record| self.state.take(cpu, record));
        }
        self.state.failure.take().map_or(Ok(()), Err)
    }
}

impl State {
    fn release(&mut self, bound_ns: u64) -> Batch {
        let mut batch = Batch::default();
        self.merge.release(bound_ns, &mut batch.steps);
        if !batch.steps.is_empty() {
            batch.chains = std::mem::take(&mut self.new_chains);
            batch.notes = std::mem::take(&mut self.new_notes);
        }
        batch
    }

    fn take(&mut self, cpu: u16, record: Option<Record<'_>>) {
        let Some(Record { time_ns, pid, body, .. }) = record else {
            self.failure.get_or_insert_with(|| not_understood(cpu));
            return;
        };
        let kind = match body {
            Body::Sample { id, chain, raw } => {
                let stack = self.intern(chain);
                let Some(decoder) = self.decoders.get(&id) else {
                    self.failure.get_or_insert_with(|| not_understood(cpu));
                    return;
                };
                match decoder.decode(raw, stack) {
                    Ok(Decoded::Event(what)) => StepKind::EventKind(what),
                    Ok(Decoded::Note(text)) => StepKind::Note(self.note(text)),
                    Ok(Decoded::Pin(call)) => StepKind::Pin(call),
                    Err(error) => {
                        self.failure.get_or_insert(error);
                        return;
                    }
                }
            }
            Body::Named { pid, name } => StepKind::Named { pid, name },
            Body::Forked { pid, parent } => StepKind::Forked { pid, parent },
            Body::Exited { pid } => StepKind::Exited { pid },
            Body::Lost { count } => return self.lose(time_ns, cpu, count),
            Body::Other => return,
        };
        self.events += u64::from(matches!(kind, StepKind::EventKind(_) | StepKind::Note(_)));
        self.merge.push(Step { time_ns, pid, cpu, kind });
    }

    fn lose(&mut self, time_ns: u64, cpu: u16, count: u64) {
        *self.lost_by_cpu.entry(cpu).or_default() += count;
        let kind = StepKind::EventKind(EventKind::Lost { count });
        self.merge.push(Step { time_ns, pid: -1, cpu, kind });
    }

    /// The number of a new note.
    fn note(&mut self, text: String) -> u32 {
        self.notes = self.notes.wrapping_add(1);
        self.new_notes.push((self.notes, text));
        self.notes
    }

    /// The number of a call chain, given as the bytes of its addresses.
    fn intern(&mut self, chain: &[u8]) -> StackId {
        if chain.is_empty() {
            return StackId::NONE;
        }
        let words = chain.chunks_exact(8).map(|b| u64::from_ne_bytes(b.try_into().unwrap()));
        let chain: Box<[u64]> = words.collect();
        if let Some(&id) = self.chains.get(&chain) {
            return id;
        }
        let id = StackId(self.chains.len() as u32 + 1);
        self.new_chains.push((id, chain.clone()));
        self.chains.insert(chain, id);
        id
    }
}

fn not_understood(cpu: u16) -> Error {
    Error::Record {
        what: format!("the ring of CPU {cpu}"),
        why: "it holds a record of unknown form".into(),
        remedy: "this kernel's events are not understood; please report its release".into(),
    }
}
