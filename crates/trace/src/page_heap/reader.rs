//! Reading a page-heap trace as a stream.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::columns::{self, NAMES, Rows, WIDE};
use super::{Event, Metadata, PAGE_BYTES, SCHEMA_VERSION, key};
use crate::format::{chunk, json, metadata_value, reason};
use crate::{Error, ROWS_IN_GROUP, Result};

/// Rows decoded at once: the columns of a batch fit into the second-level cache.
const BATCH: usize = 1 << 13;

/// An open page-heap trace.
pub struct Reader {
    path: PathBuf,
    file: File,
    file_bytes: u64,
    parquet: ParquetMetaData,
    checksums: Vec<Vec<u32>>,
    metadata: Metadata,
}

impl Reader {
    /// Opens a trace and reads its description; no row is read yet.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::NotParquet`], [`Error::Foreign`], [`Error::Newer`],
    /// [`Error::Damaged`].
    pub fn open(path: &Path) -> Result<Reader> {
        let file = File::open(path).map_err(Error::read(path))?;
        let attributes = file.metadata().map_err(Error::read(path))?;
        if attributes.is_dir() {
            let source = std::io::ErrorKind::IsADirectory.into();
            return Err(Error::Read { path: path.into(), source });
        }
        let parquet = ParquetMetaDataReader::new()
            .parse_and_finish(&file)
            .map_err(|e| Error::NotParquet { path: path.into(), reason: reason(e) })?;
        check_version(path, &parquet)?;
        if parquet.file_metadata().schema() != columns::schema().as_ref() {
            return Err(Error::damaged(path, "its columns are not those of version 1"));
        }
        let metadata: Metadata = json(path, &parquet, key::METADATA)?;
        let checksums: Vec<Vec<u32>> = json(path, &parquet, key::CHECKSUMS)?;
        check_rows(path, &parquet, &metadata, &checksums)?;
        let file_bytes = attributes.len();
        Ok(Reader { path: path.into(), file, file_bytes, parquet, checksums, metadata })
    }

    /// The trace's metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Size of the file.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The events, in the order of the file.
    pub fn events(&self) -> Stream<'_> {
        Stream {
            reader: self,
            next_group: 0,
            left: 0,
            wide: Vec::new(),
            narrow: Vec::new(),
            rows: Rows::default(),
            batch: Vec::with_capacity(BATCH),
            row: 0,
        }
    }

    /// The checked bytes of a column of a row group, as pages.
    fn pages(
        &self,
        group: usize,
        column: usize,
    ) -> Result<Box<dyn parquet::column::page::PageReader>> {
        let damaged = |what: String| {
            let place = format!("column {} of row group {group}", NAMES[column]);
            Error::damaged(&self.path, format!("{place}: {what}"))
        };
        let metadata = self.parquet.row_group(group);
        let described = metadata.column(column);
        let bytes =
            chunk::read(&self.file, self.file_bytes, described).map_err(|e| match e.kind() {
                std::io::ErrorKind::UnexpectedEof => damaged(e.to_string()),
                _ => Error::read(&self.path)(e),
            })?;
        if crc32fast::hash(&bytes) != self.checksums[group][column] {
            return Err(damaged("wrong checksum".to_owned()));
        }
        chunk::pages(bytes, described, metadata.num_rows() as usize).map_err(|e| damaged(reason(e)))
    }
}

fn check_version(path: &Path, parquet: &ParquetMetaData) -> Result<()> {
    let Some(text) = metadata_value(parquet, key::VERSION) else {
        let reason = format!(
            "it has no {} in its metadata; a page-heap trace is written by `prairie heap driver`",
            key::VERSION
        );
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

fn check_rows(
    path: &Path,
    parquet: &ParquetMetaData,
    metadata: &Metadata,
    checksums: &[Vec<u32>],
) -> Result<()> {
    let groups = parquet.row_groups();
    if metadata.page_bytes != PAGE_BYTES {
        let what = format!("pages of {} bytes, not {PAGE_BYTES}", metadata.page_bytes);
        return Err(Error::damaged(path, what));
    }
    let whole = checksums.len() == groups.len()
        && checksums.iter().all(|sums| sums.len() == NAMES.len())
        && groups.iter().all(|group| group.num_columns() == NAMES.len());
    if !whole {
        return Err(Error::damaged(path, "its checksums do not match its row groups"));
    }
    let mut events = 0;
    for group in groups {
        let rows = u64::try_from(group.num_rows()).ok();
        let sound = rows.filter(|&rows| 0 < rows && rows <= ROWS_IN_GROUP as u64);
        events += sound.ok_or_else(|| {
            Error::damaged(path, format!("{} rows in a row group", group.num_rows()))
        })?;
    }
    if events != metadata.events {
        return Err(Error::damaged(path, "its rows are not as many as its metadata says"));
    }
    Ok(())
}

/// The events of a page-heap trace, in batches; see [`Reader::events`].
pub struct Stream<'a> {
    reader: &'a Reader,
    next_group: usize,
    /// Rows of the current row group not yet decoded.
    left: usize,
    wide: Vec<ColumnReaderImpl<Int64Type>>,
    narrow: Vec<ColumnReaderImpl<Int32Type>>,
    rows: Rows,
    batch: Vec<Event>,
    /// Number of the first row of the next batch.
    row: u64,
}

impl Stream<'_> {
    /// The next events, or `None` after the last.
    ///
    /// # Errors
    /// [`Error::Read`] or [`Error::Damaged`], after which the stream ends.
    pub fn next_batch(&mut self) -> Result<Option<&[Event]>> {
        match self.decode_batch() {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(&self.batch)),
            Err(error) => {
                self.next_group = self.reader.parquet.num_row_groups();
                self.left = 0;
                Err(error)
            }
        }
    }

    fn decode_batch(&mut self) -> Result<usize> {
        if self.left == 0 {
            if self.next_group == self.reader.parquet.num_row_groups() {
                return Ok(0);
            }
            self.open_group()?;
        }
        let wanted = self.left.min(BATCH);
        let path = &self.reader.path;
        decode(&mut self.wide, &mut self.rows.wide, wanted)
            .and_then(|()| decode(&mut self.narrow, &mut self.rows.narrow, wanted))
            .map_err(|e| Error::damaged(path, format!("row {}: {}", self.row, reason(e))))?;
        self.batch.clear();
        for row in 0..wanted {
            let event = self.rows.event(row).map_err(|what| {
                Error::damaged(path, format!("row {}: {what}", self.row + row as u64))
            })?;
            self.batch.push(event);
        }
        self.left -= wanted;
        self.row += wanted as u64;
        Ok(wanted)
    }

    fn open_group(&mut self) -> Result<()> {
        let group = self.next_group;
        let schema = self.reader.parquet.file_metadata().schema_descr();
        self.wide.clear();
        self.narrow.clear();
        for column in 0..NAMES.len() {
            let (described, pages) = (schema.column(column), self.reader.pages(group, column)?);
            if column < WIDE {
                self.wide.push(ColumnReaderImpl::new(described, pages));
            } else {
                self.narrow.push(ColumnReaderImpl::new(described, pages));
            }
        }
        self.left = self.reader.parquet.row_group(group).num_rows() as usize;
        self.next_group += 1;
        Ok(())
    }
}

fn decode<T: DataType>(
    readers: &mut [ColumnReaderImpl<T>],
    columns: &mut [Vec<T::T>],
    wanted: usize,
) -> ParquetResult<()> {
    for (reader, values) in readers.iter_mut().zip(columns) {
        values.clear();
        let (rows, _, _) = reader.read_records(wanted, None, None, values)?;
        if rows != wanted {
            return Err(ParquetError::EOF(format!("{rows} of {wanted} rows")));
        }
    }
    Ok(())
}
