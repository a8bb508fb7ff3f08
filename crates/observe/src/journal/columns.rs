//! One file of a log: columns in Parquet, compressed with zstd.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::schema::types::{ColumnPath, Type};
use prairie_columns::{Group, Values, Writer, optional};
use tempfile::NamedTempFile;

use super::{JournalError, Result, at};
use crate::summary::{Summary, integer_columns, share_columns};

/// Version of the columns, in the file's metadata; grows when a column changes its meaning.
pub const SCHEMA_VERSION: &str = "1";

const VERSION_KEY: &str = "prairie.log.schema_version";
const HOST_KEY: &str = "prairie.log.host";
const KERNEL_KEY: &str = "prairie.log.kernel_release";
const PRAIRIE_KEY: &str = "prairie.version";

const TIME: &str = "at_unix_ns";
const ZONES: &str = "zones";
const REGIONS: &str = "regions";
const MAP: &str = "map";

/// Who wrote a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The host's name.
    pub host: String,
    /// Its kernel, `uname -r`.
    pub kernel_release: String,
    /// The version of Prairie.
    pub prairie_version: String,
}

/// Writes a file of one row group beside its place, and renames it.
pub fn write(path: &Path, rows: &[Summary], origin: &Origin) -> Result<()> {
    let mut file = Encoder::new(path, origin)?;
    file.add(rows)?;
    file.save()
}

/// How the name of a file begins and ends that is still being written.
const BESIDE: (&str, &str) = (".prairie-log-", ".part");

/// Whether a file is one that was being written: what a killed process leaves behind.
pub fn is_unfinished(name: &str) -> bool {
    name.starts_with(BESIDE.0) && name.ends_with(BESIDE.1)
}

/// A file that is written group by group of rows.
pub struct Encoder<'a> {
    path: &'a Path,
    beside: NamedTempFile,
    writer: Writer<'static>,
}

impl<'a> Encoder<'a> {
    /// A file without rows, for `path`.
    pub fn new(path: &'a Path, origin: &Origin) -> Result<Encoder<'a>> {
        use std::os::unix::fs::PermissionsExt;
        let mut builder = tempfile::Builder::new();
        let mode = std::fs::Permissions::from_mode(0o644);
        builder.prefix(BESIDE.0).suffix(BESIDE.1).permissions(mode);
        let folder = path.parent().unwrap_or(Path::new("."));
        let beside = builder.tempfile_in(folder).map_err(at(path))?;
        let to = beside.as_file().try_clone().map_err(at(path))?;
        let writer = Writer::new(Box::new(to), schema(), properties(origin));
        Ok(Encoder { path, beside, writer: writer.map_err(|error| unwritable(path, error))? })
    }

    /// Adds a row group.
    pub fn add(&mut self, rows: &[Summary]) -> Result<()> {
        let written = self.writer.group(&mut |group| encode(group, rows));
        written.map_err(|error| unwritable(self.path, error))
    }

    /// Completes the file, and puts it in its place.
    pub fn save(self) -> Result<()> {
        let Encoder { path, beside, writer } = self;
        writer.finish().map_err(|error| unwritable(path, error))?;
        beside.as_file().sync_data().map_err(at(path))?;
        beside.persist(path).map(drop).map_err(|error| at(path)(error.error))
    }
}

fn unwritable(path: &Path, error: ParquetError) -> JournalError {
    at(path)(io::Error::other(error))
}

fn properties(origin: &Origin) -> WriterProperties {
    let metadata = prairie_columns::metadata([
        (VERSION_KEY, SCHEMA_VERSION.to_owned()),
        (HOST_KEY, origin.host.clone()),
        (KERNEL_KEY, origin.kernel_release.clone()),
        (PRAIRIE_KEY, origin.prairie_version.clone()),
    ]);
    let mut properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(Default::default()))
        .set_dictionary_enabled(false)
        .set_key_value_metadata(Some(metadata));
    // Counters and sizes change little from row to row.
    for name in [TIME].into_iter().chain(integer_columns().iter().map(String::as_str)) {
        let path = ColumnPath::from(name);
        properties = properties.set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

fn encode(group: &mut dyn Group, rows: &[Summary]) -> std::result::Result<(), ParquetError> {
    let times: Vec<i64> = rows.iter().map(|row| row.at_unix_ns).collect();
    group.write(Values::Int64(&times), None)?;
    for at in 0..integer_columns().len() {
        let (values, levels) = optional(rows.iter().map(|row| row.integers()[at]));
        group.write(Values::Int64(&values), Some(&levels))?;
    }
    for at in 0..share_columns().len() {
        let (values, levels) = optional(rows.iter().map(|row| row.shares()[at]));
        group.write(Values::Double(&values), Some(&levels))?;
    }
    let zones = |row: &Summary| serde_json::to_string(&row.zones).unwrap_or_default();
    let zones: Vec<ByteArray> = rows.iter().map(|row| zones(row).as_str().into()).collect();
    group.write(Values::Bytes(&zones), None)?;
    let regions = |row: &Summary| serde_json::to_string(&row.regions).unwrap_or_default();
    let regions: Vec<ByteArray> = rows.iter().map(|row| regions(row).as_str().into()).collect();
    group.write(Values::Bytes(&regions), None)?;
    let maps: Vec<ByteArray> = rows.iter().map(|row| row.map.as_str().into()).collect();
    group.write(Values::Bytes(&maps), None)
}

fn schema() -> Arc<Type> {
    let column = |name: &str, physical, repetition, logical: Option<LogicalType>| {
        let column = Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build();
        Arc::new(column.expect("a column that is fixed"))
    };
    let (required, optional) = (Repetition::REQUIRED, Repetition::OPTIONAL);
    let integers = integer_columns().iter().map(|n| column(n, Physical::INT64, optional, None));
    let shares = share_columns().iter().map(|n| column(n, Physical::DOUBLE, optional, None));
    let text = |name| column(name, Physical::BYTE_ARRAY, required, Some(LogicalType::String));
    let fields = [column(TIME, Physical::INT64, required, None)]
        .into_iter()
        .chain(integers)
        .chain(shares)
        .chain([text(ZONES), text(REGIONS), text(MAP)])
        .collect();
    let schema = Type::group_type_builder("prairie_log").with_fields(fields).build();
    Arc::new(schema.expect("a schema that is fixed"))
}

/// Whether a file is one of a log, of any version; false for other Parquet files.
pub fn is_log(path: &Path) -> Result<bool> {
    Ok(metadata(&parquet(path)?, VERSION_KEY).is_some())
}

fn parquet(path: &Path) -> Result<SerializedFileReader<File>> {
    let file = File::open(path).map_err(at(path))?;
    SerializedFileReader::new(file).map_err(|error| unreadable(path, &error))
}

fn open(path: &Path) -> Result<SerializedFileReader<File>> {
    let reader = parquet(path)?;
    match metadata(&reader, VERSION_KEY) {
        Some(version) if version == SCHEMA_VERSION => Ok(reader),
        Some(found) => {
            Err(JournalError::Version { path: path.to_owned(), found, expected: SCHEMA_VERSION })
        }
        None => Err(format(path, &format!("no {VERSION_KEY}"))),
    }
}

/// A file with wrong contents is no log; that reading failed says nothing about the contents.
fn unreadable(path: &Path, error: &ParquetError) -> JournalError {
    let system = match error {
        ParquetError::External(inner) => inner.downcast_ref::<io::Error>(),
        _ => None,
    };
    match system.and_then(io::Error::raw_os_error) {
        Some(code) => at(path)(io::Error::from_raw_os_error(code)),
        None => format(path, error),
    }
}

fn format(path: &Path, why: &dyn std::fmt::Display) -> JournalError {
    JournalError::Format { path: path.to_owned(), why: why.to_string() }
}

fn metadata(reader: &SerializedFileReader<File>, key: &str) -> Option<String> {
    let pairs = reader.metadata().file_metadata().key_value_metadata()?;
    pairs.iter().find(|pair| pair.key == key)?.value.clone()
}

/// The rows of a file, in its order. Columns of other versions of Prairie are passed over. Columns are
/// read one by one: a decompressor of 100 kB for each would take more memory than the rows.
pub fn read(path: &Path) -> Result<Vec<Summary>> {
    let reader = open(path)?;
    let mut rows = Vec::new();
    for at in 0..reader.num_row_groups() {
        let group = reader.get_row_group(at).and_then(|group| read_group(&*group));
        rows.extend(group.map_err(|error| unreadable(path, &error))?);
    }
    Ok(rows)
}

fn read_group(group: &dyn RowGroupReader) -> std::result::Result<Vec<Summary>, ParquetError> {
    let names: Vec<String> =
        group.metadata().columns().iter().map(|column| column.column_path().string()).collect();
    let Some(time) = names.iter().position(|name| name == TIME) else {
        return Err(ParquetError::General(format!("no column {TIME}")));
    };
    let ColumnReader::Int64ColumnReader(mut reader) = group.get_column_reader(time)? else {
        return Err(ParquetError::General(format!("{TIME} is no column of integers")));
    };
    // Not as many as the metadata says: that may be damaged.
    let expected = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
    let mut times = Vec::new();
    reader.read_records(expected, None, None, &mut times)?;
    let mut rows: Vec<Summary> = times.into_iter().map(Summary::empty).collect();
    for (at, name) in names.iter().enumerate().filter(|(at, _)| *at != time) {
        read_column(group, at, name, &mut rows)?;
    }
    match rows.len() == expected {
        true => Ok(rows),
        false => Err(ParquetError::General(format!("{} of {expected} rows", rows.len()))),
    }
}

fn read_column(
    group: &dyn RowGroupReader,
    at: usize,
    name: &str,
    rows: &mut [Summary],
) -> std::result::Result<(), ParquetError> {
    let full = group.metadata().column(at).column_descr().max_def_level();
    let mut levels = Vec::new();
    match group.get_column_reader(at)? {
        ColumnReader::Int64ColumnReader(mut reader) => {
            let mut values = Vec::new();
            reader.read_records(rows.len(), Some(&mut levels), None, &mut values)?;
            spread(rows, values, &levels, full, |row, value| row.put(name, value))
        }
        ColumnReader::DoubleColumnReader(mut reader) => {
            let mut values = Vec::new();
            reader.read_records(rows.len(), Some(&mut levels), None, &mut values)?;
            spread(rows, values, &levels, full, |row, value| row.put_share(name, value))
        }
        ColumnReader::ByteArrayColumnReader(mut reader)
            if [ZONES, REGIONS, MAP].contains(&name) =>
        {
            let mut values: Vec<ByteArray> = Vec::new();
            reader.read_records(rows.len(), Some(&mut levels), None, &mut values)?;
            spread(rows, values, &levels, full, |row, value| {
                let text = value.as_utf8().unwrap_or_default();
                match name {
                    ZONES => row.zones = serde_json::from_str(text).unwrap_or_default(),
                    REGIONS => row.regions = serde_json::from_str(text).unwrap_or_default(),
                    _ => text.clone_into(&mut row.map),
                }
            })
        }
        _ => Ok(()),
    }
}

/// Gives each row that has a value its own: one at the level `full`. A required column has no levels.
fn spread<T>(
    rows: &mut [Summary],
    values: Vec<T>,
    levels: &[i16],
    full: i16,
    mut put: impl FnMut(&mut Summary, T),
) -> std::result::Result<(), ParquetError> {
    let has = |at: usize| full == 0 || levels.get(at).is_some_and(|level| *level == full);
    let mut values = values.into_iter();
    for (_, row) in rows.iter_mut().enumerate().filter(|(at, _)| has(*at)) {
        let Some(value) = values.next() else {
            return Err(ParquetError::General("a column ends before the others".to_owned()));
        };
        put(row, value);
    }
    Ok(())
}

/// The row groups of a file.
#[cfg(test)]
pub(super) fn groups(path: &Path) -> usize {
    open(path).unwrap().num_row_groups()
}

/// The number of rows of a file.
pub fn count(path: &Path) -> Result<u64> {
    Ok(u64::try_from(open(path)?.metadata().file_metadata().num_rows()).unwrap_or(0))
}

/// Who wrote a file.
pub fn origin(path: &Path) -> Result<Origin> {
    let reader = open(path)?;
    let text = |key| metadata(&reader, key).unwrap_or_default();
    Ok(Origin {
        host: text(HOST_KEY),
        kernel_release: text(KERNEL_KEY),
        prairie_version: text(PRAIRIE_KEY),
    })
}
