//! `prairie migrate paper`: reproduction of the paper's hardware evaluation.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use prairie_migrate::paper::{Paper, Settings, Stopped};
use prairie_migrate::params::Params;
use prairie_report::{Theme, write_atomically};
use serde::Serialize;

use super::sim::machine;
use crate::commands::seeds::{self, Seeds};
use crate::commands::survey;
use crate::files::Files;
use crate::output::{self, Header, Wanted};
use crate::progress;
use crate::view::migrate_paper as view;

/// Reproduce the hardware evaluation of the Contiguitas paper
///
/// Unavailable time of a page by number of TLBs; throughput and tail latency by migrations per
/// second; 2 MiB pages; the metadata table; the cost of one migration.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Machine file: differences from the default (Skylake-SP)
    #[arg(value_name = "FILE.toml")]
    machine: Option<PathBuf>,

    /// Requests per core and run; more give tighter bounds
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    requests: u64,

    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    seeds: Seeds,

    /// Print JSON instead of the report
    #[arg(long)]
    json: bool,

    /// Write the report as a self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write each curve as SVG and PNG into this directory
    #[arg(long, value_name = "DIR", conflicts_with = "seeds")]
    pictures: Option<PathBuf>,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        let names = view::picture_names();
        let pictures = self.pictures.iter().flat_map(|folder| {
            let name = |name: &String| ["svg", "png"].map(|ending| format!("{name}.{ending}"));
            names.iter().flat_map(name).map(|name| folder.join(name))
        });
        let pictures: Vec<PathBuf> = pictures.collect();
        Files::default()
            .input("FILE", &self.machine)
            .output("--html", &self.html)
            .output_in_new("--pictures", &pictures)
    }
}

/// Pixels of a picture for each unit of its SVG.
const PIXELS: f32 = 1.5;

const AFTER_HELP: &str = "\
Examples:
  prairie migrate paper --html contiguitas-hw.html
  prairie migrate paper --pictures figures --json > paper.json
  prairie migrate paper --requests 100                        a first look
  prairie migrate paper --requests 100 --seeds 5              mean and 95 % interval
  prairie migrate paper machine.toml --json | jq '.costs'     the cost of one migration

Runs go on all cores of the host; the results do not depend on how many there are.";

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    paper: &'a Paper,
}

fn document(paper: &Paper) -> Document<'_> {
    Document { header: Header::new("prairie-migrate-paper", 1), paper }
}

/// Runs, prints and writes as asked.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    if let Some(directory) = &args.pictures {
        // Before the runs, so that an unwritable directory fails at once.
        std::fs::create_dir_all(directory)
            .with_context(|| format!("cannot make {}", directory.display()))?;
    }
    // Once, as it may be a pipe.
    let machine = machine(args.machine.as_deref())?;
    if let Some(seeds) = args.seeds.from(args.seed) {
        let wanted = Wanted { json: args.json, html: args.html.as_deref() };
        return seeds::repeat(seeds, wanted, |seed| {
            let paper = simulate(args, &machine, seed, interrupted)?;
            Ok(paper.map(|paper| serde_json::to_value(document(&paper))).transpose()?)
        });
    }
    let Some(paper) = simulate(args, &machine, args.seed, interrupted)? else {
        return Ok(output::interrupted());
    };
    let report = view::report(&paper, survey::generated_by());
    output::publish(&report, args.json, args.html.as_deref(), || document(&paper))?;
    if let Some(directory) = &args.pictures {
        draw(&paper, directory)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All runs of the evaluation; `None` if they were interrupted.
fn simulate(
    args: &Args,
    machine: &Params,
    seed: u64,
    interrupted: &'static AtomicBool,
) -> anyhow::Result<Option<Paper>> {
    let settings = Settings {
        requests: args.requests,
        seed,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        ..Settings::new(machine.clone())
    };
    let bar = progress::bar(Some(1), "Runs");
    let paper = settings.run(&|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        !interrupted.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    match paper {
        Err(Stopped::Interrupted) => Ok(None),
        other => Ok(Some(other?)),
    }
}

/// Writes every curve, as SVG and as PNG.
fn draw(paper: &Paper, directory: &Path) -> anyhow::Result<()> {
    let pictures = view::pictures(paper);
    for (name, chart) in &pictures {
        let png = chart.png(Theme::Light, PIXELS)?;
        write_atomically(
            &directory.join(name).with_extension("svg"),
            chart.svg(Theme::Auto).as_bytes(),
        )?;
        write_atomically(&directory.join(name).with_extension("png"), &png)?;
    }
    output::say(format_args!("wrote {} pictures into {}", pictures.len(), directory.display()));
    Ok(())
}
