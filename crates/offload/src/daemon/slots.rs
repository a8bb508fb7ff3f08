//! Swap slots and compressed copies of pages that are back in memory: makes the kernel free them in
//! time.
//!
//! Kernels from 6.9 on drop the copy when the page is read back, so there is nothing to do. Kernels
//! before 6.9 keep a page's slot in swap, and its compressed copy, until the page is written.
//! Memory that turns from cold to hot then costs half as much again. Those kernels free a slot at
//! swap-in once swap is half full (`mem_cgroup_swap_full`), and a limit on swap a little above its
//! use triggers this. The limit leaves room for emergencies, is leased, and stands only while pages
//! refault.
//!
//! Pages that refault *before* the limit is set keep their copy for good, so the limit has to be
//! quick. The daemon waits for the [alarm] of major faults while anything is offloaded, and samples
//! the containers when it fires. Without an alarm, it samples one counter of the host four times a
//! second: pages in RAM that have a slot.
//!
//! [alarm]: crate::world::fault_alarm

use std::sync::Mutex;
use std::time::Duration;

use prairie_host::cgroup::MemoryStat;

use super::Daemon;
use super::container::Container;
use crate::signal::returned::returned_anon;
use crate::world::cgroup::CgroupError;
use crate::world::lease::Leases;
use prairie_daemon::file::Buffer;

/// Polling interval while a limit follows the use, or without an alarm.
const EVERY: Duration = Duration::from_millis(250);

/// Pause after an alarm without refaults here, such as faults of other cgroups. It doubles with
/// each further one.
const PAUSE: Duration = Duration::from_millis(30);

/// The longest pause. An alarm after a longer silence starts a new series.
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Less offloaded than this is not worth a watch.
const WATCHED_BYTES: u64 = 1 << 20;

/// Growth of the host's figure from which on the containers are sampled. The kernel keeps such
/// figures by CPU and adds up what is more than some hundred pages.
const GROWTH_BYTES: u64 = 64 * 4096;

/// Least bytes in RAM with slots at which slots are freed.
const KEPT_BYTES: u64 = 1 << 16;

/// Refaulted pages since the last period at which slots are freed.
const REFAULTING_PAGES: u64 = 16;

/// Bytes in RAM with slots at which slots are freed even if refaults are slower than that.
const MAX_KEPT_BYTES: u64 = 8 << 20;

/// Room above what is used that a limit on swap leaves: a quarter of it, and so much. Slots are
/// freed while more than five eighths of what was used then is used.
const SLACK_BYTES: u64 = 1 << 16;

/// No limit is lower: a container whose swap is empty again would be killed at its next need of
/// it. Below half of this no slots are freed: the copies that they keep are the least that a phase
/// change costs (*chosen*; with 16 MiB it cost 4 MiB of 112 in `vm/tests/offload.sh`).
const MIN_LIMIT_BYTES: u64 = 2 << 20;

const FILE: &str = "memory.swap.max";

/// State between two periods.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    /// Nothing is sampled before.
    next: Duration,
    /// The pause after the last alarm for nothing.
    pause: Duration,
    alarm: Alarm,
    /// The host's figure at the last poll, without an alarm.
    swap_cached_bytes: Option<u64>,
}

/// Where the alarm stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Alarm {
    #[default]
    Off,
    /// To be listened to from the next sleep on.
    Wanted,
    Listened,
    Rang,
}

impl Watch {
    /// Whether the alarm has to be listened to from now on.
    pub(super) fn listen(&mut self) -> bool {
        let wanted = self.alarm == Alarm::Wanted;
        if wanted {
            self.alarm = Alarm::Listened;
        }
        wanted
    }

    /// After a look that found something, or nothing.
    fn rest(&mut self, now: Duration, found: bool) {
        let in_a_row = now <= self.next + MAX_PAUSE && !found;
        self.pause = if in_a_row { (self.pause * 2).clamp(PAUSE, MAX_PAUSE) } else { PAUSE };
        self.next = now + if found { EVERY } else { self.pause };
        self.alarm = Alarm::Off;
    }
}

impl Daemon {
    /// There were major faults.
    pub fn faults(&mut self) {
        if let Some(alarm) = &mut self.setting.alarm {
            alarm.heard();
            self.watch.alarm = Alarm::Rang;
        }
    }

    /// Samples the containers where pages may refault. Returns the time of the next sample, if it
    /// does not wait for an alarm.
    pub(super) fn watch_slots(&mut self, now: Duration) -> Option<Duration> {
        let offloaded = |container: &Container| container.seen.swap_bytes >= WATCHED_BYTES;
        let is_needed = self.setting.host.copies_stay && !self.setting.dry_run;
        if !is_needed || !self.containers.iter().any(offloaded) {
            self.watch = Watch::default();
            return None;
        }
        // Also after a clock that went back.
        if now < self.watch.next && self.watch.next <= now + MAX_PAUSE {
            return Some(self.watch.next);
        }
        let follows = self.containers.iter().any(|container| container.gives_up_slots);
        // Refaults in one container may be followed by others.
        let comes_back = match (&self.setting.alarm, self.watch.alarm) {
            (None, _) => self.swap_cached_grows()?,
            (Some(_), alarm) => follows || alarm == Alarm::Rang,
        };
        if self.setting.alarm.is_some() && !comes_back {
            if self.watch.alarm == Alarm::Off {
                self.watch.alarm = Alarm::Wanted;
            }
            return None;
        }
        for at in 0..self.containers.len() {
            let container = &mut self.containers[at];
            if !offloaded(container) || !(comes_back || container.gives_up_slots) {
                continue;
            }
            let said = container.glance(comes_back, &self.leases, &mut self.buffer);
            if let Some(text) = said {
                let path = container.cgroup.path.clone();
                self.report_cgroup(&path, text);
            }
        }
        let follows = self.containers.iter().any(|container| container.gives_up_slots);
        self.watch.rest(now, follows || self.setting.alarm.is_none());
        Some(self.watch.next)
    }

    /// Whether more pages of the host than before are in RAM and have a slot. Nothing where the
    /// kernel does not say.
    fn swap_cached_grows(&mut self) -> Option<bool> {
        let bytes = self.host_memory.swap_cached_bytes(&mut self.buffer).ok()?;
        let before = self.watch.swap_cached_bytes.unwrap_or(bytes);
        let grows = bytes > before.saturating_add(GROWTH_BYTES);
        // What shrinks is followed at once; what grows too slowly to be sampled adds up.
        self.watch.swap_cached_bytes = Some(if grows { bytes } else { before.min(bytes) });
        Some(grows)
    }
}

impl Container {
    /// Samples the container between two periods. Returns what there is to say.
    fn glance(
        &mut self,
        grows: bool,
        leases: &Mutex<Leases>,
        buffer: &mut Buffer,
    ) -> Option<String> {
        let mut glance = || -> Result<Option<u64>, CgroupError> {
            if self.gives_up_slots {
                return self.cgroup.swap_bytes(buffer);
            }
            // The cheap file first: a container with refaults grows, apart from what was reclaimed;
            // kernels reclaim up to twice as much as requested.
            let least = self.seen.current_bytes.saturating_sub(2 * self.asked_bytes);
            let grown = self.cgroup.current_bytes(buffer)?.saturating_sub(least);
            if !grows || grown < REFAULTING_PAGES * 4096 {
                return Ok(None);
            }
            let seen = &self.seen;
            let now = crate::Observation { stat: self.cgroup.stat(buffer)?, ..*seen };
            let returned = returned_anon(seen, &now);
            let is_due = returned >= REFAULTING_PAGES && kept_bytes(&now.stat) > KEPT_BYTES;
            if is_due { self.cgroup.swap_bytes(buffer) } else { Ok(None) }
        };
        // What cannot be read now is reported at the next period.
        let used = glance().ok().flatten()?;
        self.limit_swap(used, &mut lock(leases))
    }

    /// At the end of a period with this number of anonymous refaults: takes or lowers the limit,
    /// or gives it back. Returns what there is to say.
    pub fn free_slots(&mut self, returned_anon: u64, leases: &Mutex<Leases>) -> Option<String> {
        let kept = kept_bytes(&self.seen.stat);
        let much = returned_anon >= REFAULTING_PAGES && kept > KEPT_BYTES;
        if much || returned_anon > 0 && (kept > MAX_KEPT_BYTES || self.gives_up_slots) {
            return self.limit_swap(self.seen.swap_bytes, &mut lock(leases));
        }
        if !std::mem::take(&mut self.gives_up_slots) {
            return None;
        }
        let _ = lock(leases).restore(&self.cgroup.directory, FILE);
        self.cgroup.refresh();
        Some(format!("{FILE} restored"))
    }

    fn limit_swap(&mut self, used: u64, leases: &mut Leases) -> Option<String> {
        let held = leases.value(&self.cgroup.directory, FILE);
        let held = held.and_then(|value| value.parse::<u64>().ok());
        let limit = limit_above(used);
        if held.is_some_and(|held| limit >= held) {
            return None;
        }
        // Only ever lower, also than a limit that another program has set just now.
        self.cgroup.refresh();
        if limit >= self.cgroup.swap_max_bytes() {
            return None;
        }
        let directory = &self.cgroup.directory;
        match leases.take(directory, FILE, &limit.to_string()) {
            Ok(()) => {
                self.gives_up_slots = true;
                let newly = held.is_none();
                newly.then(|| format!("{FILE} = {limit} until no pages refault"))
            }
            Err(error) => Some(format!("{FILE} cannot be set to {limit}: {error}")),
        }
    }
}

/// Pages in RAM that have a copy in the pool, at most. Slots alone, of a swap device, cost no
/// memory, and spare it the writes when their pages go again.
fn kept_bytes(stat: &MemoryStat) -> u64 {
    stat.swapcached.min(stat.zswapped)
}

/// The limit that frees slots of `used` bytes in swap.
fn limit_above(used: u64) -> u64 {
    let limit = used.saturating_add(used / 4).saturating_add(SLACK_BYTES);
    (limit / 4096 * 4096).max(MIN_LIMIT_BYTES)
}

fn lock(leases: &Mutex<Leases>) -> std::sync::MutexGuard<'_, Leases> {
    leases.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_leaves_a_quarter_of_room_and_a_floor() {
        assert_eq!(limit_above(200 << 20), (250 << 20) + SLACK_BYTES);
        assert_eq!(limit_above(0), 2 << 20);
        assert!(limit_above(u64::MAX) >= u64::MAX / 4096 * 4096);
    }
}
