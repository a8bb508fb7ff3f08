//! The benchmarks of the 2006 paper (section 7), on simulated machines.
//!
//! As in the paper, a machine boots once and the tests follow each other without a reboot, so that
//! it has every chance to become fragmented: kbuild, the load of AIM9, HugeTLB-Capability, Highalloc-Stress, HotRemove-Capability. What they measure comes out of
//! what the machine does; nothing here knows which system is better.

mod aim9;
mod gigantic;
mod highalloc;
mod hotremove;
mod hugetlb;
mod kbuild;
mod preset;
pub mod reclaim_difficulty;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use prairie_frames::Order;
use prairie_frames::layout::LayoutError;
use serde::Serialize;

pub use gigantic::Gigantic;
pub use highalloc::{Highalloc, Pass};
pub use hotremove::HotRemove;
pub use hugetlb::HugeTlb;
pub use kbuild::Kbuild;
pub use preset::{Load, Preset};

use crate::machine::Machine;
use crate::machine::counters::Counters;
use crate::machine::scenario::{Phase, Scenario};
use prairie_model::allocator::Allocator;

/// Processes that run all the time.
pub(crate) const DAEMONS: u32 = 8;

/// The results of all benchmarks under one allocator.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The system, with its options.
    pub system: String,
    /// Time to unpack and build one kernel.
    pub kbuild: Kbuild,
    /// Pool sizes reached through `/proc/sys/vm/nr_hugepages`.
    pub hugetlb: HugeTlb,
    /// Allocations forced by a module.
    pub highalloc: Highalloc,
    /// Sections taken offline.
    pub hotremove: HotRemove,
    /// Processes that the OOM killer chose.
    pub oom_kills: u64,
    /// Counters by the kernel's names.
    pub counters: Counters,
    /// Allocations, frees, faults and reads.
    pub operations: u64,
    /// Simulated time.
    pub simulated_ns: u64,
}

/// A machine on which benchmarks run.
pub(crate) struct Bench<'a> {
    pub machine: Machine,
    pub scenario: Scenario,
    pub preset: Preset,
    /// Kernel compiles at a time.
    pub jobs: u32,
    progress: &'a mut dyn FnMut(&str),
    cancel: &'a AtomicBool,
}

impl<'a> Bench<'a> {
    /// A machine that has booted. What any machine runs starts while memory is still whole.
    fn boot(
        preset: Preset,
        load: Load,
        seed: u64,
        system: &Allocator,
        progress: &'a mut dyn FnMut(&str),
        cancel: &'a AtomicBool,
    ) -> Result<Bench<'a>, LayoutError> {
        let scenario = preset.scenario(seed);
        let machine = Machine::new(&scenario, system)?;
        let jobs = preset.compiles(load);
        let mut bench = Bench { machine, scenario, preset, jobs, progress, cancel };
        bench.run("boot", &[("daemon", DAEMONS)], &[], 30);
        Ok(bench)
    }

    /// Lets processes of these kinds run, and no others, for `seconds`.
    pub fn run(&mut self, name: &str, kinds: &[(&str, u32)], delete: &[&str], seconds: u64) {
        let phase = Phase {
            name: name.to_owned(),
            duration: crate::machine::scenario::Nanoseconds(seconds * 1_000_000_000),
            run: kinds.iter().map(|&(kind, count)| (kind.to_owned(), count)).collect(),
            kernel: None,
            delete: delete.iter().map(|&set| set.to_owned()).collect(),
            hugetlb: None,
            gigantic: None,
        };
        self.machine.begin(&phase);
        self.wait(Duration::from_secs(seconds));
    }

    /// Lets time pass, unless the run is to end.
    pub fn wait(&mut self, time: Duration) {
        if !self.is_cancelled() {
            self.machine.run_for(time);
        }
    }

    /// Whether the run is to end early.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// The order of the machine's huge page.
    pub fn order(&self) -> Order {
        Order::new(self.scenario.machine.huge_order).unwrap_or(Order::HUGE)
    }

    /// Huge pages that would fill memory.
    pub fn huge_pages(&self) -> u64 {
        self.scenario.machine.memory.frames() / self.order().frames()
    }
}

/// Highalloc-Stress alone, after boot: its results, and the number of allocations, frees, faults
/// and reads it took; `None` if it was cancelled.
///
/// # Errors
/// If the preset's memory makes no layout.
pub fn stress(
    preset: Preset,
    load: Load,
    seed: u64,
    system: &Allocator,
    cancel: &AtomicBool,
) -> Result<Option<(Highalloc, u64)>, LayoutError> {
    let mut silent = |_: &str| {};
    let mut bench = Bench::boot(preset, load, seed, system, &mut silent, cancel)?;
    let highalloc = highalloc::run(&mut bench);
    let finished = !bench.is_cancelled();
    Ok(finished.then(|| (highalloc, bench.machine.operations())))
}

/// Runs all benchmarks under `system`; `None` if it was cancelled. `progress` is called with each
/// step.
///
/// # Errors
/// If the preset's memory makes no layout.
pub fn run(
    preset: Preset,
    load: Load,
    seed: u64,
    system: &Allocator,
    progress: &mut dyn FnMut(&str),
    cancel: &AtomicBool,
) -> Result<Option<Outcome>, LayoutError> {
    let mut bench = Bench::boot(preset, load, seed, system, progress, cancel)?;
    (bench.progress)("kbuild");
    let kbuild = kbuild::run(&mut bench);
    (bench.progress)("AIM9");
    aim9::run(&mut bench);
    (bench.progress)("HugeTLB-Capability");
    let hugetlb = hugetlb::run(&mut bench);
    (bench.progress)("Highalloc-Stress");
    let highalloc = highalloc::run(&mut bench);
    (bench.progress)("HotRemove-Capability");
    let hotremove = hotremove::run(&mut bench);
    if bench.is_cancelled() {
        return Ok(None);
    }
    Ok(Some(Outcome {
        system: system.name().to_owned(),
        kbuild,
        hugetlb,
        highalloc,
        hotremove,
        oom_kills: bench.machine.killed().len() as u64,
        counters: *bench.machine.counters(),
        operations: bench.machine.operations(),
        simulated_ns: bench.machine.now_ns(),
    }))
}
