//! The examples of the guide are run.
//!
//! In the pages of `docs/`, a fenced block marked `console` shows a session. Each of its lines that
//! begins with `$ prairie` is run by `sh`, from the page's top to its end in one new directory that
//! has `data/` in it, and must succeed. Words after `console`:
//!
//! - `exit=N`: the commands of the block end with exit code N, or one of `exit=N,M`;
//! - `root`: skipped where the tests do not run as root; so are lines that begin with
//!   `$ sudo prairie`, which root runs without `sudo`.
//!
//! A block `text output` after a session shows lines that its commands print, in this order; lines
//! between them may be left out. A third word compares less, for output that differs by host:
//!
//! - `words`: the words that have no digit, without units and bars;
//! - `column=N`: column N, of those that two spaces or more separate.
//!
//! Every page of the guide about a command shows output.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// One command of a page.
#[derive(Debug, PartialEq)]
struct Example {
    /// Line in the page, from 1.
    line: usize,
    command: String,
    exit_codes: Vec<i32>,
    needs_root: bool,
    /// Lines that the session prints, if this is its last command and the page shows some.
    output: Vec<String>,
    compared: Compared,
}

/// What of a line of output is compared.
#[derive(Debug, PartialEq, Clone, Copy)]
enum Compared {
    Line,
    Words,
    Column(usize),
}

impl Compared {
    fn of(mark: Option<&&str>) -> Compared {
        match mark {
            None => Compared::Line,
            Some(&"words") => Compared::Words,
            Some(mark) => {
                let column = mark.strip_prefix("column=").and_then(|column| column.parse().ok());
                Compared::Column(column.unwrap_or_else(|| panic!("unknown mark: {mark}")))
            }
        }
    }

    fn matches(self, shown: &str, printed: &str) -> bool {
        match self {
            Compared::Line => shown.trim_end() == printed.trim_end(),
            Compared::Words => {
                let mut printed = words(printed).into_iter();
                words(shown).iter().all(|word| printed.any(|other| *word == other))
            }
            Compared::Column(number) => match column(shown, number) {
                Some(shown) => column(printed, number) == Some(shown),
                None => true,
            },
        }
    }
}

/// Words of a line with a letter and no digit, without the punctuation around them. Units follow the
/// size of a number, `none` is one, and what stands in brackets is a bar.
fn words(line: &str) -> Vec<&str> {
    const NUMBERS: [&str; 12] =
        ["none", "B", "KiB", "MiB", "GiB", "TiB", "s", "ms", "us", "/s", "k/s", "M/s"];
    let outside = line.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest));
    let words = outside.flat_map(str::split_whitespace);
    let words = words.map(|word| word.trim_matches(|sign: char| ",;()".contains(sign)));
    let is_word = |word: &&str| {
        word.contains(char::is_alphabetic)
            && !word.contains(|sign: char| sign.is_ascii_digit())
            && !NUMBERS.contains(word)
    };
    words.filter(is_word).collect()
}

/// Column `number` of a line, from 1.
fn column(line: &str, number: usize) -> Option<&str> {
    line.split("  ").map(str::trim).filter(|column| !column.is_empty()).nth(number - 1)
}

/// The commands of a page, from its top.
fn examples(page: &str) -> Vec<Example> {
    let mut found: Vec<Example> = Vec::new();
    let mut marks: Option<Vec<&str>> = None;
    let mut lines = page.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        if let Some(fence) = line.trim_start().strip_prefix("```") {
            marks = match marks {
                Some(_) => None,
                None => Some(fence.split_whitespace().collect()),
            };
            continue;
        }
        if let (Some(["text", "output", how @ ..]), Some(last)) =
            (marks.as_deref(), found.last_mut())
        {
            last.output.push(line.to_owned());
            last.compared = Compared::of(how.first());
        }
        let Some(["console", marks @ ..]) = marks.as_deref() else { continue };
        let Some(command) = line.trim_start().strip_prefix("$ ") else { continue };
        let mut command = command.to_owned();
        while command.ends_with('\\') {
            command.pop();
            command += lines.next().map_or("", |(_, rest)| rest.trim_start());
        }
        let sudo = command.strip_prefix("sudo ").map(str::to_owned);
        let needs_root = sudo.is_some() || marks.contains(&"root");
        let command = sudo.unwrap_or(command);
        if command.split_whitespace().next() != Some("prairie") {
            continue;
        }
        let exit_codes = marks.iter().find_map(|mark| mark.strip_prefix("exit="));
        let exit_codes = exit_codes.unwrap_or("0").split(',').map(|code| code.parse().unwrap());
        found.push(Example {
            line: at + 1,
            command,
            exit_codes: exit_codes.collect(),
            needs_root,
            output: Vec::new(),
            compared: Compared::Line,
        });
    }
    found
}

fn root_of_project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Runs a page's examples; returns how many ran, or what failed.
fn run_page(name: &str, page: &str) -> Result<usize, String> {
    let directory = tempfile::tempdir().unwrap();
    let data = root_of_project().join("data");
    std::os::unix::fs::symlink(data, directory.path().join("data")).unwrap();
    let binaries = Path::new(env!("CARGO_BIN_EXE_prairie")).parent().unwrap();
    let path = format!("{}:{}", binaries.display(), std::env::var("PATH").unwrap_or_default());
    let is_root = rustix::process::geteuid().is_root();
    let mut ran = 0;
    let mut printed = String::new();
    for example in examples(page) {
        if example.needs_root && !is_root {
            let (line, command) = (example.line, &example.command);
            prairie_testing::skip(format_args!("{name}:{line}: needs root: {command}"));
            continue;
        }
        let mut shell = Command::new("sh");
        shell
            .arg("-c")
            .arg(with_library(&example.command))
            .current_dir(&directory)
            .env("PATH", &path);
        shell.env_remove("COLUMNS");
        let output = shell.output().unwrap();
        if !output.status.code().is_some_and(|code| example.exit_codes.contains(&code)) {
            return Err(format!(
                "{name}:{}: `{}` ended with {} instead of exit code {:?}:\n{}",
                example.line,
                example.command,
                output.status,
                example.exit_codes,
                String::from_utf8_lossy(&output.stderr),
            ));
        }
        ran += 1;
        printed += &String::from_utf8_lossy(&output.stdout);
        printed += &String::from_utf8_lossy(&output.stderr);
        if let Some(missing) = missing(&example, &printed) {
            return Err(format!(
                "{name}:{}: `{}` does not print this line, or earlier: {missing}",
                example.line, example.command,
            ));
        }
        if !example.output.is_empty() {
            printed.clear();
        }
    }
    Ok(ran)
}

/// The command with the heap's library that Cargo has built beside this test; an installed `prairie`
/// finds its own.
fn with_library(command: &str) -> String {
    let library = std::env::current_exe().unwrap().with_file_name("libprairie_heap.so");
    command.replace("heap run ", &format!("heap run --library {} ", library.display()))
}

/// Whether an example of the page records events of the kernel.
fn records(page: &str) -> bool {
    let commands = ["prairie record", "prairie sources", "prairie stalls", "prairie top"];
    let is_recorder = |command: &str| commands.iter().any(|start| command.starts_with(start));
    examples(page).iter().any(|example| is_recorder(&example.command))
}

/// The first line of the example's output that does not follow the ones before it in `printed`.
fn missing<'a>(example: &'a Example, printed: &str) -> Option<&'a String> {
    let mut rest = printed.lines();
    let mut is_there = |line: &str| rest.any(|printed| example.compared.matches(line, printed));
    example.output.iter().find(|line| !is_there(line))
}

#[test]
fn the_examples_of_every_page_run() {
    let mut pages: Vec<PathBuf> = Vec::new();
    for part in fs::read_dir(root_of_project().join("docs/src")).unwrap() {
        let part = part.unwrap().path();
        if part.is_dir() {
            pages.extend(fs::read_dir(part).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    pages.retain(|path| path.extension().is_some_and(|ending| ending == "md"));
    pages.sort();
    let pages = pages.into_iter().map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    });
    let failures = Mutex::new(Vec::new());
    let run = |(name, page): &(String, String)| match run_page(name, page) {
        Ok(ran) => eprintln!("{name}: {ran} examples ran"),
        Err(failure) => failures.lock().unwrap().push(failure),
    };
    // Where tracefs is not mounted, each recorder mounts it for a moment: these come one by one.
    let (recording, others): (Vec<_>, Vec<_>) = pages.partition(|(_, page)| records(page));
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(page) = others.get(next.fetch_add(1, Ordering::Relaxed)) {
            run(page);
        }
    };
    // Most examples wait for a time or for one CPU.
    thread::scope(|scope| {
        scope.spawn(|| {
            recording.iter().for_each(run);
            work();
        });
        scope.spawn(work);
    });
    let found: usize = recording.iter().chain(&others).map(|(_, page)| examples(page).len()).sum();
    let failures = failures.into_inner().unwrap();
    assert!(found > 0, "no page has an example");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_page_about_a_command_shows_its_output() {
    let guide = root_of_project().join("docs/src/guide");
    let mut without = Vec::new();
    for entry in fs::read_dir(guide).unwrap() {
        let path = entry.unwrap().path();
        let page = fs::read_to_string(&path).unwrap();
        let shows = examples(&page).iter().any(|example| !example.output.is_empty());
        if page.contains("<!-- options: ") && !shows {
            without.push(path.file_name().unwrap().to_owned());
        }
    }
    assert!(without.is_empty(), "pages without a block `text output`: {without:?}");
}

#[test]
fn sessions_differ_from_other_blocks() {
    let page = "\
$ prairie outside
```console
$ prairie survey --json \\
    --top 3
output
$ ls
```
```sh
$ prairie other
```
```console exit=1
$ prairie survey --from missing
```
```console root
$ prairie a
$ sudo prairie b
```
";
    let example = |line, command: &str, exit_code, needs_root| Example {
        line,
        command: command.to_owned(),
        exit_codes: vec![exit_code],
        needs_root,
        output: Vec::new(),
        compared: Compared::Line,
    };
    assert_eq!(
        examples(page),
        [
            example(3, "prairie survey --json --top 3", 0, false),
            example(12, "prairie survey --from missing", 1, false),
            example(15, "prairie a", 0, true),
            example(16, "prairie b", 0, true),
        ]
    );
    assert!(run_page("page", "```console\n$ prairie survey --from missing\n```\n").is_err());
}

#[test]
fn shown_output_is_that_of_the_session() {
    let session = "```console\n$ prairie --version\n$ prairie -h\n```\n";
    let shows = |lines: &str| run_page("page", &format!("{session}\n```text output\n{lines}```\n"));
    assert_eq!(shows(&format!("prairie {}\nOptions:\n", env!("CARGO_PKG_VERSION"))), Ok(2));
    let error = shows("Options:\nprairie\n").unwrap_err();
    assert_eq!(error, "page:3: `prairie -h` does not print this line, or earlier: prairie");
}

#[test]
fn words_and_columns_are_compared_alone() {
    let words = Compared::Words;
    assert!(words.matches("Free [|||  12 %] of 3 KiB", "Free [!! a] of 17 MiB on web"));
    assert!(!words.matches("Free [|||  12 %] of 3 KiB", "Used [|||  12 %] of 3 KiB"));
    assert!(words.matches("5 in 2 s, none lost (1 MiB)", "5 in 2 s and 700 ms, 12 lost (9 KiB)"));
    let second = Compared::Column(2);
    assert!(second.matches("good     swap          8 GiB", "MISSING  swap  none"));
    assert!(!second.matches("good     swap          8 GiB", "good  zswap  8 GiB"));
}
