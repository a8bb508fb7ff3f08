//! Reading a page-heap trace as a stream.

use std::path::Path;

use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{DataType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;

use super::columns::{self, NAMES, Rows, WIDE};
use super::{Event, Metadata, PAGE_BYTES, SCHEMA_VERSION, key};
use crate::format::table::{Table, read_column, reason};
use crate::{Error, Result};

/// Rows decoded at once: the columns of a batch fit into the second-level cache.
const BATCH: usize = 1 << 13;

/// An open page-heap trace.
pub struct Reader {
    table: Table,
    metadata: Metadata,
}

impl Reader {
    /// Opens a trace and reads its description; no row is read yet.
    ///
    /// # Errors
    /// [`Error::Read`], [`Error::NotParquet`], [`Error::Foreign`], [`Error::Newer`],
    /// [`Error::Damaged`].
    pub fn open(path: &Path) -> Result<Reader> {
        let mut table = Table::open(path)?;
        let hint = "; a page-heap trace is written by `prairie heap driver`";
        table.check_version(key::VERSION, SCHEMA_VERSION, hint)?;
        table.check_columns(&columns::schema())?;
        let metadata: Metadata = table.json(key::METADATA)?;
        table.read_checksums(key::CHECKSUMS, NAMES.len())?;
        check_rows(&table, &metadata)?;
        Ok(Reader { table, metadata })
    }

    /// The trace's metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Size of the file.
    pub fn file_bytes(&self) -> u64 {
        self.table.file_bytes
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
}

fn check_rows(table: &Table, metadata: &Metadata) -> Result<()> {
    if metadata.page_bytes != PAGE_BYTES {
        let what = format!("pages of {} bytes, not {PAGE_BYTES}", metadata.page_bytes);
        return Err(table.damaged(what));
    }
    let mut events = 0;
    for group in table.parquet.row_groups() {
        events += match table.rows(group)? {
            0 => return Err(table.bad_rows(group)),
            rows => rows,
        };
    }
    if events != metadata.events {
        return Err(table.damaged("its rows are not as many as its metadata says".to_owned()));
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
                self.next_group = self.reader.table.parquet.num_row_groups();
                self.left = 0;
                Err(error)
            }
        }
    }

    fn decode_batch(&mut self) -> Result<usize> {
        if self.left == 0 {
            if self.next_group == self.reader.table.parquet.num_row_groups() {
                return Ok(0);
            }
            self.open_group()?;
        }
        let wanted = self.left.min(BATCH);
        let path = &self.reader.table.path;
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
        let schema = self.reader.table.parquet.file_metadata().schema_descr();
        self.wide.clear();
        self.narrow.clear();
        for (column, name) in NAMES.iter().enumerate() {
            let (described, pages) =
                (schema.column(column), self.reader.table.pages(group, column, name)?);
            if column < WIDE {
                self.wide.push(ColumnReaderImpl::new(described, pages));
            } else {
                self.narrow.push(ColumnReaderImpl::new(described, pages));
            }
        }
        self.left = self.reader.table.parquet.row_group(group).num_rows() as usize;
        self.next_group += 1;
        Ok(())
    }
}

fn decode<T: DataType>(
    readers: &mut [ColumnReaderImpl<T>],
    columns: &mut [Vec<T::T>],
    wanted: usize,
) -> ParquetResult<()> {
    let mut both = readers.iter_mut().zip(columns);
    both.try_for_each(|(reader, values)| read_column(reader, wanted, None, values))
}
