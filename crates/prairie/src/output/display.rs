//! Options of every report: format, width, signs, pager, charts as files.

use std::ffi::OsString;
use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::ValueEnum;
use prairie_report::Terminal;
use prairie_report::terminal::{Overrides, set_overrides};

/// The widths that may be asked for.
const WIDTHS: RangeInclusive<i64> = Terminal::LEAST_WIDTH as i64..=Terminal::MOST_WIDTH as i64;

/// Options of every report. The help of `prairie` lists them, not that of each command.
#[derive(Clone, Debug, clap::Args)]
pub struct Display {
    /// Format of the report
    #[arg(long, global = true, hide = true, value_enum, default_value_t = Format::Text)]
    pub format: Format,

    /// Columns of text
    #[arg(long, global = true, hide = true, value_name = "N", value_parser = clap::value_parser!(u16).range(WIDTHS))]
    pub width: Option<u16>,

    /// No typographic signs
    #[arg(long, global = true, hide = true)]
    pub ascii: bool,

    /// No pager on a terminal
    #[arg(long, global = true, hide = true)]
    pub no_pager: bool,

    /// Directory for every chart and map of the report
    #[arg(long, global = true, hide = true, value_name = "DIR")]
    pub svg: Option<PathBuf>,
}

/// The format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text for a terminal or a mail.
    #[default]
    Text,
    /// Markdown.
    Md,
    /// All tables as one CSV: section, table, row, column, value.
    Csv,
    /// The JSON document of the command.
    Json,
}

impl Format {
    pub fn is_text(self) -> bool {
        self == Format::Text
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value().expect("no format is hidden");
        f.write_str(value.get_name())
    }
}

static DISPLAY: OnceLock<Display> = OnceLock::new();
static SVG_TAKEN: AtomicBool = AtomicBool::new(false);

impl Display {
    /// Makes these the options of all output of the process.
    pub fn apply(&self) {
        set_overrides(Overrides { width: self.width.map(usize::from), ascii: self.ascii });
        // Arguments are read once.
        let _ = DISPLAY.set(self.clone());
    }

    /// The directory for charts, if requested; only the first time, as commands print a report and
    /// write it as a page.
    pub fn take_svg(&self) -> Option<&Path> {
        let folder = self.svg.as_deref()?;
        (!SVG_TAKEN.swap(true, Ordering::Relaxed)).then_some(folder)
    }
}

/// The options in force.
pub fn display() -> &'static Display {
    DISPLAY.get_or_init(|| Display {
        format: Format::Text,
        width: None,
        ascii: false,
        no_pager: false,
        svg: None,
    })
}

/// The arguments with `--json` behind the name of the command in place of `--format json`, so that
/// every command that has a JSON document prints it. What follows `--` is another program's.
pub fn as_json(arguments: impl Iterator<Item = OsString>, root: &clap::Command) -> Vec<OsString> {
    let arguments: Vec<OsString> = arguments.collect();
    // The options of `heap run` end where the program begins, with or without `--`.
    if arguments[name_of_command(&arguments, root).words] == ["heap", "run"] {
        return arguments;
    }
    let own = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    let mut kept: Vec<OsString> = Vec::new();
    let mut rest = arguments[..own].iter().peekable();
    while let Some(argument) = rest.next() {
        let is_pair = argument == "--format" && rest.next_if(|next| *next == "json").is_some();
        if !is_pair && argument != "--format=json" {
            kept.push(argument.clone());
        }
    }
    let Name { words, command } = name_of_command(&kept, root);
    if kept.len() == own || !has_json(command) {
        return arguments;
    }
    kept.insert(words.end, "--json".into());
    kept.extend_from_slice(&arguments[own..]);
    kept
}

/// Whether a command has results that can be printed in other formats than text.
pub fn has_json(command: &clap::Command) -> bool {
    command.get_arguments().any(|argument| argument.get_id() == "json")
}

/// The name of a command in a command line.
struct Name<'a> {
    /// Where its words are.
    words: Range<usize>,
    command: &'a clap::Command,
}

/// Finds the name of the command. Global options may stand before it.
fn name_of_command<'a>(arguments: &[OsString], root: &'a clap::Command) -> Name<'a> {
    let mut begin = 1;
    while let Some(option) = arguments.get(begin).and_then(|word| word.to_str()) {
        match option {
            "--format" | "--width" | "--svg" => begin += 2,
            _ if option.starts_with('-') => begin += 1,
            _ => break,
        }
    }
    let begin = begin.min(arguments.len());
    let (mut end, mut command) = (begin, root);
    while let Some(found) = arguments.get(end).and_then(|word| command.find_subcommand(word)) {
        (end, command) = (end + 1, found);
    }
    Name { words: begin..end, command }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_json_is_the_json_of_the_command() {
        let with_json = |name| clap::Command::new(name).arg(clap::Arg::new("json").long("json"));
        let heap = ["run", "stats"].map(with_json);
        let root = clap::Command::new("prairie")
            .subcommands(["survey", "record"].map(with_json))
            .subcommand(clap::Command::new("heap").subcommands(heap))
            .subcommand(clap::Command::new("export"));
        let replaced = |line: &str| {
            let words = as_json(line.split(' ').map(OsString::from), &root);
            words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            replaced("prairie survey --format json --top 3"),
            "prairie survey --json --top 3"
        );
        assert_eq!(replaced("prairie survey --format=json"), "prairie survey --json");
        assert_eq!(
            replaced("prairie --format json survey --top 3"),
            "prairie survey --json --top 3"
        );
        assert_eq!(
            replaced("prairie --width 80 --format=json heap stats 7"),
            "prairie --width 80 heap stats --json 7"
        );
        assert_eq!(replaced("prairie heap --format json stats 7"), "prairie heap stats --json 7");
        assert_eq!(replaced("prairie record --format json -- t"), "prairie record --json -- t");
        assert_eq!(replaced("prairie survey --format md"), "prairie survey --format md");
        for other in [
            "prairie",
            "prairie --width",
            "prairie heap run tool --format json",
            "prairie --width 80 heap run tool --format json",
            "prairie record -- t --format json",
            "prairie export --format json",
        ] {
            assert_eq!(replaced(other), other);
        }
    }
}
