//! Frames in a row that are freed one after another.
//!
//! Of an aligned part of such a run, frames merge with each other before any of them can merge with
//! a frame outside, and no list keeps anything of the steps between. To free the part as one block
//! therefore leaves what freeing it frame by frame leaves, at a fraction of the cost.

use crate::Order;
use crate::layout::Frame;

/// Frames in a row, in ascending or in descending order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    start: Frame,
    frames: u32,
    downward: bool,
}

impl Run {
    /// A run of a single frame.
    pub(super) fn of(frame: Frame) -> Run {
        Run { start: frame, frames: 1, downward: false }
    }

    /// Frames that have not been taken away.
    pub(super) fn frames(&self) -> u32 {
        self.frames
    }

    /// Adds the next frame, if it goes on with the run.
    pub(super) fn extend(&mut self, frame: Frame) -> bool {
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
    pub(super) fn next_part(&mut self) -> Option<(Frame, Order)> {
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
    fn a_run_neither_jumps_nor_turns() {
        let mut run = Run::of(Frame(8));
        assert!(!run.extend(Frame(8)) && !run.extend(Frame(10)) && !run.extend(Frame(6)));
        assert!(run.extend(Frame(9)) && !run.extend(Frame(7)) && run.extend(Frame(10)));
        let mut run = Run::of(Frame(8));
        assert!(run.extend(Frame(7)) && !run.extend(Frame(9)) && run.extend(Frame(6)));
        assert_eq!(run.frames(), 3);
    }
}
