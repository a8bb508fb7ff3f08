//! The regions of a kernel with a movable border.

use prairie_frames::Order;
use prairie_observe::summary::RegionsRow;
use prairie_report::number;
use ratatui::text::{Line, Span};

use super::State;
use super::style::{bold, percent, plain};

/// The border, and both regions of all nodes, in one line; `None` on other kernels.
pub fn meter(state: &State) -> Option<Line<'static>> {
    let border = match &state.now.regions[..] {
        [] => return None,
        [node] => size(Some(node.border_pfn.saturating_mul(Order::BASE.bytes()))),
        nodes => format!("{} nodes", nodes.len()),
    };
    let column = |name: String| size(Some(state.now.count(&name)));
    let free = |name: &str| {
        let free = column(format!("{name}_region_available_bytes"));
        format!("{free} of {} free", column(format!("{name}_region_bytes")))
    };
    let text = format!("{border}; below {}, above {}", free("unmovable"), free("movable"));
    Some(Line::from(vec![bold("Border  ".to_owned()), Span::raw(text)]))
}

/// A table of both regions of each node; nothing on other kernels.
pub fn lines(state: &State) -> Vec<Line<'static>> {
    if state.now.regions.is_empty() {
        return Vec::new();
    }
    let heading = format!(
        "{:>4} {:<9} {:>12} {:>10} {:>10} {:>10} {:>9}",
        "node", "region", "first frame", "size", "free", "low mark", "stalled"
    );
    let heading = [Line::default(), Line::from(bold(heading))];
    heading
        .into_iter()
        .chain(state.now.regions.iter().flat_map(|row| of_node(state, row)))
        .collect()
}

fn of_node(state: &State, row: &RegionsRow) -> [Line<'static>; 2] {
    let stalled = |us: fn(&RegionsRow) -> Option<u64>| {
        let before = state.before.as_ref()?;
        Some(state.now.regions_rate(before, row.node, us)? / 1e6)
    };
    let line = |name: &str, from: String, sizes: [Option<u64>; 3], stalled: Option<f64>| {
        let [all, free, low] = sizes.map(size);
        let (node, stalled) = (row.node, percent(stalled));
        Line::from(format!(
            "{node:>4} {name:<9} {from:>12} {all:>10} {free:>10} {low:>10} {stalled:>9}"
        ))
    };
    let below = [Some(row.unmovable_bytes), row.unmovable_available_bytes, row.unmovable_low_bytes];
    let above = [Some(row.movable_bytes), row.movable_available_bytes, row.movable_low_bytes];
    let border = format!("{:#x}", row.border_pfn);
    [
        line("unmovable", String::new(), below, stalled(|row| row.unmovable_some_us)),
        line("movable", border, above, stalled(|row| row.movable_some_us)),
    ]
}

/// A size; a dash where it is unknown.
fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| plain(&number::bytes(bytes)))
}
