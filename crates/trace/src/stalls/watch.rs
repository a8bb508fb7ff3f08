//! Watches the stalls of this machine.

use prairie_host::{Kallsyms, Roots, monotonic_ns};

use super::Stalls;
use crate::record::cgroups::Cgroups;
use crate::record::collect::{Batch, Collector, Step, StepKind};
use crate::record::decode::{Tracepoint, kernel_types};
use crate::record::names::{Names, running};
use crate::record::{online_cpus, open_rings, read_symbols, refused, stacks, tracefs};
use crate::{Event, EventKind, Result, StallPoint};

/// The default size of a CPU's ring: 5,000 stalls between two polls.
pub const RING_BYTES: usize = 1 << 20;

/// Without these a machine's stalls cannot be watched.
const REQUIRED: [StallPoint; 2] = [StallPoint::ReclaimBegin, StallPoint::ReclaimEnd];

/// Options of [`Watch::open`].
pub struct WatchOptions {
    /// Whether to record the kernel's call chain at the beginning of each stall.
    pub stacks: bool,
    /// Whether stalls are attributed to processes by name, and to cgroups. Without it memory does
    /// not grow with the names that appear over time.
    pub processes: bool,
    /// Bytes of each CPU's ring; rounded up to a power of two.
    pub ring_bytes: usize,
    /// The host's files: [`Roots::live`], unless a test has others.
    pub roots: Roots,
}

/// The stalls of this machine while they happen.
///
/// Its tracepoints are opened for this program alone; nothing on the host is changed. Call
/// [`Watch::poll`] at least once a second: events that overflow the rings in between are lost and
/// counted. Without stalls, the only cost is reading the names of new processes.
pub struct Watch {
    collector: Collector,
    stalls: Stalls,
    names: Names,
    /// `None` where stalls are not attributed to them.
    cgroups: Option<Cgroups>,
    symbols: Kallsyms,
    roots: Roots,
    missing: Vec<StallPoint>,
}

impl Watch {
    /// Opens the kernel's tracepoints and begins to watch.
    ///
    /// # Errors
    /// [`Error::Record`](crate::Error::Record) where the machine does not let itself be watched: not root, no tracefs,
    /// a container.
    pub fn open(options: WatchOptions) -> Result<Watch> {
        let WatchOptions { stacks, processes, ring_bytes, roots } = options;
        let symbols = if stacks { read_symbols(&roots)? } else { Kallsyms::default() };
        let mut tracepoints: Vec<Tracepoint> = Tracepoint::stalls().collect();
        tracepoints.push(Tracepoint::Alloc);
        let paths: Vec<&str> = tracepoints.iter().map(|tracepoint| tracepoint.path()).collect();
        let mounts = roots.proc.join("self/mounts");
        let required = REQUIRED.map(StallPoint::path);
        let mut formats = tracefs::formats(&mounts, &required)?;
        formats.extend(tracefs::available(&mounts, &paths)?);
        tracepoints.retain(|tracepoint| formats.contains_key(tracepoint.path()));
        let missing = StallPoint::ALL.into_iter();
        let missing = missing.filter(|point| !formats.contains_key(point.path())).collect();
        let pagetypeinfo = std::fs::read_to_string(roots.proc.join("pagetypeinfo")).ok();
        let types = kernel_types(pagetypeinfo.as_deref());
        let (wanted, decoders) =
            crate::record::plan_stalls(&tracepoints, &formats, &types, stacks)?;
        let cpus = online_cpus(&roots)?;
        let rings = open_rings(&cpus, ring_bytes.next_power_of_two(), &wanted)?;
        let mut watch = Watch {
            collector: Collector::new(rings, &decoders),
            stalls: Stalls::default(),
            names: Names::new(!processes, std::process::id().cast_signed()),
            cgroups: processes.then(Cgroups::default),
            symbols,
            roots,
            missing,
        };
        watch.begin()?;
        Ok(watch)
    }

    /// Switches the events on and names the processes that run.
    fn begin(&mut self) -> Result<()> {
        let enabled = self.collector.enable();
        enabled.map_err(refused("switching the kernel's tracepoints on"))?;
        let now_ns = monotonic_ns();
        self.stalls.begin(now_ns);
        for process in running(&self.roots) {
            let Some(name) = self.names.running(&process) else { continue };
            let what = EventKind::Process { name };
            let event = Event { time_ns: now_ns, pid: process.pid, cpu: 0, what };
            self.stalls.event(&event, self.names.texts());
        }
        Ok(())
    }

    /// Takes what has happened, up to some 50 ms ago.
    ///
    /// # Errors
    /// [`Error::Record`](crate::Error::Record) if a record cannot be understood.
    pub fn poll(&mut self) -> Result<()> {
        let now_ns = monotonic_ns();
        let batch = self.collector.collect(now_ns)?;
        self.take(&batch);
        self.stalls.advance(now_ns);
        Ok(())
    }

    /// All stalls since the beginning.
    pub fn stalls(&self) -> &Stalls {
        &self.stalls
    }

    /// Points that this kernel does not have: its stalls of that kind are not seen.
    pub fn missing(&self) -> &[StallPoint] {
        &self.missing
    }

    /// Ends the observation.
    ///
    /// # Errors
    /// [`Error::Record`](crate::Error::Record) if the events cannot be switched off, or a record
    /// cannot be understood.
    pub fn finish(mut self) -> Result<Stalls> {
        let disabled = self.collector.disable();
        disabled.map_err(refused("switching the kernel's tracepoints off"))?;
        let now_ns = monotonic_ns();
        let batch = self.collector.finish(now_ns)?;
        self.take(&batch);
        self.stalls.finish(now_ns);
        Ok(self.stalls)
    }

    fn take(&mut self, batch: &Batch) {
        for (id, chain) in &batch.chains {
            let folded = self.names.texts().intern(&stacks::fold(&self.symbols, chain));
            let what = EventKind::Stack { id: *id, folded };
            self.stalls.event(&Event { time_ns: 0, pid: -1, cpu: 0, what }, self.names.texts());
        }
        batch.steps.iter().for_each(|step| self.step(step));
    }

    fn step(&mut self, step: &Step) {
        let event = match step.kind {
            StepKind::EventKind(what) => {
                if matches!(what, EventKind::Stall { .. }) {
                    self.cgroup(step);
                }
                step.event(what)
            }
            StepKind::Note(_) | StepKind::Pin(_) => return,
            StepKind::Named { pid, name } => {
                let length = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
                let name = self.names.named(pid, &String::from_utf8_lossy(&name[..length]));
                let Some(name) = name else { return };
                Event { pid, ..step.event(EventKind::Process { name }) }
            }
            StepKind::Forked { pid, parent } => {
                let Some(name) = self.names.forked(pid, parent) else { return };
                Event { pid, ..step.event(EventKind::Process { name }) }
            }
            StepKind::Exited { pid } => {
                self.cgroups.iter_mut().for_each(|cgroups| cgroups.forget(pid));
                self.names.forget(pid);
                Event { pid, ..step.event(EventKind::Exit) }
            }
        };
        self.stalls.event(&event, self.names.texts());
    }

    fn cgroup(&mut self, step: &Step) {
        let Some(cgroups) = &mut self.cgroups else { return };
        let Some(path) = cgroups.first(&self.roots, step.pid) else { return };
        let path = self.names.texts().intern(path);
        self.stalls.event(&step.event(EventKind::Cgroup { path }), self.names.texts());
    }
}
