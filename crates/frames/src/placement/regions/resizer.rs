//! When the border of a node should move, which way, and how far: a pure decision.
//!
//! The paper says what decides (per-region memory pressure, "which is then used to calculate the
//! expansion/shrinking amount influenced by tunable parameters") and not how. This is ours;
//! `docs/src/internals/contiguitas.md` gives the reasons at length.
//!
//! With `P` the pressure of a region, the share of time in which something stalled for lack of its
//! memory, and `T` its threshold, the relative pressure is `s = P / T`. Then, for the unmovable
//! region of `size` frames,
//!
//! ```text
//! drive   = weight_unmovable * s_unmovable - weight_movable * s_movable
//! amount  = size * clamp(drive, -largest_step, largest_step)
//! ```
//!
//! - **grow** when its free memory is below the low mark, up to the target; and, when `s_unmovable`
//!   is 1 or more and `drive` positive, by `amount` beyond that;
//! - **yield**, that is shrink for the other's sake, when the movable region is below its low mark,
//!   or `s_movable` is 1 or more and `drive` negative: up to the movable region's target and
//!   `-amount` beyond that, never below the unmovable region's own low mark;
//! - **shrink** when far too much is free, down to the target.
//!
//! Pressures enter as their difference: when both sides stall alike, memory is short as a whole, and
//! moving the border only copies pages. A turn of direction has to wait (`hold`), unless a region is
//! down to half of its low mark.
//!
//! The same value decides in the simulated machine and in the daemon `prairie regions`. What differs
//! is passed in: the granule in which memory changes sides (a pageblock of 2 MiB there, a memory
//! block of 128 MiB or more here), what it costs in time ([`Demand`]), and where the signals come
//! from.

/// The two regions' share of something: the unmovable region's first.
pub type Both<T> = [T; 2];

/// What the resizer looks at. Frames, but for the pressures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// Frames of the unmovable region.
    pub size: u64,
    /// What each region has free for ordinary requests.
    pub available: Both<u64>,
    /// Below this a region is short.
    pub low: Both<u64>,
    /// Above this the unmovable region has far too much.
    pub high: u64,
    /// Share of time stalled for lack of each region's memory, in thousandths.
    pub pressure: Both<u32>,
}

/// How much a region has and wants, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// Free for ordinary requests.
    pub available: u64,
    /// Below this the region is short.
    pub low: u64,
    /// What a resize aims at.
    pub target: u64,
    /// Above this the region has far too much.
    pub high: u64,
}

/// How fast the unmovable region is used up, and how long a resize takes: its low watermark covers
/// this demand where allocations cannot resize the region themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Frames that kernel requests take, per second, net.
    pub frames_per_second: u64,
    /// Milliseconds from one look at the region to the next.
    pub poll_ms: u64,
    /// Milliseconds until one more granule is there.
    pub granule_ms: u64,
}

impl Demand {
    /// The low mark that lasts until help arrives: what is used meanwhile, `floor` frames that
    /// reclaim and urgent requests keep, and `spare` frames at hand.
    pub const fn low(&self, floor: u64, spare: u64) -> u64 {
        let wait_ms = self.poll_ms.saturating_add(self.granule_ms);
        let used = self.frames_per_second.saturating_mul(wait_ms) / 1000;
        used.saturating_add(floor).saturating_add(spare)
    }

    /// Milliseconds until `available` frames are used up; nothing if they are not being used.
    pub const fn exhausted_in_ms(&self, available: u64) -> Option<u64> {
        match self.frames_per_second {
            0 => None,
            rate => Some(available.saturating_mul(1000) / rate),
        }
    }
}

/// What to do with the border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// Nothing.
    Stay,
    /// Up, until the unmovable region has its target and `beyond` frames more, or the movable one
    /// is down to its low mark.
    Grow {
        /// Frames beyond the target.
        beyond: u64,
    },
    /// Down, until the unmovable region is down to its target.
    Shrink,
    /// Down, until the movable region has its target and `beyond` frames more, or the unmovable
    /// one is down to its low mark.
    Yield {
        /// Frames beyond the target.
        beyond: u64,
    },
}

impl Resize {
    /// Whether to go on for one more granule of `granule` frames, from the regions' current stock.
    pub const fn goes_on(self, unmovable: Stock, movable: Stock, granule: u64) -> bool {
        match self {
            Resize::Stay => false,
            Resize::Grow { beyond } => {
                unmovable.available < unmovable.target.saturating_add(beyond)
                    && movable.available >= movable.low.saturating_add(granule)
            }
            Resize::Shrink => unmovable.available >= unmovable.target.saturating_add(granule),
            Resize::Yield { beyond } => {
                movable.available < movable.target.saturating_add(beyond)
                    && unmovable.available >= unmovable.low.saturating_add(granule)
            }
        }
    }

    const fn direction(self) -> Option<Direction> {
        match self {
            Resize::Stay => None,
            Resize::Grow { .. } => Some(Direction::Up),
            Resize::Shrink | Resize::Yield { .. } => Some(Direction::Down),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Up,
    Down,
}

/// The tunable parameters. Shares are in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// The pressure from which on a region counts as stalling (`T`), at least 1. The default of 10
    /// is one per cent of time: at that, the stalls cost about as much as huge pages bring.
    pub threshold: Both<u32>,
    /// How far the unmovable region moves for each threshold's worth of its own pressure, and of
    /// the other's. The default of 50 doubles a region in 14 steps at the threshold, and in three
    /// at five times that. Equal, for either side's stall is a stall.
    pub weight: Both<u32>,
    /// The most that pressure moves the border at once. The default of 250, a quarter of the
    /// region, bounds what one wrong reading can do.
    pub largest_step: u32,
    /// Wake-ups for which the border does not turn round. The default of 8: a demand that swings
    /// with each wake-up then moves the border once in nine of them at most.
    pub hold: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { threshold: [10, 10], weight: [50, 50], largest_step: 250, hold: 8 }
    }
}

/// The resizer of one node: its tuning, and which way it last went.
#[derive(Clone, Copy, Debug)]
pub struct Resizer {
    tuning: Tuning,
    last: Option<Direction>,
    /// Wake-ups since the border last moved.
    since: u32,
    refused: u64,
}

impl Resizer {
    /// A resizer that has not moved its border yet.
    pub const fn new(tuning: Tuning) -> Resizer {
        Resizer { tuning, last: None, since: 0, refused: 0 }
    }

    /// Turns that had to wait, so far.
    pub const fn turns_refused(&self) -> u64 {
        self.refused
    }

    /// Whether the resizer thread has anything to look at: a region is below its low mark, stalls,
    /// or has far too much.
    pub fn is_due(&self, view: &View) -> bool {
        let [unmovable, movable] = self.relative(view);
        self.direction_wanted(view) != Resize::Stay || unmovable >= 1000 || movable >= 1000
    }

    /// Decides at a wake-up of periodic reclaim.
    pub fn decide(&mut self, view: &View) -> Resize {
        self.since = self.since.saturating_add(1);
        let wanted = self.direction_wanted(view);
        let turns = self.last.is_some() && wanted.direction() != self.last;
        let urgent = match wanted {
            Resize::Grow { .. } => view.available[0] < view.low[0] / 2,
            Resize::Yield { .. } => view.available[1] < view.low[1] / 2,
            Resize::Stay | Resize::Shrink => false,
        };
        if wanted != Resize::Stay && turns && !urgent && self.since <= self.tuning.hold {
            self.refused += 1;
            return Resize::Stay;
        }
        wanted
    }

    /// The border moved as decided.
    pub fn moved(&mut self, resize: Resize) {
        if let Some(direction) = resize.direction() {
            (self.last, self.since) = (Some(direction), 0);
        }
    }

    fn direction_wanted(&self, view: &View) -> Resize {
        let [unmovable, movable] = self.relative(view);
        let drive = self.drive(view);
        let step = view.size * drive.unsigned_abs() / 1000;
        let presses = unmovable >= 1000 && drive > 0;
        let is_pressed = movable >= 1000 && drive < 0;
        if view.available[0] < view.low[0] || presses {
            Resize::Grow { beyond: if presses { step } else { 0 } }
        } else if view.available[0] > view.high {
            Resize::Shrink
        } else if view.available[1] < view.low[1] || is_pressed {
            Resize::Yield { beyond: if is_pressed { step } else { 0 } }
        } else {
            Resize::Stay
        }
    }

    /// Each region's pressure in thousandths of its threshold.
    fn relative(&self, view: &View) -> Both<u64> {
        [0, 1].map(|region| {
            u64::from(view.pressure[region]) * 1000
                / u64::from(self.tuning.threshold[region].max(1))
        })
    }

    /// By which share of its size the unmovable region should change, in thousandths.
    fn drive(&self, view: &View) -> i64 {
        let [unmovable, movable] = self.relative(view);
        let [own, other] = self.tuning.weight.map(u64::from);
        let drive = (own * unmovable) as i64 / 1000 - (other * movable) as i64 / 1000;
        let most = i64::from(self.tuning.largest_step);
        drive.clamp(-most, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const CALM: View = View {
        size: 100_000,
        available: [20_000, 50_000],
        low: [10_000, 10_000],
        high: 40_000,
        pressure: [0, 0],
    };

    fn decide(view: View) -> Resize {
        Resizer::new(Tuning::default()).decide(&view)
    }

    #[test]
    fn free_memory_alone_decides_where_nothing_stalls() {
        assert_eq!(decide(CALM), Resize::Stay);
        assert_eq!(decide(View { available: [9_999, 50_000], ..CALM }), Resize::Grow { beyond: 0 });
        assert_eq!(decide(View { available: [40_001, 50_000], ..CALM }), Resize::Shrink);
        assert_eq!(
            decide(View { available: [20_000, 9_999], ..CALM }),
            Resize::Yield { beyond: 0 }
        );
        // Both short: nothing but growth helps unmovable requests, whereas movable memory can be
        // reclaimed.
        assert_eq!(decide(View { available: [0, 0], ..CALM }), Resize::Grow { beyond: 0 });
    }

    #[test]
    fn amounts_follow_the_difference_of_the_pressures() {
        let under = |pressure| decide(View { pressure, ..CALM });
        assert_eq!(under([9, 0]), Resize::Stay, "below the threshold");
        // At the threshold a twentieth of the region, at thrice that thrice as much.
        assert_eq!(under([10, 0]), Resize::Grow { beyond: 5_000 });
        assert_eq!(under([30, 0]), Resize::Grow { beyond: 15_000 });
        assert_eq!(under([1000, 0]), Resize::Grow { beyond: 25_000 }, "a quarter at most");
        assert_eq!(under([0, 30]), Resize::Yield { beyond: 15_000 });
        assert_eq!(under([30, 20]), Resize::Grow { beyond: 5_000 });
        assert_eq!(under([20, 30]), Resize::Yield { beyond: 5_000 });
        assert_eq!(under([500, 500]), Resize::Stay, "memory is short as a whole");
    }

    #[test]
    fn a_turn_waits_unless_it_is_urgent() {
        let grow = View { available: [9_000, 50_000], ..CALM };
        let yields = View { available: [20_000, 9_000], ..CALM };
        let mut resizer = Resizer::new(Tuning::default());
        let resize = resizer.decide(&grow);
        resizer.moved(resize);
        let refused = (0..100).take_while(|_| resizer.decide(&yields) == Resize::Stay).count();
        assert_eq!((refused, resizer.turns_refused()), (8, 8));
        resizer.moved(resize);
        assert_eq!(resizer.decide(&grow), Resize::Grow { beyond: 0 }, "on the same way at once");
        resizer.moved(resize);
        let urgent = View { available: [20_000, 4_999], ..CALM };
        assert_eq!(resizer.decide(&urgent), Resize::Yield { beyond: 0 });
    }

    #[test]
    fn a_low_mark_covers_the_wait_for_help() {
        // 40 MiB/s, a look each second, two seconds to empty a block of 128 MiB.
        let demand = Demand { frames_per_second: 10_240, poll_ms: 1000, granule_ms: 2000 };
        assert_eq!(demand.low(5_000, 32_768), 30_720 + 5_000 + 32_768);
        assert_eq!(demand.exhausted_in_ms(10_240), Some(1000));
        assert_eq!(Demand { frames_per_second: 0, ..demand }.exhausted_in_ms(1), None);
        let endless = Demand { frames_per_second: u64::MAX, ..demand };
        assert_eq!(endless.low(1, 1), u64::MAX / 1000 + 2);
    }

    #[test]
    fn a_resize_ends_at_its_target_whatever_the_granule() {
        let of = |available| Stock { available, low: 100, target: 200, high: 400 };
        for granule in [1, 50, 512] {
            assert!(Resize::Grow { beyond: 0 }.goes_on(of(199), of(100 + granule), granule));
            assert!(!Resize::Grow { beyond: 0 }.goes_on(of(200), of(100 + granule), granule));
            assert!(!Resize::Grow { beyond: 0 }.goes_on(of(0), of(99 + granule), granule));
            assert!(Resize::Grow { beyond: 5 }.goes_on(of(204), of(100 + granule), granule));
            assert!(Resize::Shrink.goes_on(of(200 + granule), of(0), granule));
            assert!(!Resize::Shrink.goes_on(of(199 + granule), of(0), granule));
            assert!(Resize::Yield { beyond: 0 }.goes_on(of(100 + granule), of(199), granule));
            assert!(!Resize::Yield { beyond: 0 }.goes_on(of(99 + granule), of(199), granule));
            assert!(!Resize::Stay.goes_on(of(0), of(1 << 40), granule));
        }
    }

    proptest! {
        /// Whatever is observed, direction and amount answer it.
        #[test]
        fn decisions_are_sound(
            size in 0..1u64 << 34,
            available in prop::array::uniform2(0..1u64 << 34),
            low in prop::array::uniform2(0..1u64 << 24),
            high in 0..1u64 << 34,
            pressure in prop::array::uniform2(0..=1000u32),
        ) {
            let view = View { size, available, low, high, pressure };
            let mut resizer = Resizer::new(Tuning::default());
            let decision = resizer.decide(&view);
            let due = resizer.is_due(&view);
            match decision {
                Resize::Stay => {
                    prop_assert!(available[0] >= low[0] && available[1] >= low[1]);
                    prop_assert!(available[0] <= high);
                }
                Resize::Grow { beyond } => {
                    prop_assert!(due && (available[0] < low[0] || pressure[0] > pressure[1]));
                    prop_assert!(beyond <= size / 4);
                }
                Resize::Shrink => prop_assert!(due && available[0] > high),
                Resize::Yield { beyond } => {
                    prop_assert!(due && available[0] >= low[0]);
                    prop_assert!(available[1] < low[1] || pressure[1] > pressure[0]);
                    prop_assert!(beyond <= size / 4);
                }
            }
        }
    }
}
