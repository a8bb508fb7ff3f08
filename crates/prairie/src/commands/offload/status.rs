//! `prairie offload status`: what the daemon does, and why not more.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use prairie_offload::status::{Status, ask};

use crate::output;
use crate::view::offload as view;

/// Show what the daemon saves, and for each container why it takes nothing more
#[derive(clap::Args)]
pub struct Args {
    /// Where the daemon answers
    #[arg(long, value_name = "SOCKET", default_value = "/run/prairie/offload.sock")]
    socket: PathBuf,

    /// Print the whole status as JSON
    #[arg(long)]
    json: bool,
}

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
