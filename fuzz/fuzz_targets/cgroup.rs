//! The files of a memory cgroup, `/proc/swaps` and mounts: any text gives values or an error.
#![cfg_attr(fuzzing, no_main)]

use prairie_fuzz::fuzz_target;
use prairie_host::cgroup::{limit, lru_gen, memory_stat, mounts, swaps};

fuzz_target!(|text: &str| {
    let _ = limit::parse("memory.high", text);
    let _ = limit::number("memory.current", text);
    let _ = memory_stat::parse("memory.stat", text);
    let _ = swaps::parse(text);
    let _ = mounts::find(text, "cgroup2");
    let _ = lru_gen::parse(text, &mut |_, node| {
        let _ = (node.idle(1_000), node.youngest());
    });
});
