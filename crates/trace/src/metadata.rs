//! The description of a trace, kept as JSON in the file's metadata.

use std::collections::BTreeMap;

use prairie_host::Capture;
use serde::{Deserialize, Serialize};

/// The description of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metadata {
    /// Where the rows come from.
    pub origin: Origin,
    /// `uname -r` of the machine; empty where it is not known.
    pub kernel_release: String,
    /// Base page size in bytes of the machine.
    pub page_bytes: u64,
    /// The machine's texts (zones, free lists, …) as the recording began, or when the survey was
    /// made. Its frames are the rows of the snapshot.
    pub before: Option<Capture>,
    /// The same texts after the last event, to compare with the end of a replay.
    pub after: Option<Capture>,
    /// How it was recorded.
    pub recording: Option<Recording>,
    /// Lost events by CPU; CPUs without losses are omitted.
    pub lost_by_cpu: BTreeMap<u16, u64>,
    /// Frames that were allocated again without an event that frees them, though the kernel did
    /// not report it lost. Counted by the writer.
    pub frees_missing: u64,
    /// Rows of the snapshot. Counted by the writer.
    pub frame_runs: u64,
    /// Rows after it. Counted by the writer.
    pub events: u64,
    /// One more than the last frame that any row names: the least number of frames that the
    /// machine must have. Counted by the writer.
    pub frames_named: u64,
}

/// Where a trace comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Origin {
    /// Recorded by Prairie on a Linux machine.
    #[default]
    Recorded,
    /// A snapshot without events.
    Survey,
    /// Converted from another tool's trace.
    Imported {
        /// Which tool's.
        format: String,
    },
    /// Made up by a generator.
    Generated {
        /// Its parameters.
        description: String,
    },
}

/// How a trace was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Recording {
    /// The command that ran meanwhile, if one did.
    pub command: Option<Vec<String>>,
    /// `CLOCK_MONOTONIC` when the events were switched on.
    pub started_ns: u64,
    /// `CLOCK_MONOTONIC` when they were switched off.
    pub ended_ns: u64,
    /// CPUs that were recorded.
    pub cpus: Vec<u16>,
    /// Size of each CPU's ring.
    pub ring_bytes: u64,
    /// Whether call chains were recorded.
    pub stacks: bool,
    /// Whether what moves between the per-CPU lists and the zone was recorded.
    pub per_cpu_lists: bool,
    /// Whether long-term pins were recorded.
    pub pins: bool,
    /// Whether unrelated processes are named `other`.
    pub others_hidden: bool,
    /// Events that came too late to be put in their place by time.
    pub out_of_order: u64,
    /// The kernel's names of its migrate types, in the order of its own numbers.
    pub kernel_migrate_types: Vec<String>,
    /// The text of each tracepoint's `format` file; that of `mm_page_alloc` names the bits of
    /// `gfp_flags`.
    pub tracepoint_formats: BTreeMap<String, String>,
}

impl Recording {
    /// Nanoseconds that were recorded.
    pub fn duration_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.started_ns)
    }
}

impl Metadata {
    /// Lost events.
    pub fn lost_events(&self) -> u64 {
        self.lost_by_cpu.values().sum()
    }
}
