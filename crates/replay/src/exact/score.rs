//! How much of a replay was right, and what was not.

use prairie_frames::{Order, Pfn};
use serde::Serialize;

/// Misses that are listed one by one.
const MAX_MISSES: usize = 10;

/// Guesses, and the number of correct ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    /// Guesses that the record confirmed.
    pub right: u64,
    /// All of them.
    pub total: u64,
    /// The first that were wrong.
    pub misses: Vec<Miss>,
}

/// A wrong guess.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Miss {
    /// The act of the recording, counted from its first event.
    pub act: usize,
    /// The frame that the kernel chose.
    pub recorded: u64,
    /// The frame that the model chose, if it found one.
    pub guessed: Option<u64>,
    /// The size.
    pub order: u8,
    /// Where the kernel's frame was in the model, and what else is known of the cause.
    pub cause: String,
}

impl Score {
    /// Counts a guess. `cause` is asked for the first misses only.
    pub fn count(
        &mut self,
        act: usize,
        recorded: Pfn,
        guessed: Option<Pfn>,
        order: Order,
        cause: impl FnOnce() -> String,
    ) -> bool {
        self.total += 1;
        if guessed == Some(recorded) {
            self.right += 1;
            return true;
        }
        if self.misses.len() < MAX_MISSES {
            self.misses.push(Miss {
                act,
                recorded: recorded.0,
                guessed: guessed.map(|pfn| pfn.0),
                order: order.get(),
                cause: cause(),
            });
        }
        false
    }

    /// The share that was right; 1 if there was nothing to guess.
    pub fn share(&self) -> f64 {
        if self.total == 0 { 1.0 } else { self.right as f64 / self.total as f64 }
    }

    /// Whether every guess was right.
    pub fn is_perfect(&self) -> bool {
        self.right == self.total
    }
}
