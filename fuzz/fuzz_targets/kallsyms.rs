//! `/proc/kallsyms`: any text gives a table that can be asked for every address, or an error.
#![cfg_attr(fuzzing, no_main)]

use prairie_fuzz::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(table) = prairie_host::Kallsyms::parse(text) {
        for address in [0, 1, 1 << 47, u64::MAX] {
            if let Some(found) = table.lookup(address) {
                assert!(found.offset_bytes <= address);
            }
        }
        assert!(table.lookup(u64::MAX).is_some());
    }
});
