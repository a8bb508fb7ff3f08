//! The command `prairie`: reads arguments, calls the other crates, prints what they found.

mod commands;
mod interrupt;
mod output;
mod progress;
mod view;

use std::process::ExitCode;

use clap::Parser;

/// Shows how fragmented a Linux machine's memory is and why, and what each known remedy would
/// have done.
#[derive(Parser)]
#[command(version, max_term_width = 100, after_help = EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    not done; one line on standard error says what, where and what would be right
  2    the command line was not understood
  130  interrupted; files are written whole or not at all
`prairie record -- COMMAND` ends with the exit code of COMMAND if that is not 0.";

fn main() -> ExitCode {
    let cli = Cli::parse();
    let interrupted = interrupt::flag();
    match cli.command.run(interrupted) {
        Ok(code) => code,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prairie: {error:#}");
            ExitCode::FAILURE
        }
    }
}
