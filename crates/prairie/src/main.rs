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
    let interrupted = interrupt::flag(!cli.command.handles_signals());
    match cli.command.run(interrupted) {
        Ok(code) => code,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("prairie: {}", told_once(&error));
            ExitCode::FAILURE
        }
    }
}

/// An error and its causes in one line. Some errors end with the text of their cause: it is not
/// said again.
fn told_once(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |line, cause| {
        let text = cause.to_string();
        match line.as_str() {
            "" => text,
            told if told.ends_with(&text) => line,
            told => format!("{told}: {text}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::told_once;

    #[test]
    fn a_cause_is_told_once() {
        let error = anyhow!("no such file").context("cannot read x: no such file");
        assert_eq!(told_once(&error), "cannot read x: no such file");
        let error = anyhow!("no such file").context("cannot read x").context("the trace");
        assert_eq!(told_once(&error), "the trace: cannot read x: no such file");
        let error = anyhow!("no such file").context("no such file: x");
        assert_eq!(told_once(&error), "no such file: x: no such file");
        let error = read_error().context("a.parquet");
        assert_eq!(told_once(&error), "a.parquet: cannot read b: gone");
    }

    fn read_error() -> anyhow::Error {
        let source = std::io::Error::other("gone");
        prairie_trace::Error::Read { path: "b".into(), source }.into()
    }
}
