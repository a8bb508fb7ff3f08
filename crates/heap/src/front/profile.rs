//! The sampled heap profile: which stacks hold the memory (the term and the mean of 512 KiB between
//! samples are TCMalloc's).
//!
//! Bytes are counted down, and the object at which an exponential random interval ends is a sample,
//! so a byte is as likely to be sampled as any other, whatever objects it comes in. A sample has a
//! span of its own, whose metadata names it: only malloc counts, and free costs the same as always.

use core::alloc::Layout;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering::Relaxed};

use rustix::time::{ClockId, clock_gettime};

use super::lifetimes::Histogram;
use super::protocol::flag::Flag;
use super::sync::{ForkLock, Lock};
use crate::storage::Storage;

/// Mean bytes between samples.
pub const MEAN: u64 = 512 << 10;
/// Frames of a stack that are kept, innermost first.
pub const FRAMES: usize = 60;
/// Live samples: 32 GiB of heap on average. Objects beyond are not sampled.
pub const SAMPLES: usize = 1 << 16;

/// A sampled object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Sample {
    /// Requested bytes, above 0.
    pub size: u64,
    /// When it was allocated, by the kernel's monotonic clock.
    pub born_ns: u64,
    /// Frames kept; 0 if the place is free.
    depth: u32,
    /// The next free place.
    next: u32,
    frames: [u64; FRAMES],
}

impl Sample {
    /// A sample without stack.
    const fn new(size: u64, born_ns: u64) -> Sample {
        Sample { size, born_ns, depth: 0, next: 0, frames: [0; FRAMES] }
    }

    /// Addresses within the calls that led to the allocation, innermost first.
    pub fn frames(&self) -> &[u64] {
        &self.frames[..(self.depth as usize).min(FRAMES)]
    }

    /// Whether an object is sampled here: neither a place that is free nor, in what another process
    /// was read from, nonsense.
    pub fn is_live(&self) -> bool {
        (1..=FRAMES as u32).contains(&self.depth) && self.size > 0
    }
}

/// The table of samples; a sample's number is its place and one.
struct Samples {
    places: *mut Sample,
    /// The number of the first place that is free again, or 0.
    free: u32,
    /// What was freed; null if there was no storage.
    freed: *mut Histogram,
}

// SAFETY: the places are reached by the holder of the lock alone.
unsafe impl Send for Samples {}

static SAMPLED: Lock<Samples> =
    Lock::new(Samples { places: null_mut(), free: 0, freed: null_mut() });
/// Where the table lies, for other processes, which read it from this one's memory.
pub static TABLE: Table = Table {
    places: AtomicU64::new(0),
    used: AtomicU32::new(0),
    freed: AtomicU64::new(0),
    since_ns: AtomicU64::new(0),
};

/// Where a table of samples lies.
#[derive(Debug)]
#[repr(C)]
pub struct Table {
    /// Address of the first place; 0 if nothing is sampled.
    pub places: AtomicU64,
    /// Places used so far. Changed under the lock of the samples.
    pub used: AtomicU32,
    /// Address of the [`Histogram`] of freed samples, or 0.
    pub freed: AtomicU64,
    /// When sampling began, by the kernel's monotonic clock.
    pub since_ns: AtomicU64,
}

static ON: AtomicBool = AtomicBool::new(false);
/// Bytes until the next sample.
static LEFT: AtomicI64 = AtomicI64::new(0);
static RANDOM: AtomicU64 = AtomicU64::new(1);
/// Held while a stack is walked: an allocation during the walk is not sampled.
static WALKING: Flag = Flag::new();

/// The lock of the samples, for fork.
pub fn fork_lock() -> &'static dyn ForkLock {
    &SAMPLED
}

/// Starts sampling; `seed` makes processes differ. Without storage nothing is sampled.
pub fn set_up<S: Storage>(seed: u64) {
    let Ok(layout) = Layout::array::<Sample>(SAMPLES) else { return };
    let (Some(places), Some(mut samples)) = (S::take(layout), SAMPLED.lock()) else { return };
    samples.places = places.as_ptr().cast();
    if let Some(freed) = S::take(Layout::new::<Histogram>()) {
        samples.freed = freed.as_ptr().cast();
        TABLE.freed.store(samples.freed as u64, Relaxed);
    }
    TABLE.since_ns.store(now_ns(), Relaxed);
    TABLE.places.store(samples.places as u64, Relaxed);
    RANDOM.store(seed | 1, Relaxed);
    LEFT.store(interval(), Relaxed);
    ON.store(true, Relaxed);
}

/// Whether allocations are counted.
#[inline]
pub fn is_on() -> bool {
    ON.load(Relaxed)
}

/// The kernel's monotonic clock. Not the coarse one of the page heap: many objects live for less
/// than its tick.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Exponential with mean [`MEAN`].
fn interval() -> i64 {
    let next = RANDOM.load(Relaxed).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    RANDOM.store(next, Relaxed);
    let even = ((next >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    (-ln(even) * MEAN as f64) as i64
}

/// The natural logarithm of a number between 0 and 1. The C library's would have each program that
/// preloads the heap load `libm`, a quarter of a megabyte of it.
fn ln(number: f64) -> f64 {
    // number = m · 2^e with m from 1 to 2, and ln m = 2 artanh((m − 1) / (m + 1)).
    let bits = number.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    let m = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    let z = (m - 1.0) / (m + 1.0);
    let series = (0..16).rev().fold(0.0, |sum, i| sum * z * z + 1.0 / f64::from(2 * i + 1));
    exponent as f64 * core::f64::consts::LN_2 + 2.0 * z * series
}

/// 1 − e^−x for x from 0 on.
fn one_minus_exp(x: f64) -> f64 {
    if x > 40.0 {
        return 1.0;
    }
    // 1 − e^−2y = d (2 − d) with d = 1 − e^−y, from a y so small that few terms do.
    let y = x / 1024.0;
    let start = y * (1.0 - y / 2.0 * (1.0 - y / 3.0 * (1.0 - y / 4.0)));
    (0..10).fold(start, |d, _| d * (2.0 - d))
}

/// How many objects of a size one sample of it stands for, by the chance of being sampled.
pub fn stands_for(size: u64) -> f64 {
    1.0 / one_minus_exp(size as f64 / MEAN as f64)
}

/// Counts an allocation of `size` bytes. If it is a sample, stores its stack and returns its
/// number, which [`forget`] takes when the object is freed.
#[inline]
pub fn count(size: usize) -> Option<u32> {
    if !is_on() { None } else { count_down(size.max(1)) }
}

fn count_down(size: usize) -> Option<u32> {
    let bytes = i64::try_from(size).ok()?;
    if LEFT.fetch_sub(bytes, Relaxed) >= bytes {
        return None;
    }
    if !WALKING.raise() {
        return None;
    }
    LEFT.store(interval(), Relaxed);
    let mut sample = Sample::new(size as u64, now_ns());
    walk(&mut sample);
    WALKING.lower();
    note(sample)
}

fn note(sample: Sample) -> Option<u32> {
    let mut samples = SAMPLED.lock()?;
    let used = TABLE.used.load(Relaxed);
    let number = match samples.free {
        0 if used as usize == SAMPLES => return None,
        0 => {
            TABLE.used.store(used + 1, Relaxed);
            used + 1
        }
        free => {
            // SAFETY: a place that was used before.
            samples.free = unsafe { (*samples.places.add(free as usize - 1)).next };
            free
        }
    };
    // SAFETY: a place of the table that no sample is at.
    unsafe { samples.places.add(number as usize - 1).write(sample) };
    Some(number)
}

/// Records that a sampled object is freed.
pub fn freed(number: u32) {
    let now_ns = now_ns();
    let Some(mut samples) = SAMPLED.lock() else { return };
    // SAFETY: numbers are given for places of the table.
    let place = unsafe { &*samples.places.add(number as usize - 1) };
    // SAFETY: storage of a histogram, which the holder of the lock alone writes, or null.
    if let Some(histogram) = unsafe { samples.freed.as_mut() } {
        histogram.count(place.size, now_ns.saturating_sub(place.born_ns));
    }
    samples.vacate(number);
}

/// Takes back a sample whose object could not be allocated.
pub fn forget(number: u32) {
    if let Some(mut samples) = SAMPLED.lock() {
        samples.vacate(number);
    }
}

impl Samples {
    fn vacate(&mut self, number: u32) {
        // SAFETY: numbers are given for places of the table.
        let place = unsafe { &mut *self.places.add(number as usize - 1) };
        (place.depth, place.next) = (0, self.free);
        self.free = number;
    }
}

/// Calls `act` with each live sample.
pub fn each(mut act: impl FnMut(&Sample)) {
    let Some(samples) = SAMPLED.lock() else { return };
    for place in 0..TABLE.used.load(Relaxed) as usize {
        // SAFETY: a place of the table that was used.
        let sample = unsafe { &*samples.places.add(place) };
        if sample.is_live() {
            act(sample);
        }
    }
}

unsafe extern "C" {
    fn _Unwind_Backtrace(
        frame: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// Fills in the running thread's stack, by the unwind tables that C++ and Rust throw by. Since
/// glibc 2.35 these are found without a lock.
fn walk(sample: &mut Sample) {
    // SAFETY: the function is called with the sample alone, before this returns.
    unsafe { _Unwind_Backtrace(add_frame, (&raw mut *sample).cast()) };
    // An object without a stack is a sample all the same.
    sample.depth = sample.depth.max(1);
}

extern "C" fn add_frame(context: *mut c_void, sample: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const STOP: c_int = 4;
    // SAFETY: the argument is `walk`'s sample.
    let sample = unsafe { &mut *sample.cast::<Sample>() };
    // SAFETY: the context of the frame that is being visited.
    let address = unsafe { _Unwind_GetIP(context) };
    let Some(frame) = sample.frames.get_mut(sample.depth as usize) else { return STOP };
    // The call before the place that it returns to.
    *frame = address.saturating_sub(1) as u64;
    sample.depth += 1;
    GO_ON
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::lifetimes::size_cell;
    use crate::storage::Mapped;

    #[test]
    fn samples_are_as_dense_as_they_claim() {
        set_up::<Mapped>(12345);
        let mut live = Vec::new();
        let objects = 400_000u64;
        for _ in 0..objects {
            live.extend(count(1000));
        }
        let mut estimate = 0.0;
        each(|sample| {
            if sample.size == 1000 {
                assert!(!sample.frames().is_empty());
                estimate += stands_for(1000);
            }
        });
        ON.store(false, Relaxed);
        // 763 samples are expected: five standard deviations are 18 %.
        assert!((estimate / objects as f64 - 1.0).abs() < 0.18, "{estimate} of {objects}");
        let most = live.iter().max().copied().unwrap();
        // Half of them are freed, the others were never handed out.
        let (some, others) = live.split_at(live.len() / 2);
        some.iter().for_each(|&number| freed(number));
        others.iter().for_each(|&number| forget(number));
        // SAFETY: the histogram's storage is never given back, and no other thread frees samples.
        let histogram = unsafe { &*(TABLE.freed.load(Relaxed) as *const Histogram) };
        let cells = histogram.cells[size_cell(1000)];
        assert_eq!(cells.iter().map(|cell| cell.objects).sum::<u64>(), some.len() as u64);
        let longest = now_ns() - TABLE.since_ns.load(Relaxed);
        assert!(cells.iter().all(|cell| cell.lifetime_ns <= cell.objects * longest));
        let mut left = 0;
        each(|sample| left += u32::from(sample.size == 1000));
        assert_eq!(left, 0);
        // Places are used again.
        let sample = Sample { depth: 1, ..Sample::new(7, 0) };
        let again = note(sample).unwrap();
        assert!(again <= most);
        forget(again);
    }

    #[test]
    fn our_functions_are_the_libraries() {
        for x in [1e-16f64, 1e-9, 0.001, 0.3, 0.5, 0.7, 0.999_999, 1.0 - f64::EPSILON] {
            assert!((ln(x) - x.ln()).abs() <= 1e-9 * x.ln().abs(), "{x}");
        }
        for x in [1e-9f64, 1e-5, 0.01, 0.5, 1.0, 3.0, 20.0, 39.0, 41.0, 1e9] {
            let wanted = -(-x).exp_m1();
            assert!((one_minus_exp(x) - wanted).abs() <= 1e-8 * wanted, "{x}");
        }
    }

    #[test]
    fn a_large_object_stands_for_itself_and_a_small_one_for_many() {
        assert!((stands_for(100 << 20) - 1.0).abs() < 1e-9);
        assert!((stands_for(1) / MEAN as f64 - 1.0).abs() < 1e-3);
    }
}
