//! An open Parquet file whose column chunks have checksums: what the readers of both kinds of trace
//! have in common.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::column::page::PageReader;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::DataType;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::schema::types::Type;
use serde::de::DeserializeOwned;

use super::{ROWS_IN_GROUP, chunk};
use crate::kind::kind;
use crate::{Error, Result};

/// The file, its description, and its checksums once they are read.
pub(crate) struct Table {
    pub(crate) path: PathBuf,
    file: File,
    pub(crate) file_bytes: u64,
    pub(crate) parquet: ParquetMetaData,
    /// CRC-32 of each column chunk, by row group and column.
    checksums: Vec<Vec<u32>>,
}

impl Table {
    /// Opens a file and reads its footer; no row is read yet.
    pub(crate) fn open(path: &Path) -> Result<Table> {
        let file = File::open(path).map_err(Error::read(path))?;
        let attributes = file.metadata().map_err(Error::read(path))?;
        if attributes.is_dir() {
            let source = std::io::ErrorKind::IsADirectory.into();
            return Err(Error::Read { path: path.into(), source });
        }
        let file_bytes = attributes.len();
        if file_bytes == 0 {
            return Err(Error::Empty { path: path.into() });
        }
        let parquet = ParquetMetaDataReader::new()
            .parse_and_finish(&file)
            .map_err(|e| Error::NotParquet { path: path.into(), reason: reason(e) })?;
        Ok(Table { path: path.into(), file, file_bytes, parquet, checksums: Vec::new() })
    }

    /// Checks that the metadata has a version under `key`, at most `supported`. `hint` is added to
    /// the error for a file that has none.
    pub(crate) fn check_version(&self, key: &str, supported: u32, hint: &str) -> Result<()> {
        let Some(text) = self.metadata_value(key) else {
            let reason = match kind(&self.parquet) {
                Some(kind) => format!("it holds {kind}"),
                None => format!("it has no {key} in its metadata{hint}"),
            };
            return Err(Error::Foreign { path: self.path.clone(), reason });
        };
        let version: u32 =
            text.parse().map_err(|_| self.damaged(format!("{key} is {text:?}, not a number")))?;
        if version > supported {
            return Err(Error::Newer { path: self.path.clone(), version, supported });
        }
        Ok(())
    }

    /// Checks the columns' names and types.
    pub(crate) fn check_columns(&self, schema: &Type) -> Result<()> {
        if self.parquet.file_metadata().schema() != schema {
            return Err(self.damaged("its columns are not those of version 1".to_owned()));
        }
        Ok(())
    }

    /// Reads the checksums under `key`; the file has `columns` columns.
    pub(crate) fn read_checksums(&mut self, key: &str, columns: usize) -> Result<()> {
        let checksums: Vec<Vec<u32>> = self.json(key)?;
        let groups = self.parquet.row_groups();
        let whole = checksums.len() == groups.len()
            && checksums.iter().all(|sums| sums.len() == columns)
            && groups.iter().all(|group| group.num_columns() == columns);
        if !whole {
            return Err(self.damaged("its checksums do not match its row groups".to_owned()));
        }
        self.checksums = checksums;
        Ok(())
    }

    /// The value of `key` in the file's metadata.
    fn metadata_value(&self, key: &str) -> Option<&str> {
        let pairs = self.parquet.file_metadata().key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
    }

    /// The value of `key`, which is JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self, key: &str) -> Result<T> {
        let text = self.metadata_value(key).unwrap_or_default();
        serde_json::from_str(text).map_err(|e| self.damaged(format!("metadata {key}: {e}")))
    }

    /// The rows of a row group, if their number is possible.
    pub(crate) fn rows(&self, group: &RowGroupMetaData) -> Result<u64> {
        let rows = u64::try_from(group.num_rows()).ok();
        rows.filter(|&rows| rows <= ROWS_IN_GROUP as u64).ok_or_else(|| self.bad_rows(group))
    }

    /// The error for a row group whose number of rows is impossible.
    pub(crate) fn bad_rows(&self, group: &RowGroupMetaData) -> Error {
        self.damaged(format!("{} rows in a row group", group.num_rows()))
    }

    /// The checked bytes of a column of a row group, as pages.
    pub(crate) fn pages(
        &self,
        group: usize,
        column: usize,
        name: &str,
    ) -> Result<Box<dyn PageReader>> {
        let damaged =
            |what: String| self.damaged(format!("column {name} of row group {group}: {what}"));
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

    /// The error for a file that contradicts itself.
    pub(crate) fn damaged(&self, what: String) -> Error {
        Error::damaged(&self.path, what)
    }
}

/// Reads `wanted` values of a column, in place of those in `values`.
pub(crate) fn read_column<T: DataType>(
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

/// What the library says, in one line.
pub(crate) fn reason(error: ParquetError) -> String {
    let text = match error {
        ParquetError::General(text) | ParquetError::EOF(text) => text,
        other => other.to_string(),
    };
    text.replace('\n', " ")
}
