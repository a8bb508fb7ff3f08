#![cfg_attr(fuzzing, no_main)]
//! `/proc/slabinfo` from any bytes: an error, or caches whose names are not empty.

use prairie_fuzz::fuzz_target;
use prairie_host::texts::slabinfo;

fuzz_target!(|text: &str| {
    if let Ok(caches) = slabinfo::parse(text) {
        assert!(caches.iter().all(|cache| !cache.name.is_empty()));
    }
});
