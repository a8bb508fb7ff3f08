//! IO pressure: the share of time in which some task waited for IO (TMO, §3.2).

use prairie_host::psi;

use super::term::{Signal, Source};
use crate::counter::Counter;

/// `io.pressure`, `some`, `total=`, in microseconds.
pub const SOME: Counter = Counter::new(2);

/// The signal.
pub const SIGNAL: Signal = Signal {
    name: "io",
    help: "Share of the last period",
    source: Some(Source {
        file: "io.pressure",
        // Not every kernel has it.
        is_required: false,
        counters: &[(SOME, "io_some_us")],
        parse: |file, text, counters| {
            counters[SOME] = psi::parse(file, text)?.some.total_us;
            Ok(())
        },
    }),
    share: |period| period.share_of_time(SOME),
    guard: None,
};
