//! `prairie heap profile`: the live samples of a running process.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use prairie_report::{number, write_atomically};

use crate::files::Files;
use crate::output::{say, wrote};

/// Write a running process's heap profile for pprof
///
/// Reads the samples from the memory of the process, which must have been started with
/// `prairie heap run --sample` or `--profile`. The process is not stopped: samples that change while
/// they are read are left out. Needs permission to trace it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    /// Process ID
    pid: u32,
    /// Profile to write, a gzipped protocol buffer
    #[arg(short, long, value_name = "FILE", default_value = "heap.pb.gz")]
    out: PathBuf,
}

const EXAMPLES: &str = "\
Examples:
  prairie heap run --sample -- redis-server &
  prairie heap profile $(pgrep redis-server) --out heap.pb.gz
  pprof -top redis-server heap.pb.gz

Exit codes:
  0    the profile was written
  1    the process cannot be read
  2    usage error";

impl Args {
    /// The files that it reads and writes.
    pub fn files(&self) -> Files {
        Files::default().output("--out", [&self.out])
    }
}

/// Writes the profile.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let profile = prairie_heap::inspect::profile(args.pid)
        .with_context(|| format!("process {}", args.pid))?;
    write_atomically(&args.out, &profile.pprof())?;
    wrote(&args.out);
    let changing = match profile.changing {
        0 => String::new(),
        left_out => format!(", {left_out} left out because they changed"),
    };
    say(format_args!(
        "{} stand for about {} of live objects{changing}",
        number::counted(profile.samples() as u64, "sample"),
        number::bytes(profile.bytes() as u64)
    ));
    Ok(ExitCode::SUCCESS)
}
