//! The older text format of Prometheus, version 0.0.4: what node_exporter's textfile collector and
//! `promtool check metrics` read.

use std::fmt::Write;

/// The media type of OpenMetrics.
pub const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The media type of the older format.
pub const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Translates OpenMetrics as [`encode`](super::encode) writes it. A counter's
/// descriptor gets the name of its samples, labels alone become a gauge, and the unit and the mark
/// of the end, which the older format does not know, go.
pub fn prometheus(openmetrics: &str) -> String {
    let mut out = String::with_capacity(openmetrics.len());
    let mut help: Option<(&str, &str)> = None;
    for line in openmetrics.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        let mut words = comment.splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("HELP"), Some(name), text) => help = Some((name, text.unwrap_or_default())),
            (Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", "counter"),
                    "info" => ("_info", "gauge"),
                    kind => ("", kind),
                };
                if let Some((_, text)) = help.take().filter(|(of, _)| *of == name) {
                    let _ = writeln!(out, "# HELP {name}{suffix} {text}");
                }
                let _ = writeln!(out, "# TYPE {name}{suffix} {kind}");
            }
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_name_their_samples() {
        let openmetrics = "\
# HELP prairie Version
# TYPE prairie info
prairie_info{version=\"1\"} 1
# HELP prairie_cpu_seconds CPU
# TYPE prairie_cpu_seconds counter
# UNIT prairie_cpu_seconds seconds
prairie_cpu_seconds_total 0.5
# HELP prairie_free_bytes Free
# TYPE prairie_free_bytes gauge
# UNIT prairie_free_bytes bytes
prairie_free_bytes{zone=\"# TYPE x\"} 7.0
# EOF
";
        assert_eq!(
            prometheus(openmetrics),
            "\
# HELP prairie_info Version
# TYPE prairie_info gauge
prairie_info{version=\"1\"} 1
# HELP prairie_cpu_seconds_total CPU
# TYPE prairie_cpu_seconds_total counter
prairie_cpu_seconds_total 0.5
# HELP prairie_free_bytes Free
# TYPE prairie_free_bytes gauge
prairie_free_bytes{zone=\"# TYPE x\"} 7.0
"
        );
    }
}
