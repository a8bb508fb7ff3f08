//! `prairie stalls`: who waits for memory, how long, and why.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};
use prairie_frames::KernelVersion;
use prairie_host::Roots;
use prairie_host::advice::{self, Advice, Situation};
use prairie_report::number;
use prairie_trace::record::Command;
use prairie_trace::stalls::{Cause, Stalls, Watch, WatchOptions};
use prairie_trace::{Columns, EventSource, Metadata, Reader, StallPoint};

use super::survey::generated_by;
use super::value;
use crate::files::Files;
use crate::view::stalls::{self as view, Observation};
use crate::{interrupt, output, progress};

/// Show who waits for memory, how long, and why
///
/// Times direct reclaim, reclaim at a cgroup's limit, and direct compaction of every task, by the
/// kernel's tracepoints: until --for has passed, COMMAND ends, or Ctrl-C. Background work of
/// kcompactd and khugepaged is shown apart, because no task waits for it.
///
/// Needs root, except with --from. Nothing on the host is changed.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Observation time, such as 10s or 2m [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = value::time, conflicts_with_all = ["command", "from"])]
    time: Option<Duration>,

    /// Show the stalls of a recording of `prairie record`
    #[arg(long, value_name = "FILE.parquet", conflicts_with_all = ["command", "stacks", "ring"])]
    from: Option<PathBuf>,

    /// Record the kernel's call chains and show those of the worst stalls
    #[arg(long)]
    stacks: bool,

    /// Processes, cgroups and worst stalls to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// Ring buffer per CPU, 64K to 1G, rounded up to a power of two
    #[arg(long, value_name = "SIZE", value_parser = value::ring, default_value = "1M")]
    ring: usize,

    /// Print JSON instead of the report
    #[arg(long)]
    json: bool,

    /// Write the report as a self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Command to run while observing
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default()
            .input("--from", &self.from)
            .input("COMMAND", super::program(&self.command))
            .output("--html", &self.html)
    }
}

const AFTER_HELP: &str = "\
Examples:
  sudo prairie stalls --for 10s              who waits now
  sudo prairie stalls --stacks -- make -j8   while a command runs, with call chains
  sudo prairie record -o a.parquet --for 1m  record ...
  prairie stalls --from a.parquet            ... and look at it elsewhere
  sudo prairie stalls --for 1m --json | jq '.processes[] | {name, share}'

Exit codes:
  0    success, also where Ctrl-C ended it
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted while a recording was read
With COMMAND: its own exit code, or 128 and the number of the signal that ended it.";

/// Interval between looks at the rings.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Observes or reads, prints and writes as asked.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    let (observation, code) = match &args.from {
        Some(path) => match recorded(path, interrupted)? {
            Some(observation) => (observation, ExitCode::SUCCESS),
            None => return Ok(output::interrupted()),
        },
        None => live(args, interrupted)?,
    };
    if observation.stalls.lost_events() > 0 {
        output::say(format_args!(
            "WARNING: {} LOST, because the rings were full: stalls are missing. Use a larger ring: \
             --ring",
            number::counted(observation.stalls.lost_events(), "event"),
        ));
    }
    let report = view::report(&observation, args.top, generated_by());
    output::publish(&report, args.json, args.html.as_deref(), || view::document(&observation))?;
    Ok(code)
}

/// The stalls of this host from now on.
fn live(args: &Args, interrupted: &AtomicBool) -> anyhow::Result<(Observation, ExitCode)> {
    let options = WatchOptions {
        stacks: args.stacks,
        processes: true,
        ring_bytes: args.ring,
        roots: Roots::live(),
    };
    let mut watch = Watch::open(options)?;
    let mut command = match args.command.is_empty() {
        true => None,
        false => Some(Command::start(&args.command)?),
    };
    let bar = spinner(command.is_some());
    let began = Instant::now();
    while !interrupted.load(Ordering::Relaxed) {
        watch.poll()?;
        let elapsed = began.elapsed();
        show(&bar, elapsed, watch.stalls());
        let is_over = match &mut command {
            Some(command) => command.has_ended(),
            None => args.time.is_some_and(|time| elapsed >= time),
        };
        if is_over {
            break;
        }
        let rest = args.time.map_or(POLL_INTERVAL, |time| time.saturating_sub(elapsed));
        sleep(rest.min(POLL_INTERVAL));
    }
    bar.finish_and_clear();
    let missing = watch.missing().to_vec();
    let stalls = watch.finish()?;
    let code = match command.map(Command::finish) {
        None => ExitCode::SUCCESS,
        Some(Some(status)) => ExitCode::from(super::record::exit_code(status)),
        // The command survived the interruption.
        Some(None) => ExitCode::from(interrupt::EXIT_CODE),
    };
    let setting = |path: &str| std::fs::read_to_string(Path::new("/").join(path)).ok();
    let advice = advise(&stalls, setting);
    let command = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Ok((Observation { stalls, missing, advice, source: None, command }, code))
}

/// The stalls of a recording; `None` if interrupted.
fn recorded(path: &Path, interrupted: &AtomicBool) -> anyhow::Result<Option<Observation>> {
    let reader = Reader::open(path)?;
    let metadata = reader.metadata().clone();
    let Some(recording) = &metadata.recording else {
        bail!("{}: no recording, expected a file of `prairie record`", path.display());
    };
    let has = |point: &StallPoint| recording.tracepoint_formats.contains_key(point.path());
    if !has(&StallPoint::ReclaimBegin) {
        bail!(
            "{}: its recorder kept no stalls, expected a recording with trace format 3; record again",
            path.display()
        );
    }
    let bar = progress::bar(Some(metadata.events), "Reading events");
    let mut stalls = Stalls::default();
    stalls.begin(recording.started_ns);
    let mut events = reader.events(Columns::STALLS);
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        // A batch borrows its source, and so do the texts.
        let Some(batch) = events.next_batch()? else { break };
        let batch = batch.to_vec();
        bar.inc(batch.len() as u64);
        batch.iter().for_each(|event| stalls.event(event, events.texts()));
    }
    stalls.finish(recording.ended_ns);
    bar.finish_and_clear();
    let missing = StallPoint::ALL.into_iter().filter(|point| !has(point)).collect();
    let advice = advise(&stalls, |name| setting_of(&metadata, name));
    let command = recording.command.clone().unwrap_or_default();
    let source = Some(path.to_owned());
    Ok(Some(Observation { stalls, missing, advice, source, command }))
}

fn setting_of(metadata: &Metadata, name: &str) -> Option<String> {
    if name == "proc/sys/kernel/osrelease" {
        return Some(metadata.kernel_release.clone());
    }
    metadata.before.as_ref()?.files.get(name).cloned()
}

/// What helps, by the shares of time that the worst process waited. `setting` reads a file by its
/// path below `/`.
fn advise(stalls: &Stalls, setting: impl Fn(&str) -> Option<String>) -> Vec<Advice> {
    let share = |causes: &[Cause]| {
        let shares = stalls.by_process().values().map(|process| {
            let ns: u64 = causes.iter().map(|cause| process.ns_by_cause[*cause as usize]).sum();
            ns as f64 / process.ran_ns.max(1) as f64
        });
        shares.fold(0.0, f64::max)
    };
    let number = |path| setting(path)?.trim().parse().ok();
    let chosen = |path| {
        let text = setting(path)?;
        let (_, rest) = text.split_once('[')?;
        Some(rest.split_once(']')?.0.to_owned())
    };
    let release = setting("proc/sys/kernel/osrelease");
    let settings = Situation {
        kernel: release.as_deref().and_then(KernelVersion::of_kernel),
        compaction_stall_share: Some(share(&[Cause::Compaction, Cause::HugePage])),
        reclaim_stall_share: Some(share(&[Cause::DirectReclaim])),
        cgroup_at_limit: share(&[Cause::CgroupLimit]) > 0.01,
        thp_enabled: chosen("sys/kernel/mm/transparent_hugepage/enabled"),
        thp_defrag: chosen("sys/kernel/mm/transparent_hugepage/defrag"),
        compaction_proactiveness: number("proc/sys/vm/compaction_proactiveness"),
        defrag_mode: number("proc/sys/vm/defrag_mode"),
        watermark_scale_factor: number("proc/sys/vm/watermark_scale_factor"),
        ..Situation::default()
    };
    advice::advise(&settings)
}

fn spinner(has_command: bool) -> ProgressBar {
    // The terminal is the command's.
    if has_command {
        return ProgressBar::hidden();
    }
    let bar = progress::bar(None, "Watching");
    bar.set_style(ProgressStyle::with_template("{spinner} {msg}").expect("a fixed template"));
    bar
}

fn show(bar: &ProgressBar, elapsed: Duration, stalls: &Stalls) {
    if !bar.is_hidden() {
        let waited = stalls.waited();
        bar.set_message(format!(
            "Watching  {:.1} s  {}  {} waited  (Ctrl-C ends it)",
            elapsed.as_secs_f64(),
            number::counted(waited.count(), "stall"),
            number::duration(waited.total_ns()),
        ));
    }
    bar.tick();
}
