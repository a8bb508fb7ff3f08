//! `/proc/iomem`: any text gives ascending ranges without overlap, or an error.
#![cfg_attr(fuzzing, no_main)]

use prairie_fuzz::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(ranges) = prairie_host::texts::iomem::system_ram(text) {
        assert!(ranges.iter().all(|range| range.start < range.end));
        assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
    }
});
