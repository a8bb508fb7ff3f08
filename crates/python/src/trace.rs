//! Traces in Python: the description, and the events in batches of columns.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};

use arrow_array::builder::{
    BooleanBuilder, Int32Builder, Int64Builder, StringBuilder, StringDictionaryBuilder,
};
use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use prairie_frames::{MigrateType, Order, Pfn};
use prairie_trace::{
    Columns, Event, EventKind, EventSource, GfpFlags, Kind, Reader, StackId, Texts,
};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::error::PrairieError;
use crate::table::{Table, schema_capsule, stream_capsule};

/// Rows of a batch, so that a batch fits in a core's cache.
const ROWS: usize = 1 << 16;

/// Batches that may wait to be taken.
const WAITING: usize = 2;

/// A column: its name, its type, its unit, and what it holds.
type Column = (&'static str, fn() -> DataType, &'static str, &'static str);

/// The columns of an event; null where it has none.
const COLUMNS: [Column; 16] = [
    ("time_ns", || DataType::Int64, "ns", "CLOCK_MONOTONIC of the recorded machine"),
    ("event", names, "", "alloc, free, and the other kinds of the trace format"),
    ("cpu", || DataType::Int32, "", "CPU"),
    ("pid", || DataType::Int32, "", "process that ran; 0 idle, -1 unknown"),
    ("pfn", || DataType::Int64, "", "first frame"),
    ("order", || DataType::Int32, "", "the block has two to this power frames"),
    ("migrate_type", names, "", "mobility, as in /proc/pagetypeinfo"),
    ("gfp_flags", || DataType::Int64, "", "flags in the recorded kernel's numbering"),
    ("stack", || DataType::Int64, "", "number of the call chain"),
    ("fallback_order", || DataType::Int32, "", "extfrag: size of the block taken"),
    ("fallback_type", names, "", "extfrag: type of the list it was on"),
    ("change_ownership", || DataType::Boolean, "", "extfrag: whether the pageblock changes type"),
    ("count", || DataType::Int64, "", "lost: events lost"),
    ("task", || DataType::Int32, "", "stalls: the thread"),
    ("value", || DataType::Int64, "", "stalls: result code, reclaimed pages, or node"),
    ("text", || DataType::Utf8, "", "process, stack, marker, cgroup: the text"),
];

fn names() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8))
}

fn schema(metadata: HashMap<String, String>) -> SchemaRef {
    let field = |&(name, kind, unit, meaning): &Column| {
        let about = [("unit", unit), ("meaning", meaning)];
        let about = about.into_iter().filter(|(_, text)| !text.is_empty());
        Field::new(name, kind(), true).with_metadata(
            about.map(|(key, text)| (key.to_owned(), text.to_owned())).collect::<HashMap<_, _>>(),
        )
    };
    let fields: Vec<Field> = COLUMNS.iter().map(field).collect();
    Arc::new(Schema::new_with_metadata(fields, metadata))
}

/// A recording, or another file of the trace format.
#[pyclass(frozen, module = "prairie._prairie")]
pub struct TraceFile {
    path: PathBuf,
    metadata: prairie_trace::Metadata,
    file_bytes: u64,
    schema: OnceLock<SchemaRef>,
}

#[pymethods]
impl TraceFile {
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<TraceFile> {
        let reader = py.detach(|| Reader::open(&path)).map_err(failed)?;
        let (metadata, file_bytes) = (reader.metadata().clone(), reader.file_bytes());
        Ok(TraceFile { path, metadata, file_bytes, schema: OnceLock::new() })
    }

    /// `uname -r` of the machine; empty where it is not known.
    #[getter]
    fn kernel_release(&self) -> &str {
        &self.metadata.kernel_release
    }

    /// Number of events.
    #[getter]
    fn events(&self) -> u64 {
        self.metadata.events
    }

    /// Events that were lost while recording.
    #[getter]
    fn lost_events(&self) -> u64 {
        self.metadata.lost_events()
    }

    /// Nanoseconds that were recorded; None for an import.
    #[getter]
    fn duration_ns(&self) -> Option<u64> {
        self.metadata.recording.as_ref().map(prairie_trace::Recording::duration_ns)
    }

    /// Size of the file in bytes.
    #[getter]
    fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Whether the trace begins with the state of every frame.
    #[getter]
    fn has_snapshot(&self) -> bool {
        self.metadata.before.is_some()
    }

    /// The events as tables, in the order of the file.
    fn batches(&self, py: Python<'_>) -> Batches {
        Batches { stream: Mutex::new(self.stream(py)) }
    }

    /// The schema of the events as a capsule of Arrow's C interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(py, &self.schema(py))
    }

    /// All events as a stream of Arrow's C interface, with one batch in memory at a time.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        stream_capsule(py, Box::new(self.stream(py)))
    }
}

impl TraceFile {
    /// The schema with where the events come from, for which the file is hashed once.
    fn schema(&self, py: Python<'_>) -> SchemaRef {
        py.detach(|| self.schema.get_or_init(|| schema(self.origin()))).clone()
    }

    fn origin(&self) -> HashMap<String, String> {
        let call = format!("prairie.Trace({:?})", self.path);
        let block = prairie::called(call, vec![self.path.clone()]).block();
        // A block is strings and numbers.
        let block = serde_json::to_string(&block).unwrap_or_default();
        HashMap::from([
            ("prairie.schema".to_owned(), "prairie-trace".to_owned()),
            ("prairie.kernel_release".to_owned(), self.metadata.kernel_release.clone()),
            (prairie_provenance::KEY.to_owned(), block),
        ])
    }

    fn stream(&self, py: Python<'_>) -> Stream {
        Stream::open(self.path.clone(), self.schema(py))
    }
}

fn failed(error: prairie_trace::Error) -> PyErr {
    PrairieError::new_err(error.to_string())
}

/// The events of a trace, a table at a time.
#[pyclass(frozen, module = "prairie._prairie")]
pub struct Batches {
    stream: Mutex<Stream>,
}

#[pymethods]
impl Batches {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Table>> {
        let next = py.detach(|| self.stream.lock().ok().and_then(|mut stream| stream.next()));
        match next {
            Some(Ok(batch)) => Ok(Some(Table { batch })),
            Some(Err(error)) => Err(PrairieError::new_err(plain(&error))),
            None => Ok(None),
        }
    }
}

/// The text of an error that [`read`] passed on.
fn plain(error: &ArrowError) -> String {
    match error {
        ArrowError::ExternalError(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// Batches that another thread reads ahead. It ends when the stream is dropped.
struct Stream {
    schema: SchemaRef,
    batches: Receiver<Result<RecordBatch, ArrowError>>,
}

impl Stream {
    fn open(path: PathBuf, schema: SchemaRef) -> Stream {
        let (sender, batches) = sync_channel(WAITING);
        let own = schema.clone();
        std::thread::spawn(move || {
            let result = read(path, &own, &mut |batch| sender.send(Ok(batch)).is_ok());
            if let Err(error) = result {
                // The receiver may be gone.
                let _ = sender.send(Err(ArrowError::ExternalError(error.into())));
            }
        });
        Stream { schema, batches }
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.batches.recv().ok()
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

/// Reads the events; `take` returns whether it wants more.
fn read(
    path: PathBuf,
    schema: &SchemaRef,
    take: &mut dyn FnMut(RecordBatch) -> bool,
) -> prairie_trace::Result<()> {
    let reader = Reader::open(&path)?;
    let mut events = reader.events(Columns::ALL);
    let mut rows = Rows::default();
    while let Some(batch) = events.next_batch()? {
        // The texts of a batch are known once it has been read.
        let batch = batch.to_vec();
        batch.iter().for_each(|event| rows.push(event, events.texts()));
        if rows.count >= ROWS && !take(rows.finish(schema)) {
            return Ok(());
        }
    }
    if rows.count > 0 {
        take(rows.finish(schema));
    }
    Ok(())
}

/// The columns of a batch as they grow.
#[derive(Default)]
struct Rows {
    count: usize,
    time_ns: Int64Builder,
    event: StringDictionaryBuilder<Int8Type>,
    cpu: Int32Builder,
    pid: Int32Builder,
    pfn: Int64Builder,
    order: Int32Builder,
    migrate_type: StringDictionaryBuilder<Int8Type>,
    gfp_flags: Int64Builder,
    stack: Int64Builder,
    fallback_order: Int32Builder,
    fallback_type: StringDictionaryBuilder<Int8Type>,
    change_ownership: BooleanBuilder,
    lost: Int64Builder,
    task: Int32Builder,
    value: Int64Builder,
    text: StringBuilder,
}

/// What an event has besides time, CPU, and process.
#[derive(Default)]
struct Row<'a> {
    pfn: Option<Pfn>,
    order: Option<Order>,
    migrate_type: Option<MigrateType>,
    gfp: Option<GfpFlags>,
    stack: Option<StackId>,
    fallback: Option<(Order, MigrateType, bool)>,
    lost: Option<u64>,
    stall: Option<(i32, u32)>,
    text: Option<&'a str>,
}

impl<'a> Row<'a> {
    fn of(what: &EventKind, texts: &'a Texts) -> Row<'a> {
        let none = Row::default();
        match *what {
            EventKind::Alloc { pfn, order, migrate_type, gfp, stack } => Row {
                pfn: Some(pfn),
                order: Some(order),
                migrate_type: Some(migrate_type),
                gfp: Some(gfp),
                stack: Some(stack),
                ..none
            },
            EventKind::AllocFailed { order, migrate_type, gfp, stack } => Row {
                order: Some(order),
                migrate_type: Some(migrate_type),
                gfp: Some(gfp),
                stack: Some(stack),
                ..none
            },
            EventKind::Free { pfn, order }
            | EventKind::Pin { pfn, order }
            | EventKind::Unpin { pfn, order } => Row { pfn: Some(pfn), order: Some(order), ..none },
            EventKind::FreeBatched { pfn } => Row { pfn: Some(pfn), ..none },
            EventKind::Extfrag {
                pfn,
                order,
                fallback_order,
                migrate_type,
                fallback_type,
                change_ownership,
            } => Row {
                pfn: Some(pfn),
                order: Some(order),
                migrate_type: Some(migrate_type),
                fallback: Some((fallback_order, fallback_type, change_ownership)),
                ..none
            },
            EventKind::ZoneLocked { pfn, order, migrate_type }
            | EventKind::PcpuDrain { pfn, order, migrate_type } => {
                Row { pfn: Some(pfn), order: Some(order), migrate_type: Some(migrate_type), ..none }
            }
            EventKind::Process { name } => Row { text: Some(texts.get(name)), ..none },
            EventKind::Stack { id, folded } => {
                Row { stack: Some(id), text: Some(texts.get(folded)), ..none }
            }
            EventKind::Lost { count } => Row { lost: Some(count), ..none },
            EventKind::Marker { text } => Row { text: Some(texts.get(text)), ..none },
            EventKind::Stall { task, order, gfp, stack, value, .. } => Row {
                order: Some(order),
                gfp: Some(gfp),
                stack: Some(stack),
                stall: Some((task, value)),
                ..none
            },
            EventKind::Cgroup { path } => Row { text: Some(texts.get(path)), ..none },
            // `Exit`, and kinds that have no columns yet.
            _ => none,
        }
    }
}

impl Rows {
    fn push(&mut self, event: &Event, texts: &Texts) {
        let row = Row::of(&event.what, texts);
        let stack = row.stack.filter(|&stack| stack != StackId::NONE);
        self.count += 1;
        self.time_ns.append_value(event.time_ns as i64);
        self.event.append_value(Kind::of(&event.what).name());
        self.cpu.append_value(i32::from(event.cpu));
        self.pid.append_value(event.pid);
        self.pfn.append_option(row.pfn.map(|pfn| pfn.0 as i64));
        self.order.append_option(row.order.map(|order| i32::from(order.get())));
        self.migrate_type.append_option(row.migrate_type.map(MigrateType::name));
        self.gfp_flags.append_option(row.gfp.map(|gfp| i64::from(gfp.0)));
        self.stack.append_option(stack.map(|stack| i64::from(stack.0)));
        self.fallback_order.append_option(row.fallback.map(|(order, ..)| i32::from(order.get())));
        self.fallback_type.append_option(row.fallback.map(|(_, kind, _)| kind.name()));
        self.change_ownership.append_option(row.fallback.map(|(.., change)| change));
        self.lost.append_option(row.lost.map(|lost| lost as i64));
        self.task.append_option(row.stall.map(|(task, _)| task));
        self.value.append_option(row.stall.map(|(_, value)| i64::from(value)));
        self.text.append_option(row.text);
    }

    fn finish(&mut self, schema: &SchemaRef) -> RecordBatch {
        self.count = 0;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.time_ns.finish()),
            Arc::new(self.event.finish()),
            Arc::new(self.cpu.finish()),
            Arc::new(self.pid.finish()),
            Arc::new(self.pfn.finish()),
            Arc::new(self.order.finish()),
            Arc::new(self.migrate_type.finish()),
            Arc::new(self.gfp_flags.finish()),
            Arc::new(self.stack.finish()),
            Arc::new(self.fallback_order.finish()),
            Arc::new(self.fallback_type.finish()),
            Arc::new(self.change_ownership.finish()),
            Arc::new(self.lost.finish()),
            Arc::new(self.task.finish()),
            Arc::new(self.value.finish()),
            Arc::new(self.text.finish()),
        ];
        RecordBatch::try_new(schema.clone(), columns)
            .expect("a column for each field, of one length")
    }
}
