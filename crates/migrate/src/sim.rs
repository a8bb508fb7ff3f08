//! A run: a machine serves requests while pages move.
//!
//! Cores take turns, each for a window of simulated time; what one does to caches, directory and
//! tables is seen by the next at once, and queues by [`crate::contention`]. The same plan gives the
//! same result, bit for bit.

mod core;

use serde::Serialize;

use self::core::Core;
use crate::address::{LINES, PageSize, Vpn};
use crate::engine::{Engine, Stats};
use crate::geometry::{Any, Geometry, Usual, has_room};
use crate::hierarchy::Counts;
use crate::machine::{Machine, Translations};
use crate::pages::TooSmall;
use crate::params::Params;
use crate::protocol::table::Caching;
use crate::random::Random;
use crate::software::{Baseline, totals};
use crate::workload::{Kind, Workload};

/// Picoseconds for which each core runs before the next has its turn.
const WINDOW_PS: u64 = 1_000_000;

/// How pages move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// By Contiguitas-HW.
    Hardware(Caching),
    /// By the operating system.
    Software(Baseline),
}

/// Which pages move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Network buffers, which a device uses.
    Buffers,
    /// The program's heap.
    Heap,
}

/// Migrations during a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Migrations {
    /// How many begin in a second.
    pub per_second: f64,
    /// How.
    pub method: Method,
    /// The pages to migrate, in a random order.
    pub target: Target,
}

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The workload of the cores.
    pub workload: Kind,
    /// Seed of all that is random.
    pub seed: u64,
    /// Size of the pages of the program's heap.
    pub heap: PageSize,
    /// Requests of each core that count.
    pub requests: u64,
    /// Requests of each core before, to fill caches.
    pub warm_up: u64,
    /// Mean nanoseconds between requests to one core, which come at random; `None` for one after
    /// the other.
    pub interarrival_ns: Option<f64>,
    /// Migrations; none if `None`.
    pub migrations: Option<Migrations>,
}

/// The results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Requests a second that all cores served together.
    pub throughput: f64,
    /// Picoseconds of each request that counts, by core and number: the same request at the same
    /// place in every run of one seed.
    #[serde(skip)]
    pub latencies_ps: Vec<Vec<u64>>,
    /// Simulated picoseconds from the first to the last request that counts.
    pub span_ps: u64,
    /// Counters of the hierarchy.
    pub counts: Counts,
    /// Counters of address translation.
    pub translations: Translations,
    /// Counters of migrations.
    pub migrations: Stats,
    /// Pages that were moved when the last request was served.
    pub moved_while_serving: u64,
    /// Bytes of host memory for caches and directory.
    pub host_bytes: usize,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Requests served by all cores, those before counting included.
    pub served: u64,
    /// Loads and stores of all cores, without what their page walks read.
    pub accesses: u64,
}

/// A run that has not begun.
pub struct Simulation(Compiled);

/// For which geometry is decided once, before anything is simulated.
enum Compiled {
    Usual(Box<Run<Usual>>),
    Any(Box<Run<Any>>),
}

/// A run in progress.
struct Run<G: Geometry> {
    params: Params,
    plan: Plan,
    machine: Machine<G>,
    stream: Box<dyn Workload>,
    cores: Vec<Core>,
    engine: Engine,
    now_ps: u64,
    /// When migrations began, and the counts then.
    counted_from: Option<(u64, Counts, Translations)>,
    begun: u64,
    targets: Random,
    software: Stats,
    /// Until when the one thread that migrates by software is busy.
    software_until_ps: u64,
}

impl Simulation {
    /// A machine about to run `plan`.
    ///
    /// # Errors
    /// [`TooSmall`] if the workload does not fit its memory.
    ///
    /// # Panics
    /// If the plan names a recording: that is given to [`Simulation::of`].
    pub fn new(params: &Params, plan: &Plan) -> Result<Simulation, TooSmall> {
        let cores = params.cores.count as usize;
        let stream = plan.workload.stream(cores, plan.seed, plan.heap);
        Simulation::of(params, plan, stream.expect("a recording is given to `of`"))
    }

    /// The same, with a stream made for as many cores.
    ///
    /// # Errors
    /// [`TooSmall`] if the stream does not fit the machine's memory.
    pub fn of(
        params: &Params,
        plan: &Plan,
        stream: Box<dyn Workload>,
    ) -> Result<Simulation, TooSmall> {
        Ok(Simulation(match has_room::<Usual>(params) {
            true => Compiled::Usual(Box::new(Run::new(params, plan, stream)?)),
            false => Compiled::Any(Box::new(Run::new(params, plan, stream)?)),
        }))
    }

    /// Runs to the end. `progress` is called from time to time and returns whether to continue; if
    /// not, there is no outcome.
    pub fn run(self, progress: &mut dyn FnMut(Progress) -> bool) -> Option<Outcome> {
        match self.0 {
            Compiled::Usual(run) => run.run(progress),
            Compiled::Any(run) => run.run(progress),
        }
    }
}

impl<G: Geometry> Run<G> {
    fn new(params: &Params, plan: &Plan, stream: Box<dyn Workload>) -> Result<Run<G>, TooSmall> {
        let cores = params.cores.count as usize;
        let machine = Machine::of(params, stream.bytes())?;
        let caching = match plan.migrations.map(|migrations| migrations.method) {
            Some(Method::Hardware(caching)) => caching,
            _ => Caching::Cacheable,
        };
        Ok(Run {
            engine: Engine::new(params, caching),
            cores: (0..cores).map(|core| Core::new(plan, core)).collect(),
            params: params.clone(),
            plan: plan.clone(),
            machine,
            stream,
            now_ps: 0,
            counted_from: None,
            begun: 0,
            targets: Random::new(plan.seed, u64::MAX),
            software: Stats::default(),
            software_until_ps: 0,
        })
    }

    fn run(mut self, progress: &mut dyn FnMut(Progress) -> bool) -> Option<Outcome> {
        let mut windows = 0u64;
        while self.cores.iter().any(|core| !core.is_done(&self.plan)) {
            self.window();
            windows += 1;
            if windows.is_multiple_of(64) && !progress(self.progress()) {
                return None;
            }
            if cfg!(debug_assertions) && windows.is_power_of_two() {
                self.machine.validate();
            }
        }
        let moved = self.engine.stats.moved + self.software.moved;
        self.engine.give_up_waiting();
        self.settle();
        if cfg!(debug_assertions) {
            self.machine.validate();
        }
        Some(self.outcome(moved))
    }

    /// One turn of every core.
    fn window(&mut self) {
        let end_ps = self.now_ps + WINDOW_PS;
        if self.counted_from.is_none() && self.cores.iter().all(|core| core.is_warm(&self.plan)) {
            let (counts, translations) = (self.machine.hierarchy.counts, self.machine.translations);
            self.counted_from = Some((self.now_ps, counts, translations));
        }
        self.begin_migrations(end_ps);
        self.engine.advance(&mut self.machine, end_ps);
        for number in 0..self.cores.len() {
            if self.cores[number].clock_ps < end_ps {
                self.run_core_looking_ahead(number, end_ps);
            }
        }
        self.machine.unblock_before(self.now_ps);
        self.machine.hierarchy.turn(WINDOW_PS);
        self.now_ps = end_ps;
    }

    /// Begins the migrations that are due before `end_ps`.
    fn begin_migrations(&mut self, end_ps: u64) {
        let (Some(migrations), Some((from_ps, ..))) = (self.plan.migrations, self.counted_from)
        else {
            return;
        };
        let elapsed_s = (end_ps - from_ps) as f64 / 1e12;
        let due = (elapsed_s * migrations.per_second) as u64;
        while self.begun < due {
            self.begun += 1;
            let region = match migrations.target {
                Target::Buffers => self.stream.buffers(),
                Target::Heap => self.stream.heap(),
            };
            let pages = region.bytes >> (12 + region.start.size().order());
            let index = self.targets.below(pages);
            let page = region.page(index);
            match migrations.method {
                Method::Hardware(_) => self.engine.ask(page),
                Method::Software(baseline) => {
                    let queue = index as usize * self.cores.len() / pages as usize;
                    self.migrate_by_software(baseline, page, queue);
                }
            }
        }
        self.engine.begin(&mut self.machine, self.now_ps);
    }

    /// The operating system moves a page on one core; the others are interrupted. As by Linux's
    /// kcompactd, one page moves at a time: a page asked for meanwhile is left where it is. `queue` is the
    /// core whose device queue the page belongs to, if it is a buffer.
    fn migrate_by_software(&mut self, baseline: Baseline, page: Vpn, queue: usize) {
        let victims = self.cores.len() as u64 - 1;
        let size = page.size();
        self.software.asked += 1;
        if self.software_until_ps >= self.now_ps + WINDOW_PS {
            self.software.given_up += 1;
            return;
        }
        let Ok(destination) = self.machine.pages_mut().destination(size) else {
            self.software.given_up += 1;
            return;
        };
        let initiator = self.begun as usize % self.cores.len();
        let (all_ns, unavailable_ns) = totals(&baseline.steps(&self.params, victims, size));
        let stolen_ps = baseline.victim_ns(&self.params) * 1000;
        let source = self.machine.pages().frame(page);
        self.machine.pages_mut().remap(page, destination);
        self.machine.invalidate_device(page);
        for (number, core) in self.cores.iter_mut().enumerate() {
            self.machine.invalidate(number, page);
            if number != initiator {
                core.clock_ps += stolen_ps;
            }
        }
        // The copy goes through the initiator's caches.
        for at in 0..size.pages() * LINES {
            self.machine.hierarchy.access(initiator, source.line(at), false);
            self.machine.hierarchy.access(initiator, destination.line(at), true);
        }
        for at in 0..size.pages() * LINES {
            self.machine.hierarchy.forget(source.line(at));
        }
        let core = &mut self.cores[initiator];
        core.clock_ps = core.clock_ps.max(self.now_ps) + all_ns * 1000;
        let until_ps = core.clock_ps;
        self.software_until_ps = until_ps;
        // The page is blocked at the end of the migration, for as long as it is unavailable; a
        // device's queue stands still for all of it.
        let from_ps = until_ps - unavailable_ns * 1000;
        self.machine.block(page, from_ps..until_ps, initiator);
        if baseline == Baseline::StopMoveRestart {
            self.cores[queue].device_until_ps = until_ps;
        }
        self.machine.pages_mut().give_back(size, source);
        self.software.moved += 1;
        self.software.unavailable_ps += unavailable_ns * 1000;
        self.software.initiator_ps += all_ns * 1000;
        self.software.stolen_ps += stolen_ps * victims;
    }

    /// Lets a core run until `end_ps`, while what the next one will look at, and the translations of
    /// the one after it, are on their way into the host's cache.
    fn run_core_looking_ahead(&mut self, number: usize, end_ps: u64) {
        let after = number + 1..self.cores.len();
        let mut after = after.filter(|after| self.cores[*after].is_to_miss(end_ps));
        let (next, next_but_one) = (after.next(), after.next());
        if let Some(next) = next_but_one {
            self.cores[next].look_far_ahead(&self.machine, next);
        }
        if let Some(next) = next {
            self.cores[next].look_ahead(&mut self.machine, next);
        }
        self.run_core(number, end_ps);
        if let Some(next) = next {
            self.cores[next].look_further(&self.machine, next);
        }
    }

    /// Lets a core run until `end_ps`.
    fn run_core(&mut self, number: usize, end_ps: u64) {
        let Run { cores, machine, engine, stream, plan, params, .. } = self;
        let core = &mut cores[number];
        let per_instruction = params.cores.ps_per_instruction;
        while core.clock_ps < end_ps {
            if core.is_between_requests() {
                if engine.has_work(number) {
                    core.clock_ps += engine.kernel_entry(machine, number, core.clock_ps);
                }
                if !core.next_request(plan, end_ps) {
                    core.clock_ps = core.clock_ps.max(end_ps);
                    return;
                }
                stream.request(number, &mut core.request);
                core.received(machine);
            }
            core.serve(machine, number, per_instruction, end_ps);
            core.finish_if_done(machine, plan);
        }
    }

    /// After the last request: lets migrations under way end, on idle cores.
    fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.engine.unfinished() == 0 {
                return;
            }
            for number in 0..self.cores.len() {
                self.engine.kernel_entry(&mut self.machine, number, self.now_ps);
            }
            self.engine.begin(&mut self.machine, self.now_ps);
            self.now_ps += WINDOW_PS;
            self.engine.advance(&mut self.machine, self.now_ps);
            self.machine.hierarchy.turn(WINDOW_PS);
        }
    }

    fn progress(&self) -> Progress {
        Progress {
            served: self.cores.iter().map(|core| core.served).sum(),
            accesses: self.machine.hierarchy.counts.accesses - self.machine.translations.walk_reads,
        }
    }

    fn outcome(self, moved_while_serving: u64) -> Outcome {
        let hardware =
            matches!(self.plan.migrations, Some(Migrations { method: Method::Hardware(_), .. }));
        let zero = (0, Counts::default(), Translations::default());
        let (_, counts, translations) = self.counted_from.unwrap_or(zero);
        let spans = || self.cores.iter().map(Core::span_ps);
        let served = self.plan.requests as f64;
        Outcome {
            throughput: spans().map(|ps| served / (ps.max(1) as f64 / 1e12)).sum(),
            span_ps: spans().max().unwrap_or(0),
            counts: self.machine.hierarchy.counts.since(&counts),
            translations: self.machine.translations.since(&translations),
            migrations: if hardware { self.engine.stats } else { self.software },
            moved_while_serving,
            host_bytes: self.machine.hierarchy.bytes(),
            latencies_ps: self.cores.into_iter().map(|core| core.latencies_ps).collect(),
        }
    }
}

/// A quantile of the requests' latencies, in picoseconds.
pub fn quantile(latencies_ps: &[Vec<u64>], share: f64) -> u64 {
    let mut all: Vec<u64> = latencies_ps.iter().flatten().copied().collect();
    if all.is_empty() {
        return 0;
    }
    let at = ((all.len() - 1) as f64 * share) as usize;
    *all.select_nth_unstable(at).1
}
