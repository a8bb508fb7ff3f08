//! `prairie heap run --trace`: runs a program and converts its heap's recording into a trace.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use prairie_heap::recording::{DELETE, NEW, RELEASE, Recorded};
use prairie_report::number;
use prairie_trace::page_heap::{Call, Event, Writer};

use crate::output;

/// Runs the program to its end and writes the trace; the exit code is the program's.
pub fn record(mut command: Command, name: &OsStr, trace: &Path) -> anyhow::Result<ExitCode> {
    let raw = Raw::beside(trace)?;
    let status = command.env("PRAIRIE_HEAP_TRACE", &raw.0).status();
    let status = status.with_context(|| name.to_string_lossy().into_owned())?;
    if !raw.0.exists() {
        bail!("{} recorded nothing: the heap was not loaded into it", name.to_string_lossy());
    }
    let bytes = fs::read(&raw.0).with_context(|| raw.0.display().to_string())?;
    let events = write(&bytes, trace, &name.to_string_lossy())?;
    let calls = number::counted(events, "call");
    output::say(format_args!("wrote {} with {calls} of the page heap", trace.display()));
    // The shell's convention for a program that a signal ended.
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(code as u8))
}

fn write(bytes: &[u8], trace: &Path, source: &str) -> anyhow::Result<u64> {
    let mut writer = Writer::create(trace)?;
    let mut first_ns = None;
    let mut events = 0;
    for recorded in Recorded::of_bytes(bytes) {
        let first_ns = *first_ns.get_or_insert(recorded.time_ns);
        writer.event(&event(recorded, first_ns)?)?;
        events += 1;
    }
    writer.finish(source)?;
    Ok(events)
}

fn event(recorded: Recorded, first_ns: u64) -> anyhow::Result<Event> {
    let Recorded { time_ns, span, pages, kind } = recorded;
    let call = match kind & 0xff {
        NEW => Call::New { span, pages, align_log2: (kind >> 8) as u8 },
        DELETE => Call::Delete { span },
        RELEASE => Call::Release { pages },
        other => bail!("the recording has a call of kind {other}"),
    };
    Ok(Event { time_ns: time_ns.saturating_sub(first_ns), call })
}

/// The file that the program's heap writes; it is deleted on drop.
struct Raw(PathBuf);

impl Raw {
    /// Next to the trace, where there is room for both.
    fn beside(trace: &Path) -> anyhow::Result<Raw> {
        let name =
            trace.file_name().with_context(|| format!("{} names no file", trace.display()))?;
        let folder = match trace.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let folder = folder.canonicalize().with_context(|| folder.display().to_string())?;
        let name = format!(".{}.{}", name.to_string_lossy(), std::process::id());
        Ok(Raw(folder.join(name)))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_start_at_zero_and_invalid_ones_are_errors() {
        let call = |kind| Recorded { time_ns: 1_000, span: 8, pages: 4, kind };
        let new = Call::New { span: 8, pages: 4, align_log2: 3 };
        assert_eq!(event(call(NEW | 3 << 8), 900).unwrap(), Event { time_ns: 100, call: new });
        assert_eq!(event(call(DELETE), 0).unwrap().call, Call::Delete { span: 8 });
        assert_eq!(event(call(RELEASE), 0).unwrap().call, Call::Release { pages: 4 });
        assert!(event(call(77), 0).is_err());
    }
}
