//! A signal that the daemon does not have: the steps of `docs/src/internals/adding-a-signal.md`, compiled.
#![allow(missing_docs)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use prairie_daemon::file::Buffer;
use prairie_host::psi;
use prairie_offload::ageing::Means;
use prairie_offload::signal::{Source, io, memory, returned};
use prairie_offload::world::cgroup::Cgroup;
use prairie_offload::{Controller, Counter, Decision, Guard, Observation, Profile, Room, Signal};

// The signal: in the daemon this is the file `src/signal/cpu.rs`.
const CPU_SOME: Counter = Counter::new(3);
const CPU: Signal = Signal {
    name: "cpu",
    help: "Share of the last period",
    source: Some(Source {
        file: "cpu.pressure",
        is_required: false,
        counters: &[(CPU_SOME, "cpu_some_us")],
        parse: |file, text, counters| {
            counters[CPU_SOME] = psi::parse(file, text)?.some.total_us;
            Ok(())
        },
    }),
    // A container that waits for the CPU waits less for memory: a tenth of its stalls count.
    share: |period| period.share_of_time(CPU_SOME) / 10.0,
    guard: Some(|_, history, now| {
        let stalled_us = now.grown(&history.before, CPU_SOME);
        let share = stalled_us as f64 / (now.at - history.before.at).as_micros() as f64;
        (share > 0.5).then_some(Guard::FullStall { share })
    }),
};

// The entry in the list: in the daemon this is `SIGNALS` in `src/signal.rs`.
static SIGNALS: &[Signal] = &[memory::SIGNAL, io::SIGNAL, returned::SIGNAL, CPU];

const QUIET: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";

fn write(directory: &Path, file: &str, text: &str) {
    fs::write(directory.join("web").join(file), text).unwrap();
}

/// Two periods of a container of 400 MiB that waits for the CPU for `stalled_us` in the second.
fn decide(stalled_us: u64) -> (Observation, Decision) {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("web")).unwrap();
    write(root.path(), "memory.current", "419430400\n");
    write(root.path(), "memory.stat", "anon 419430400\nfile 0\npgscan 0\npgsteal 0\n");
    for file in ["memory.pressure", "cpu.pressure"] {
        write(root.path(), file, QUIET);
    }
    let cgroup = Cgroup::open(root.path(), "web", SIGNALS).unwrap();
    let profile = Profile { warm_up: Duration::ZERO, ..Profile::default() };
    let mut controller =
        Controller::new(profile, Means::None, false, Duration::ZERO).with_signals(SIGNALS);
    let room = Room { swap_bytes: 1 << 30, swap_free_bytes: 1 << 30, ..Room::default() };
    let mut buffer = Buffer::default();
    let mut look = |seconds| {
        let at = Duration::from_secs(seconds);
        let glimpse = cgroup.glimpse(at, &Observation::default(), &mut buffer).unwrap();
        cgroup.count(glimpse, room, &mut buffer).unwrap()
    };
    controller.decide(&look(0));
    let text = format!("some avg10=0.00 avg60=0.00 avg300=0.00 total={stalled_us}\n");
    write(root.path(), "cpu.pressure", &text);
    let now = look(6);
    (now, controller.decide(&now))
}

#[test]
fn a_new_signal_is_read_and_governs() {
    let (now, quiet) = decide(0);
    assert_eq!(now.counters[CPU_SOME], 0);
    assert_eq!(quiet.reclaim.unwrap().bytes, 51 * 4096);
    // 30 ms of 6 s are 0.5 %; a tenth of them is half of the threshold.
    let (now, half) = decide(30_000);
    assert_eq!(now.counters[CPU_SOME], 30_000);
    assert_eq!(half.governing, ("cpu", 0.0005));
    assert_eq!(half.reclaim.unwrap().bytes, 25 * 4096);
    let json = serde_json::to_value(half.pressure).unwrap();
    assert_eq!(json["cpu"], 0.0005);
}

#[test]
fn its_guard_blocks_reclaim() {
    let (_, decision) = decide(4_000_000);
    assert_eq!(decision.guard.map(|guard| guard.name()), Some("full-stall"));
    assert_eq!(decision.reclaim, None);
}
