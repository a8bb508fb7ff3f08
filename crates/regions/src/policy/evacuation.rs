//! How long the next conversion takes, predicted from what the emptiest block holds and how long
//! earlier ones took.

use std::time::Duration;

/// Until a conversion was measured, a full block is taken to last this long (*measured*: 0.8 to 1.6 s
/// for a full block of 128 MiB in an emulated machine).
const FIRST_FULL_MS: u64 = 1000;

/// What a conversion of an empty block takes (*measured*: 5 to 20 ms; *chosen*: with a margin).
const EMPTY_MS: u64 = 50;

/// A block with less than this share to move says nothing about full ones: 1 in N.
const TELLING: u64 = 16;

/// What is known about conversions on a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Evacuation {
    /// The last conversions, scaled to a full block, in milliseconds.
    full_ms: [u64; 4],
    /// Frames that the emptiest block has to move; nothing without a candidate.
    emptiest: Option<u64>,
}

impl Evacuation {
    /// A conversion moved `moved` of `block_frames` frames.
    pub(super) fn measured(&mut self, took: Duration, moved: u64, block_frames: u64) {
        if moved >= (block_frames / TELLING).max(1) {
            let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
            self.full_ms.rotate_right(1);
            self.full_ms[0] = took_ms.saturating_mul(block_frames) / moved;
        }
    }

    /// What the candidates hold.
    pub(super) fn look(&mut self, to_move: impl Iterator<Item = u64>) {
        self.emptiest = to_move.min();
    }

    /// Milliseconds that the next conversion takes. No block has more free frames than its zone,
    /// whatever was read some time ago.
    pub(super) fn next_ms(&self, zone_free: u64, block_frames: u64) -> u64 {
        let least = block_frames.saturating_sub(zone_free);
        let to_move = self.emptiest.unwrap_or(block_frames).clamp(least, block_frames);
        let longest = self.full_ms.iter().copied().max().filter(|ms| *ms > 0);
        let full = longest.unwrap_or(FIRST_FULL_MS);
        EMPTY_MS + full.saturating_mul(to_move) / block_frames.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u64 = 32_768;

    #[test]
    fn an_empty_block_is_at_hand_at_once_and_a_full_one_is_not() {
        let mut evacuation = Evacuation::default();
        assert_eq!(evacuation.next_ms(u64::MAX, BLOCK), 1050, "nothing is known");
        evacuation.look([BLOCK / 2, 0, BLOCK].into_iter());
        assert_eq!(evacuation.next_ms(BLOCK, BLOCK), 50);
        assert_eq!(evacuation.next_ms(BLOCK / 4, BLOCK), 800, "the zone has less free");
        evacuation.look([BLOCK / 2].into_iter());
        assert_eq!(evacuation.next_ms(BLOCK, BLOCK), 550);
        evacuation.look([].into_iter());
        assert_eq!(evacuation.next_ms(BLOCK, BLOCK), 1050, "no candidate");
    }

    #[test]
    fn what_was_measured_counts_by_the_frame() {
        let mut evacuation = Evacuation::default();
        let ms = Duration::from_millis;
        evacuation.measured(ms(900), 10, BLOCK);
        assert_eq!(evacuation.next_ms(0, BLOCK), 1050, "ten frames say nothing");
        evacuation.measured(ms(100), BLOCK / 2, BLOCK);
        assert_eq!(evacuation.next_ms(0, BLOCK), 250);
        evacuation.measured(ms(3000), BLOCK, BLOCK);
        evacuation.measured(ms(100), BLOCK, BLOCK);
        assert_eq!(evacuation.next_ms(0, BLOCK), 3050, "the longest of the last four");
        for _ in 0..3 {
            evacuation.measured(ms(100), BLOCK, BLOCK);
        }
        assert_eq!(evacuation.next_ms(0, BLOCK), 150);
    }
}
