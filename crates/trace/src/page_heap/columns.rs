//! The columns of a page-heap trace, and events as rows.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::{ColumnPath, Type};

use super::{Call, Event};

/// Names of the columns, in file order: three of 64 bits and two of 8.
pub const NAMES: [&str; 5] = ["time_ns", "span", "pages", "call", "align_log2"];
/// How many of the columns have 64 bits.
pub const WIDE: usize = 3;

/// The numbers in `call`.
pub const CALLS: [&str; 3] = ["new", "delete", "release"];
const NEW: i32 = 0;
const DELETE: i32 = 1;
const RELEASE: i32 = 2;

/// The schema of version 1.
pub fn schema() -> Arc<Type> {
    let column = |(i, name): (usize, &&str)| {
        let (physical, bits) = if i < WIDE { (Physical::INT64, 64) } else { (Physical::INT32, 8) };
        let column = Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(LogicalType::integer(bits, i == 0)))
            .build();
        Arc::new(column.expect("the columns' types are consistent"))
    };
    let fields = NAMES.iter().enumerate().map(column).collect();
    let group = Type::group_type_builder("prairie_heap_trace").with_fields(fields);
    Arc::new(group.build().expect("the schema is consistent"))
}

/// How the columns are written: times and names as differences, the others as a dictionary.
pub fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(3).expect("zstd has a level 3");
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("prairie ", env!("CARGO_PKG_VERSION")).into())
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(level))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(crate::ROWS_IN_GROUP));
    for name in &NAMES[..2] {
        let path = ColumnPath::from(*name);
        properties = properties
            .set_column_dictionary_enabled(path.clone(), false)
            .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

/// Rows by columns: `wide` has time, span and pages, `narrow` call and alignment.
#[derive(Default)]
pub struct Rows {
    pub wide: [Vec<i64>; WIDE],
    pub narrow: [Vec<i32>; NAMES.len() - WIDE],
}

impl Rows {
    pub fn len(&self) -> usize {
        self.wide[0].len()
    }

    pub fn clear(&mut self) {
        self.wide.iter_mut().for_each(Vec::clear);
        self.narrow.iter_mut().for_each(Vec::clear);
    }

    pub fn push(&mut self, event: &Event) {
        let (call, span, pages, align_log2) = match event.call {
            Call::New { span, pages, align_log2 } => (NEW, span, pages, align_log2),
            Call::Delete { span } => (DELETE, span, 0, 0),
            Call::Release { pages } => (RELEASE, 0, pages, 0),
        };
        for (column, value) in self.wide.iter_mut().zip([event.time_ns, span, pages]) {
            column.push(value as i64);
        }
        for (column, value) in self.narrow.iter_mut().zip([call, i32::from(align_log2)]) {
            column.push(value);
        }
    }

    /// The event of a row, or what it cannot be.
    pub fn event(&self, row: usize) -> Result<Event, String> {
        let [time_ns, span, pages] = [0, 1, 2].map(|column| self.wide[column][row] as u64);
        let [call, align] = [0, 1].map(|column| self.narrow[column][row]);
        if time_ns > i64::MAX as u64 {
            return Err("its time is negative".to_owned());
        }
        let call = match call {
            NEW if pages == 0 => return Err("a span of no pages".to_owned()),
            NEW if !(0..64).contains(&align) => return Err(format!("align_log2 is {align}")),
            NEW => Call::New { span, pages, align_log2: align as u8 },
            DELETE => Call::Delete { span },
            RELEASE => Call::Release { pages },
            other => return Err(format!("call cannot be {other}")),
        };
        Ok(Event { time_ns, call })
    }
}
