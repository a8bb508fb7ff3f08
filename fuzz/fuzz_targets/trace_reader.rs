//! Trace files: whatever the bytes, rows or an error.
#![cfg_attr(fuzzing, no_main)]

use std::io::Write;

use prairie_fuzz::fuzz_target;
use prairie_trace::{Columns, EventSource, Reader};

fuzz_target!(|bytes: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    if let Ok(reader) = Reader::open(file.path()) {
        let _ = reader.frame_runs().count();
        let mut events = reader.events(Columns::ALL);
        while let Ok(Some(_)) = events.next_batch() {}
    }
});
