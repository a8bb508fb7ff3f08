//! One operation at a time: begun on a thread of its own, recorded before and after.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::trouble::Topic;
use super::{Current, Daemon, SETUP_PAUSE};
use crate::choice::{Block, Place};
use crate::limits::{self, Pause};
use crate::operation::{self, Done, Outcome};
use crate::policy::{Finished, Reason};
use crate::reclaim::{self, Reclaim};

impl Daemon {
    /// Begins an operation: to convert a block, or to bring it back online.
    pub(super) fn begin(&mut self, number: u64, to: Option<Place>, reason: Reason, now: Duration) {
        let Ok(at) = self.blocks.binary_search_by_key(&number, |block| block.number) else {
            return;
        };
        let block = self.blocks[at];
        let home = self.record().state().blocks.get(&number).copied();
        let target = to.or(home).unwrap_or(Place::Kernel);
        if self.dry_run {
            return self.pretend(at, target, reason, now);
        }
        let recorded = self.record().busy(number, block.place);
        if let Err(error) = recorded {
            return self.pause(&format!("the record cannot be written: {error}"), now);
        }
        self.policy.began(number);
        self.current = Some(Current { node: block.node, reason, is_interrupted: false });
        let files = self.files.clone();
        let to_move = block.occupancy.map_or(self.host.block_frames, |found| found.to_move());
        let limit = limits::operation_time(self.config.limits.operation_time, to_move);
        let room = self.room(&block, to);
        self.timer.begin(limit, move || match to {
            Some(to) => {
                let started = Instant::now();
                if let Some((reclaim, frames)) = room {
                    reclaim.free(frames);
                }
                let done = operation::convert(&*files, number, to);
                Done { took: started.elapsed(), ..done }
            }
            None => operation::bring_back(&*files, number, target),
        });
    }

    /// What frees room for the contents of a block that leaves the movable zone, and how many frames.
    fn room(&self, block: &Block, to: Option<Place>) -> Option<(Arc<Reclaim>, u64)> {
        let node = self.last.nodes.iter().find(|node| node.node == block.node)?;
        let found = block.occupancy.filter(|_| to == Some(Place::Kernel))?;
        let frames = reclaim::needed(&found, &node.movable);
        self.reclaim().filter(|_| frames > 0).map(|reclaim| (reclaim.clone(), frames))
    }

    /// What a dry run does: nothing, but it goes on as if.
    fn pretend(&mut self, at: usize, to: Place, reason: Reason, now: Duration) {
        let block = self.blocks[at];
        let done = Done {
            block: block.number,
            to,
            outcome: Outcome::Done,
            took: Duration::ZERO,
            place: Some(to),
        };
        self.tell(&done, block, reason);
        self.policy.began(block.number);
        let finished = Finished { block: block.number, to, done: true, took: done.took };
        self.policy.finished(block.node, finished, now);
        // The zones stay as they are, so once is enough for a while.
        self.pause_until = now + Duration::from_secs(60);
    }

    /// Takes over what an operation that has ended came to.
    pub(super) fn finish_operation(&mut self, now: Duration) {
        let Some(current) = self.current else { return };
        let Some(done) = self.timer.poll() else { return };
        self.current = None;
        let recorded = self.record().idle(done.block, done.place);
        let is_recorded = recorded.is_ok();
        if let Err(error) = recorded {
            self.pause(&format!("the record cannot be written: {error}"), now);
        }
        let succeeded = done.outcome == Outcome::Done;
        match current.reason {
            Reason::Offline => self.policy.onlined(done.block, succeeded, now),
            _ if current.is_interrupted && done.outcome == Outcome::TimedOut => {
                self.policy.interrupted(done.block, now);
            }
            _ => {
                let Done { block, to, took, .. } = done;
                self.policy.finished(
                    current.node,
                    Finished { block, to, done: succeeded, took },
                    now,
                );
            }
        }
        if let Ok(at) = self.blocks.binary_search_by_key(&done.block, |block| block.number) {
            self.tell(&done, self.blocks[at], current.reason);
            if let Some(place) = done.place.filter(|place| *place != self.blocks[at].place) {
                self.host.came_online(&mut self.blocks[at], place);
            }
        }
        self.count(&done, succeeded);
        match done.outcome {
            Outcome::Denied => self.pause(
                "memory blocks cannot be written: needs root, outside of containers and lockdown",
                now,
            ),
            Outcome::LeftOffline(_) => self.trouble(
                Topic::Offline,
                &format!(
                    "block {} is offline and does not come back: {}",
                    done.block,
                    done.outcome.words()
                ),
            ),
            _ if is_recorded => self.end_pause(),
            _ => {}
        }
        // The zones have changed: everything is read again at once.
        (self.listed, self.sampled) = (None, None);
        if current.reason == Reason::Setup {
            self.pause_until = now + SETUP_PAUSE;
        }
    }

    /// Begins no operation for a while. What kept one from being written may be over then: a full
    /// file system, or a security policy that is being loaded.
    fn pause(&mut self, why: &str, now: Duration) {
        self.pause.extend(now);
        self.trouble(Topic::Operations, &format!("operations are paused: {why}"));
    }

    /// An operation was written and recorded.
    fn end_pause(&mut self) {
        self.pause = Pause::default();
        self.settled(Topic::Operations);
    }
}
