//! What the simulated machine predicts for the regions daemon, beside what was measured on a real
//! kernel.
//!
//! ```text
//! regions_prediction SCENARIO SEEDS KERNEL MEASURED
//! ```
//!
//! `MEASURED` is a result file with a row for each agent on that kernel, such as
//! `results/regions-mixed.json`.

use std::fs;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use experiments::document::Document;
use prairie_compare::Spread;
use prairie_model::allocator::Allocator;
use prairie_model::sample::Tally;
use prairie_sim::machine::Machine;
use prairie_sim::machine::scenario::{self, Scenario};
use prairie_sim::simulate;
use serde_json::Value;

/// The agents of the measurement, and the options of the allocator that should do the same.
const AGENTS: [(&str, &str); 2] = [("stock", ""), ("daemon", "+regions")];

/// What is compared: its name, the column of the measurement, and whether it is of the daemon alone.
const ROWS: [(&str, &str); 6] = [
    ("32 MiB areas without an unmovable frame, %", "32 MiB areas without unmovable frames"),
    ("2 MiB areas, %", "2 MiB areas"),
    ("blocks to kernel", "to kernel"),
    ("blocks to movable", "to movable"),
    ("kernel requests stalled", "kernel requests stalled"),
    ("OOM kills", "OOM kills"),
];

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, seeds, kernel, measured] = &words[..] else {
        anyhow::bail!("expected SCENARIO SEEDS KERNEL MEASURED");
    };
    let read = |path: &String| fs::read_to_string(path).with_context(|| path.clone());
    let (scenario, seeds) = (scenario::parse(&read(file)?)?, seeds.parse::<u64>()?);
    let measured: Value = serde_json::from_str(&read(measured)?)?;
    let mut columns = vec!["".to_owned()];
    let mut sides = Vec::new();
    for (agent, options) in AGENTS {
        let system: Allocator = format!("linux@{kernel}{options}")
            .parse()
            .map_err(|error| anyhow::anyhow!("{error}"))?;
        columns.extend([format!("`{}`", system.name()), format!("{agent}, measured")]);
        let runs = (1..=seeds).map(|seed| predicted(&scenario, &system, seed));
        sides.push((agent, runs.collect::<Result<Vec<_>>>()?));
    }
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let rounds = format!("{seeds} seeds; mean ± half of the 95 % interval");
    let mut document = Document::new("regions-prediction", &columns, rounds);
    for (at, (name, column)) in ROWS.iter().enumerate() {
        let mut cells = Vec::new();
        for (agent, runs) in &sides {
            let values: Vec<f64> = runs.iter().map(|run| run[at]).collect();
            cells.extend([cell(&values), found(&measured, kernel, agent, column)?]);
        }
        document.row(*name, cells);
    }
    println!("{}", serde_json::to_string_pretty(&[document])?);
    Ok(())
}

/// The values of [`ROWS`] at the end of a run.
fn predicted(scenario: &Scenario, system: &Allocator, seed: u64) -> Result<[f64; 6]> {
    let scenario = Scenario { seed, ..scenario.clone() };
    let mut machine = Machine::new(&scenario, system)?;
    let simulated_ns = scenario.phases.iter().map(|phase| phase.duration.0).sum();
    let never = AtomicBool::new(false);
    simulate::live(&mut machine, &scenario, simulated_ns, &mut |_| {}, &never);
    machine.validate();
    let frames = scenario.machine.memory.frames() as f64;
    let clean = Tally::of(machine.memory().table.blocks()).potential;
    let share = |blocks: u64, mib: f64| 100.0 * blocks as f64 * mib * 256.0 / frames;
    let done = machine.regions_daemon().map(|daemon| daemon.conversions()).unwrap_or_default();
    let counters = machine.counters();
    let stalls = counters.allocstall_dma + counters.allocstall_dma32 + counters.allocstall_normal;
    Ok([
        share(clean.mib_32, 32.0),
        share(clean.mib_2, 2.0),
        done.to_kernel as f64,
        done.to_movable as f64,
        stalls as f64,
        counters.oom_kill as f64,
    ])
}

fn cell(values: &[f64]) -> String {
    let Some(spread) = Spread::of(values) else { return String::new() };
    let half = spread.interval().map_or(0.0, |interval| (interval.high - interval.low) / 2.0);
    let digits = usize::from(half > 0.0 || spread.mean.fract() != 0.0);
    match half > 0.0 {
        true => format!("{:.digits$} ± {half:.digits$}", spread.mean),
        false => format!("{:.digits$}", spread.mean),
    }
}

/// The cell of the measurement's row for this kernel and agent.
fn found(measured: &Value, kernel: &str, agent: &str, column: &str) -> Result<String> {
    let columns = measured["columns"].as_array().context("a result without columns")?;
    let at = columns.iter().position(|known| known["name"] == column).context(column.to_owned())?;
    let rows = measured["rows"].as_array().context("a result without rows")?;
    let row = rows.iter().find(|row| row[0] == kernel && row[1] == agent);
    let cell = &row.with_context(|| format!("{kernel}, {agent}"))?[at];
    Ok(cell.as_str().map_or_else(|| cell.to_string(), str::to_owned))
}
