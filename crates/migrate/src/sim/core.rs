//! What one core is doing.

use hostmem::prefetch;

use super::Plan;
use crate::machine::{Ahead, LOOK_AHEAD, Machine};
use crate::random::Random;
use crate::workload::Request;

/// A core that serves one request after the other.
pub(super) struct Core {
    /// Its time.
    pub clock_ps: u64,
    /// The request at hand.
    pub request: Request,
    /// Requests served.
    pub served: u64,
    /// Latencies of the requests that count.
    pub latencies_ps: Vec<u64>,
    /// The device's queue of this core stands still until then.
    pub device_until_ps: u64,
    next: usize,
    is_serving: bool,
    finished_ps: u64,
    /// When the request at hand came.
    came_ps: u64,
    /// When the next request comes, if they come at random.
    arrival_ps: f64,
    arrivals: Random,
    interarrival_ps: Option<f64>,
    warm_at_ps: u64,
    /// Whether any access of the last batch went beyond the private caches.
    missed: bool,
    /// What the next batch misses, if that was looked at.
    ahead: Option<Ahead>,
}

impl Core {
    pub fn new(plan: &Plan, number: usize) -> Core {
        Core {
            clock_ps: 0,
            request: Request::default(),
            served: 0,
            latencies_ps: Vec::with_capacity(plan.requests as usize),
            device_until_ps: 0,
            next: 0,
            is_serving: false,
            finished_ps: 0,
            came_ps: 0,
            arrival_ps: 0.0,
            arrivals: Random::new(plan.seed ^ 0xA44, number as u64),
            interarrival_ps: plan.interarrival_ns.map(|ns| ns * 1000.0),
            warm_at_ps: 0,
            missed: false,
            ahead: None,
        }
    }

    pub fn is_done(&self, plan: &Plan) -> bool {
        self.served == plan.warm_up + plan.requests
    }

    pub fn is_warm(&self, plan: &Plan) -> bool {
        self.served >= plan.warm_up
    }

    pub fn is_between_requests(&self) -> bool {
        !self.is_serving
    }

    /// Takes up the next request if it comes before `end_ps`.
    pub fn next_request(&mut self, plan: &Plan, end_ps: u64) -> bool {
        if self.is_done(plan) {
            return false;
        }
        let mut ready_ps = self.clock_ps.max(self.device_until_ps);
        // One after the other, a request comes when the one before it is done.
        let mut came_ps = self.finished_ps;
        if self.interarrival_ps.is_some() {
            came_ps = self.arrival_ps as u64;
            ready_ps = ready_ps.max(came_ps);
        }
        if ready_ps >= end_ps {
            return false;
        }
        if let Some(mean_ps) = self.interarrival_ps {
            // Times between arrivals of a Poisson process.
            self.arrival_ps -= mean_ps * (1.0 - self.arrivals.share()).ln();
        }
        self.clock_ps = ready_ps;
        self.came_ps = came_ps;
        self.request.clear();
        self.next = 0;
        self.is_serving = true;
        true
    }

    /// The device has written what the request at hand brings. A core finds it done: while one
    /// request is served the next one is received.
    pub fn received(&mut self, machine: &mut Machine) {
        for (address, lines) in std::mem::take(&mut self.request.received) {
            machine.device(address, lines, true);
        }
    }

    /// Whether it goes on with a request before `end_ps`, and that is likely to miss.
    pub fn is_to_miss(&self, end_ps: u64) -> bool {
        self.missed && self.is_serving && self.clock_ps < end_ps
    }

    /// Has what its next batch looks at brought into the host's cache while another core has its
    /// turn; [`Core::look_further`] when that turn is over.
    pub fn look_ahead(&mut self, machine: &Machine, number: usize) {
        let batch = self.request.accesses[self.next..].chunks(LOOK_AHEAD).next();
        self.ahead = batch.map(|batch| machine.look_ahead(number, batch));
    }

    /// The second step of that.
    pub fn look_further(&self, machine: &Machine, number: usize) {
        if let Some(ahead) = &self.ahead {
            machine.look_further(number, ahead);
        }
    }

    /// Goes on with the request at hand until `end_ps`, by whole batches.
    pub fn serve(
        &mut self,
        machine: &mut Machine,
        number: usize,
        per_instruction: u64,
        end_ps: u64,
    ) {
        let mut clock_ps = self.clock_ps;
        for batch in self.request.accesses[self.next..].chunks(LOOK_AHEAD) {
            if clock_ps >= end_ps {
                break;
            }
            if self.ahead.take().is_none() && self.missed {
                machine.look_further(number, &machine.look_ahead(number, batch));
            }
            let requests = machine.hierarchy.counts.llc_requests;
            for access in batch {
                clock_ps += access.instructions() * per_instruction;
                clock_ps += machine.access(number, *access, clock_ps);
            }
            self.missed = machine.hierarchy.counts.llc_requests != requests;
            self.next += batch.len();
        }
        self.clock_ps = clock_ps;
        // Other cores' turns come before the next of this one, and use the host's cache.
        for at in [self.next, self.next + LOOK_AHEAD / 2] {
            prefetch(&self.request.accesses, at);
        }
    }

    pub fn finish_if_done(&mut self, machine: &mut Machine, plan: &Plan) {
        if self.next < self.request.accesses.len() {
            return;
        }
        for (address, lines) in std::mem::take(&mut self.request.sent) {
            machine.device(address, lines, false);
        }
        self.is_serving = false;
        self.finished_ps = self.clock_ps;
        if self.served >= plan.warm_up {
            self.latencies_ps.push(self.clock_ps - self.came_ps);
        }
        self.served += 1;
        if self.served == plan.warm_up {
            self.warm_at_ps = self.clock_ps;
        }
    }

    /// Time from the first to the last request that counts.
    pub fn span_ps(&self) -> u64 {
        self.finished_ps - self.warm_at_ps
    }
}
