//! A survey: a host's memory fragmentation, its causes, and potential contiguity.
//!
//! [`Survey::of`] is pure: the same capture gives the same survey, whether it was taken a moment
//! ago or read from a file. The page `docs/src/concepts/definitions.md` defines every figure.

pub mod cgroups;
mod checks;
pub mod counters;
pub mod frame_report;
pub mod free_lists;
pub mod huge_pages;
pub mod pins;
pub mod polluted;
mod regions;
pub mod settings;
mod tally;
mod zones;

use prairie_frames::Order;
use serde::Serialize;

pub use cgroups::CgroupMemory;
pub use checks::CrossCheck;
pub use counters::Counter;
pub use frame_report::FrameReport;
pub use free_lists::FreeLists;
pub use huge_pages::HugePages;
pub use pins::Pins;
pub use settings::HostSetting;
pub use tally::{FrameCounts, FrameTally};
pub use zones::ZoneSurvey;

use crate::layout::Layout;
use crate::texts::{vmstat, zoneinfo};
use crate::{Capture, Contiguitas, Error, LeftOut};

/// The results of one capture. Times in nanoseconds, sizes in bytes or frames as named, shares from
/// 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Survey {
    /// Version of this structure in JSON; grows when a field changes its meaning or goes.
    pub schema_version: u32,
    /// Wall-clock time of the capture, nanoseconds since 1970.
    pub taken_at_unix_ns: u64,
    /// `uname -r`.
    pub kernel_release: String,
    /// `uname -m`.
    pub machine: String,
    /// Size of a frame.
    pub page_bytes: u64,
    /// Seconds since boot; `None` without `uptime`.
    pub uptime_seconds: Option<f64>,
    /// Every zone with memory, by node and kind.
    pub zones: Vec<ZoneSurvey>,
    /// The free lists of all zones together; `None` without `buddyinfo`.
    pub free_lists: Option<FreeLists>,
    /// Measures over all frames; `None` where the frames could not be read.
    pub frames: Option<FrameReport>,
    /// The regions of a kernel with a movable border (`kernel/` in Prairie's repository); `None` on
    /// other kernels.
    pub contiguitas: Option<Contiguitas>,
    /// Huge pages in use.
    pub huge_pages: HugePages,
    /// Pinned memory by source; `None` where the capture shows nothing of it.
    pub pins: Option<Pins>,
    /// Memory of the control groups near the root (cgroup v2), the most anonymous memory first.
    pub cgroups: Vec<CgroupMemory>,
    /// Settings that shape fragmentation and huge pages.
    pub settings: Vec<HostSetting>,
    /// Counters that report them.
    pub counters: Vec<Counter>,
    /// Consistency checks.
    pub cross_checks: Vec<CrossCheck>,
    /// What is missing, with reason and remedy.
    pub left_out: Vec<LeftOut>,
}

impl Survey {
    /// The value of [`Survey::schema_version`].
    pub const SCHEMA_VERSION: u32 = 1;

    /// The survey of a capture that holds its frames (or has none).
    ///
    /// Linear in frame runs and pageblocks; 28 bytes for each 2 MiB meanwhile.
    ///
    /// # Errors
    /// [`Error::PageSize`]; [`Error::Parse`] where a text is malformed; [`Error::RunOrder`] and
    /// [`Error::FrameLimit`] for frames or zones that cannot be.
    pub fn of(capture: &Capture) -> Result<Survey, Error> {
        let counts = match &capture.frames {
            Some(runs) => {
                let mut tally = FrameTally::new(Layout::of(capture)?, Order::HUGE);
                runs.iter().try_for_each(|run| tally.push(*run))?;
                Some(tally.finish())
            }
            None => None,
        };
        Survey::with_counts(capture, counts.as_ref())
    }

    /// Seconds since boot; `None` without `uptime`.
    pub fn uptime_of(capture: &Capture) -> Option<f64> {
        uptime(capture.files.get("proc/uptime")?)
    }

    /// All memory: by frames or by the zones' present pages, whichever is more.
    pub fn memory_bytes(&self) -> u64 {
        let by_frames = self.frames.as_ref().map_or(0, |frames| frames.present_frames);
        by_frames.max(self.zones_frames()).saturating_mul(self.page_bytes)
    }

    /// Present frames of all zones, by `zoneinfo`.
    pub fn zones_frames(&self) -> u64 {
        let extents = self.zones.iter().filter_map(|zone| zone.extent.as_ref());
        extents.map(|extent| extent.present_frames).sum()
    }

    /// The survey of a capture whose frames went into a [`FrameTally`] as they were read.
    ///
    /// # Errors
    /// As [`Survey::of`].
    pub fn with_counts(capture: &Capture, counts: Option<&FrameCounts>) -> Result<Survey, Error> {
        if capture.page_bytes != 4096 {
            return Err(Error::PageSize(capture.page_bytes));
        }
        let text = |file| capture.files.get(file).map(String::as_str).unwrap_or_default();
        let zone_infos = zoneinfo::parse(text(zoneinfo::FILE))?;
        let vmstat = vmstat::parse(text(vmstat::FILE))?;
        let zones = zones::survey(capture, &zone_infos, counts)?;
        let lists = || zones.iter().filter_map(|zone| zone.free_lists.as_ref());
        let frames = counts.map(|counts| FrameReport::of(&counts.zones.iter().collect::<Vec<_>>()));
        let huge_pages = HugePages::of(capture)?;
        let contiguitas = regions::survey(capture, counts)?;
        Ok(Survey {
            schema_version: Survey::SCHEMA_VERSION,
            taken_at_unix_ns: capture.taken_at_unix_ns,
            kernel_release: capture.kernel_release.clone(),
            machine: capture.machine.clone(),
            page_bytes: capture.page_bytes,
            uptime_seconds: Survey::uptime_of(capture),
            free_lists: lists().next().is_some().then(|| FreeLists::together(lists())),
            cross_checks: checks::cross_checks(capture, &zone_infos, counts)?,
            zones,
            frames,
            contiguitas,
            huge_pages,
            pins: Pins::of(capture, &vmstat)?,
            cgroups: cgroups::of(capture)?,
            settings: settings::settings(capture)?,
            counters: counters::counters(&vmstat),
            left_out: capture.left_out.clone(),
        })
    }
}

/// The first number of `/proc/uptime`.
fn uptime(text: &str) -> Option<f64> {
    let seconds: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
}

/// `part / whole`, and 0 for nothing of nothing.
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The share of `frames` that lies in `blocks` of `order`.
pub(crate) fn share(blocks: u64, order: Order, frames: u64) -> f64 {
    ratio(blocks * order.frames(), frames)
}
