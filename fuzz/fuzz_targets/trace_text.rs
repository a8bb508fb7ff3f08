//! Text of tracing tools: whatever the bytes, events or an error.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;

use prairie_fuzz::fuzz_target;
use prairie_trace::EventSource;
use prairie_trace::import::TextTrace;

fuzz_target!(|bytes: &[u8]| {
    let mut source = TextTrace::new(Path::new("fuzzed"), bytes);
    while let Ok(Some(_)) = source.next_batch() {}
});
