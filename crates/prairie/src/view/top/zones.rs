//! Fragmentation by zone.

use prairie_frames::Order;
use prairie_host::survey::FreeLists;
use prairie_observe::summary::ZoneRow;
use prairie_report::number;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::State;
use super::style::{bold, dim, percent, plain};

/// Columns of the bar of F_u at 2 MiB.
const BAR: usize = 22;

/// Two lines a zone: its indices, and its free blocks by order.
pub fn lines(state: &State) -> Vec<Line<'static>> {
    let heading = format!(
        "{:>4} {:<8} {:>10} {:>9} {:>9} {:>9}  {}",
        "node", "zone", "free", "F_u 64K", "F_u 2M", "F_u 4M", "F_u 2M"
    );
    let mut lines = vec![Line::from(bold(heading))];
    for zone in &state.now.zones {
        lines.extend(zone_lines(zone));
    }
    if state.now.zones.is_empty() {
        lines.push(Line::from("no free lists (/proc/buddyinfo)"));
    }
    lines
}

fn zone_lines(zone: &ZoneRow) -> [Line<'static>; 2] {
    let lists = FreeLists::new(zone.blocks.clone(), Vec::new());
    let unusable =
        |order: usize| lists.indices.get(order).map(|index| index.unusable_free_space_index);
    let huge = unusable(Order::HUGE.index());
    let filled = (huge.unwrap_or(0.0).clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let free = plain(&number::bytes(lists.free_frames * Order::BASE.bytes()));
    let numbers = format!(
        "{:>4} {:<8} {free:>10} {:>9} {:>9} {:>9}  ",
        zone.node,
        zone.zone,
        percent(unusable(4)),
        percent(huge),
        percent(unusable(Order::LARGEST_FREE.index())),
    );
    let blocks: Vec<String> =
        zone.blocks.iter().enumerate().map(|(order, blocks)| format!("{order}:{blocks}")).collect();
    [
        Line::from(vec![
            Span::raw(numbers),
            Span::styled("|".repeat(filled), Style::new().fg(Color::Yellow)),
        ]),
        Line::from(dim(format!("  blocks {}", blocks.join(" ")))),
    ]
}
