//! Precedence where room for offloaded memory is scarce: classes of lower priority.
//!
//! While there is enough room, every class is offloaded. As it becomes scarce, the classes stop one
//! after the other, the one of the highest priority first, so that the remaining room serves the
//! classes that tolerate refaults best.

use crate::observation::Room;

/// Swap counts as scarce from this multiple of the reserve on (chosen), so that with the default
/// reserve of a tenth the first class stops somewhere below 30 % of free swap.
const PLENTY: f64 = 3.0;

/// How scarce room is, in swap or in the writes that its devices bear: 0 where there is plenty, 1
/// where there is none. `swap_reserve` is the share of
/// swap that stays free.
pub fn scarcity(room: &Room, swap_reserve: f64) -> f64 {
    if room.swap_bytes == 0 {
        return 0.0;
    }
    let free = room.swap_free_bytes as f64 / room.swap_bytes as f64;
    let span = swap_reserve * (PLENTY - 1.0);
    let of_swap = (swap_reserve * PLENTY - free) / span.max(f64::MIN_POSITIVE);
    of_swap.clamp(0.0, 1.0).max(room.write_scarcity)
}

/// Whether a class of a `priority` leaves the room to others. `others` are the priorities of all
/// classes that want room; its own may be among them.
///
/// Of n classes, the one above r others stops when scarcity exceeds 1 − r/n. So the lowest never
/// stops here, and a single one neither.
pub fn yields(priority: u8, others: impl IntoIterator<Item = u8>, scarcity: f64) -> bool {
    // One bit for each priority.
    let mut present = [0u64; 4];
    for other in others.into_iter().chain([priority]) {
        present[usize::from(other) / 64] |= 1 << (other % 64);
    }
    let count = |words: &[u64]| words.iter().map(|word| word.count_ones()).sum::<u32>();
    let classes = count(&present);
    let (word, bit) = (usize::from(priority) / 64, priority % 64);
    let below = count(&present[..word]) + (present[word] & ((1 << bit) - 1)).count_ones();
    scarcity > 1.0 - f64::from(below) / f64::from(classes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn room(free: u64) -> Room {
        Room { swap_bytes: 100, swap_free_bytes: free, ..Room::default() }
    }

    #[test]
    fn swap_is_scarce_below_three_reserves() {
        let of = |free| (scarcity(&room(free), 0.1) * 100.0).round();
        assert_eq!([100, 30, 25, 20, 10, 0].map(of), [0.0, 0.0, 25.0, 50.0, 100.0, 100.0]);
        assert_eq!(scarcity(&Room::default(), 0.1), 0.0, "without swap page cache alone is taken");
        assert_eq!(scarcity(&room(100), 1.0), 1.0);
        let worn = Room { write_scarcity: 0.75, ..room(100) };
        assert_eq!(scarcity(&worn, 0.1), 0.75);
    }

    #[test]
    fn the_highest_stops_first_and_the_lowest_never() {
        let three = [10, 50, 200, 50];
        let yielding = |scarcity| [10, 50, 200].map(|priority| yields(priority, three, scarcity));
        assert_eq!(yielding(0.3), [false, false, false]);
        assert_eq!(yielding(0.5), [false, false, true]);
        assert_eq!(yielding(0.9), [false, true, true]);
        assert_eq!(yielding(1.0), [false, true, true]);
        assert!(!yields(255, [], 1.0) && !yields(255, [255, 255], 1.0));
    }

    proptest! {
        /// The lowest class that wants room is never stopped, and if a class is stopped, so are all
        /// above it.
        #[test]
        fn stopping_is_by_priority(
            present in prop::collection::vec(any::<u8>(), 1..12),
            scarcity in 0.0f64..=1.0,
        ) {
            let stops = |priority: u8| yields(priority, present.iter().copied(), scarcity);
            let mut sorted = present.clone();
            sorted.sort_unstable();
            prop_assert!(!stops(sorted[0]));
            for pair in sorted.windows(2) {
                prop_assert!(!stops(pair[0]) || stops(pair[1]));
            }
        }
    }
}
