//! Events a second, and the offloaded containers.

use prairie_host::survey::counters;
use prairie_offload::signal::{SIGNALS, Signal};
use prairie_offload::status::{CgroupStatus, Status};
use prairie_report::number;
use ratatui::text::Line;

use super::style::{bold, dim, percent, plain, rate};
use super::{Containers, State};

/// Every counter that the kernel has: a second, and since boot.
pub fn lines(state: &State) -> Vec<Line<'static>> {
    let mut rows: Vec<(&str, Option<f64>, u64)> = counters::names()
        .filter_map(|name| {
            let column = format!("vmstat_{name}");
            let total = state.now.integer(&column)?;
            Some((name, state.rate(&column), total.unsigned_abs()))
        })
        .collect();
    if state.by_rate {
        let fastest = |row: &(&str, Option<f64>, u64)| row.1.unwrap_or(0.0);
        rows.sort_by(|a, b| fastest(b).total_cmp(&fastest(a)));
    }
    let heading = format!("{:<32} {:>12} {:>16}", "event", "per second", "since boot");
    let mut lines = vec![Line::from(bold(heading))];
    lines.extend(rows.into_iter().map(|(name, per_second, total)| {
        let text = format!("{name:<32} {:>12} {total:>16}", rate(per_second));
        match per_second {
            Some(per_second) if per_second > 0.0 => Line::from(text),
            _ => Line::from(dim(text)),
        }
    }));
    lines
}

/// What the offload daemon says, if one runs.
pub fn containers(state: &State) -> Vec<Line<'static>> {
    match state.live.as_ref().map(|live| &live.containers) {
        Some(Containers::Status(status)) => of_daemon(status),
        Some(Containers::None(why)) => vec![Line::from(why.clone())],
        None => vec![Line::from("A log does not hold containers.")],
    }
}

fn of_daemon(status: &Status) -> Vec<Line<'static>> {
    let gained = u64::try_from(status.gained_bytes).unwrap_or(0);
    let mut lines = vec![
        Line::from(format!(
            "saved {}, gained by the host {}{}",
            size(status.claimed_bytes),
            size(gained),
            if status.dry_run { ", dry run" } else { "" },
        )),
        Line::from(bold(format!(
            "{:<30} {:>10} {:>10}{}  {}",
            "container",
            "memory",
            "offloaded",
            pressures(|signal| signal.name.to_owned()),
            "guard"
        ))),
    ];
    let row = |cgroup: &CgroupStatus| {
        let offloaded = cgroup.zswapped_bytes.max(cgroup.swap_bytes);
        Line::from(format!(
            "{:<30} {:>10} {:>10}{}  {}",
            tail(&cgroup.path, 30),
            size(cgroup.current_bytes),
            size(offloaded),
            pressures(|signal| percent(Some(cgroup.pressure.share(signal.name)))),
            cgroup.guard,
        ))
    };
    lines.extend(status.cgroups.iter().map(row));
    lines
}

/// A column for each signal whose stalls the kernel counts. The others are estimates, which show in
/// the guard.
fn pressures(text: impl Fn(&Signal) -> String) -> String {
    let counted = SIGNALS.iter().filter(|signal| signal.source.is_some());
    counted.map(|signal| format!(" {:>8}", text(signal))).collect()
}

/// The end of a text, which names a container better than its beginning.
fn tail(text: &str, width: usize) -> String {
    let letters = text.chars().count();
    match letters > width {
        true => format!("~{}", text.chars().skip(letters - width + 1).collect::<String>()),
        false => text.to_owned(),
    }
}

fn size(bytes: u64) -> String {
    plain(&number::bytes(bytes))
}
