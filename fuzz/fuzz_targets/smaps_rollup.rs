//! `/proc/PID/smaps_rollup`: any text gives sizes or an error.
#![cfg_attr(fuzzing, no_main)]

use prairie_fuzz::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = prairie_host::texts::fields::sizes("proc/1/smaps_rollup", text);
    let _ = prairie_host::texts::fields::numbers(text);
});
