//! Writing a page-heap trace, row group by row group, without a name until it is whole.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use prairie_columns::{Values, Writer as Columns};

use super::columns::{self, Rows};
use super::{Event, Metadata, PAGE_BYTES, SCHEMA_VERSION, key};
use crate::format::{UnnamedFile, begin, chunk, write_error};
use crate::{Error, ROWS_IN_GROUP, Result};

/// Writes one page-heap trace.
///
/// The rows go to a file without a name, which takes the wanted one's place in
/// [`Writer::finish`]; a writer that is dropped before leaves nothing behind.
pub struct Writer {
    path: PathBuf,
    file: UnnamedFile,
    parquet: Columns<'static>,
    rows: Rows,
    checksums: Vec<Vec<u32>>,
    events: u64,
}

impl Writer {
    /// Begins a trace that will be at `path`.
    ///
    /// # Errors
    /// [`Error::Write`] if no file can be created there.
    pub fn create(path: &Path) -> Result<Writer> {
        let file = begin(path)?;
        let rows = file.as_file().try_clone().map_err(Error::write(path))?;
        let parquet = Columns::new(Box::new(rows), columns::schema(), columns::properties())
            .map_err(|e| write_error(path, e))?;
        let (rows, checksums) = (Rows::default(), Vec::new());
        Ok(Writer { path: path.into(), file, parquet, rows, checksums, events: 0 })
    }

    /// Adds an event.
    ///
    /// # Errors
    /// [`Error::Write`], for instance when the disk is full.
    pub fn event(&mut self, event: &Event) -> Result<()> {
        self.rows.push(event);
        self.events += 1;
        if self.rows.len() == ROWS_IN_GROUP { self.flush_group() } else { Ok(()) }
    }

    /// Completes the file and puts it in its place; `source` says where the events come from.
    /// Returns its size in bytes.
    ///
    /// # Errors
    /// [`Error::Write`]; nothing is left behind then.
    pub fn finish(mut self, source: &str) -> Result<u64> {
        self.flush_group()?;
        for (key, value) in self.key_values(source) {
            self.parquet.append(key, value);
        }
        let Writer { path, file, parquet, .. } = self;
        parquet.finish().map_err(|e| write_error(&path, e))?;
        let written = file.as_file();
        written.sync_all().map_err(Error::write(&path))?;
        let bytes = written.metadata().map_err(Error::write(&path))?.len();
        file.persist(&path).map_err(Error::write(&path))?;
        Ok(bytes)
    }

    fn key_values(&self, source: &str) -> [(&'static str, String); 4] {
        let json = |value: serde_json::Result<String>| value.expect("plain data becomes JSON");
        let metadata =
            Metadata { source: source.to_owned(), page_bytes: PAGE_BYTES, events: self.events };
        let calls: BTreeMap<_, _> =
            columns::CALLS.iter().enumerate().map(|(i, name)| (name, i)).collect();
        [
            (key::VERSION, SCHEMA_VERSION.to_string()),
            (key::METADATA, json(serde_json::to_string(&metadata))),
            (key::CHECKSUMS, json(serde_json::to_string(&self.checksums))),
            (key::CALLS, json(serde_json::to_string(&calls))),
        ]
    }

    /// Writes the rows gathered so far as a row group and takes the checksums of its columns.
    fn flush_group(&mut self) -> Result<()> {
        if self.rows.len() == 0 {
            return Ok(());
        }
        let path = &self.path;
        write_group(&mut self.parquet, &self.rows).map_err(|e| write_error(path, e))?;
        self.rows.clear();
        let checksums = chunk::checksums(&mut self.parquet, self.file.as_file());
        self.checksums.push(checksums.map_err(Error::write(path))?);
        Ok(())
    }
}

fn write_group(parquet: &mut Columns<'_>, rows: &Rows) -> parquet::errors::Result<()> {
    parquet.group(&mut |group| {
        rows.wide.iter().try_for_each(|values| group.write(Values::Int64(values), None))?;
        rows.narrow.iter().try_for_each(|values| group.write(Values::Int32(values), None))
    })
}
