//! The objective of a class of containers: a figure of the service itself, such as a latency, above
//! which its memory is left alone.
//!
//! Pressure shows what the kernel sees. Whether requests are answered in time is known by the
//! service alone, and read from a file or from Prometheus. [`Record`] judges the readings; what
//! follows for a container is decided by its restraint.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

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
#[non_exhaustive]
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
#[non_exhaustive]
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

    proptest! {
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
