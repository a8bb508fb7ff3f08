//! Memory emergencies: all tasks of the host stall on memory for a large share of time.
//!
//! Offloading then stops, and leased limits are restored. If the emergency lasts, it names a
//! victim: the container of the lowest priority, and among equals the one whose end frees most. The
//! victim is killed only if the configuration says so and no other program, such as systemd-oomd,
//! decides about kills on this host.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// When an emergency begins, and what may be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Policy {
    /// The share of time in which all tasks are stalled (`full`), from which on it is one.
    pub full_share: f64,
    /// Time above the share after which a container is named.
    pub after: Duration,
    /// Time below the share after which offloading goes on.
    pub hold: Duration,
    /// Whether the container that is named is killed.
    pub kill: bool,
}

/// Thresholds of the field (chosen between them): oomd's examples act at 5 to 40 % of `full`,
/// systemd-oomd kills after 30 s at 60 %.
impl Default for Policy {
    fn default() -> Policy {
        Policy {
            full_share: 0.2,
            after: Duration::from_secs(30),
            hold: Duration::from_secs(60),
            kill: false,
        }
    }
}

/// Time between two looks. Reading a pressure file more often loses short stalls.
pub const EVERY: Duration = Duration::from_secs(2);

/// Looks further apart say nothing about the time between: the machine slept, or the clock jumped.
const MAX_GAP: Duration = Duration::from_secs(10);

/// Time after a verdict until the next, as in systemd-oomd: memory of a killed container is freed
/// in the background, and pressure falls only then.
const PAUSE: Duration = Duration::from_secs(15);

/// A container that frees less is not worth its end (chosen).
const MIN_BYTES: u64 = 16 << 20;

/// The state of the host's emergency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Emergency {
    policy: Policy,
    /// Time and total of the last look.
    before: Option<(Duration, u64)>,
    /// Since when every look was above the share.
    above_since: Option<Duration>,
    stop_until: Option<Duration>,
    judged_at: Option<Duration>,
}

/// What a look has to be followed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct EmergencyDecision {
    /// The share of time since the last look in which all tasks were stalled.
    pub full_share: f64,
    /// It begins with this look: limits are to be given back.
    pub begins: bool,
    /// It ended before this look.
    pub ends: bool,
    /// Nothing is offloaded for this time, unless it goes on.
    pub stop_for: Option<Duration>,
    /// A container is to be named.
    pub verdict_due: bool,
}

impl Emergency {
    /// No emergency.
    pub fn new(policy: Policy) -> Emergency {
        let (before, above_since, stop_until, judged_at) = (None, None, None, None);
        Emergency { policy, before, above_since, stop_until, judged_at }
    }

    /// Judges the time since the last look. `full_us` is the total of stall time of all tasks.
    pub fn look(&mut self, now: Duration, full_us: u64) -> EmergencyDecision {
        let before = self.before.replace((now, full_us));
        let passed = before.and_then(|(at, _)| now.checked_sub(at));
        if passed.is_some_and(|passed| passed < EVERY / 2) {
            // Too short to say anything: the look before stays.
            self.before = before;
            return self.decision(now, 0.0, false);
        }
        let Some((passed, (_, total))) = passed.filter(|passed| *passed <= MAX_GAP).zip(before)
        else {
            // The first look, or times that are no longer valid.
            let ends = self.stop_until.is_some();
            *self = Emergency { before: self.before, ..Emergency::new(self.policy) };
            return EmergencyDecision { ends, ..EmergencyDecision::default() };
        };
        let grown = full_us.saturating_sub(total);
        let share = (grown as f64 / passed.as_micros() as f64).min(1.0);
        let is_above = share >= self.policy.full_share;
        let begins = is_above && self.stop_until.is_none();
        if is_above {
            self.above_since.get_or_insert(now - passed);
            self.stop_until = Some(now + self.policy.hold);
        } else {
            self.above_since = None;
        }
        self.decision(now, share, begins)
    }

    fn decision(&mut self, now: Duration, full_share: f64, begins: bool) -> EmergencyDecision {
        let stop_for = self.stop_until.map(|until| until.saturating_sub(now));
        let ends = stop_for.is_some_and(|rest| rest.is_zero());
        if ends {
            self.stop_until = None;
        }
        let lasts = self.above_since.is_some_and(|since| now - since >= self.policy.after);
        let pauses = self.judged_at.is_some_and(|at| now < at + PAUSE);
        let verdict_due = lasts && !pauses;
        if verdict_due {
            self.judged_at = Some(now);
        }
        let stop_for = stop_for.filter(|rest| !rest.is_zero());
        EmergencyDecision { full_share, begins, ends, stop_for, verdict_due }
    }

    /// Names a container. `others_decide` says that another daemon of the host kills.
    pub fn verdict(&self, candidates: &[Candidate], others_decide: bool) -> Option<Verdict> {
        let unprotected =
            |each: &&Candidate| each.bytes > each.protected_bytes && each.bytes >= MIN_BYTES;
        let key = |each: &&Candidate| (std::cmp::Reverse(each.priority), each.bytes);
        let chosen = candidates.iter().filter(unprotected).max_by_key(key)?;
        let rivals = candidates.iter().filter(unprotected);
        let rivals = rivals.filter(|each| each.priority == chosen.priority).count();
        Some(Verdict {
            candidate: chosen.index,
            priority: chosen.priority,
            bytes: chosen.bytes,
            rivals,
            action: match (self.policy.kill, others_decide) {
                (_, true) => VerdictAction::Leave,
                (true, false) => VerdictAction::Kill,
                (false, false) => VerdictAction::Report,
            },
        })
    }
}

/// A container that could be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which.
    pub index: usize,
    /// Its class's priority.
    pub priority: u8,
    /// What its end frees: in RAM and in swap.
    pub bytes: u64,
    /// What `memory.min` and `memory.low` protect. Who has no more is spared.
    pub protected_bytes: u64,
}

/// What happens to the container that is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum VerdictAction {
    /// It is killed.
    Kill,
    /// It is reported: kills are not configured.
    Report,
    /// It is reported: systemd-oomd decides about kills.
    Leave,
}

/// The container that should go, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// [`Candidate::index`].
    pub candidate: usize,
    /// Its priority, the lowest there is.
    pub priority: u8,
    /// What its end frees.
    pub bytes: u64,
    /// Containers of this priority, itself included.
    pub rivals: usize,
    /// What happens to it.
    pub action: VerdictAction,
}

/// What is done, and the reason.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match self.action {
            VerdictAction::Kill => "killed",
            VerdictAction::Report => "would be killed with kill = true",
            VerdictAction::Leave => "not killed, systemd-oomd decides",
        };
        let mib = self.bytes as f64 / f64::from(1 << 20);
        write!(f, "{action}: priority {} is the lowest, ", self.priority)?;
        write!(f, "{mib:.1} MiB in RAM and swap the most of {}", self.rivals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Looks every two seconds with these shares of stall in percent; what is decided at each.
    fn looks(emergency: &mut Emergency, shares: &[u64]) -> Vec<EmergencyDecision> {
        let (mut at, mut total) = (0, 0);
        let mut look = |share: &u64| {
            (at, total) = (at + 2, total + share * 20_000);
            emergency.look(seconds(at), total)
        };
        shares.iter().map(&mut look).collect()
    }

    #[test]
    fn it_begins_at_once_names_after_a_while_and_ends_later() {
        let mut emergency = Emergency::new(Policy::default());
        let mut shares = vec![0, 19];
        shares.extend([50; 16]);
        shares.extend([0; 32]);
        let decisions = looks(&mut emergency, &shares);
        assert_eq!(decisions[1], EmergencyDecision { full_share: 0.19, ..Default::default() });
        let at = |wanted: fn(&EmergencyDecision) -> bool| {
            let found = decisions.iter().enumerate().filter(|(_, decision)| wanted(decision));
            found.map(|(at, _)| at).collect::<Vec<_>>()
        };
        assert_eq!(at(|d| d.begins), [2]);
        // 30 s after the first look above, which stood for two seconds; the next one 15 s later.
        assert_eq!(at(|d| d.verdict_due), [16]);
        assert_eq!(decisions[17].stop_for, Some(seconds(60)));
        assert_eq!(at(|d| d.ends), [47], "60 s after the last look above");
        assert_eq!(at(|d| d.stop_for.is_some()).len(), 45);
    }

    #[test]
    fn a_lasting_emergency_names_again_after_a_pause() {
        let mut emergency = Emergency::new(Policy::default());
        let decisions = looks(&mut emergency, &[40; 40]);
        let due: Vec<usize> = (0..40).filter(|at| decisions[*at].verdict_due).collect();
        assert_eq!(due, [15, 23, 31, 39]);
    }

    #[test]
    fn a_clock_that_jumps_begins_nothing() {
        let mut emergency = Emergency::new(Policy::default());
        for (at, total) in [(100, 0), (200, 99_000_000), (50, 0), (51, 900_000)] {
            assert!(!emergency.look(seconds(at), total).begins || at == 51);
        }
        // In it, a jump ends it.
        assert!(emergency.look(seconds(500), 0).ends);
    }

    fn candidate(index: usize, priority: u8, mib: u64) -> Candidate {
        Candidate { index, priority, bytes: mib << 20, protected_bytes: 0 }
    }

    #[test]
    fn the_lowest_priority_goes_first_then_the_largest() {
        let report = Emergency::new(Policy::default());
        let kill = Emergency::new(Policy { kill: true, ..Policy::default() });
        let mut all = [candidate(0, 50, 900), candidate(1, 10, 300), candidate(2, 10, 400)];
        let verdict = report.verdict(&all, false).unwrap();
        assert_eq!((verdict.candidate, verdict.action), (2, VerdictAction::Report));
        let expected = "would be killed with kill = true: priority 10 is the lowest, \
                        400.0 MiB in RAM and swap the most of 2";
        assert_eq!(verdict.to_string(), expected);
        assert_eq!(kill.verdict(&all, false).unwrap().action, VerdictAction::Kill);
        assert_eq!(kill.verdict(&all, true).unwrap().action, VerdictAction::Leave);
        all[2].protected_bytes = 400 << 20;
        assert_eq!(report.verdict(&all, false).unwrap().candidate, 1, "protected memory is spared");
        assert_eq!(report.verdict(&[], false), None);
        assert_eq!(report.verdict(&[candidate(0, 0, 15)], false), None, "frees too little");
    }

    proptest! {
        /// A container is named only after an unbroken time above the share, and killed never
        /// unless configured.
        #[test]
        fn no_verdict_without_a_lasting_emergency(
            shares in prop::collection::vec(0u64..100, 1..120),
            after in 2u64..60,
            kill in any::<bool>(),
        ) {
            let policy = Policy { after: seconds(after), kill, ..Policy::default() };
            let mut emergency = Emergency::new(policy);
            let decisions = looks(&mut emergency, &shares);
            for (at, decision) in decisions.iter().enumerate().filter(|(_, d)| d.verdict_due) {
                let looks = after.div_ceil(2) as usize;
                prop_assert!(at >= looks);
                prop_assert!(shares[at + 1 - looks..=at].iter().all(|share| *share >= 20));
                prop_assert!(decision.stop_for.is_some());
            }
            let verdict = emergency.verdict(&[candidate(0, 0, 16)], false).unwrap();
            prop_assert_eq!(verdict.action == VerdictAction::Kill, kill);
        }
    }
}
