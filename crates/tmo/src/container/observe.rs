//! An agent's view of a container: its files, as values.

use std::time::Duration;

use prairie_host::cgroup::MemoryStat;
use prairie_offload::signal::{io, memory};
use prairie_offload::{Counters, Idle, Observation, Room};

use super::Container;
use crate::backend::Backend;
use crate::kernel::Balance;
use prairie_sim::machine::lru::Kind;

impl Container {
    /// What `memory.stat` would say.
    pub fn stat(&self) -> MemoryStat {
        let c = &self.counters;
        let [anon, file] = self.resident_bytes();
        let list = |kind: Kind| match self.made.kernel.balance {
            Balance::Generations => self.bytes(self.generations.size_as(&self.lists, kind)),
            _ => self.bytes(self.lists.size(kind as u8)),
        };
        MemoryStat {
            anon,
            file,
            file_mapped: file,
            inactive_file: list(Kind::InactiveFile),
            active_file: list(Kind::ActiveFile),
            inactive_anon: list(Kind::InactiveAnon),
            active_anon: list(Kind::ActiveAnon),
            zswap: self.charged_bytes(),
            zswapped: self.bytes(self.pooled + self.copies[0]),
            swapcached: self.bytes(self.copies[0] + self.copies[1]),
            workingset_refault_anon: c.refaults[0],
            workingset_refault_file: c.refaults[1],
            pgscan: c.scanned,
            pgsteal: c.taken[0] + c.taken[1],
            pgmajfault: c.major_faults,
            zswpin: c.zswap[0],
            zswpout: c.zswap[1],
            ..MemoryStat::default()
        }
    }

    /// The agent's view.
    pub fn observe(&self) -> Observation {
        let c = &self.counters;
        let swap = match self.made.backend {
            Backend::None => 0,
            _ => self.made.swap_bytes,
        };
        Observation {
            at: Duration::from_secs_f64(self.now_s),
            current_bytes: self.current_bytes(),
            stat: self.stat(),
            counters: Counters::of([
                (memory::SOME, c.some_us[0] as u64),
                (io::SOME, c.some_us[1] as u64),
            ]),
            swap_bytes: self.swap_bytes(),
            room: Room {
                swap_bytes: swap,
                swap_free_bytes: swap.saturating_sub(self.swap_bytes()),
                ..Room::default()
            },
            idle: Idle::Unknown,
            ..Observation::default()
        }
    }
}
