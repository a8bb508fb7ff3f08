//! The container: one Parquet file with a snapshot of frames and the events after it.
//!
//! `docs/src/concepts/trace-format.md` describes it for those who read it with other tools. What matters in
//! here: snapshot rows and event rows never share a row group, so that either can be read alone;
//! every column chunk has a checksum in the metadata, so that a damaged file is distinguished from a sound
//! one before its bytes are decoded.

pub(crate) mod chunk;
mod column;
mod kind;
mod reader;
mod row;
pub(crate) mod table;
mod unnamed;
mod writer;

pub use column::{Column, Columns, ROWS_IN_GROUP};
pub use kind::Kind;
pub use reader::{Events, FrameRuns, Reader};
pub(crate) use unnamed::UnnamedFile;
pub use writer::{Summary, Writer};
pub(crate) use writer::{begin, write_error};

/// The newest version that this crate reads and writes. A file says the oldest that will do for what
/// is in it, so that one without pins can be read by who knows none.
pub const SCHEMA_VERSION: u32 = 3;

/// The keys of the file's metadata.
mod key {
    /// The schema's version, a decimal number.
    pub const VERSION: &str = "prairie.schema_version";
    /// [`Metadata`](crate::Metadata) as JSON.
    pub const METADATA: &str = "prairie.metadata";
    /// CRC-32 of each column chunk as JSON: a list per row group, in the order of the columns.
    pub const CHECKSUMS: &str = "prairie.checksums";
    /// The names of the numbers in `kind`, as JSON.
    pub const KINDS: &str = "prairie.kinds";
    /// The names of the numbers in `migrate_type` and `fallback_type`, as JSON.
    pub const MIGRATE_TYPES: &str = "prairie.migrate_types";
}
