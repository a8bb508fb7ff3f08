//! `prairie survey --summary`: the survey as one row for a fleet.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use prairie_fleet::host_row::{self, HostRow, Measures};
use prairie_frames::Order;
use prairie_host::Survey;
use prairie_host::survey::frame_report::FrameReport;
use prairie_report::write_atomically;

use super::Args;
use crate::output;
use crate::usage_error::refuse;

/// Whether the row goes to a file of that name: not to standard output, not into a directory.
pub fn is_file(path: &Path) -> bool {
    !is_stdout(path) && !path.is_dir()
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// `NAME=VALUE`.
pub fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE, as rack=r7")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return Err("expected a name of letters, digits, and _-.".to_owned());
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// Writes the row: as Parquet if the name says so, else as a line of JSON. In a directory the file is
/// named after the host and the time, so that each survey adds one.
pub fn write(args: &Args, path: &Path, survey: &Survey) -> anyhow::Result<()> {
    let row = row(args, survey)?;
    if is_stdout(path) {
        return output::print_document_line(&row);
    }
    let path = match path.is_dir() {
        true => {
            let seconds = row.taken_at_unix_ns / 1_000_000_000;
            path.join(format!("{}-{seconds}.jsonl", row.machine_id))
        }
        false => path.to_owned(),
    };
    let contents = match path.extension().and_then(OsStr::to_str) {
        Some("parquet") => host_row::to_parquet(&[row])?,
        _ => output::document_line(&row)?.into_bytes(),
    };
    write_atomically(&path, &contents)?;
    output::wrote(&path);
    Ok(())
}

/// Refuses a file that cannot hold the rows, and a row of an unknown host, before the survey.
pub fn check(args: &Args, path: &Path) -> anyhow::Result<()> {
    identity(args)?;
    if is_stdout(path) && args.json {
        refuse!("--summary - with --json: both print on standard output, expected one of them");
    }
    if output::is_formatted() {
        refuse!("--summary {}: one row, expected no --format", path.display());
    }
    let mut names: Vec<&str> = args.label.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    if let Some([name, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        refuse!("--label {name}: given twice, expected one value");
    }
    let ending = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    let is_known = ["jsonl", "json", "ndjson", "parquet"].contains(&ending);
    if is_file(path) && args.every.is_some() {
        refuse!("{}: one row replaces the other, expected a directory or -", path.display());
    }
    if is_file(path) && !is_known {
        refuse!("{}: unknown ending, expected .jsonl or .parquet", path.display());
    }
    Ok(())
}

fn row(args: &Args, survey: &Survey) -> anyhow::Result<HostRow> {
    let (host, id) = identity(args)?;
    Ok(HostRow {
        schema: host_row::SCHEMA.to_owned(),
        schema_version: host_row::SCHEMA_VERSION,
        taken_at_unix_ns: survey.taken_at_unix_ns,
        machine_id: host_row::hashed_id(&id),
        host,
        kernel: survey.kernel_release.clone(),
        memory_bytes: survey.memory_bytes(),
        uptime_s: survey.uptime_seconds,
        labels: args.label.iter().cloned().collect(),
        measures: rounded(measures(survey)),
    })
}

/// The host's name and what identifies it. Of a saved state only the file's name is known, and of
/// another `/proc` nothing: a container that reads the host's has a host name of its own.
fn identity(args: &Args) -> anyhow::Result<(String, String)> {
    let saved = args.from.as_deref().and_then(Path::file_stem);
    if let Some(name) = args.host.clone().or(saved.map(|name| name.to_string_lossy().into_owned()))
    {
        return Ok((name.clone(), name));
    }
    if let Some(proc) = &args.proc {
        refuse!("--proc {}: expected --host with the name of the row's host", proc.display());
    }
    let text = |path| fs::read_to_string(path).map(|text: String| text.trim().to_owned());
    let host = text("/proc/sys/kernel/hostname").unwrap_or_default();
    let id = text("/etc/machine-id").ok().filter(|id| !id.is_empty());
    Ok((host.clone(), id.unwrap_or(host)))
}

fn measures(survey: &Survey) -> Measures {
    let lists = survey.free_lists.as_ref();
    let counter = |name: &str| {
        let found = survey.counters.iter().find(|counter| counter.name == name);
        found.map(|counter| counter.value as f64)
    };
    let faults = counter("thp_fault_alloc").zip(counter("thp_fault_fallback"));
    let free = lists.map(|lists| (lists.free_frames * survey.page_bytes) as f64);
    let all = survey.memory_bytes() as f64;
    let own = Measures {
        free_share: free.filter(|_| all > 0.0).map(|free| free / all),
        unusable_2_mib: lists.filter(|lists| lists.free_frames > 0).and_then(|lists| {
            let found = lists.indices.iter().find(|found| found.order == Order::HUGE.get());
            found.map(|found| found.unusable_free_space_index)
        }),
        coverage: survey.huge_pages.host.as_ref().and_then(|host| host.anonymous_coverage),
        fallback: faults
            .filter(|(served, fallen)| served + fallen > 0.0)
            .map(|(served, fallen)| fallen / (served + fallen)),
        stalls_per_s: counter("compact_stall")
            .zip(survey.uptime_seconds.filter(|seconds| *seconds > 0.0))
            .map(|(stalls, seconds)| stalls / seconds),
        ..Measures::default()
    };
    match &survey.frames {
        Some(frames) => of_frames(frames, own),
        None => own,
    }
}

/// The measures that need the flags of frames.
fn of_frames(frames: &FrameReport, own: Measures) -> Measures {
    let initialized = frames.initialized;
    let of_initialized = |part: u64| Some(part as f64 / initialized.frames.max(1) as f64);
    let uninitialized = frames.uninitialized_frames();
    let by = &frames.by_mobility;
    let unknown = by.unknown.saturating_sub(uninitialized);
    let (polluted_min, polluted_max) = frames.polluted_bounds();
    let gigantic = frames.potential.iter().find(|found| found.order == Order::GIGANTIC.get());
    let available = frames.available.iter().find(|found| found.order == Order::GIGANTIC.get());
    Measures {
        free_1_gib: available.map(|found| found.share_of_free),
        initialized: Some(initialized.share_of_memory),
        unmovable_min: of_initialized(by.unmovable),
        unmovable_max: of_initialized(by.unmovable + unknown),
        polluted_min: Some(polluted_min),
        polluted_max: Some(polluted_max),
        potential_2_mib_min: Some(initialized.potential_2_mib_min),
        potential_2_mib_max: Some(initialized.potential_2_mib_max),
        potential_1_gib_min: gigantic.map(|found| found.unknown_unmovable.share_of_memory),
        potential_1_gib_max: gigantic.map(|found| found.unknown_movable.share_of_memory),
        ..own
    }
}

/// Six decimals: more would only make the row longer.
fn rounded(measures: Measures) -> Measures {
    measures.map(|value| (value * 1e6).round() / 1e6)
}
