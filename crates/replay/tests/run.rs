//! Whole runs: several systems in one pass, measured at the same instants.

mod common;

use std::sync::atomic::AtomicBool;

use common::empty_machine;
use prairie_frames::layout::Watermarks;
use prairie_frames::placement::zones::Kernelcore;
use prairie_model::allocator::{Allocator, World};
use prairie_replay::initial_state::InitialState;
use prairie_replay::replay::Initial;
use prairie_replay::run::{MAX_SAMPLES, Options, Results, SAMPLES, run};
use prairie_trace::generate::{Batches, Workload};
use prairie_trace::{Event, EventKind, Texts};

const FRAMES: u64 = 1 << 17;

fn machine() -> InitialState {
    empty_machine(FRAMES, Watermarks { min: 256, low: 320, high: 384 })
}

fn options(parallel: bool) -> Options {
    let (systems, initial) = (Allocator::all(World::Replay), Initial::AsFound);
    let (kernelcore, expected_ns) = (Some(Kernelcore::Percent(50)), None);
    Options {
        systems,
        initial,
        sample_every_ns: None,
        expected_ns,
        kernelcore,
        parallel,
        compact: false,
        reclaim: false,
    }
}

fn replay(events: &[Event], options: &Options) -> Results {
    let mut source = Batches::new(events.iter().copied(), Texts::default());
    run(&machine(), &mut source, options, &mut |_| {}, &AtomicBool::new(false)).unwrap()
}

fn events(count: usize) -> Vec<Event> {
    Workload::typical(FRAMES, 7).events().take(count).collect()
}

#[test]
fn threads_change_nothing_and_neither_does_a_second_run() {
    let events = events(60_000);
    for reclaim in [false, true] {
        let options = |parallel| Options { reclaim, compact: reclaim, ..options(parallel) };
        let json = |parallel| serde_json::to_string(&replay(&events, &options(parallel))).unwrap();
        assert_eq!(json(true), json(false));
        assert_eq!(json(true), json(true));
    }
}

#[test]
fn all_systems_hold_the_same_memory_at_the_same_instants() {
    let events = events(60_000);
    let results = replay(&events, &options(true));
    assert_eq!(results.events, events.len() as u64);
    let [first, rest @ ..] = results.systems.as_slice() else { panic!("no systems") };
    let instants = |system: &prairie_replay::run::SystemResult| -> Vec<(u64, u64, u64)> {
        system.samples.iter().map(|s| (s.time_ns, s.events, s.free_frames)).collect()
    };
    for system in rest {
        assert_eq!(system.counts.failed_allocations, 0, "{}", system.system);
        assert_eq!(instants(system), instants(first), "{} and {}", system.system, first.system);
    }
    let allocations =
        events.iter().filter(|event| matches!(event.what, EventKind::Alloc { .. })).count() as u64;
    assert_eq!(first.counts.allocations, allocations);
}

#[test]
fn the_number_of_samples_does_not_grow_with_the_trace() {
    // Ten million instants of a millisecond each would be as many samples.
    let mut events = events(20_000);
    for (i, event) in events.iter_mut().enumerate() {
        event.time_ns = i as u64 * 500_000_000;
    }
    let results = replay(&events, &options(false));
    for system in &results.systems {
        let times: Vec<u64> = system.samples.iter().map(|sample| sample.time_ns).collect();
        assert!((SAMPLES / 2..=SAMPLES + 2).contains(&times.len()), "{} samples", times.len());
        assert!(times.is_sorted());
        assert_eq!(*times.last().unwrap(), results.duration_ns);
    }
}

#[test]
fn an_interval_that_was_asked_for_is_kept() {
    let mut events = events(1_000);
    for (i, event) in events.iter_mut().enumerate() {
        event.time_ns = 5 + i as u64;
    }
    let options = Options { sample_every_ns: Some(100), ..options(false) };
    let results = replay(&events, &options);
    let times: Vec<u64> = results.systems[0].samples.iter().map(|s| s.time_ns).collect();
    assert_eq!(times, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 999]);
    // A sample shows what happened before its instant and nothing after.
    let seen: Vec<u64> = results.systems[0].samples.iter().map(|s| s.events).collect();
    assert_eq!(seen, [0, 100, 200, 300, 400, 500, 600, 700, 800, 900, 1000]);
}

#[test]
fn an_interval_that_is_too_short_is_lengthened() {
    let mut events = events(3 * MAX_SAMPLES);
    for (i, event) in events.iter_mut().enumerate() {
        event.time_ns = i as u64 * 1000;
    }
    for expected_ns in [None, Some(events.len() as u64 * 1000)] {
        let systems = Allocator::parse_list("buddy", World::Replay).unwrap();
        let options = Options { systems, sample_every_ns: Some(1), expected_ns, ..options(false) };
        let results = replay(&events, &options);
        let system = &results.systems[0];
        let times: Vec<u64> = system.samples.iter().map(|sample| sample.time_ns).collect();
        // All were measured before the interval grew, and every second one was kept at most.
        assert!(times.len() <= MAX_SAMPLES + 2, "{} samples", times.len());
        assert!(times.len() > MAX_SAMPLES / 4, "{} samples", times.len());
        assert!(system.sample_every_ns > 1 && system.sample_every_ns.is_power_of_two());
        assert_eq!(*times.last().unwrap(), results.duration_ns);
    }
}

#[test]
fn samples_become_rows_of_parquet() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let results = replay(&events(5_000), &options(false));
    let bytes = prairie_replay::results::to_parquet(&results).unwrap();
    let file = tempfile::tempfile().unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let rows: usize = results.systems.iter().map(|system| system.samples.len()).sum();
    assert_eq!(reader.metadata().file_metadata().num_rows(), rows as i64);
    let first = reader.get_row_iter(None).unwrap().next().unwrap().unwrap();
    let names: Vec<&String> = first.get_column_iter().map(|(name, _)| name).collect();
    assert_eq!(names[..3], ["system", "unusable_2_mib", "time_ns"]);
    assert_eq!(names.len(), 19);
}
