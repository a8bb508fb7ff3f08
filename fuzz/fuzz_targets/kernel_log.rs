//! Kernel logs: any text gives reports, and each has a diagnosis and advice.
#![cfg_attr(fuzzing, no_main)]

use prairie_fuzz::fuzz_target;
use prairie_host::advice::{self, Situation};
use prairie_host::kernel_log;

fuzz_target!(|text: &str| {
    let mut parser = kernel_log::Parser::default();
    text.lines().for_each(|line| parser.push(line));
    for incident in parser.finish() {
        let diagnosis = kernel_log::diagnose(&incident);
        let _ = advice::advise(&Situation::of_incident(&incident, &diagnosis));
    }
});
