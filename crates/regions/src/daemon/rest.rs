//! Polls at rest, and bursts between polls: a glance at free memory instead of a sample.

use std::time::Duration;

use super::Daemon;

/// Between polls, free memory of the kernel zones is read this often (*chosen*): at 400 MiB/s, 100
/// MiB are gone between two glances.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(250);

impl Daemon {
    /// Whether nothing is to be done, and a glance shows that nothing has changed.
    pub(super) fn rests(&mut self, now: Duration) -> bool {
        self.changed = true;
        if !self.rest.is_resting() {
            return false;
        }
        let block_frames = self.host.block_frames;
        let still = self.host.glance().is_some_and(|seen| self.rest.is_still(&seen, block_frames));
        if still {
            self.policy.still(now);
        }
        self.changed = !still;
        still && self.rest.is_recent(now, self.config.daemon.rest_poll)
    }

    /// From here on a glance suffices, if there is nothing to do.
    pub(super) fn begin_rest(&mut self, now: Duration) {
        let known = self.listed.is_some() && !self.is_list_due(now);
        let idle = !self.is_busy() && known && self.policy.rests(now);
        match self.host.glance() {
            Some(seen) => self.rest.begin(seen, now, idle),
            None => self.rest.end(),
        }
    }

    /// Between polls: whether kernel memory is used up so fast that the poll would be too late.
    pub(super) fn is_burst(&mut self, now: Duration) -> bool {
        if now < self.looked + LOOK_EVERY && now >= self.looked {
            return false;
        }
        self.looked = now;
        let block_frames = self.host.block_frames;
        self.host.free().is_some_and(|free| self.rest.is_burst(&free, block_frames))
    }
}
