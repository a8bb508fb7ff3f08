//! A part of a study as a Parquet file: rows, and which study and shard they belong to.

use std::path::Path;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use prairie_columns::{Values, encode, metadata};

use crate::identity::Identity;
use crate::row::{Counters, Row};
use crate::study::Shard;

/// Version of the columns and the metadata.
const SCHEMA_VERSION: u32 = 3;
const VERSION_KEY: &str = "prairie.fleet.version";
const STUDY_KEY: &str = "prairie.fleet.study";
const HASH_KEY: &str = "prairie.fleet.study_hash";
const SHARD_KEY: &str = "prairie.fleet.shard";

/// Which study and which of its servers a part holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The study.
    pub study: Identity,
    /// The servers.
    pub shard: Shard,
}

impl Header {
    /// Why two parts cannot be parts of one study; `None` if they can.
    pub fn conflict(&self, other: &Header) -> Option<String> {
        if let Some(difference) = self.study.difference(&other.study) {
            return Some(format!("different {difference}"));
        }
        let (one, two) = (self.shard.of, other.shard.of);
        (one != two).then(|| format!("one study split into {one} and into {two} parts"))
    }
}

/// A part that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// The study and shard.
    pub header: Header,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// A counted column: its name, its value, and how to set it.
type Count = (&'static str, fn(&Row) -> u64, fn(&mut Row, u64));

/// A column of the row itself.
macro_rules! measured {
    ($name:ident) => {
        (stringify!($name), |row| row.$name, |row, value| row.$name = value)
    };
}

/// A column of blocks that could be freed: a simulated server has no unknown frames, so that both
/// bounds are the same.
macro_rules! potential {
    ($name:literal, $size:ident) => {
        (
            $name,
            |row| row.potential_max.$size,
            |row, value| {
                row.potential_min.$size = value;
                row.potential_max.$size = value;
            },
        )
    };
}

/// A column of what the simulation counted.
macro_rules! counted {
    ($name:ident) => {
        (
            stringify!($name),
            |row| row.simulated.as_ref().map_or(0, |counters| counters.$name),
            |row, value| row.simulated.get_or_insert_with(Counters::default).$name = value,
        )
    };
}

/// The counted columns, after `workload`, `system` and `uptime_s`.
const COUNTS: [Count; 24] = [
    measured!(server),
    measured!(frames),
    measured!(free_frames),
    measured!(free_2_mib),
    measured!(free_4_mib),
    measured!(free_32_mib),
    measured!(free_1_gib),
    potential!("potential_2_mib", mib_2),
    potential!("potential_32_mib", mib_32),
    potential!("potential_1_gib", gib_1),
    measured!(unmovable_frames),
    (
        "polluted_blocks",
        |row| row.polluted_max,
        |row, value| {
            row.polluted_min = value;
            row.polluted_max = value;
        },
    ),
    counted!(allocations),
    counted!(failed_kernel),
    counted!(failed_movable),
    counted!(failed_huge),
    counted!(pages_moved),
    counted!(grown_on_failure),
    counted!(failed_pins),
    counted!(waited),
    counted!(border_moves),
    counted!(unmovable_region),
    counted!(network_frames),
    counted!(pinned_frames),
];

impl Part {
    /// The contents of a Parquet file.
    ///
    /// # Errors
    /// If the rows cannot be encoded.
    pub fn to_parquet(&self) -> Result<Vec<u8>> {
        let Part { header: Header { study, shard }, rows } = self;
        let counts = COUNTS.map(|(name, ..)| format!("required int64 {name};\n")).concat();
        let schema = format!(
            "message prairie_fleet {{
                required binary workload (UTF8);
                required binary system (UTF8);
                required double uptime_s;
                {counts}
            }}"
        );
        let pairs = metadata([
            (VERSION_KEY, SCHEMA_VERSION.to_string()),
            (STUDY_KEY, study.json()),
            (HASH_KEY, study.hash()),
            (SHARD_KEY, shard.to_string()),
        ]);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(pairs))
            .build();
        encode(prairie_columns::schema(&schema)?, properties, &mut |group| {
            for text in [|row: &Row| row.workload.clone(), |row: &Row| row.system.clone()] {
                let values: Vec<ByteArray> =
                    rows.iter().map(|row| text(row).as_str().into()).collect();
                group.write(Values::Bytes(&values), None)?;
            }
            let uptimes: Vec<f64> = rows.iter().map(|row| row.uptime_s).collect();
            group.write(Values::Double(&uptimes), None)?;
            for (_, value, _) in COUNTS {
                let counts: Vec<i64> = rows.iter().map(|row| value(row) as i64).collect();
                group.write(Values::Int64(&counts), None)?;
            }
            Ok(())
        })
    }

    /// Reads a part of a study; `None` if the file is something else.
    ///
    /// # Errors
    /// If it has another version, or is damaged.
    pub fn read(path: &Path) -> Result<Option<Part>> {
        let Ok(reader) = SerializedFileReader::try_from(path) else { return Ok(None) };
        let Some(header) = header_of(reader.metadata())? else { return Ok(None) };
        let rows = reader.get_row_iter(None)?.map(|found| {
            let found = found?;
            let mut row = Row {
                workload: found.get_string(0)?.clone(),
                system: found.get_string(1)?.clone(),
                uptime_s: found.get_double(2)?,
                ..Row::default()
            };
            for (at, (_, _, set)) in COUNTS.into_iter().enumerate() {
                set(&mut row, found.get_long(3 + at)? as u64);
            }
            Ok(row)
        });
        Ok(Some(Part { header, rows: rows.collect::<Result<_>>()? }))
    }
}

/// The header alone, without reading a row; `None` if the Parquet file is not part of a study.
///
/// # Errors
/// As [`Part::read`].
pub fn header(path: &Path) -> Result<Option<Header>> {
    header_of(SerializedFileReader::try_from(path)?.metadata())
}

fn header_of(parquet: &ParquetMetaData) -> Result<Option<Header>> {
    let pairs = parquet.file_metadata().key_value_metadata().map_or(&[][..], Vec::as_slice);
    let value = |key: &str| pairs.iter().find(|pair| pair.key == key)?.value.as_deref();
    let Some(version) = value(VERSION_KEY) else { return Ok(None) };
    if version != SCHEMA_VERSION.to_string() {
        let what = format!("format version {version} of a study, expected {SCHEMA_VERSION}");
        return Err(ParquetError::General(what));
    }
    let damaged = || ParquetError::General("damaged metadata, expected those of a study".into());
    let study = value(STUDY_KEY).and_then(Identity::from_json).ok_or_else(damaged)?;
    let shard = value(SHARD_KEY).and_then(|text| text.parse().ok()).ok_or_else(damaged)?;
    if value(HASH_KEY) != Some(&study.hash()) {
        return Err(damaged());
    }
    Ok(Some(Header { study, shard }))
}
