//! What the daemon reports: one JSON document for `prairie regions status`, and Prometheus metrics.

use std::time::Duration;

use prairie_daemon::metrics::Kind::{Counter, Gauge};
use prairie_daemon::metrics::{Family, Metric};
use prairie_daemon::status;
use serde::{Deserialize, Serialize};

use crate::policy::{NodeReport, Policy};

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// The kernel's number for it.
    pub node: u32,
    /// Memory in the kernel zones, in bytes.
    pub kernel_bytes: u64,
    /// Memory in the movable zone.
    pub movable_bytes: u64,
    /// Free for kernel requests, or page cache that they can reclaim.
    pub kernel_available_bytes: u64,
    /// What the kernel itself uses.
    pub kernel_own_bytes: u64,
    /// User memory in the kernel zones.
    pub kernel_user_bytes: u64,
    /// Free in the movable zone.
    pub movable_free_bytes: u64,
    /// Clean page cache in the movable zone.
    pub movable_cache_bytes: u64,
    /// Below this the kernel region grows.
    pub reserve_bytes: u64,
    /// Above this it shrinks.
    pub excess_bytes: u64,
    /// What the kernel uses more, a second.
    pub rate_bytes: u64,
    /// Seconds until the kernel region is used up at that rate.
    pub exhausted_in_seconds: Option<f64>,
    /// Seconds that a conversion takes.
    pub conversion_seconds: f64,
    /// Share of time stalled for kernel memory.
    pub kernel_stalled: f64,
    /// Share of time stalled for user memory.
    pub user_stalled: f64,
    /// Why nothing more is done; empty if nothing stands against anything.
    pub guard: String,
    /// Setting up is over.
    pub set_up: bool,
}

/// The daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Status {
    /// The kind of document.
    pub schema: String,
    /// Version of the document; grows when a field changes its meaning or goes.
    pub schema_version: u32,
    /// The Prairie that runs.
    pub version: String,
    /// Nothing is written anywhere.
    pub dry_run: bool,
    /// Bytes of a memory block.
    pub block_bytes: u64,
    /// Blocks in the kernel region, the movable region, neither, and offline.
    pub blocks_kernel: u64,
    /// In ZONE_MOVABLE.
    pub blocks_movable: u64,
    /// Never to be moved.
    pub blocks_fixed: u64,
    /// Offline: lost memory.
    pub blocks_offline: u64,
    /// Blocks that are not where they were at the start.
    pub blocks_converted: u64,
    /// Blocks that refused lately.
    pub blocks_refused: u64,
    /// Whole gigabytes in the movable region.
    pub movable_gigabytes: u64,
    /// Operations that succeeded since the start.
    pub operations: u64,
    /// Operations that did not.
    pub operations_failed: u64,
    /// Operations of the last hour, without those of the setup.
    pub operations_last_hour: u64,
    /// Seconds that operations took together.
    pub operation_seconds: f64,
    /// Processes that the kernel killed for lack of memory since the start.
    pub oom_kills: u64,
    /// CPU time of the process, in seconds.
    pub cpu_seconds: f64,
    /// Full samples of the zones since the start.
    pub samples: u64,
    /// Glances at free memory alone.
    pub glances: u64,
    /// Blocks whose page flags were read, each time it was counted.
    pub blocks_read: u64,
    /// What is wrong, if anything.
    pub trouble: String,
    /// The last operations, oldest first.
    pub recent: Vec<String>,
    /// The nodes.
    pub nodes: Vec<NodeStatus>,
}

impl NodeStatus {
    fn of(report: &NodeReport) -> NodeStatus {
        let NodeReport { sample, reserve, excess, rate, .. } = *report;
        let (kernel, movable) = (sample.kernel, sample.movable);
        let frame = crate::sample::page_bytes();
        NodeStatus {
            node: sample.node,
            kernel_bytes: kernel.managed * frame,
            movable_bytes: movable.managed * frame,
            kernel_available_bytes: kernel.usable() * frame,
            kernel_own_bytes: kernel.own * frame,
            kernel_user_bytes: kernel.user * frame,
            movable_free_bytes: movable.free * frame,
            movable_cache_bytes: movable.cache * frame,
            reserve_bytes: reserve * frame,
            excess_bytes: excess * frame,
            rate_bytes: rate * frame,
            exhausted_in_seconds: report.exhausted_in_ms.map(|ms| ms as f64 / 1e3),
            conversion_seconds: report.granule_ms as f64 / 1e3,
            kernel_stalled: f64::from(report.pressure[0]) / 1e3,
            user_stalled: f64::from(report.pressure[1]) / 1e3,
            guard: report.guard.words().to_owned(),
            set_up: report.set_up,
        }
    }
}

/// How the names of metrics begin.
const PREFIX: &str = "prairie_regions_";

const HOST: [Metric<Status>; 14] = [
    ("blocks_kernel", "Memory blocks in the kernel region", Gauge, |s| s.blocks_kernel as f64),
    ("blocks_movable", "Memory blocks in ZONE_MOVABLE", Gauge, |s| s.blocks_movable as f64),
    ("blocks_offline", "Memory blocks that are offline", Gauge, |s| s.blocks_offline as f64),
    ("blocks_refused", "Memory blocks that refused lately", Gauge, |s| s.blocks_refused as f64),
    ("blocks_converted", "Memory blocks away from home", Gauge, |s| s.blocks_converted as f64),
    ("movable_1g_areas", "Whole areas of 1 GiB in the movable region", Gauge, |s| {
        s.movable_gigabytes as f64
    }),
    ("operations_total", "Conversions that succeeded", Counter, |s| s.operations as f64),
    ("operations_failed_total", "Those that did not", Counter, |s| s.operations_failed as f64),
    ("operation_seconds_total", "Time in conversions", Counter, |s| s.operation_seconds),
    ("oom_kills_total", "OOM kills since the start", Counter, |s| s.oom_kills as f64),
    ("cpu_seconds_total", "CPU time of the daemon", Counter, |s| s.cpu_seconds),
    ("samples_total", "Full samples of the zones", Counter, |s| s.samples as f64),
    ("glances_total", "Glances at free memory alone", Counter, |s| s.glances as f64),
    ("blocks_read_total", "Blocks whose page flags were read", Counter, |s| s.blocks_read as f64),
];

const NODE: [Metric<NodeStatus>; 12] = [
    ("kernel_bytes", "Memory in kernel zones", Gauge, |n| n.kernel_bytes as f64),
    ("movable_bytes", "Memory in ZONE_MOVABLE", Gauge, |n| n.movable_bytes as f64),
    ("kernel_available_bytes", "Available to the kernel", Gauge, |n| {
        n.kernel_available_bytes as f64
    }),
    ("kernel_own_bytes", "Used by the kernel", Gauge, |n| n.kernel_own_bytes as f64),
    ("movable_free_bytes", "Free in ZONE_MOVABLE", Gauge, |n| n.movable_free_bytes as f64),
    ("movable_cache_bytes", "Clean cache there", Gauge, |n| n.movable_cache_bytes as f64),
    ("reserve_bytes", "Below this the kernel region grows", Gauge, |n| n.reserve_bytes as f64),
    ("excess_bytes", "Above this it shrinks", Gauge, |n| n.excess_bytes as f64),
    ("rate_bytes", "Kernel memory used more a second", Gauge, |n| n.rate_bytes as f64),
    ("exhausted_seconds", "Time to exhaustion, or -1", Gauge, |n| {
        n.exhausted_in_seconds.unwrap_or(-1.0)
    }),
    ("kernel_stalled_ratio", "Stalled for kernel memory", Gauge, |n| n.kernel_stalled),
    ("user_stalled_ratio", "Stalled for user memory", Gauge, |n| n.user_stalled),
];

impl Status {
    /// Takes over the policy's state.
    pub fn update(&mut self, policy: &Policy, now: Duration) {
        let reports = policy.reports();
        self.nodes = reports.iter().map(NodeStatus::of).collect();
        let (used, refused) = policy.counts(now);
        (self.operations_last_hour, self.blocks_refused) = (used as u64, refused as u64);
    }
}

impl status::Status for Status {
    fn metrics(&self) -> Vec<Family> {
        let host = HOST.iter().map(|metric| Family::of(PREFIX, metric, [self], |_| Vec::new()));
        let labels = |node: &NodeStatus| vec![("node", node.node.to_string())];
        let node = NODE.iter().map(|metric| Family::of(PREFIX, metric, &self.nodes, labels));
        host.chain(node).collect()
    }
}

/// The daemon's status, as several threads see it.
pub type Shared = status::Shared<Status>;

#[cfg(test)]
mod tests {
    use prairie_daemon::metrics::{encode, prometheus};
    use prairie_daemon::status::Status as _;

    use super::*;

    fn shared() -> Shared {
        let shared = Shared::default();
        let node = NodeStatus { node: 1, kernel_bytes: 4096, ..NodeStatus::default() };
        *shared.lock() = Status { blocks_movable: 7, nodes: vec![node], ..Status::default() };
        shared
    }

    #[test]
    fn prometheus_gets_what_it_understands() {
        let text = prometheus(&encode(shared().lock().metrics()));
        assert!(text.contains("prairie_regions_blocks_movable 7.0\n"), "{text}");
        assert!(text.contains("prairie_regions_kernel_bytes{node=\"1\"} 4096.0\n"), "{text}");
        assert!(text.contains("prairie_regions_exhausted_seconds{node=\"1\"} -1.0\n"), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert!(line.rsplit_once(' ').unwrap().1.parse::<f64>().is_ok(), "{line}");
        }
        prairie_testing::check_metrics(&text);
        let heads = text.lines().filter(|line| line.starts_with("# TYPE")).count();
        assert_eq!(heads, HOST.len() + NODE.len());
    }
}
