//! What the programs that measure speed share: the clock, the median, and a machine of one zone.

use std::time::Duration;

use prairie_frames::layout::{Watermarks, ZoneSpan};
use prairie_frames::{Layout, Pfn, ZoneKind};
use rustix::time::{ClockId, clock_gettime};

/// Frames of 4 GiB: the machine on which placement is measured, as LLFree's benchmarks do.
pub const FRAMES_OF_4_GIB: u32 = (4u64 << 30 >> 12) as u32;

/// This thread's CPU time, which other work on the machine disturbs least.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The CPU time of this thread in nanoseconds.
pub fn thread_ns() -> f64 {
    thread_time().as_nanos() as f64
}

/// The upper of the two middle values of an even number; NaN of none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A Normal zone of `frames` frames on node 0, without holes.
pub fn zone(frames: u64, watermarks: Watermarks) -> ZoneSpan {
    ZoneSpan {
        node: 0,
        kind: ZoneKind::Normal,
        start: Pfn(0),
        spanned: frames,
        managed: frames,
        watermarks,
        lowmem_reserve: [0; 6],
    }
}

/// A machine of that zone alone.
///
/// # Panics
/// Without frames.
pub fn one_zone(frames: u32, watermarks: Watermarks) -> Layout {
    Layout::new(vec![zone(frames.into(), watermarks)]).expect("a zone with memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 3.0, 2.0]), 3.0);
        assert!(median([]).is_nan());
    }

    #[test]
    fn time_goes_on() {
        let before = thread_ns();
        let layout = one_zone(FRAMES_OF_4_GIB, Watermarks::default());
        assert_eq!(layout.frames(), 1 << 20);
        assert!(thread_ns() > before);
    }
}
