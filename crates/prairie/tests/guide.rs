//! The examples of the guide are run.
//!
//! In the pages of `docs/`, a fenced block marked `console` shows a session. Each of its lines that
//! begins with `$ prairie` is run by `sh`, from the page's top to its end in one new directory that
//! has `data/` in it. It must succeed; what it prints is not compared. Words after `console`:
//!
//! - `exit=N`: the commands of the block end with exit code N;
//! - `root`: skipped where the tests do not run as root; so are lines that begin with
//!   `$ sudo prairie`, which root runs without `sudo`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One command of a page.
#[derive(Debug, PartialEq)]
struct Example {
    /// Line in the page, from 1.
    line: usize,
    command: String,
    exit_code: i32,
    needs_root: bool,
    /// Lines that the session prints, if this is its last command and the page shows some.
    output: Vec<String>,
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
        if let (Some(["text", "output"]), Some(last)) = (marks.as_deref(), found.last_mut()) {
            last.output.push(line.to_owned());
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
        let exit_code = marks.iter().find_map(|mark| mark.strip_prefix("exit=")?.parse().ok());
        let exit_code = exit_code.unwrap_or(0);
        let output = Vec::new();
        found.push(Example { line: at + 1, command, exit_code, needs_root, output });
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
        shell.arg("-c").arg(&example.command).current_dir(&directory).env("PATH", &path);
        shell.env_remove("COLUMNS");
        let output = shell.output().unwrap();
        if output.status.code() != Some(example.exit_code) {
            return Err(format!(
                "{name}:{}: `{}` ended with {} instead of exit code {}:\n{}",
                example.line,
                example.command,
                output.status,
                example.exit_code,
                String::from_utf8_lossy(&output.stderr),
            ));
        }
        ran += 1;
        printed += &String::from_utf8_lossy(&output.stdout);
        if let Some(missing) = missing(&example.output, &printed) {
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

/// The first of `lines` that does not follow the ones before it in `printed`.
fn missing<'a>(lines: &'a [String], printed: &str) -> Option<&'a String> {
    let mut rest = printed.lines();
    lines.iter().find(|line| !rest.any(|printed| printed.trim_end() == line.trim_end()))
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
    let mut found = 0;
    let mut failures = Vec::new();
    for path in &pages {
        let name = path.file_name().unwrap().to_str().unwrap();
        let page = fs::read_to_string(path).unwrap();
        found += examples(&page).len();
        match run_page(name, &page) {
            Ok(ran) => eprintln!("{name}: {ran} examples ran"),
            Err(failure) => failures.push(failure),
        }
    }
    assert!(found > 0, "no page of {} has an example", pages.len());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
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
        exit_code,
        needs_root,
        output: Vec::new(),
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
