//! `prairie psi`: a live view of pressure stall information.

use std::fs;
use std::io::{IsTerminal, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use prairie_host::psi::{self, Pressure};
use prairie_offload::world::probe::Paths;
use prairie_report::Terminal;
use serde::Serialize;

use super::value;
use crate::interrupt;
use crate::output::{self, Header};

/// Show time lost waiting for CPU, memory and IO
///
/// Some: at least one task waited. Full: all did. Shares are computed from the kernel's totals over
/// each interval; its running averages, shown next to them, have a resolution of 1 %.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Cgroup below the root of cgroup v2 [default: the host]
    #[arg(value_name = "CGROUP")]
    cgroup: Option<String>,

    /// Time between samples, at least 10ms
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = value::time_from(Duration::from_millis(10)))]
    interval: Duration,

    /// Stop after N samples [default: run until interrupted]
    #[arg(long, value_name = "N")]
    count: Option<u64>,

    /// Print one line of JSON per sample
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Examples:
  prairie psi                                  the system, every two seconds
  prairie psi workload.slice/web.service       a container
  prairie psi --count 1 --interval 10s --json  one figure for the next ten seconds

Exit codes:
  0    success
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted";

const RESOURCES: [&str; 3] = ["cpu", "memory", "io"];

/// One reading, as `--json` prints it.
#[derive(Serialize)]
struct Reading {
    #[serde(flatten)]
    header: Header,
    /// Seconds since the reading before.
    seconds: f64,
    cpu: Shares,
    memory: Shares,
    io: Shares,
}

/// Shares of the interval, and what the kernel's files say.
#[derive(Clone, Copy, Serialize)]
struct Shares {
    some: f64,
    full: f64,
    some_avg10_percent: f64,
    full_avg10_percent: f64,
    some_total_us: u64,
    full_total_us: u64,
}

/// Reads and prints until interrupted.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    output::expect_no_report()?;
    let files = files(args)?;
    let mut before = (Instant::now(), read(&files)?);
    let mut printed = 0;
    while args.count.is_none_or(|count| printed < count) {
        if !interrupt::sleep_until(before.0 + args.interval, interrupted) {
            return Ok(ExitCode::from(interrupt::EXIT_CODE));
        }
        let now = (Instant::now(), read(&files)?);
        let seconds = (now.0 - before.0).as_secs_f64();
        let shares = |at: usize| Shares::between(&before.1[at], &now.1[at], seconds);
        let header = Header::new("prairie-psi", 1);
        let reading = Reading { header, seconds, cpu: shares(0), memory: shares(1), io: shares(2) };
        if args.json {
            output::print_document_line(&reading)?;
        } else {
            print_table(&reading, printed)?;
        }
        printed += 1;
        before = now;
    }
    Ok(ExitCode::SUCCESS)
}

/// The three files, of a cgroup or of the system.
fn files(args: &Args) -> anyhow::Result<[PathBuf; 3]> {
    let Some(cgroup) = &args.cgroup else {
        let directory = Path::new("/proc/pressure");
        if !directory.is_dir() {
            bail!("/proc/pressure: not there; boot with psi=1 (CONFIG_PSI)");
        }
        return Ok(RESOURCES.map(|name| directory.join(name)));
    };
    let directory = Paths::live().cgroup.join(cgroup.trim_matches('/'));
    if !directory.is_dir() {
        bail!("{}: no such cgroup", directory.display());
    }
    Ok(RESOURCES.map(|name| directory.join(format!("{name}.pressure"))))
}

/// A resource whose controller is off for a cgroup has no pressure file.
fn read(files: &[PathBuf; 3]) -> anyhow::Result<[Pressure; 3]> {
    let one = |path: &PathBuf| match fs::read_to_string(path) {
        Ok(text) => Ok(psi::parse(&path.display().to_string(), &text)?),
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    };
    Ok([one(&files[0])?, one(&files[1])?, one(&files[2])?])
}

impl Shares {
    fn between(before: &Pressure, now: &Pressure, seconds: f64) -> Shares {
        let share = |before: u64, now: u64| now.saturating_sub(before) as f64 / 1e6 / seconds;
        let (full_before, full) = (before.full.unwrap_or_default(), now.full.unwrap_or_default());
        Shares {
            some: share(before.some.total_us, now.some.total_us),
            full: share(full_before.total_us, full.total_us),
            some_avg10_percent: f64::from(now.some.avg10) / 100.0,
            full_avg10_percent: f64::from(full.avg10) / 100.0,
            some_total_us: now.some.total_us,
            full_total_us: full.total_us,
        }
    }
}

/// A line for each resource; updated in place on a terminal.
fn print_table(reading: &Reading, printed: u64) -> anyhow::Result<()> {
    let lines = table(reading, Terminal::of_stdout().width);
    let mut text = String::new();
    let live = stdout().is_terminal();
    if printed > 0 && live {
        text += "\x1b[4A";
    }
    for line in lines.iter().skip(usize::from(printed > 0 && !live)) {
        text += line;
        // The line before may have been longer, if the terminal was wider then.
        text += if live { "\x1b[K\n" } else { "\n" };
    }
    output::print_text(&text)
}

/// A head and a line for each resource. Those too wide leave out the bars, then the kernel's averages.
fn table(reading: &Reading, width: usize) -> Vec<String> {
    let rows = RESOURCES.iter().zip([reading.cpu, reading.memory, reading.io]);
    let (bars, averages) = (width >= 68, width >= 50);
    let mut lines = vec![match (bars, averages) {
        (true, _) => {
            "           some               full               (avg10: some, full)".to_owned()
        }
        (false, true) => "           some       full    (avg10: some, full)".to_owned(),
        (false, false) => "           some       full".to_owned(),
    }];
    for (name, shares) in rows {
        let column = |share: f64| match bars {
            true => format!(" {:>8.3} % {:<7}", share * 100.0, bar(share)),
            false => format!(" {:>8.3} %", share * 100.0),
        };
        let mut line = format!("{name:<7}{}{}", column(shares.some), column(shares.full));
        if averages {
            let (some, full) = (shares.some_avg10_percent, shares.full_avg10_percent);
            line += &format!(" {some:>8.2} % {full:>7.2} %");
        }
        lines.push(line);
    }
    lines
}

/// Seven characters, a decade each: from 0.0001 % to 100 %.
fn bar(share: f64) -> String {
    let decades = if share > 0.0 { (share.log10() + 6.0).clamp(0.0, 6.0) as usize + 1 } else { 0 };
    "#".repeat(decades)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_come_from_totals() {
        let at = |some, full| Pressure {
            some: psi::Stall { total_us: some, ..Default::default() },
            full: Some(psi::Stall { total_us: full, ..Default::default() }),
        };
        let shares = Shares::between(&at(1_000, 0), &at(7_000, 3_000), 6.0);
        assert!((shares.some - 0.001).abs() < 1e-12 && (shares.full - 0.0005).abs() < 1e-12);
        assert_eq!(Shares::between(&at(7_000, 0), &at(0, 0), 6.0).some, 0.0);
    }

    #[test]
    fn lines_keep_to_the_width() {
        let shares = Shares {
            some: 2.0,
            full: 1.0,
            some_avg10_percent: 100.0,
            full_avg10_percent: 100.0,
            some_total_us: 0,
            full_total_us: 0,
        };
        let header = Header::new("prairie-psi", 1);
        let reading = Reading { header, seconds: 1.0, cpu: shares, memory: shares, io: shares };
        for (width, expected) in [
            (80, "memory   200.000 % #######  100.000 % #######   100.00 %  100.00 %"),
            (68, "memory   200.000 % #######  100.000 % #######   100.00 %  100.00 %"),
            (67, "memory   200.000 %  100.000 %   100.00 %  100.00 %"),
            (50, "memory   200.000 %  100.000 %   100.00 %  100.00 %"),
            (49, "memory   200.000 %  100.000 %"),
        ] {
            let lines = table(&reading, width);
            assert_eq!(lines[2], expected);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:?}");
        }
    }

    #[test]
    fn bars_are_logarithmic() {
        assert_eq!([0.0, 1e-9, 1e-3, 1.0, 2.0].map(|share| bar(share).len()), [0, 1, 4, 7, 7]);
    }
}
