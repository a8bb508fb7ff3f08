//! `/proc/PID/smaps_rollup`: any text gives sizes or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = prairie_host::texts::fields::sizes("proc/1/smaps_rollup", text);
    let _ = prairie_host::texts::fields::numbers(text);
});
