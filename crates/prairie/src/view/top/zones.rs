//! Fragmentation by zone.

use prairie_frames::Order;
use prairie_host::survey::FreeLists;
use prairie_observe::summary::ZoneRow;
use prairie_report::number;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::style::{bold, dim, percent, plain};
use super::{State, regions};

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
    lines.extend(regions::lines(state));
    lines
}

/// A number in few digits, so that those of all orders fit into 80 columns.
fn short(blocks: u64) -> String {
    match blocks {
        0..10_000 => blocks.to_string(),
        10_000..10_000_000 => format!("{}k", blocks / 1000),
        _ => format!("{}M", blocks / 1_000_000),
    }
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
    let counts = zone.blocks.iter().enumerate();
    let blocks: Vec<String> =
        counts.map(|(order, &blocks)| format!("{order}:{}", short(blocks))).collect();
    [
        Line::from(vec![
            Span::raw(numbers),
            Span::styled("|".repeat(filled), Style::new().fg(Color::Yellow)),
        ]),
        Line::from(dim(format!("  blocks {}", blocks.join(" ")))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_orders_of_a_large_zone_fit_into_80_columns() {
        let blocks =
            vec![1_209_300, 98_765, 12_093, 9_999, 8_000, 4_000, 999, 500, 951, 70, 12_000];
        let zone = ZoneRow { node: 0, zone: "Normal".to_owned(), blocks };
        let line = zone_lines(&zone)[1].to_string();
        assert!(line.ends_with(" 8:951 9:70 10:12k") && line.len() <= 80, "{line}");
        assert!(line.contains(" 0:1209k 1:98k 2:12k 3:9999 "), "{line}");
    }
}
