//! Figures that two sources report, side by side, as consistency checks.

use prairie_frames::Mobility;
use serde::Serialize;

use super::tally::FrameCounts;
use crate::texts::zoneinfo::ZoneInfo;
use crate::texts::{fields, vmstat};
use crate::{Capture, Error, FrameClass};

/// One comparison, in frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CrossCheck {
    /// The figure.
    pub what: String,
    /// The value by the frames' flags.
    pub by_flags_frames: u64,
    /// What another file says.
    pub by_kernel_frames: u64,
    /// Which file, and how the two should relate.
    pub relation: &'static str,
}

/// Every comparison that the capture allows; none without frames or zones.
///
/// # Errors
/// [`Error::Parse`] where `meminfo` or `vmstat` is malformed.
pub(super) fn cross_checks(
    capture: &Capture,
    zones: &[ZoneInfo],
    counts: Option<&FrameCounts>,
) -> Result<Vec<CrossCheck>, Error> {
    let Some(counts) = counts.filter(|_| !zones.is_empty()) else { return Ok(Vec::new()) };
    let text = |file| capture.files.get(file).map(String::as_str).unwrap_or_default();
    let sizes = fields::sizes("proc/meminfo", text("proc/meminfo"))?;
    let vmstat = vmstat::parse(text(vmstat::FILE))?;
    let class = |class: FrameClass| {
        counts.zones.iter().map(|zone| zone.frames_by_class[class.index()]).sum()
    };
    let sum = |of: fn(&ZoneInfo) -> u64| zones.iter().map(of).sum();
    let mut checks = Vec::new();
    let mut check = |what: &str, flags: u64, kernel: Option<u64>, relation| {
        if let Some(by_kernel_frames) = kernel {
            let what = what.to_owned();
            checks.push(CrossCheck { what, by_flags_frames: flags, by_kernel_frames, relation });
        }
    };
    let present = counts.zones.iter().map(|zone| zone.present_frames()).sum();
    check(
        "frames that exist",
        present,
        Some(sum(|zone| zone.present_frames)),
        "zoneinfo, present: equal, unless the memory map or the zones' spans are not known",
    );
    let free = counts.zones.iter().map(|zone| zone.frames_of(Mobility::Free)).sum();
    check(
        "free frames",
        free,
        Some(sum(|zone| zone.free_frames)),
        "zoneinfo, free: close; the host keeps running while its frames are read",
    );
    check(
        "frames without flags, uninitialized ones apart",
        class(FrameClass::Unflagged),
        Some(sum(ZoneInfo::per_cpu_frames)),
        "zoneinfo, per-CPU lists: a lower bound: these frames are free and carry no flag",
    );
    check(
        "uninitialized and reserved frames",
        class(FrameClass::Uninitialized)
            + class(FrameClass::Reserved)
            + class(FrameClass::ZeroPage),
        Some(sum(|zone| zone.present_frames.saturating_sub(zone.managed_frames))),
        "zoneinfo, present less managed: equal, but for frames that drivers reserved later",
    );
    check(
        "slab",
        class(FrameClass::Slab),
        sizes.get("Slab").map(|bytes| bytes / 4096),
        "meminfo, Slab: near; large kmalloc blocks are counted there and carry no flag",
    );
    check(
        "page tables",
        class(FrameClass::PageTable),
        sizes.get("PageTables").map(|bytes| bytes / 4096),
        "meminfo, PageTables: near",
    );
    check(
        "anonymous memory",
        class(FrameClass::Anonymous) + class(FrameClass::AnonymousThp),
        sizes.get("AnonPages").map(|bytes| bytes / 4096),
        "meminfo, AnonPages: near",
    );
    check(
        "other kernel memory and frames without flags",
        class(FrameClass::KernelOther) + class(FrameClass::Unflagged),
        vmstat.get("nr_zspages").copied(),
        "vmstat, nr_zspages: a lower bound: these could be moved, but no flag shows them",
    );
    Ok(checks)
}
