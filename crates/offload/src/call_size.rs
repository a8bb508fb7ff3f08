//! The size of one call of reclaim: small enough to end within a time.
//!
//! Reclaim runs in the thread that asks for it, in the kernel, and on a busy CPU others wait until
//! the scheduler takes it away: with one CPU, one call for a whole step delayed the requests of a
//! service by a tick of the scheduler. A step is therefore split into calls with a rest between
//! them. How long a page takes depends on the compressor, the data, and the kernel's lists, so it is
//! learned from the calls before, by the CPU time that they used: time in which a call waits for a
//! device, or is preempted, delays nobody.

use std::time::Duration;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// The least that a call asks for: kernels reclaim a batch of 32 pages (`SWAP_CLUSTER_MAX`) even if
/// they are asked for less.
pub const MIN_CALL_BYTES: u64 = 32 * PAGE;

/// The most, so that a deadline can be kept and an overshoot is noticed.
pub const MAX_CALL_BYTES: u64 = 8 << 20;

/// CPU time of a page before anything is known (chosen): zstd on a page of dense data, the slowest of
/// the usual compressors, on a server.
const FIRST_PAGE_NS: f64 = 30_000.0;

/// The part of the time that a call is planned to use (chosen): data differ, and the next call must
/// not exceed the time because its pages compress half as fast.
const PLANNED: f64 = 0.5;

/// How much of a faster call enters the estimate. A slower one is believed at once.
const LEARNING: f64 = 0.125;

/// How much one call may reclaim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallSize {
    limit: Duration,
    page_ns: f64,
}

impl CallSize {
    /// Calls that use at most `limit` of CPU time, with nothing known yet.
    pub fn new(limit: Duration) -> CallSize {
        CallSize { limit, page_ns: FIRST_PAGE_NS }
    }

    /// The same knowledge for another limit.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> CallSize {
        CallSize { limit, ..self }
    }

    /// Bytes of the next call, in whole pages.
    pub fn bytes(&self) -> u64 {
        let pages = self.limit.as_nanos() as f64 * PLANNED / self.page_ns;
        (pages as u64).saturating_mul(PAGE).clamp(MIN_CALL_BYTES, MAX_CALL_BYTES)
    }

    /// After a call for `bytes` that used `used` of CPU time. A call for nothing says nothing.
    #[must_use]
    pub fn after(self, bytes: u64, used: Duration) -> CallSize {
        if bytes == 0 {
            return self;
        }
        // A call for less than a batch works on a batch.
        let pages = bytes.max(MIN_CALL_BYTES) as f64 / PAGE as f64;
        let found = (used.as_nanos() as f64 / pages).max(1.0);
        let page_ns = match found > self.page_ns {
            true => found,
            false => self.page_ns + (found - self.page_ns) * LEARNING,
        };
        CallSize { page_ns, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_call_takes_half_of_its_time_once_a_page_is_known() {
        let mut size = CallSize::new(MS);
        assert_eq!(size.bytes(), MIN_CALL_BYTES, "16 pages of 30 us are less than a batch");
        for _ in 0..100 {
            size =
                size.after(size.bytes(), Duration::from_micros(5) * (size.bytes() / PAGE) as u32);
        }
        assert_eq!(size.bytes() / PAGE, 99, "5 us a page, approached from above");
        // One slow call is believed at once.
        size = size.after(100 * PAGE, Duration::from_micros(1_000));
        assert_eq!(size.bytes() / PAGE, 50);
        assert_eq!(size.with_limit(MS * 10).bytes() / PAGE, 500);
    }

    #[test]
    fn sizes_have_bounds() {
        let slow = CallSize::new(MS).after(PAGE, Duration::from_secs(1));
        assert_eq!(slow.bytes(), MIN_CALL_BYTES);
        assert_eq!(slow.after(0, Duration::from_secs(9)), slow);
        let fast = CallSize::new(Duration::from_secs(60));
        assert_eq!(fast.bytes(), MAX_CALL_BYTES);
        let free = (0..200).fold(CallSize::new(MS), |size, _| size.after(PAGE, Duration::ZERO));
        assert_eq!(free.bytes(), MAX_CALL_BYTES);
    }

    proptest! {
        /// Whatever pages cost, within a factor of two between one call and the next, no call
        /// after the first exceeds its limit unless a batch itself does.
        #[test]
        fn calls_stay_within_their_time(
            first_ns in 300.0f64..30_000.0,
            changes in prop::collection::vec(0.5f64..2.0, 1..200),
            limit_us in 500u64..20_000,
        ) {
            let limit = Duration::from_micros(limit_us);
            let (mut size, mut page_ns) = (CallSize::new(limit), first_ns);
            for change in changes {
                let bytes = size.bytes();
                let pages = (bytes / PAGE) as f64;
                let used = Duration::from_nanos((page_ns * pages) as u64);
                prop_assert!(used <= limit || bytes == MIN_CALL_BYTES, "{used:?} of {limit:?}");
                prop_assert!(bytes.is_multiple_of(PAGE));
                size = size.after(bytes, used);
                // What it costs now is at most twice what was just believed.
                page_ns = (page_ns * change).clamp(300.0, 200_000.0);
            }
        }
    }
}
