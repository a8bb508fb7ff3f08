//! `/proc/kpageflags`: any bytes give runs that tell the same words, and a survey whose classes
//! add up.
#![cfg_attr(fuzzing, no_main)]

use prairie_frames::Pfn;
use prairie_fuzz::fuzz_target;
use prairie_host::{Capture, Survey};

const ZONES: &str = "\
Node 0, zone DMA32
 spanned 700
 present 700
 start_pfn: 1
Node 0, zone Normal
 spanned 100000
 present 100000
 start_pfn: 701
";

fuzz_target!(|bytes: &[u8]| {
    let mut runs = Vec::new();
    prairie_host::kpageflags::encode(Pfn(0), bytes, 0, &mut runs);
    let words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
    let told = runs.iter().flat_map(|run| (0..run.frames).map(|_| run.flags.0));
    assert!(words.eq(told));
    // A frame in the fuzzer's input stands for many, so that blocks and sections fill up.
    for run in &mut runs {
        run.start.0 *= 100;
        run.frames *= 100;
    }
    let mut capture = Capture { page_bytes: 4096, frames: Some(runs), ..Capture::default() };
    capture.files.insert("proc/zoneinfo".into(), ZONES.into());
    let frames = Survey::of(&capture).unwrap().frames.unwrap();
    assert_eq!(frames.by_class.iter().map(|c| c.frames).sum::<u64>(), frames.present_frames);
});
