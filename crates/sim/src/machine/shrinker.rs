//! Shrinkers: how reclaim gets at the kernel's caches of files (`shrink_slab`, `prune_dcache_sb`,
//! `prune_icache_sb`).
//!
//! Names of files are freed in the order in which they were last used. That frees memory only
//! where all objects of a slab happen to go: this is why reclaim by age frees kernel pages badly.

use super::Machine;
use super::lru::Kind;
use super::reclaim::Scan;
use super::slab::Cache;

/// Objects that cost a seek to bring back count twice (`DEFAULT_SEEKS`).
const SEEKS: u64 = 2;
/// Objects scanned at once (`SHRINK_BATCH`).
const BATCH: u64 = 128;

impl Machine {
    /// Scans as large a share of the caches as the lists are of all user memory
    /// (`do_shrink_slab`), so that lists of zones together weigh as much as those of a node.
    /// 2.6.16 goes by the pages just scanned.
    pub(super) fn shrink_slabs(&mut self, lists: usize, scan: &mut Scan, scanned: u64) {
        let freeable = self.slabs.objects(Cache::Dentry);
        let size =
            |lists| Kind::ALL.into_iter().map(|kind| self.lru.size(lists, kind)).sum::<u64>();
        let all: u64 = (0..self.lru.count()).map(size).sum();
        let share = match self.system.settings.policies.reclaims_as_2_6 {
            true => u128::from(freeable) * u128::from(scanned),
            false => u128::from(freeable >> scan.priority) * u128::from(size(lists)),
        };
        let count = (share / u128::from(all.max(1))) as u64 * 4 / SEEKS;
        self.files.shrink_debt += count;
        while self.files.shrink_debt >= BATCH {
            self.files.shrink_debt -= BATCH;
            let before = self.counters.pgfree;
            self.prune_names(BATCH);
            scan.reclaimed += self.counters.pgfree - before;
        }
    }

    /// Looks at the `count` oldest names: those used since go round again, the others are freed,
    /// and with them their inodes unless pages of the file are cached.
    fn prune_names(&mut self, count: u64) {
        for _ in 0..count {
            let Some(file) = self.files.oldest_name() else { return };
            self.counters.slabs_scanned += 1;
            if self.files.was_used(file) {
                self.files.keep_name(file);
            } else {
                self.end_name(file);
            }
        }
    }
}
