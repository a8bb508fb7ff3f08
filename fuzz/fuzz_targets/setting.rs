//! Settings of transparent huge pages: what is chosen is one of the choices.
#![cfg_attr(fuzzing, no_main)]

use prairie_fuzz::fuzz_target;
use prairie_host::texts::setting::{Setting, parse};

fuzz_target!(|text: &str| {
    if let Ok(Setting::Choice { chosen, choices }) = parse("enabled", text) {
        assert!(choices.contains(&chosen));
    }
});
