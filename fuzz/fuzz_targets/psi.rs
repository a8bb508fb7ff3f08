//! `*.pressure`: any text gives values or an error.
#![cfg_attr(fuzzing, no_main)]

use prairie_fuzz::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = prairie_host::psi::parse("memory.pressure", text);
});
