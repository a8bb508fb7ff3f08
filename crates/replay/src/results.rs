//! Measurements as Parquet: a row for each system and instant.

use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use crate::run::{Results, SystemResult};
use prairie_model::sample::Sample;

/// The version of the columns, in the file's metadata as `prairie.results.version`.
pub const SCHEMA_VERSION: u32 = 1;

/// A counted column: its name and where its value stands.
type Count = (&'static str, fn(&Sample) -> u64);

/// The counted columns, after `system` and `unusable_2_mib`. `docs/src/guide/replay.md` explains each.
const COUNTS: [Count; 17] = [
    ("time_ns", |s| s.time_ns),
    ("events", |s| s.events),
    ("frames", |s| s.frames),
    ("free_frames", |s| s.free_frames),
    ("unmovable_frames", |s| s.unmovable_frames),
    ("unknown_frames", |s| s.unknown_frames),
    ("free_blocks_2_mib", |s| s.free_blocks.mib_2),
    ("free_blocks_32_mib", |s| s.free_blocks.mib_32),
    ("free_blocks_1_gib", |s| s.free_blocks.gib_1),
    ("potential_blocks_2_mib", |s| s.potential_blocks.mib_2),
    ("potential_blocks_32_mib", |s| s.potential_blocks.mib_32),
    ("potential_blocks_1_gib", |s| s.potential_blocks.gib_1),
    ("potential_blocks_at_least_2_mib", |s| s.potential_blocks_at_least.mib_2),
    ("potential_blocks_at_least_32_mib", |s| s.potential_blocks_at_least.mib_32),
    ("potential_blocks_at_least_1_gib", |s| s.potential_blocks_at_least.gib_1),
    ("polluted_blocks", |s| s.polluted_blocks),
    ("failed_allocations", |s| s.failed_allocations),
];

/// The rows of `results` as the contents of a Parquet file.
///
/// # Errors
/// If the rows cannot be encoded.
pub fn to_parquet(results: &Results) -> Result<Vec<u8>> {
    let rows: Vec<(&SystemResult, &Sample)> =
        results.systems.iter().flat_map(|s| s.samples.iter().map(move |row| (s, row))).collect();
    let schema = Arc::new(parse_message_type(&schema())?);
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties()))?;
    let mut group = writer.next_row_group()?;
    let mut column = group.next_column()?.expect("the schema begins with the system");
    let systems: Vec<ByteArray> =
        rows.iter().map(|(system, _)| system.system.as_str().into()).collect();
    column.typed::<ByteArrayType>().write_batch(&systems, None, None)?;
    column.close()?;
    let mut column = group.next_column()?.expect("then F_u(9)");
    let unusable: Vec<f64> = rows.iter().map(|(_, sample)| sample.unusable_2_mib).collect();
    column.typed::<DoubleType>().write_batch(&unusable, None, None)?;
    column.close()?;
    for (_, count) in COUNTS {
        let mut column = group.next_column()?.expect("then the counts");
        let counts: Vec<i64> = rows.iter().map(|(_, sample)| count(sample) as i64).collect();
        column.typed::<Int64Type>().write_batch(&counts, None, None)?;
        column.close()?;
    }
    group.close()?;
    writer.into_inner()
}

fn schema() -> String {
    let counts: String = COUNTS.map(|(name, _)| format!("required int64 {name};\n")).concat();
    format!(
        "message prairie_results {{
            required binary system (UTF8);
            required double unusable_2_mib;
            {counts}
        }}"
    )
}

fn properties() -> WriterProperties {
    let version = ("prairie.results.version".to_owned(), SCHEMA_VERSION.to_string());
    let pairs = [version].into_iter().chain(prairie_provenance::pair());
    let pairs = pairs.map(|(key, value)| KeyValue::new(key, value)).collect();
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(pairs))
        .build()
}
