//! `prairie regions status`: region sizes, free memory, pressures, operations.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::commands::daemon::print_status;
use crate::view::regions as view;

/// Show region sizes, reserves, pressures, and the last operations
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Socket of the daemon
    #[arg(long, value_name = "SOCKET", default_value = "/run/prairie/regions.sock")]
    socket: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  prairie regions status
  prairie regions status --json | jq .movable_gigabytes";

/// Asks and prints.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    print_status(&args.socket, "prairie regions run", args.json, view::status)
}
