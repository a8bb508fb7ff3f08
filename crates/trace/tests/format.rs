//! Files as a whole: what goes in comes out, and what no writer wrote is refused in one line.

mod common;

use std::fs::File;
use std::path::Path;

use common::{Spelled, any_event, collect, metadata, read, write};
use parquet::file::reader::{FileReader, SerializedFileReader};
use prairie_frames::{MigrateType, Order, Pfn};
use prairie_host::{Capture, FrameRun, PageFlags};
use prairie_trace::{
    Column, Columns, Error, Event, EventKind, EventSource, GfpFlags, Metadata, ROWS_IN_GROUP,
    Reader, StackId, StallPoint, Texts, Writer, snapshot,
};
use proptest::prelude::*;

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_events_survive(events in prop::collection::vec(any_event(), 0..300)) {
        let directory = scratch();
        let path = directory.path().join("t.parquet");
        let summary = write(&path, &events);
        prop_assert_eq!(summary.events, events.len() as u64);
        prop_assert_eq!(summary.bytes, std::fs::metadata(&path).unwrap().len());
        prop_assert_eq!(read(&path).unwrap(), events);
    }

    #[test]
    fn any_runs_survive(
        lengths in prop::collection::vec((1..1u64 << 30, any::<u64>(), any::<u64>(), 0..9u64), 0..300)
    ) {
        let mut next = 0;
        let runs: Vec<FrameRun> = lengths
            .into_iter()
            .map(|(frames, flags, read_at_ns, gap)| {
                let start = Pfn(next + gap);
                next = start.0 + frames;
                FrameRun { start, frames, flags: PageFlags(flags), read_at_ns }
            })
            .collect();
        let directory = scratch();
        let path = directory.path().join("s.parquet");
        let capture = Capture {
            page_bytes: 4096,
            kernel_release: "6.1".into(),
            files: [("proc/buddyinfo".to_owned(), "Node 0, zone DMA 1 2\n".to_owned())].into(),
            frames: (!runs.is_empty()).then_some(runs),
            ..Capture::default()
        };
        snapshot::save(&path, &capture).unwrap();
        prop_assert_eq!(snapshot::load(&path).unwrap(), capture);
    }

    /// Any damage to any byte is an error or changes nothing; it never panics.
    #[test]
    fn damage_is_noticed(at in any::<prop::sample::Index>(), flip in 1..=255u8) {
        let (bytes, events) = sample();
        let mut damaged = bytes.clone();
        damaged[at.index(bytes.len())] ^= flip;
        let directory = scratch();
        let path = directory.path().join("d.parquet");
        std::fs::write(&path, damaged).unwrap();
        match read(&path) {
            Ok(found) => prop_assert_eq!(&found, events),
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{}", error),
        }
    }

    #[test]
    fn a_cut_file_is_refused(at in any::<prop::sample::Index>()) {
        let (bytes, _) = sample();
        let directory = scratch();
        let path = directory.path().join("c.parquet");
        let kept = at.index(bytes.len());
        std::fs::write(&path, &bytes[..kept]).unwrap();
        let error = read(&path).unwrap_err();
        match kept {
            0 => prop_assert!(matches!(error, Error::Empty { .. }), "{}", error),
            _ => prop_assert!(matches!(error, Error::NotParquet { .. }), "{}", error),
        }
    }

    #[test]
    fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let directory = scratch();
        let path = directory.path().join("g.parquet");
        std::fs::write(&path, &bytes).unwrap();
        prop_assert!(Reader::open(&path).is_err());
        let framed = [b"PAR1", &bytes[..], &(bytes.len() as u32).to_le_bytes(), b"PAR1"].concat();
        std::fs::write(&path, framed).unwrap();
        prop_assert!(Reader::open(&path).is_err());
    }
}

/// A small file of every kind of event, and what is in it.
fn sample() -> &'static (Vec<u8>, Vec<Spelled>) {
    static SAMPLE: std::sync::OnceLock<(Vec<u8>, Vec<Spelled>)> = std::sync::OnceLock::new();
    SAMPLE.get_or_init(|| {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let tree = prop::collection::vec(any_event(), 500).new_tree(&mut runner).unwrap();
        let events = proptest::strategy::ValueTree::current(&tree);
        let directory = scratch();
        let path = directory.path().join("sample.parquet");
        write(&path, &events);
        (std::fs::read(&path).unwrap(), events)
    })
}

fn free(number: u64) -> Event {
    let what = EventKind::Free { pfn: Pfn(number), order: Order::BASE };
    Event { time_ns: number, pid: 1, cpu: 0, what }
}

#[test]
fn order_is_kept_across_row_groups() {
    let directory = scratch();
    let path = directory.path().join("long.parquet");
    let mut writer = Writer::create(&path).unwrap();
    let count = ROWS_IN_GROUP as u64 * 2 + 77;
    let texts = Texts::default();
    let run = FrameRun { start: Pfn(0), frames: 5, flags: PageFlags(0), read_at_ns: 1 };
    writer.frames(&run).unwrap();
    for number in 0..count {
        writer.event(&free(number), &texts).unwrap();
    }
    writer.finish(metadata()).unwrap();
    let reader = Reader::open(&path).unwrap();
    assert_eq!(reader.metadata().events, count);
    assert_eq!(reader.metadata().frames_named, count);
    assert_eq!(reader.frame_runs().collect::<Result<Vec<_>, _>>().unwrap(), [run]);
    let mut events = reader.events(Columns::REPLAY);
    let mut next = 0;
    while let Some(batch) = events.next_batch().unwrap() {
        for event in batch {
            assert_eq!(*event, free(next));
            next += 1;
        }
    }
    assert_eq!(next, count);
}

#[test]
fn columns_that_are_left_out_read_as_zero() {
    let directory = scratch();
    let path = directory.path().join("p.parquet");
    let what = EventKind::Alloc {
        pfn: Pfn(1 << 39),
        order: Order::HUGE,
        migrate_type: MigrateType::Movable,
        gfp: GfpFlags(0x1234),
        stack: StackId(9),
    };
    let event = Event { time_ns: 5, pid: 77, cpu: 3, what };
    write(&path, &[Spelled(event, String::new())]);
    let reader = Reader::open(&path).unwrap();
    let one = |columns| collect(&mut reader.events(columns)).unwrap().remove(0).0;
    assert_eq!(one(Columns::ALL), event);
    let EventKind::Alloc { pfn, gfp, stack, .. } = one(Columns::REPLAY).what else { panic!() };
    assert_eq!((pfn, gfp, stack), (Pfn(1 << 39), GfpFlags(0x1234), StackId::NONE));
    assert_eq!(one(Columns::REPLAY.with(Column::Stack)), event);
}

#[test]
fn a_dropped_writer_leaves_nothing() {
    let directory = scratch();
    let mut writer = Writer::create(&directory.path().join("t.parquet")).unwrap();
    writer.event(&free(1), &Texts::default()).unwrap();
    assert!(!directory.path().join("t.parquet").exists());
    drop(writer);
    assert_eq!(entries(directory.path()), 0);
}

#[test]
fn a_directory_that_is_not_there_is_named() {
    let error = Writer::create(Path::new("/nonexistent/t.parquet")).err().unwrap().to_string();
    assert_eq!(error.split(": ").next(), Some("cannot write /nonexistent/t.parquet"));
    let error = Reader::open(Path::new("/nonexistent/t.parquet")).err().unwrap().to_string();
    assert_eq!(error.split(": ").next(), Some("cannot read /nonexistent/t.parquet"));
    assert!(matches!(Reader::open(Path::new("/tmp")), Err(Error::Read { .. })));
}

#[test]
fn other_page_sizes_are_refused() {
    let directory = scratch();
    let path = directory.path().join("arm.parquet");
    let capture = Capture { page_bytes: 65536, ..Capture::default() };
    snapshot::save(&path, &capture).unwrap();
    let error = snapshot::load(&path).unwrap_err();
    assert!(matches!(error, Error::PageSize { page_bytes: 65536, .. }), "{error}");
}

/// Writes a Parquet file with one column and these metadata, as another program would.
fn foreign(path: &Path, pairs: &[(&str, &str)]) {
    use parquet::file::{metadata::KeyValue, properties::WriterProperties};
    let schema = parquet::schema::parser::parse_message_type("message m { REQUIRED INT32 x; }");
    let pairs = pairs.iter().map(|(k, v)| KeyValue::new(k.to_string(), v.to_string())).collect();
    let properties = WriterProperties::builder().set_key_value_metadata(Some(pairs)).build();
    let file = std::fs::File::create(path).unwrap();
    let writer = parquet::file::writer::SerializedFileWriter::new(
        file,
        schema.unwrap().into(),
        properties.into(),
    );
    writer.unwrap().close().unwrap();
}

/// A reader without pins can read files without pins.
#[test]
fn a_file_says_the_oldest_version_that_will_do() {
    let directory = scratch();
    let version = |what: EventKind| {
        let path = directory.path().join("v.parquet");
        let mut writer = Writer::create(&path).unwrap();
        let event = Event { time_ns: 0, pid: 0, cpu: 0, what };
        writer.event(&event, &Texts::default()).unwrap();
        writer.finish(Metadata { page_bytes: 4096, ..Metadata::default() }).unwrap();
        let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let pairs = file.metadata().file_metadata().key_value_metadata().unwrap().clone();
        let value = |key: &str| {
            pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone()).unwrap()
        };
        let reader = Reader::open(&path).unwrap();
        assert_eq!(reader.events(Columns::ALL).next_batch().unwrap().unwrap(), [event]);
        (value("prairie.schema_version"), value("prairie.kinds").contains("unpin"))
    };
    let (pfn, order) = (Pfn(7), Order::BASE);
    assert_eq!(version(EventKind::Free { pfn, order }), ("1".into(), false));
    assert_eq!(version(EventKind::Pin { pfn, order }), ("2".into(), true));
    assert_eq!(version(EventKind::Unpin { pfn, order }), ("2".into(), true));
    for point in StallPoint::ALL {
        let (gfp, stack) = (GfpFlags(0xcc0), StackId::NONE);
        let stall = EventKind::Stall { point, task: -7, order, gfp, stack, value: u32::MAX };
        assert_eq!(version(stall), ("3".into(), true));
    }
    assert_eq!(version(EventKind::Exit), ("3".into(), true));
}

#[test]
fn newer_and_foreign_files_get_different_errors() {
    let directory = scratch();
    let path = directory.path().join("f.parquet");
    let open = |pairs: &[(&str, &str)]| {
        foreign(&path, pairs);
        Reader::open(&path).err().unwrap()
    };
    assert!(matches!(open(&[]), Error::Foreign { .. }));
    assert!(matches!(open(&[("prairie.schema_version", "4")]), Error::Newer { version: 4, .. }));
    assert!(matches!(open(&[("prairie.schema_version", "x")]), Error::Damaged { .. }));
    assert!(matches!(open(&[("prairie.schema_version", "1")]), Error::Damaged { .. }));
    let newer = open(&[("prairie.schema_version", "7")]).to_string();
    assert!(newer.contains("version 7") && newer.contains("up to version 3"), "{newer}");
}

#[test]
fn a_directory_that_vanishes_is_one_error() {
    let directory = scratch();
    let gone = directory.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let mut writer = Writer::create(&gone.join("t.parquet")).unwrap();
    writer.event(&free(1), &Texts::default()).unwrap();
    std::fs::remove_dir_all(&gone).unwrap();
    let error = writer.finish(metadata()).unwrap_err();
    assert!(matches!(error, Error::Write { .. }), "{error}");
}
