//! `prairie allocators`: policies of one's own.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::output;

/// Write a placement policy of your own, without a fork
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: PoliciesCommand,
}

#[derive(Subcommand)]
enum PoliciesCommand {
    New(NewArgs),
}

/// Copy the template of a policy in Rust into a new directory
///
/// The crate builds a shared library, without dependencies, that `prairie replay --policy` loads.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct NewArgs {
    /// Directory to make; its name becomes the crate's
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

const AFTER_HELP: &str = "\
Examples:
  prairie allocators new mine
  cargo build --release --manifest-path mine/Cargo.toml
  prairie replay trace.parquet --policy mine/target/release/libmine.so";

/// Runs the subcommand.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let PoliciesCommand::New(args) = &args.command;
    prairie_policy::template::write(&args.folder)?;
    output::wrote(&args.folder);
    Ok(ExitCode::SUCCESS)
}
