//! What values may be.

use std::collections::BTreeSet;
use std::fmt::Display;

use prairie_frames::placement::zones::Kernelcore;
use prairie_model::allocator::Allocator;

use super::{ProcessKind, Scenario};
use prairie_model::random::Spread;
use prairie_model::zones::Architecture;

/// A value that no machine can have: the key, the value and the range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value}; {right}")]
pub struct Invalid {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What would be right.
    pub right: String,
}

/// Whether an allocator's options fit a machine with `memory` bytes.
///
/// # Errors
/// If the movable zone would begin beyond memory.
pub fn check_allocator(allocator: &Allocator, memory: u64) -> Result<(), Invalid> {
    let core = match allocator.settings.kernelcore {
        None => return Ok(()),
        Some(Kernelcore::Frames(frames)) => frames * 4096,
        Some(share) => share.of(memory / 4096) * 4096,
    };
    within(format!("kernelcore of `{}`, in bytes", allocator.name()), core, 8 << 20, memory)
}

fn refuse(key: impl Display, value: impl Display, right: impl Display) -> Result<(), Invalid> {
    Err(Invalid { key: key.to_string(), value: value.to_string(), right: right.to_string() })
}

fn within<T: PartialOrd + Display>(
    key: impl Display,
    value: T,
    low: T,
    high: T,
) -> Result<(), Invalid> {
    if low <= value && value <= high {
        return Ok(());
    }
    refuse(key, &value, format!("it must lie between {low} and {high}"))
}

fn spread<Q>(key: impl Display, spread: &Spread<Q>, high: f64) -> Result<(), Invalid> {
    within(format!("the mean of {key}"), spread.mean(), 0.0, high)
}

const TIB: u64 = 1 << 40;
/// A year in nanoseconds.
const YEAR: f64 = 365.0 * 86_400.0 * 1e9;

impl Scenario {
    /// Whether such a machine can exist and such a workload run.
    ///
    /// # Errors
    /// The first value that is out of its range.
    pub fn check(&self) -> Result<(), Invalid> {
        self.check_machine()?;
        self.check_vm()?;
        self.check_files()?;
        for process in &self.processes {
            self.check_process(process)?;
        }
        for (at, kernel) in self.kernel.iter().enumerate() {
            let key = |name| format!("kernel[{at}] `{}`: {name}", kernel.name);
            within(key("order"), kernel.order, 0, 10)?;
            within(key("rate"), kernel.rate, 0.0, 1e7)?;
            spread(key("lifetime"), &kernel.lifetime, YEAR)?;
        }
        self.check_phases()
    }

    fn check_machine(&self) -> Result<(), Invalid> {
        let machine = &self.machine;
        let (memory, mib) = (machine.memory.0, 1u64 << 20);
        if !(16 * mib..=4 * TIB).contains(&memory) {
            refuse("machine.memory", format!("{memory} bytes"), "it must lie between 16M and 4T")?;
        }
        within("machine.cpus", machine.cpus, 1, 8192)?;
        within("machine.nodes", machine.nodes, 1, 15)?;
        within("machine.huge_order", machine.huge_order, 1, 12)?;
        let largest = memory / 4;
        if machine.kernel.0 > largest {
            refuse(
                "machine.kernel",
                format!("{} bytes", machine.kernel.0),
                format!("it must be at most a quarter of machine.memory, {largest}"),
            )?;
        }
        if let Some(core) = machine.kernelcore
            && !(8 * mib..=memory).contains(&core.0)
        {
            refuse(
                "machine.kernelcore",
                format!("{} bytes", core.0),
                format!("it must lie between 8M and machine.memory, {memory}"),
            )?;
        }
        if let Some(low) = machine.low
            && (!(32 * mib..memory).contains(&low.0)
                || machine.nodes > 1
                || machine.architecture != Architecture::X86_64)
        {
            refuse(
                "machine.low",
                format!("{} bytes", low.0),
                "it must lie between 32M and machine.memory, on one node of x86-64",
            )?;
        }
        if machine.swap.0 > 4 * TIB {
            refuse("machine.swap", machine.swap.0, "it must be at most 4T")?;
        }
        if memory / u64::from(machine.nodes) < 16 * mib {
            refuse("machine.nodes", machine.nodes, "each node must have at least 16M of memory")?;
        }
        within("disk.bandwidth", self.disk.bandwidth.0, 1 << 10, TIB)
    }

    fn check_vm(&self) -> Result<(), Invalid> {
        let vm = &self.vm;
        within("vm.swappiness", vm.swappiness, 0, 200)?;
        within("vm.watermark_scale_factor", vm.watermark_scale_factor, 1, 3000)?;
        within("vm.watermark_boost_factor", vm.watermark_boost_factor, 0, 1_000_000)?;
        within("vm.extfrag_threshold", vm.extfrag_threshold, 0, 1000)?;
        within("vm.compaction_proactiveness", vm.compaction_proactiveness, 0, 100)?;
        within("vm.dirty_background_ratio", vm.dirty_background_ratio, 0, 100)?;
        within("vm.dirty_ratio", vm.dirty_ratio, 1, 100)?;
        if let Some(min_free) = vm.min_free
            && min_free.0 > self.machine.memory.0 / 4
        {
            let right = "it must be at most a quarter of machine.memory";
            refuse("vm.min_free", format!("{} bytes", min_free.0), right)?;
        }
        Ok(())
    }

    fn check_files(&self) -> Result<(), Invalid> {
        unique("files", self.files.iter().map(|set| set.name.as_str()))?;
        unique("process", self.processes.iter().map(|kind| kind.name.as_str()))?;
        unique("kernel", self.kernel.iter().map(|kind| kind.name.as_str()))?;
        for set in &self.files {
            let key = |name| format!("files `{}`: {name}", set.name);
            within(key("count"), set.count, 1, 50_000_000)?;
            within(key("copies"), set.copies, 1, 10_000)?;
            let files = u64::from(set.count) * u64::from(set.copies);
            within(key("count times copies"), files, 1, 50_000_000)?;
            spread(key("size"), &set.size, TIB as f64)?;
        }
        Ok(())
    }

    fn check_process(&self, process: &ProcessKind) -> Result<(), Invalid> {
        let key = |name| format!("process `{}`: {name}", process.name);
        spread(key("cpu"), &process.cpu, YEAR)?;
        spread(key("anonymous"), &process.anonymous, TIB as f64)?;
        spread(key("read"), &process.read, 1e18)?;
        spread(key("write"), &process.write, 1e18)?;
        spread(key("pause"), &process.pause, YEAR)?;
        within(key("growth"), process.growth, 0.001, 1.0)?;
        within(key("hot"), process.hot, 0.0, 1.0)?;
        within(key("skew"), process.skew, 1.0, 20.0)?;
        within(key("stat_rate"), process.stat_rate, 0.0, 1e7)?;
        within(key("slice in ns"), process.slice.0, 1_000, 1_000_000_000)?;
        match &process.files {
            Some(name) if !self.files.iter().any(|set| set.name == *name) => {
                refuse(key("files"), format!("`{name}`"), "no [[files]] has that name")
            }
            None if process.read.mean() > 0.0 || process.stat_rate > 0.0 => {
                refuse(key("files"), "not given", "a process that reads must name its files")
            }
            _ => Ok(()),
        }
    }

    fn check_phases(&self) -> Result<(), Invalid> {
        for phase in &self.phases {
            let key = |name| format!("phase `{}`: {name}", phase.name);
            within(key("duration in ns"), phase.duration.0 as f64, 0.0, YEAR)?;
            let memory = self.machine.memory.0;
            let huge = memory >> (12 + self.machine.huge_order);
            within(key("hugetlb"), phase.hugetlb.unwrap_or(0), 0, huge)?;
            within(key("gigantic"), phase.gigantic.unwrap_or(0), 0, memory >> 30)?;
            for (name, &count) in &phase.run {
                if !self.processes.iter().any(|kind| kind.name == *name) {
                    refuse(key("run"), format!("`{name}`"), "no [[process]] has that name")?;
                }
                within(key("run"), count, 0, 100_000)?;
            }
            for name in phase.kernel.iter().flatten() {
                if !self.kernel.iter().any(|kind| kind.name == *name) {
                    refuse(key("kernel"), format!("`{name}`"), "no [[kernel]] has that name")?;
                }
            }
            for name in &phase.delete {
                if !self.files.iter().any(|set| set.name == *name) {
                    refuse(key("delete"), format!("`{name}`"), "no [[files]] has that name")?;
                }
            }
        }
        Ok(())
    }
}

fn unique<'a>(table: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Invalid> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            refuse(format!("{table}.name"), format!("`{name}`"), "it must be used only once")?;
        }
    }
    Ok(())
}
