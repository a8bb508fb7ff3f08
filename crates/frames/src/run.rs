//! Frames in a row that are allocated or freed one after another.
//!
//! Of an aligned part of such a run, frames that are freed merge with each other before any of them
//! can merge with a frame outside, and no list keeps anything of the steps between. To free the part
//! as one block therefore leaves what freeing it frame by frame leaves, at a fraction of the cost.

use core::ops::Range;

use crate::Order;
use crate::layout::Frame;

/// Frames in a row, in ascending or in descending order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    start: Frame,
    frames: u32,
    downward: bool,
}

impl Run {
    /// A run of a single frame.
    pub(crate) fn of(frame: Frame) -> Run {
        Run::upward(frame, 1)
    }

    /// A number of frames from `start` up.
    pub(crate) fn upward(start: Frame, frames: u32) -> Run {
        Run { start, frames, downward: false }
    }

    /// A number of frames from `start` up, the highest first.
    pub(crate) fn downward(start: Frame, frames: u32) -> Run {
        Run { start, frames, downward: true }
    }

    /// Cuts frames that come one after another into runs, and hands each to `see`.
    pub(crate) fn each(frames: impl Iterator<Item = Frame>, mut see: impl FnMut(Run)) {
        let mut run: Option<Run> = None;
        for frame in frames {
            if !run.as_mut().is_some_and(|run| run.extend(frame))
                && let Some(ended) = run.replace(Run::of(frame))
            {
                see(ended);
            }
        }
        run.into_iter().for_each(see);
    }

    /// Frames that have not been taken away.
    pub(crate) fn frames(&self) -> u32 {
        self.frames
    }

    /// The frames' numbers, whichever end they begin at.
    pub(crate) fn numbers(&self) -> Range<u32> {
        self.start.0..self.start.0 + self.frames
    }

    /// The frames, the first one first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Frame> {
        let Range { start, end } = self.numbers();
        let downward = self.downward;
        (0..self.frames).map(move |at| Frame(if downward { end - 1 - at } else { start + at }))
    }

    /// Takes away the first frames, as many as there are of `frames`.
    pub(crate) fn take(&mut self, frames: u32) -> Run {
        let frames = frames.min(self.frames);
        self.frames -= frames;
        if self.downward {
            return Run::downward(Frame(self.start.0 + self.frames), frames);
        }
        self.start.0 += frames;
        Run::upward(Frame(self.start.0 - frames), frames)
    }

    /// Adds the next frame, if it continues with the run.
    pub(crate) fn extend(&mut self, frame: Frame) -> bool {
        let above = frame.0 == self.start.0 + self.frames;
        let below = frame.0 + 1 == self.start.0;
        if above && !self.downward {
            self.frames += 1;
        } else if below && (self.downward || self.frames == 1) {
            *self = Run { start: frame, frames: self.frames + 1, downward: true };
        } else {
            return false;
        }
        true
    }

    /// Takes away the largest aligned block, up to a pageblock, that its first frames make up.
    pub(crate) fn next_part(&mut self) -> Option<(Frame, Order)> {
        let most = self.frames.checked_ilog2()?.min(u32::from(Order::HUGE.get()));
        let edge = if self.downward { self.start.0 + self.frames } else { self.start.0 };
        let order = Order::new(edge.trailing_zeros().min(most) as u8)?;
        let frames = order.frames() as u32;
        self.frames -= frames;
        if self.downward {
            return Some((Frame(edge - frames), order));
        }
        self.start.0 += frames;
        Some((Frame(edge), order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn parts(frames: impl Iterator<Item = u32>) -> Vec<(u32, u8)> {
        let mut frames = frames.map(Frame);
        let mut run = Run::of(frames.next().unwrap());
        assert!(frames.all(|frame| run.extend(frame)));
        core::iter::from_fn(|| run.next_part()).map(|(at, order)| (at.0, order.get())).collect()
    }

    #[test]
    fn a_run_comes_apart_from_its_first_frame_on() {
        assert_eq!(parts(3..14), [(3, 0), (4, 2), (8, 2), (12, 1)]);
        assert_eq!(parts((3..14).rev()), [(12, 1), (8, 2), (4, 2), (3, 0)]);
        assert_eq!(parts(0..1536), [(0, 9), (512, 9), (1024, 9)]);
        assert_eq!(parts(7..8), [(7, 0)]);
    }

    #[test]
    fn removal_starts_at_the_front() {
        for (mut run, all) in [
            (Run::upward(Frame(5), 7), [5, 6, 7, 8, 9, 10, 11]),
            (Run::downward(Frame(5), 7), [11, 10, 9, 8, 7, 6, 5]),
        ] {
            let mut seen: Vec<u32> = run.take(3).iter().map(|frame| frame.0).collect();
            assert_eq!(seen, all[..3]);
            seen.extend(run.take(9).iter().map(|frame| frame.0));
            assert_eq!(seen, all);
            assert_eq!((run.frames(), run.iter().count()), (0, 0));
        }
        let mut runs = Vec::new();
        Run::each([3, 4, 5, 4, 3, 9].map(Frame).into_iter(), |run| runs.push(run.numbers()));
        assert_eq!(runs, [3..6, 3..5, 9..10]);
    }

    #[test]
    fn a_run_neither_jumps_nor_turns() {
        let mut run = Run::of(Frame(8));
        assert!(!run.extend(Frame(8)) && !run.extend(Frame(10)) && !run.extend(Frame(6)));
        assert!(run.extend(Frame(9)) && !run.extend(Frame(7)) && run.extend(Frame(10)));
        let mut run = Run::of(Frame(8));
        assert!(run.extend(Frame(7)) && !run.extend(Frame(9)) && run.extend(Frame(6)));
        assert_eq!(run.frames(), 3);
    }
}
