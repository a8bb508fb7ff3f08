//! One scenario on real kernels and simulated: what `vm/lab` measured in emulated machines beside
//! the same scenario under the allocators that stand for those kernels.
//!
//! ```text
//! lab_on_kernels SCENARIO RUNS SEEDS
//! ```
//!
//! `RUNS` holds a folder of `vm/lab` for each seed, such as `7.3,defrag_mode=1/seed-2`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use experiments::document::Document;
use prairie_compare::Spread;
use prairie_model::allocator::Allocator;
use prairie_sim::machine::scenario::{self, Scenario};
use prairie_sim::simulate;
use serde_json::Value;

/// Folders of runs, and the allocator that should do the same.
const PAIRS: [(&str, &str, &str); 3] = [
    ("6.1", "Linux 6.1", "linux@6.1"),
    ("7.3", "Linux 7.3", "linux@7.3"),
    ("7.3,defrag_mode=1", "7.3 with `defrag_mode`", "linux-defrag"),
];

/// What is compared, and the counters of `/proc/vmstat` that it is the sum of.
const ROWS: [(&str, &[&str]); 14] = [
    ("huge pages for faults", &["thp_fault_alloc"]),
    ("faults that got small pages", &["thp_fault_fallback"]),
    ("direct compactions", &["compact_stall"]),
    ("of these without success", &["compact_fail"]),
    (
        "direct reclaims",
        &["allocstall_dma", "allocstall_dma32", "allocstall_normal", "allocstall_movable"],
    ),
    ("frames of direct reclaim", &["pgsteal_direct"]),
    ("frames of kswapd", &["pgsteal_kswapd"]),
    ("pages scanned by kswapd", &["pgscan_kswapd"]),
    ("runs of kswapd", &["pageoutrun"]),
    ("pages swapped out", &["pswpout"]),
    ("pages moved", &["pgmigrate_success"]),
    ("runs of kcompactd", &["compact_daemon_wake"]),
    ("compiles", &["compile"]),
    ("F_u(9), mean", &["unusable"]),
];

/// What one run brought, by name.
type Run = BTreeMap<String, f64>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, runs, seeds] = &words[..] else {
        anyhow::bail!("expected SCENARIO RUNS SEEDS");
    };
    let text = fs::read_to_string(file).with_context(|| file.clone())?;
    let (scenario, seeds) = (scenario::parse(&text)?, seeds.parse::<u64>()?);
    let mut columns = vec!["".to_owned()];
    let mut sides = Vec::new();
    for (folder, kernel, system) in PAIRS {
        let real = (1..=seeds).map(|seed| {
            let run = Path::new(runs).join(folder).join(format!("seed-{seed}"));
            measured(&run).with_context(|| run.display().to_string())
        });
        let system: Allocator = system.parse().map_err(|error| anyhow::anyhow!("{error}"))?;
        let made = (1..=seeds).map(|seed| simulated(&scenario, &system, seed));
        columns.extend([kernel.to_owned(), format!("`{}`", system.name())]);
        sides.push((real.collect::<Result<Vec<Run>>>()?, made.collect::<Result<Vec<Run>>>()?));
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let rounds = format!("{seeds} seeds; mean ± half of the 95 % interval");
    let mut document = Document::new("lab-kernels", &columns, rounds);
    for (name, keys) in ROWS {
        let cells = sides.iter().flat_map(|(real, made)| compared(keys, real, made));
        document.row(name, cells);
    }
    document.note(
        "A star marks a simulated mean outside the kernel's interval and more than 10 % away.",
    );
    println!("{}", serde_json::to_string_pretty(&[document])?);
    Ok(())
}

/// The kernel's cell and the simulator's.
fn compared(keys: &[&str], real: &[Run], made: &[Run]) -> [String; 2] {
    let values = |runs: &[Run]| -> Vec<f64> {
        let sum = |run: &Run| keys.iter().filter_map(|&key| run.get(key)).sum::<f64>();
        runs.iter().map(sum).collect()
    };
    let (Some(real), Some(made)) = (Spread::of(&values(real)), Spread::of(&values(made))) else {
        return [String::new(), String::new()];
    };
    let half = half_interval(&real);
    let off = (made.mean - real.mean).abs();
    let star = if off > half.max(real.mean.abs() / 10.0) { " *" } else { "" };
    [cell(&real), cell(&made) + star]
}

fn half_interval(spread: &Spread) -> f64 {
    spread.interval().map_or(0.0, |interval| (interval.high - interval.low) / 2.0)
}

fn cell(spread: &Spread) -> String {
    let digits = if spread.mean.abs() < 1.0 { 3 } else { usize::from(spread.mean.abs() < 100.0) };
    format!("{:.digits$} ± {:.digits$}", spread.mean, half_interval(spread))
}

/// What `vm/lab` left in a folder.
fn measured(folder: &Path) -> Result<Run> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).with_context(|| name.to_owned());
    let [before, after] = ["vmstat.before", "vmstat.after"].map(|name| read(name).map(counters));
    let (before, mut run) = (before?, after?);
    for (name, value) in &mut run {
        *value -= before.get(name).copied().unwrap_or(0.0);
    }
    let played: Value = serde_json::from_str(&read("played.json")?)?;
    for (kind, count) in played["done"].as_object().context("played.json: no processes")? {
        run.insert(kind.clone(), count.as_f64().unwrap_or(0.0));
    }
    let samples: Vec<f64> = unusable(&read("buddyinfo")?);
    ensure!(!samples.is_empty(), "buddyinfo is empty");
    run.insert("unusable".to_owned(), mean_of_last(&samples));
    Ok(run)
}

fn counters(vmstat: String) -> Run {
    let lines = vmstat.lines().filter_map(|line| line.split_once(' '));
    lines.filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?))).collect()
}

/// F_u(9) over all zones at each instant of `buddyinfo`, whose lines begin with the time.
fn unusable(buddyinfo: &str) -> Vec<f64> {
    let mut at_times: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for line in buddyinfo.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(time) = words.first().and_then(|time| time.parse::<f64>().ok()) else { continue };
        let counts = words.iter().skip(5).filter_map(|count| count.parse::<f64>().ok());
        let (free, usable) = at_times.entry((time * 100.0) as u64).or_default();
        for (order, count) in counts.enumerate() {
            let frames = count * f64::from(1u32 << order);
            *free += frames;
            *usable += if order >= 9 { frames } else { 0.0 };
        }
    }
    at_times.into_values().map(|(free, usable)| 1.0 - usable / free.max(1.0)).collect()
}

/// The mean without the first quarter, in which memory fills.
fn mean_of_last(samples: &[f64]) -> f64 {
    let last = &samples[samples.len() / 4..];
    last.iter().sum::<f64>() / last.len() as f64
}

fn simulated(scenario: &Scenario, system: &Allocator, seed: u64) -> Result<Run> {
    let scenario = Scenario { seed, ..scenario.clone() };
    let never = AtomicBool::new(false);
    let systems = std::slice::from_ref(system);
    let results = simulate::run(&scenario, systems, &mut |_, _| {}, &never)?;
    let result = results.systems.first().context("no result")?;
    let Value::Object(counters) = serde_json::to_value(result.counters)? else {
        anyhow::bail!("counters are no table");
    };
    let mut run: Run =
        counters.into_iter().filter_map(|(name, value)| Some((name, value.as_f64()?))).collect();
    run.extend(result.ended.iter().map(|(kind, count)| (kind.clone(), *count as f64)));
    let samples: Vec<f64> = result.moments.iter().map(|moment| moment.unusable_2_mib).collect();
    run.insert("unusable".to_owned(), mean_of_last(&samples));
    Ok(run)
}
