//! Page-heap events: what a program's malloc asked of its page heap, and when.
//!
//! A page heap knows three calls (Hunter et al., OSDI 2021, section 3): New gives a span of pages,
//! Delete takes one back, Release gives unused pages to the system. They are few, and made under one
//! lock, so a trace of them is cheap to record and exact to play back (section 6.2).
//! `docs/src/concepts/heap-trace-format.md` describes the file.

mod columns;
mod reader;
mod writer;

pub use reader::{Reader, Stream};
pub use writer::Writer;

use serde::{Deserialize, Serialize};

/// The version that this crate writes, and the newest that it reads.
pub const SCHEMA_VERSION: u32 = 1;

/// Bytes of a page of a page heap.
pub(crate) const PAGE_BYTES: u64 = 8192;

/// Keys of the file's metadata.
mod key {
    /// The schema's version, a decimal number.
    pub const VERSION: &str = "prairie.heap_trace_version";
    /// [`Metadata`](super::Metadata) as JSON.
    pub const METADATA: &str = "prairie.metadata";
    /// CRC-32 of each column chunk as JSON: a list per row group, in the order of the columns.
    pub const CHECKSUMS: &str = "prairie.checksums";
    /// The names of the numbers in `call`, as JSON.
    pub const CALLS: &str = "prairie.calls";
}

/// A call of the page heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in nanoseconds since a moment of the trace's own.
    pub time_ns: u64,
    /// Which call.
    pub call: Call,
}

/// A call of the page heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// A span was requested, and given.
    New {
        /// Its name until it is deleted: where it lay, as a page number, or any other number.
        span: u64,
        /// Its pages of 8 KiB, at least one.
        pages: u64,
        /// Its first page number is a multiple of 2 to this power.
        align_log2: u8,
    },
    /// A span was freed.
    Delete {
        /// Its name.
        span: u64,
    },
    /// Unused pages were to be given to the system.
    Release {
        /// At least how many.
        pages: u64,
    },
}

/// The description of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The program that was recorded, or the driver's settings.
    pub source: String,
    /// Bytes of a page: 8192.
    pub page_bytes: u64,
    /// Number of events; the writer's count.
    pub events: u64,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Error;

    fn event() -> impl Strategy<Value = Event> {
        let call = prop_oneof![
            (any::<u64>(), 1u64..1 << 40, 0u8..30)
                .prop_map(|(span, pages, align_log2)| { Call::New { span, pages, align_log2 } }),
            any::<u64>().prop_map(|span| Call::Delete { span }),
            any::<u64>().prop_map(|pages| Call::Release { pages }),
        ];
        (0u64..1 << 62, call).prop_map(|(time_ns, call)| Event { time_ns, call })
    }

    fn written(events: &[Event]) -> (tempfile::TempDir, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("heap.parquet");
        let mut writer = Writer::create(&path).unwrap();
        events.iter().for_each(|event| writer.event(event).unwrap());
        writer.finish("a test").unwrap();
        (directory, path)
    }

    fn read(path: &std::path::Path) -> crate::Result<Vec<Event>> {
        let reader = Reader::open(path)?;
        let mut stream = reader.events();
        let mut events = Vec::new();
        while let Some(batch) = stream.next_batch()? {
            events.extend_from_slice(batch);
        }
        assert_eq!(reader.metadata().events, events.len() as u64);
        Ok(events)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_written_is_read(events in prop::collection::vec(event(), 0..300)) {
            let (_directory, path) = written(&events);
            prop_assert_eq!(read(&path).unwrap(), events);
        }

        #[test]
        fn a_damaged_file_gives_an_error_or_the_events(at in any::<usize>(), flip in 1u8..) {
            let events: Vec<Event> = (0..200)
                .map(|i| Event {
                    time_ns: i * 7,
                    call: Call::New { span: i * 3, pages: 1 + i % 5, align_log2: 0 },
                })
                .collect();
            let (_directory, path) = written(&events);
            let mut bytes = std::fs::read(&path).unwrap();
            let at = at % bytes.len();
            bytes[at] ^= flip;
            std::fs::write(&path, bytes).unwrap();
            if let Ok(read) = read(&path) {
                prop_assert_eq!(read, events);
            }
        }
    }

    #[test]
    fn many_events_take_several_row_groups() {
        let events: Vec<Event> = (0..3 * crate::ROWS_IN_GROUP as u64 / 2)
            .map(|i| Event { time_ns: i, call: Call::Delete { span: i ^ 0x55 } })
            .collect();
        let (_directory, path) = written(&events);
        assert_eq!(read(&path).unwrap(), events);
    }

    #[test]
    fn other_files_are_recognized() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x");
        assert!(matches!(Reader::open(&path), Err(Error::Read { .. })));
        std::fs::write(&path, "not parquet").unwrap();
        assert!(matches!(Reader::open(&path), Err(Error::NotParquet { .. })));
        let writer = crate::Writer::create(&path).unwrap();
        writer.finish(crate::Metadata::default()).unwrap();
        assert!(matches!(Reader::open(&path), Err(Error::Foreign { .. })));
        let (_directory, heap) = written(&[]);
        assert!(matches!(crate::Reader::open(&heap), Err(Error::Foreign { .. })));
    }

    #[test]
    fn a_dropped_writer_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(&directory.path().join("heap.parquet")).unwrap();
        writer.event(&Event { time_ns: 0, call: Call::Release { pages: 1 } }).unwrap();
        drop(writer);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
