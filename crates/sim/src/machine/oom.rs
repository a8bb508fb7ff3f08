//! Out of memory: an outcome, not a crash (`out_of_memory`, `select_bad_process`).

use prairie_frames::Order;
use serde::Serialize;

use super::Machine;

/// A process that the OOM killer chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OomKill {
    /// Simulated nanoseconds since boot.
    pub time_ns: u64,
    /// Its kind.
    pub process: String,
    /// Its resident frames.
    pub resident_frames: u64,
    /// The order of the request that found nothing.
    pub order: u8,
}

impl Machine {
    /// Kills the process with most memory, and takes that from it at once; false if there is none
    /// to kill, or it was the one that asks.
    pub(super) fn kill_someone(&mut self, order: Order) -> bool {
        let alive = self.processes.iter().enumerate().filter(|(_, process)| process.alive);
        // Of equals the first, so that runs repeat.
        let Some((number, _)) =
            alive.max_by_key(|(number, process)| (process.resident, std::cmp::Reverse(*number)))
        else {
            return false;
        };
        let process = &self.processes[number];
        let kind = process.kind as usize;
        self.killed.push(OomKill {
            time_ns: self.clock.now_ns(),
            process: self.scenario.processes[kind].name.clone(),
            resident_frames: process.resident,
            order: order.get(),
        });
        self.counters.oom_kill += 1;
        self.population[kind].running = self.population[kind].running.saturating_sub(1);
        self.end_process(number as u32);
        if self.slice.process == Some(number as u32) {
            // Its own slice handles the rest, and gets no more memory.
            return false;
        }
        self.replace(kind);
        true
    }
}
