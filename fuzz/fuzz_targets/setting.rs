//! Settings of transparent huge pages: what is chosen is one of the choices.
#![no_main]

use prairie_host::texts::setting::{Setting, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(Setting::Choice { chosen, choices }) = parse("enabled", text) {
        assert!(choices.contains(&chosen));
    }
});
