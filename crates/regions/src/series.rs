//! Time series: Parquet, a row for each poll and node and one for each operation; a file an hour.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use parquet::schema::types::Type;
use prairie_columns::{Group, Values, Writer, metadata};

use crate::policy::NodeReport;

/// Version of the columns, in the file's metadata.
pub const SCHEMA_VERSION: &str = "1";

/// The key of the version.
const VERSION_KEY: &str = "prairie.regions.schema_version";

/// Rows that are kept before they are written: two minutes, so that little is lost and little
/// memory is used.
const ROWS_IN_GROUP: usize = 128;

/// A file is finished after this.
const FILE_LASTS: Duration = Duration::from_secs(3600);

/// One row. Sizes are in frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The node.
    pub node: i64,
    /// Managed frames of the kernel region.
    pub kernel: i64,
    /// Managed frames of the movable zone.
    pub movable: i64,
    /// Free for kernel requests, or page cache that they can reclaim.
    pub kernel_available: i64,
    /// What the kernel itself uses.
    pub kernel_own: i64,
    /// Free in the movable zone.
    pub movable_free: i64,
    /// Clean page cache there.
    pub movable_cache: i64,
    /// The reserve.
    pub reserve: i64,
    /// Above this the kernel region has too much.
    pub excess: i64,
    /// Frames that the kernel uses more, a second.
    pub rate: i64,
    /// Time stalled for kernel memory, in thousandths.
    pub kernel_stalled: i64,
    /// Time stalled for user memory, in thousandths.
    pub user_stalled: i64,
    /// The block of an operation; -1 in a row without one.
    pub block: i64,
    /// How long the operation took, in milliseconds.
    pub took_ms: i64,
    /// Where the block was to go; empty without an operation.
    pub to: String,
    /// Why.
    pub reason: String,
    /// How it ended.
    pub outcome: String,
}

/// A column: its name, its value in a row, and its place in one.
type Column<T, R> = (&'static str, fn(&Row) -> R, fn(&mut Row) -> &mut T);

/// Integer columns, in the order of the schema.
const INTEGERS: [Column<i64, i64>; 15] = [
    ("at_ms", |r| r.at_ms, |r| &mut r.at_ms),
    ("node", |r| r.node, |r| &mut r.node),
    ("kernel_frames", |r| r.kernel, |r| &mut r.kernel),
    ("movable_frames", |r| r.movable, |r| &mut r.movable),
    ("kernel_available_frames", |r| r.kernel_available, |r| &mut r.kernel_available),
    ("kernel_own_frames", |r| r.kernel_own, |r| &mut r.kernel_own),
    ("movable_free_frames", |r| r.movable_free, |r| &mut r.movable_free),
    ("movable_cache_frames", |r| r.movable_cache, |r| &mut r.movable_cache),
    ("reserve_frames", |r| r.reserve, |r| &mut r.reserve),
    ("excess_frames", |r| r.excess, |r| &mut r.excess),
    ("rate_frames_per_second", |r| r.rate, |r| &mut r.rate),
    ("kernel_stalled_per_mille", |r| r.kernel_stalled, |r| &mut r.kernel_stalled),
    ("user_stalled_per_mille", |r| r.user_stalled, |r| &mut r.user_stalled),
    ("block", |r| r.block, |r| &mut r.block),
    ("took_ms", |r| r.took_ms, |r| &mut r.took_ms),
];

/// Text columns, after the integers.
const TEXTS: [Column<String, String>; 3] = [
    ("to", |r| r.to.clone(), |r| &mut r.to),
    ("reason", |r| r.reason.clone(), |r| &mut r.reason),
    ("outcome", |r| r.outcome.clone(), |r| &mut r.outcome),
];

impl Row {
    /// A node's state now, without an operation.
    pub fn of(report: &NodeReport) -> Row {
        let (kernel, movable) = (report.sample.kernel, report.sample.movable);
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Row {
            at_ms: since.map_or(0, |since| since.as_millis() as i64),
            node: i64::from(report.sample.node),
            kernel: kernel.managed as i64,
            movable: movable.managed as i64,
            kernel_available: kernel.usable() as i64,
            kernel_own: kernel.own as i64,
            movable_free: movable.free as i64,
            movable_cache: movable.cache as i64,
            reserve: report.reserve as i64,
            excess: report.excess as i64,
            rate: report.rate as i64,
            kernel_stalled: i64::from(report.pressure[0]),
            user_stalled: i64::from(report.pressure[1]),
            block: -1,
            ..Row::default()
        }
    }
}

/// A folder with a file that is being written.
#[derive(Debug)]
pub struct Series {
    folder: PathBuf,
    rows: Vec<Row>,
    open: Option<Open>,
}

struct Open {
    beside: PathBuf,
    path: PathBuf,
    since: i64,
    writer: Writer<'static>,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Open({})", self.path.display())
    }
}

impl Series {
    /// Series in `folder`, which is made if need be.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn create(folder: &Path) -> io::Result<Series> {
        fs::create_dir_all(folder)?;
        Ok(Series { folder: folder.to_owned(), rows: Vec::new(), open: None })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// I/O errors of the system: the disk is full.
    pub fn push(&mut self, row: Row) -> io::Result<()> {
        let at = row.at_ms;
        self.rows.push(row);
        if self.rows.len() >= ROWS_IN_GROUP {
            self.flush(at)?;
        }
        let lasts = FILE_LASTS.as_millis() as i64;
        if self.open.as_ref().is_some_and(|open| at < open.since || at - open.since >= lasts) {
            self.finish_file(at)?;
        }
        Ok(())
    }

    /// Writes what is left and puts the file in its place.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn finish(mut self) -> io::Result<()> {
        let at = self.rows.last().map_or(0, |row| row.at_ms);
        self.finish_file(at)
    }

    fn finish_file(&mut self, at: i64) -> io::Result<()> {
        self.flush(at)?;
        let Some(open) = self.open.take() else { return Ok(()) };
        open.writer.finish().map_err(other)?;
        fs::rename(open.beside, open.path)
    }

    fn flush(&mut self, at: i64) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        if self.open.is_none() {
            self.open = Some(Open::create(&self.folder, at)?);
        }
        let open = self.open.as_mut().expect("opened above");
        open.writer.group(&mut |group| write(group, &self.rows)).map_err(other)?;
        self.rows.clear();
        Ok(())
    }
}

impl Open {
    fn create(folder: &Path, at: i64) -> io::Result<Open> {
        let path = folder.join(format!("regions-{at}.parquet"));
        let beside = folder.join(format!("regions-{at}.parquet.part"));
        let pairs = metadata([(VERSION_KEY, SCHEMA_VERSION.to_owned())]);
        // Without compression: its tables would be the largest part of the daemon.
        let properties = WriterProperties::builder().set_key_value_metadata(Some(pairs)).build();
        let file = File::create(&beside)?;
        let writer = Writer::new(Box::new(file), schema(), properties).map_err(other)?;
        Ok(Open { beside, path, since: at, writer })
    }
}

fn write(group: &mut dyn Group, rows: &[Row]) -> Result<(), ParquetError> {
    for (_, value, _) in INTEGERS {
        let values: Vec<i64> = rows.iter().map(value).collect();
        group.write(Values::Int64(&values), None)?;
    }
    for (_, value, _) in TEXTS {
        let values: Vec<ByteArray> =
            rows.iter().map(|row| ByteArray::from(value(row).as_str())).collect();
        group.write(Values::Bytes(&values), None)?;
    }
    Ok(())
}

fn schema() -> Arc<Type> {
    let column = |name: &str, physical: Physical, logical: Option<LogicalType>| {
        let column = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical)
            .build();
        Arc::new(column.expect("a column that is fixed"))
    };
    let integers = INTEGERS.iter().map(|(name, ..)| column(name, Physical::INT64, None));
    let texts = TEXTS
        .iter()
        .map(|(name, ..)| column(name, Physical::BYTE_ARRAY, Some(LogicalType::String)));
    let fields = integers.chain(texts).collect();
    let schema = Type::group_type_builder("prairie_regions").with_fields(fields).build();
    Arc::new(schema.expect("a schema that is fixed"))
}

/// Reads a file.
///
/// # Errors
/// One line that names the file: it is no series of this version, or is damaged.
pub fn read(path: &Path) -> io::Result<Vec<Row>> {
    let wrong = |why: &dyn std::fmt::Display| {
        io::Error::other(format!(
            "{}: expected a time series of prairie regions: {why}",
            path.display()
        ))
    };
    let file = File::open(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    let reader = SerializedFileReader::new(file).map_err(|error| wrong(&error))?;
    let metadata = reader.metadata().file_metadata();
    let version = metadata.key_value_metadata().into_iter().flatten();
    let version =
        version.filter(|pair| pair.key == VERSION_KEY).find_map(|pair| pair.value.clone());
    if version.as_deref() != Some(SCHEMA_VERSION) {
        return Err(wrong(&"no version 1 in its metadata"));
    }
    let mut rows = Vec::new();
    for read in reader.get_row_iter(None).map_err(|error| wrong(&error))? {
        let read = read.map_err(|error| wrong(&error))?;
        let mut row = Row::default();
        for (at, (_, _, field)) in INTEGERS.iter().enumerate() {
            *field(&mut row) = read.get_long(at).map_err(|error| wrong(&error))?;
        }
        for (at, (_, _, field)) in TEXTS.iter().enumerate() {
            let text = read.get_string(INTEGERS.len() + at).map_err(|error| wrong(&error))?;
            field(&mut row).clone_from(text);
        }
        rows.push(row);
    }
    Ok(rows)
}

fn other(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(second: i64) -> Row {
        Row { at_ms: second * 1000, kernel: second, to: "kernel".into(), ..Row::default() }
    }

    #[test]
    fn rows_are_read_back_from_a_file_an_hour() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/b");
        let mut series = Series::create(&folder).unwrap();
        for second in 0..5000 {
            series.push(row(second)).unwrap();
        }
        series.finish().unwrap();
        let mut files: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort_by_key(|path| fs::metadata(path).unwrap().len());
        assert_eq!(files.len(), 2, "{files:?}");
        let mut rows: Vec<Row> = files.iter().flat_map(|path| read(path).unwrap()).collect();
        rows.sort_by_key(|row| row.at_ms);
        assert_eq!(rows.len(), 5000);
        assert_eq!(rows[4999], row(4999));
    }

    #[test]
    fn another_file_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("other");
        fs::write(&path, "PAR1 not").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("other: expected a time series of prairie regions"), "{error}");
        assert!(read(&root.path().join("none")).unwrap_err().to_string().contains("none: "));
    }
}
