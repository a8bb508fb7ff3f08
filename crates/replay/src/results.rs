//! Measurements as Parquet: a row for each system and instant.

use parquet::errors::Result;
use prairie_model::sample::Sample;
use prairie_model::samples::Columns;

use crate::run::Results;

/// The version of the columns, in the file's metadata as `prairie.results.version`.
pub const SCHEMA_VERSION: u32 = 1;

/// `docs/src/guide/replay.md` explains each.
const COLUMNS: Columns<Sample> = Columns {
    message: "prairie_results",
    version_key: "prairie.results.version",
    version: SCHEMA_VERSION,
    unusable: |s| s.unusable_2_mib,
    counts: &[
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
    ],
};

/// The rows of `results` as the contents of a Parquet file.
///
/// # Errors
/// If the rows cannot be encoded.
pub fn to_parquet(results: &Results) -> Result<Vec<u8>> {
    COLUMNS.encode(results.systems.iter().map(|s| (s.system.as_str(), s.samples.as_slice())))
}
