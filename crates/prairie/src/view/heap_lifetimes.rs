//! Sizes and lifetimes of a process's objects, as a document and as tables.

use std::collections::BTreeMap;
use std::path::Path;

use prairie_heap::inspect::lifetimes::{DriverSettings, Lifetimes, Objects};
use prairie_report::{Cell, Column, Table, Terminal, number};
use serde::Serialize;

use crate::output::Header;

/// What `--json` prints.
#[derive(Serialize)]
pub struct Document {
    #[serde(flatten)]
    header: Header,
    pid: u32,
    name: String,
    /// How long objects were sampled.
    observed_seconds: f64,
    /// By size, four for each doubling, rising.
    sizes: Vec<SizeRow>,
    /// Freed objects by size and lifetime, rising.
    freed: Vec<ObjectsRow>,
    /// Live objects by size and age, rising.
    live: Vec<ObjectsRow>,
    /// Spans by size, rising.
    spans: Vec<SpanRow>,
    /// Settings of `prairie heap driver`; null if nothing was sampled.
    driver: Option<DriverRow>,
}

#[derive(Debug, Serialize)]
struct SizeRow {
    object_bytes: f64,
    allocated_bytes: f64,
    live_bytes: f64,
    mean_live_bytes: f64,
    /// Mean lifetime of freed objects; null if none was sampled.
    freed_lifetime_seconds: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ObjectsRow {
    object_bytes: f64,
    /// Mean lifetime of freed objects, mean age of live ones.
    seconds: f64,
    objects: f64,
    bytes: f64,
    samples: u64,
}

#[derive(Debug, Serialize)]
struct SpanRow {
    span_bytes: f64,
    spans: f64,
}

#[derive(Debug, Serialize)]
struct DriverRow {
    heap_bytes: f64,
    turnover: f64,
}

impl Document {
    /// Of a process.
    pub fn of(
        pid: u32,
        name: &str,
        lifetimes: &Lifetimes,
        driver: Option<&DriverSettings>,
    ) -> Document {
        let sizes = lifetimes.sizes().into_iter().map(|size| SizeRow {
            object_bytes: size.object_bytes,
            allocated_bytes: size.allocated_bytes,
            live_bytes: size.live_bytes,
            mean_live_bytes: size.mean_live_bytes,
            freed_lifetime_seconds: size.freed_lifetime_ns.map(|lifetime| lifetime / 1e9),
        });
        let row = |objects: &Objects| ObjectsRow {
            object_bytes: objects.object_bytes,
            seconds: objects.lifetime_ns / 1e9,
            objects: objects.objects,
            bytes: objects.bytes,
            samples: objects.samples,
        };
        let spans = lifetimes.spans.iter();
        Document {
            header: Header::new("prairie-heap-lifetimes", 1),
            pid,
            name: name.to_owned(),
            observed_seconds: lifetimes.observed_ns as f64 / 1e9,
            sizes: sizes.collect(),
            freed: lifetimes.freed.iter().map(row).collect(),
            live: lifetimes.live.iter().map(row).collect(),
            spans: spans
                .map(|spans| SpanRow { span_bytes: spans.span_bytes, spans: spans.spans })
                .collect(),
            driver: driver.map(|it| DriverRow { heap_bytes: it.heap_bytes, turnover: it.turnover }),
        }
    }
}

/// The tables for a terminal. `sizes` is the file that the sizes were written to.
pub fn text(document: &Document, sizes: Option<&Path>) -> String {
    let tables = [by_size(document), by_lifetime(document), by_span(document)];
    let tables = tables.map(|table| table.terminal(Terminal::of_stdout()));
    let mut text = tables.join("\n");
    if let (Some(driver), Some(path)) = (&document.driver, sizes) {
        // Whole MiB: the driver reads a size.
        let mebibytes = (driver.heap_bytes / f64::from(1 << 20)).ceil();
        text.push_str(&format!(
            "\nprairie heap driver --sizes {} --heap {mebibytes}M --turnover {:.3}\n",
            path.display(),
            driver.turnover
        ));
    }
    text
}

/// The power of two that a number is below.
fn above(value: f64) -> u64 {
    (value.max(1.0) as u64 + 1).next_power_of_two()
}

/// Shares of bytes, with the sum of those of smaller rows.
fn share(bytes: f64, sum: f64, all: f64) -> [Cell; 2] {
    [bytes, sum].map(|part| match all > 0.0 {
        true => Cell::from(number::percent(part / all)),
        false => Cell::from(number::NONE),
    })
}

/// Figure 4: objects by size.
fn by_size(document: &Document) -> Table {
    #[derive(Default)]
    struct Row {
        allocated: f64,
        live: f64,
        /// Freed bytes, and the product of bytes and lifetime.
        freed: f64,
        lived: f64,
    }
    let mut rows: BTreeMap<u64, Row> = BTreeMap::new();
    for size in &document.sizes {
        let row = rows.entry(above(size.object_bytes)).or_default();
        row.allocated += size.allocated_bytes;
        row.live += size.live_bytes;
        if let Some(lifetime) = size.freed_lifetime_seconds {
            let freed = size.allocated_bytes - size.live_bytes;
            row.freed += freed;
            row.lived += freed * lifetime;
        }
    }
    let all: f64 = document.sizes.iter().map(|size| size.live_bytes).sum();
    let mut sum = 0.0;
    let cells = rows.iter().map(|(&below, row)| {
        sum += row.live;
        let [share, sum] = share(row.live, sum, all);
        let lifetime = match row.freed > 0.0 {
            true => number::duration((1e9 * row.lived / row.freed) as u64),
            false => number::NONE.to_owned(),
        };
        vec![
            Cell::from(number::bytes(below)),
            Cell::from(number::bytes(row.allocated as u64)),
            Cell::from(number::bytes(row.live as u64)),
            share,
            sum,
            Cell::from(lifetime),
        ]
    });
    Table {
        title: format!(
            "Objects of {} ({}), sampled for {}",
            document.name,
            document.pid,
            number::duration((1e9 * document.observed_seconds) as u64)
        ),
        columns: [
            "size below",
            "allocated",
            "live",
            "share of live",
            "sum",
            "mean lifetime of freed",
        ]
        .map(Column::number)
        .into(),
        rows: cells.collect(),
        notes: Vec::new(),
    }
}

/// How long freed objects lived, and how old live ones are.
fn by_lifetime(document: &Document) -> Table {
    #[derive(Default)]
    struct Row {
        objects: f64,
        bytes: f64,
        live: f64,
    }
    // By decades of nanoseconds, from a microsecond on.
    let decade = |seconds: f64| (1e9 * seconds).max(1.0).log10().floor().max(2.0) as u32 + 1;
    let mut rows: BTreeMap<u32, Row> = BTreeMap::new();
    for freed in &document.freed {
        let row = rows.entry(decade(freed.seconds)).or_default();
        row.objects += freed.objects;
        row.bytes += freed.bytes;
    }
    for live in &document.live {
        rows.entry(decade(live.seconds)).or_default().live += live.bytes;
    }
    let all: f64 = document.freed.iter().map(|freed| freed.bytes).sum();
    let mut sum = 0.0;
    let cells = rows.iter().map(|(&below, row)| {
        sum += row.bytes;
        let [share, sum] = share(row.bytes, sum, all);
        vec![
            Cell::from(number::duration(10u64.saturating_pow(below))),
            Cell::from(number::count(row.objects as u64)),
            Cell::from(number::bytes(row.bytes as u64)),
            share,
            sum,
            Cell::from(number::bytes(row.live as u64)),
        ]
    });
    Table {
        title: "Lifetimes".to_owned(),
        columns: [
            "below",
            "objects freed",
            "bytes freed",
            "share",
            "sum",
            "live bytes of this age",
        ]
        .map(Column::number)
        .into(),
        rows: cells.collect(),
        notes: Vec::new(),
    }
}

/// Figure 5: spans by size.
fn by_span(document: &Document) -> Table {
    let mut rows: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for row in &document.spans {
        let entry = rows.entry((row.span_bytes as u64).next_power_of_two()).or_default();
        *entry = (entry.0 + row.spans, entry.1 + row.spans * row.span_bytes);
    }
    let all: f64 = rows.values().map(|row| row.1).sum();
    let mut sum = 0.0;
    let cells = rows.iter().map(|(&up_to, &(spans, bytes))| {
        sum += bytes;
        let [share, sum] = share(bytes, sum, all);
        vec![
            Cell::from(number::bytes(up_to)),
            Cell::from(number::count(spans as u64)),
            Cell::from(number::bytes(bytes as u64)),
            share,
            sum,
        ]
    });
    Table {
        title: "Spans".to_owned(),
        columns: ["size up to", "spans", "bytes", "share", "sum"].map(Column::number).into(),
        rows: cells.collect(),
        notes: vec!["Objects and spans of large objects are estimates from samples.".to_owned()],
    }
}
