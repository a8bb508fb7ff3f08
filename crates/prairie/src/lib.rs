//! The command `prairie`: reads arguments, calls the other crates, prints the results.
//!
//! The binary calls [`main`]. The Python module calls [`ask`], which takes the same arguments and
//! returns what the command would have printed, so that both agree.

mod called_as;
mod commands;
mod files;
mod interrupt;
mod output;
mod progress;
#[cfg(test)]
#[path = "../tests/schema/mod.rs"]
mod schema;
mod standard_output;
mod usage_error;
mod view;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser};
use prairie_provenance::{Program, Run};
use prairie_replay::run::Guest;

pub use output::Answer;
pub use progress::{Observed, Progress};
pub use standard_output::note_if_closed;

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
  --no-pager                   Print long reports without PRAIRIE_PAGER, PAGER, or less
  --svg <DIR>                  Write every chart and map of the report as SVG";

const REPORT_OPTIONS: &str =
    "\n\nOptions of every report (--format, --width, --ascii, --no-pager, --svg): prairie --help";

/// Runs the command with its arguments; the first one is the program's name.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    called_as::set(called_as::command_line(arguments.iter().skip(1)));
    let command = prairie_provenance::command_line(&arguments);
    let mut whole = with_common_help(Cli::command());
    let arguments = output::as_json(arguments.into_iter(), &whole);
    let (cli, matches) = match parsed(arguments, &mut whole) {
        Ok(found) => found,
        Err(message) => return print_message(&message),
    };
    prairie_provenance::describe(program(command, cli.command.files().inputs()));
    if let Some(seed) = seed(&matches) {
        prairie_provenance::set_seed(seed);
    }
    cli.display.apply();
    let interrupted = interrupt::flag(!cli.command.handles_signals());
    // A daemon lives long, and these are hundreds of kilobytes.
    drop((whole, matches));
    match cli.command.run(interrupted, || with_common_help(Cli::command())) {
        Ok(code) => code,
        Err(error) => failed(&error),
    }
}

/// Describes a run of the command for the outputs that it writes.
fn program(command: String, inputs: Vec<PathBuf>) -> Program {
    Program {
        command,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("PRAIRIE_BUILD_COMMIT").map(str::to_owned),
        inputs,
    }
}

/// A call that is no command, such as a sweep, for the outputs that name it.
pub fn called(called_as: String, inputs: Vec<PathBuf>) -> Run {
    Run::new(program(called_as, inputs))
}

/// The command line as clap understands it, or its message: help, the version, a usage error.
fn parsed(
    arguments: Vec<OsString>,
    whole: &mut clap::Command,
) -> Result<(Cli, ArgMatches), clap::Error> {
    let matches = whole.try_get_matches_from_mut(arguments)?;
    let cli = Cli::from_arg_matches(&matches)?;
    refuse_formats(&cli.display, &matches, whole)?;
    Ok((cli, matches))
}

/// Prints a message of clap. Its own way to exit ignores a failure to print help.
fn print_message(message: &clap::Error) -> ExitCode {
    if message.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        message.exit();
    }
    if message.use_stderr() {
        output::say(format!("{} (see --help)", usage_error::line(message)));
        return ExitCode::from(2);
    }
    match standard_output::print(|| message.print()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// Reports that a command failed, unless the reader of its output closed it.
fn failed(error: &anyhow::Error) -> ExitCode {
    if output::is_closed_pipe(error) {
        return ExitCode::SUCCESS;
    }
    if error.chain().any(|cause| cause.is::<usage_error::Misuse>()) {
        output::say(format!("{} (see --help)", joined_causes(error)));
        return ExitCode::from(2);
    }
    output::say(joined_causes(error));
    ExitCode::FAILURE
}

/// Refuses a format other than text, and charts, for a command whose output is no result: a page of
/// metrics, a screen, the log of a daemon. Refuses two formats.
fn refuse_formats(
    display: &output::Display,
    matches: &ArgMatches,
    root: &mut clap::Command,
) -> Result<(), clap::Error> {
    let (mut matches, mut leaf) = (matches, root);
    while let Some((name, below)) = matches.subcommand() {
        matches = below;
        leaf = leaf.find_subcommand_mut(name).expect("clap found the command");
    }
    let has_json = output::has_json(leaf);
    let message = match (&display.svg, display.format) {
        (Some(folder), _) if !has_json => {
            format!("--svg {}: this command prints no report", folder.display())
        }
        (_, format) if !format.is_text() && !has_json => {
            format!("--format {format}: this command prints only text")
        }
        (_, format) if !format.is_text() && matches.get_flag("json") => {
            format!("--format {format}: not with --json")
        }
        _ => return Ok(()),
    };
    Err(leaf.error(ErrorKind::InvalidValue, message))
}

/// The seed that the command line names, or its default; a scenario's seed is set where it is read.
fn seed(matches: &ArgMatches) -> Option<u64> {
    let mut leaf = matches;
    while let Some((_, below)) = leaf.subcommand() {
        leaf = below;
    }
    leaf.try_get_one("seed").ok().flatten().copied()
}

/// What a call of [`ask`] comes with.
pub struct Asking<'a> {
    /// Stops the work once it is set.
    pub interrupted: &'a AtomicBool,
    /// Policies that a replay runs after the allocators that its arguments name.
    pub guests: Vec<Guest>,
    /// The call, for the outputs that name what made them.
    pub called_as: String,
    /// Where progress goes, instead of the terminal.
    pub progress: Progress,
}

/// The answer of a call of [`ask`].
pub struct Answered {
    /// The document as `--json` prints it, and the report.
    pub answer: Answer<String>,
    /// The call. What is written of the report belongs within it.
    pub run: Run,
}

/// Does the work of a command and returns its document as `--json` prints it, and its report. Files
/// that the arguments name as outputs are not written, but for the parts of a fleet.
///
/// # Errors
/// One line, as the command prints it.
pub fn ask(arguments: Vec<OsString>, asking: Asking<'_>) -> Result<Answered, String> {
    let matches = Cli::command()
        .try_get_matches_from(arguments)
        .map_err(|error| usage_error::line(&error))?;
    let cli = Cli::from_arg_matches(&matches).map_err(|error| usage_error::line(&error))?;
    called_as::set(asking.called_as.clone());
    let run = Run::new(program(asking.called_as, cli.command.files().inputs()));
    if let Some(seed) = seed(&matches) {
        run.set_seed(seed);
    }
    progress::observe(Some(asking.progress));
    let answer = run.within(|| cli.command.ask(asking.guests, asking.interrupted));
    progress::observe(None);
    match answer {
        Ok(answer) => Ok(Answered { answer, run }),
        Err(error) => Err(joined_causes(&error)),
    }
}

/// Adds to the help of every command its exit codes, unless it lists its own, and to that of every
/// command that reports where the options of reports are listed.
fn with_common_help(command: clap::Command) -> clap::Command {
    if command.has_subcommands() {
        return command.mut_subcommands(with_common_help);
    }
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let reports = command.get_arguments().any(|arg| arg.get_id() == "json");
    let pointer = if reports { REPORT_OPTIONS } else { "" };
    let codes = match help.contains("Exit codes:") {
        true => String::new(),
        false => format!("\n\n{EXIT_CODES}"),
    };
    command.after_help(format!("{help}{codes}{pointer}"))
}

/// An error and its causes in one line. A cause that its error already quotes is not repeated, and
/// the numbers of the system's errors, which their texts already name, are left out.
fn joined_causes(error: &anyhow::Error) -> String {
    error.chain().fold(String::new(), |line, cause| {
        let text = without_error_number(&cause.to_string());
        match line.as_str() {
            "" => text,
            told if told.ends_with(&text) => line,
            told => format!("{told}: {text}"),
        }
    })
}

fn without_error_number(text: &str) -> String {
    const BEGIN: &str = " (os error ";
    let mut parts = text.split(BEGIN);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| match part.split_once(')') {
        Some((number, rest)) if number.parse::<i32>().is_ok() => line + rest,
        _ => line + BEGIN + part,
    })
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;
    use std::path::{Path, PathBuf};

    use anyhow::anyhow;
    use clap::builder::Arg;
    use clap::{CommandFactory, Parser};

    use super::{Cli, joined_causes, with_common_help, without_error_number};

    /// Help is written to be scanned: one short line for each option, an example, the exit codes.
    #[test]
    fn help_is_short_and_complete() {
        for (words, command) in leaves(&with_common_help(Cli::command()), Vec::new()) {
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
                for value in arg.get_possible_values() {
                    let help = value.get_help().map(ToString::to_string).unwrap_or_default();
                    let starts_well = !help.starts_with(|c: char| c.is_lowercase());
                    assert!(help.len() < 70 && starts_well, "{words:?} {}: {help}", arg.get_id());
                }
            }
        }
    }

    /// Path arguments that name no file to be read or written whole: a socket, directories whose
    /// files are registered one by one, and one that must not exist.
    const NO_FILES: [&str; 5] = [
        "offload status socket",
        "regions status socket",
        "top socket",
        "replay against",
        "allocators new folder",
    ];

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
                assert!(cli.command.files().names(Path::new(name_for(arg))), "{line:?}");
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

    /// A name that the argument accepts.
    fn name_for(arg: &Arg) -> &'static str {
        let takes = arg.get_value_names().unwrap_or_default();
        if takes.iter().any(|name| name.ends_with(".prom")) { "named.prom" } else { "named.png" }
    }

    /// The command with what it requires, and a file for `arg`.
    fn command_line(words: &[String], command: &clap::Command, arg: &Arg) -> Vec<String> {
        let mut line = vec!["prairie".to_owned()];
        line.extend_from_slice(words);
        let mut last = Vec::new();
        for each in command.get_arguments() {
            let is_arg = each.get_id() == arg.get_id();
            if !is_arg && !each.is_required_set() {
                continue;
            }
            let value = if is_arg { name_for(arg) } else { "1" }.to_owned();
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
        let error = "cannot read x: Permission denied (os error 13); run as root";
        assert_eq!(without_error_number(error), "cannot read x: Permission denied; run as root");
        assert_eq!(without_error_number("x (os error y) z"), "x (os error y) z");
    }

    fn read_error() -> anyhow::Error {
        let source = std::io::Error::other("gone");
        prairie_trace::Error::Read { path: "b".into(), source }.into()
    }
}
