//! The daemon: samples each container once a period, lets its controller decide, and acts.
//!
//! [`Daemon::tick`] does whatever is due at a given time and says when it wants to be called
//! again; it has no clock of its own, so a test can let it jump. [`run`] drives it with the
//! system's, with signals, triggers and the service manager.

pub mod container;
mod emergencies;
mod find;
pub(crate) mod lines;
mod objectives;
mod route;
pub mod run;
mod slots;
mod told;
pub(crate) mod waiting;

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::ageing::{Means, Step};
use crate::budget::WriteBudget;
use crate::config::Config;
use crate::controller::{Decision, MAX_SAMPLING_PERIODS};
use crate::guard::Guard;
use crate::kubernetes::Pods;
use crate::observation::{Idle, Observation, Orders, Room};
use crate::series::Series;
use crate::status::{Shared, Status};
use crate::world::cgroup::CgroupError;
use crate::world::discover::DirectorySet;
use crate::world::fault_alarm::FaultAlarm;
use crate::world::generations::Generations;
use crate::world::host_memory::{HostFigures, HostMemory, Savings, Share};
use crate::world::lease::Leases;
use crate::world::probe::Host;
use crate::world::reclaim::{Outcome, Work};
use crate::world::return_cost;
use crate::world::workers::{FinishedJob, Job, Workers};
use container::Container;
use lines::DecisionLine;
use prairie_daemon::file::{Buffer, is_gone};
use prairie_daemon::log::{Log, Verbosity};

/// The host's own files are read no more often than this.
const HOST_EVERY: Duration = Duration::from_secs(5);

/// Groups in which containers are sampled, spread over the period.
const GROUPS: u32 = 8;

/// Periods without requests after the kernel refused one.
const REFUSED_PERIODS: u32 = 10;

/// State that does not change while the daemon runs.
pub struct Setting {
    /// The capabilities of the host.
    pub host: Host,
    /// Nothing is written anywhere.
    pub dry_run: bool,
    /// Threads that wait for the kernel; 0 has the caller wait.
    pub workers: usize,
    /// Where decisions are reported.
    pub log: Log,
    /// Reports refaults. Without it the daemon polls several times a second.
    pub alarm: Option<FaultAlarm>,
}

/// The daemon.
pub struct Daemon {
    config: Config,
    setting: Setting,
    containers: Vec<Container>,
    /// What is known of pods, if rules need it.
    pods: Pods,
    /// The result of the last search for cgroups.
    walked: DirectorySet,
    /// Problems that were reported already.
    told: told::Told,
    workers: Workers,
    leases: Arc<Mutex<Leases>>,
    generations: Option<Generations>,
    host_memory: HostMemory,
    figures: HostFigures,
    figures_at: Option<Duration>,
    budget: Option<WriteBudget>,
    return_cost: Duration,
    buffer: Buffer,
    done: Vec<FinishedJob>,
    status: Shared,
    series: Option<Series>,
    next_id: u64,
    next_discovery: Duration,
    watch: slots::Watch,
    classes: Vec<objectives::ClassState>,
    emergency: Option<emergencies::Watched>,
}

impl Daemon {
    /// A daemon that has not sampled anything yet. `leases` restores changed limits.
    ///
    /// # Errors
    /// I/O errors of the system: files of `/proc` missing, no threads, no place for the series.
    pub fn new(config: Config, setting: Setting, leases: Leases) -> io::Result<Daemon> {
        let paths = &setting.host.paths;
        let generations = match setting.host.means() {
            Means::Generations if !setting.dry_run => Generations::open(&paths.debugfs).ok(),
            _ => None,
        };
        let measured = match config.daemon.return_cost {
            Some(_) => None,
            None => return_cost::measure(),
        };
        let return_cost = config.daemon.return_cost.or(measured).unwrap_or(return_cost::FALLBACK);
        let status = Shared::default();
        begin_status(&mut status.lock(), &setting, return_cost, measured.is_some());
        Ok(Daemon {
            workers: Workers::new(setting.workers)?,
            host_memory: HostMemory::open(&paths.proc)?,
            budget: config.daemon.writes_per_day().map(WriteBudget::new),
            emergency: emergencies::Watched::open(&config, &paths.proc)?,
            classes: objectives::follow(&config.classes, Vec::new(), setting.workers > 0)?,
            series: config.daemon.series.as_deref().map(Series::create).transpose()?,
            config,
            setting,
            containers: Vec::new(),
            pods: Pods::default(),
            walked: DirectorySet::default(),
            told: told::Told::default(),
            leases: Arc::new(Mutex::new(leases)),
            generations,
            figures: HostFigures::default(),
            figures_at: None,
            return_cost,
            buffer: Buffer::default(),
            done: Vec::new(),
            status,
            next_id: 0,
            next_discovery: Duration::ZERO,
            watch: slots::Watch::default(),
        })
    }

    /// Its status.
    pub fn status(&self) -> Shared {
        self.status.clone()
    }

    /// The containers.
    pub fn containers(&self) -> &[Container] {
        &self.containers
    }

    /// The threads that wait for the kernel.
    pub fn workers(&self) -> &Workers {
        &self.workers
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.setting.log
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Takes another configuration. What concerns the process itself (socket, metrics, workers,
    /// series) stays as it was until the next start, which the log says.
    pub fn reload(&mut self, config: Config) {
        let fixed = self.config.daemon.fixed_keys(&config.daemon);
        if !fixed.is_empty() {
            let keys = fixed.join(", ");
            let what = format_args!("{keys}: changed, takes effect at the next start");
            self.setting.log.note("warning", what);
        }
        self.budget = match (config.daemon.writes_per_day(), self.budget) {
            (Some(bytes), Some(budget)) => Some(budget.with_limit(bytes)),
            (bytes, _) => bytes.map(WriteBudget::new),
        };
        match emergencies::Watched::open(&config, &self.setting.host.paths.proc) {
            Ok(watched) if config.emergency != self.config.emergency => {
                self.emergency = watched;
                // One that the last policy found ends with it, and nobody else would say so.
                let emergency = &mut self.status.lock().emergency;
                (emergency.active, emergency.full_share) = (false, 0.0);
            }
            Ok(_) => {}
            Err(error) => self.report_once("emergencies", error.to_string()),
        }
        let old = std::mem::take(&mut self.classes);
        match objectives::follow(&config.classes, old, self.setting.workers > 0) {
            Ok(classes) => self.classes = classes,
            // Unknown, and so nothing is reclaimed for a class with an objective.
            Err(error) => self.report_once("objectives", error.to_string()),
        }
        self.config = config;
        self.next_discovery = Duration::ZERO;
        self.walked = DirectorySet::default();
        self.told.clear();
    }

    /// Does what is due at `now`, and returns when the next thing is.
    pub fn tick(&mut self, now: Duration) -> Duration {
        self.finish_jobs(now);
        // First, because after a reload containers still have the numbers of the old rules. Also
        // after a clock that went back, by more than the interval.
        if now >= self.next_discovery || now + self.config.daemon.discover < self.next_discovery {
            self.look_for_cgroups(now);
            self.next_discovery = now + self.config.daemon.discover;
        }
        let emergency = self.watch_emergency(now);
        let objectives = self.read_objectives(now);
        let watches = [emergency, objectives].into_iter().flatten();
        let mut next = watches.fold(self.next_discovery, Duration::min);
        for at in 0..self.containers.len() {
            let container = &self.containers[at];
            let period = container.controller.profile().period;
            // Overdue, or so far ahead that the clock must have gone back.
            if now >= container.due || container.due > now + period * (MAX_SAMPLING_PERIODS + 1) {
                self.step(at, now);
                let container = &mut self.containers[at];
                // A series is a record of every period.
                let is_recorded = self.series.is_some();
                let periods = if is_recorded { 1 } else { container.periods_to_next_look(now) };
                let period = period * periods;
                let due = &mut container.due;
                // From the due time on, not from now: groups stay together, lateness does not add up.
                let from = if now < *due { now } else { *due };
                *due = (from + period).max(now + period / 2);
            }
            next = next.min(self.containers[at].due);
        }
        if let Some(at) = self.watch_slots(now) {
            next = next.min(at);
        }
        // Jobs that were done in this very call, where the caller is the worker.
        self.finish_jobs(now);
        next
    }

    /// Puts everything back and ends.
    ///
    /// # Errors
    /// If the series cannot be written to its end.
    pub fn stop(mut self) -> io::Result<()> {
        // First the requests under way, which may hold a lease.
        drop(std::mem::replace(&mut self.workers, Workers::new(0)?));
        self.leases.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).restore_all();
        self.series.take().map_or(Ok(()), Series::finish)
    }

    /// Says something about a rule or the host unless it was the last thing said about it.
    fn report_once(&mut self, about: &str, what: String) {
        if self.told.is_new(about, &what) {
            self.setting.log.note("warning", format_args!("{about}: {what}"));
        }
    }

    /// The same about a cgroup.
    fn report_cgroup(&mut self, path: &str, what: String) {
        if self.told.is_new_of_cgroup(path, &what) {
            self.setting.log.note("warning", format_args!("{path}: {what}"));
        }
    }

    /// One container's period.
    fn step(&mut self, at: usize, now: Duration) {
        let seen = match self.look(at, now) {
            Ok(Some(seen)) => seen,
            Ok(None) => {
                self.status.lock().cgroups[at].trouble = "the host's swap cannot be read".into();
                return;
            }
            Err(CgroupError::Gone) => return self.lose(at),
            Err(trouble) => {
                let path = self.containers[at].cgroup.path.clone();
                self.status.lock().cgroups[at].trouble = trouble.to_string();
                return self.report_cgroup(&path, trouble.to_string());
            }
        };
        let container = &mut self.containers[at];
        container.seen = seen;
        let mut decision = container.controller.decide(&seen);
        if decision.reclaim.is_some() && (container.jobs > 0 || now < container.refused_until) {
            container.controller.not_carried_out();
            (decision.reclaim, decision.guard) = (None, Some(Guard::Busy));
        }
        container.wants =
            objectives::wants_room(decision.reclaim.is_some(), decision.guard.as_ref());
        let asked = self.act(at, &decision);
        self.containers[at].asked_bytes = asked;
        self.tell(at, &decision, asked);
        if !self.setting.dry_run && decision.guard.is_none_or(|guard| !guard.is_emergency()) {
            self.lend(at, decision.returned_anon_pages);
        }
    }

    /// Samples a container, no closer than it has to. Nothing where the host cannot be sampled.
    fn look(&mut self, at: usize, now: Duration) -> Result<Option<Observation>, CgroupError> {
        let container = &self.containers[at];
        if container.controller.means() == Means::Generations && !container.is_settled(now) {
            // Each container takes at most once between two looks, so no figure is older than its
            // last one: one reading in that time does for all of them.
            let between =
                container.controller.profile().period * container.controller.periods_to_next_look();
            self.refresh_generations(now, between / (2 * GROUPS) * (2 * GROUPS - 1));
        }
        let (standing, emergency) = (self.standing_of(at), self.emergency_rest(now));
        let (container, generations) = (&mut self.containers[at], self.generations.as_ref());
        container.orders = Orders { standing, emergency, ..container.orders };
        container.check_processes(&self.setting.host.paths.proc);
        let (mut seen, suffices) = container.glimpse(now, generations, &mut self.buffer)?;
        // A series is a record of everything.
        let container = &mut self.containers[at];
        container.rests = suffices && self.series.is_none();
        if container.rests {
            return Ok(Some(seen));
        }
        let Some(room) = self.room(now) else { return Ok(None) };
        seen.orders.yields = self.yields(at, &room);
        self.containers[at].count(seen, room, &mut self.buffer).map(Some)
    }

    /// Takes leases that a container needs beyond requests.
    fn lend(&mut self, at: usize, returned_anon: u64) {
        let container = &mut self.containers[at];
        let routed = container.route(&self.figures, &self.leases);
        let freed = match self.setting.host.copies_stay {
            true => container.free_slots(returned_anon, &self.leases),
            false => None,
        };
        let said = [routed, freed];
        if said.iter().any(Option::is_some) {
            let path = container.cgroup.path.clone();
            said.into_iter().flatten().for_each(|text| self.report_cgroup(&path, text));
        }
    }

    /// Carries out a decision through jobs; returns the bytes that are requested.
    fn act(&mut self, at: usize, decision: &Decision) -> u64 {
        let container = &mut self.containers[at];
        let proc = &self.setting.host.paths.proc;
        let submit = |container: &mut Container, work: Option<Work>| {
            let Some(work) = work else { return false };
            container.jobs += 1;
            let deadline = self.config.daemon.deadline;
            self.workers.submit(Job { id: container.id, work, deadline });
            true
        };
        match decision.ageing {
            Step::Wait => {}
            Step::Mark => {
                let work = container.mark(proc, self.generations.as_ref());
                if !submit(container, work) {
                    container.controller.ageing_failed();
                }
            }
            Step::Measure => {
                let work = container.measure(proc);
                submit(container, work);
            }
        }
        let Some(reclaim) = decision.reclaim else { return 0 };
        if self.setting.dry_run {
            return reclaim.bytes;
        }
        let work = container.take(reclaim, self.generations.as_ref(), &self.leases);
        match submit(container, work) {
            true => {
                container.begin_request();
                reclaim.bytes
            }
            false => {
                container.controller.not_carried_out();
                0
            }
        }
    }

    /// Reports a decision to the log, the status and the series.
    fn tell(&mut self, at: usize, decision: &Decision, asked_bytes: u64) {
        let container = &self.containers[at];
        let seen = &container.seen;
        let guard = decision.guard.as_ref().map_or("", Guard::name);
        let changed = self.status.lock().cgroups[at].guard != guard;
        let verbosity = match changed || decision.reclaim.is_some() {
            true => Verbosity::Changes,
            false => Verbosity::All,
        };
        // A slow reader of the log must not delay requests for the status.
        let line = DecisionLine { container, decision, dry_run: self.setting.dry_run };
        self.setting.log.say(verbosity, &line);
        let mut status = self.status.lock();
        let entry = &mut status.cgroups[at];
        lines::update(entry, container, decision, asked_bytes);
        if matches!(seen.idle, Idle::Unknown) {
            entry.idle_bytes = match container.controller.idle() {
                Idle::Bytes(bytes) => Some(bytes),
                _ => None,
            };
        }
        drop(status);
        if let Some(series) = &mut self.series
            && let Err(error) = series.push(&container.cgroup.path, seen, decision, asked_bytes)
        {
            self.setting.log.note("warning", format_args!("time series stopped: {error}"));
            self.series = None;
        }
    }

    /// The host's room, read at most every few seconds.
    fn room(&mut self, now: Duration) -> Option<Room> {
        let fresh = self.figures_at.is_some_and(|at| at <= now && now - at < HOST_EVERY);
        if !fresh {
            match self.host_memory.read(self.budget.is_some(), &mut self.buffer) {
                Ok(figures) => self.take_figures(now, figures),
                Err(error) => {
                    self.figures_at = None;
                    self.report_once("the host", format!("its swap cannot be read: {error}"));
                    return None;
                }
            }
        }
        let writes = |budget: WriteBudget| (budget.left_bytes(now), budget.scarcity(now));
        Some(self.figures.room(self.budget.map(writes)))
    }

    fn take_figures(&mut self, now: Duration, figures: HostFigures) {
        let before = std::mem::replace(&mut self.figures, figures);
        let writes = before.writes.zip(figures.writes);
        if let (Some(budget), Some((before, after))) = (&mut self.budget, writes) {
            budget.count(now, after.device_bytes_since(&before));
        }
        self.figures_at = Some(now);
        let mut status = self.status.lock();
        let shares = status.cgroups.iter().map(|cgroup| Share {
            swap_bytes: cgroup.swap_bytes,
            zswap_bytes: cgroup.zswap_bytes,
            zswapped_bytes: cgroup.zswapped_bytes,
            swap_cached_bytes: cgroup.swap_cached_bytes,
        });
        let savings = Savings::of(shares, &figures);
        status.swap_bytes = figures.swap_bytes;
        status.swap_used_bytes = figures.swap_used_bytes;
        status.pool_bytes = figures.pool_bytes;
        status.pooled_bytes = figures.pooled_bytes;
        status.write_budget_bytes = self.budget.map(|budget| budget.left_bytes(now));
        status.write_scarcity = self.budget.map_or(0.0, |budget| budget.scarcity(now));
        status.claimed_bytes = savings.claimed_bytes;
        status.gained_bytes = savings.gained_bytes;
        let newly = savings.disagree && !status.disagree;
        status.disagree = savings.disagree;
        drop(status);
        if newly {
            let mib = |bytes: f64| bytes / f64::from(1 << 20);
            self.setting.log.note(
                "savings",
                format_args!(
                    "the cgroups' figures claim {:.1} MiB, the host gained {:.1} MiB",
                    mib(savings.claimed_bytes as f64),
                    mib(savings.gained_bytes as f64)
                ),
            );
        }
    }

    fn refresh_generations(&mut self, now: Duration, fresh: Duration) {
        let Some(generations) = &mut self.generations else { return };
        if let Err(error) = generations.refresh(now, fresh, &mut self.buffer) {
            self.report_once("lru_gen", error.to_string());
        }
    }

    /// Jobs that the workers finished since the last call.
    fn finish_jobs(&mut self, now: Duration) {
        let mut done = std::mem::take(&mut self.done);
        self.workers.collect(&mut done);
        for each in done.drain(..) {
            self.finish(each, now);
        }
        self.done = done;
    }

    fn finish(&mut self, done: FinishedJob, now: Duration) {
        let Some(at) = self.containers.iter().position(|container| container.id == done.id) else {
            return;
        };
        let container = &mut self.containers[at];
        container.jobs = container.jobs.saturating_sub(1);
        match done.outcome {
            // The host's report of ages need not be read again for a generation that was begun: the
            // container's next look does so anyway.
            Outcome::Marked => {}
            Outcome::Asked { bytes, calls, .. } => {
                container.end_request(bytes, calls.size);
                let mut status = self.status.lock();
                let entry = &mut status.cgroups[at];
                entry.calls += calls.count;
                let longest = calls.longest.as_micros() as u64;
                entry.longest_call_us = entry.longest_call_us.max(longest);
            }
            Outcome::Cleared(processes) => container.cleared(processes),
            Outcome::Idle(idle) => container.measured(now, idle),
            Outcome::Failed(error) if is_gone(&error) => self.lose(at),
            Outcome::Failed(error) => {
                container.refused_until =
                    now + container.controller.profile().period * REFUSED_PERIODS;
                container.controller.ageing_failed();
                let (path, means) = (container.cgroup.path.clone(), container.means());
                let trouble = format!("{means} was refused: {error}");
                let mut status = self.status.lock();
                status.cgroups[at].refused += 1;
                status.cgroups[at].trouble.clone_from(&trouble);
                drop(status);
                self.report_cgroup(&path, trouble);
            }
        }
    }
}

/// What a status says of the daemon and its host from the start on.
fn begin_status(status: &mut Status, setting: &Setting, return_cost: Duration, is_measured: bool) {
    (status.schema, status.schema_version) = ("prairie-offload-status".into(), 1);
    status.version = env!("CARGO_PKG_VERSION").into();
    status.dry_run = setting.dry_run;
    status.age_means = match (setting.dry_run, setting.host.means()) {
        (true, _) => "none (dry run)",
        (_, Means::Generations) => "generations (lru_gen)",
        (_, Means::AccessedBits) => "accessed bits (clear_refs, smaps_rollup)",
        (_, Means::None) => "none: the kernel's own order",
    }
    .into();
    status.fault_alarm = setting.alarm.is_some();
    status.return_cost_us = return_cost.as_secs_f64() * 1e6;
    status.return_cost_measured = is_measured;
}
