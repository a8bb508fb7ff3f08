//! The pressure signals of the controller: one file for each, and the list of all.
//!
//! A signal defines where its counters come from, its share of pressure, its guard, and its names
//! in logs, metrics, and time series. The largest share governs the controller. `io` is the
//! shortest example; `docs/src/internals/adding-a-signal.md` adds one step by step.

pub mod io;
pub mod memory;
pub mod returned;
mod term;

pub use term::{Period, Signal, Source};

/// The signals of the daemon, in the order of their guards.
pub static SIGNALS: &[Signal] = &[memory::SIGNAL, io::SIGNAL, returned::SIGNAL];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_files_and_counters_are_used_once() {
        let (mut names, mut counters, mut files) = (HashSet::new(), HashSet::new(), HashSet::new());
        for signal in SIGNALS {
            assert!(names.insert(signal.name), "{}", signal.name);
            if let Some(source) = &signal.source {
                assert!(files.insert(source.file), "{} is read by another signal", source.file);
            }
            for (counter, name) in signal.counters() {
                assert!(counters.insert(*counter) && names.insert(name), "{name}");
            }
        }
    }
}
