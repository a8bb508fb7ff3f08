//! `*.pressure`: any text gives values or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = prairie_host::psi::parse("memory.pressure", text);
});
