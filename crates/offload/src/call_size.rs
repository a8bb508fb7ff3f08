//! The size of one call of reclaim: small enough to end within a time.
//!
//! Reclaim runs in the kernel, in the thread that requests it, and on a busy CPU other threads wait
//! until the scheduler preempts it: with one CPU, one call for a whole step delayed the requests of
//! a service by a tick of the scheduler. A step is therefore split into calls with a rest between
//! them. The time per page depends on the compressor, the data, and the kernel's lists, so it is
//! learned from the CPU time of earlier calls. Time in which a call waits for a device, or is
//! preempted, delays no other thread.

use std::time::Duration;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// The lists from which a kernel reclaims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lists {
    /// Active and inactive lists.
    Classic,
    /// Generations.
    Mglru,
}

impl Lists {
    /// The kernel's batch, reclaimed at once even for a smaller request: `SWAP_CLUSTER_MAX`, and
    /// with MGLRU `MIN_LRU_BATCH` on 64-bit machines.
    pub fn batch_bytes(self) -> u64 {
        match self {
            Lists::Classic => 32 * PAGE,
            Lists::Mglru => 64 * PAGE,
        }
    }

    /// Bytes by which a request is smaller than whole batches. A batch seldom leaves whole, and
    /// with MGLRU each page that stays costs another batch: on 6.12 calls for 64 pages took half as
    /// long again as calls for 32.
    fn spare_bytes(self) -> u64 {
        match self {
            Lists::Classic => 0,
            Lists::Mglru => 32 * PAGE,
        }
    }
}

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
    lists: Lists,
    page_ns: f64,
    takes_batches: bool,
}

impl CallSize {
    /// Calls that use at most `limit` of CPU time, with nothing known yet.
    pub fn new(limit: Duration, lists: Lists) -> CallSize {
        CallSize { limit, lists, page_ns: FIRST_PAGE_NS, takes_batches: true }
    }

    /// The same knowledge for another limit.
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> CallSize {
        CallSize { limit, ..self }
    }

    /// Bytes of the next call.
    pub fn bytes(&self) -> u64 {
        let pages = self.limit.as_nanos() as f64 * PLANNED / self.page_ns;
        let batch = self.lists.batch_bytes();
        let bytes = (pages as u64).saturating_mul(PAGE).clamp(batch, MAX_CALL_BYTES);
        bytes / batch * batch - if self.takes_batches { self.lists.spare_bytes() } else { 0 }
    }

    /// What a call for `bytes` takes: whole batches, unless it was seen to take less.
    pub fn taken_bytes(&self, bytes: u64) -> u64 {
        match self.takes_batches {
            true => bytes.next_multiple_of(self.lists.batch_bytes()),
            false => bytes,
        }
    }

    /// After a request whose calls were to take `asked` bytes, by [`CallSize::taken_bytes`], and in
    /// which the kernel scanned and took as many bytes. With MGLRU 6.12 scans a whole batch for any
    /// call, and 6.18 as many pages as are asked for. Pages that stay are scanned, too, so a small
    /// number of scanned pages shows the latter. A few batches show nothing.
    #[must_use]
    pub fn after_request(self, asked: u64, scanned: u64, taken: u64) -> CallSize {
        if self.lists != Lists::Mglru || asked < 4 * self.lists.batch_bytes() {
            return self;
        }
        let takes_batches = match self.takes_batches {
            true => scanned >= asked / 4 * 3,
            // Generations that are gone when a call comes are not scanned, which looks the same.
            false => taken >= asked / 4 * 7,
        };
        CallSize { takes_batches, ..self }
    }

    /// After a call for `bytes` that used `used` of CPU time. A call for nothing says nothing.
    #[must_use]
    pub fn after(self, bytes: u64, used: Duration) -> CallSize {
        if bytes == 0 {
            return self;
        }
        let pages = self.taken_bytes(bytes) as f64 / PAGE as f64;
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
        CallSize::new(limit, Lists::Classic)
    }

    #[test]
    fn a_call_takes_half_of_its_time_once_a_page_is_known() {
        let mut size = new(MS);
        assert_eq!(size.bytes(), 32 * PAGE, "16 pages of 30 us are less than a batch");
        for _ in 0..100 {
            size =
                size.after(size.bytes(), Duration::from_micros(5) * (size.bytes() / PAGE) as u32);
        }
        assert_eq!(size.bytes() / PAGE, 96, "99 pages of 5 us, in whole batches");
        // One slow call is believed at once.
        size = size.after(128 * PAGE, Duration::from_micros(1_280));
        assert_eq!(size.bytes() / PAGE, 32);
        assert_eq!(size.with_limit(MS * 10).bytes() / PAGE, 480);
    }

    /// With calls for 32 pages, of which the kernel takes 64 or 32.
    #[test]
    fn what_a_call_takes_is_learned() {
        let old = CallSize::new(MS, Lists::Mglru);
        let asked = old.taken_bytes(old.bytes()) * 18;
        assert_eq!((old.bytes(), asked), (32 * PAGE, 18 * 64 * PAGE));
        // Some pages stay, and are scanned all the same.
        assert_eq!(old.after_request(asked, asked, asked / 4), old);
        let new = old.after_request(asked, asked / 2, asked / 2);
        assert_eq!((new.bytes(), new.taken_bytes(new.bytes())), (64 * PAGE, 64 * PAGE));
        assert_eq!(new.taken_bytes(5 * PAGE), 5 * PAGE);
        assert_eq!(new.after_request(asked, 3 * asked, asked), new);
        assert_eq!(new.after_request(asked, 2 * asked, 2 * asked), old, "it was an error");
        assert_eq!(old.after_request(3 * 64 * PAGE, 0, 0), old, "too little");
        let classic = CallSize::new(MS, Lists::Classic);
        assert_eq!(classic.after_request(asked, asked / 2, asked / 2), classic);
    }

    #[test]
    fn sizes_have_bounds() {
        for lists in [Lists::Classic, Lists::Mglru] {
            let slow = CallSize::new(MS, lists).after(PAGE, Duration::from_secs(1));
            assert_eq!(slow.bytes(), 32 * PAGE);
            assert_eq!(slow.taken_bytes(slow.bytes()), lists.batch_bytes());
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
            lists in prop::sample::select(vec![Lists::Classic, Lists::Mglru]),
        ) {
            let limit = Duration::from_micros(limit_us);
            let (mut size, mut page_ns) = (CallSize::new(limit, lists), first_ns);
            for change in changes {
                let bytes = size.bytes();
                let taken = size.taken_bytes(bytes);
                let pages = (taken / PAGE) as f64;
                let used = Duration::from_nanos((page_ns * pages) as u64);
                let batch = lists.batch_bytes();
                prop_assert!(used <= limit || taken == batch, "{used:?} of {limit:?}");
                prop_assert!(taken.is_multiple_of(batch) && taken - bytes < batch);
                size = size.after(bytes, used);
                // The actual cost is at most twice the estimated one.
                page_ns = (page_ns * change).clamp(300.0, 200_000.0);
            }
        }
    }
}
