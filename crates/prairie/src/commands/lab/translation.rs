//! `prairie lab translation`: from contiguity to speed.

use std::process::ExitCode;

use prairie_model::random::{Quantity, Size};
use prairie_sim::translation::hardware::Hardware;
use prairie_sim::translation::study::{Assumptions, Figure, figure};
use serde::Serialize;

use crate::commands::seeds::{self, Seeds};
use crate::commands::survey;
use crate::output::{Answer, Header, Wanted, no_files};
use crate::usage_error::refuse;
use crate::view::lab as view;

/// Estimate speedups by huge pages on a fragmented machine
///
/// Fragments a simulated machine under Linux and under Contiguitas, gives a program the remaining
/// pages, and models the cost of its address translation with TLBs and page walks.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Memory of the fragmented machine, 1G to 64G
    #[arg(long, value_name = "SIZE", default_value = "8G", value_parser = memory)]
    memory: u64,

    /// Degrees of partial and full fragmentation, 0 to 1
    #[arg(
        long,
        value_name = "PARTIAL,FULL",
        value_delimiter = ',',
        num_args = 1,
        default_value = "0.3,1"
    )]
    degrees: Vec<f64>,

    /// Zipf exponent of accesses, in (0, 2] except 1
    #[arg(long, value_name = "N", default_value_t = 0.99)]
    skew: f64,

    /// Cycles that `web` spends on translation with 4 KiB pages, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0)]
    walk_share: f64,

    /// Page accesses to count
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    visits: u64,

    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    #[command(flatten)]
    seeds: Seeds,

    /// Print JSON instead of the report
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  prairie lab translation                       all four workloads
  prairie lab translation --degrees 0.1,0.6     other degrees of fragmentation
  prairie lab translation --json | jq '.programs[].gains'";

fn memory(text: &str) -> Result<u64, String> {
    let bytes = Size::parse(text)? as u64;
    if !(1 << 30..=64 << 30).contains(&bytes) {
        return Err("expected a size from 1G to 64G".to_owned());
    }
    // Whole pageblocks.
    Ok(bytes >> 12 >> 9 << 9)
}

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    figure: &'a Figure,
}

/// Computes and prints.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let &[partial, full] = args.degrees.as_slice() else {
        refuse!("--degrees: expected two, partial and full");
    };
    if !(0.0..=1.0).contains(&partial) || !(0.0..=1.0).contains(&full) {
        refuse!("--degrees {partial},{full}: expected degrees from 0 to 1");
    }
    if !(args.skew > 0.0 && args.skew <= 2.0) || args.skew == 1.0 {
        refuse!("--skew {}: expected a number in (0, 2] except 1", args.skew);
    }
    if !(args.walk_share > 0.0 && args.walk_share < 100.0) {
        refuse!("--walk-share {}: expected a percentage in (0, 100)", args.walk_share);
    }
    let assumptions = |seed| Assumptions {
        skew: args.skew,
        walk_share: args.walk_share / 100.0,
        degrees: [partial, full],
        frames: args.memory,
        visits: args.visits,
        seed,
        ..Assumptions::default()
    };
    let wanted = Wanted { json: args.json, html: None };
    if let Some(seeds) = args.seeds.from(args.seed) {
        return seeds::repeat(seeds, wanted, |seed| {
            let figure = figure(&Hardware::default(), &assumptions(seed))?;
            Ok(Some(serde_json::to_value(document(&figure))?))
        });
    }
    let figure = figure(&Hardware::default(), &assumptions(args.seed))?;
    let report = view::translation::report(&figure, survey::generated_by());
    Answer::whole(document(&figure), report).finish(&wanted, no_files)
}

fn document(figure: &Figure) -> Document<'_> {
    Document { header: Header::new("prairie-lab-translation", 1), figure }
}
