//! `prairie explain`: reports of failed allocations in a kernel log.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, bail};
use flate2::bufread::MultiGzDecoder;
use prairie_host::advice::Advice;
use prairie_host::kernel_log::{Diagnosis, Incident, Parser};
use prairie_host::remedy;
use prairie_report::number;
use rustix::fs::OFlags;
use serde::Serialize;

use super::survey::generated_by;
use crate::files::Files;
use crate::output::{self, Header};
use crate::view::explain::{self as view, Explained, Log};

/// Explain failed allocations and OOM kills in a kernel log
///
/// Reads what `dmesg`, `journalctl -k` or syslog print, of Linux 3.10 to 7.3, and shows for each
/// page allocation failure and each OOM report what was requested, why nothing could serve it, with
/// the arithmetic, and what helps. Needs no root for a file.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Log, also gzipped; `-` is standard input [default: this host's]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Print JSON instead of the report
    #[arg(long)]
    json: bool,

    /// Write the report as a self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Groups of similar reports to explain
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
}

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().input("FILE", &self.file).output("--html", &self.html)
    }
}

const AFTER_HELP: &str = "\
Examples:
  sudo prairie explain                    this host's kernel log
  prairie explain /var/log/kern.log.2.gz  a file
  journalctl -k -b -1 | prairie explain   the boot before this one
  ssh db7 dmesg | prairie explain -       another host
  prairie explain kern.log --json | jq '.incidents[].diagnosis.verdict'

Exit codes:
  0    success, also where the log has no such report
  1    failure; one line on standard error: what, where, what was expected
  2    usage error
  130  interrupted";

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    /// The log.
    log: &'a str,
    /// Its lines.
    lines: u64,
    /// Why the lines after them could not be read; null if all were.
    damage: Option<&'a str>,
    /// Reports that were counted only.
    incidents_left_out: u64,
    incidents: Vec<IncidentDocument<'a>>,
}

/// One report of the log.
#[derive(Serialize)]
struct IncidentDocument<'a> {
    #[serde(flatten)]
    incident: &'a Incident,
    diagnosis: &'a Diagnosis,
    advice: &'a [Advice],
}

/// Reads, prints and writes as asked.
pub fn run(args: &Args, interrupted: &'static AtomicBool) -> anyhow::Result<ExitCode> {
    let (name, mut source) = open(args.file.as_deref())?;
    let mut parser = Parser::default();
    let damage = match read(source.as_mut(), &mut parser, interrupted) {
        // What was read of a damaged archive may hold the report.
        Err(error) if is_damage(&error) && parser.lines() > 0 => {
            let lines = number::counted(parser.lines(), "line");
            output::say(format_args!("{name}: damaged, read only its first {lines}: {error}"));
            Some(error.to_string())
        }
        read => {
            read.with_context(|| format!("cannot read {name}"))?;
            None
        }
    };
    if interrupted.load(Ordering::Relaxed) {
        return Ok(output::interrupted());
    }
    let (lines, left_out) = (parser.lines(), parser.beyond());
    if lines == 0 && args.file.is_some() {
        bail!("{name}: empty input, expected a kernel log");
    }
    if lines > 0 && !parser.is_kernel_log() {
        bail!(
            "{name}: does not look like a kernel log, expected what dmesg, journalctl -k, or syslog \
             print"
        );
    }
    let explained = parser.finish().into_iter().map(Explained::new).collect();
    let log = Log { name, lines, left_out, explained };
    let report = view::report(&log, args.top, generated_by());
    output::publish(&report, args.json, args.html.as_deref(), || {
        let incidents = log.explained.iter().map(|explained| IncidentDocument {
            incident: &explained.incident,
            diagnosis: &explained.diagnosis,
            advice: &explained.advice,
        });
        Document {
            header: Header::new("prairie-explain", 1),
            log: &log.name,
            lines,
            damage: damage.as_deref(),
            incidents_left_out: left_out,
            incidents: incidents.collect(),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A log and its name.
type Source = (String, Box<dyn BufRead>);

/// The log that is asked for. A standard input that is empty, such as that of cron, is none, unless
/// it is asked for.
fn open(file: Option<&Path>) -> anyhow::Result<Source> {
    match file {
        Some(path) if path == Path::new("-") => {
            standard_input()?.context("standard input: empty input, expected a kernel log")
        }
        Some(path) => open_file(path),
        None if io::stdin().is_terminal() => host(),
        None => standard_input()?.map_or_else(host, Ok),
    }
}

/// This host's log.
fn host() -> anyhow::Result<Source> {
    Ok(("this host's kernel log".to_owned(), Box::new(io::Cursor::new(own_log()?))))
}

/// Standard input; `None` if it is empty.
fn standard_input() -> anyhow::Result<Option<Source>> {
    let name = "standard input".to_owned();
    let mut source = BufReader::new(io::stdin());
    let is_empty = match source.fill_buf() {
        Ok(begin) => begin.is_empty(),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => false,
        Err(error) => return Err(error).context("cannot read standard input"),
    };
    Ok((!is_empty).then(|| (name, Box::new(source) as Box<dyn BufRead>)))
}

fn open_file(path: &Path) -> anyhow::Result<Source> {
    let name = path.display().to_string();
    if path.is_dir() {
        bail!("{name}: is a directory, expected a kernel log");
    }
    let opened = File::open(path).with_context(|| format!("cannot read {name}"))?;
    let mut plain = BufReader::new(opened);
    let begin = plain.fill_buf().with_context(|| format!("cannot read {name}"))?;
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    if begin.starts_with(&GZIP) {
        return Ok((name, Box::new(BufReader::new(MultiGzDecoder::new(plain)))));
    }
    if begin.contains(&0) {
        bail!("{name}: binary data, expected a kernel log as text, or gzipped");
    }
    Ok((name, Box::new(plain)))
}

/// The kernel's own ring of messages, each as `dmesg` prints it.
fn own_log() -> anyhow::Result<String> {
    const WHERE: &str = "/dev/kmsg";
    // A read of less than one record fails; records are shorter than this (`PRINTKRB_RECORD_MAX`).
    const RECORD: usize = 16 << 10;
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let opened = File::options().read(true).custom_flags(flags).open(WHERE);
    let mut ring = opened.with_context(|| {
        let remedy = remedy::for_refused();
        format!("{WHERE}: cannot be read; {remedy}, or name a file, expected a kernel log")
    })?;
    let mut text = String::new();
    let mut record = vec![0; RECORD];
    loop {
        match ring.read(&mut record) {
            Ok(0) => return Ok(text),
            Ok(length) => push_record(&String::from_utf8_lossy(&record[..length]), &mut text),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(text),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // The record was overwritten before it was read: the next one is there.
            Err(error) if error.raw_os_error() == Some(EPIPE) => {}
            Err(error) => return Err(error).context(WHERE),
        }
    }
}

/// `EPIPE` of Linux.
const EPIPE: i32 = 32;

/// `4,1234,567890123,-;message`, then lines of properties that begin with a space.
fn push_record(record: &str, text: &mut String) {
    let line = record.lines().next().unwrap_or_default();
    let (head, message) = line.split_once(';').unwrap_or(("", line));
    let micros = head.split(',').nth(2).and_then(|micros| micros.parse::<u64>().ok());
    if let Some(micros) = micros {
        text.push_str(&format!("[{:5}.{:06}] ", micros / 1_000_000, micros % 1_000_000));
    }
    text.push_str(message);
    text.push('\n');
}

/// Whether the content of a file is at fault, and not its reading: it ends early, or is no gzip.
fn is_damage(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    let is_of_content = matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof);
    is_of_content && error.raw_os_error().is_none()
}

/// Gives each line to the parser.
fn read(source: &mut dyn BufRead, parser: &mut Parser, interrupted: &AtomicBool) -> io::Result<()> {
    // Longer lines are none of the kernel's; what is beyond is passed over.
    const LONGEST: u64 = 16 << 10;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = source.take(LONGEST).read_until(b'\n', &mut line);
        // The line that damage cuts is passed over: its last number would be wrong.
        let read = read?;
        if read == 0 || interrupted.load(Ordering::Relaxed) {
            return Ok(());
        }
        if line.last() != Some(&b'\n') && read as u64 == LONGEST {
            skip_line(source)?;
        }
        parser.push(&String::from_utf8_lossy(&line));
    }
}

/// Passes over the rest of a line.
fn skip_line(source: &mut dyn BufRead) -> io::Result<()> {
    loop {
        let buffer = source.fill_buf()?;
        let (length, ends) = match buffer.iter().position(|&byte| byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        source.consume(length);
        if ends {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_the_ring_are_lines() {
        let mut text = String::new();
        push_record("4,12,3000017,-;x: page\n SUBSYSTEM=acpi\n", &mut text);
        push_record("no head", &mut text);
        assert_eq!(text, "[    3.000017] x: page\nno head\n");
    }

    #[test]
    fn endless_lines_are_cut() {
        let text = format!("{}\nlast\n", "x".repeat(100_000));
        let mut parser = Parser::default();
        read(&mut text.as_bytes(), &mut parser, &AtomicBool::new(false)).unwrap();
        assert_eq!(parser.lines(), 2);
    }
}
