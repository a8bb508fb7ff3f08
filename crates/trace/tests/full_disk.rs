//! What happens when there is no room for a trace. A process's limit on the size of files stands
//! in for a full disk, so this test has a process to itself.

use prairie_frames::{Order, Pfn};
use prairie_trace::generate::Workload;
use prairie_trace::{Error, Event, EventKind, Texts, Writer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn no_room_is_one_error_and_leaves_nothing() {
    // SAFETY: ignoring a signal installs no handler; without it the limit would end the process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let limit = getrlimit(Resource::Fsize);
    let directory = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(&directory.path().join("t.parquet")).unwrap();
    setrlimit(Resource::Fsize, Rlimit { current: Some(1 << 16), ..limit }).unwrap();
    let texts = Texts::default();
    let mut events = Workload::typical(1 << 20, 1).events();
    let error = events.by_ref().take(2_000_000).find_map(|e| writer.event(&e, &texts).err());
    let error = error.expect("two million events need more than 64 KiB");
    assert!(matches!(error, Error::Write { .. }), "{error}");
    assert!(error.to_string().starts_with("cannot write "), "{error}");
    drop(writer);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);

    // Little enough to be written only at the end.
    let mut writer = Writer::create(&directory.path().join("t.parquet")).unwrap();
    let event = |n: u64| Event {
        time_ns: n * n * n,
        pid: 1,
        cpu: 0,
        what: EventKind::Free { pfn: Pfn(n * 7919 % 1_000_003), order: Order::BASE },
    };
    for number in 0..100_000 {
        writer.event(&event(number), &texts).unwrap();
    }
    let error = writer.finish(prairie_trace::Metadata::default()).unwrap_err();
    assert!(matches!(error, Error::Write { .. }), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    setrlimit(Resource::Fsize, limit).unwrap();
}
