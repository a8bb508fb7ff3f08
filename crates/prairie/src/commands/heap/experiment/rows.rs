//! The observations of an experiment as Parquet: one row for each process and time.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RecordWriter;
use parquet_derive::ParquetRecordWriter;
use prairie_report::write_atomically;

use super::Observed;

/// Version of the columns, in the file's metadata.
const SCHEMA_VERSION: &str = "1";

#[derive(ParquetRecordWriter)]
struct Row<'a> {
    seconds: f64,
    pid: u32,
    program: &'a str,
    arm: &'a str,
    live_bytes: u64,
    free_object_bytes: u64,
    free_page_bytes: u64,
    backed_bytes: u64,
    huge_bytes: u64,
    resident_bytes: u64,
}

/// Writes all observations.
pub fn write(path: &Path, observed: &[Observed]) -> anyhow::Result<()> {
    let file = encode(observed).with_context(|| path.display().to_string())?;
    Ok(write_atomically(path, &file)?)
}

fn encode(observed: &[Observed]) -> anyhow::Result<Vec<u8>> {
    let rows: Vec<Row<'_>> = observed.iter().flat_map(rows_of).collect();
    let rows = &rows[..];
    let version =
        KeyValue::new("prairie.heap_experiment.schema_version".into(), SCHEMA_VERSION.to_owned());
    let provenance = prairie_provenance::pair().map(|(key, value)| KeyValue::new(key, value));
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(Default::default()))
        .set_key_value_metadata(Some([version].into_iter().chain(provenance).collect()))
        .build();
    let mut file = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut file, rows.schema()?, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    rows.write_to_row_group(&mut group)?;
    group.close()?;
    writer.close()?;
    Ok(file)
}

fn rows_of(observed: &Observed) -> impl Iterator<Item = Row<'_>> {
    let subject = &observed.subject;
    observed.at.iter().zip(&subject.observations).map(move |(&seconds, seen)| Row {
        seconds,
        pid: observed.pid,
        program: &subject.program,
        arm: &subject.arm,
        live_bytes: seen.live_bytes,
        free_object_bytes: seen.free_object_bytes,
        free_page_bytes: seen.free_page_bytes,
        backed_bytes: seen.backed_bytes,
        huge_bytes: seen.huge_bytes,
        resident_bytes: seen.resident_bytes,
    })
}
