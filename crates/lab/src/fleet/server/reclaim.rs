//! Reclaim: file pages, oldest first, once free memory falls below the low mark.

use frames::placement::{Placement, Request, gfp};
use frames::table::Owner;
use frames::{MigrateType, Mobility};

use super::{AHEAD, Pages, Population, Server, fetch_ahead};

/// Frames that a failed request reclaims before it tries again, and how often it tries.
const RECLAIM_FRAMES: u64 = 1024;
const RETRIES: u32 = 16;

impl<P: Placement> Server<'_, P> {
    /// Free frames that a request may come from, as far as reclaim can add to them: what it gives
    /// back is movable memory for the most part.
    pub(super) fn available(&self, request: &Request) -> u64 {
        let apart = match request.mobility {
            Mobility::Movable => self.placement.free_for(Mobility::Movable),
            _ => None,
        };
        apart.unwrap_or(self.free)
    }

    /// Reclaims if a request would leave less than the low mark.
    pub(super) fn keep_free(&mut self, request: &Request) {
        let (available, frames) = (self.available(request), request.order.frames());
        if available < self.marks.0 + frames {
            self.reclaim(self.marks.1 + frames - available);
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

    /// Gives back at least `frames` of file pages, oldest first, or of reclaimable kernel memory
    /// if there are none; returns whether anything was.
    fn reclaim(&mut self, frames: u64) -> bool {
        let wanted = self.free + frames;
        let before = self.free;
        // Each page is kept once more at most, so that this ends.
        let mut looks = 4 * frames;
        while self.free < wanted {
            fetch_ahead(&self.table, AHEAD.map(|distance| self.cache.get(distance).copied()));
            if looks > 0
                && let Some(oldest) = self.cache.pop_front()
            {
                self.look_at(oldest, wanted, &mut looks);
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

    /// Gives back each page of a file, or keeps it once more, until `wanted` frames are free.
    fn look_at(&mut self, pages: Pages, wanted: u64, looks: &mut u64) {
        let (mut at, end) = (pages.owner, pages.owner + pages.count);
        while at < end && *looks > 0 && self.free < wanted {
            *looks -= 1;
            if self.random.share() < self.workload.used_again {
                match self.cache.back_mut() {
                    Some(last) if last.goes_on_with(at) => last.count += 1,
                    _ => self.cache.push_back(Pages { owner: at, count: 1 }),
                }
            } else {
                self.release_pages(Pages { owner: at, count: 1 });
                self.cached -= 1;
            }
            at += 1;
        }
        if at < end {
            self.cache.push_front(Pages { owner: at, count: end - at });
        }
    }
}
