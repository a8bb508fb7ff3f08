//! `prairie offload status`: the daemon's savings and limits.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::commands::daemon::print_status;
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
    print_status(&args.socket, "prairie offload run", args.json, view::status)
}
