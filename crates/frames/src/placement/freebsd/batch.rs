//! Many single frames at once: contiguous as far as memory is, and without a list operation for
//! each (`vm_page_alloc_pages`, "Batched page allocations").
//!
//! A batch is cut from the smallest block that holds all of it. Where there is none, the largest
//! there is is used up whole, and the rest of the batch looks again. So a batch takes as few blocks
//! as can be, its frames ascend within each, and what it costs beside is the marking of each frame.

use alloc::vec::Vec;
use core::ops::Range;

use super::{FreeBsd, LARGEST, Pool};
use crate::Order;
use crate::free_area::End;
use crate::layout::Frame;
use crate::placement::Request;
use crate::placement::zonelist::Depth;
use crate::run::Run;
use crate::table::{FrameTable, Owner};

impl FreeBsd {
    /// Allocates up to `count` single frames for `owner` and the owners after it, from the zones of
    /// `request`, whose order does not count. Adds the contiguous runs that they came in to `runs`,
    /// in the order of the owners, and returns how many frames there were: fewer than requested
    /// only if memory has run out. Each can be freed by itself.
    ///
    /// # Panics
    /// If there are fewer owners than that.
    pub fn alloc_batch(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owner: Owner,
        count: u32,
        runs: &mut Vec<Range<Frame>>,
    ) -> u32 {
        assert!(u64::from(owner) + u64::from(count) <= table.owners(), "{count} from {owner}");
        let mut next = owner;
        self.cut_batch(table, request, count, Depth::All, runs, |table, run| {
            let frames = run.end.0 - run.start.0;
            table.allocate_run(&Run::upward(run.start, frames), request.mobility, next);
            next += frames;
        })
    }

    /// Allocates a single frame to each of `owners` as [`alloc_batch`](FreeBsd::alloc_batch) does,
    /// from zones that have more free than `depth` requires.
    pub(super) fn batch_to(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        owners: &[Owner],
        depth: Depth,
    ) -> u32 {
        let mut owner = owners.iter();
        let count = owners.len() as u32;
        self.cut_batch(table, request, count, depth, &mut Vec::new(), |table, run| {
            for (frame, &owner) in (run.start.0..run.end.0).zip(owner.by_ref()) {
                table.allocate(Frame(frame), Order::BASE, request.mobility, owner);
            }
        })
    }

    /// Takes up to `count` frames off the free lists of the zones of `request`, and hands each
    /// contiguous piece to `allocate`. Adds the pieces, joined where they follow one another, to
    /// `runs`; returns how many frames there were.
    fn cut_batch(
        &mut self,
        table: &mut FrameTable,
        request: &Request,
        count: u32,
        depth: Depth,
        runs: &mut Vec<Range<Frame>>,
        mut allocate: impl FnMut(&mut FrameTable, &Range<Frame>),
    ) -> u32 {
        let (before, mut done) = (runs.len(), 0);
        let zones = self.zonelists.get(request.node, request.highest_zone).len();
        for at in 0..zones {
            let zone = self.zonelists.get(request.node, request.highest_zone)[at];
            while done < count {
                let wanted = (count - done).min(self.room(zone, depth));
                if wanted == 0 {
                    break;
                }
                let pool = Pool::of(request.migrate_type);
                let Some(run) = self.take_run(table, zone, wanted, pool) else {
                    if self.break_one(table, at..at + 1, request, depth) {
                        continue;
                    }
                    break;
                };
                allocate(table, &run);
                done += run.end.0 - run.start.0;
                match runs[before..].last() {
                    // Blocks that happen to follow one another are one run.
                    Some(last) if last.end == run.start => {
                        let last = runs.last_mut().expect("a run");
                        last.end = run.end;
                    }
                    _ => runs.push(run),
                }
            }
        }
        self.counts.batches += 1;
        self.counts.batched_frames += u64::from(done);
        self.counts.batch_runs += (runs.len() - before) as u64;
        done
    }

    /// Up to `wanted` frames of one block: the smallest that has as many, else the largest.
    fn take_run(
        &mut self,
        table: &mut FrameTable,
        zone: usize,
        wanted: u32,
        pool: Pool,
    ) -> Option<Range<Frame>> {
        let (lists, domain) = self.at(zone);
        let fits = Order::new(wanted.next_power_of_two().ilog2() as u8)?.min(LARGEST);
        let pools = [pool, pool.other()];
        let smallest = |from: Pool| Some((lists.area.smallest(fits, from as usize)?, from));
        let largest = |from: Pool| {
            let found = lists.area.occupied(from as usize).checked_ilog2()?;
            Some((Order::new(found as u8)?, from))
        };
        let (found, from) = pools
            .into_iter()
            .find_map(smallest)
            .or_else(|| pools.into_iter().filter_map(largest).max_by_key(|&(found, _)| found))?;
        let start = lists.area.list(found, from as usize).front()?;
        lists.area.remove(table, start);
        let taken = wanted.min(found.frames() as u32);
        // Of the rest, one block is a single frame if an odd number was taken.
        let singles = if found == Order::BASE { -1 } else { taken as i32 & 1 };
        domain.regions.change(start, -(taken as i32), singles);
        // The rest, in the largest blocks that fit (`vm_phys_enq_range`).
        let mut offset = u64::from(taken);
        while offset < found.frames() {
            let rest = Order::new(offset.trailing_zeros() as u8)?;
            lists.area.insert(table, start.offset(offset), rest, pool as usize, End::Tail);
            offset += rest.frames();
        }
        Some(start..start.offset(u64::from(taken)))
    }
}
