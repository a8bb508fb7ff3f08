//! What is known of a server in the end, and rows of it as Parquet.

use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::RowAccessor;
use parquet::schema::parser::parse_message_type;
use prairie_frames::placement::Placement;
use serde::Serialize;

use super::server::Server;
use prairie_model::sample::Tally;

/// The version of the columns, in the file's metadata under [`VERSION_KEY`].
pub const SCHEMA_VERSION: u32 = 2;
/// What tells a part of a study from other Parquet files.
pub const VERSION_KEY: &str = "prairie.fleet.version";

/// One server under one system, at the end of its life. Sizes are in frames of 4 KiB.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Row {
    /// What it ran.
    pub workload: String,
    /// How its memory was placed; `host` for a real one.
    pub system: String,
    /// Seconds since boot.
    pub uptime_s: f64,
    /// Which server of the study.
    pub server: u64,
    /// Memory.
    pub frames: u64,
    /// Free memory.
    pub free_frames: u64,
    /// Aligned 2 MiB blocks that are wholly free.
    pub free_2_mib: u64,
    /// The same of 4 MiB.
    pub free_4_mib: u64,
    /// The same of 32 MiB.
    pub free_32_mib: u64,
    /// The same of 1 GiB.
    pub free_1_gib: u64,
    /// Aligned 2 MiB blocks without an unmovable frame.
    pub potential_2_mib: u64,
    /// The same of 32 MiB.
    pub potential_32_mib: u64,
    /// The same of 1 GiB.
    pub potential_1_gib: u64,
    /// Frames in use that cannot be moved.
    pub unmovable_frames: u64,
    /// 2 MiB blocks with such a frame.
    pub spoiled_blocks: u64,
    /// Allocations that were satisfied.
    pub allocations: u64,
    /// Requests of the kernel that were not.
    pub failed_kernel: u64,
    /// Requests of programs for small pages that were not.
    pub failed_movable: u64,
    /// Requests of programs for huge pages that were not.
    pub failed_huge: u64,
    /// Pages that the system migrated.
    pub pages_moved: u64,
    /// Pageblocks that an allocation had to wait for, for want of memory in its region.
    pub grown_on_failure: u64,
    /// Pins that found no room.
    pub failed_pins: u64,
    /// Allocations that found their region exhausted and had the border moved for them.
    pub waited: u64,
    /// Pageblocks that the border passed.
    pub border_moves: u64,
    /// Frames below the border at the end.
    pub unmovable_region: u64,
}

/// A counted column: its name, where its value stands, and how it is set.
type Count = (&'static str, fn(&Row) -> u64, fn(&mut Row, u64));

macro_rules! counts {
    ($($name:ident),*) => {
        [$((stringify!($name), |row| row.$name, |row, value| row.$name = value)),*]
    };
}

/// The counted columns, after `workload`, `system` and `uptime_s`.
const COUNTS: [Count; 22] = counts!(
    server,
    frames,
    free_frames,
    free_2_mib,
    free_4_mib,
    free_32_mib,
    free_1_gib,
    potential_2_mib,
    potential_32_mib,
    potential_1_gib,
    unmovable_frames,
    spoiled_blocks,
    allocations,
    failed_kernel,
    failed_movable,
    failed_huge,
    pages_moved,
    grown_on_failure,
    failed_pins,
    waited,
    border_moves,
    unmovable_region
);

impl Row {
    /// Measures a server.
    pub(super) fn of<P: Placement>(
        number: u64,
        workload: &str,
        system: &str,
        uptime_s: f64,
        server: &Server<'_, P>,
    ) -> Row {
        let blocks = server.table.blocks();
        let tally = Tally::of(blocks);
        let counters = server.placement.counters();
        let counter = |name: &str| counters.iter().find(|c| c.name == name).map_or(0, |c| c.value);
        let is_free =
            |block: &prairie_frames::BlockCounts| block.free == prairie_frames::BlockCounts::FRAMES;
        Row {
            workload: workload.to_owned(),
            system: system.to_owned(),
            uptime_s,
            server: number,
            frames: server.frames,
            free_frames: server.free,
            free_2_mib: tally.free.mib_2,
            free_4_mib: blocks.chunks_exact(2).filter(|pair| pair.iter().all(is_free)).count()
                as u64,
            free_32_mib: tally.free.mib_32,
            free_1_gib: tally.free.gib_1,
            potential_2_mib: tally.potential.mib_2,
            potential_32_mib: tally.potential.mib_32,
            potential_1_gib: tally.potential.gib_1,
            unmovable_frames: tally.frames[2],
            spoiled_blocks: tally.spoiled,
            allocations: server.allocations,
            failed_kernel: server.failures.kernel,
            failed_movable: server.failures.movable,
            failed_huge: server.failures.huge,
            pages_moved: counter("pages_moved"),
            grown_on_failure: counter("grown_on_failure"),
            failed_pins: server.failures.pin,
            waited: counter("waited"),
            border_moves: counter("growths") + counter("shrinks"),
            unmovable_region: counter("border_node_0"),
        }
    }

    /// Contiguity at 2 MiB, 4 MiB, 32 MiB and 1 GiB as shares of free memory (Figure 2).
    pub fn contiguity(&self) -> [f64; 4] {
        let of = |blocks: u64, order: u32| share(blocks << order, self.free_frames);
        [
            of(self.free_2_mib, 9),
            of(self.free_4_mib, 10),
            of(self.free_32_mib, 13),
            of(self.free_1_gib, 18),
        ]
    }

    /// Potential contiguity at 2 MiB, 32 MiB and 1 GiB as shares of memory (Figure 5).
    pub fn potential(&self) -> [f64; 3] {
        let of = |blocks: u64, order: u32| share(blocks << order, self.frames);
        [of(self.potential_2_mib, 9), of(self.potential_32_mib, 13), of(self.potential_1_gib, 18)]
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Rows as the contents of a Parquet file. `description` is kept in its metadata, so that parts of
/// different studies can be told apart.
///
/// # Errors
/// If the rows cannot be encoded.
pub fn to_parquet(rows: &[Row], description: &str) -> Result<Vec<u8>> {
    let counts = COUNTS.map(|(name, ..)| format!("required int64 {name};\n")).concat();
    let schema = format!(
        "message prairie_fleet {{
            required binary workload (UTF8);
            required binary system (UTF8);
            required double uptime_s;
            {counts}
        }}"
    );
    let pair = |key: &str, value: &str| KeyValue::new(key.to_owned(), value.to_owned());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(vec![
            pair(VERSION_KEY, &SCHEMA_VERSION.to_string()),
            pair("prairie.fleet.study", description),
        ]))
        .build();
    let schema = Arc::new(parse_message_type(&schema)?);
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for text in [|row: &Row| row.workload.clone(), |row: &Row| row.system.clone()] {
        let values: Vec<ByteArray> = rows.iter().map(|row| text(row).as_str().into()).collect();
        let mut column = group.next_column()?.expect("the schema begins with two texts");
        column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        column.close()?;
    }
    let mut column = group.next_column()?.expect("then the uptime");
    let uptimes: Vec<f64> = rows.iter().map(|row| row.uptime_s).collect();
    column.typed::<DoubleType>().write_batch(&uptimes, None, None)?;
    column.close()?;
    for (_, value, _) in COUNTS {
        let mut column = group.next_column()?.expect("then the counts");
        let counts: Vec<i64> = rows.iter().map(|row| value(row) as i64).collect();
        column.typed::<Int64Type>().write_batch(&counts, None, None)?;
        column.close()?;
    }
    group.close()?;
    writer.into_inner()
}

/// The rows of a part of a study; `None` if the file is none.
///
/// # Errors
/// If it cannot be read, is no Parquet file, or has a newer version.
pub fn from_parquet(path: &Path) -> Result<Option<Vec<Row>>> {
    let reader = SerializedFileReader::try_from(path)?;
    let file = reader.metadata().file_metadata();
    let pairs = file.key_value_metadata().map_or(&[][..], Vec::as_slice);
    let Some(version) = pairs.iter().find(|pair| pair.key == VERSION_KEY) else {
        return Ok(None);
    };
    let version = version.value.as_deref().unwrap_or_default();
    if version != SCHEMA_VERSION.to_string() {
        let text = format!("version {version} of a study; this Prairie reads {SCHEMA_VERSION}");
        return Err(ParquetError::General(text));
    }
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
    rows.collect::<Result<Vec<Row>>>().map(Some)
}
