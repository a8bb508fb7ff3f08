//! `prairie record`: the page allocator's events of the whole machine, into a trace.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::available_parallelism;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use prairie_host::Roots;
use prairie_report::number;
use prairie_trace::record::{Options, Progress, RING_BYTES, Recorded, Until};
use prairie_trace::{Metadata, Reader};
use serde::Serialize;

use super::value;
use crate::files::Files;
use crate::output::{self, Header};
use crate::{interrupt, progress};

/// Record the page allocator's events of the whole machine
///
/// Records the state of every frame, then each allocation and free of every process and of the
/// kernel, with its time, CPU, process, frame number, order, migrate type and flags. It ends after
/// --for, with COMMAND, or at Ctrl-C, which leaves a complete file.
///
/// Needs root. Nothing on the host is changed, except that --pins sets probes, which are removed at
/// the end.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Output file; it appears when it is complete
    #[arg(short, long, value_name = "FILE.parquet")]
    output: PathBuf,

    /// Recording time, such as 30s [default: until Ctrl-C]
    ///
    /// It starts after the snapshot of all frames.
    #[arg(long = "for", value_name = "TIME", value_parser = value::time, conflicts_with = "command")]
    time: Option<Duration>,

    /// Record call chains of unmovable allocations, for `prairie sources`
    #[arg(long)]
    stacks: bool,

    /// Record moves between per-CPU lists and zones
    #[arg(long)]
    per_cpu_lists: bool,

    /// Record long-term pins, with probes in the kernel
    #[arg(long)]
    pins: bool,

    /// Ring buffer per CPU, 64K to 1G, rounded up to a power of two
    #[arg(long, value_name = "SIZE", value_parser = value::ring, default_value = "16M")]
    ring: usize,

    /// Record processes outside COMMAND as `other`, for sharing
    #[arg(long)]
    hide_others: bool,

    /// Print a summary as JSON at the end
    #[arg(long)]
    json: bool,

    /// Command to run while recording
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default()
            .input("COMMAND", super::program(&self.command))
            .output("--output", [&self.output])
    }
}

const AFTER_HELP: &str = "\
Examples:
  sudo prairie record -o a.parquet --for 30s              half a minute of everything
  sudo prairie record -o a.parquet -- make -j8            while a command runs
  sudo prairie record -o a.parquet --stacks -- make -j8   and who allocates unmovable memory
  sudo prairie record -o a.parquet --pins --for 10m       and long-term pins
  sudo prairie record -o a.parquet                        until Ctrl-C
  prairie replay a.parquet                                replay it under other allocators
  prairie survey --from a.parquet                         the state that it starts from

Exit codes:
  0    success, also where Ctrl-C ended it
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted before there was anything to write
With COMMAND: its own exit code, or 128 and the number of the signal that ended it.";

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// The recording.
#[derive(Serialize)]
struct Summary {
    /// The file.
    file: PathBuf,
    /// Its size.
    file_bytes: u64,
    /// Rows of the state of every frame.
    frame_runs: u64,
    /// Rows after it: events, and names of processes and call chains.
    events: u64,
    /// From the end of the snapshot to switching the events off.
    duration_ns: u64,
    /// From switching the events on to the end of the snapshot.
    snapshot_ns: u64,
    events_per_second: f64,
    /// The same without the initial state of every frame.
    bytes_per_event: f64,
    /// Lost events: the kernel's ring buffer was full.
    lost_events: u64,
    frees_missing: u64,
    /// Allocations that were pinned long-term; null without --pins, or where
    /// the kernel refused them.
    pinned: Option<u64>,
    /// Of these, those that still were at the end.
    pinned_at_end: Option<u64>,
    /// Whether it was interrupted.
    interrupted: bool,
    /// In the shell's convention; null without a command, or if it still runs.
    command_exit_code: Option<u8>,
}

/// Records and reports a summary.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    let bar = Bar::new(args);
    let mut began = false;
    let options = Options {
        until: until(args),
        ring_bytes: args.ring,
        stacks: args.stacks,
        per_cpu_lists: args.per_cpu_lists,
        pins: args.pins,
        hide_others: args.hide_others,
        threads: available_parallelism().map_or(1, Into::into),
        roots: Roots::live(),
        interrupted,
        left_out: &mut |error| output::say(format_args!("WARNING: not recorded: {error}")),
        progress: &mut |progress| {
            began |= progress.elapsed.is_some();
            bar.show(progress);
        },
    };
    let recorded = prairie_trace::record::record(&args.output, options);
    bar.clear();
    let recorded = match recorded {
        Err(prairie_trace::Error::Record { .. }) if interrupt::requested() && !began => {
            return Ok(output::interrupted());
        }
        recorded => recorded?,
    };
    let reader = Reader::open(&args.output)?;
    let summary = summary(&args.output, &recorded, &reader, interrupted);
    say(&summary, reader.metadata());
    say_unseen(&recorded.unseen_cpus);
    if args.json {
        let header = Header::new("prairie-record", 1);
        output::print_json(&Document { header, summary: &summary })?;
    }
    Ok(match (args.command.is_empty(), summary.command_exit_code) {
        (true, _) => ExitCode::SUCCESS,
        (false, Some(code)) => ExitCode::from(code),
        // The command survived the interruption.
        (false, None) => ExitCode::from(interrupt::EXIT_CODE),
    })
}

fn until(args: &Args) -> Until {
    match args.time {
        Some(time) => Until::Elapsed(time),
        None if args.command.is_empty() => Until::Interrupted,
        None => Until::Ended(args.command.clone()),
    }
}

fn summary(path: &Path, recorded: &Recorded, reader: &Reader, interrupted: &AtomicBool) -> Summary {
    let recording = reader.metadata().recording.as_ref();
    let whole_ns = recording.map_or(0, |r| r.ended_ns.saturating_sub(r.started_ns));
    let prairie_trace::Summary { bytes, frame_runs, events, .. } = recorded.summary;
    Summary {
        file: path.to_owned(),
        file_bytes: bytes,
        frame_runs,
        events,
        duration_ns: whole_ns.saturating_sub(recorded.snapshot_ns),
        snapshot_ns: recorded.snapshot_ns,
        events_per_second: events as f64 * 1e9 / whole_ns.max(1) as f64,
        bytes_per_event: reader.event_bytes() as f64 / events.max(1) as f64,
        lost_events: recorded.lost_events,
        frees_missing: reader.metadata().frees_missing,
        pinned: recorded.pins.map(|pins| pins.begun),
        pinned_at_end: recorded.pins.map(|pins| pins.held),
        interrupted: interrupted.load(Ordering::Relaxed),
        command_exit_code: recorded.status.map(exit_code),
    }
}

/// In the shell's convention.
pub(super) fn exit_code(status: ExitStatus) -> u8 {
    let by_signal = || 128 + status.signal().unwrap_or_default();
    u8::try_from(status.code().unwrap_or_else(by_signal)).unwrap_or(u8::MAX)
}

/// One line on the recording, and a warning for each kind of loss.
fn say(summary: &Summary, metadata: &Metadata) {
    output::say(format_args!(
        "{} in {} and a snapshot of {}, {}/s; {:.2} bytes an event; {} lost; wrote {} ({})",
        number::counted(summary.events, "event"),
        number::duration(summary.duration_ns),
        number::duration(summary.snapshot_ns),
        number::short(summary.events_per_second),
        summary.bytes_per_event,
        if summary.lost_events == 0 {
            "none".to_owned()
        } else {
            number::count(summary.lost_events)
        },
        summary.file.display(),
        number::bytes(summary.file_bytes),
    ));
    if let (Some(pinned), Some(at_end)) = (summary.pinned, summary.pinned_at_end) {
        output::say(format_args!(
            "{} pinned long-term; at the end {} of them still {}",
            number::counted(pinned, "allocation"),
            number::count(at_end),
            if at_end == 1 { "was" } else { "were" },
        ));
    }
    if summary.lost_events > 0 {
        let ring = metadata.recording.as_ref().map_or(RING_BYTES as u64, |r| r.ring_bytes);
        let all = summary.events + summary.lost_events;
        output::say(format_args!(
            "WARNING: {} of all events were LOST, because the rings of {} were full: a \
             replay will miss them. Record again with a larger ring: --ring {}M",
            number::percent(summary.lost_events as f64 / all as f64),
            number::bytes(ring),
            (ring >> 20).max(1) * 4,
        ));
    }
    if summary.frees_missing > 0 {
        output::say(format_args!(
            "{} frames were allocated twice without a free between: the kernel kept some \
             frees from perf and did not count them (see \"Missing frees\" in the guide to prairie record)",
            number::count(summary.frees_missing),
        ));
    }
}

/// A warning about CPUs that the recording did not see.
fn say_unseen(cpus: &[u16]) {
    if !cpus.is_empty() {
        let numbers: Vec<String> = cpus.iter().map(u16::to_string).collect();
        output::say(format_args!(
            "WARNING: CPUs came online during the recording, and their events are MISSING: {}. Record \
             again while their number stays the same",
            numbers.join(", "),
        ));
    }
}

/// Progress on standard error, if that is a terminal; once a command runs, the terminal is the
/// command's.
struct Bar {
    bar: ProgressBar,
    shared: bool,
}

impl Bar {
    fn new(args: &Args) -> Bar {
        let bar = progress::bar(None, "Reading the state of every frame");
        let template = ProgressStyle::with_template("{spinner} {msg}").expect("a fixed template");
        bar.set_style(template);
        Bar { bar, shared: !args.command.is_empty() && std::io::stderr().is_terminal() }
    }

    fn show(&self, progress: Progress) {
        let Some(elapsed) = progress.elapsed else { return self.bar.tick() };
        if self.shared {
            return self.clear();
        }
        let seconds = elapsed.as_secs_f64();
        self.bar.set_message(format!(
            "Recording  {seconds:.1} s  {} events  {}/s  {} lost  (Ctrl-C ends it)",
            number::count(progress.events),
            number::short(progress.events as f64 / seconds.max(0.1)),
            number::count(progress.lost),
        ));
        self.bar.tick();
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    /// Hosts whose events cannot be recorded do not print the document.
    #[test]
    fn the_document_follows_its_schema() {
        for command_exit_code in [None, Some(7)] {
            let summary = Summary {
                file: PathBuf::from("a.parquet"),
                file_bytes: 9,
                frame_runs: 2,
                events: 3,
                duration_ns: 1,
                snapshot_ns: 1,
                events_per_second: 0.5,
                bytes_per_event: 4.5,
                lost_events: 0,
                frees_missing: 0,
                pinned: command_exit_code.map(u64::from),
                pinned_at_end: command_exit_code.map(u64::from),
                interrupted: false,
                command_exit_code,
            };
            let header = Header::new("prairie-record", 1);
            let document = Document { header, summary: &summary };
            schema::check(&serde_json::to_value(document).unwrap());
        }
    }

    #[test]
    fn exit_codes_follow_the_shell() {
        for (raw, code) in [(0, 0), (7 << 8, 7), (255 << 8, 255), (9, 137), (2, 130)] {
            assert_eq!(exit_code(ExitStatus::from_raw(raw)), code);
        }
    }
}
