//! Rows of hosts as columns of Parquet.

use std::path::Path;

use parquet::basic::{Compression, ZstdLevel};
use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use prairie_columns::{Group, Values, encode, metadata, optional};

use super::{HostRow, Measures, SCHEMA, SCHEMA_VERSION};

const VERSION_KEY: &str = "prairie.host_row.version";

/// Columns of text, in order; `labels` is an object of JSON.
const TEXTS: [&str; 4] = ["host", "machine_id", "kernel", "labels"];
/// Columns of integers, after the texts.
const INTEGERS: [&str; 2] = ["taken_at_unix_ns", "memory_bytes"];

/// The rows as a Parquet file.
///
/// # Errors
/// If they cannot be encoded.
pub fn to_parquet(rows: &[HostRow]) -> Result<Vec<u8>> {
    let texts = TEXTS.map(|name| format!("required binary {name} (UTF8);")).concat();
    let integers = INTEGERS.map(|name| format!("required int64 {name};")).concat();
    let shares = Measures::NAMES.map(|name| format!("optional double {name};")).concat();
    let schema = format!(
        "message prairie_host_rows {{ {texts} {integers} optional double uptime_s; {shares} }}"
    );
    let version = (VERSION_KEY, SCHEMA_VERSION.to_string());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(metadata([version])))
        .build();
    encode(prairie_columns::schema(&schema)?, properties, &mut |group| write(rows, group))
}

/// Writes all rows.
fn write(rows: &[HostRow], group: &mut dyn Group) -> Result<()> {
    let labels = |row: &HostRow| serde_json::to_string(&row.labels).expect("texts are valid JSON");
    let texts: [&dyn Fn(&HostRow) -> String; 4] = [
        &|row| row.host.clone(),
        &|row| row.machine_id.clone(),
        &|row| row.kernel.clone(),
        &labels,
    ];
    for text in texts {
        let values: Vec<ByteArray> = rows.iter().map(|row| text(row).as_str().into()).collect();
        group.write(Values::Bytes(&values), None)?;
    }
    for integer in [|row: &HostRow| row.taken_at_unix_ns, |row: &HostRow| row.memory_bytes] {
        let values: Vec<i64> = rows.iter().map(|row| integer(row) as i64).collect();
        group.write(Values::Int64(&values), None)?;
    }
    let measures: Vec<_> = rows.iter().map(|row| row.measures.values()).collect();
    let (uptimes, levels) = optional(rows.iter().map(|row| row.uptime_s));
    group.write(Values::Double(&uptimes), Some(&levels))?;
    for at in 0..Measures::NAMES.len() {
        let (values, levels) = optional(measures.iter().map(|values| values[at]));
        group.write(Values::Double(&values), Some(&levels))?;
    }
    Ok(())
}

/// Reads rows; `None` if the file holds something else. Columns are found by their names, so that
/// what DuckDB or Polars wrote is read as well; labels may be an object of JSON or a struct.
///
/// # Errors
/// If the rows cannot be read, or are of a newer version.
pub fn read_parquet(path: &Path) -> Result<Option<Vec<HostRow>>> {
    let Ok(reader) = SerializedFileReader::try_from(path) else { return Ok(None) };
    let metadata = reader.metadata();
    let columns = metadata.file_metadata().schema_descr();
    let names: Vec<String> = columns.columns().iter().map(|c| c.path().string()).collect();
    let is_rows =
        ["host", "machine_id", "taken_at_unix_ns"].iter().all(|n| names.iter().any(|m| m == n));
    if !is_rows {
        return Ok(None);
    }
    let pairs = metadata.file_metadata().key_value_metadata().map_or(&[][..], Vec::as_slice);
    let version =
        pairs.iter().find(|pair| pair.key == VERSION_KEY).and_then(|pair| pair.value.as_deref());
    if version.is_some_and(|version| version.parse().is_ok_and(|found: u32| found > SCHEMA_VERSION))
    {
        let version = version.unwrap_or_default();
        let what = format!("version {version} of a host's rows: read it with a newer Prairie");
        return Err(ParquetError::General(what));
    }
    let mut rows = Vec::new();
    for at in 0..reader.num_row_groups() {
        let group = reader.get_row_group(at)?;
        for column in group.metadata().columns() {
            let codec = column.compression();
            if !matches!(codec, Compression::ZSTD(_) | Compression::UNCOMPRESSED) {
                let name = codec.to_string();
                let name = name.split('(').next().unwrap_or_default();
                let what =
                    format!("compressed with {name}, expected zstd (COMPRESSION zstd in SQL)");
                return Err(ParquetError::General(what));
            }
        }
        let first = rows.len();
        let count = usize::try_from(group.metadata().num_rows()).unwrap_or_default();
        rows.resize_with(first + count, || HostRow {
            schema: SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            ..HostRow::default()
        });
        for (column, name) in names.iter().enumerate() {
            fill(group.as_ref(), column, name, &mut rows[first..])?;
        }
    }
    Ok(Some(rows))
}

/// Sets the field that a column holds; other columns are passed over.
fn fill(group: &dyn RowGroupReader, column: usize, name: &str, rows: &mut [HostRow]) -> Result<()> {
    let place = Measures::NAMES.iter().position(|measure| *measure == name);
    let label = name.strip_prefix("labels.");
    let full = group.metadata().column(column).column_descr().max_def_level();
    match group.get_column_reader(column)? {
        ColumnReader::ByteArrayColumnReader(mut reader)
            if TEXTS.contains(&name) || label.is_some() =>
        {
            let (mut values, mut levels) = (Vec::new(), Vec::new());
            reader.read_records(rows.len(), Some(&mut levels), None, &mut values)?;
            for (row, value) in rows.iter_mut().zip(spread(&values, &levels, full)) {
                let text = value.and_then(|value: &ByteArray| value.as_utf8().ok());
                if let Some(label) = label {
                    row.labels.extend(text.map(|text| (label.to_owned(), text.to_owned())));
                    continue;
                }
                let text = text.unwrap_or_default();
                match name {
                    "host" => row.host = text.to_owned(),
                    "machine_id" => row.machine_id = text.to_owned(),
                    "kernel" => row.kernel = text.to_owned(),
                    _ => row.labels = serde_json::from_str(text).unwrap_or_default(),
                }
            }
        }
        ColumnReader::Int64ColumnReader(mut reader) if INTEGERS.contains(&name) => {
            let (mut values, mut levels) = (Vec::new(), Vec::new());
            reader.read_records(rows.len(), Some(&mut levels), None, &mut values)?;
            for (row, value) in rows.iter_mut().zip(spread(&values, &levels, full)) {
                let value = value.copied().unwrap_or_default().max(0) as u64;
                match name {
                    "memory_bytes" => row.memory_bytes = value,
                    _ => row.taken_at_unix_ns = value,
                }
            }
        }
        ColumnReader::DoubleColumnReader(mut reader) if place.is_some() || name == "uptime_s" => {
            let (mut values, mut levels) = (Vec::new(), Vec::new());
            reader.read_records(rows.len(), Some(&mut levels), None, &mut values)?;
            for (row, value) in rows.iter_mut().zip(spread(&values, &levels, full)) {
                match place {
                    Some(place) => *row.measures.value_mut(place) = value.copied(),
                    None => row.uptime_s = value.copied(),
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// The value of each row: there is one at the level `full`. A required column has no levels.
fn spread<'a, T>(
    values: &'a [T],
    levels: &'a [i16],
    full: i16,
) -> impl Iterator<Item = Option<&'a T>> {
    let required = levels.is_empty();
    let count = if required { values.len() } else { levels.len() };
    let mut values = values.iter();
    (0..count).map(move |at| if required || levels[at] == full { values.next() } else { None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host_row::tests::row;

    #[test]
    fn rows_come_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.parquet");
        let rows: Vec<HostRow> = (0..10).map(row).collect();
        std::fs::write(&path, to_parquet(&rows).unwrap()).unwrap();
        assert_eq!(read_parquet(&path).unwrap().unwrap(), rows);
        std::fs::write(&path, to_parquet(&[]).unwrap()).unwrap();
        assert_eq!(read_parquet(&path).unwrap(), Some(Vec::new()));
        std::fs::write(&path, "PAR1 no").unwrap();
        assert_eq!(read_parquet(&path).unwrap(), None);
    }

    /// By default, DuckDB infers a struct from the labels of JSON, and compresses with snappy.
    #[test]
    fn what_other_programs_wrote_is_read_or_named() {
        let file = |compression| {
            let schema =
                "message rows { optional binary host (UTF8); optional binary machine_id (UTF8);
                optional int64 taken_at_unix_ns; optional group labels {
                optional binary rack (UTF8); optional binary role (UTF8); } }";
            let schema = prairie_columns::schema(schema).unwrap();
            let properties = WriterProperties::builder().set_compression(compression).build();
            let encoded = encode(schema, properties, &mut |group| {
                for _ in 0..2 {
                    group.write(Values::Bytes(&["a".into(), "b".into()]), Some(&[1, 1]))?;
                }
                group.write(Values::Int64(&[5, 6]), Some(&[1, 1]))?;
                group.write(Values::Bytes(&["r1".into()]), Some(&[2, 0]))?;
                group.write(Values::Bytes(&[]), Some(&[1, 0]))
            });
            encoded.unwrap()
        };
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.parquet");
        std::fs::write(&path, file(Compression::UNCOMPRESSED)).unwrap();
        let rows = read_parquet(&path).unwrap().unwrap();
        let labels = [("rack".to_owned(), "r1".to_owned())];
        assert_eq!(rows[0].labels, labels.into_iter().collect());
        assert!(rows[1].labels.is_empty() && rows[1].host == "b", "{rows:?}");
    }
}
