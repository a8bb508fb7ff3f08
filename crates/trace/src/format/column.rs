//! The columns of a trace: names, types, encodings.

use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::schema::types::{ColumnPath, Type};

/// Rows in a row group. A reader holds one compressed chunk of each column that it reads, a
/// writer one row group of values: some 40 MB, whatever the trace's length.
pub const ROWS_IN_GROUP: usize = 1 << 19;

/// A column, in the order of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Column {
    /// `time_ns`
    Time,
    /// `kind`
    Kind,
    /// `cpu`
    Cpu,
    /// `pid`
    Pid,
    /// `pfn`
    Pfn,
    /// `order`
    Order,
    /// `migrate_type`
    MigrateType,
    /// `gfp_flags`
    Gfp,
    /// `stack`
    Stack,
    /// `fallback_order`
    FallbackOrder,
    /// `fallback_type`
    FallbackType,
    /// `change_ownership`
    ChangeOwnership,
    /// `count`
    Count,
    /// `flags`
    Flags,
    /// `text`
    Text,
}

/// How a column's values are laid out before zstd compresses them. Chosen by measurement on
/// recordings of file-system work; `docs/src/concepts/trace-format.md` has the figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// Differences of neighbors, bit-packed: for large numbers near one another. (Split by bytes,
    /// frame numbers are a quarter smaller, but take some 5 ns longer to decode.)
    Deltas,
    /// Few distinct values: their numbers in a dictionary, in runs.
    Dictionary,
}

impl Column {
    /// Every column, in file order.
    pub const ALL: [Column; 15] = [
        Column::Time,
        Column::Kind,
        Column::Cpu,
        Column::Pid,
        Column::Pfn,
        Column::Order,
        Column::MigrateType,
        Column::Gfp,
        Column::Stack,
        Column::FallbackOrder,
        Column::FallbackType,
        Column::ChangeOwnership,
        Column::Count,
        Column::Flags,
        Column::Text,
    ];

    /// The column's name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Column::Time => "time_ns",
            Column::Kind => "kind",
            Column::Cpu => "cpu",
            Column::Pid => "pid",
            Column::Pfn => "pfn",
            Column::Order => "order",
            Column::MigrateType => "migrate_type",
            Column::Gfp => "gfp_flags",
            Column::Stack => "stack",
            Column::FallbackOrder => "fallback_order",
            Column::FallbackType => "fallback_type",
            Column::ChangeOwnership => "change_ownership",
            Column::Count => "count",
            Column::Flags => "flags",
            Column::Text => "text",
        }
    }

    /// Physical type, bits and sign.
    const fn width(self) -> (Physical, i8, bool) {
        match self {
            Column::Time => (Physical::INT64, 64, true),
            Column::Pfn | Column::Count | Column::Flags => (Physical::INT64, 64, false),
            Column::Pid => (Physical::INT32, 32, true),
            Column::Gfp | Column::Stack => (Physical::INT32, 32, false),
            Column::Cpu => (Physical::INT32, 16, false),
            Column::Text => (Physical::BYTE_ARRAY, 0, false),
            _ => (Physical::INT32, 8, false),
        }
    }

    const fn layout(self) -> Layout {
        match self {
            Column::Time | Column::Pfn => Layout::Deltas,
            _ => Layout::Dictionary,
        }
    }

    fn parquet_type(self) -> Type {
        let (physical, bits, signed) = self.width();
        let (repetition, logical) = if self == Column::Text {
            (Repetition::OPTIONAL, LogicalType::String)
        } else {
            (Repetition::REQUIRED, LogicalType::integer(bits, signed))
        };
        Type::primitive_type_builder(self.name(), physical)
            .with_repetition(repetition)
            .with_logical_type(Some(logical))
            .build()
            .expect("the columns' types are consistent")
    }
}

/// The schema of version 1.
pub fn schema() -> Arc<Type> {
    let fields = Column::ALL.iter().map(|c| Arc::new(c.parquet_type())).collect();
    let group = Type::group_type_builder("prairie_trace").with_fields(fields);
    Arc::new(group.build().expect("the schema is consistent"))
}

/// How the columns are written.
pub fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(3).expect("zstd has a level 3");
    let mut properties = WriterProperties::builder()
        // Each page has a compression header of its own, which costs time for the many columns
        // that take a bit or two a row.
        .set_data_page_row_count_limit(1 << 17)
        .set_created_by(concat!("prairie ", env!("CARGO_PKG_VERSION")).into())
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_compression(Compression::ZSTD(level))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_max_row_group_row_count(Some(ROWS_IN_GROUP));
    for column in Column::ALL {
        let path = ColumnPath::from(column.name());
        if column.layout() == Layout::Deltas {
            properties = properties
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    properties.build()
}

/// A set of columns to read; the others read as zero, none or empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns(u16);

impl Columns {
    /// Everything.
    pub const ALL: Columns = Columns((1 << Column::ALL.len()) - 1);

    /// Columns that every reader needs.
    const REQUIRED: Columns = Columns(0).with(Column::Time).with(Column::Kind).with(Column::Cpu);

    /// Columns of a replay: time, kind, CPU, process, frame, order, migrate type, flags.
    pub const REPLAY: Columns = Columns::REQUIRED
        .with(Column::Pid)
        .with(Column::Pfn)
        .with(Column::Order)
        .with(Column::MigrateType)
        .with(Column::Gfp);

    /// Columns of the notes: time, kind, CPU, texts.
    pub const NOTES: Columns = Columns::REQUIRED.with(Column::Text);

    /// Columns of the stalls: time, kind, CPU, process, thread, order, flags, call chain, texts.
    pub const STALLS: Columns = Columns::REQUIRED
        .with(Column::Pid)
        .with(Column::Order)
        .with(Column::Gfp)
        .with(Column::Stack)
        .with(Column::Count)
        .with(Column::Flags)
        .with(Column::Text);

    /// Columns of the snapshot's rows.
    pub(crate) const FRAMES: Columns =
        Columns::REQUIRED.with(Column::Pfn).with(Column::Count).with(Column::Flags);

    /// The snapshot's rows without the time at which each was read.
    pub(crate) const FRAME_FLAGS: Columns =
        Columns(0).with(Column::Kind).with(Column::Pfn).with(Column::Count).with(Column::Flags);

    /// These columns and one more.
    pub const fn with(self, column: Column) -> Columns {
        Columns(self.0 | 1 << column as u16)
    }

    /// Whether `column` is among them.
    pub const fn contains(self, column: Column) -> bool {
        self.0 & 1 << column as u16 != 0
    }
}
