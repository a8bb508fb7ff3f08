//! Reclaim: file pages, oldest first, once free memory falls below the low mark.
//!
//! Files are read in windows of up to 32 pages, Linux's `read_ahead_kb` of 128 (`mm/readahead.c`),
//! and each window is reclaimed or kept as a whole. The kernel checks each page by itself, but the
//! pages of a window are mostly alike: a program that reads the file again touches all of them
//! within a short time, and an unused window has no used page. To draw the fate of each page
//! independently would scatter the frames that reclaim frees more evenly than any file system's
//! readers do.

use prairie_frames::MigrateType;
use prairie_frames::placement::{Placement, Request, gfp};
use prairie_frames::table::Owner;

use super::{AHEAD, Pages, Population, Reserves, Server, fetch_ahead};

/// Frames that a failed request reclaims before it tries again, and how often it tries.
const RECLAIM_FRAMES: u64 = 1024;
const RETRIES: u32 = 16;

impl<P: Placement> Server<'_, P> {
    /// Free frames that a request may come from, as far as reclaim can add to them: those on free
    /// lists, without what zones keep from requests that could come from a higher one. While they
    /// exceed the sum of the zones' low marks, one of the zones is above its own
    /// (`__zone_watermark_ok`, `mm/page_alloc.c`). The more so do frames on per-CPU lists not count,
    /// as there may be as many of them as the low mark has: a machine that took them for free would
    /// let its free lists run empty, and every refill break up a foreign pageblock.
    pub(super) fn available(&self, request: &Request) -> u64 {
        let usable = |(zone, reserves): (usize, &Reserves)| {
            let kept = reserves[request.highest_zone as usize];
            self.placement.free_frames(zone).saturating_sub(kept)
        };
        let all = || self.reserves.iter().enumerate().map(usable).sum();
        self.placement.free_for(request.mobility).unwrap_or_else(all)
    }

    /// Reclaims if a request would leave less than the low mark, and what a boost calls for.
    pub(super) fn keep_free(&mut self, request: &Request) {
        let (available, frames) = (self.available(request), request.order.frames());
        if available < self.marks.0 + frames {
            self.reclaim(self.marks.1 + frames - available);
        }
        let boost = self.placement.take_boost();
        if boost > 0 {
            self.reclaim(boost);
        }
    }

    /// Reclaims and asks again for what found nothing, if it may wait; returns whether it came.
    pub(super) fn try_again(&mut self, request: &Request, owner: Owner) -> bool {
        let may_wait = request.gfp_flags & gfp::DIRECT_RECLAIM != 0;
        let mut tries = if may_wait { RETRIES } else { 0 };
        while tries > 0 && self.reclaim(RECLAIM_FRAMES) {
            self.pass(1);
            if self.placement.allocate(&mut self.table, request, owner).is_some() {
                return true;
            }
            tries -= 1;
        }
        false
    }

    /// Gives back at least `frames` of file pages, oldest read first and whole reads, or of
    /// reclaimable kernel memory if there are none; returns whether anything was.
    pub(super) fn reclaim(&mut self, frames: u64) -> bool {
        let wanted = self.free + frames;
        let before = self.free;
        // The bound on scanned pages guarantees that this ends.
        let mut looks = 4 * frames;
        while self.free < wanted {
            fetch_ahead(&self.table, AHEAD.map(|distance| self.cache.get(distance).copied()));
            if looks > 0
                && let Some(oldest) = self.cache.pop_front()
            {
                looks = looks.saturating_sub(u64::from(oldest.count));
                self.look_at(oldest);
                continue;
            }
            let reclaimable = |kind: &&mut Population| {
                kind.migrate_type == MigrateType::Reclaimable && kind.frames > 0
            };
            let Some(kind) = self.kernel.iter_mut().find(reclaimable) else { break };
            let (owner, order) = kind.give_one().expect("it has frames");
            self.release(owner, order);
        }
        self.free > before
    }

    /// Gives back what a read brought, or keeps it once more.
    fn look_at(&mut self, read: Pages) {
        if self.random.share() < self.workload.used_again {
            self.cache.push_back(read);
        } else {
            self.cached -= u64::from(read.count);
            self.release_pages(read);
        }
    }
}
