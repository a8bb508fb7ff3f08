//! Programs: their number, sizes, and lifetimes.

use prairie_frames::Order;
use prairie_frames::placement::Placement;
use prairie_frames::table::Owner;

use super::{Pages, STEP, Server};

/// Frames of the smallest program.
const MIN_PAGES: u64 = 512;

/// A program.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// Frames that it will have.
    pub(super) size: u64,
    /// Frames that it still wants.
    pub(super) wanted: u64,
    /// Frames that it takes in a step.
    pub(super) pace: u64,
    pub(super) ends: f64,
    pub(super) pages: Vec<Pages>,
    pub(super) huge_pages: Vec<Owner>,
    pub(super) page_tables: Vec<Owner>,
}

impl<P: Placement> Server<'_, P> {
    /// Ends programs whose lifetime is over; each frees its memory on one CPU.
    pub(super) fn end_jobs(&mut self, now: f64) {
        let jobs = std::mem::take(&mut self.jobs);
        let (ended, left): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| job.ends <= now);
        self.jobs = left;
        for job in ended {
            self.change_cpu();
            self.give_back(&job.pages);
            for (owners, order) in [(job.huge_pages, Order::HUGE), (job.page_tables, Order::BASE)] {
                owners.into_iter().for_each(|owner| self.release(owner, order));
            }
        }
    }

    /// Starts programs until they demand the memory that the load calls for. A program that fits at
    /// least by half is shrunk to fit: schedulers assign machines only work that they have memory
    /// for.
    pub(super) fn start_jobs(&mut self, now: f64) {
        let wanted = (self.workload.jobs.share * self.load(now) * self.frames as f64) as u64;
        let mut have: u64 = self.jobs.iter().map(|job| job.size).sum();
        loop {
            let jobs = &self.workload.jobs;
            let frames = (jobs.size.sample(&mut self.random) / 4096.0) as u64;
            // No program is larger than what all of them are to have.
            let frames = frames.clamp(MIN_PAGES, wanted / 2 + MIN_PAGES);
            if have + frames / 2 > wanted {
                return;
            }
            let frames = frames.min(wanted - have);
            have += frames;
            let growth = (jobs.growth.sample(&mut self.random) / 1e9).max(STEP);
            self.jobs.push(Job {
                size: frames,
                wanted: frames,
                pace: ((frames as f64 * STEP / growth) as u64).max(MIN_PAGES),
                ends: now + jobs.lifetime.sample(&mut self.random) / 1e9,
                pages: Vec::new(),
                huge_pages: Vec::new(),
                page_tables: Vec::new(),
            });
        }
    }
}
