//! The objective of a class of containers: a figure of the service itself, such as a latency, above
//! which its memory is left alone.
//!
//! Pressure shows what the kernel sees. Whether requests are answered in time is known by the
//! service alone, and read from a file or from Prometheus. [`Record`] judges the readings,
//! [`Restraint`] what follows for a container: nothing is reclaimed while the objective is missed and
//! for a while after, and less than before once it is met again.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::guard::Guard;

/// An objective as configured.
#[derive(Clone, Debug, PartialEq)]
pub struct Objective {
    /// Where its value is read.
    pub source: Source,
    /// The largest value at which it is met.
    pub at_most: f64,
    /// Time between two readings.
    pub every: Duration,
}

/// Where a value is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file that begins with a number.
    File(PathBuf),
    /// A query of Prometheus' HTTP interface.
    Query {
        /// Such as `http://127.0.0.1:9090`.
        server: String,
        /// In PromQL.
        query: String,
    },
}

/// Readings that fail for longer than this multiple of the interval make an objective unknown
/// (chosen): one reading that a restart of the server costs must not stop anything.
pub const STALE_FACTOR: u32 = 3;

/// What is known of an objective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "objective", rename_all = "kebab-case")]
pub enum Standing {
    /// There is none.
    #[default]
    None,
    /// The value is at most what it may be.
    Met {
        /// As last read.
        value: f64,
    },
    /// It is above.
    Missed {
        /// As last read.
        value: f64,
        /// The most that it may be.
        at_most: f64,
    },
    /// It was never read, or not for [`STALE_FACTOR`] intervals.
    Unknown,
}

/// The readings of an objective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Record {
    at_most: f64,
    stale_after: Duration,
    last: Option<(Duration, f64)>,
}

impl Record {
    /// Nothing was read yet.
    pub fn new(objective: &Objective) -> Record {
        let stale_after = objective.every * STALE_FACTOR;
        Record { at_most: objective.at_most, stale_after, last: None }
    }

    /// A value was read. One that is no number counts as not read.
    pub fn read(&mut self, now: Duration, value: f64) {
        if !value.is_nan() {
            self.last = Some((now, value));
        }
    }

    /// What is known. A clock that went back makes a reading unknown until the next.
    pub fn standing(&self, now: Duration) -> Standing {
        let fresh = |(at, value)| Some(value).filter(|_| at <= now && now - at <= self.stale_after);
        match self.last.and_then(fresh) {
            None => Standing::Unknown,
            Some(value) if value > self.at_most => {
                Standing::Missed { value, at_most: self.at_most }
            }
            Some(value) => Standing::Met { value },
        }
    }
}

/// A container is never restrained to less than this share of its formula's amount: it would take a
/// day to learn that the cause is gone.
const MIN_SHARE: f64 = 1.0 / 16.0;

/// Time without a miss after which twice as much is reclaimed again (chosen): as long as refaults
/// count against what was reclaimed.
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

/// The value of a file: its first word.
///
/// # Errors
/// What was found instead, in one line.
pub fn value_of_file(text: &str) -> Result<f64, String> {
    let word = text.split_whitespace().next().unwrap_or_default();
    number(word).ok_or_else(|| format!("{:?}: expected a number", shortened(word)))
}

/// The value of Prometheus' answer to an instant query: of a scalar, or the largest of a vector.
///
/// # Errors
/// What was found instead, in one line.
pub fn value_of_response(text: &str) -> Result<f64, String> {
    let response: Value = serde_json::from_str(text)
        .map_err(|_| "no JSON: expected Prometheus' answer".to_owned())?;
    if response["status"] != "success" {
        let error = response["error"].as_str().unwrap_or("no status");
        return Err(format!("the query failed: {}", shortened(error)));
    }
    let data = &response["data"];
    // A sample is a time and a number as a string.
    let sample = |sample: &Value| sample[1].as_str().and_then(number);
    let values: Vec<f64> = match data["resultType"].as_str() {
        Some("scalar") => sample(&data["result"]).into_iter().collect(),
        Some("vector") => {
            let samples = data["result"].as_array().map_or(&[][..], Vec::as_slice);
            samples.iter().filter_map(|each| sample(&each["value"])).collect()
        }
        other => {
            let other = other.unwrap_or("nothing");
            return Err(format!("a result of type {other}: expected a vector or a scalar"));
        }
    };
    let numbers = values.into_iter().filter(|value| !value.is_nan());
    numbers.reduce(f64::max).ok_or_else(|| "the query has no value now".to_owned())
}

/// A number as Go and C print them; no NaN.
fn number(word: &str) -> Option<f64> {
    word.parse::<f64>().ok().filter(|value| !value.is_nan())
}

/// Foreign text for a message of one line.
fn shortened(text: &str) -> String {
    text.chars().take(80).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn record() -> Record {
        let source = Source::File("/run/p99".into());
        Record::new(&Objective { source, at_most: 5.0, every: seconds(10) })
    }

    #[test]
    fn a_value_counts_for_three_intervals() {
        let mut record = record();
        assert_eq!(record.standing(seconds(0)), Standing::Unknown);
        record.read(seconds(100), 5.0);
        assert_eq!(record.standing(seconds(100)), Standing::Met { value: 5.0 });
        assert_eq!(record.standing(seconds(130)), Standing::Met { value: 5.0 });
        assert_eq!(record.standing(seconds(131)), Standing::Unknown);
        assert_eq!(record.standing(seconds(99)), Standing::Unknown, "the clock went back");
        record.read(seconds(140), 5.1);
        record.read(seconds(145), f64::NAN);
        assert_eq!(record.standing(seconds(145)), Standing::Missed { value: 5.1, at_most: 5.0 });
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

    #[test]
    fn values_of_files_and_responses() {
        assert_eq!(value_of_file("4.25 ms\n"), Ok(4.25));
        assert_eq!(value_of_file("\n 1e-3"), Ok(0.001));
        for bad in ["", "NaN", "fast\n", "0x10"] {
            assert!(value_of_file(bad).unwrap_err().ends_with("expected a number"), "{bad:?}");
        }
        let answer = |kind: &str, result: &str| {
            value_of_response(&format!(
                r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#
            ))
        };
        assert_eq!(answer("scalar", r#"[1763899200.1,"0.0042"]"#), Ok(0.0042));
        let two = r#"[{"metric":{"pod":"a"},"value":[1,"2"]},{"metric":{},"value":[1,"NaN"]},
                     {"metric":{},"value":[1,"3.5"]}]"#;
        assert_eq!(answer("vector", two), Ok(3.5), "the largest that is a number");
        assert_eq!(answer("vector", r#"[{"metric":{},"value":[1,"+Inf"]}]"#), Ok(f64::INFINITY));
        for (kind, result) in [("vector", "[]"), ("vector", "7"), ("scalar", "[]")] {
            assert_eq!(answer(kind, result), Err("the query has no value now".to_owned()));
        }
        assert!(answer("matrix", "[]").unwrap_err().starts_with("a result of type matrix"));
        let failed = r#"{"status":"error","errorType":"bad_data","error":"parse\nerror"}"#;
        assert_eq!(value_of_response(failed), Err("the query failed: parse error".to_owned()));
        assert!(value_of_response("<html>").unwrap_err().starts_with("no JSON"));
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

        #[test]
        fn garbage_is_an_error_of_one_line(text in "\\PC{0,60}|[\\[\\]{}:,\"a-z0-9]{0,80}") {
            for read in [value_of_file(&text), value_of_response(&text)] {
                match read {
                    Ok(value) => prop_assert!(!value.is_nan()),
                    Err(error) => prop_assert!(!error.contains('\n')),
                }
            }
        }
    }
}
