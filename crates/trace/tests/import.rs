//! Other tools' traces: real text of each, and the same text mutilated.

mod common;

use std::path::Path;

use common::{Spelled, collect, read};
use prairie_frames::{MigrateType, Order, Pfn};
use prairie_trace::import::line::{LineContent, Parsed, parse};
use prairie_trace::import::{Imported, TextTrace, convert};
use prairie_trace::{Error, EventKind, EventSource, GfpFlags, Reader};
use proptest::prelude::*;

const TRACE_CMD: &str = include_str!("fixtures/import/trace-cmd.txt");
const PERF_SCRIPT: &str = include_str!("fixtures/import/perf-script.txt");
const FTRACE: &str = include_str!("fixtures/import/ftrace.txt");

fn events(text: &str) -> prairie_trace::Result<Vec<Spelled>> {
    collect(&mut TextTrace::new(Path::new("text"), text.as_bytes()))
}

/// `time cpu pid kind` of each event, in order.
fn brief(events: &[Spelled]) -> Vec<String> {
    let kind = |what: &EventKind| format!("{:?}", prairie_trace::Kind::of(what));
    events
        .iter()
        .map(|Spelled(e, text)| {
            let text = if text.is_empty() { String::new() } else { format!(" {text}") };
            format!("{} {} {} {}{text}", e.time_ns, e.cpu, e.pid, kind(&e.what))
        })
        .collect()
}

#[test]
fn trace_cmd_and_ftrace_give_the_same_events() {
    let found = events(TRACE_CMD).unwrap();
    assert_eq!(events(FTRACE).unwrap(), found);
    let lines = brief(&found);
    assert_eq!(lines[0], "4042982607000 1 25431 Process opt cgu.05");
    assert_eq!(lines[1], "4042982607000 1 25431 Alloc");
    assert!(lines.contains(&"4042983415000 0 25447 Marker hello: there kmem".to_owned()));
    assert!(lines.contains(&"4043071336000 1 25463 Process a b:c".to_owned()));
    let first = EventKind::Alloc {
        pfn: Pfn(0x1caa56),
        order: Order::BASE,
        migrate_type: MigrateType::Movable,
        gfp: GfpFlags(0x14_0dca),
        stack: prairie_trace::StackId::NONE,
    };
    assert_eq!(found[1].0.what, first);
}

#[test]
fn perf_script_has_nanoseconds() {
    let lines = brief(&events(PERF_SCRIPT).unwrap());
    assert_eq!(lines[1], "4017223148340 0 24381 Alloc");
    assert!(lines.contains(&"4017228634406 1 24952 FreeBatched".to_owned()));
    assert!(lines.contains(&"4017410467959 1 24955 ZoneLocked".to_owned()));
}

/// Lines made after those of other kernels and of rare events.
#[test]
fn lines_of_other_forms() {
    let types = &MigrateType::ALL;
    fn what(line: &str) -> LineContent<'_> {
        match parse(line, &MigrateType::ALL) {
            Parsed::Line(line) => line.content,
            other => panic!("{other:?}"),
        }
    }
    let failed = "x-1 [000] 1.5: mm_page_alloc: page=(nil) pfn=0 order=9 migratetype=1 \
                  gfp_flags=GFP_TRANSHUGE";
    assert!(matches!(what(failed), LineContent::EventKind(EventKind::AllocFailed { .. })));
    let failed = failed.replace("pfn=0", "pfn=-1");
    assert!(matches!(what(&failed), LineContent::EventKind(EventKind::AllocFailed { .. })));
    let decimal = "x-1 [000] 1.5: mm_page_free: page=0xffffea00 pfn=123456 order=2";
    let order = Order::new(2).unwrap();
    assert_eq!(what(decimal), LineContent::EventKind(EventKind::Free { pfn: Pfn(123_456), order }));
    let isolated =
        "x-1 [000] 1.5: mm_page_pcpu_drain: page=0x2b6400 pfn=0x2b6400 order=0 migratetype=5";
    let isolated_pages = EventKind::PcpuDrain {
        pfn: Pfn(0x2b6400),
        order: Order::BASE,
        migrate_type: MigrateType::Isolate,
    };
    assert_eq!(what(isolated), LineContent::EventKind(isolated_pages), "of a kernel with CMA");
    let extfrag = "x-1 [000] 1.5: mm_page_alloc_extfrag: page=0x2b6400 pfn=0x2b6400 alloc_order=0 \
                   fallback_order=9 pageblock_order=9 alloc_migratetype=0 fallback_migratetype=1 \
                   fragmenting=0 change_ownership=1";
    let expected = EventKind::Extfrag {
        pfn: Pfn(0x2b6400),
        order: Order::BASE,
        fallback_order: Order::HUGE,
        migrate_type: MigrateType::Unmovable,
        fallback_type: MigrateType::Movable,
        change_ownership: true,
    };
    assert_eq!(what(extfrag), LineContent::EventKind(expected));
    let task = |line: &str| match parse(line, types) {
        Parsed::Line(line) => (line.name.to_owned(), line.pid, line.cpu),
        other => panic!("{other:?}"),
    };
    let rest = "[003] 7.000001: mm_page_free: page=0x1 pfn=0x1 order=0";
    assert_eq!(task(&format!("kworker/u4:1-ev-33 {rest}")), ("kworker/u4:1-ev".into(), 33, 3));
    assert_eq!(task(&format!("a [1] b 12 34 {rest}")), ("a [1] b 12".into(), 34, 3));
    assert_eq!(task(&format!("tar 34/35 {rest}")), ("tar".into(), 35, 3));
    assert_eq!(task(&format!("b�-7 {rest}")), ("b�".into(), 7, 3));
    assert_eq!(task(&format!("<idle>-0 (-----) {rest}")), ("<idle>".into(), 0, 3));
    assert_eq!(parse("CPU:1 [LOST 23 EVENTS]", types), Parsed::Lost { cpu: 1, count: 23 });
    assert_eq!(parse("x-1 [000] 1.5: sched_switch: prev_comm=x", types), Parsed::Other);
    let pin = EventKind::Pin { pfn: Pfn(0x3fc0), order: Order::BASE };
    let unpin = EventKind::Unpin { pfn: Pfn(0x3fc0), order: Order::BASE };
    let probe = "x-1 [000] d.... 1.5: prairie_pin: (try_grab_page+0x0/0x90) page=0xffbc7b52800ff000 \
                 base=0xffbc7b5280000000";
    assert_eq!(what(probe), LineContent::EventKind(pin));
    assert_eq!(what("x-1 [000] 1.5: prairie_unpin: pfn=0x3fc0"), LineContent::EventKind(unpin));
    let reference = |event: &str, val: i64| {
        let line = format!(
            "x-1 [000] 1.5: {event}: pfn=0x3fc0 flags=uptodate|lru count=1030 mapcount=1 \
             mapping=000000004b6c8c1b mt=1 val={val}"
        );
        match parse(&line, &MigrateType::ALL) {
            Parsed::Line(line) => Some(line.content == LineContent::EventKind(pin)),
            Parsed::Other => None,
            other => panic!("{other:?}"),
        }
    };
    // Of references, only what counts as pins: 1,024 each, 1,023 beside one taken before.
    for (val, told) in
        [(1024, Some(true)), (1023, Some(true)), (4096, Some(true)), (1, None), (-1, None)]
    {
        assert_eq!(reference("page_ref_mod", val), told, "{val}");
    }
    assert_eq!(reference("page_ref_mod_and_test", -1024), Some(false));
    assert_eq!(reference("page_ref_mod_and_test", -2048), Some(false));
    assert_eq!(reference("page_ref_mod_and_test", -1), None);
    assert_eq!(reference("page_ref_mod_unless", 1), None);
    for bad in [
        "page=0x1041 base=0x1000",
        "page=0x1000 base=0x2000",
        "page=0x1000",
        "base=0x0",
        "page=7 base=7",
    ] {
        let line = format!("x-1 [000] 1.5: prairie_pin: (f+0x0/0x9) {bad}");
        assert!(matches!(parse(&line, types), Parsed::Bad(_)), "{line}");
    }
    for bad in ["pfn=zz order=0", "pfn=0x1 order=99", "pfn=0x1", "order=0", "pfn=1f order=0"] {
        let line = format!("x-1 [000] 1.5: mm_page_free: {bad}");
        assert!(matches!(parse(&line, types), Parsed::Bad(_)), "{line}");
    }
}

#[test]
fn order_is_that_of_the_lines() {
    let line = |seconds, pfn| {
        format!("swapper-0 [000] {seconds}.000000: mm_page_free: page=0x0 pfn={pfn} order=0\n")
    };
    let text = [line(0, 5), line(0, 4), line(9, 3), line(8, 2)].concat();
    let pfns: Vec<u64> = events(&text)
        .unwrap()
        .iter()
        .filter_map(|Spelled(e, _)| match e.what {
            EventKind::Free { pfn, .. } => Some(pfn.0),
            _ => None,
        })
        .collect();
    assert_eq!(pfns, [5, 4, 3, 2]);
}

#[test]
fn errors_name_the_line() {
    let text = format!("{TRACE_CMD}x-1 [000] 1.5: mm_page_free: pfn=0x1 order=x\n");
    let error = events(&text).unwrap_err().to_string();
    let line = text.lines().count();
    assert!(error.starts_with(&format!("text, line {line}: order=x: expected")), "{error}");
    assert!(matches!(events("hello\nworld\n"), Err(Error::Import { .. })));
    assert!(matches!(events(""), Err(Error::Import { .. })));
}

#[test]
fn a_converted_text_is_a_trace() {
    let directory = tempfile::tempdir().unwrap();
    let (from, to) = (directory.path().join("t.txt"), directory.path().join("t.parquet"));
    std::fs::write(&from, TRACE_CMD).unwrap();
    convert(&from, &to).unwrap();
    assert_eq!(read(&to).unwrap(), events(TRACE_CMD).unwrap());
    let reader = Reader::open(&to).unwrap();
    assert_eq!(reader.metadata().frames_named, 0x368ca4 + 2);
    assert!(reader.metadata().before.is_none());
    std::fs::write(&from, "nothing\n").unwrap();
    let to = directory.path().join("none.parquet");
    assert!(convert(&from, &to).is_err());
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Real text with some bytes changed, cut or doubled: events or one error, never a panic.
    #[test]
    fn mutilated_text_is_survived(
        which in 0..3usize,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3u8), 1..20),
    ) {
        let mut bytes = [TRACE_CMD, PERF_SCRIPT, FTRACE][which].as_bytes().to_vec();
        for (at, byte, edit) in edits {
            let at = at.index(bytes.len());
            match edit {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        let mut source = TextTrace::new(Path::new("text"), &bytes[..]);
        let outcome = collect(&mut source);
        if let Err(error) = outcome {
            prop_assert!(!error.to_string().contains('\n'));
            prop_assert!(source.next_batch().unwrap().is_none());
        }
    }

    #[test]
    fn any_file_is_survived(bytes in prop::collection::vec(any::<u8>(), 0..9000)) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &bytes).unwrap();
        if let Ok(mut imported) = Imported::open(file.path()) {
            let _ = collect(&mut imported);
        }
    }
}
