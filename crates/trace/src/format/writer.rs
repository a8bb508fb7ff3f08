//! Writing a trace: streamed, row group by row group, next to its destination until it is complete.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use prairie_columns::Writer as Columns;
use prairie_frames::MigrateType;
use prairie_host::FrameRun;

use super::row::{Row, Rows, Values};
use super::unnamed::UnnamedFile;
use super::{Kind, ROWS_IN_GROUP, chunk, column, key};
use crate::in_use::InUse;
use crate::{Error, Event, EventKind, Metadata, Result, Texts};

/// Writes one trace file.
///
/// The rows go to a file without a name, which takes the wanted one's place in
/// [`Writer::finish`]; a writer that is dropped before leaves nothing behind.
pub struct Writer {
    path: PathBuf,
    file: UnnamedFile,
    parquet: Columns<'static>,
    rows: Rows,
    texts: TextColumn,
    checksums: Vec<Vec<u32>>,
    frame_runs: u64,
    events: u64,
    frames_named: u64,
    in_use: InUse,
    /// The oldest version of the format that has all that was written.
    version: u32,
}

/// The column `text`: a level per row (1 where there is a text), and the texts.
#[derive(Default)]
struct TextColumn {
    levels: Vec<i16>,
    values: Vec<ByteArray>,
}

/// The summary of a finished file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Size of the file.
    pub bytes: u64,
    /// Rows of the snapshot.
    pub frame_runs: u64,
    /// Rows after it.
    pub events: u64,
}

impl Writer {
    /// Begins a trace that will be at `path`.
    ///
    /// # Errors
    /// [`Error::Write`] if no file can be created in that directory, or what is there is no file
    /// that another may take the place of: a directory, a device.
    pub fn create(path: &Path) -> Result<Writer> {
        let file = begin(path)?;
        let rows = file.as_file().try_clone().map_err(Error::write(path))?;
        let parquet = Columns::new(Box::new(rows), column::schema(), column::properties())
            .map_err(|e| write_error(path, e))?;
        Ok(Writer {
            path: path.into(),
            file,
            parquet,
            rows: Rows::default(),
            texts: TextColumn::default(),
            checksums: Vec::new(),
            frame_runs: 0,
            events: 0,
            frames_named: 0,
            in_use: InUse::default(),
            version: 1,
        })
    }

    /// Adds a run of frames to the snapshot.
    ///
    /// # Panics
    /// If an event was written before: the snapshot comes first.
    ///
    /// # Errors
    /// [`Error::Write`], for instance when the disk is full.
    pub fn frames(&mut self, run: &FrameRun) -> Result<()> {
        assert_eq!(self.events, 0, "the snapshot precedes the events");
        self.frame_runs += 1;
        self.frames_named = self.frames_named.max(run.start.0.saturating_add(run.frames));
        self.push(&Row::of_run(run), None)
    }

    /// Adds an event; `texts` is the table that its text, if it has one, is in.
    ///
    /// # Errors
    /// [`Error::Write`], for instance when the disk is full.
    pub fn event(&mut self, event: &Event, texts: &Texts) -> Result<()> {
        if self.events == 0 {
            self.flush_group()?;
        }
        self.events += 1;
        let text = match event.what {
            EventKind::Process { name: text }
            | EventKind::Stack { folded: text, .. }
            | EventKind::Marker { text }
            | EventKind::Cgroup { path: text } => Some(texts.get(text)),
            _ => None,
        };
        self.frames_named = self.frames_named.max(event.frames_named().unwrap_or(0));
        self.in_use.see(event);
        self.version = self.version.max(Kind::of(&event.what).since());
        self.push(&Row::of_event(event), text)
    }

    /// Completes the file and puts it in its place. `metadata`'s counts are the writer's.
    ///
    /// # Errors
    /// [`Error::Write`]; nothing is left behind then.
    pub fn finish(mut self, mut metadata: Metadata) -> Result<Summary> {
        self.flush_group()?;
        metadata.frame_runs = self.frame_runs;
        metadata.events = self.events;
        metadata.frames_named = self.frames_named;
        metadata.frees_missing = self.in_use.frees_missing();
        for (key, value) in self.key_values(&metadata) {
            self.parquet.append(key, value);
        }
        let Writer { path, file, parquet, frame_runs, events, .. } = self;
        parquet.finish().map_err(|e| write_error(&path, e))?;
        let written = file.as_file();
        written.sync_all().map_err(Error::write(&path))?;
        let bytes = written.metadata().map_err(Error::write(&path))?.len();
        file.persist(&path).map_err(Error::write(&path))?;
        Ok(Summary { bytes, frame_runs, events })
    }

    fn key_values(&self, metadata: &Metadata) -> [(&'static str, String); 5] {
        let kinds = Kind::ALL.iter().filter(|kind| kind.since() <= self.version);
        let kinds: BTreeMap<_, _> = kinds.map(|&k| (k.name(), k as u8)).collect();
        let types: BTreeMap<_, _> =
            MigrateType::ALL.iter().map(|t| (t.name(), t.index())).collect();
        let json = |value: serde_json::Result<String>| value.expect("plain data becomes JSON");
        [
            (key::VERSION, self.version.to_string()),
            (key::METADATA, json(serde_json::to_string(metadata))),
            (key::CHECKSUMS, json(serde_json::to_string(&self.checksums))),
            (key::KINDS, json(serde_json::to_string(&kinds))),
            (key::MIGRATE_TYPES, json(serde_json::to_string(&types))),
        ]
    }

    fn push(&mut self, row: &Row, text: Option<&str>) -> Result<()> {
        self.rows.push(row);
        self.texts.levels.push(text.is_some().into());
        self.texts.values.extend(text.map(ByteArray::from));
        if self.rows.len() == ROWS_IN_GROUP { self.flush_group() } else { Ok(()) }
    }

    /// Writes the rows gathered so far as a row group and takes the checksums of its columns.
    fn flush_group(&mut self) -> Result<()> {
        if self.rows.len() == 0 {
            return Ok(());
        }
        let path = &self.path;
        write_group(&mut self.parquet, &mut self.rows, &mut self.texts)
            .map_err(|e| write_error(path, e))?;
        let checksums = chunk::checksums(&mut self.parquet, self.file.as_file());
        self.checksums.push(checksums.map_err(Error::write(path))?);
        Ok(())
    }
}

fn write_group(
    parquet: &mut Columns<'_>,
    rows: &mut Rows,
    texts: &mut TextColumn,
) -> parquet::errors::Result<()> {
    parquet.group(&mut |group| {
        column::Column::ALL.iter().try_for_each(|column| match rows.column(*column) {
            Some(Values::I32(values)) => group.write(prairie_columns::Values::Int32(values), None),
            Some(Values::I64(values)) => group.write(prairie_columns::Values::Int64(values), None),
            None => {
                let values = prairie_columns::Values::Bytes(&texts.values);
                group.write(values, Some(&texts.levels))
            }
        })
    })?;
    rows.clear();
    texts.levels.clear();
    texts.values.clear();
    Ok(())
}

/// A file that may become the one at `path` when it is whole.
///
/// # Errors
/// [`Error::Write`] if no file can be created in that directory, or what is there is no file that
/// another may take the place of: a directory, a device.
pub(crate) fn begin(path: &Path) -> Result<UnnamedFile> {
    if std::fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        let source = io::Error::other("what is there is not a regular file");
        return Err(Error::Write { path: path.into(), source });
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    UnnamedFile::create_in(directory).map_err(Error::write(path))
}

pub(crate) fn write_error(path: &Path, error: ParquetError) -> Error {
    let source = match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(source) => *source,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    };
    Error::Write { path: path.into(), source }
}
