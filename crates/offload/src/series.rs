//! Time series of every container: Parquet, one row for each decision.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::Type;
use prairie_columns::{Values, Writer, metadata};
use tempfile::NamedTempFile;

use crate::controller::Decision;
use crate::counter::Counter;
use crate::guard::Guard;
use crate::observation::{Idle, Observation};
use crate::signal::{SIGNALS, Signal};

/// Version of the columns, in the file's metadata.
pub const SCHEMA_VERSION: &str = "1";

/// Rows that are written at once: 200 containers for two minutes.
const ROWS_IN_GROUP: usize = 4096;

/// A column's name, and its value in a row.
type IntegerColumn = (&'static str, fn(&Observation, &Decision, u64) -> i64);

/// Integer columns of an observation, in bytes, pages and nanoseconds; the counters of the signals
/// follow.
const FIGURES: [IntegerColumn; 8] = [
    ("at_ns", |seen, _, _| seen.at.as_nanos() as i64),
    ("current_bytes", |seen, _, _| seen.current_bytes as i64),
    ("anon_bytes", |seen, _, _| seen.stat.anon as i64),
    ("file_bytes", |seen, _, _| seen.stat.file as i64),
    ("swap_bytes", |seen, _, _| seen.swap_bytes as i64),
    ("zswap_bytes", |seen, _, _| seen.stat.zswap as i64),
    ("zswapped_bytes", |seen, _, _| seen.stat.zswapped as i64),
    ("idle_bytes", |seen, _, _| if let Idle::Bytes(b) = seen.idle { b as i64 } else { -1 }),
];

/// Integer columns of a decision, after the counters of the signals.
const RESULTS: [IntegerColumn; 6] = [
    ("allowance_bytes", |_, decision, _| decision.allowance_bytes as i64),
    ("asked_bytes", |_, _, asked| asked as i64),
    ("taken_bytes", |_, decision, _| decision.taken_bytes as i64),
    ("returned_pages", |_, decision, _| decision.returned_pages as i64),
    ("owed_bytes", |_, decision, _| decision.owed_bytes as i64),
    ("scanned_pages", |seen, _, _| seen.stat.pgscan as i64),
];

/// Names.
const NAMES: [&str; 3] = ["cgroup", "governing", "guard"];

/// A file that is being written, next to its destination until [`Series::finish`].
pub struct Series {
    path: PathBuf,
    beside: NamedTempFile,
    writer: Writer<'static>,
    integers: Vec<Vec<i64>>,
    /// One column for each signal.
    shares: Vec<Vec<f64>>,
    names: Vec<Vec<ByteArray>>,
}

impl Series {
    /// Begins a file that will be at `path`.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn create(path: &Path) -> io::Result<Series> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let beside = NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))?;
        let version = ("prairie.offload.schema_version", SCHEMA_VERSION.to_owned());
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(Default::default()))
            .set_key_value_metadata(Some(metadata([version])))
            .build();
        let file = beside.as_file().try_clone()?;
        let writer = Writer::new(Box::new(file), schema(), properties);
        Ok(Series {
            path: path.to_owned(),
            beside,
            writer: writer.map_err(other)?,
            integers: vec![Vec::new(); integer_columns().count()],
            shares: vec![Vec::new(); SIGNALS.len()],
            names: vec![Vec::new(); NAMES.len()],
        })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// I/O errors of the system: the disk is full.
    pub fn push(
        &mut self,
        path: &str,
        seen: &Observation,
        decision: &Decision,
        asked_bytes: u64,
    ) -> io::Result<()> {
        let figure = |(_, value): &IntegerColumn| value(seen, decision, asked_bytes);
        let counters = counters().map(|(counter, _)| seen.counters[*counter] as i64);
        let row = FIGURES.iter().map(figure).chain(counters).chain(RESULTS.iter().map(figure));
        for (value, column) in row.zip(&mut self.integers) {
            column.push(value);
        }
        for ((_, share), column) in decision.pressure.iter().zip(&mut self.shares) {
            column.push(share);
        }
        let guard = decision.guard.as_ref().map_or("", Guard::name);
        let names = [path, decision.governing.0, guard];
        for (name, column) in names.into_iter().zip(&mut self.names) {
            column.push(ByteArray::from(name));
        }
        if self.integers[0].len() >= ROWS_IN_GROUP { self.flush().map_err(other) } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), ParquetError> {
        if self.integers[0].is_empty() {
            return Ok(());
        }
        let Series { writer, names, integers, shares, .. } = self;
        writer.group(&mut |group| {
            for values in &mut *names {
                group.write(Values::Bytes(values), None)?;
                values.clear();
            }
            for values in &mut *integers {
                group.write(Values::Int64(values), None)?;
                values.clear();
            }
            for values in &mut *shares {
                group.write(Values::Double(values), None)?;
                values.clear();
            }
            Ok(())
        })
    }

    /// Writes the remaining rows and puts the file in its place.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush().map_err(other)?;
        self.writer.finish().map_err(other)?;
        self.beside.as_file().sync_all()?;
        self.beside.persist(&self.path).map(drop).map_err(|error| error.error)
    }
}

fn counters() -> impl Iterator<Item = &'static (Counter, &'static str)> {
    SIGNALS.iter().flat_map(Signal::counters)
}

fn integer_columns() -> impl Iterator<Item = &'static str> {
    let names = |columns: &'static [IntegerColumn]| columns.iter().map(|(name, _)| *name);
    names(&FIGURES).chain(counters().map(|(_, name)| *name)).chain(names(&RESULTS))
}

fn schema() -> Arc<Type> {
    let column = |name: &str, physical: Physical, logical: Option<LogicalType>| {
        let column = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(logical)
            .build();
        Arc::new(column.expect("a column that is fixed"))
    };
    let names =
        NAMES.iter().map(|name| column(name, Physical::BYTE_ARRAY, Some(LogicalType::String)));
    let integers = integer_columns().map(|name| column(name, Physical::INT64, None));
    let shares = SIGNALS
        .iter()
        .map(|signal| column(&format!("{}_pressure", signal.name), Physical::DOUBLE, None));
    let fields = names.chain(integers).chain(shares).collect();
    let schema = Type::group_type_builder("prairie_offload").with_fields(fields).build();
    Arc::new(schema.expect("a schema that is fixed"))
}

fn other(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::ageing::Means;
    use crate::{Controller, Profile};
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use std::time::Duration;

    #[test]
    fn rows_are_read_back() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("series.parquet");
        let mut series = Series::create(&path).unwrap();
        let mut controller =
            Controller::new(Profile::default(), Means::None, false, Duration::ZERO);
        let mut seen = Observation { current_bytes: 4096, ..Observation::default() };
        for second in 0..5_000 {
            seen.at = Duration::from_secs(second);
            let decision = controller.decide(&seen);
            series.push("a/b", &seen, &decision, second).unwrap();
        }
        assert!(!path.exists(), "it appears when it is whole");
        series.finish().unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.metadata().num_row_groups(), 2);
        let schema = reader.metadata().file_metadata().schema_descr();
        let names: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
        let expected = "cgroup governing guard at_ns current_bytes anon_bytes file_bytes \
            swap_bytes zswap_bytes zswapped_bytes idle_bytes memory_some_us memory_full_us \
            io_some_us allowance_bytes asked_bytes taken_bytes returned_pages owed_bytes \
            scanned_pages memory_pressure io_pressure returned_pressure";
        assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
        let last = reader.get_row_iter(None).unwrap().last().unwrap().unwrap().to_string();
        assert!(last.contains("cgroup: \"a/b\"") && last.contains("asked_bytes: 4999"), "{last}");
    }
}
