//! Polls at rest: a glance at free memory instead of a sample.

use std::time::Duration;

use super::Daemon;

impl Daemon {
    /// Whether nothing is to be done, and a glance shows that nothing has changed.
    pub(super) fn rests(&mut self, now: Duration) -> bool {
        if !self.rest.may_glance(now, self.config.daemon.rest_poll) {
            return false;
        }
        let block_frames = self.host.block_frames;
        let still = self.host.glance().is_some_and(|seen| self.rest.is_still(&seen, block_frames));
        if still {
            self.policy.still(now);
        }
        still
    }

    /// From here on a glance suffices, if there is nothing to do.
    pub(super) fn begin_rest(&mut self, now: Duration) {
        self.rest.end();
        let known = self.listed.is_some() && !self.is_list_due(now);
        let idle = !self.is_busy() && known && self.policy.rests(now);
        if idle && let Some(seen) = self.host.glance() {
            self.rest.begin(seen, now);
        }
    }
}
