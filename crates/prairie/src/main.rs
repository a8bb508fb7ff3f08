//! The command `prairie`: reads arguments, calls the other crates, prints the results.

mod commands;
mod files;
mod interrupt;
mod output;
mod progress;
mod view;

use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};

/// Measure, explain and reduce physical-memory fragmentation
#[derive(Parser)]
#[command(version, max_term_width = 100, after_help = format!("{DISPLAY}\n\n{EXIT_CODES}"))]
struct Cli {
    #[command(subcommand)]
    command: commands::Command,

    #[command(flatten)]
    display: output::Display,
}

const EXIT_CODES: &str = "\
Exit codes:
  0    success
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted; no partial files are left";

const DISPLAY: &str = "\
Options of every report, before or after the command:
  --format <text|md|csv|json>  Text, Markdown, tables as CSV, or the JSON document
  --width <N>                  Columns of text [default: terminal, COLUMNS, or 100]
  --ascii                      No typographic signs, as in a pipe
  --no-pager                   No pager on a terminal [default: PRAIRIE_PAGER, PAGER, less]
  --svg <DIR>                  Write every chart and map of the report as SVG";

fn main() -> ExitCode {
    let command = with_exit_codes(Cli::command());
    let matches = command.get_matches_from(output::as_json(std::env::args_os()));
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    describe(&cli, &matches);
    cli.display.apply();
    let interrupted = interrupt::flag(!cli.command.handles_signals());
    match cli.command.run(interrupted, with_exit_codes(Cli::command())) {
        Ok(code) => code,
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::say(joined_causes(&error));
            ExitCode::FAILURE
        }
    }
}

/// Describes this run for the outputs that it writes.
fn describe(cli: &Cli, matches: &ArgMatches) {
    prairie_provenance::describe(prairie_provenance::Program {
        arguments: std::env::args_os().collect(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("PRAIRIE_BUILD_COMMIT").map(str::to_owned),
        inputs: cli.command.files().inputs(),
    });
    let mut leaf = matches;
    while let Some((_, below)) = leaf.subcommand() {
        leaf = below;
    }
    // Seeds are numbers, given or by default; a scenario's seed is set where it is read.
    let seed = leaf.try_get_one::<u64>("seed").ok().flatten();
    if let Some(seed) = seed {
        prairie_provenance::set_seed(*seed);
    }
}

/// Adds the exit codes to the help of every command that does not list its own.
fn with_exit_codes(command: clap::Command) -> clap::Command {
    if command.has_subcommands() {
        return command.mut_subcommands(with_exit_codes);
    }
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    match help.contains("Exit codes:") {
        true => command,
        false => command.after_help(format!("{help}\n\n{EXIT_CODES}")),
    }
}

/// An error and its causes in one line. A cause that its error already quotes is not repeated.
fn joined_causes(error: &anyhow::Error) -> String {
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
    use std::any::TypeId;
    use std::path::{Path, PathBuf};

    use anyhow::anyhow;
    use clap::builder::Arg;
    use clap::{CommandFactory, Parser};

    use super::{Cli, joined_causes, with_exit_codes};

    /// Help is written to be scanned: one short line for each option, an example, the exit codes.
    #[test]
    fn help_is_short_and_complete() {
        for (words, command) in leaves(&with_exit_codes(Cli::command()), Vec::new()) {
            if command.is_hide_set() || words == ["help"] {
                continue;
            }
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && about.len() < 70, "{words:?}: {about}");
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Examples:") && after.contains("Exit codes:"), "{words:?}");
            for arg in command.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                let starts_well = help.starts_with(|c: char| c.is_uppercase());
                assert!(help.len() < 70 && starts_well, "{words:?} {}: {help}", arg.get_id());
            }
        }
    }

    /// Path arguments that name no file to be read or written whole: a socket, and directories
    /// whose files are registered one by one.
    const NO_FILES: [&str; 4] =
        ["offload status socket", "regions status socket", "top socket", "replay against"];

    /// A command that takes a path and does not register it could replace its own input.
    #[test]
    fn every_path_argument_is_registered() {
        let mut checked = 0;
        for (words, command) in leaves(&Cli::command(), Vec::new()) {
            for arg in command.get_arguments().filter(|arg| is_path(arg)) {
                let line = command_line(&words, &command, arg);
                if NO_FILES.contains(&format!("{} {}", words.join(" "), arg.get_id()).as_str()) {
                    continue;
                }
                let cli = Cli::try_parse_from(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
                assert!(cli.command.files().names(Path::new("named.png")), "{line:?}");
                checked += 1;
            }
        }
        assert!(checked >= 40, "only {checked} path arguments were found");
    }

    /// The commands without subcommands, each with its full name.
    fn leaves(command: &clap::Command, words: Vec<String>) -> Vec<(Vec<String>, clap::Command)> {
        if !command.has_subcommands() {
            return vec![(words, command.clone())];
        }
        let below = command.get_subcommands().flat_map(|below| {
            leaves(below, [words.clone(), vec![below.get_name().to_owned()]].concat())
        });
        below.collect()
    }

    fn is_path(arg: &Arg) -> bool {
        arg.get_value_parser().type_id() == TypeId::of::<PathBuf>()
    }

    /// The command with what it requires, and `arg` as `named.png`.
    fn command_line(words: &[String], command: &clap::Command, arg: &Arg) -> Vec<String> {
        let mut line = vec!["prairie".to_owned()];
        line.extend_from_slice(words);
        let mut last = Vec::new();
        for each in command.get_arguments() {
            let is_arg = each.get_id() == arg.get_id();
            if !is_arg && !each.is_required_set() {
                continue;
            }
            let value = if is_arg { "named.png" } else { "1" }.to_owned();
            match (each.get_long(), each.is_last_set()) {
                (Some(long), _) => line.extend([format!("--{long}"), value]),
                (None, false) => line.push(value),
                (None, true) => last.extend(["--".to_owned(), value]),
            }
        }
        [line, last].concat()
    }

    #[test]
    fn a_cause_is_printed_once() {
        let error = anyhow!("no such file").context("cannot read x: no such file");
        assert_eq!(joined_causes(&error), "cannot read x: no such file");
        let error = anyhow!("no such file").context("cannot read x").context("the trace");
        assert_eq!(joined_causes(&error), "the trace: cannot read x: no such file");
        let error = anyhow!("no such file").context("no such file: x");
        assert_eq!(joined_causes(&error), "no such file: x: no such file");
        let error = read_error().context("a.parquet");
        assert_eq!(joined_causes(&error), "a.parquet: cannot read b: gone");
    }

    fn read_error() -> anyhow::Error {
        let source = std::io::Error::other("gone");
        prairie_trace::Error::Read { path: "b".into(), source }.into()
    }
}
