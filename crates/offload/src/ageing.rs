//! Page ages before the first request: when to mark, when to measure, when to wait.
//!
//! All pages of a new container carry the accessed bit from being filled. The kernel then picks its
//! first victims blindly: more than half of them refaulted where this was measured. Two mechanisms
//! identify idle memory. The host is probed for them; what to do next is decided here.
//!
//! - **Generations** (MGLRU): an aging step every half of `min_age` keeps four generations; the
//!   oldest have been idle for at least `min_age`. Eviction by age needs no further care. No step is
//!   made while enough memory is idle: it costs a walk of all page tables, and clears what the kernel
//!   knows of files that are read, by which it protects them.
//! - **Accessed bits** (classic lists): clear them, wait `min_age`, and sum up what is still unmarked.
//!   No more than that may be reclaimed before the next round. Nothing is reclaimed during the wait,
//!   because everything looks idle while the bits are cleared.

use std::time::Duration;

use serde::Serialize;

use crate::observation::Idle;

/// How a host reports age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// `lru_gen` in debugfs: ageing and eviction by generation.
    Generations,
    /// `clear_refs` and `smaps_rollup` of each process.
    AccessedBits,
    /// None; the kernel's order of its lists must do.
    None,
}

/// The next action of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Wait,
    /// Begin a generation, or clear the accessed bits.
    Mark,
    /// Sum up the memory idle since the mark and report it to [`Ageing::measured`].
    Measure,
}

/// The state of a container's age measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ageing {
    means: Means,
    min_age: Duration,
    state: State,
    /// The first mark that still holds.
    first: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// No mark is valid.
    Unmarked,
    /// Marked at that time; bits only: not yet measured.
    Marked { at: Duration },
    /// Measured at that time: what may still be taken.
    Known { at: Duration, bytes: u64 },
}

/// Share of the measured idle memory that is requested. The kernel may reclaim more than requested,
/// and the excess is no longer idle memory.
const MARGIN: f64 = 0.9;

/// A measurement is valid for this multiple of the age it reports. Pages used meanwhile carry their
/// bit again, and the kernel skips them; only the sum grows stale.
const HOLDS: u32 = 20;

impl Ageing {
    /// A container without any measurement.
    pub fn new(means: Means, min_age: Duration) -> Ageing {
        Ageing { means, min_age, state: State::Unmarked, first: None }
    }

    /// The age that memory must have.
    pub fn min_age(&self) -> Duration {
        self.min_age
    }

    /// By what the host reports age.
    pub fn means(&self) -> Means {
        self.means
    }

    /// The action at that time, when enough memory is known to be idle or not. [`Step::Mark`] counts
    /// as done.
    pub fn step(&mut self, now: Duration, is_enough: bool) -> Step {
        match (self.means, self.state) {
            (Means::None, _) => Step::Wait,
            (_, State::Unmarked) => self.mark(now),
            (Means::Generations, State::Marked { at }) if now >= at + self.min_age / 2 => {
                let stale = now >= at + self.min_age * HOLDS;
                if stale || !is_enough { self.mark(now) } else { Step::Wait }
            }
            (Means::AccessedBits, State::Marked { at }) if now >= at + self.min_age => {
                Step::Measure
            }
            (Means::AccessedBits, State::Known { at, bytes }) => {
                let spent = bytes < 4096;
                let stale = now >= at + self.min_age * HOLDS;
                if stale || spent && now >= at + self.min_age { self.mark(now) } else { Step::Wait }
            }
            _ => Step::Wait,
        }
    }

    fn mark(&mut self, now: Duration) -> Step {
        self.state = State::Marked { at: now };
        self.first.get_or_insert(now);
        Step::Mark
    }

    /// Whether ages are known at all: pages that look idle have been sampled for `min_age`. Before,
    /// a generation's pages may carry accessed bits that have not been collected yet.
    pub fn is_ripe(&self, now: Duration) -> bool {
        self.first.is_some_and(|first| now >= first + self.min_age)
    }

    /// The world summed up `idle_bytes` at that time. A result that comes before the mark is old
    /// enough was requested for an earlier one, whose bits are cleared again.
    pub fn measured(&mut self, now: Duration, idle_bytes: u64) {
        if matches!(self.state, State::Marked { at } if now >= at + self.min_age) {
            self.state = State::Known { at: now, bytes: (idle_bytes as f64 * MARGIN) as u64 };
        }
    }

    /// Subtracts reclaimed bytes from the idle memory.
    pub fn taken(&mut self, taken_bytes: u64) {
        if let State::Known { bytes, .. } = &mut self.state {
            *bytes = bytes.saturating_sub(taken_bytes);
        }
    }

    /// Starts again with an age of `min_age` when the mark is invalid, because the processes have
    /// changed, or when pages refaulted.
    pub fn renew(&mut self, min_age: Duration) {
        *self = Ageing::new(self.means, min_age);
    }

    /// Before this there is nothing to do about age, and where there is nothing idle at `now` there
    /// is nothing idle yet; nothing where that depends on more than time.
    pub fn settled_until(&self, now: Duration) -> Option<Duration> {
        match (self.means, self.state) {
            // Generations come of age about when others are begun, by halves of the age: whether
            // one just has is seen by the look after.
            (Means::Generations, State::Marked { at }) if now > at => {
                let ripe = self.first.map_or(at, |first| first + self.min_age);
                let next = at + self.min_age / 2;
                Some(if now < ripe { next.min(ripe) } else { next })
            }
            (Means::AccessedBits, State::Marked { at }) => Some(at + self.min_age),
            (Means::AccessedBits, State::Known { at, bytes }) if bytes < 4096 => {
                Some(at + self.min_age)
            }
            _ => None,
        }
    }

    /// What is known, where the accessed bits tell it. Generations are read by the world itself.
    pub fn idle(&self) -> Idle {
        match (self.means, self.state) {
            (Means::None, _) => Idle::Unknown,
            (_, State::Known { bytes, .. }) => Idle::Bytes(bytes),
            _ => Idle::Measuring,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn accessed_bits_are_cleared_left_alone_and_summed_up() {
        let mut ageing = Ageing::new(Means::AccessedBits, seconds(120));
        assert_eq!(ageing.step(seconds(10), false), Step::Mark);
        assert_eq!(ageing.idle(), Idle::Measuring);
        assert_eq!(ageing.settled_until(seconds(10)), Some(seconds(130)));
        assert_eq!(ageing.step(seconds(129), false), Step::Wait);
        assert_eq!(ageing.step(seconds(130), false), Step::Measure);
        ageing.measured(seconds(130), 1_000_000);
        assert_eq!(ageing.settled_until(seconds(130)), None, "there is something to take");
        assert_eq!(ageing.idle(), Idle::Bytes(900_000));
        ageing.taken(400_000);
        assert_eq!(ageing.idle(), Idle::Bytes(500_000));
        assert_eq!(ageing.step(seconds(200), false), Step::Wait);
        ageing.taken(600_000);
        assert_eq!(ageing.idle(), Idle::Bytes(0));
        assert_eq!(ageing.settled_until(seconds(200)), Some(seconds(250)));
        assert_eq!(ageing.step(seconds(249), false), Step::Wait, "not marked again at once");
        assert_eq!(ageing.step(seconds(250), false), Step::Mark);
        assert_eq!(ageing.idle(), Idle::Measuring);
    }

    #[test]
    fn a_measurement_grows_stale() {
        let mut ageing = Ageing::new(Means::AccessedBits, seconds(120));
        ageing.step(seconds(0), false);
        ageing.measured(seconds(120), 1 << 30);
        assert_eq!(ageing.step(seconds(2_519), false), Step::Wait);
        assert_eq!(ageing.step(seconds(2_520), false), Step::Mark);
    }

    #[test]
    fn a_result_for_an_earlier_mark_says_nothing() {
        let mut ageing = Ageing::new(Means::AccessedBits, seconds(120));
        ageing.step(seconds(0), false);
        assert_eq!(ageing.step(seconds(120), false), Step::Measure);
        ageing.renew(seconds(240));
        ageing.measured(seconds(121), 1 << 30);
        assert_eq!(ageing.step(seconds(126), false), Step::Mark);
        ageing.measured(seconds(127), 1 << 30);
        assert_eq!(ageing.idle(), Idle::Measuring);
    }

    #[test]
    fn generations_begin_every_half_age() {
        let mut ageing = Ageing::new(Means::Generations, seconds(120));
        assert_eq!(ageing.settled_until(seconds(0)), None, "a generation is to be begun");
        let marks: Vec<u64> =
            (0..400).filter(|&s| ageing.step(seconds(s), false) == Step::Mark).collect();
        assert_eq!(marks, [0, 60, 120, 180, 240, 300, 360]);
        assert_eq!(ageing.settled_until(seconds(360)), None, "one may just have come of age");
        assert_eq!(ageing.settled_until(seconds(361)), Some(seconds(420)));
        assert!(!ageing.is_ripe(seconds(119)) && ageing.is_ripe(seconds(120)));
        ageing.renew(seconds(240));
        assert!(!ageing.is_ripe(seconds(500)));
    }

    #[test]
    fn generations_are_kept_while_enough_is_idle() {
        let mut ageing = Ageing::new(Means::Generations, seconds(120));
        let mut mark = |from: u64, to: u64, is_enough| -> Vec<u64> {
            let marked = |&s: &u64| ageing.step(seconds(s), is_enough) == Step::Mark;
            (from..to).filter(marked).collect()
        };
        assert_eq!(mark(0, 121, false), [0, 60, 120]);
        assert_eq!(mark(121, 1_000, true), [0; 0]);
        assert_eq!(mark(1_000, 1_100, false), [1_000, 1_060]);
        assert_eq!(mark(1_100, 3_500, true), [1_060 + 20 * 120], "it grows stale");
    }

    #[test]
    fn without_means_nothing_is_known() {
        let mut ageing = Ageing::new(Means::None, seconds(120));
        assert_eq!((ageing.step(seconds(500), false), ageing.idle()), (Step::Wait, Idle::Unknown));
    }

    #[test]
    fn memory_that_came_back_asks_for_more_age() {
        let mut ageing = Ageing::new(Means::AccessedBits, seconds(120));
        ageing.step(seconds(0), false);
        ageing.measured(seconds(120), 1 << 30);
        ageing.renew(seconds(240));
        assert_eq!(ageing.step(seconds(126), false), Step::Mark);
        assert_eq!(ageing.step(seconds(365), false), Step::Wait);
        assert_eq!(ageing.step(seconds(366), false), Step::Measure);
    }
}
