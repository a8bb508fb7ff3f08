//! LLFree's binary traces: whatever the bytes, events or an error.
#![cfg_attr(fuzzing, no_main)]

use std::io::Write;

use prairie_fuzz::fuzz_target;
use prairie_trace::EventSource;
use prairie_trace::import::LlfreeTrace;

fuzz_target!(|bytes: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    // Such traces are made of whole pages; most inputs would end at that check otherwise.
    let whole = bytes.len().next_multiple_of(4096) as u64;
    file.as_file().set_len(whole).unwrap();
    if let Ok(mut trace) = LlfreeTrace::open(file.path()) {
        while let Ok(Some(_)) = trace.next_batch() {}
    }
});
