//! The list of blocks and what fills them: read again when it may have changed, a little at a time.

use std::time::{Duration, Instant};

use super::Daemon;
use super::trouble::Topic;
use crate::sample::NodeSample;

/// The list of blocks is read again after this, where nothing showed that it has changed.
const LIST_EVERY: Duration = Duration::from_secs(600);

/// If the size of a zone has changed, it is read again, but no more often than this: a balloon
/// changes sizes all the time.
const LIST_AGAIN: Duration = Duration::from_secs(10);

/// Reading what fills blocks may take this share of time: 1 in N.
const SCAN_SHARE: u32 = 5000;

/// New blocks are read for this long before the loop goes on (*chosen*).
const READ_AT_ONCE: Duration = Duration::from_millis(200);

impl Daemon {
    /// Whether the list of blocks has to be read again.
    pub(super) fn is_list_due(&self, now: Duration) -> bool {
        self.listed.is_none_or(|at| {
            let after = if self.sizes() == self.listed_sizes { LIST_EVERY } else { LIST_AGAIN };
            now >= at + after || now < at
        })
    }

    /// Frames of all kernel and all movable zones.
    fn sizes(&self) -> [u64; 2] {
        let sum = |of: fn(&NodeSample) -> u64| self.last.nodes.iter().map(of).sum();
        [sum(|node| node.kernel.managed), sum(|node| node.movable.managed)]
    }

    /// Reads the list of blocks again.
    pub(super) fn list(&mut self, now: Duration) {
        self.listed_sizes = self.sizes();
        match self.host.blocks(&self.blocks) {
            Ok(blocks) => {
                let unread = blocks.iter().filter(|block| block.occupancy.is_none());
                self.unread = unread.map(|block| block.number).collect();
                self.blocks = blocks;
                self.listed = Some(now);
                self.settled(Topic::Blocks);
            }
            Err(error) => {
                self.listed = Some(now);
                self.trouble(Topic::Blocks, &format!("memory blocks cannot be read: {error}"));
            }
        }
    }

    /// Reads what fills blocks that are new in the list, for a while: on a large host, reading all of
    /// them takes minutes, in which the service manager waits for a sign of life.
    pub(super) fn read_new(&mut self, now: Duration) {
        let started = Instant::now();
        while started.elapsed() < READ_AT_ONCE {
            let Some(number) = self.unread.pop() else { return };
            if let Ok(at) = self.blocks.binary_search_by_key(&number, |block| block.number) {
                self.host.scan(&mut self.blocks[at], now);
            }
        }
    }

    /// Reads one block's contents again, as often as the share of time allows.
    pub(super) fn scan_one(&mut self, now: Duration) {
        if now < self.scan_after || self.blocks.is_empty() || self.current.is_some() {
            return;
        }
        self.scan_at = (self.scan_at + 1) % self.blocks.len();
        let started = Instant::now();
        self.host.scan(&mut self.blocks[self.scan_at], now);
        self.scan_after = now + (started.elapsed() * SCAN_SHARE).max(Duration::from_millis(500));
    }
}
