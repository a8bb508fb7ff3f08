//! `prairie completions`: what a shell needs to complete commands and options.

use std::process::ExitCode;

use clap_complete::Shell;

use crate::standard_output;

/// Print completions for a shell
///
/// Packages install them; without a package, put them where the shell looks for them.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Shell to complete in
    #[arg(value_enum)]
    shell: Shell,
}

const AFTER_HELP: &str = "\
Examples:
  prairie completions bash >~/.local/share/bash-completion/completions/prairie
  prairie completions zsh >~/.zfunc/_prairie
  prairie completions fish >~/.config/fish/completions/prairie.fish";

/// Prints them.
pub fn run(args: &Args, mut command: clap::Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "prairie", &mut script);
    standard_output::write(&script)?;
    Ok(ExitCode::SUCCESS)
}
