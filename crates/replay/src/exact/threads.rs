//! On whose account memory is freed: by the program, by reclaim or by compaction.
//!
//! Events do not say so, but what the thread did before them does. kswapd only reclaims. A thread
//! that begins to reclaim for a request, or to compact, does so until its next allocation succeeds;
//! what it did last of the two is what it frees for. An interrupt that frees meanwhile is taken for
//! its thread.

use std::collections::{HashMap, HashSet};

use prairie_trace::{Event, EventKind};

/// On whose account something happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// The owner of the memory.
    #[default]
    Program,
    /// kswapd.
    Kswapd,
    /// A request that reclaims for itself.
    DirectReclaim,
    /// kcompactd, a request that compacts for itself, or a write to `compact_memory`.
    Compaction,
}

/// The activity of each thread.
#[derive(Debug, Default)]
pub struct Threads {
    kswapd: HashSet<i32>,
    /// Threads inside a request's reclaim or compaction, or a daemon's.
    busy: HashMap<i32, By>,
    /// Threads that ever allocated: kcompactd is none of them.
    allocates: HashSet<i32>,
    /// Where the compaction of a thread last ended.
    ended: HashMap<i32, u64>,
}

impl Threads {
    /// On whose account an event happens.
    pub fn event(&mut self, event: &Event) -> By {
        if let EventKind::Alloc { .. } = event.what {
            self.allocates.insert(event.pid);
            self.busy.remove(&event.pid);
            self.ended.remove(&event.pid);
        }
        if self.kswapd.contains(&event.pid) {
            return By::Kswapd;
        }
        self.busy.get(&event.pid).copied().unwrap_or_default()
    }

    /// Learns from an event that is not the page allocator's. Returns whether it ends a compaction
    /// of all memory that was requested: of a thread that allocates, zone after zone from the
    /// lowest on, where a request would begin with the highest.
    pub fn marker(&mut self, thread: i32, text: &str) -> bool {
        let Some((name, fields)) = text.split_once(':') else { return false };
        match name {
            "mm_vmscan_kswapd_wake" => {
                self.kswapd.insert(thread);
            }
            "mm_vmscan_direct_reclaim_begin" => {
                self.busy.insert(thread, By::DirectReclaim);
            }
            "prairie_isolate" | "mm_compaction_isolate_freepages" => {
                self.busy.insert(thread, By::Compaction);
            }
            "mm_compaction_end" => {
                self.busy.remove(&thread);
                let Some(start) = zone_start(fields) else { return false };
                let before = self.ended.insert(thread, start);
                return self.allocates.contains(&thread) && before.is_some_and(|b| b < start);
            }
            _ => {}
        }
        false
    }
}

fn zone_start(fields: &str) -> Option<u64> {
    let hex = fields.split_once("zone_start=0x")?.1;
    u64::from_str_radix(hex.split_ascii_whitespace().next()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_frames::{Order, Pfn};

    fn free(pid: i32) -> Event {
        Event { time_ns: 0, pid, cpu: 0, what: EventKind::Free { pfn: Pfn(1), order: Order::BASE } }
    }

    fn alloc(pid: i32) -> Event {
        let (migrate_type, gfp) =
            (prairie_frames::MigrateType::Movable, prairie_trace::GfpFlags(0));
        let what = EventKind::Alloc {
            pfn: Pfn(1),
            order: Order::BASE,
            migrate_type,
            gfp,
            stack: prairie_trace::StackId::NONE,
        };
        Event { time_ns: 0, pid, cpu: 0, what }
    }

    #[test]
    fn a_request_reclaims_until_it_is_served() {
        let mut threads = Threads::default();
        assert_eq!(threads.event(&free(7)), By::Program);
        threads.marker(7, "mm_vmscan_direct_reclaim_begin: order=0");
        assert_eq!(
            (threads.event(&free(7)), threads.event(&free(8))),
            (By::DirectReclaim, By::Program)
        );
        threads.marker(7, "mm_compaction_isolate_freepages: range=(0 ~ 1)");
        assert_eq!(threads.event(&free(7)), By::Compaction);
        assert_eq!(threads.event(&alloc(7)), By::Program);
        assert_eq!(threads.event(&free(7)), By::Program);
    }

    #[test]
    fn kswapd_always_reclaims() {
        let mut threads = Threads::default();
        threads.marker(4, "mm_vmscan_kswapd_wake: nid=0 order=0");
        assert_eq!((threads.event(&alloc(4)), threads.event(&free(4))), (By::Kswapd, By::Kswapd));
    }

    #[test]
    fn all_memory_is_compacted_from_the_lowest_zone_on() {
        let low = "mm_compaction_end: zone_start=0x1 migrate_pfn=0x1 free_pfn=0xe00";
        let high = "mm_compaction_end: zone_start=0x1000 migrate_pfn=0x5a00";
        let mut threads = Threads::default();
        // kcompactd, which never allocates, goes the same way.
        assert!(!threads.marker(3, low) && !threads.marker(3, high));
        threads.event(&alloc(5));
        assert!(!threads.marker(5, low) && threads.marker(5, high));
        threads.event(&alloc(6));
        assert!(!threads.marker(6, high) && !threads.marker(6, low), "a request");
        assert!(!threads.marker(5, "mm_compaction_end: nonsense"));
    }
}
