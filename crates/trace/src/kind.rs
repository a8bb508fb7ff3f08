//! Kinds of Parquet files that Prairie writes besides traces, for messages about a wrong file.

use std::fs::File;
use std::path::Path;

use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

/// How the keys of a kind's metadata begin, and what its files hold.
const KINDS: [(&str, &str); 9] = [
    ("prairie.log.", "a log of `prairie log run`"),
    ("prairie.host_row.", "rows of `prairie survey --summary`"),
    ("prairie.fleet.", "a part of a study of `prairie fleet run`"),
    ("prairie.results.", "samples of `prairie replay --out`"),
    ("prairie.lab.", "samples of `prairie lab run --out`"),
    ("prairie.offload.", "samples of `prairie offload run`"),
    ("prairie.regions.", "samples of `prairie regions run`"),
    ("prairie.heap_experiment.", "results of `prairie heap experiment`"),
    ("prairie.heap_trace_version", "page-heap calls of a program"),
];

/// What a Parquet file of Prairie holds; `None` for traces, saved surveys, files of other programs,
/// and files that cannot be read.
pub fn kind_of(path: &Path) -> Option<&'static str> {
    let parquet = ParquetMetaDataReader::new().parse_and_finish(&File::open(path).ok()?).ok()?;
    kind(&parquet)
}

/// The same of an open file.
pub(crate) fn kind(parquet: &ParquetMetaData) -> Option<&'static str> {
    let pairs = parquet.file_metadata().key_value_metadata()?;
    let has = |begin: &str| pairs.iter().any(|pair| pair.key.starts_with(begin));
    KINDS.iter().find(|(begin, _)| has(begin)).map(|(_, what)| *what)
}
