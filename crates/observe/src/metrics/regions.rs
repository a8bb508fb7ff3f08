//! The metrics of a kernel with a movable border between unmovable and movable memory.

use prairie_daemon::metrics::{Family, Series};
use prairie_host::Contiguitas;
use prairie_host::contiguitas::{COUNTERS as MEANINGS, NodeRegions, Region};
use prairie_host::psi::Stall;

use super::label;

const US: f64 = 1e-6;

/// A counter: the end of its metric's name, and its name in the kernel.
type Counter = (&'static str, &'static str);

const COUNTERS: [Counter; 15] = [
    ("wake_ups", "wake_ups"),
    ("refused_turns", "turns_refused"),
    ("aborted_handovers", "aborted_handovers"),
    ("retired_pageblocks", "pageblocks_retired"),
    ("recalled_pageblocks", "pageblocks_recalled"),
    ("slab_drops", "slab_drops"),
    ("cache_drops", "cache_drops"),
    ("waits", "waits"),
    ("vain_waits", "waits_in_vain"),
    ("pin_waits", "pin_waits"),
    ("oom_rescues", "oom_rescues"),
    ("loans", "loans"),
    ("skipped_compactions", "compactions_skipped"),
    ("retries", "retries"),
    ("vain_retries", "retries_in_vain"),
];

/// Counters of both directions: the unmovable region grows or shrinks.
const MOVES: [(&str, &str, [&str; 2]); 2] = [
    (
        "moved_pageblocks",
        "Pageblocks that the border passed as the unmovable region grew or shrank",
        ["pageblocks_grown", "pageblocks_shrunk"],
    ),
    (
        "failed_moves",
        "Attempts to grow or shrink the unmovable region that failed",
        ["grow_failures", "shrink_failures"],
    ),
];

/// Counters of microseconds.
const TIMES: [(&str, &str, &str); 2] = [
    ("move", "Time of moves of the border", "move_us"),
    ("wait", "Time for which requests waited for the border", "wait_us"),
];

/// Every metric of the regions.
pub fn families(regions: &Contiguitas) -> Vec<Family> {
    let mut all = sizes(regions);
    all.extend(pressures(regions));
    for (stem, help, names) in MOVES {
        let both = ["grow", "shrink"].into_iter().zip(names);
        let series = both.flat_map(|(direction, name)| {
            let counted = |node: &NodeRegions| Some(*node.counters.get(name)? as f64);
            labeled(regions, counted, ("direction", direction))
        });
        all.push(Family::counter(&named(stem), None, help, series.collect()));
    }
    for (stem, name) in COUNTERS {
        let counted = |node: &NodeRegions| Some(*node.counters.get(name)? as f64);
        all.push(Family::counter(&named(stem), None, &help(name), of_nodes(regions, counted)));
    }
    let seconds =
        |name: &'static str| move |node: &NodeRegions| Some(*node.counters.get(name)? as f64 * US);
    for (stem, help, name) in TIMES {
        let series = of_nodes(regions, seconds(name));
        all.push(Family::counter(&named(stem), Some("seconds"), help, series));
    }
    let longest = of_nodes(regions, seconds("longest_handover_us"));
    let help = "Longest hand-over of pageblocks since boot";
    all.push(Family::gauge(&named("longest_handover"), Some("seconds"), help, longest));
    all
}

/// What the kernel's counter of this name counts, as a sentence.
fn help(name: &str) -> String {
    let (_, meaning) = MEANINGS.iter().find(|(known, _)| *known == name).expect("a known counter");
    let (first, rest) = meaning.split_at(1);
    first.to_uppercase() + rest
}

fn named(stem: &str) -> String {
    format!("prairie_contiguitas_{stem}")
}

fn sizes(regions: &Contiguitas) -> Vec<Family> {
    let of_node = |stem: &str, help: &str, value: fn(&NodeRegions) -> Option<u64>| {
        let series = of_nodes(regions, |node| value(node).map(|bytes| bytes as f64));
        Family::gauge(&named(stem), Some("bytes"), help, series)
    };
    let of_region = |stem: &str, help: &str, value: fn(&Region) -> Option<u64>| {
        let series = of_regions(regions, |region| value(region).map(|bytes| bytes as f64));
        Family::gauge(&named(stem), Some("bytes"), help, series)
    };
    vec![
        of_node("border", "Physical address of the border", |n| Some(n.border_bytes())),
        of_region("region", "Size of a region", |r| Some(r.bytes)),
        of_region("available", "Free memory of a region for ordinary requests", |r| {
            r.available_bytes
        }),
        of_region(
            "low_mark",
            "With less available memory, a region gets more from the other",
            |r| r.low_bytes,
        ),
        of_node(
            "target_mark",
            "The unmovable region grows up to this much available memory",
            |n| n.target_bytes,
        ),
        of_node(
            "high_mark",
            "The unmovable region shrinks above this much available memory",
            |n| n.high_bytes,
        ),
        of_node("floor", "Minimum size of the unmovable region", |n| n.floor_bytes),
        of_node("ceiling", "Maximum size of the unmovable region", |n| n.ceiling_bytes),
        of_node("retired", "Memory below the border that is out of use, to change sides", |n| {
            n.retired_bytes
        }),
    ]
}

fn pressures(regions: &Contiguitas) -> [Family; 2] {
    let seconds = |stall: Stall| stall.total_us as f64 * US;
    let of_host =
        [("unmovable", regions.unmovable_pressure), ("movable", regions.movable_pressure)];
    let of_host = of_host.into_iter().filter_map(|(region, stall)| {
        let stalled = seconds(stall?);
        Some(label([("region", region)], stalled))
    });
    let of_nodes = of_regions(regions, |region| region.pressure.map(seconds));
    let counter = |stem, help, series| Family::counter(&named(stem), Some("seconds"), help, series);
    [
        counter(
            "pressure",
            "Time in which some task waited for memory of a region, on any node",
            of_host.collect(),
        ),
        counter(
            "node_pressure",
            "Time in which some task waited for memory of a node's region",
            of_nodes,
        ),
    ]
}

/// A value of each node that has one.
fn of_nodes(regions: &Contiguitas, value: impl Fn(&NodeRegions) -> Option<f64>) -> Vec<Series> {
    let series =
        |node: &NodeRegions| Some(label([("node", node.node.to_string().as_str())], value(node)?));
    regions.nodes.iter().filter_map(series).collect()
}

/// The same with one more label.
fn labeled(
    regions: &Contiguitas,
    value: impl Fn(&NodeRegions) -> Option<f64>,
    more: (&'static str, &'static str),
) -> Vec<Series> {
    let series = |node: &NodeRegions| {
        Some(label([("node", node.node.to_string().as_str()), more], value(node)?))
    };
    regions.nodes.iter().filter_map(series).collect()
}

/// A value of each region that has one.
fn of_regions(regions: &Contiguitas, value: impl Fn(&Region) -> Option<f64>) -> Vec<Series> {
    let unmovable = labeled(regions, |node| value(&node.unmovable), ("region", "unmovable"));
    let movable = labeled(regions, |node| value(&node.movable), ("region", "movable"));
    unmovable.into_iter().chain(movable).collect()
}
