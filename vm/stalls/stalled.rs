//! A program that stalls and times its own stalls: the judge of `prairie stalls` in
//! `vm/tests/stalls.sh`.
//!
//! It fills memory with small pages and frees every other one, so that no free block is larger than
//! a page, then touches huge pages one after the other. Each fault has to compact memory. What a
//! fault takes beyond the same fault in free memory is what the program waited for.
//!
//! Usage: `stalled MEGABYTES HUGE_PAGES FILE`; writes a line of `key value` pairs each to FILE.

use std::ffi::c_void;
use std::time::{Duration, Instant};

const PAGE: usize = 4096;
const HUGE: usize = 2 << 20;

// Linux on x86-64; the test compiles this file with nothing but the standard library.
const READ_AND_WRITE: i32 = 3;
const PRIVATE_ANONYMOUS_NORESERVE: i32 = 0x4022;
const DONTNEED: i32 = 4;
const HUGEPAGE: i32 = 14;
const NOHUGEPAGE: i32 = 15;

unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        bytes: usize,
        protection: i32,
        flags: i32,
        file: i32,
        from: i64,
    ) -> *mut c_void;
    fn munmap(at: *mut c_void, bytes: usize) -> i32;
    fn madvise(at: *mut c_void, bytes: usize, advice: i32) -> i32;
    fn setpriority(which: i32, who: u32, priority: i32) -> i32;
}

/// A private mapping, aligned to huge pages.
struct Mapping {
    start: *mut u8,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize, advice: i32) -> Mapping {
        let (null, flags) = (std::ptr::null_mut(), PRIVATE_ANONYMOUS_NORESERVE);
        // SAFETY: a new mapping at an address that the kernel chooses overlaps nothing.
        let at = unsafe { mmap(null, bytes + HUGE, READ_AND_WRITE, flags, -1, 0) };
        assert!(at as isize != -1, "mmap: {}", std::io::Error::last_os_error());
        let at = at.cast::<u8>();
        // SAFETY: the aligned part lies within the mapping, which is a huge page larger.
        let start = unsafe { at.add(at.align_offset(HUGE)) };
        let mapping = Mapping { start, bytes };
        mapping.advise(0, bytes, advice);
        mapping
    }

    fn advise(&self, at: usize, bytes: usize, advice: i32) {
        assert!(at + bytes <= self.bytes);
        // SAFETY: the range lies within this mapping, and nothing refers to its contents.
        let failed = unsafe { madvise(self.start.add(at).cast(), bytes, advice) };
        assert!(failed == 0, "madvise: {}", std::io::Error::last_os_error());
    }

    fn touch(&self, at: usize) {
        assert!(at < self.bytes);
        // SAFETY: the byte lies within this mapping, which is writable.
        unsafe { self.start.add(at).write_volatile(1) };
    }

    fn unmap(self) {
        // SAFETY: nothing refers to the mapping any more. What alignment left over stays reserved.
        let failed = unsafe { munmap(self.start.cast(), self.bytes) };
        assert!(failed == 0, "munmap: {}", std::io::Error::last_os_error());
    }

    /// Touches each huge page; how long each took.
    fn fault(&self) -> Vec<Duration> {
        let time = |at| {
            let began = Instant::now();
            self.touch(at);
            began.elapsed()
        };
        (0..self.bytes).step_by(HUGE).map(time).collect()
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [megabytes, huge_pages, file] = arguments.as_slice() else {
        eprintln!("usage: stalled MEGABYTES HUGE_PAGES FILE");
        std::process::exit(2);
    };
    let number = |text: &String| text.parse::<usize>().expect("a number");

    // A recorder must not take the CPU between the stalls.
    // SAFETY: the call changes the priority of this process and touches no memory.
    if unsafe { setpriority(0, 0, -20) } != 0 {
        eprintln!("stalled: not root: others run meanwhile");
    }

    // The same faults in free memory; the quickest, because others run on the same CPU.
    let free = Mapping::new(16 * HUGE, HUGEPAGE);
    let usual = free.fault().into_iter().min().unwrap_or_default();
    free.unmap();

    let small = Mapping::new(number(megabytes) << 20, NOHUGEPAGE);
    (0..small.bytes).step_by(PAGE).for_each(|at| small.touch(at));
    for at in (0..small.bytes).step_by(2 * PAGE) {
        small.advise(at, PAGE, DONTNEED);
    }

    let wanted = Mapping::new(number(huge_pages) * HUGE, HUGEPAGE);
    let took = wanted.fault();
    let waited: Duration = took.iter().map(|time| time.saturating_sub(usual)).sum();
    let longest = took.iter().max().copied().unwrap_or_default();
    let lines = format!(
        "usual_ns {}\nwaited_ns {}\nlongest_ns {}\nall_ns {}\n",
        usual.as_nanos(),
        waited.as_nanos(),
        longest.as_nanos(),
        took.iter().sum::<Duration>().as_nanos(),
    );
    std::fs::write(file, lines).expect("the result can be written");
}
