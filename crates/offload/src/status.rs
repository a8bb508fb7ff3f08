//! The status that the daemon reports: updated in place, copied on request.

use std::fmt::Write;

use prairie_daemon::status::{self, write_head};
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
    /// The same as a sentence, with the numbers behind it; said when somebody asks.
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

/// A figure for Prometheus: name, help, kind, value.
type Metric<T> = (&'static str, &'static str, &'static str, fn(&T) -> f64);

/// Figures of the host and of the daemon.
const HOST: [Metric<Status>; 12] = [
    ("claimed_bytes", "Saved by the cgroups' figures", "gauge", |s| s.claimed_bytes as f64),
    ("gained_bytes", "Gained by the host", "gauge", |s| s.gained_bytes as f64),
    ("pool_bytes", "zswap's pool", "gauge", |s| s.pool_bytes as f64),
    ("pooled_bytes", "Pages in the pool, uncompressed", "gauge", |s| s.pooled_bytes as f64),
    ("swap_total_bytes", "Swap", "gauge", |s| s.swap_bytes as f64),
    ("swap_used_bytes", "Swap given out", "gauge", |s| s.swap_used_bytes as f64),
    ("write_scarcity", "Share of requests withheld", "gauge", |s| s.write_scarcity),
    ("emergency", "1 during a memory emergency of the host", "gauge", |s| {
        f64::from(u8::from(s.emergency.active))
    }),
    ("emergencies_total", "Memory emergencies", "counter", |s| s.emergency.count as f64),
    ("killed_total", "Containers killed in emergencies", "counter", |s| s.emergency.killed as f64),
    ("return_cost_seconds", "Cost of a return", "gauge", |s| s.return_cost_us / 1e6),
    ("cpu_seconds_total", "The daemon's own part", "counter", |s| s.own_cpu_us as f64 / 1e6),
];

/// Figures before those of the signals.
const SIZES: [Metric<CgroupStatus>; 7] = [
    ("current_bytes", "memory.current", "gauge", |c| c.current_bytes as f64),
    ("anon_bytes", "Anonymous memory in RAM", "gauge", |c| c.anon_bytes as f64),
    ("file_bytes", "Page cache", "gauge", |c| c.file_bytes as f64),
    ("swap_bytes", "memory.swap.current", "gauge", |c| c.swap_bytes as f64),
    ("zswap_bytes", "Compressed lengths charged", "gauge", |c| c.zswap_bytes as f64),
    ("zswapped_bytes", "Pages in zswap, uncompressed", "gauge", |c| c.zswapped_bytes as f64),
    ("idle_bytes", "Idle for the profile's age; NaN if unknown", "gauge", |c| {
        c.idle_bytes.map_or(f64::NAN, |bytes| bytes as f64)
    }),
];

/// Figures after those of the signals.
const RECLAIM: [Metric<CgroupStatus>; 9] = [
    ("asked_bytes_total", "Bytes asked for", "counter", |c| c.asked_bytes as f64),
    ("taken_bytes_total", "Bytes that left", "counter", |c| c.taken_bytes as f64),
    ("returned_bytes_total", "Bytes that came back", "counter", |c| c.returned_bytes as f64),
    ("owed_bytes", "Bytes to work off", "gauge", |c| c.owed_bytes as f64),
    ("requests_total", "Requests made", "counter", |c| c.requests as f64),
    ("calls_total", "Calls that requests were split into", "counter", |c| c.calls as f64),
    ("longest_call_seconds", "CPU time of the longest call", "gauge", |c| {
        c.longest_call_us as f64 / 1e6
    }),
    ("refused_total", "Requests refused by the kernel", "counter", |c| c.refused as f64),
    ("open", "1 where nothing stood against taking memory", "gauge", |c| {
        f64::from(u8::from(c.guard.is_empty() && c.trouble.is_empty()))
    }),
];

impl Status {
    /// One figure of all containers.
    fn metric(
        &self,
        out: &mut String,
        name: &str,
        help: &str,
        kind: &str,
        value: impl Fn(&CgroupStatus) -> f64,
    ) {
        let name = format!("prairie_offload_cgroup_{name}");
        write_head(out, &name, help, kind);
        for cgroup in &self.cgroups {
            let path = label(&cgroup.path);
            let _ = writeln!(out, "{name}{{cgroup=\"{path}\"}} {}", value(cgroup));
        }
    }

    /// The objectives of classes.
    fn classes(&self, out: &mut String) {
        type Value = fn(&ClassStatus) -> Option<f64>;
        let figures: [(&str, &str, Value); 2] = [
            ("objective", "The value of the class's objective", |class| class.value),
            ("objective_at_most", "The largest value at which it is met", |class| class.at_most),
        ];
        for (name, help, value) in figures {
            let name = format!("prairie_offload_class_{name}");
            let known = |class: &ClassStatus| Some((label(&class.name), value(class)?));
            let known: Vec<(String, f64)> = self.classes.iter().filter_map(known).collect();
            if known.is_empty() {
                continue;
            }
            write_head(out, &name, help, "gauge");
            for (class, value) in known {
                let _ = writeln!(out, "{name}{{class=\"{class}\"}} {value}");
            }
        }
    }
}

impl status::Status for Status {
    fn prometheus(&self) -> String {
        let mut out = String::new();
        for (name, help, kind, value) in HOST {
            let name = format!("prairie_offload_{name}");
            write_head(&mut out, &name, help, kind);
            let _ = writeln!(out, "{name} {}", value(self));
        }
        for (name, help, kind, value) in SIZES {
            self.metric(&mut out, name, help, kind, value);
        }
        for signal in SIGNALS {
            let name = format!("{}_pressure_ratio", signal.name);
            self.metric(&mut out, &name, signal.help, "gauge", |c| c.pressure.share(signal.name));
        }
        for (name, help, kind, value) in RECLAIM {
            self.metric(&mut out, name, help, kind, value);
        }
        self.classes(&mut out);
        let name = "prairie_offload_cgroup_guard";
        let help = "The guard that stood against taking memory in the last period";
        write_head(&mut out, name, help, "gauge");
        for cgroup in self.cgroups.iter().filter(|cgroup| !cgroup.guard.is_empty()) {
            let (path, guard) = (label(&cgroup.path), &cgroup.guard);
            let _ = writeln!(out, "{name}{{cgroup=\"{path}\",guard=\"{guard}\"}} 1");
        }
        out
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

/// A label's value: backslash, quote and line feed escaped.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
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
        let text = shared().lock().prometheus();
        let line = r#"prairie_offload_cgroup_taken_bytes_total{cgroup="a/\"odd\\name\""} 4096"#;
        assert!(text.lines().any(|found| found == line), "{text}");
        assert!(text.contains(r#"guard="pressure"} 1"#));
        let line = r#"prairie_offload_cgroup_io_pressure_ratio{cgroup="a/\"odd\\name\""} 0.25"#;
        assert!(text.lines().any(|found| found == line), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let value = line.rsplit_once(' ').unwrap().1;
            assert!(value.parse::<f64>().is_ok(), "{line}");
        }
    }
}
