//! `prairie top`: a host's fragmentation, live or from a log.

use std::fs;
use std::io::{IsTerminal, stdin, stdout};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use prairie_daemon::status::ask;
use prairie_host::texts::slabinfo;
use prairie_host::{LeftOut, Roots};
use prairie_observe::collector::wait_until;
use prairie_observe::{Budget, Collector, Summary};
use prairie_offload::status::Status;
use prairie_report::Terminal;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::watched::Watched;
use super::{export, value};
use crate::files::Files;
use crate::output;
use crate::usage_error::refuse;
use crate::view::top::{self as view, Action, Containers, Live, Stalling, State};

mod document;
mod past;

/// Show fragmentation, compaction, and pressure live, or from a log
///
/// Shows the memory map, fragmentation by zone, unmovable memory by source, events per second, processes
/// that wait for memory, and offloaded containers. Press h for the keys. With --at it shows the past, from
/// a log that `prairie log run` keeps.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Print everything once, as plain text, and exit
    #[arg(long)]
    once: bool,

    /// Print everything once as one JSON document
    #[arg(long, requires = "once")]
    json: bool,

    /// Time between readings, at least 100ms
    #[arg(long, value_name = "TIME", value_parser = value::time_from(MIN_INTERVAL), default_value = "2s")]
    interval: Duration,

    /// Past time to show, in UTC: 2026-11-23 14:05, 14:05, or 2h (ago)
    #[arg(long, value_name = "TIME", conflicts_with_all = ["interval", "proc"])]
    at: Option<String>,

    /// Log to show with --at [default: /var/log/prairie]
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,

    /// Socket of the offload daemon
    #[arg(long, value_name = "SOCKET", default_value = "/run/prairie/offload.sock")]
    socket: PathBuf,

    /// Time between two walks over page flags
    #[arg(long, value_name = "TIME", value_parser = value::time, default_value = "10s")]
    frames_interval: Duration,

    /// CPU for page flags, in percent of a core; 0 reads none
    #[arg(long, value_name = "PERCENT", value_parser = export::percent, default_value = "2")]
    frames_budget: f64,

    /// Read another /proc tree, with its /sys beside it
    #[arg(long, value_name = "DIR")]
    proc: Option<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  sudo prairie top                             h shows the keys
  prairie top --once --interval 1s             everything as text
  prairie top --once --json | jq .rates        events a second, for scripts
  prairie top --at 2h --log /var/log/prairie   two hours ago; t and T step

Exit codes:
  0    success; quit
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted";

/// The shortest interval: below, reading costs more than it shows.
const MIN_INTERVAL: Duration = Duration::from_millis(100);

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().input_tree("--proc", &self.proc).input_tree("--log", &self.log)
    }
}

/// Shows.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    if !args.once && !stdout().is_terminal() {
        bail!("standard output: not a terminal, expected one or --once");
    }
    output::expect_no_report()?;
    match (&args.at, &args.log) {
        (Some(at), _) => past::show(args, at, interrupted),
        (None, Some(log)) => refuse!("--log {}: only with --at", log.display()),
        (None, None) => live(args, interrupted),
    }
}

fn live(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    let roots = args.proc.as_deref().map_or_else(Roots::live, Roots::at);
    let budget = Budget { share: args.frames_budget / 100.0, interval: args.frames_interval };
    let collector = Arc::new(Collector::new(roots, budget));
    let moment = export::first_moment(&collector, args.proc.as_deref())?;
    let mut state = State::new(host(collector.roots()), moment.kernel_release, args.interval);
    let watched = Watched::start(collector.roots().clone(), true, interrupted);
    let read = || read(&collector, &args.socket, &watched);
    if args.once {
        return once(args, &collector, state, read, interrupted);
    }
    let walker = Arc::clone(&collector);
    // Ends with the process. What it fails at, the panels show as missing.
    thread::spawn(move || walker.keep_walking(seed(), interrupted, |_| {}));
    on_terminal(|terminal| {
        let mut due = Instant::now();
        while !interrupted.load(Ordering::Relaxed) {
            // The first walk takes a moment; its figures are shown as soon as they are there.
            let is_new = collector.walks() == 1 && state.now.integer("pageblocks").is_none();
            if Instant::now() >= due || (is_new && !state.is_paused) {
                if !state.is_paused {
                    let (now, live) = read()?;
                    state.take(now, live);
                }
                due = Instant::now() + state.interval;
            }
            terminal.draw(|frame| view::draw(frame, &mut state))?;
            match next_key(due, &mut state)? {
                Action::Quit => return Ok(()),
                Action::Refresh => {
                    collector.walk(seed(), interrupted)?;
                    due = Instant::now();
                }
                _ => {}
            }
        }
        Ok(())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints one screen, with the rates of one interval.
fn once(
    args: &Args,
    collector: &Collector,
    mut state: State,
    read: impl Fn() -> anyhow::Result<(Summary, Live)>,
    interrupted: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    let due = Instant::now() + args.interval;
    let (first, live) = read()?;
    state.take(first, live);
    match collector.walk(seed(), interrupted) {
        Err(prairie_host::Error::Interrupted) => return Ok(output::interrupted()),
        walked => walked?,
    }
    if !wait_until(due, interrupted) {
        return Ok(output::interrupted());
    }
    let (second, live) = read()?;
    state.take(second, live);
    print(&state, args.json)
}

/// Prints the state as a document, or as text in 80 columns or in more if asked to.
fn print(state: &State, json: bool) -> anyhow::Result<ExitCode> {
    const LEAST: usize = 80;
    if json {
        let observation = document::observation(state);
        output::print_json(&document::document(state, observation.as_ref()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let is_asked = output::display().width.is_some() || std::env::var_os("COLUMNS").is_some();
    let width = if is_asked { Terminal::of_stdout().width.max(LEAST) } else { LEAST };
    output::print_text(&view::text(state, width as u16))?;
    Ok(ExitCode::SUCCESS)
}

/// Runs on the whole terminal, which is as before afterwards.
fn on_terminal(
    body: impl FnOnce(&mut DefaultTerminal) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut terminal = ratatui::try_init().context("the terminal")?;
    let result = body(&mut terminal);
    ratatui::restore();
    result
}

/// Waits for a key, for at most a second so that a signal is noticed; what it asks for. A terminal
/// that has gone asks for the end.
fn next_key(due: Instant, state: &mut State) -> anyhow::Result<Action> {
    let rest = due.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
    if is_gone_within(Duration::ZERO) {
        return Ok(Action::Quit);
    }
    // Keys that were read with the one before are there at once.
    let is_there = || event::poll(Duration::ZERO).context("the terminal");
    if !is_there()? {
        if is_gone_within(rest) {
            return Ok(Action::Quit);
        }
        if !is_there()? {
            return Ok(Action::Draw);
        }
    }
    Ok(match event::read().context("the terminal")? {
        Event::Key(key) if key.kind != KeyEventKind::Release => state.key(key.code, key.modifiers),
        _ => Action::Draw,
    })
}

/// Waits for input, a signal, or the end of `time`; whether the terminal has hung up. Where SIGHUP is
/// ignored nothing else says so, and crossterm 0.29 would read the terminal forever.
fn is_gone_within(time: Duration) -> bool {
    let (input, output) = (stdin(), stdout());
    // The one that crossterm reads: the input of another terminal would never be taken.
    let terminal = if input.is_terminal() { input.as_fd() } else { output.as_fd() };
    let mut polled = [PollFd::from_borrowed_fd(terminal, PollFlags::IN)];
    let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    let _ready = rustix::event::poll(&mut polled, Some(&timeout));
    polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// One reading.
fn read(
    collector: &Collector,
    socket: &Path,
    watched: &anyhow::Result<Watched>,
) -> anyhow::Result<(Summary, Live)> {
    let moment = collector.moment()?;
    let figures = collector.figures();
    let containers = match ask::<Status>(socket) {
        Ok(status) => Containers::Status(Box::new(status)),
        Err(_) => Containers::None(format!("no offload daemon answers at {}", socket.display())),
    };
    let why = |left: &LeftOut| format!("{}: {}", left.why, left.remedy);
    let live = Live {
        slabs: slabs(collector.roots()),
        containers,
        stalls: stalls(watched),
        left_out: moment.left_out.iter().map(why).collect(),
    };
    Ok((Summary::of(&moment, figures.as_deref()), live))
}

/// Who waits for memory, where this machine lets itself be watched.
fn stalls(watched: &anyhow::Result<Watched>) -> Stalling {
    match watched.as_ref().map(Watched::stalls) {
        Ok(Some(stalls)) => Stalling::Since(Box::new(stalls)),
        Ok(None) => Stalling::None("stalls are no longer watched".to_owned()),
        Err(error) => Stalling::None(format!("stalls are not watched: {error:#}")),
    }
}

/// The slab caches, the largest first; none without permission.
fn slabs(roots: &Roots) -> Vec<slabinfo::SlabCache> {
    let text = fs::read_to_string(roots.proc.join("slabinfo")).unwrap_or_default();
    let mut caches = slabinfo::parse(&text).unwrap_or_default();
    caches.sort_by_key(|cache| std::cmp::Reverse(cache.slabs.saturating_mul(cache.pages_per_slab)));
    caches
}

/// The host's name.
pub(super) fn host(roots: &Roots) -> String {
    let text = fs::read_to_string(roots.proc.join("sys/kernel/hostname")).unwrap_or_default();
    match text.trim() {
        "" => "unknown".to_owned(),
        name => name.to_owned(),
    }
}

fn seed() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_nanos() as u64)
}
