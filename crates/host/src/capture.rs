//! A host's memory at one moment, as the kernel reported it: texts unparsed, frames as runs.
//!
//! Texts are kept as they were read, so that a capture made by an old Prairie is understood by a
//! newer one that parses more of it, and so that a report on a saved capture goes through exactly
//! the code that a live one does.

use std::collections::BTreeMap;

use prairie_frames::Pfn;
use serde::{Deserialize, Serialize};

use crate::PageFlags;

/// Consecutive frames with equal flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRun {
    /// The first frame.
    pub start: Pfn,
    /// How many frames, at least one.
    pub frames: u64,
    /// The flags of each.
    pub flags: PageFlags,
    /// When they were read: nanoseconds of `CLOCK_MONOTONIC`. Frames change while a large file is
    /// read; a replay uses this to know which events the run already shows.
    pub read_at_ns: u64,
}

/// Something that could not be read, for the one line that says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// What is missing from the capture, in the user's terms.
    pub what: String,
    /// Why: the file and the system's error.
    pub why: String,
    /// How to get it.
    pub remedy: String,
}

/// The data read from one host. The frames are apart from the rest because they are rows (in
/// Parquet) where the rest is a description (JSON in the file's metadata).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// Wall-clock time of the capture, nanoseconds since 1970.
    pub taken_at_unix_ns: u64,
    /// `CLOCK_MONOTONIC` at the same instant, which places `read_at_ns` and events in time.
    pub taken_at_monotonic_ns: u64,
    /// `uname -r`.
    pub kernel_release: String,
    /// `uname -m`.
    pub machine: String,
    /// Base page size in bytes.
    pub page_bytes: u64,
    /// Texts by path: `proc/buddyinfo`, `proc/123/smaps_rollup`,
    /// `sys/kernel/mm/transparent_hugepage/enabled`, …
    pub files: BTreeMap<String, String>,
    /// Missing parts, with the reason.
    pub left_out: Vec<LeftOut>,
    /// Every frame from 0 to the last that the kernel knows, ascending and without overlap; `None`
    /// where the flags could not be read.
    #[serde(skip)]
    pub frames: Option<Vec<FrameRun>>,
}
