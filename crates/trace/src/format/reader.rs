//! Reading a trace: the description, the snapshot, and the events as a stream.

use std::path::Path;

use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use prairie_host::FrameRun;

use super::row::{BATCH, BadValue, Rows, Values, View};
use super::table::{Table, read_column, reason};
use super::{Column, Columns, SCHEMA_VERSION, column, key};
use crate::{Error, Event, EventSource, Metadata, Result, Text, Texts};

/// An open trace file.
pub struct Reader {
    table: Table,
    metadata: Metadata,
    /// Row groups before this one hold the snapshot, those from it on the events.
    first_event_group: usize,
}

impl Reader {
    /// Opens a trace and reads its description; no row is read yet.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::NotParquet`], [`Error::Foreign`], [`Error::Newer`],
    /// [`Error::PageSize`], [`Error::Damaged`].
    pub fn open(path: &Path) -> Result<Reader> {
        let mut table = Table::open(path)?;
        table.check_version(key::VERSION, SCHEMA_VERSION, "")?;
        table.check_columns(&column::schema())?;
        let metadata: Metadata = table.json(key::METADATA)?;
        if metadata.page_bytes != 4096 {
            return Err(Error::PageSize { path: path.into(), page_bytes: metadata.page_bytes });
        }
        table.read_checksums(key::CHECKSUMS, Column::ALL.len())?;
        let first_event_group = check_rows(&table, &metadata)?;
        Ok(Reader { table, metadata, first_event_group })
    }

    /// The trace's metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Size of the file.
    pub fn file_bytes(&self) -> u64 {
        self.table.file_bytes
    }

    /// The snapshot: runs of frames, ascending and without overlap; none where the trace has no
    /// snapshot.
    pub fn frame_runs(&self) -> FrameRuns<'_> {
        self.frame_runs_of(Columns::FRAMES)
    }

    /// The same runs with a time of 0: those who only count frames need not decode the times,
    /// which are most of a snapshot's bytes.
    pub fn frame_flags(&self) -> FrameRuns<'_> {
        self.frame_runs_of(Columns::FRAME_FLAGS)
    }

    fn frame_runs_of(&self, columns: Columns) -> FrameRuns<'_> {
        let rows = RowStream::new(self, columns, 0..self.first_event_group);
        FrameRuns { rows, at: 0, next_frame: 0, failed: false }
    }

    /// The events, in the order of the file. Columns that are not among `columns` read as zero.
    pub fn events(&self, columns: Columns) -> Events<'_> {
        let groups = self.first_event_group..self.table.parquet.num_row_groups();
        let rows = RowStream::new(self, columns, groups);
        Events { rows, batch: Vec::with_capacity(BATCH), texts: Texts::default() }
    }

    /// Compressed bytes of the events: the file without its snapshot and its description.
    pub fn event_bytes(&self) -> u64 {
        let groups = &self.table.parquet.row_groups()[self.first_event_group..];
        groups.iter().map(|group| group.compressed_size() as u64).sum()
    }

    /// Compressed bytes of each column over the whole file, for those who choose encodings.
    pub fn column_bytes(&self) -> Vec<(&'static str, u64)> {
        let bytes = |column: Column| {
            let chunks = self.table.parquet.row_groups().iter().map(|g| g.column(column as usize));
            chunks.map(|c| c.compressed_size() as u64).sum()
        };
        Column::ALL.into_iter().map(|c| (c.name(), bytes(c))).collect()
    }
}

/// Checks that the row groups are what the metadata says; returns the first one with events.
fn check_rows(table: &Table, metadata: &Metadata) -> Result<usize> {
    let groups = table.parquet.row_groups();
    let mut frame_runs = 0;
    let mut first_event_group = 0;
    while frame_runs < metadata.frame_runs && first_event_group < groups.len() {
        frame_runs += table.rows(&groups[first_event_group])?;
        first_event_group += 1;
    }
    let mut events = 0;
    for group in &groups[first_event_group..] {
        events += table.rows(group)?;
    }
    if (frame_runs, events) != (metadata.frame_runs, metadata.events) {
        return Err(table.damaged("its rows are not as many as its metadata says".to_owned()));
    }
    Ok(first_event_group)
}

/// Decodes the wanted columns of some row groups, [`BATCH`] rows at a time.
struct RowStream<'a> {
    reader: &'a Reader,
    columns: Columns,
    groups: std::ops::Range<usize>,
    /// Rows of the current row group not yet decoded.
    left: usize,
    i32s: Vec<(Column, ColumnReaderImpl<Int32Type>)>,
    i64s: Vec<(Column, ColumnReaderImpl<Int64Type>)>,
    text: Option<ColumnReaderImpl<ByteArrayType>>,
    /// The batch's rows.
    rows: Rows,
    levels: Vec<i16>,
    texts: Vec<ByteArray>,
    /// Rows of the batch.
    decoded: usize,
    /// Number of the first row of the batch, counted from the first of these row groups.
    row: u64,
}

impl<'a> RowStream<'a> {
    fn new(reader: &'a Reader, columns: Columns, groups: std::ops::Range<usize>) -> Self {
        RowStream {
            reader,
            columns,
            groups,
            left: 0,
            i32s: Vec::new(),
            i64s: Vec::new(),
            text: None,
            rows: Rows::default(),
            levels: Vec::new(),
            texts: Vec::new(),
            decoded: 0,
            row: 0,
        }
    }

    /// Decodes the next rows; returns how many, 0 at the end.
    fn advance(&mut self) -> Result<usize> {
        self.row += self.decoded as u64;
        self.decoded = 0;
        while self.left == 0 {
            let Some(group) = self.groups.next() else {
                return Ok(0);
            };
            self.open(group)?;
        }
        let wanted = self.left.min(BATCH);
        if let Err(error) = self.decode(wanted) {
            self.groups = 0..0;
            self.left = 0;
            let place = format!("row {}: {}", self.row, reason(error));
            return Err(Error::damaged(&self.reader.table.path, place));
        }
        self.left -= wanted;
        self.decoded = wanted;
        Ok(wanted)
    }

    fn open(&mut self, group: usize) -> Result<()> {
        let schema = self.reader.table.parquet.file_metadata().schema_descr();
        self.i32s.clear();
        self.i64s.clear();
        self.text = None;
        for column in Column::ALL {
            if !self.columns.contains(column) {
                continue;
            }
            let described = schema.column(column as usize);
            let pages = self.reader.table.pages(group, column as usize, column.name())?;
            match self.rows.column(column) {
                Some(Values::I32(_)) => {
                    self.i32s.push((column, ColumnReaderImpl::new(described, pages)));
                }
                Some(Values::I64(_)) => {
                    self.i64s.push((column, ColumnReaderImpl::new(described, pages)));
                }
                None => self.text = Some(ColumnReaderImpl::new(described, pages)),
            }
        }
        self.left = self.reader.table.parquet.row_group(group).num_rows() as usize;
        Ok(())
    }

    fn decode(&mut self, wanted: usize) -> ParquetResult<()> {
        for (column, reader) in &mut self.i32s {
            if let Some(Values::I32(values)) = self.rows.column(*column) {
                read_column(reader, wanted, None, values)?;
            }
        }
        for (column, reader) in &mut self.i64s {
            if let Some(Values::I64(values)) = self.rows.column(*column) {
                read_column(reader, wanted, None, values)?;
            }
        }
        if let Some(reader) = &mut self.text {
            self.levels.clear();
            read_column(reader, wanted, Some(&mut self.levels), &mut self.texts)?;
        }
        Ok(())
    }

    fn damaged(&self, i: usize, bad: BadValue) -> Error {
        let BadValue { column, value } = bad;
        let what = format!("row {}: {} cannot be {value}", self.row + i as u64, column.name());
        Error::damaged(&self.reader.table.path, what)
    }
}

/// The events of a trace, in batches; see [`Reader::events`].
pub struct Events<'a> {
    rows: RowStream<'a>,
    batch: Vec<Event>,
    texts: Texts,
}

impl EventSource for Events<'_> {
    fn next_batch(&mut self) -> Result<Option<&[Event]>> {
        self.batch.clear();
        let count = self.rows.advance()?;
        if count == 0 {
            return Ok(None);
        }
        if self.rows.levels.is_empty() {
            assemble(self.rows.rows.view(), count, |_| Text::EMPTY, &mut self.batch)
        } else {
            let (levels, texts) = (&self.rows.levels, &mut self.texts);
            let mut values = self.rows.texts.iter();
            let text = |i: usize| match levels[i] {
                0 => Text::EMPTY,
                _ => {
                    let bytes = values.next().map_or(&[][..], ByteArray::data);
                    texts.intern(&String::from_utf8_lossy(bytes))
                }
            };
            assemble(self.rows.rows.view(), count, text, &mut self.batch)
        }
        .map_err(|(i, bad)| self.rows.damaged(i, bad))?;
        Ok(Some(&self.batch))
    }

    fn texts(&self) -> &Texts {
        &self.texts
    }
}

/// Turns the first `count` rows into events. `text` is called for each row in order.
fn assemble(
    view: View<'_>,
    count: usize,
    mut text: impl FnMut(usize) -> Text,
    batch: &mut Vec<Event>,
) -> std::result::Result<(), (usize, BadValue)> {
    batch.reserve(count);
    for i in 0..count.min(BATCH) {
        batch.push(view.event(i, text(i)).map_err(|bad| (i, bad))?);
    }
    Ok(())
}

/// The runs of frames of a snapshot; see [`Reader::frame_runs`].
pub struct FrameRuns<'a> {
    rows: RowStream<'a>,
    at: usize,
    next_frame: u64,
    failed: bool,
}

impl FrameRuns<'_> {
    fn read(&mut self) -> Result<Option<FrameRun>> {
        if self.at == self.rows.decoded {
            self.at = 0;
            if self.rows.advance()? == 0 {
                return Ok(None);
            }
        }
        let i = self.at;
        self.at += 1;
        let run = self.rows.rows.run(i).map_err(|bad| self.rows.damaged(i, bad))?;
        let end = run.start.0.checked_add(run.frames).filter(|&end| end < 1 << 52);
        match end {
            Some(end) if run.start.0 >= self.next_frame && run.frames > 0 => {
                self.next_frame = end;
                Ok(Some(run))
            }
            _ => {
                let what = format!(
                    "row {}: {} frames from {} after frame {:#x}; runs ascend without overlap",
                    self.rows.row + i as u64,
                    run.frames,
                    run.start,
                    self.next_frame
                );
                Err(Error::damaged(&self.rows.reader.table.path, what))
            }
        }
    }
}

impl Iterator for FrameRuns<'_> {
    type Item = Result<FrameRun>;

    fn next(&mut self) -> Option<Result<FrameRun>> {
        if self.failed {
            return None;
        }
        let item = self.read().transpose();
        self.failed = matches!(item, Some(Err(_)));
        item
    }
}
