//! Who waits for memory, since the program began.

use prairie_report::number;
use prairie_trace::stalls::{ProcessStalls, Stalls, Tally};
use ratatui::text::Line;

use super::style::{bold, dim, percent, plain};
use super::{Stalling, State};

/// Stalls by cause and order, and the processes that waited longest.
pub fn lines(state: &State) -> Vec<Line<'static>> {
    match state.live.as_ref().map(|live| &live.stalls) {
        Some(Stalling::Since(stalls)) => of(stalls),
        Some(Stalling::None(why)) => vec![Line::from(why.clone())],
        None => vec![Line::from("A log does not hold stalls.")],
    }
}

fn of(stalls: &Stalls) -> Vec<Line<'static>> {
    let observed_ns = stalls.observed_ns();
    let huge_pages = stalls.huge_pages();
    let mut lines = vec![Line::from(format!(
        "in the last {}; huge pages: {} allocated, {} failed; {} events lost",
        duration(observed_ns),
        huge_pages.allocated,
        huge_pages.failed,
        stalls.lost_events(),
    ))];
    lines.push(Line::from(bold(format!(
        "{:<32} {:>5} {:>7} {:>8} {:>7} {:>7} {:>7}",
        "cause", "order", "stalls", "of time", "p50", "p99", "longest"
    ))));
    for ((cause, order), tally) in stalls.by_cause_and_order() {
        let line = format!("{:<32} {:>5} {}", cause.label(), order.get(), row(tally, observed_ns));
        lines.push(if cause.is_background() { Line::from(dim(line)) } else { Line::from(line) });
    }
    lines.push(Line::default());
    lines.push(Line::from(bold(format!(
        "{:<38} {:>7} {:>8} {:>7} {:>7} {:>7}",
        "process", "stalls", "of time", "p50", "p99", "longest"
    ))));
    let mut processes: Vec<(&String, &ProcessStalls)> = stalls.by_process().iter().collect();
    processes.retain(|(_, process)| process.all.count() > 0);
    processes.sort_by_key(|(_, process)| std::cmp::Reverse(process.all.total_ns()));
    let process = |(name, process): (&String, &ProcessStalls)| {
        Line::from(format!("{name:<38} {}", row(&process.all, observed_ns)))
    };
    lines.extend(processes.into_iter().map(process));
    lines
}

/// Number, share of the time observed, and distribution. Several tasks may exceed all of the time.
fn row(tally: &Tally, observed_ns: u64) -> String {
    let share = (observed_ns > 0).then(|| tally.total_ns() as f64 / observed_ns as f64);
    format!(
        "{:>7} {:>8} {:>7} {:>7} {:>7}",
        tally.count(),
        percent(share),
        duration(tally.quantile_ns(0.5)),
        duration(tally.quantile_ns(0.99)),
        duration(tally.max_ns()),
    )
}

fn duration(ns: u64) -> String {
    plain(&number::duration(ns))
}
