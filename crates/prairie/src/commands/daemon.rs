//! What the commands of daemons share: the format of log lines, and asking for a status.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::ValueEnum;
use prairie_daemon::log::{Format, Log, Verbosity};
use prairie_daemon::status::ask;
use prairie_report::Report;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::output;

/// How a daemon logs.
#[derive(Clone, Copy, clap::Args)]
pub struct LogFormat {
    /// Format of log lines on standard output
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Lines::Text)]
    log: Lines,
}

/// How lines are written.
#[derive(Clone, Copy, ValueEnum)]
enum Lines {
    Text,
    Json,
}

impl LogFormat {
    /// A log of that format on standard output.
    pub fn log(self, verbosity: Verbosity) -> Log {
        let format = match self.log {
            Lines::Text => Format::Text,
            Lines::Json => Format::Json,
        };
        Log::new(format, verbosity, Box::new(io::stdout()))
    }
}

/// Asks the daemon at `socket` and prints its status. `starter` is the command that starts it.
pub fn print_status<T: DeserializeOwned + Serialize>(
    socket: &Path,
    starter: &str,
    json: bool,
    view: fn(&T) -> Report,
) -> anyhow::Result<ExitCode> {
    let status: T = ask(socket).with_context(|| {
        format!("{}: no daemon answers; `{starter}` starts one", socket.display())
    })?;
    match json {
        true => output::print_json(&status)?,
        false => output::print_report(&view(&status))?,
    }
    Ok(ExitCode::SUCCESS)
}
