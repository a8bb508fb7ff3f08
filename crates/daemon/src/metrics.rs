//! Metrics for Prometheus: their values, the text that carries them, and a server that answers with
//! them.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};

mod serve;
mod text_format;

pub use serve::Server;
pub use text_format::{OPENMETRICS, PROMETHEUS, prometheus};

/// Base units, which end the names of what they measure.
const UNITS: [&str; 3] = ["bytes", "seconds", "ratio"];

/// A metric and its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// The name without unit and `_total`.
    pub stem: String,
    /// What it is.
    pub help: String,
    /// Its base unit.
    pub unit: Option<&'static str>,
    /// Its kind.
    pub kind: Kind,
    /// One value for each set of labels.
    pub series: Vec<Series>,
}

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A value that goes up and down.
    Gauge,
    /// A sum since boot, or since the process began.
    Counter,
    /// Labels alone.
    Info,
    /// A distribution.
    Histogram,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Names and values.
    pub labels: Vec<(&'static str, String)>,
    /// The value; 1 for labels alone.
    pub value: Value,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Of gauges, counters, and labels alone.
    Number(f64),
    /// Of histograms: the observations in each bucket, above the previous bound and up to its own,
    /// and the sum of all observations. The last bound is infinity.
    Histogram {
        /// Bounds, each with the observations of its bucket alone.
        buckets: Vec<(f64, u64)>,
        /// The sum of all observations.
        sum: f64,
    },
}

/// How a metric is read from a value: the name of its samples without the daemon's prefix, its help,
/// its kind, and its value.
pub type Metric<T> = (&'static str, &'static str, Kind, fn(&T) -> f64);

impl Family {
    /// A metric of each of `values`, with the labels of each.
    pub fn of<'a, T: 'a>(
        prefix: &str,
        (name, help, kind, read): &Metric<T>,
        values: impl IntoIterator<Item = &'a T>,
        labels: impl Fn(&T) -> Vec<(&'static str, String)>,
    ) -> Family {
        let series = |value: &T| Series::number(labels(value), read(value));
        let series = values.into_iter().map(series).collect();
        Family::named(&format!("{prefix}{name}"), help, *kind, series)
    }

    /// The name of its samples.
    pub fn name(&self) -> String {
        let unit = self.unit.map(|unit| format!("_{unit}")).unwrap_or_default();
        let suffix = match self.kind {
            Kind::Gauge | Kind::Histogram => "",
            Kind::Counter => "_total",
            Kind::Info => "_info",
        };
        format!("{}{unit}{suffix}", self.stem)
    }

    /// A family by the name of its samples: a unit at its end, and `_total` of a counter, are parts
    /// of the name that the formats know.
    pub fn named(name: &str, help: &str, kind: Kind, series: Vec<Series>) -> Family {
        let stem = match kind {
            Kind::Counter => name.strip_suffix("_total").unwrap_or(name),
            Kind::Info => name.strip_suffix("_info").unwrap_or(name),
            Kind::Gauge | Kind::Histogram => name,
        };
        let without =
            |unit: &'static str| Some((stem.strip_suffix(unit)?.strip_suffix('_')?, unit));
        let (stem, unit) = match UNITS.into_iter().find_map(without) {
            Some((stem, unit)) => (stem, Some(unit)),
            None => (stem, None),
        };
        Family { stem: stem.to_owned(), help: help.to_owned(), unit, kind, series }
    }

    /// A family of gauges.
    pub fn gauge(
        stem: &str,
        unit: Option<&'static str>,
        help: &str,
        series: Vec<Series>,
    ) -> Family {
        Family { stem: stem.to_owned(), help: help.to_owned(), unit, kind: Kind::Gauge, series }
    }

    /// A family of counters.
    pub fn counter(
        stem: &str,
        unit: Option<&'static str>,
        help: &str,
        series: Vec<Series>,
    ) -> Family {
        Family { kind: Kind::Counter, ..Family::gauge(stem, unit, help, series) }
    }
}

impl Series {
    /// A number with labels.
    pub fn number(labels: Vec<(&'static str, String)>, value: f64) -> Series {
        Series { labels, value: Value::Number(value) }
    }
}

/// The metrics in OpenMetrics text.
pub fn encode(families: Vec<Family>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut out = String::new();
    // Only the string could fail, which does not.
    let _ = text::encode(&mut out, &registry);
    out
}

#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for family in &self.0 {
            let unit = family.unit.map(|unit| Unit::Other(unit.to_owned()));
            let kind = match family.kind {
                Kind::Gauge => MetricType::Gauge,
                Kind::Counter => MetricType::Counter,
                Kind::Info => MetricType::Info,
                Kind::Histogram => MetricType::Histogram,
            };
            let mut metric =
                encoder.encode_descriptor(&family.stem, &family.help, unit.as_ref(), kind)?;
            for series in &family.series {
                if family.kind == Kind::Info {
                    metric.encode_info(&series.labels)?;
                } else if series.labels.is_empty() {
                    value(&mut metric, family.kind, &series.value)?;
                } else {
                    let mut of = metric.encode_family(&series.labels)?;
                    value(&mut of, family.kind, &series.value)?;
                }
            }
        }
        Ok(())
    }
}

fn value(encoder: &mut MetricEncoder<'_>, kind: Kind, value: &Value) -> fmt::Result {
    match value {
        Value::Number(value) if kind == Kind::Counter => {
            encoder.encode_counter::<NoLabelSet, f64, f64>(value, None)
        }
        Value::Number(value) => encoder.encode_gauge(value),
        Value::Histogram { buckets, sum } => {
            let count = buckets.iter().map(|(_, count)| count).sum();
            encoder.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_unit_and_its_kind() {
        let family = |name, kind| Family::named(name, "", kind, Vec::new());
        for (name, kind, stem, unit) in [
            ("a_taken_bytes_total", Kind::Counter, "a_taken", Some("bytes")),
            ("a_requests_total", Kind::Counter, "a_requests", None),
            ("a_cpu_seconds", Kind::Gauge, "a_cpu", Some("seconds")),
            ("a_io_pressure_ratio", Kind::Gauge, "a_io_pressure", Some("ratio")),
            ("a_blocks", Kind::Gauge, "a_blocks", None),
            ("a_info", Kind::Info, "a", None),
        ] {
            let family = family(name, kind);
            assert_eq!((family.stem.as_str(), family.unit), (stem, unit), "{name}");
            assert_eq!(family.name(), name);
        }
    }

    #[test]
    fn labels_are_escaped_and_values_are_numbers() {
        let odd = Series::number(vec![("path", "a\"b\\c\nd".to_owned())], f64::NAN);
        let some = Series::number(vec![("path", "e".to_owned())], 4096.0);
        let family = Family::named("a_taken_bytes_total", "Taken", Kind::Counter, vec![odd, some]);
        assert_eq!(
            encode(vec![family]),
            "\
# HELP a_taken_bytes Taken
# TYPE a_taken_bytes counter
# UNIT a_taken_bytes bytes
a_taken_bytes_total{path=\"a\\\"b\\\\c\\nd\"} NaN
a_taken_bytes_total{path=\"e\"} 4096.0
# EOF
"
        );
    }
}
