//! Applies a scenario's settings of memory management to the kernel.

use std::fs;

use anyhow::{Context, Result};
use prairie_sim::machine::scenario::{Defrag, HugePages, Vm};

/// Writes what the scenario says to `/proc/sys/vm` and `/sys/kernel/mm/transparent_hugepage`.
///
/// # Errors
/// If the kernel refuses a value.
pub(crate) fn apply(vm: &Vm) -> Result<()> {
    let sysctl = |name, value: u64| set(&format!("/proc/sys/vm/{name}"), &value.to_string());
    sysctl("swappiness", vm.swappiness)?;
    sysctl("watermark_scale_factor", vm.watermark_scale_factor)?;
    sysctl("watermark_boost_factor", vm.watermark_boost_factor)?;
    sysctl("extfrag_threshold", vm.extfrag_threshold.unsigned_abs())?;
    sysctl("compaction_proactiveness", vm.compaction_proactiveness)?;
    sysctl("dirty_background_ratio", vm.dirty_background_ratio)?;
    sysctl("dirty_ratio", vm.dirty_ratio)?;
    if let Some(min_free) = vm.min_free {
        sysctl("min_free_kbytes", min_free.0 >> 10)?;
    }
    let enabled = match vm.thp {
        HugePages::Always => "always",
        HugePages::Madvise => "madvise",
        HugePages::Never => "never",
    };
    let defrag = match vm.thp_defrag {
        Defrag::Always => "always",
        Defrag::Defer => "defer",
        Defrag::DeferMadvise => "defer+madvise",
        Defrag::Madvise => "madvise",
        Defrag::Never => "never",
    };
    set("/sys/kernel/mm/transparent_hugepage/enabled", enabled)?;
    set("/sys/kernel/mm/transparent_hugepage/defrag", defrag)
}

fn set(path: &str, value: &str) -> Result<()> {
    fs::write(path, value).with_context(|| format!("{path}: `{value}` was refused"))
}
