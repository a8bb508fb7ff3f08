//! Hosts for tests: drawn by hand, and captured ones from `tests/fixtures`.
#![allow(dead_code, reason = "each test crate uses its part")]

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use prairie_frames::Pfn;
use prairie_host::{Capture, FrameRun, Options, PageFlags, Roots};

/// A run of frames with these flags.
pub fn run(start: u64, frames: u64, flags: PageFlags) -> FrameRun {
    FrameRun { start: Pfn(start), frames, flags, read_at_ns: 0 }
}

/// A host of one zone `Normal` that spans all of `frames`, whose free lists are `buddyinfo`'s
/// numbers.
pub fn one_zone(frames: Vec<FrameRun>, free_blocks: &str) -> Capture {
    let start = frames.first().map_or(0, |run| run.start.0);
    let spanned = frames.iter().map(|run| run.frames).sum::<u64>();
    let mut capture = Capture { page_bytes: 4096, frames: Some(frames), ..Capture::default() };
    let zoneinfo = format!(
        "Node 0, zone   Normal\n  pages free     0\n        spanned  {spanned}\n        \
         present  {spanned}\n        managed  {spanned}\n  start_pfn:           {start}\n"
    );
    capture.files.insert("proc/zoneinfo".into(), zoneinfo);
    capture.files.insert("proc/buddyinfo".into(), format!("Node 0, zone   Normal {free_blocks}\n"));
    capture
}

/// Frames of a hand-drawn map: a letter a frame, spaces passed over.
///
/// `.` free, `a` anonymous, `f` page cache, `s` slab, `p` page table, `r` reserved, `?` no flags,
/// `-` no page.
pub fn drawn(map: &str) -> Vec<FrameRun> {
    let letters = map.chars().filter(|letter| !letter.is_whitespace());
    (0..).zip(letters).map(|(pfn, letter)| run(pfn, 1, flags(letter))).collect()
}

/// Frames of a map with `frames` frames per letter.
pub fn drawn_coarse(map: &str, frames: u64) -> Vec<FrameRun> {
    let widen = |run: FrameRun| FrameRun { start: Pfn(run.start.0 * frames), frames, ..run };
    drawn(map).into_iter().map(widen).collect()
}

/// Flags that real kernels show for such a frame.
pub fn flags(letter: char) -> PageFlags {
    use PageFlags as F;
    match letter {
        '.' => F::BUDDY,
        'a' => F::UPTODATE | F::LRU | F::MMAP | F::ANON | F::SWAPBACKED,
        'f' => F::REFERENCED | F::UPTODATE | F::LRU | F::ACTIVE | F::OWNER_2,
        's' => F::SLAB,
        'p' => F::PGTABLE,
        'r' => F::RESERVED,
        '?' => F::NONE,
        '-' => F::NOPAGE,
        other => panic!("no such frame: {other}"),
    }
}

/// The directory of a captured host.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

/// A capture of the tree at `roots`, frames and all, on two threads.
pub fn take(roots: &Roots) -> Result<Capture, prairie_host::Error> {
    let options = Options {
        frames: true,
        threads: 2,
        largest_processes: 5,
        interrupted: &AtomicBool::new(false),
        progress: &mut |_, _| {},
    };
    prairie_host::capture(roots, options)
}
