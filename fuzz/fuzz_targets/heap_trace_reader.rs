//! Page-heap traces: whatever the bytes, events or an error; and whatever the events, a playback.
#![cfg_attr(fuzzing, no_main)]

use std::io::Write;

use prairie_fuzz::fuzz_target;
use prairie_heap::playback::{Options, Playback, Release, System};
use prairie_trace::page_heap::Reader;

fuzz_target!(|bytes: &[u8]| {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let Ok(reader) = Reader::open(file.path()) else { return };
    let systems = vec![System::Legacy, System::Temeraire];
    let mut playback = Playback::new(&Options { systems, release: Release::Recorded });
    let mut events = reader.events();
    while let Ok(Some(batch)) = events.next_batch() {
        playback.play(batch);
    }
    playback.finish().unwrap();
});
