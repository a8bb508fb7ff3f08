//! The heaps of several processes as a table.

use prairie_heap::Statistics;
use prairie_report::{Cell, Column, Table, number};

/// One process on the heap.
pub struct Process<'a> {
    /// Its ID.
    pub pid: u32,
    /// Its name.
    pub name: String,
    /// Its statistics.
    pub statistics: &'a Statistics,
}

/// The table, and what is not in it.
pub fn table(processes: &[Process<'_>], unreadable: usize) -> Table {
    let notes = match unreadable {
        0 => Vec::new(),
        count => vec![format!("Processes that need more permission to be read: {count}.")],
    };
    Table {
        title: "Processes on Prairie's heap".to_owned(),
        columns: vec![
            Column::number("pid"),
            Column::text("name"),
            Column::text("page heap"),
            Column::number("live"),
            Column::number("in caches"),
            Column::number("in spans"),
            Column::number("free pages"),
            Column::number("on huge pages"),
        ],
        rows: processes.iter().map(row).collect(),
        notes,
    }
}

fn row(process: &Process<'_>) -> Vec<Cell> {
    let Statistics { small, page_heap, .. } = process.statistics;
    let bytes = |bytes: usize| Cell::from(number::bytes(bytes as u64));
    vec![
        Cell::from(process.pid.to_string()),
        Cell::from(process.name.clone()),
        Cell::from(page_heap.page_heap),
        bytes(process.statistics.live_bytes()),
        bytes(small.in_caches_bytes()),
        bytes(small.in_spans_bytes()),
        Cell::from(number::bytes(page_heap.backing.free.bytes())),
        Cell::from(page_heap.backing.coverage().map_or(number::NONE.to_owned(), number::percent)),
    ]
}
