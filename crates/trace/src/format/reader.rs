//! Reading a trace: the description, the snapshot, and the events as a stream.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use prairie_host::FrameRun;

use super::row::{BATCH, BadValue, Rows, Values, View};
use super::{Column, Columns, ROWS_IN_GROUP, SCHEMA_VERSION, chunk, column, key};
use crate::{Error, Event, EventSource, Metadata, Result, Text, Texts};

/// An open trace file.
pub struct Reader {
    path: PathBuf,
    file: File,
    file_bytes: u64,
    parquet: ParquetMetaData,
    checksums: Vec<Vec<u32>>,
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
        let file = File::open(path).map_err(Error::read(path))?;
        let attributes = file.metadata().map_err(Error::read(path))?;
        if attributes.is_dir() {
            let source = std::io::ErrorKind::IsADirectory.into();
            return Err(Error::Read { path: path.into(), source });
        }
        let file_bytes = attributes.len();
        let parquet = ParquetMetaDataReader::new()
            .parse_and_finish(&file)
            .map_err(|e| Error::NotParquet { path: path.into(), reason: reason(e) })?;
        check_version(path, &parquet)?;
        check_columns(path, &parquet)?;
        let metadata: Metadata = json(path, &parquet, key::METADATA)?;
        if metadata.page_bytes != 4096 {
            return Err(Error::PageSize { path: path.into(), page_bytes: metadata.page_bytes });
        }
        let checksums: Vec<Vec<u32>> = json(path, &parquet, key::CHECKSUMS)?;
        let first_event_group = check_rows(path, &parquet, &metadata, &checksums)?;
        let path = path.into();
        Ok(Reader { path, file, file_bytes, parquet, checksums, metadata, first_event_group })
    }

    /// The trace's metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Size of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
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
        let groups = self.first_event_group..self.parquet.num_row_groups();
        let rows = RowStream::new(self, columns, groups);
        Events { rows, batch: Vec::with_capacity(BATCH), texts: Texts::default() }
    }

    /// Compressed bytes of the events: the file without its snapshot and its description.
    pub fn event_bytes(&self) -> u64 {
        let groups = &self.parquet.row_groups()[self.first_event_group..];
        groups.iter().map(|group| group.compressed_size() as u64).sum()
    }

    /// Compressed bytes of each column over the whole file, for those who choose encodings.
    pub fn column_bytes(&self) -> Vec<(&'static str, u64)> {
        let bytes = |column: Column| {
            let chunks = self.parquet.row_groups().iter().map(|g| g.column(column as usize));
            chunks.map(|c| c.compressed_size() as u64).sum()
        };
        Column::ALL.into_iter().map(|c| (c.name(), bytes(c))).collect()
    }

    /// The checked bytes of a column of a row group, as pages.
    fn pages(
        &self,
        group: usize,
        column: Column,
    ) -> Result<Box<dyn parquet::column::page::PageReader>> {
        let place = || format!("column {} of row group {group}", column.name());
        let metadata: &RowGroupMetaData = self.parquet.row_group(group);
        let chunk = metadata.column(column as usize);
        let bytes =
            chunk::read(&self.file, self.file_bytes, chunk).map_err(|e| match e.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    Error::damaged(&self.path, format!("{}: {e}", place()))
                }
                _ => Error::read(&self.path)(e),
            })?;
        if crc32fast::hash(&bytes) != self.checksums[group][column as usize] {
            return Err(Error::damaged(&self.path, format!("{}: wrong checksum", place())));
        }
        chunk::pages(bytes, chunk, metadata.num_rows() as usize)
            .map_err(|e| Error::damaged(&self.path, format!("{}: {}", place(), reason(e))))
    }
}

pub(crate) fn reason(error: ParquetError) -> String {
    let text = match error {
        ParquetError::General(text) | ParquetError::EOF(text) => text,
        other => other.to_string(),
    };
    text.replace('\n', " ")
}

pub(crate) fn metadata_value<'a>(parquet: &'a ParquetMetaData, key: &str) -> Option<&'a str> {
    let pairs = parquet.file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
}

pub(crate) fn json<T: serde::de::DeserializeOwned>(
    path: &Path,
    parquet: &ParquetMetaData,
    key: &str,
) -> Result<T> {
    let text = metadata_value(parquet, key).unwrap_or_default();
    serde_json::from_str(text).map_err(|e| Error::damaged(path, format!("metadata {key}: {e}")))
}

fn check_version(path: &Path, parquet: &ParquetMetaData) -> Result<()> {
    let Some(text) = metadata_value(parquet, key::VERSION) else {
        let reason = format!("it has no {} in its metadata", key::VERSION);
        return Err(Error::Foreign { path: path.into(), reason });
    };
    let version: u32 = text
        .parse()
        .map_err(|_| Error::damaged(path, format!("{} is {text:?}, not a number", key::VERSION)))?;
    if version > SCHEMA_VERSION {
        return Err(Error::Newer { path: path.into(), version, supported: SCHEMA_VERSION });
    }
    Ok(())
}

fn check_columns(path: &Path, parquet: &ParquetMetaData) -> Result<()> {
    let found = parquet.file_metadata().schema();
    if found != column::schema().as_ref() {
        return Err(Error::damaged(path, "its columns are not those of version 1"));
    }
    Ok(())
}

/// Checks that the row groups are what the metadata says; returns the first one with events.
fn check_rows(
    path: &Path,
    parquet: &ParquetMetaData,
    metadata: &Metadata,
    checksums: &[Vec<u32>],
) -> Result<usize> {
    let groups = parquet.row_groups();
    let rows = |group: &RowGroupMetaData| {
        let rows = u64::try_from(group.num_rows()).ok();
        let sound = rows.filter(|&rows| rows <= ROWS_IN_GROUP as u64);
        sound.ok_or_else(|| {
            Error::damaged(path, format!("{} rows in a row group", group.num_rows()))
        })
    };
    let whole = checksums.len() == groups.len()
        && checksums.iter().all(|sums| sums.len() == Column::ALL.len())
        && groups.iter().all(|group| group.num_columns() == Column::ALL.len());
    if !whole {
        return Err(Error::damaged(path, "its checksums do not match its row groups"));
    }
    let mut frame_runs = 0;
    let mut first_event_group = 0;
    while frame_runs < metadata.frame_runs && first_event_group < groups.len() {
        frame_runs += rows(&groups[first_event_group])?;
        first_event_group += 1;
    }
    let mut events = 0;
    for group in &groups[first_event_group..] {
        events += rows(group)?;
    }
    if (frame_runs, events) != (metadata.frame_runs, metadata.events) {
        return Err(Error::damaged(path, "its rows are not as many as its metadata says"));
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
            return Err(Error::damaged(&self.reader.path, place));
        }
        self.left -= wanted;
        self.decoded = wanted;
        Ok(wanted)
    }

    fn open(&mut self, group: usize) -> Result<()> {
        let schema = self.reader.parquet.file_metadata().schema_descr();
        self.i32s.clear();
        self.i64s.clear();
        self.text = None;
        for column in Column::ALL {
            if !self.columns.contains(column) {
                continue;
            }
            let described = schema.column(column as usize);
            let pages = self.reader.pages(group, column)?;
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
        self.left = self.reader.parquet.row_group(group).num_rows() as usize;
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
        Error::damaged(&self.reader.path, what)
    }
}

fn read_column<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    wanted: usize,
    levels: Option<&mut Vec<i16>>,
    values: &mut Vec<T::T>,
) -> ParquetResult<()> {
    values.clear();
    let (rows, _, _) = reader.read_records(wanted, levels, None, values)?;
    if rows != wanted {
        return Err(ParquetError::EOF(format!("{rows} of {wanted} rows")));
    }
    Ok(())
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

/// Turns the first `count` rows into events. `text` is asked for each row in turn.
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
                Err(Error::damaged(&self.rows.reader.path, what))
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
