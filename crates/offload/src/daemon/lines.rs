//! A decision as a line of the log and as figures of the status.

use std::io::{self, Write};

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::container::Container;
use crate::controller::Decision;
use crate::guard::Guard;
use crate::observation::Idle;
use crate::status::CgroupStatus;
use prairie_daemon::log::Line;

/// A decision, and for whom.
pub struct DecisionLine<'a> {
    /// For whom.
    pub container: &'a Container,
    /// What.
    pub decision: &'a Decision,
    /// Nothing is done about it.
    pub dry_run: bool,
}

/// In one line: what, and the numbers behind it.
impl Line for DecisionLine<'_> {
    fn text(&self, out: &mut dyn Write) -> io::Result<()> {
        let DecisionLine { container, decision, dry_run } = self;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let seen = &container.seen;
        write!(out, "{}: ", container.cgroup.path)?;
        match (&decision.reclaim, &decision.guard) {
            (Some(reclaim), _) => {
                let verb = if *dry_run { "would reclaim" } else { "reclaim" };
                let what = if reclaim.file_only { " of page cache" } else { "" };
                write!(out, "{verb} {:.2} MiB{what}", mib(reclaim.bytes))?;
            }
            (None, Some(guard)) => write!(out, "no reclaim, {guard}")?,
            (None, None) => write!(out, "no reclaim")?,
        }
        let (signal, value) = decision.governing;
        write!(
            out,
            " [current {:.1} MiB, pressure {:.4} % by {}, threshold {:.2} %, allowed {:.2}, \
             reclaimed {:.2}, refaulted {:.2}, over-reclaim {:.2} MiB",
            mib(seen.current_bytes),
            value * 100.0,
            signal,
            container.controller.profile().senpai.threshold * 100.0,
            mib(decision.allowance_bytes),
            mib(decision.taken_bytes),
            mib(decision.returned_pages.saturating_mul(4096)),
            mib(decision.owed_bytes),
        )?;
        if let Idle::Bytes(bytes) = seen.idle {
            write!(out, ", idle {:.1} MiB for {} s", mib(bytes), decision.min_age.as_secs())?;
        }
        if seen.room.write_scarcity > 0.0 {
            write!(out, ", {:.0} % withheld for swap devices", seen.room.write_scarcity * 100.0)?;
        }
        if decision.cache_hides_anon {
            write!(out, ", idle page cache hides anonymous memory")?;
        }
        out.write_all(b"]")
    }
}

impl Serialize for DecisionLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let DecisionLine { container, decision, dry_run } = self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("event", "decision")?;
        map.serialize_entry("cgroup", &container.cgroup.path)?;
        map.serialize_entry("dry_run", dry_run)?;
        map.serialize_entry("at_ns", &(container.seen.at.as_nanos() as u64))?;
        map.serialize_entry("current_bytes", &container.seen.current_bytes)?;
        map.serialize_entry("swap_bytes", &container.seen.swap_bytes)?;
        map.serialize_entry("idle", &container.seen.idle)?;
        map.serialize_entry("governing", decision.governing.0)?;
        map.serialize_entry("decision", decision)?;
        map.end()
    }
}

/// Brings a container's figures up to date, in place.
pub fn update(
    entry: &mut CgroupStatus,
    container: &Container,
    decision: &Decision,
    asked_bytes: u64,
) {
    let seen = &container.seen;
    entry.current_bytes = seen.current_bytes;
    entry.anon_bytes = seen.stat.anon;
    entry.file_bytes = seen.stat.file;
    entry.swap_bytes = seen.swap_bytes;
    entry.zswap_bytes = seen.stat.zswap;
    entry.zswapped_bytes = seen.stat.zswapped;
    entry.swap_cached_bytes = seen.stat.swapcached;
    entry.idle_bytes = if let Idle::Bytes(bytes) = seen.idle { Some(bytes) } else { None };
    entry.pressure = decision.pressure;
    replace(&mut entry.governing, decision.governing.0);
    replace(&mut entry.backend, container.backend());
    replace(&mut entry.guard, decision.guard.as_ref().map_or("", Guard::name));
    entry.blocking = decision.guard;
    entry.asked_bytes = entry.asked_bytes.saturating_add(asked_bytes);
    entry.taken_bytes = entry.taken_bytes.saturating_add(decision.taken_bytes);
    let returned = decision.returned_pages.saturating_mul(4096);
    entry.returned_bytes = entry.returned_bytes.saturating_add(returned);
    entry.owed_bytes = decision.owed_bytes;
    entry.requests += u64::from(asked_bytes > 0);
    if container.refused_until <= seen.at {
        entry.trouble.clear();
    }
}

/// Into the memory that is there.
fn replace(text: &mut String, with: &str) {
    text.clear();
    text.push_str(with);
}
