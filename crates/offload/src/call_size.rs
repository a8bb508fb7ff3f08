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

/// What kernels reclaim at once from the classic lists, even if they are asked for less
/// (`SWAP_CLUSTER_MAX`).
pub const CLASSIC_BATCH_BYTES: u64 = 32 * PAGE;

/// The same with MGLRU (`MIN_LRU_BATCH` on 64-bit machines): calls for 32 pages took 64 each on 6.12.
pub const MGLRU_BATCH_BYTES: u64 = 64 * PAGE;

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
    batch_bytes: u64,
    page_ns: f64,
}

impl CallSize {
    /// Calls that use at most `limit` of CPU time, with nothing known yet, on a kernel that
    /// reclaims in batches of a size.
    pub fn new(limit: Duration, batch_bytes: u64) -> CallSize {
        CallSize { limit, batch_bytes, page_ns: FIRST_PAGE_NS }
    }

    /// The same knowledge for another limit.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> CallSize {
        CallSize { limit, ..self }
    }

    /// Bytes of the next call, in whole batches.
    pub fn bytes(&self) -> u64 {
        let pages = self.limit.as_nanos() as f64 * PLANNED / self.page_ns;
        let bytes = (pages as u64).saturating_mul(PAGE).clamp(self.batch_bytes, MAX_CALL_BYTES);
        bytes / self.batch_bytes * self.batch_bytes
    }

    /// After a call for `bytes` that used `used` of CPU time. A call for nothing says nothing.
    #[must_use]
    pub fn after(self, bytes: u64, used: Duration) -> CallSize {
        if bytes == 0 {
            return self;
        }
        // A call for less than a batch works on a batch.
        let pages = bytes.max(self.batch_bytes) as f64 / PAGE as f64;
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

    fn new(limit: Duration) -> CallSize {
        CallSize::new(limit, CLASSIC_BATCH_BYTES)
    }

    #[test]
    fn a_call_takes_half_of_its_time_once_a_page_is_known() {
        let mut size = new(MS);
        assert_eq!(size.bytes(), CLASSIC_BATCH_BYTES, "16 pages of 30 us are less than a batch");
        for _ in 0..100 {
            size =
                size.after(size.bytes(), Duration::from_micros(5) * (size.bytes() / PAGE) as u32);
        }
        assert_eq!(size.bytes() / PAGE, 96, "99 pages of 5 us, in whole batches");
        // One slow call is believed at once.
        size = size.after(100 * PAGE, Duration::from_micros(1_000));
        assert_eq!(size.bytes() / PAGE, 32);
        assert_eq!(size.with_limit(MS * 10).bytes() / PAGE, 480);
    }

    #[test]
    fn sizes_have_bounds() {
        for batch in [CLASSIC_BATCH_BYTES, MGLRU_BATCH_BYTES] {
            let slow = CallSize::new(MS, batch).after(PAGE, Duration::from_secs(1));
            assert_eq!(slow.bytes(), batch);
            assert_eq!(slow.after(0, Duration::from_secs(9)), slow);
        }
        assert_eq!(new(Duration::from_secs(60)).bytes(), MAX_CALL_BYTES);
        let free = (0..200).fold(new(MS), |size, _| size.after(PAGE, Duration::ZERO));
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
            batch in prop::sample::select(vec![CLASSIC_BATCH_BYTES, MGLRU_BATCH_BYTES]),
        ) {
            let limit = Duration::from_micros(limit_us);
            let (mut size, mut page_ns) = (CallSize::new(limit, batch), first_ns);
            for change in changes {
                let bytes = size.bytes();
                let pages = (bytes / PAGE) as f64;
                let used = Duration::from_nanos((page_ns * pages) as u64);
                prop_assert!(used <= limit || bytes == batch, "{used:?} of {limit:?}");
                prop_assert!(bytes.is_multiple_of(batch));
                size = size.after(bytes, used);
                // What it costs now is at most twice what was just believed.
                page_ns = (page_ns * change).clamp(300.0, 200_000.0);
            }
        }
    }
}
