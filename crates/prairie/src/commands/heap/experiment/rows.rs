//! The observations of an experiment as Parquet: one row for each process and time.

use std::path::Path;

use anyhow::Context;
use parquet::basic::Compression;
use parquet::data_type::ByteArray;
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use prairie_columns::{Group, Values, metadata, schema};
use prairie_heap::experiment::Observation;
use prairie_report::write_atomically;

use super::Observed;

/// Version of the columns, in the file's metadata.
const SCHEMA_VERSION: &str = "1";

/// The columns before [`BYTES`].
const SUBJECT: &str = "required double seconds;
    required int32 pid (INTEGER(32,false));
    required binary program (UTF8);
    required binary arm (UTF8);";

/// A column's name, and its value in an observation.
type Bytes = (&'static str, fn(&Observation) -> u64);

/// Sizes.
const BYTES: [Bytes; 6] = [
    ("live_bytes", |seen| seen.live_bytes),
    ("free_object_bytes", |seen| seen.free_object_bytes),
    ("free_page_bytes", |seen| seen.free_page_bytes),
    ("backed_bytes", |seen| seen.backed_bytes),
    ("huge_bytes", |seen| seen.huge_bytes),
    ("resident_bytes", |seen| seen.resident_bytes),
];

/// Writes all observations.
pub fn write(path: &Path, observed: &[Observed]) -> anyhow::Result<()> {
    let file = encode(observed).with_context(|| path.display().to_string())?;
    Ok(write_atomically(path, &file)?)
}

fn encode(observed: &[Observed]) -> Result<Vec<u8>> {
    let sizes = BYTES.map(|(name, _)| format!("required int64 {name} (INTEGER(64,false));"));
    let schema =
        schema(&format!("message prairie_heap_experiment {{ {SUBJECT} {} }}", sizes.concat()))?;
    let version = ("prairie.heap_experiment.schema_version", SCHEMA_VERSION.to_owned());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(Default::default()))
        .set_key_value_metadata(Some(metadata([version])))
        .build();
    prairie_columns::encode(schema, properties, &mut |group| fill(observed, group))
}

/// One row: the process, when it was observed, and how.
type Row<'a> = (&'a Observed, f64, &'a Observation);

fn rows_of(observed: &Observed) -> impl Iterator<Item = Row<'_>> {
    let seen = observed.at.iter().zip(&observed.subject.observations);
    seen.map(move |(&seconds, seen)| (observed, seconds, seen))
}

fn fill(observed: &[Observed], group: &mut dyn Group) -> Result<()> {
    let rows: Vec<Row<'_>> = observed.iter().flat_map(rows_of).collect();
    let seconds: Vec<f64> = rows.iter().map(|(_, seconds, _)| *seconds).collect();
    group.write(Values::Double(&seconds), None)?;
    let pids: Vec<i32> = rows.iter().map(|(of, ..)| of.pid.cast_signed()).collect();
    group.write(Values::Int32(&pids), None)?;
    for text in [
        |of: &Observed| of.subject.program.as_str().into(),
        |of: &Observed| of.subject.arm.as_str().into(),
    ] {
        let texts: Vec<ByteArray> = rows.iter().map(|(of, ..)| text(of)).collect();
        group.write(Values::Bytes(&texts), None)?;
    }
    for (_, value) in BYTES {
        let sizes: Vec<i64> = rows.iter().map(|(.., seen)| value(seen).cast_signed()).collect();
        group.write(Values::Int64(&sizes), None)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use prairie_heap::experiment::Subject;

    use super::*;

    #[test]
    fn observations_are_read_back() {
        let seen = |live_bytes| Observation { live_bytes, resident_bytes: 9, ..Default::default() };
        let observed = |pid, arm: &str| Observed {
            pid,
            at: vec![0.5, 1.5],
            subject: Subject {
                program: "redis".to_owned(),
                arm: arm.to_owned(),
                observations: vec![seen(1), seen(u64::MAX)],
                seconds: 2.0,
                cpu_seconds: 0.1,
                peak_resident_bytes: None,
            },
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        write(&path, &[observed(7, "a"), observed(u32::MAX, "b")]).unwrap();
        let reader = SerializedFileReader::try_from(path.as_path()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(|row| row.unwrap()).collect();
        assert_eq!(rows.len(), 4);
        let last = &rows[3];
        assert_eq!((last.get_double(0).unwrap(), last.get_uint(1).unwrap()), (1.5, u32::MAX));
        assert_eq!(
            (last.get_string(2).unwrap().as_str(), last.get_string(3).unwrap().as_str()),
            ("redis", "b")
        );
        assert_eq!((last.get_ulong(4).unwrap(), last.get_ulong(9).unwrap()), (u64::MAX, 9));
    }
}
