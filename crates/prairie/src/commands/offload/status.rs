//! `prairie offload status`: the daemon's savings and limits.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use prairie_offload::status::{Status, ask};

use crate::output;
use crate::view::offload as view;

/// Show what the daemon saves, and what limits it per container
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Socket of the daemon
    #[arg(long, value_name = "SOCKET", default_value = "/run/prairie/offload.sock")]
    socket: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  prairie offload status
  prairie offload status --json | jq .containers";

/// Asks and prints.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let status: Status = ask(&args.socket).with_context(|| {
        format!("{}: no daemon answers; `prairie offload run` starts one", args.socket.display())
    })?;
    if args.json {
        output::print_json(&status)?;
    } else {
        output::print_report(&view::status(&status))?;
    }
    Ok(ExitCode::SUCCESS)
}
