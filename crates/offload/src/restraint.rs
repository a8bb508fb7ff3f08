//! What follows for a container from the objective of its class: nothing is reclaimed while it is
//! missed and for a while after, and less than before once it is met again.

use std::time::Duration;

use crate::guard::Guard;
use crate::objective::Standing;

/// A container is never restrained to less than this share of its formula's amount: it would take a
/// day to learn that the cause is gone.
const MIN_SHARE: f64 = 1.0 / 16.0;

/// Time without a miss after which twice as much is reclaimed again (chosen): the window in which
/// refaults count against reclaim.
const RECOVERY: Duration = Duration::from_secs(600);

/// What a container is restrained to by its class's objective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Restraint {
    share: f64,
    /// Since the last miss, or the last time that the share grew.
    since: Duration,
    hold_until: Duration,
    missed: bool,
}

impl Default for Restraint {
    fn default() -> Restraint {
        let zero = Duration::ZERO;
        Restraint { share: 1.0, since: zero, hold_until: zero, missed: false }
    }
}

impl Restraint {
    /// After a look at `now`. Nothing is reclaimed for `hold` after a miss; each further miss halves the
    /// amount, and ten minutes without one double it.
    #[must_use]
    pub fn after(self, now: Duration, standing: &Standing, hold: Duration) -> Restraint {
        let missed = matches!(standing, Standing::Missed { .. });
        if now < self.since {
            // The clock went back: times are invalid, the share is not.
            return Restraint { since: now, hold_until: now, missed, ..self };
        }
        if missed {
            let share = if self.missed { self.share } else { (self.share / 2.0).max(MIN_SHARE) };
            return Restraint { share, since: now, hold_until: now + hold, missed };
        }
        let known = !matches!(standing, Standing::Unknown);
        match known && self.share < 1.0 && now - self.since >= RECOVERY {
            true => Restraint { share: (self.share * 2.0).min(1.0), since: now, missed, ..self },
            false => Restraint { missed, ..self },
        }
    }

    /// The share of the formula's amount that is reclaimed.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Why nothing is reclaimed at `now`, if the objective is the reason.
    pub fn guard(&self, now: Duration, standing: &Standing) -> Option<Guard> {
        let remaining = self.hold_until.saturating_sub(now);
        match *standing {
            Standing::Unknown => Some(Guard::ObjectiveUnknown),
            Standing::Missed { value, at_most } => {
                Some(Guard::Objective { value, at_most, remaining })
            }
            Standing::Met { value } if !remaining.is_zero() => {
                Some(Guard::Objective { value, at_most: value, remaining })
            }
            Standing::Met { .. } | Standing::None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_miss_holds_and_halves() {
        let hold = seconds(60);
        let missed = Standing::Missed { value: 9.0, at_most: 5.0 };
        let met = Standing::Met { value: 1.0 };
        let mut restraint = Restraint::default();
        assert_eq!(restraint.guard(seconds(0), &met), None);
        for at in [100, 106, 112] {
            restraint = restraint.after(seconds(at), &missed, hold);
            assert_eq!(restraint.share(), 0.5, "one miss that lasts");
        }
        let guard = restraint.guard(seconds(112), &missed).unwrap();
        assert_eq!(guard, Guard::Objective { value: 9.0, at_most: 5.0, remaining: hold });
        restraint = restraint.after(seconds(118), &met, hold);
        assert_eq!(restraint.guard(seconds(171), &met).unwrap().name(), "objective");
        assert_eq!(restraint.guard(seconds(172), &met), None);
        restraint = restraint.after(seconds(711), &met, hold);
        assert_eq!(restraint.share(), 0.5);
        restraint = restraint.after(seconds(712), &met, hold);
        assert_eq!(restraint.share(), 1.0);
        for at in 1..20 {
            restraint = restraint.after(seconds(1_000 + 20 * at), &missed, hold);
            restraint = restraint.after(seconds(1_010 + 20 * at), &met, hold);
        }
        assert_eq!(restraint.share(), MIN_SHARE);
        let unknown = restraint.after(seconds(9_000), &Standing::Unknown, hold);
        assert_eq!(unknown.share(), MIN_SHARE, "nobody knows that it is met");
        assert_eq!(
            unknown.guard(seconds(9_000), &Standing::Unknown),
            Some(Guard::ObjectiveUnknown)
        );
        let back = restraint.after(seconds(3), &met, hold);
        assert_eq!((back.share(), back.guard(seconds(3), &met)), (MIN_SHARE, None));
    }

    fn standing() -> impl Strategy<Value = Standing> {
        prop_oneof![
            Just(Standing::None),
            Just(Standing::Unknown),
            (0.0f64..5.0).prop_map(|value| Standing::Met { value }),
            (5.1f64..9.0).prop_map(|value| Standing::Missed { value, at_most: 5.0 }),
        ]
    }

    proptest! {
        /// Whatever is read, and however the clock jumps: the share has its bounds, and while the
        /// objective is missed or unknown, a guard blocks.
        #[test]
        fn a_missed_objective_always_blocks(
            looks in prop::collection::vec((standing(), 0u64..5_000), 1..100)
        ) {
            let mut restraint = Restraint::default();
            for (standing, at) in looks {
                let at = seconds(at);
                let before = restraint.share();
                restraint = restraint.after(at, &standing, seconds(60));
                prop_assert!((MIN_SHARE..=1.0).contains(&restraint.share()));
                let guard = restraint.guard(at, &standing);
                match standing {
                    Standing::Missed { .. } | Standing::Unknown => {
                        prop_assert!(guard.is_some() && restraint.share() <= before);
                    }
                    Standing::None => prop_assert_eq!(guard, None),
                    Standing::Met { .. } => {}
                }
            }
        }
    }
}
