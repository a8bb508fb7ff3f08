//! What runs when: populations of processes, and the phases that set them.

use super::Machine;
use super::clock::{Actor, Next};
use super::scenario::Phase;

/// A process that could not start tries again after this time.
const RETRY_NS: u64 = 100_000_000;

impl Machine {
    /// Begins a phase: sets who runs, deletes what it says.
    pub fn begin(&mut self, phase: &Phase) {
        for at in 0..self.population.len() {
            let name = &self.scenario.processes[at].name;
            let wanted = phase.run.get(name).copied().unwrap_or(0);
            self.set_population(at, wanted);
        }
        for (at, stream) in self.kernel_objects.iter_mut().enumerate() {
            let name = &self.scenario.kernel[at].name;
            stream.open = phase.kernel.as_ref().is_none_or(|names| names.contains(name));
        }
        self.prepare_memory(phase);
    }

    /// Deletes what a phase says, then resizes pools of huge pages.
    fn prepare_memory(&mut self, phase: &Phase) {
        if !phase.delete.is_empty() {
            for file in std::mem::take(&mut self.files.written) {
                self.delete_written(file);
            }
            for name in &phase.delete {
                if let Some(set) = self.scenario.files.iter().position(|set| set.name == *name) {
                    self.delete_set(set);
                }
            }
        }
        // A range with huge pages of a pool in it cannot be emptied.
        if let Some(pages) = phase.gigantic {
            self.resize_gigantic_pool(&phase.name, pages);
        }
        if let Some(pages) = phase.hugetlb {
            self.resize_pool(&phase.name, pages);
        }
    }

    /// Sets the number of processes of a kind from now on. Excess ones are killed.
    pub fn set_population(&mut self, kind: usize, wanted: u32) {
        self.population[kind].wanted = wanted;
        while self.population[kind].running > wanted {
            let victim = self
                .processes
                .iter()
                .position(|process| process.alive && process.kind as usize == kind)
                .expect("those that run are alive");
            self.population[kind].running -= 1;
            self.end_process(victim as u32);
        }
        let missing = wanted - self.population[kind].running;
        for _ in 0..missing {
            self.start_or_retry(kind);
        }
    }

    /// Replaces a process that ended if the wanted number is not reached.
    pub(super) fn replace(&mut self, kind: usize) {
        if self.population[kind].running < self.population[kind].wanted {
            self.start_or_retry(kind);
        }
    }

    fn start_or_retry(&mut self, kind: usize) {
        // Not from within the slice of another: that one may be in the middle of an allocation.
        let at = self.clock.now_ns() + if self.slice.reclaims { RETRY_NS } else { 0 };
        self.clock.wake(at, Actor::Arrivals(kind as u32));
    }

    /// A process of a kind is due.
    pub(super) fn arrive(&mut self, kind: u32) -> Next {
        let at = kind as usize;
        if self.population[at].running < self.population[at].wanted && !self.start_process(at) {
            return Next::SleepUntil(self.clock.now_ns() + RETRY_NS);
        }
        Next::Wait
    }
}
