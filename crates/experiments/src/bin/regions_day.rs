//! Contiguity over the hours of a load that comes and goes, from the samples of
//! `bench/regions-vm.sh`.
//!
//! ```text
//! regions_day FOLDER [--svg FILE]
//! ```
//!
//! FOLDER has a folder `day-KERNEL-AGENT` for each run, with the guest's `samples` and `result`, and
//! with `border` if its kernel has one: how large the unmovable region is.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use experiments::document::Document;
use prairie_report::{Axis, LineChart, Series, Theme, Unit};

/// The keys and values of one line that a guest wrote.
type Words = BTreeMap<String, String>;

/// One machine.
struct Run {
    kernel: String,
    agent: String,
    samples: Vec<Words>,
    border: Vec<Words>,
    result: Words,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (folder, svg) = match &arguments[..] {
        [folder] => (folder, None),
        [folder, option, svg] if option == "--svg" => (folder, Some(svg)),
        _ => return Err("expected FOLDER [--svg FILE]".into()),
    };
    let runs = read(Path::new(folder))?;
    if runs.is_empty() {
        return Err(format!("{folder}: no run day-KERNEL-AGENT with samples and a result").into());
    }
    if let Some(svg) = svg {
        fs::write(svg, picture(&runs)?.svg(Theme::Auto))?;
    }
    println!("{}", serde_json::to_string_pretty(&table(&runs)?)?);
    Ok(())
}

/// The runs, by kernel and agent.
fn read(folder: &Path) -> Result<Vec<Run>, Box<dyn Error>> {
    let mut names: Vec<String> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<_>>()?;
    names.sort();
    let mut runs = Vec::new();
    for name in names {
        let Some((kernel, agent)) = name.strip_prefix("day-").and_then(|n| n.split_once('-'))
        else {
            continue;
        };
        let text = |file: &str| fs::read_to_string(folder.join(&name).join(file));
        let (Ok(samples), Ok(result)) = (text("samples"), text("result")) else { continue };
        runs.push(Run {
            kernel: kernel.to_owned(),
            agent: agent.to_owned(),
            samples: samples.lines().map(words).collect(),
            border: text("border").unwrap_or_default().lines().map(words).collect(),
            result: words(&result),
        });
    }
    Ok(runs)
}

/// `KEY=VALUE` and others that stand between spaces.
fn words(line: &str) -> Words {
    line.split_whitespace()
        .filter_map(|word| word.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

fn number(words: &Words, key: &str) -> Result<f64, String> {
    words
        .get(key)
        .and_then(|value| value.parse().ok())
        .ok_or_else(|| format!("a sample has no number {key}"))
}

/// Areas of a size without an unmovable frame, as a share of all.
fn clean(words: &Words, size: &str) -> Result<f64, String> {
    Ok(number(words, &format!("clean_{size}"))? / number(words, &format!("areas_{size}"))?.max(1.0))
}

fn table(runs: &[Run]) -> Result<Document, Box<dyn Error>> {
    let columns = [
        "kernel",
        "agent",
        "hours",
        "32 MiB areas, first quiet hour",
        "last quiet hour",
        "lowest",
        "2 MiB areas, last",
        "2 MiB pages",
        "1 GiB pages",
        "blocks to kernel",
        "to movable",
        "memory PSI, s",
        "stalls",
        "OOM kills",
        "loop, % of a core",
    ];
    let mut document = Document::new("regions-day", &columns, "1, in counted time".to_owned());
    for run in runs {
        let is = |sample: &&Words, phase: &str| sample.get("phase").is_some_and(|is| is == phase);
        let quiet: Vec<&Words> = run.samples.iter().filter(|sample| is(sample, "quiet")).collect();
        let (Some(first), Some(last)) = (quiet.get(2), quiet.last()) else {
            return Err(format!("{} {}: no quiet hour", run.kernel, run.agent).into());
        };
        let later = run.samples.iter().filter(|sample| !is(sample, "start"));
        let lowest = later
            .map(|sample| clean(sample, "32m"))
            .collect::<Result<Vec<f64>, _>>()?
            .into_iter()
            .fold(1.0, f64::min);
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let text = |key: &str| run.result.get(key).cloned().unwrap_or_default();
        let cost = number(&run.result, "own_cpu_ppm").map(|ppm| format!("{:.3}", ppm / 10_000.0));
        document.row(
            &run.kernel,
            [
                run.agent.clone(),
                text("hour"),
                percent(clean(first, "32m")?),
                percent(clean(last, "32m")?),
                percent(lowest),
                percent(clean(last, "2m")?),
                text("hugetlb_2m"),
                text("hugetlb_1g"),
                text("to_kernel"),
                text("to_movable"),
                format!("{:.2}", number(&run.result, "psi_us")? / 1e6),
                text("stalls"),
                text("oom"),
                cost.unwrap_or_default(),
            ],
        );
    }
    document.note(
        "4 GiB, 256 MiB of it below 4 GiB, one emulated CPU, counted time. Shares are of memory in \
         aligned areas without an unmovable frame; 2 MiB pages are counted after the last hour, \
         1 GiB pages after page cache was dropped, too.",
    );
    Ok(document)
}

/// The memory above a run's border over time, as a share of all; nothing without a border.
fn above(run: &Run) -> Result<Vec<(f64, f64)>, String> {
    let Some(first) = run.samples.first() else { return Ok(Vec::new()) };
    let mib = 2.0 * number(first, "areas_2m")?;
    run.border
        .iter()
        .filter(|words| words.contains_key("unmovable_mib"))
        .map(|words| {
            let share = 1.0 - number(words, "unmovable_mib")? / mib;
            Ok((number(words, "second")? / 3600.0, share))
        })
        .collect()
}

/// The share of clean areas over time, a line for each run, and one for the border of each.
fn picture(runs: &[Run]) -> Result<LineChart, String> {
    let mut series = Vec::new();
    for run in runs {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for sample in &run.samples {
            // Samples of the same minute follow each other.
            let next = points.last().map_or(0.0, |(before, _)| before + 1.0 / 60.0);
            points.push(((number(sample, "minute")? / 60.0).max(next), clean(sample, "32m")?));
        }
        series.push(Series { name: format!("{}, {}", run.kernel, run.agent), points });
        let points = above(run)?;
        if !points.is_empty() {
            let name = format!("{}, {}: all above the border", run.kernel, run.agent);
            series.push(Series { name, points });
        }
    }
    Ok(LineChart {
        title: "Areas of 32 MiB without an unmovable frame".to_owned(),
        x: Axis::new("hours", Unit::Number),
        y: Axis::new("share of memory", Unit::Share).within(0.0, 1.0),
        series,
        ..LineChart::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        let sample = |minute: u32, phase: &str, clean: u32| {
            words(&format!(
                "hour=1 minute={minute} phase={phase} areas_2m=2048 clean_2m=1024 areas_32m=128 \
                 clean_32m={clean} movable=20"
            ))
        };
        Run {
            kernel: "6.1".to_owned(),
            agent: "stock".to_owned(),
            samples: vec![
                sample(0, "start", 0),
                sample(2, "busy", 32),
                sample(20, "quiet", 64),
                sample(40, "quiet", 64),
                sample(60, "quiet", 96),
                sample(120, "quiet", 48),
            ],
            border: vec![words("second=1800 unmovable_mib=1024"), words("second=3600")],
            result: words("agent=stock hour=2 psi_us=1500000 stalls=0 oom=0 hugetlb_1g=1"),
        }
    }

    #[test]
    fn a_run_becomes_a_row_and_a_line() {
        let table = serde_json::to_value(table(&[run()]).unwrap()).unwrap();
        let row: Vec<&str> = table["rows"][0]
            .as_array()
            .unwrap()
            .iter()
            .map(|cell| cell.as_str().unwrap())
            .collect();
        assert_eq!(row[..7], ["6.1", "stock", "2", "75.0 %", "37.5 %", "25.0 %", "50.0 %"]);
        assert_eq!(row[8], "1");
        assert_eq!(row[11..], ["1.50", "0", "0", ""]);
        let picture = picture(&[run()]).unwrap();
        assert_eq!(picture.series[0].points[1], (2.0 / 60.0, 0.25));
        assert_eq!(picture.series[1].points, [(0.5, 0.75)]);
        let stock = Run { border: vec![words("second=10")], ..run() };
        assert_eq!(super::picture(&[stock]).unwrap().series.len(), 1);
    }

    #[test]
    fn samples_without_their_numbers_are_refused() {
        let mut broken = run();
        broken.samples[4].remove("clean_32m");
        assert!(table(&[broken]).unwrap_err().to_string().contains("clean_32m"));
        let mut short = run();
        short.samples.truncate(3);
        assert!(table(&[short]).unwrap_err().to_string().contains("no quiet hour"));
    }
}
