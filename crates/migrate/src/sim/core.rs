//! The state of one core.

use prairie_hostmem::prefetch;

use super::Plan;
use crate::address::Access;
use crate::geometry::Geometry;
use crate::machine::{BATCH, Batch, Machine};
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
    /// The next accesses, if they are translated already.
    batch: Batch,
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
            batch: Batch::default(),
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
    pub fn received<G: Geometry>(&mut self, machine: &mut Machine<G>) {
        for (address, lines) in std::mem::take(&mut self.request.received) {
            machine.device(address, lines, true);
        }
    }

    /// Whether it continues a request before `end_ps` that is likely to miss.
    pub fn is_to_miss(&self, end_ps: u64) -> bool {
        self.missed && self.is_serving && self.clock_ps < end_ps
    }

    /// Prefetches the data that the translation of its next batch reads, a turn before
    /// [`Core::look_ahead`].
    pub fn look_far_ahead<G: Geometry>(&self, machine: &Machine<G>, number: usize) {
        machine.prefetch_translations(number, batch(&self.request, self.next));
    }

    /// Translates its next batch and prefetches the data that it reads, while another core has its
    /// turn; [`Core::look_further`] when that turn is over. Only in the window in which the batch
    /// is served: pages begin to move between windows.
    pub fn look_ahead<G: Geometry>(&mut self, machine: &mut Machine<G>, number: usize) {
        if self.batch.is_empty() && !machine.is_blocking() {
            self.translate(machine, number);
            machine.prefetch(number, &mut self.batch);
        }
    }

    fn translate<G: Geometry>(&mut self, machine: &mut Machine<G>, number: usize) {
        let accesses = batch(&self.request, self.next);
        machine.translate(number, accesses, self.clock_ps, &mut self.batch);
    }

    /// The second step of that.
    pub fn look_further<G: Geometry>(&self, machine: &Machine<G>, number: usize) {
        machine.prefetch_victims(number, &self.batch);
    }

    /// Goes on with the request at hand until `end_ps`, by whole batches.
    pub fn serve<G: Geometry>(
        &mut self,
        machine: &mut Machine<G>,
        number: usize,
        per_instruction: u64,
        end_ps: u64,
    ) {
        while self.clock_ps < end_ps && self.next < self.request.accesses.len() {
            let requests = machine.hierarchy.counts.llc_requests;
            match machine.is_blocking() {
                true => self.serve_one_by_one(machine, number, per_instruction),
                false => self.serve_batch(machine, number, per_instruction),
            }
            self.missed = machine.hierarchy.counts.llc_requests != requests;
            self.next = (self.next + BATCH).min(self.request.accesses.len());
        }
        // Other cores' turns come before the next of this one, and use the host's cache.
        for at in [self.next, self.next + BATCH / 2] {
            prefetch(&self.request.accesses, at);
        }
    }

    fn serve_batch<G: Geometry>(
        &mut self,
        machine: &mut Machine<G>,
        number: usize,
        per_instruction: u64,
    ) {
        if self.batch.is_empty() {
            self.translate(machine, number);
            if self.missed {
                machine.prefetch(number, &mut self.batch);
                machine.prefetch_victims(number, &self.batch);
            }
        }
        self.clock_ps += self.batch.instructions() * per_instruction;
        self.clock_ps += machine.serve(number, &self.batch);
        self.batch.clear();
    }

    /// While software keeps cores from pages, it counts when each access comes.
    fn serve_one_by_one<G: Geometry>(
        &mut self,
        machine: &mut Machine<G>,
        number: usize,
        per_instruction: u64,
    ) {
        for access in batch(&self.request, self.next) {
            self.clock_ps += access.instructions() * per_instruction;
            self.clock_ps += machine.access(number, *access, self.clock_ps);
        }
    }

    pub fn finish_if_done<G: Geometry>(&mut self, machine: &mut Machine<G>, plan: &Plan) {
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

/// The accesses of a request that are served together from number `next` on.
fn batch(request: &Request, next: usize) -> &[Access] {
    let rest = &request.accesses[next..];
    &rest[..rest.len().min(BATCH)]
}
