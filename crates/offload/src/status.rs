//! The status that the daemon reports: updated in place, copied on request.

use std::fmt::Write;

use prairie_daemon::metrics::Kind::{Counter, Gauge};
use prairie_daemon::metrics::{Family, Metric, Series};
use prairie_daemon::status;
use serde::{Deserialize, Serialize};

use crate::guard::Guard;
use crate::pressure::Pressure;
use crate::signal::SIGNALS;

/// One container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupStatus {
    /// Its path below the root of cgroup v2.
    pub path: String,
    /// The rule that names it, from 1 in the file's order.
    pub rule: usize,
    /// The rule's profile.
    pub profile: String,
    /// The rule's class; empty if it has none.
    pub class: String,
    /// Mechanism of reclaim: `lru_gen`, `memory.reclaim`, `memory.high`.
    pub means: String,
    /// Where its memory goes: the configured back end, or what became of it.
    pub backend: String,
    /// `memory.current`, in bytes.
    pub current_bytes: u64,
    /// Anonymous memory, in bytes.
    pub anon_bytes: u64,
    /// Page cache, in bytes.
    pub file_bytes: u64,
    /// `memory.swap.current`, in bytes.
    pub swap_bytes: u64,
    /// Compressed lengths that it is charged for.
    pub zswap_bytes: u64,
    /// The pages in zswap, uncompressed.
    pub zswapped_bytes: u64,
    /// Pages in RAM that still have a slot in swap.
    pub swap_cached_bytes: u64,
    /// Bytes that have been idle for long enough, where that is known.
    pub idle_bytes: Option<u64>,
    /// Pressure of the last period by each signal, in fields such as `io_pressure`.
    #[serde(flatten, with = "pressure_fields")]
    pub pressure: Pressure,
    /// The signal that governs.
    pub governing: String,
    /// The guard that blocked reclaim in the last period; empty if none did.
    pub guard: String,
    /// The same as a sentence with its numbers; formatted on request.
    pub reason: String,
    /// The guard itself.
    #[serde(skip)]
    pub blocking: Option<Guard>,
    /// Bytes requested so far.
    pub asked_bytes: u64,
    /// Bytes reclaimed so far, for any reason.
    pub taken_bytes: u64,
    /// Bytes refaulted so far.
    pub returned_bytes: u64,
    /// Over-reclaim not yet compensated, in bytes.
    pub owed_bytes: u64,
    /// Requests made so far.
    pub requests: u64,
    /// Calls that requests were split into.
    pub calls: u64,
    /// CPU time of the longest call in microseconds.
    pub longest_call_us: u64,
    /// Requests that the kernel refused.
    pub refused: u64,
    /// The error, if any.
    pub trouble: String,
}

/// One class of containers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Its priority, 0 to 100.
    pub priority: u8,
    /// Its objective: `met`, `missed`, `unknown`; empty if it has none.
    pub objective: String,
    /// The objective's value, if it is known and finite.
    pub value: Option<f64>,
    /// The largest value at which it is met.
    pub at_most: Option<f64>,
    /// Why the value cannot be read; empty if it can.
    pub trouble: String,
}

/// The watch for memory emergencies of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EmergencyStatus {
    /// One is going on, or ended a moment ago: nothing is offloaded.
    pub active: bool,
    /// The share of the last seconds in which all tasks of the host were stalled on memory.
    pub full_share: f64,
    /// Emergencies so far.
    pub count: u64,
    /// The container that was named last, and why; empty if none was.
    pub verdict: String,
    /// Containers killed so far.
    pub killed: u64,
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
    /// Mechanism that measures ages.
    pub age_means: String,
    /// The cost of one refault in microseconds, and whether it was measured.
    pub return_cost_us: f64,
    /// It was measured on this host rather than taken from the paper or the configuration.
    pub return_cost_measured: bool,
    /// The kernel reports refaults immediately. Otherwise the daemon polls four times a second.
    pub fault_alarm: bool,
    /// Swap of the host.
    pub swap_bytes: u64,
    /// The used part.
    pub swap_used_bytes: u64,
    /// What zswap's pool takes.
    pub pool_bytes: u64,
    /// The uncompressed size of its pages.
    pub pooled_bytes: u64,
    /// Bytes that may be written to swap devices now.
    pub write_budget_bytes: Option<u64>,
    /// The share of requests that is withheld to spare swap devices.
    pub write_scarcity: f64,
    /// The host's emergency, if one is watched for.
    pub emergency: EmergencyStatus,
    /// Saved by the cgroups' own figures.
    pub claimed_bytes: u64,
    /// Gained by the host.
    pub gained_bytes: i64,
    /// The two disagree.
    pub disagree: bool,
    /// CPU time of the daemon's own part, in microseconds.
    pub own_cpu_us: u64,
    /// CPU time of the threads that wait for the kernel, which is reclaim's own cost.
    pub reclaim_cpu_us: u64,
    /// The classes, by name.
    pub classes: Vec<ClassStatus>,
    /// The containers, by path.
    pub cgroups: Vec<CgroupStatus>,
}

/// The daemon's status, as several threads see it.
pub type Shared = status::Shared<Status>;

/// Figures of the host and of the daemon.
const HOST: [Metric<Status>; 12] = [
    ("claimed_bytes", "Saved by the cgroups' figures", Gauge, |s| s.claimed_bytes as f64),
    ("gained_bytes", "Gained by the host", Gauge, |s| s.gained_bytes as f64),
    ("pool_bytes", "zswap's pool", Gauge, |s| s.pool_bytes as f64),
    ("pooled_bytes", "Pages in the pool, uncompressed", Gauge, |s| s.pooled_bytes as f64),
    ("swap_total_bytes", "Swap", Gauge, |s| s.swap_bytes as f64),
    ("swap_used_bytes", "Swap given out", Gauge, |s| s.swap_used_bytes as f64),
    ("write_scarcity", "Share of requests withheld", Gauge, |s| s.write_scarcity),
    ("emergency", "1 during a memory emergency of the host", Gauge, |s| {
        f64::from(u8::from(s.emergency.active))
    }),
    ("emergencies_total", "Memory emergencies", Counter, |s| s.emergency.count as f64),
    ("killed_total", "Containers killed in emergencies", Counter, |s| s.emergency.killed as f64),
    ("return_cost_seconds", "Cost of a return", Gauge, |s| s.return_cost_us / 1e6),
    ("cpu_seconds_total", "The daemon's own part", Counter, |s| s.own_cpu_us as f64 / 1e6),
];

/// Figures before those of the signals.
const SIZES: [Metric<CgroupStatus>; 7] = [
    ("current_bytes", "memory.current", Gauge, |c| c.current_bytes as f64),
    ("anon_bytes", "Anonymous memory in RAM", Gauge, |c| c.anon_bytes as f64),
    ("file_bytes", "Page cache", Gauge, |c| c.file_bytes as f64),
    ("swap_bytes", "memory.swap.current", Gauge, |c| c.swap_bytes as f64),
    ("zswap_bytes", "Compressed lengths charged", Gauge, |c| c.zswap_bytes as f64),
    ("zswapped_bytes", "Pages in zswap, uncompressed", Gauge, |c| c.zswapped_bytes as f64),
    ("idle_bytes", "Idle for the profile's age; NaN if unknown", Gauge, |c| {
        c.idle_bytes.map_or(f64::NAN, |bytes| bytes as f64)
    }),
];

/// Figures after those of the signals.
const RECLAIM: [Metric<CgroupStatus>; 9] = [
    ("asked_bytes_total", "Bytes asked for", Counter, |c| c.asked_bytes as f64),
    ("taken_bytes_total", "Bytes that left", Counter, |c| c.taken_bytes as f64),
    ("returned_bytes_total", "Bytes that refaulted", Counter, |c| c.returned_bytes as f64),
    ("owed_bytes", "Bytes to work off", Gauge, |c| c.owed_bytes as f64),
    ("requests_total", "Requests made", Counter, |c| c.requests as f64),
    ("calls_total", "Calls that requests were split into", Counter, |c| c.calls as f64),
    ("longest_call_seconds", "CPU time of the longest call", Gauge, |c| {
        c.longest_call_us as f64 / 1e6
    }),
    ("refused_total", "Requests refused by the kernel", Counter, |c| c.refused as f64),
    ("open", "1 where nothing stood against taking memory", Gauge, |c| {
        f64::from(u8::from(c.guard.is_empty() && c.trouble.is_empty()))
    }),
];

impl Status {
    /// A figure of the objectives of classes, where it is known.
    fn of_classes(
        &self,
        name: &str,
        help: &str,
        value: impl Fn(&ClassStatus) -> Option<f64>,
    ) -> Family {
        let of = |class: &ClassStatus| {
            Some(Series::number(vec![("class", class.name.clone())], value(class)?))
        };
        let name = format!("prairie_offload_class_{name}");
        Family::named(&name, help, Gauge, self.classes.iter().filter_map(of).collect())
    }

    /// The guards that stand against taking memory.
    fn guards(&self) -> Family {
        let guarded = self.cgroups.iter().filter(|cgroup| !cgroup.guard.is_empty());
        let of = |cgroup: &CgroupStatus| {
            let labels = vec![("cgroup", cgroup.path.clone()), ("guard", cgroup.guard.clone())];
            Series::number(labels, 1.0)
        };
        let help = "The guard that stood against taking memory in the last period";
        let series = guarded.map(of).collect();
        Family::named("prairie_offload_cgroup_guard", help, Gauge, series)
    }
}

impl status::Status for Status {
    fn metrics(&self) -> Vec<Family> {
        let host = |metric| Family::of("prairie_offload_", metric, [self], |_| Vec::new());
        let mut all: Vec<Family> = HOST.iter().map(host).collect();
        let labels = |cgroup: &CgroupStatus| vec![("cgroup", cgroup.path.clone())];
        let of_cgroups = |metric: &Metric<CgroupStatus>| {
            Family::of("prairie_offload_cgroup_", metric, &self.cgroups, labels)
        };
        all.extend(SIZES.iter().map(of_cgroups));
        all.extend(SIGNALS.iter().map(|signal| {
            let name = format!("prairie_offload_cgroup_{}_pressure_ratio", signal.name);
            let of = |cgroup: &CgroupStatus| {
                Series::number(labels(cgroup), cgroup.pressure.share(signal.name))
            };
            Family::named(&name, signal.help, Gauge, self.cgroups.iter().map(of).collect())
        }));
        all.extend(RECLAIM.iter().map(of_cgroups));
        let help = "The value of the class's objective";
        all.push(self.of_classes("objective", help, |class| class.value));
        let help = "The largest value at which it is met";
        all.push(self.of_classes("objective_at_most", help, |class| class.at_most));
        all.push(self.guards());
        all.retain(|family| !family.series.is_empty());
        all
    }

    /// The reasons as sentences.
    fn prepare(&mut self) {
        for cgroup in &mut self.cgroups {
            cgroup.reason.clear();
            if let Some(guard) = &cgroup.blocking {
                let _ = write!(cgroup.reason, "{guard}");
            }
        }
    }
}

/// The pressure as one field for each signal.
mod pressure_fields {
    use std::collections::HashMap;

    use serde::ser::SerializeMap;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::pressure::Pressure;

    pub fn serialize<S: Serializer>(pressure: &Pressure, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (signal, share) in pressure.iter() {
            map.serialize_entry(&format!("{}_pressure", signal.name), &share)?;
        }
        map.end()
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Pressure, D::Error> {
        let fields: HashMap<String, serde_json::Value> = HashMap::deserialize(from)?;
        let mut pressure = Pressure::default();
        for (name, value) in &fields {
            if let (Some(name), Some(share)) = (name.strip_suffix("_pressure"), value.as_f64()) {
                pressure.set(name, share);
            }
        }
        Ok(pressure)
    }
}

#[cfg(test)]
mod tests {
    use prairie_daemon::metrics::{encode, prometheus};
    use prairie_daemon::status::Status as _;

    use super::*;

    fn shared() -> Shared {
        let shared = Shared::default();
        let mut cgroup = CgroupStatus {
            path: "a/\"odd\\name\"".into(),
            guard: "pressure".into(),
            taken_bytes: 4096,
            ..CgroupStatus::default()
        };
        cgroup.pressure.set("io", 0.25);
        shared.lock().cgroups.push(cgroup);
        shared
    }

    #[test]
    fn prometheus_gets_what_it_understands() {
        let text = prometheus(&encode(shared().lock().metrics()));
        let line = r#"prairie_offload_cgroup_taken_bytes_total{cgroup="a/\"odd\\name\""} 4096.0"#;
        assert!(text.lines().any(|found| found == line), "{text}");
        assert!(text.contains(r#"guard="pressure"} 1.0"#));
        let line = r#"prairie_offload_cgroup_io_pressure_ratio{cgroup="a/\"odd\\name\""} 0.25"#;
        assert!(text.lines().any(|found| found == line), "{text}");
        prairie_testing::check_metrics(&text);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let value = line.rsplit_once(' ').unwrap().1;
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}
