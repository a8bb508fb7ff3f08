//! Puts the events of several CPUs into one order by time.

/// Something that happened on a CPU at some time.
pub trait Timed {
    /// When, in nanoseconds.
    fn time_ns(&self) -> u64;
    /// Where.
    fn cpu(&self) -> u16;
}

/// Holds events back until nothing earlier can come any more.
///
/// Rings are read one after the other, and an event becomes visible a little after its time was
/// taken, so an event may be seen after a later one. Events are held for a window; those that
/// come later still are let through at once and counted.
#[derive(Debug)]
pub struct Merge<T> {
    held: Vec<T>,
    released_to_ns: u64,
    out_of_order: u64,
}

impl<T: Timed> Default for Merge<T> {
    fn default() -> Self {
        Merge { held: Vec::new(), released_to_ns: 0, out_of_order: 0 }
    }
}

impl<T: Timed> Merge<T> {
    /// Takes an event. Those of one CPU come in the order in which the CPU wrote them.
    pub fn push(&mut self, event: T) {
        self.out_of_order += u64::from(event.time_ns() < self.released_to_ns);
        self.held.push(event);
    }

    /// Moves the events before `bound_ns` to `out`, ordered by time; those of equal time by CPU,
    /// and those of one CPU as they came. Linear, as what is held is a few ordered runs.
    pub fn release(&mut self, bound_ns: u64, out: &mut Vec<T>) {
        self.held.sort_by_key(|event| (event.time_ns(), event.cpu()));
        let ready = self.held.partition_point(|event| event.time_ns() < bound_ns);
        out.extend(self.held.drain(..ready));
        self.released_to_ns = self.released_to_ns.max(bound_ns);
    }

    /// Events that arrived after later ones were released.
    pub fn out_of_order(&self) -> u64 {
        self.out_of_order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Timed for (u64, u16, u32) {
        fn time_ns(&self) -> u64 {
            self.0
        }
        fn cpu(&self) -> u16 {
            self.1
        }
    }

    proptest! {
        /// Against the plain model: everything sorted at once, stably.
        #[test]
        fn same_as_sorting_everything(
            rounds in prop::collection::vec(prop::collection::vec((0..50u64, 0..4u16), 0..40), 0..8)
        ) {
            let (mut merge, mut merged, mut all) = (Merge::default(), Vec::new(), Vec::new());
            let mut number = 0;
            for (round, events) in (0u64..).zip(&rounds) {
                for &(delay, cpu) in events {
                    // Seen in this round, and at most 50 ns older than its beginning.
                    let event = (100 * (round + 1) - delay, cpu, number);
                    number += 1;
                    merge.push(event);
                    all.push(event);
                }
                merge.release(100 * (round + 1) - 50, &mut merged);
            }
            merge.release(u64::MAX, &mut merged);
            all.sort_by_key(|&(time, cpu, _)| (time, cpu));
            prop_assert_eq!(merged, all);
            prop_assert_eq!(merge.out_of_order(), 0);
        }
    }

    #[test]
    fn latecomers_are_kept_and_counted() {
        let mut merge = Merge::default();
        let mut out = Vec::new();
        merge.push((10, 0, 0));
        merge.release(20, &mut out);
        merge.push((15, 1, 1));
        merge.push((25, 1, 2));
        merge.release(u64::MAX, &mut out);
        assert_eq!(out, [(10, 0, 0), (15, 1, 1), (25, 1, 2)]);
        assert_eq!(merge.out_of_order(), 1);
    }
}
