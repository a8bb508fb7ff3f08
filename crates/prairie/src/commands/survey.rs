//! `prairie survey`: how fragmented the memory of a host is, and why.

mod summary;

use std::fs;
use std::io::ErrorKind;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::ValueEnum;
use indicatif::ProgressBar;
use prairie_frames::Order;
use prairie_host::layout::Layout;
use prairie_host::survey::FrameCounts;
use prairie_host::{BlockMap, Capture, FrameOptions, FrameRun, FrameTally, Roots, Survey};
use prairie_report::{MapSheet, Report, Terminal, Theme};
use serde::Serialize;

use super::{value, wrong_kind};
pub(super) use crate::called_as::generated_by;
use crate::files::Files;
use crate::output::{Answer, Header};
use crate::usage_error::refuse;
use crate::view::survey as view;
use crate::{interrupt, output, progress};

/// Measure a host's memory fragmentation and show its causes
///
/// Reads the free lists, the flags of every frame, and the settings and counters of huge pages.
/// Does not change the host. Without root it shows what it can read and lists what is missing.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Print JSON instead of the report
    #[arg(long)]
    json: bool,

    /// Write the report as a self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write the memory map as a picture
    #[arg(long, value_name = "FILE.png|.svg", value_parser = value::picture)]
    map: Option<PathBuf>,

    /// Background of that picture
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Ground::Light, requires = "map")]
    theme: Ground,

    /// Memory per map cell, 4K to 1T, a power of two [default: 2M]
    #[arg(long, value_name = "SIZE", value_parser = value::cell)]
    cell: Option<Order>,

    /// Print the whole report instead of the first screen
    #[arg(long)]
    full: bool,

    /// Print these parts of the whole report only
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',', conflicts_with = "full")]
    section: Vec<view::Part>,

    /// Leave the map out of the report
    #[arg(long)]
    no_map: bool,

    /// Save the state, every frame's flags included
    #[arg(long, value_name = "FILE.parquet")]
    save: Option<PathBuf>,

    /// Write one row for a fleet: .jsonl, .parquet, a directory, or -
    #[arg(long, value_name = "FILE", conflicts_with_all = ["full", "section"])]
    summary: Option<PathBuf>,

    /// Label of that row; several times for several labels
    #[arg(long, value_name = "NAME=VALUE", requires = "summary", value_parser = summary::label)]
    label: Vec<(String, String)>,

    /// Host of that row [default: this host, or the name of --from's file]
    #[arg(long, value_name = "NAME", requires = "summary")]
    host: Option<String>,

    /// Repeat at this interval; rows go to a directory or to -
    #[arg(long, value_name = "TIME", requires = "summary", value_parser = value::time)]
    #[arg(conflicts_with_all = ["from", "save", "html", "map", "json"])]
    every: Option<Duration>,

    /// Survey a saved state, or the state at the start of a recording
    #[arg(long, value_name = "FILE.parquet", conflicts_with = "proc")]
    from: Option<PathBuf>,

    /// Read another /proc tree, with its /sys beside it
    #[arg(long, value_name = "DIR")]
    proc: Option<PathBuf>,

    /// Number of reading threads [default: number of CPUs]
    #[arg(long, value_name = "N", value_parser = value::threads, conflicts_with = "from")]
    threads: Option<NonZeroUsize>,

    /// Number of processes to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
}

const AFTER_HELP: &str = "\
Examples:
  sudo prairie survey                          verdicts and advice on one screen
  sudo prairie survey --full                   the whole report
  sudo prairie survey --section polluted,huge  parts of it
  sudo prairie survey --html host.html         the whole report as a page
  sudo prairie survey --no-map --map host.png  the map as a picture only
  sudo prairie survey --save host.parquet      keep the host's state ...
  prairie survey --from host.parquet           ... and look at it elsewhere
  prairie survey --json | jq .free_lists.indices
  prairie survey --summary host.jsonl --label rack=r7
  prairie survey --proc /host/proc --host $NODE --summary - --every 1h

Exit codes:
  0    success, even where something had to be left out
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted; no partial files are left";

/// The ground of a picture.
#[derive(Clone, Copy, ValueEnum)]
enum Ground {
    Light,
    Dark,
}

/// What `--json` prints.
#[derive(Serialize)]
pub struct Document {
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    survey: Survey,
}

/// What a survey leaves for its files.
pub struct Rest {
    capture: Capture,
    sheet: Option<MapSheet>,
}

/// The capture, and its survey.
struct Surveyed {
    capture: Capture,
    survey: Survey,
    map: Option<BlockMap>,
}

/// Surveys.
pub fn ask(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<(Answer<Document>, Rest)> {
    let Surveyed { capture, survey, map } = read(args, interrupted)?;
    let sheet = map.as_ref().and_then(|map| view::map::sheet(&survey, map));
    if let Some(sheet) = &sheet {
        sheet.validate().context("choose a larger --cell")?;
    }
    let in_report = sheet.clone().filter(|_| !args.no_map);
    let report = view::report(&survey, in_report, args.top, generated_by());
    let document = Document { header: Header::unversioned(SCHEMA), survey };
    Ok((Answer::whole(document, report), Rest { capture, sheet }))
}

/// Surveys, prints and writes as asked.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.summary {
        summary::check(args, path)?;
    }
    if args.no_map && args.section.contains(&view::Part::Map) {
        refuse!("--no-map with --section map: expected one of them");
    }
    loop {
        let code = once(args, interrupted)?;
        let Some(every) = args.every.filter(|_| code == ExitCode::SUCCESS) else {
            return Ok(code);
        };
        if !interrupt::sleep_until(Instant::now() + every, interrupted) {
            return Ok(output::interrupted());
        }
    }
}

fn once(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    let (answer, rest) = match ask(args, interrupted) {
        Err(error) if is_interruption(&error) => return Ok(output::interrupted()),
        found => found?,
    };
    let survey = &answer.document.survey;
    if args.json {
        answer.print(true)?;
    } else if args.summary.is_none() {
        print(args, survey, &answer.report)?;
    }
    if let Some(path) = &args.summary {
        summary::write(args, path, survey)?;
    }
    if let Some(path) = &args.save {
        prairie_trace::snapshot::save(path, &rest.capture)?;
        output::wrote(path);
    }
    if args.html.is_some() && interrupt::requested() {
        return Ok(output::interrupted());
    }
    // Also the charts, which the first screen does not have.
    output::write_html(&answer.report, args.html.as_deref())?;
    if let Some(path) = &args.map {
        if interrupt::requested() {
            return Ok(output::interrupted());
        }
        write_map(args, path, rest.sheet.as_ref(), &answer.document.survey)?;
        output::wrote(path);
    }
    Ok(ExitCode::SUCCESS)
}

const SCHEMA: &str = "prairie-survey";

/// Prints the first screen, the whole report, or parts of it. Formats other than text are for whole
/// reports.
fn print(args: &Args, survey: &Survey, report: &Report) -> anyhow::Result<()> {
    if !args.section.is_empty() {
        let sections = view::report_on(&args.section, report);
        return output::print_report(&sections);
    }
    match args.full || output::is_formatted() {
        true => output::print_report(report),
        false => output::print_screen(&view::first::screen(survey, Terminal::of_stdout())),
    }
}

fn read(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<Surveyed> {
    match &args.from {
        Some(path) => saved(args, path),
        None => host(args, interrupted),
    }
}

/// The contents of a saved file.
fn saved(args: &Args, path: &Path) -> anyhow::Result<Surveyed> {
    const EXPECTED: &str = "a file of `prairie survey --save` or `prairie record`";
    let capture =
        prairie_trace::snapshot::load(path).map_err(|error| wrong_kind::named(error, EXPECTED))?;
    let within = || format!("{}", path.display());
    let layout = Layout::of(&capture).with_context(within)?;
    let counts = match &capture.frames {
        Some(runs) => {
            let mut tally = FrameTally::new(layout, args.cell_for(&capture));
            runs.iter().try_for_each(|run| tally.push(*run)).with_context(within)?;
            Some(tally.finish())
        }
        None => None,
    };
    found(capture, counts).with_context(within)
}

/// The state of this host, or of a copy of another's `/proc`. Frames are counted while they are
/// read and kept only for `--save`.
fn host(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<Surveyed> {
    args.proc.as_deref().map_or(Ok(()), check_tree)?;
    let roots = args.proc.as_deref().map_or_else(Roots::live, Roots::at);
    let mut capture = prairie_host::capture_texts(&roots, args.top)?;
    if let (Some(dir), false) = (&args.proc, capture.files.contains_key("proc/buddyinfo")) {
        bail!(
            "{}: no buddyinfo in it that can be read; --proc takes a /proc tree or a copy of one",
            dir.display()
        );
    }
    let mut tally = FrameTally::new(Layout::of(&capture)?, args.cell_for(&capture));
    let mut kept: Vec<FrameRun> = Vec::new();
    let mut counted = Ok(());
    let mut any = false;
    let mut bar: Option<ProgressBar> = None;
    let frames = FrameOptions {
        threads: args.threads(),
        interrupted,
        progress: &mut |done, total| show_progress(&mut bar, done, total),
    };
    let read = prairie_host::read_frames(&roots, &mut capture, frames, &mut |runs| {
        any |= !runs.is_empty();
        if counted.is_ok() {
            counted = runs.iter().try_for_each(|run| tally.push(*run));
        }
        if args.save.is_some() {
            kept.extend_from_slice(runs);
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    read.and(counted)?;
    capture.frames = Some(kept).filter(|kept| !kept.is_empty());
    found(capture, any.then(|| tally.finish()))
}

/// Checks that a /proc tree is a directory.
fn check_tree(dir: &Path) -> anyhow::Result<()> {
    let found = match fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => return Ok(()),
        Ok(_) => "not a directory".to_owned(),
        Err(error) if error.kind() == ErrorKind::NotFound => "no such directory".to_owned(),
        Err(error) => error.to_string(),
    };
    bail!("{}: {found}, expected a /proc tree or a copy of one", dir.display())
}

fn found(capture: Capture, counts: Option<FrameCounts>) -> anyhow::Result<Surveyed> {
    let survey = Survey::with_counts(&capture, counts.as_ref())?;
    Ok(Surveyed { capture, survey, map: counts.map(|counts| counts.map) })
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default()
            .input("--from", &self.from)
            .input_tree("--proc", &self.proc)
            .output("--html", &self.html)
            .output("--map", &self.map)
            .output("--save", &self.save)
            .output("--summary", self.summary.as_deref().filter(|path| summary::is_file(path)))
    }

    /// The size of a cell: as requested, else what fits one picture.
    fn cell_for(&self, capture: &Capture) -> Order {
        let text = capture.files.get("proc/zoneinfo").map(String::as_str).unwrap_or_default();
        // Malformed text is reported where it is used.
        let zones = prairie_host::texts::zoneinfo::parse(text).unwrap_or_default();
        let frames = zones.iter().map(|zone| zone.present_frames).sum();
        self.cell.unwrap_or_else(|| view::map::default_cell(frames))
    }

    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        self.threads.unwrap_or_else(all).get()
    }
}

fn show_progress(bar: &mut Option<ProgressBar>, done: u64, total: u64) {
    let known = (total > 0).then_some(total);
    let bar = bar.get_or_insert_with(|| progress::bar(known, "Reading frames"));
    // A machine may have frames beyond its zones.
    bar.set_position(known.map_or(done, |total| done.min(total)));
}

fn write_map(
    args: &Args,
    path: &Path,
    sheet: Option<&MapSheet>,
    survey: &Survey,
) -> anyhow::Result<()> {
    let Some(sheet) = sheet else {
        let why =
            view::summary::left_out(survey).unwrap_or_else(|| "no frames were read".to_owned());
        bail!("{}: no map to write: {why}", path.display());
    };
    let theme = match args.theme {
        Ground::Light => Theme::Light,
        Ground::Dark => Theme::Dark,
    };
    output::write_map(sheet, path, theme)
}

/// Puts the survey of this host in front of `report`, as far as permissions allow.
pub(super) fn prepend_live(
    report: &mut prairie_report::Report,
    interrupted: &AtomicBool,
) -> anyhow::Result<()> {
    const PROCESSES: usize = 10;
    let args = Args {
        json: false,
        html: None,
        map: None,
        theme: Ground::Light,
        cell: None,
        full: true,
        section: Vec::new(),
        no_map: false,
        save: None,
        summary: None,
        label: Vec::new(),
        host: None,
        every: None,
        from: None,
        proc: None,
        threads: None,
        top: PROCESSES,
    };
    let found = host(&args, interrupted)?;
    let sheet = found.map.as_ref().and_then(|map| view::map::sheet(&found.survey, map));
    let survey = view::report(&found.survey, sheet, PROCESSES, String::new());
    // The replay's definitions are the last section of the page, so the survey's come before them.
    let mut sections = survey.sections;
    for section in &mut sections {
        section.heading = format!("This host: {}", section.heading);
    }
    for section in &mut report.sections {
        section.heading = format!("Replay: {}", section.heading);
    }
    sections.append(&mut report.sections);
    report.sections = sections;
    report.title = "This host, and the same activity under other allocators".to_owned();
    report.subtitle = format!("{}. Replay: {}", survey.title, report.subtitle);
    Ok(())
}

fn is_interruption(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(prairie_host::Error::Interrupted))
}
