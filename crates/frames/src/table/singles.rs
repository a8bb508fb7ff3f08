//! Single frames in a row that change hands together.
//!
//! Each function leaves what its counterpart for one frame would leave, frame by frame. Marks of
//! frames in a row lie beside each other, and a pageblock is counted once.

use core::ops::Range;

use super::{FrameTable, Mark, Owner, State};
use crate::layout::Frame;
use crate::run::Run;
use crate::{BlockCounts, Mobility, Order};

impl Frame {
    /// Whether what the table has of two frames lies in the same cache lines for the most part.
    #[inline]
    pub(crate) fn shares_line(self, other: Frame) -> bool {
        self.0 / 8 == other.0 / 8
    }
}

impl FrameTable {
    /// Allocates the frames of a run, which are on no free list, as blocks of a single frame each
    /// to `owner` and the owners after it ([`allocate`](FrameTable::allocate)).
    pub(crate) fn allocate_run(&mut self, run: &Run, mobility: Mobility, owner: Owner) {
        let numbers = run.numbers();
        debug_assert!(
            numbers
                .clone()
                .all(|frame| { matches!(self.state(Frame(frame)), State::Inside | State::Cached) }),
            "{run:?}"
        );
        self.fill(numbers.clone(), Mark::head(State::Allocated, mobility as u8, Order::BASE));
        let first = owner as usize;
        let locations = &mut self.location[first..first + run.frames() as usize];
        for (location, frame) in locations.iter_mut().zip(run.iter()) {
            *location = !frame.0;
        }
        for (owner, frame) in (owner..).zip(run.iter()) {
            self.set_word(frame, owner);
        }
        self.recount_run(numbers, Mobility::Free, mobility);
    }

    /// Allocates single frames that per-CPU lists held to `owners`, one frame for each, in order.
    pub(crate) fn allocate_cached(
        &mut self,
        frames: impl Iterator<Item = Frame>,
        mobility: Mobility,
        mut owner: Owner,
    ) {
        Run::each(frames, |run| {
            self.allocate_run(&run, mobility, owner);
            owner += run.frames();
        });
    }

    /// Where the first of `owners` have their single frames, as far as these lie in a row, within
    /// a pageblock, and can all be moved or all not.
    ///
    /// All of them must hold single frames; it is their caller's word that is taken for that.
    pub(crate) fn run_of(&self, owners: Range<Owner>) -> Run {
        let frames = self.location[owners.start as usize..owners.end as usize].iter();
        let mut frames = frames.map(|&location| Frame(!location));
        let first = frames.next().expect("an owner");
        let (mark, pageblock) = (self.marks[first.index()], first.pageblock());
        let mut run = Run::of(first);
        for frame in frames {
            let goes_on = frame.pageblock() == pageblock && self.marks[frame.index()] == mark;
            if !goes_on || !run.extend(frame) {
                break;
            }
        }
        debug_assert!(
            owners.zip(run.iter()).all(|(owner, frame)| self.block_of(owner) == Some(frame)),
            "{run:?}"
        );
        run
    }

    /// Takes the single frames of a run, which [`run_of`](FrameTable::run_of) found, from their
    /// owners ([`release`](FrameTable::release)) and marks them as held by a per-CPU list.
    pub(crate) fn release_to_cache(&mut self, run: &Run, list: u8) {
        let numbers = run.numbers();
        let mobility = self.mobility(Frame(numbers.start));
        self.fill(numbers.clone(), Mark::head(State::Cached, list, Order::BASE));
        self.recount_run(numbers, mobility, Mobility::Free);
    }

    /// Marks free frames that left their free list as held by a per-CPU list, each by itself.
    pub(crate) fn set_run_cached(&mut self, run: &Run, list: u8) {
        self.fill(run.numbers(), Mark::head(State::Cached, list, Order::BASE));
    }

    /// Marks frames as inside a block, or on no list.
    pub(crate) fn set_run_inside(&mut self, run: &Run) {
        self.fill(run.numbers(), Mark::INSIDE);
    }

    /// Has the host fetch what freeing the single frames of `owners` will touch. Wants their
    /// locations, which are best fetched some time before. Changes nothing.
    pub fn prefetch_owners(&self, owners: Range<Owner>) {
        let locations = self.location.get(owners.start as usize..owners.end as usize);
        self.prefetch_rows(locations.unwrap_or_default().iter().map(|&location| Frame(!location)));
    }

    /// Has the host fetch what allocating frames that come one after another will touch.
    pub(crate) fn prefetch_rows(&self, frames: impl Iterator<Item = Frame>) {
        let mut before = Frame::NONE;
        for frame in frames {
            if !frame.shares_line(before) {
                self.prefetch_frame(frame);
            }
            before = frame;
        }
    }

    fn fill(&mut self, frames: Range<u32>, mark: Mark) {
        self.marks[frames.start as usize..frames.end as usize].fill(mark.0);
    }

    fn recount_run(&mut self, frames: Range<u32>, from: Mobility, to: Mobility) {
        let mut at = frames.start;
        while at < frames.end {
            let end = (at + 1).next_multiple_of(u32::from(BlockCounts::FRAMES)).min(frames.end);
            self.blocks[Frame(at).pageblock()].change(from, to, (end - at) as u16);
            at = end;
        }
    }
}
