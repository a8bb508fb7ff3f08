//! Reports of simulated machines.

pub mod bench;
pub mod explain;
pub mod run;
pub mod tmo;
pub mod translation;

use prairie_report::{Cell, Column, Table, Tone, number};
use prairie_sim::machine::counters::Counters;

/// Rows of the comparison that kernel developers quote (the 2025 posting of `defrag_mode`): a name
/// and where its value stands.
type Row = (&'static str, fn(&Counters) -> u64);

const QUOTED: [Row; 12] = [
    ("THP fault alloc", |c| c.thp_fault_alloc),
    ("THP fault fallback", |c| c.thp_fault_fallback),
    ("Direct compact stall", |c| c.compact_stall),
    ("Direct compact success", |c| c.compact_success),
    ("Direct compact fail", |c| c.compact_fail),
    ("Alloc stall", stalls),
    ("Pages kswapd scanned", |c| c.pgscan_kswapd),
    ("Pages kswapd reclaimed", |c| c.pgsteal_kswapd),
    ("Pages direct scanned", |c| c.pgscan_direct),
    ("Pages direct reclaimed", |c| c.pgsteal_direct),
    ("Pages migrated", |c| c.pgmigrate_success),
    ("Swap out", |c| c.pswpout),
];

fn stalls(c: &Counters) -> u64 {
    c.allocstall_dma
        + c.allocstall_dma32
        + c.allocstall_normal
        + c.allocstall_highmem
        + c.allocstall_movable
}

/// A number with its difference from the first column in percent.
pub fn compared(value: f64, first: f64, text: String) -> Cell {
    if value == first || first == 0.0 {
        return text.into();
    }
    format!("{text} ({})", number::change(value / first - 1.0, 0)).into()
}

/// The rows of the 2025 posting, each allocator compared with the first.
fn quoted(systems: &[(&str, &Counters)]) -> Table {
    let rows = QUOTED.iter().map(|(name, value)| {
        let first = systems.first().map_or(0, |(_, counters)| value(counters));
        let cells = systems.iter().map(|(_, counters)| {
            let this = value(counters);
            compared(this as f64, first as f64, number::count(this))
        });
        std::iter::once(Cell::from(*name)).chain(cells).collect()
    });
    Table {
        title: "Activity of memory management".to_owned(),
        columns: columns(systems.iter().map(|(name, _)| *name)),
        rows: rows.collect(),
        notes: vec!["In parentheses: compared with the first allocator.".to_owned()],
    }
}

/// All counters that are not zero everywhere.
fn all_counters(systems: &[(&str, &Counters)]) -> Table {
    let lists: Vec<Vec<(&str, u64)>> = systems.iter().map(|(_, c)| c.list()).collect();
    let names = lists.first().map_or(0, Vec::len);
    let rows = (0..names).filter(|&at| lists.iter().any(|list| list[at].1 > 0)).map(|at| {
        let name = Cell::toned(lists[0][at].0, Tone::Muted);
        let values = lists.iter().map(|list| Cell::from(number::count(list[at].1)));
        std::iter::once(name).chain(values).collect()
    });
    Table {
        title: "Counters of `/proc/vmstat`".to_owned(),
        columns: columns(systems.iter().map(|(name, _)| *name)),
        rows: rows.collect(),
        notes: Vec::new(),
    }
}

/// A column of names and one for each allocator.
fn columns<'a>(systems: impl Iterator<Item = &'a str>) -> Vec<Column> {
    std::iter::once(Column::text("")).chain(systems.map(Column::number)).collect()
}
