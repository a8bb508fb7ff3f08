//! The time of a thread that makes calls which the kernel may keep for long.

use std::thread;
use std::time::Duration;

use prairie_daemon::monotonic;
use rustix::time::{ClockId, clock_gettime};

/// A thread's time, so that a test can let it pass as it likes.
pub trait Clock {
    /// Monotonic time.
    fn now(&self) -> Duration;
    /// CPU time that this thread has used.
    fn used(&self) -> Duration;
    /// Leaves the CPU to others for that time.
    fn rest(&self, time: Duration);
}

/// The system's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadClock;

impl Clock for ThreadClock {
    fn now(&self) -> Duration {
        monotonic()
    }

    fn used(&self) -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    fn rest(&self, time: Duration) {
        thread::sleep(time);
    }
}
