//! The hardware evaluation of the Contiguitas paper (ISCA 2023), run again: what its sentences
//! claim, as measurements with their bounds.
//!
//! Runs that are compared have one seed: the same requests reach the same cores in both. What
//! migration changes is then measured request by request, and reported as a mean over cores with the
//! error of that mean, because at a thousand migrations a second the change is far below what two
//! runs of different seeds differ by.

mod effect;
mod jobs;

use serde::Serialize;

pub use effect::{Effect, Tail, queueing_quantile};
pub use jobs::Stopped;

use crate::address::PageSize;
use crate::hierarchy::Counts;
use crate::params::Params;
use crate::protocol::table::Caching;
use crate::sim::{Method, Migrations, Outcome, Plan, Target};
use crate::software::{Baseline, totals};
use crate::workload::Kind;

/// How much to run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The machine.
    pub params: Params,
    /// Seed of all runs.
    pub seed: u64,
    /// Requests of each core that count.
    pub requests: u64,
    /// Migrations a second.
    pub rates: Vec<f64>,
    /// Numbers of TLBs for the time a page is unavailable.
    pub victims: Vec<u64>,
    /// Threads of the host; runs are independent, and results do not depend on it.
    pub threads: usize,
}

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Paper {
    /// The machine's name.
    pub machine: String,
    /// Its cores.
    pub cores: u64,
    /// Requests of each core in each run.
    pub requests: u64,
    /// Time for which a page is unavailable, by number of TLBs.
    pub unavailable: Vec<Unavailable>,
    /// The applications without migrations.
    pub calm: Vec<Undisturbed>,
    /// Effect of migrations, by application, method and rate.
    pub rates: Vec<Rate>,
    /// What 2 MiB pages bring, without and with migrations.
    pub huge_pages: Vec<HugePages>,
    /// The metadata table by its parameters.
    pub table: Vec<TableRow>,
    /// The cost of one migration.
    pub costs: Vec<Cost>,
}

/// How long a page cannot be used while it moves, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unavailable {
    /// TLBs that hold it.
    pub victims: u64,
    /// By each baseline, from the sum of its steps.
    pub software_ns: Vec<(Baseline, u64)>,
    /// By hardware, simulated: one local invalidation and the walk after it.
    pub hardware_ns: f64,
    /// By hardware: from the command until every TLB has forgotten the page. No core waits for it.
    pub hardware_whole_ns: f64,
}

/// An application that nothing disturbs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Undisturbed {
    /// The application.
    pub workload: Kind,
    /// Requests a second.
    pub throughput: f64,
    /// Latency at 70 % load.
    pub tail: Tail,
}

/// The effect of migrations at one rate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// The application.
    pub workload: Kind,
    /// How pages move.
    pub method: Method,
    /// Which.
    pub target: Target,
    /// Migrations asked for a second.
    pub per_second: f64,
    /// Migrations done while requests were served.
    pub moved: u64,
    /// The same, a second.
    pub done_per_second: f64,
    /// Requests a second.
    pub throughput: f64,
    /// Change of the time per request against the same requests without migrations.
    pub effect: Effect,
    /// Latency at 70 % load.
    pub tail: Tail,
    /// Share of memory's bandwidth in use.
    pub memory_share: f64,
}

/// What huge pages bring.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HugePages {
    /// The application.
    pub workload: Kind,
    /// Change of the time per request from 4 KiB to 2 MiB pages.
    pub alone: Effect,
    /// The same with ten thousand migrations a second by hardware.
    pub with_migrations: Effect,
    /// Page walks per request with 4 KiB and with 2 MiB pages.
    pub walks_per_request: (f64, f64),
}

/// A metadata table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableRow {
    /// Which parameter differs from the machine's.
    pub parameter: &'static str,
    /// Its value.
    pub value: u64,
    /// Migrations done a second, when a million are asked for.
    pub done_per_second: f64,
    /// Mean nanoseconds of the copy of a page.
    pub copy_ns: f64,
    /// Change of the time per request.
    pub effect: Effect,
}

/// The cost of one migration: the values that simulations use.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// How.
    pub method: Method,
    /// Bytes of the page.
    pub page_bytes: u64,
    /// Nanoseconds for which an access to it may have to wait.
    pub unavailable_ns: f64,
    /// CPU nanoseconds of all cores.
    pub cpu_ns: f64,
    /// Nanoseconds from the command until the source is free.
    pub whole_ns: f64,
    /// Nanoseconds of these for the copy.
    pub copy_ns: f64,
    /// Lines read from and written to memory, and hops of messages, that would not have been
    /// without it. Of base pages by hardware; else `None`.
    pub traffic: Option<Traffic>,
}

/// The traffic that a migration adds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Traffic {
    /// Lines read from memory.
    pub memory_reads: f64,
    /// Lines written to memory.
    pub memory_writes: f64,
    /// Requests of cores at the last-level cache.
    pub llc_requests: f64,
    /// Hops through the mesh.
    pub hops: f64,
    /// Private copies invalidated.
    pub invalidations: f64,
    /// Requests that continued to another slice.
    pub crossings: f64,
}

/// The methods whose effect is measured, each on the pages that it can move.
pub const METHODS: [(Method, Target); 6] = [
    (Method::Hardware(Caching::Cacheable), Target::Buffers),
    (Method::Hardware(Caching::Noncacheable), Target::Buffers),
    (Method::Hardware(Caching::Cacheable), Target::Heap),
    (Method::Software(Baseline::Ipi), Target::Heap),
    (Method::Software(Baseline::Broadcast), Target::Heap),
    (Method::Software(Baseline::StopMoveRestart), Target::Buffers),
];

/// The applications of the paper.
pub const APPLICATIONS: [Kind; 2] = [Kind::Memcached, Kind::Nginx];

const HARDWARE: Method = Method::Hardware(Caching::Cacheable);

/// A run that shows what a migration costs: its number, how pages move, and their size.
type CostJob = (usize, Method, PageSize);

/// Rates at which tables are compared, and costs measured.
const TABLE_RATE: f64 = 1e6;
const COST_RATE: f64 = 1e5;

/// Rate beside huge pages: ten times the paper's, so that short runs have some.
const HUGE_RATE: f64 = 1e4;

impl Settings {
    /// The paper's measurements on a machine.
    pub fn new(params: Params) -> Settings {
        Settings {
            params,
            seed: 1,
            requests: 300,
            rates: vec![1e3, 1e4, 1e5, 1e6, 1e7],
            victims: vec![1, 2, 4, 8, 16, 32, 64, 128, 256],
            threads: 1,
        }
    }

    fn plan(&self, workload: Kind, heap: PageSize, migrations: Option<Migrations>) -> Plan {
        Plan {
            workload,
            seed: self.seed,
            heap,
            requests: self.requests,
            // A ring of buffers has 256: every one of them was used once.
            warm_up: self.requests.min(256),
            interarrival_ns: None,
            migrations,
        }
    }

    /// Runs everything. `progress` gets the number of finished and of all runs, and returns whether
    /// to go on.
    ///
    /// # Errors
    /// [`Stopped`] if `progress` returned false, or memory is too small.
    pub fn run(&self, progress: &(dyn Fn(usize, usize) -> bool + Sync)) -> Result<Paper, Stopped> {
        let mut jobs = jobs::Jobs::default();
        let bases =
            APPLICATIONS.map(|app| jobs.add(&self.params, self.plan(app, PageSize::Base, None)));
        let rates = self.rate_jobs(&mut jobs);
        let huge = APPLICATIONS.map(|app| {
            let calm = migrations(HARDWARE, Target::Buffers, HUGE_RATE);
            let alone = jobs.add(&self.params, self.plan(app, PageSize::Huge, None));
            (alone, jobs.add(&self.params, self.plan(app, PageSize::Huge, Some(calm))))
        });
        let tables = self.table_jobs(&mut jobs);
        let victims = self.victim_jobs(&mut jobs);
        let costs = self.cost_jobs(&mut jobs);
        let outcomes = jobs.run(self.threads, progress)?;
        let base = |app: Kind| &outcomes[bases[usize::from(app == Kind::Nginx)]];
        Ok(Paper {
            machine: self.params.name.clone(),
            cores: self.params.cores.count,
            requests: self.requests,
            unavailable: self.unavailable(&victims, &outcomes),
            calm: APPLICATIONS
                .iter()
                .map(|app| Undisturbed {
                    workload: *app,
                    throughput: base(*app).throughput,
                    tail: Tail::of(base(*app), base(*app), self.seed),
                })
                .collect(),
            rates: rates
                .iter()
                .map(|(job, app, migrations)| {
                    self.rate(&outcomes[*job], base(*app), *app, migrations)
                })
                .collect(),
            huge_pages: APPLICATIONS
                .iter()
                .zip(huge)
                .map(|(app, (alone, both))| {
                    let walks =
                        |outcome: &Outcome| outcome.translations.walks as f64 / self.all_requests();
                    HugePages {
                        workload: *app,
                        alone: Effect::of(&outcomes[alone], base(*app)),
                        with_migrations: Effect::of(&outcomes[both], base(*app)),
                        walks_per_request: (walks(base(*app)), walks(&outcomes[alone])),
                    }
                })
                .collect(),
            table: tables
                .iter()
                .map(|(job, parameter, value)| {
                    let outcome = &outcomes[*job];
                    let moved = outcome.migrations.moved.max(1) as f64;
                    TableRow {
                        parameter,
                        value: *value,
                        done_per_second: per_second(outcome),
                        copy_ns: outcome.migrations.copy_ps as f64 / 1e3 / moved,
                        effect: Effect::of(outcome, base(Kind::Memcached)),
                    }
                })
                .collect(),
            costs: self.costs(&costs, &outcomes, base(Kind::Memcached)),
        })
    }

    fn all_requests(&self) -> f64 {
        (self.requests * self.params.cores.count) as f64
    }

    fn rate_jobs(&self, jobs: &mut jobs::Jobs) -> Vec<(usize, Kind, Migrations)> {
        let mut all = Vec::new();
        for app in APPLICATIONS {
            for (method, target) in METHODS {
                for &rate in &self.rates {
                    let wanted = migrations(method, target, rate);
                    let plan = self.plan(app, PageSize::Base, Some(wanted));
                    all.push((jobs.add(&self.params, plan), app, wanted));
                }
            }
        }
        all
    }

    fn rate(&self, outcome: &Outcome, base: &Outcome, app: Kind, wanted: &Migrations) -> Rate {
        let lines = outcome.counts.memory_reads + outcome.counts.memory_writes;
        let bytes_per_second = lines as f64 * 64.0 / (outcome.span_ps as f64 / 1e12);
        Rate {
            workload: app,
            method: wanted.method,
            target: wanted.target,
            per_second: wanted.per_second,
            moved: outcome.moved_while_serving,
            done_per_second: per_second(outcome),
            throughput: outcome.throughput,
            effect: Effect::of(outcome, base),
            tail: Tail::of(outcome, base, self.seed),
            memory_share: bytes_per_second / (self.params.memory.mb_per_second as f64 * 1e6),
        }
    }

    fn table_jobs(&self, jobs: &mut jobs::Jobs) -> Vec<(usize, &'static str, u64)> {
        let mut all = Vec::new();
        let mut add = |name, value, change: &dyn Fn(&mut Params)| {
            let mut params = self.params.clone();
            change(&mut params);
            let wanted = migrations(HARDWARE, Target::Buffers, TABLE_RATE);
            let plan = self.plan(Kind::Memcached, PageSize::Base, Some(wanted));
            all.push((jobs.add(&params, plan), name, value));
        };
        for entries in [1, 2, 4, 8, 16, 32, 64] {
            add("entries", entries, &|params| params.migration.entries = entries);
        }
        for cycles in [0, 1, 4, 16] {
            add("lookup_cycles", cycles, &|params| params.migration.lookup_cycles = cycles);
        }
        for ps in [0, 5_000, 20_000, 50_000] {
            add("crossing_ps", ps, &|params| params.migration.crossing_ps = ps);
        }
        for lines in [1, 2, 4, 8] {
            add("lines_in_flight", lines, &|params| params.migration.lines_in_flight = lines);
        }
        all
    }

    /// All cores use one page that moves all the time.
    fn victim_jobs(&self, jobs: &mut jobs::Jobs) -> Vec<(usize, u64)> {
        let add = |&victims: &u64| {
            let mut params = self.params.clone();
            params.cores.count = victims;
            params.llc.slices = params.llc.slices.min(victims);
            let wanted = migrations(HARDWARE, Target::Buffers, COST_RATE);
            let plan = Plan {
                requests: 40,
                warm_up: 4,
                ..self.plan(Kind::Sharing, PageSize::Base, Some(wanted))
            };
            (jobs.add(&params, plan), victims)
        };
        self.victims.iter().map(add).collect()
    }

    fn unavailable(&self, jobs: &[(usize, u64)], outcomes: &[Outcome]) -> Vec<Unavailable> {
        let row = |&(job, victims): &(usize, u64)| {
            let outcome = &outcomes[job];
            let moved = outcome.migrations.moved.max(1) as f64;
            let walk_ps = outcome.translations.walk_ps as f64;
            let walks = outcome.translations.walks.max(1) as f64;
            let local = self.params.migration.invalidate_page_ns as f64;
            let software = Baseline::ALL.map(|baseline| {
                (baseline, totals(&baseline.steps(&self.params, victims, PageSize::Base)).1)
            });
            Unavailable {
                victims,
                software_ns: software.to_vec(),
                hardware_ns: local + walk_ps / walks / 1e3,
                hardware_whole_ns: outcome.migrations.invalidation_ps as f64 / moved / 1e3,
            }
        };
        jobs.iter().map(row).collect()
    }

    fn cost_jobs(&self, jobs: &mut jobs::Jobs) -> Vec<CostJob> {
        let noncacheable = Method::Hardware(Caching::Noncacheable);
        [
            (HARDWARE, PageSize::Base, Target::Buffers, COST_RATE),
            (noncacheable, PageSize::Base, Target::Buffers, COST_RATE),
            (HARDWARE, PageSize::Huge, Target::Heap, COST_RATE / 512.0),
        ]
        .map(|(method, size, target, rate)| {
            let wanted = migrations(method, target, rate);
            let plan = self.plan(Kind::Memcached, size, Some(wanted));
            (jobs.add(&self.params, plan), method, size)
        })
        .to_vec()
    }

    fn costs(&self, jobs: &[CostJob], outcomes: &[Outcome], base: &Outcome) -> Vec<Cost> {
        // A run too short for a migration does not measure its cost.
        let told = jobs.iter().filter(|(job, ..)| outcomes[*job].migrations.moved > 0);
        let hardware = told.map(|(job, method, size)| {
            let outcome = &outcomes[*job];
            let moved = outcome.migrations.moved.max(1) as f64;
            let each = |ps: u64| ps as f64 / 1e3 / moved;
            Cost {
                method: *method,
                page_bytes: u64::from(size.pages()) << 12,
                unavailable_ns: self.params.migration.invalidate_page_ns as f64,
                cpu_ns: each(outcome.migrations.local_ps),
                whole_ns: each(outcome.migrations.whole_ps),
                copy_ns: each(outcome.migrations.copy_ps),
                traffic: (*size == PageSize::Base)
                    .then(|| Traffic::of(&outcome.counts, &base.counts, moved)),
            }
        });
        let victims = self.params.cores.count - 1;
        let software = Baseline::ALL.iter().flat_map(|baseline| {
            [PageSize::Base, PageSize::Huge].map(|size| {
                let steps = baseline.steps(&self.params, victims, size);
                let (all, unavailable) = totals(&steps);
                let copy = steps.iter().filter(|step| step.name == "copy").map(|step| step.ns);
                Cost {
                    method: Method::Software(*baseline),
                    page_bytes: u64::from(size.pages()) << 12,
                    unavailable_ns: unavailable as f64,
                    cpu_ns: (all + victims * baseline.victim_ns(&self.params)) as f64,
                    whole_ns: all as f64,
                    copy_ns: copy.sum::<u64>() as f64,
                    traffic: None,
                }
            })
        });
        hardware.chain(software).collect()
    }
}

impl Traffic {
    fn of(with: &Counts, without: &Counts, moved: f64) -> Traffic {
        let each = |with: u64, without: u64| (with as f64 - without as f64) / moved;
        Traffic {
            memory_reads: each(with.memory_reads, without.memory_reads),
            memory_writes: each(with.memory_writes, without.memory_writes),
            llc_requests: each(with.llc_requests, without.llc_requests),
            hops: each(with.hops, without.hops),
            invalidations: each(with.invalidations, without.invalidations),
            crossings: each(with.crossings, without.crossings),
        }
    }
}

fn migrations(method: Method, target: Target, per_second: f64) -> Migrations {
    Migrations { per_second, method, target }
}

fn per_second(outcome: &Outcome) -> f64 {
    outcome.moved_while_serving as f64 / (outcome.span_ps.max(1) as f64 / 1e12)
}
