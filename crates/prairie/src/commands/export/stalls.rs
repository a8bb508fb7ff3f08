//! Stalls as metrics.

use prairie_daemon::metrics::{Family, Kind, Series, Value};
use prairie_trace::stalls::{BUCKETS_SECONDS, StallHistogram, Stalls};

/// The histograms by cause and order, requests for huge pages, and lost events, of everything since
/// the exporter began.
pub fn families(stalls: &Stalls) -> Vec<Family> {
    let count = |labels, count: u64| Series::number(labels, count as f64);
    let huge_pages = stalls.huge_pages();
    let results = [("allocated", huge_pages.allocated), ("failed", huge_pages.failed)];
    let by_result = results.map(|(result, n)| count(vec![("result", result.to_owned())], n));
    vec![
        Family {
            stem: "prairie_stall".to_owned(),
            help: "Time that tasks waited for memory".to_owned(),
            unit: Some("seconds"),
            kind: Kind::Histogram,
            series: stalls.metrics().iter().map(histogram).collect(),
        },
        Family::counter(
            "prairie_huge_page_requests",
            None,
            "Requests for pages of order 9 and above",
            by_result.to_vec(),
        ),
        Family::counter(
            "prairie_stall_lost_events",
            None,
            "Events of stalls that did not fit the rings",
            vec![count(Vec::new(), stalls.lost_events())],
        ),
    ]
}

/// One histogram; its buckets count what lies above the bound before.
fn histogram(found: &StallHistogram) -> Series {
    let bounds = BUCKETS_SECONDS.into_iter().chain([f64::INFINITY]);
    let up_to = found.buckets.iter().copied().chain([found.count]);
    let mut below = 0;
    let bucket = |(bound, count): (f64, u64)| {
        let own = count.saturating_sub(below);
        below = below.max(count);
        (bound, own)
    };
    let buckets = bounds.zip(up_to).map(bucket).collect();
    let labels =
        vec![("cause", found.cause.name().to_owned()), ("order", found.order.get().to_string())];
    Series { labels, value: Value::Histogram { buckets, sum: found.sum_seconds } }
}

#[cfg(test)]
mod tests {
    use prairie_daemon::metrics::encode;
    use prairie_frames::Order;
    use prairie_trace::{Event, EventKind, GfpFlags, StackId, StallPoint, Texts};

    use super::*;

    /// Two stalls of 2 ms and one of 20 s become cumulative buckets.
    #[test]
    fn buckets_add_up() {
        let mut stalls = Stalls::default();
        let texts = Texts::default();
        let mut time_ns = 0;
        for ms in [2, 2, 20_000] {
            for point in [StallPoint::ReclaimBegin, StallPoint::ReclaimEnd] {
                let (order, gfp, stack) = (Order::BASE, GfpFlags(0), StackId::NONE);
                let what = EventKind::Stall { point, task: 7, order, gfp, stack, value: 0 };
                stalls.event(&Event { time_ns, pid: 7, cpu: 0, what }, &texts);
                time_ns += ms * 1_000_000;
            }
        }
        let text = encode(families(&stalls));
        let labels = "cause=\"direct_reclaim\",order=\"0\"";
        for line in [
            "# TYPE prairie_stall_seconds histogram".to_owned(),
            format!("prairie_stall_seconds_sum{{{labels}}} 20.004"),
            format!("prairie_stall_seconds_count{{{labels}}} 3"),
            format!("prairie_stall_seconds_bucket{{le=\"0.001\",{labels}}} 0"),
            format!("prairie_stall_seconds_bucket{{le=\"0.003\",{labels}}} 2"),
            format!("prairie_stall_seconds_bucket{{le=\"10.0\",{labels}}} 2"),
            format!("prairie_stall_seconds_bucket{{le=\"+Inf\",{labels}}} 3"),
            "prairie_huge_page_requests_total{result=\"failed\"} 0.0".to_owned(),
            "prairie_stall_lost_events_total 0.0".to_owned(),
        ] {
            assert!(text.contains(&line), "{line}:\n{text}");
        }
    }
}
