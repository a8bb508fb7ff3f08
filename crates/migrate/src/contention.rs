//! Waiting for a resource that others use as well.
//!
//! Cores are simulated one after the other for a window of time each, so a request cannot see the
//! requests of the same window that are simulated after it. A [`Queue`] therefore derives each
//! request's wait from earlier windows: the mean wait of random arrivals at a server of constant
//! service time (M/D/1, Pollaczek and Khinchine), and a backlog that grows while demand exceeds
//! capacity and shrinks otherwise. Demand beyond capacity thus lengthens the wait until demand
//! falls to capacity.

/// Divisor of the excess of a window that goes into the backlog. A window is some ten times as long
/// as a request takes; with all of the excess, the wait would swing between none and far too much
/// instead of settling.
const DAMPING: u64 = 8;

/// A server of constant service time.
#[derive(Clone, Debug)]
pub struct Queue {
    service_ps: u64,
    used_ps: u64,
    backlog_ps: u64,
    wait_ps: u64,
}

/// Share of a window, in percent, at which the random part of the wait stops growing.
const MAX_RANDOM_LOAD: u64 = 95;

impl Queue {
    /// An idle server that takes `service_ps` a request.
    pub fn new(service_ps: u64) -> Queue {
        Queue { service_ps, used_ps: 0, backlog_ps: 0, wait_ps: 0 }
    }

    /// One request. Returns its wait in picoseconds, the service not included.
    #[inline]
    pub fn take(&mut self) -> u64 {
        self.used_ps += self.service_ps;
        self.wait_ps
    }

    /// Ends a window of `window_ps`.
    pub fn turn(&mut self, window_ps: u64) {
        let offered = self.backlog_ps + self.used_ps / DAMPING;
        self.backlog_ps = offered.saturating_sub(window_ps / DAMPING);
        let busy = self.used_ps.min(window_ps * MAX_RANDOM_LOAD / 100);
        let random = self.service_ps * busy / (2 * (window_ps - busy).max(1));
        self.wait_ps = self.backlog_ps + random;
        self.used_ps = 0;
    }

    /// The wait of a request now, in picoseconds.
    pub fn wait_ps(&self) -> u64 {
        self.wait_ps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_of_the_formula() {
        let mut queue = Queue::new(100);
        assert_eq!(queue.take(), 0);
        queue.turn(1000);
        // One of ten: 100 * 0.1 / (2 * 0.9) = 5.6.
        assert_eq!(queue.take(), 5);
        for _ in 0..4 {
            queue.take();
        }
        queue.turn(1000);
        // Half: 100 * 0.5 / (2 * 0.5).
        assert_eq!(queue.wait_ps(), 50);
    }

    #[test]
    fn demand_beyond_capacity_piles_up_and_drains() {
        let mut queue = Queue::new(100);
        for _ in 0..25 {
            queue.take();
        }
        queue.turn(1000);
        let random = 100 * 95 / (2 * 5);
        // 1500 too much, an eighth of it; then 1000 too little, twice.
        assert_eq!(queue.wait_ps(), 187 + random);
        queue.turn(1000);
        assert_eq!(queue.wait_ps(), 62);
        queue.turn(1000);
        assert_eq!(queue.wait_ps(), 0);
    }
}
