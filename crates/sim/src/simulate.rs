//! A scenario under several systems, sampled as it goes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prairie_frames::indices::{FreeBlocks, unusable_free_space};
use prairie_frames::layout::LayoutError;
use prairie_frames::{BlockCounts, Order};
use serde::Serialize;

use crate::machine::counters::Counters;
use crate::machine::page::Use;
use crate::machine::scenario::Scenario;
use crate::machine::{Machine, OomKill, PoolChange};
use prairie_model::allocator::Allocator;
use prairie_model::samples::Columns;

/// The version of the columns of [`to_parquet`], in the file's metadata as
/// `prairie.lab.version`.
pub const SCHEMA_VERSION: u32 = 1;

/// Samples of a run, spread evenly over its simulated time.
pub const SAMPLES: u64 = 200;

/// The state of a machine at one instant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// Simulated nanoseconds since boot.
    pub time_ns: u64,
    /// F_u(9) over all zones.
    pub unusable_2_mib: f64,
    /// Frames on the free lists.
    pub free_frames: u64,
    /// Frames of anonymous memory.
    pub anonymous_frames: u64,
    /// Frames of page cache.
    pub file_frames: u64,
    /// Frames of the kernel's caches of small objects.
    pub slab_frames: u64,
    /// Frames of page tables, stacks and other kernel memory, pinned ones included.
    pub kernel_frames: u64,
    /// 2 MiB blocks with at least one unmovable frame.
    pub polluted_blocks: u64,
    /// Pages of swap in use.
    pub swap_used: u64,
    /// Allocations, frees, faults and reads so far.
    pub operations: u64,
}

impl Moment {
    fn take(machine: &Machine) -> Moment {
        let memory = machine.memory();
        let used = |used_as| memory.pages.frames_used_as(used_as);
        let kernel = [Use::PageTable, Use::Stack, Use::Kernel, Use::Pinned];
        Moment {
            time_ns: machine.now_ns(),
            unusable_2_mib: unusable_free_space(
                FreeBlocks { counts: &machine.free_blocks() },
                Order::HUGE,
            ),
            free_frames: memory.free_frames(),
            anonymous_frames: used(Use::Anonymous),
            file_frames: used(Use::File),
            slab_frames: used(Use::Slab),
            kernel_frames: kernel.into_iter().map(used).sum(),
            polluted_blocks: memory
                .table
                .blocks()
                .iter()
                .filter(|b| BlockCounts::is_polluted(b))
                .count() as u64,
            swap_used: machine.swap_used(),
            operations: machine.operations(),
        }
    }
}

/// The results of one allocator.
#[derive(Clone, Debug, Serialize)]
pub struct SystemResult {
    /// The system, with its options.
    pub system: String,
    /// Counters by the kernel's names.
    pub counters: Counters,
    /// Processes that ended by themselves, by kind.
    pub ended: Vec<(String, u64)>,
    /// Processes that the OOM killer chose.
    pub killed: Vec<OomKill>,
    /// How far pools of huge pages grew when phases asked for it.
    pub pools: Vec<PoolChange>,
    /// The machine over time.
    pub moments: Vec<Moment>,
}

/// The results of a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// Its name.
    pub scenario: String,
    /// Its seed.
    pub seed: u64,
    /// Frames of the machine.
    pub frames: u64,
    /// Simulated nanoseconds.
    pub simulated_ns: u64,
    /// Whether the run was stopped before its end.
    pub interrupted: bool,
    /// The systems, in the order requested.
    pub systems: Vec<SystemResult>,
}

/// Runs a scenario under one allocator after another. `progress` gets the current allocator and the
/// share of its time that has passed.
///
/// # Errors
/// If the scenario's memory makes no layout.
pub fn run(
    scenario: &Scenario,
    systems: &[Allocator],
    progress: &mut dyn FnMut(usize, f64),
    cancel: &AtomicBool,
) -> Result<Results, LayoutError> {
    let simulated_ns = scenario.phases.iter().map(|phase| phase.duration.0).sum();
    let mut results = Results {
        scenario: scenario.name.clone(),
        seed: scenario.seed,
        frames: scenario.machine.memory.frames(),
        simulated_ns,
        interrupted: false,
        systems: Vec::new(),
    };
    for (at, system) in systems.iter().enumerate() {
        let mut machine = Machine::new(scenario, system)?;
        let mut tell = |done| progress(at, done);
        let moments = live(&mut machine, scenario, simulated_ns, &mut tell, cancel);
        results.interrupted = cancel.load(Ordering::Relaxed);
        let ended = scenario.processes.iter().map(|kind| kind.name.clone());
        results.systems.push(SystemResult {
            system: system.name().to_owned(),
            counters: *machine.counters(),
            ended: ended.map(|name| (name.clone(), machine.ended(&name))).collect(),
            killed: machine.killed().to_vec(),
            pools: machine.pool_changes().to_vec(),
            moments,
        });
        if results.interrupted {
            break;
        }
    }
    Ok(results)
}

/// Lets a machine live through all phases.
pub fn live(
    machine: &mut Machine,
    scenario: &Scenario,
    simulated_ns: u64,
    progress: &mut dyn FnMut(f64),
    cancel: &AtomicBool,
) -> Vec<Moment> {
    let step = (simulated_ns / SAMPLES).max(1);
    let mut moments = vec![Moment::take(machine)];
    let mut next = step;
    let mut phase_end = 0;
    for phase in &scenario.phases {
        machine.begin(phase);
        phase_end += phase.duration.0;
        while machine.now_ns() < phase_end && !cancel.load(Ordering::Relaxed) {
            let until = next.min(phase_end);
            machine.run_for(Duration::from_nanos(until - machine.now_ns()));
            if machine.now_ns() >= next {
                moments.push(Moment::take(machine));
                progress(machine.now_ns() as f64 / simulated_ns as f64);
                next += step;
            }
        }
    }
    moments
}

const COLUMNS: Columns<Moment> = Columns {
    message: "prairie_lab",
    version_key: "prairie.lab.version",
    version: SCHEMA_VERSION,
    unusable: |m| m.unusable_2_mib,
    counts: &[
        ("time_ns", |m| m.time_ns),
        ("free_frames", |m| m.free_frames),
        ("anonymous_frames", |m| m.anonymous_frames),
        ("file_frames", |m| m.file_frames),
        ("slab_frames", |m| m.slab_frames),
        ("kernel_frames", |m| m.kernel_frames),
        ("polluted_blocks", |m| m.polluted_blocks),
        ("swap_used", |m| m.swap_used),
        ("operations", |m| m.operations),
    ],
};

/// The samples as the contents of a Parquet file: a row for each system and instant.
///
/// # Errors
/// If the rows cannot be encoded.
pub fn to_parquet(results: &Results) -> parquet::errors::Result<Vec<u8>> {
    COLUMNS.encode(results.systems.iter().map(|s| (s.system.as_str(), s.moments.as_slice())))
}
