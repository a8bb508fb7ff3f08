//! `prairie man`: manual pages, for packages. Not listed in the help.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::files::Files;

/// Write a manual page for each command
#[derive(clap::Args)]
#[command(hide = true)]
pub struct Args {
    /// Directory for the pages
    folder: PathBuf,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().output_in_new("FOLDER", [&self.folder.join("prairie.1")])
    }
}

/// Writes `prairie.1`, `prairie-survey.1`, and so on.
pub fn run(args: &Args, command: clap::Command) -> anyhow::Result<ExitCode> {
    let cannot = || format!("cannot write manual pages to {}", args.folder.display());
    std::fs::create_dir_all(&args.folder).with_context(cannot)?;
    let command = command.disable_help_subcommand(true);
    clap_mangen::generate_to(command, &args.folder).with_context(cannot)?;
    Ok(ExitCode::SUCCESS)
}
