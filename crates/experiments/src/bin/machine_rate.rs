//! How fast the simulated machine lives: events a second of CPU time on one core.
//!
//! ```text
//! cargo run --release -p experiments --bin machine_rate -- stress [ALLOCATOR,...]
//! cargo run --release -p experiments --bin machine_rate -- growth SYSTEM LARGEST_GIB
//! cargo run --release -p experiments --bin machine_rate -- scenario FILE.toml SYSTEM ...
//! ```
//!
//! An event is an allocation, a free, a page fault or a read of pages, as counted by
//! `Machine::operations`. `stress` is Highalloc-Stress on the 2006 paper's 32-bit machine. `growth`
//! runs the same workload on larger and larger machines, each half filled first, so that the
//! cost of an event shows whether it grows with memory. Time is the thread's own, so that other
//! programs on the machine disturb little.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use experiments::measure::thread_time;
use prairie_model::allocator::{Allocator, World};
use prairie_sim::bench::{self, Load, Preset};
use prairie_sim::machine::Machine;
use prairie_sim::machine::scenario;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["stress"] => stress(Allocator::all(World::Machine)),
        ["stress", systems] => stress(Allocator::parse_list(systems, World::Machine)?),
        ["growth", system, largest] => growth(system, largest.parse()?),
        ["scenario", file, systems @ ..] => run_scenario(file, systems),
        _ => Err("which of stress, growth and scenario? See the head of machine_rate.rs".into()),
    }
}

fn stress(systems: Vec<Allocator>) -> Outcome {
    println!("system               million events    CPU s   million/s   ns an event");
    for system in &systems {
        let (seconds, events) = timed(|| {
            let ran = bench::stress(Preset::X86, Load::Heavy, 1, system, &AtomicBool::new(false));
            ran.expect("the preset makes a machine").expect("nobody cancels").1
        });
        print_rate(system.name(), seconds, events);
    }
    Ok(())
}

fn growth(system: &str, largest_gib: u64) -> Outcome {
    let system: Allocator = system.parse()?;
    println!("GiB   set-up CPU s   bytes a frame   million events    CPU s   ns an event");
    let mut gib = 1;
    while gib <= largest_gib {
        let scenario = scenario::parse(&half_full(gib))?;
        let before = resident_bytes();
        let (set_up, mut machine) = timed(|| Machine::new(&scenario, &system));
        let machine = machine.as_mut().map_err(|error| error.to_string())?;
        machine.begin(&scenario.phases[0]);
        machine.run_for(Duration::from_nanos(scenario.phases[0].duration.0));
        let frames = gib << 18;
        let bytes = (resident_bytes().saturating_sub(before)) as f64 / frames as f64;
        machine.begin(&scenario.phases[1]);
        let begun = machine.operations();
        let (seconds, ()) =
            timed(|| machine.run_for(Duration::from_nanos(scenario.phases[1].duration.0)));
        let events = machine.operations() - begun;
        println!(
            "{gib:<5} {set_up:>12.2} {bytes:>15.1} {:>16.1} {seconds:>8.2} {:>13.0}",
            events as f64 / 1e6,
            seconds * 1e9 / events as f64
        );
        gib *= 4;
    }
    Ok(())
}

/// A machine of N GiB, half filled by one process; then others come and go.
fn half_full(gib: u64) -> String {
    format!(
        r#"
        [machine]
        memory = "{gib}G"
        cpus = 8
        [vm]
        thp = "never"
        [[files]]
        name = "data"
        count = 2000
        size = {{ median = "64K", sigma = 1.0 }}
        [[process]]
        name = "resident"
        cpu = "10m"
        anonymous = "{}M"
        growth = 0.001
        pause = "1ms"
        [[process]]
        name = "passing"
        cpu = {{ median = "100ms", sigma = 0.5 }}
        anonymous = {{ median = "8M", sigma = 0.5 }}
        files = "data"
        read = "4M"
        [[phase]]
        name = "fill"
        duration = "4s"
        run = {{ resident = 1 }}
        [[phase]]
        name = "churn"
        duration = "30s"
        run = {{ resident = 1, passing = 16 }}
        "#,
        gib * 512
    )
}

fn run_scenario(file: &str, systems: &[&str]) -> Outcome {
    let scenario = scenario::parse(&std::fs::read_to_string(file)?)?;
    println!("system               million events    CPU s   million/s   ns an event");
    for name in systems {
        let mut machine = Machine::new(&scenario, &name.parse::<Allocator>()?)?;
        let (seconds, ()) = timed(|| {
            for phase in &scenario.phases {
                machine.begin(phase);
                machine.run_for(Duration::from_nanos(phase.duration.0));
            }
        });
        print_rate(name, seconds, machine.operations());
    }
    Ok(())
}

fn print_rate(name: &str, seconds: f64, events: u64) {
    println!(
        "{name:<20} {:>14.1} {seconds:>8.2} {:>11.2} {:>13.0}",
        events as f64 / 1e6,
        events as f64 / 1e6 / seconds,
        seconds * 1e9 / events as f64
    );
}

/// What `work` takes of the thread's CPU time, in seconds, and what it returns.
fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = thread_time();
    let result = work();
    ((thread_time() - start).as_secs_f64(), result)
}

/// Memory of this process (`/proc/self/statm`, second column).
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}
