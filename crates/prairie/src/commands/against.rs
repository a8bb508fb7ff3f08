//! `prairie replay --against`: `linux` validated against the recorded kernel.

mod refused;

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use flate2::read::GzDecoder;
use prairie_frames::KernelVersion;
use prairie_replay::exact::recording::Recording;
use prairie_replay::exact::snapshot::Snapshot;
use prairie_replay::exact::{self, Fidelity};
use prairie_report::Report;
use prairie_trace::import::Imported;
use prairie_trace::{Columns, EventSource, Reader};
use serde::Serialize;

use super::survey;
use crate::output::{self, Header};
use crate::view::against as view;

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    header: Header,
    trace: &'a Path,
    left_open: &'a [&'static str],
    #[serde(flatten)]
    fidelity: &'a Fidelity,
}

/// Replays a recording from boot and compares it with the snapshots in `folder`.
pub fn run(
    trace: &Path,
    folder: &Path,
    is_parquet: bool,
    json: bool,
    html: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let snapshots = snapshots(folder)?;
    let version = version(folder)?;
    let left_open = refused::left_open(folder)?;
    let read = |source: &mut dyn EventSource| {
        Recording::read(source, snapshots, version).with_context(|| trace.display().to_string())
    };
    let recording = if is_parquet {
        read(&mut Reader::open(trace)?.events(Columns::ALL))?
    } else {
        read(&mut Imported::open(trace)?)?
    };
    let fidelity = exact::compare(&recording);
    let report: Report =
        view::report(trace, &recording, &fidelity, &left_open, survey::generated_by());
    output::publish(&report, json, html, || Document {
        header: Header::new("prairie-replay-against", 1),
        trace,
        left_open: &left_open,
        fidelity: &fidelity,
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The release of the recorded kernel, from the file `release`; 6.1 without one.
fn version(folder: &Path) -> anyhow::Result<KernelVersion> {
    let path = folder.join("release");
    if !path.exists() {
        return Ok(KernelVersion::V6_1);
    }
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    KernelVersion::of_kernel(&text).with_context(|| {
        format!(
            "{}: {:?}, expected a kernel's release such as 6.12.95",
            path.display(),
            text.trim()
        )
    })
}

/// The snapshots of a folder: files `NAME.pagetypeinfo`, `NAME.zoneinfo` and, for one at
/// least, `NAME.kpageflags` or `NAME.kpageflags.gz`.
fn snapshots(folder: &Path) -> anyhow::Result<Vec<Snapshot>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let file = entry.with_context(|| format!("cannot read {}", folder.display()))?.file_name();
        if let Some(name) = file.to_str().and_then(|file| file.strip_suffix(".pagetypeinfo")) {
            names.push(name.to_owned());
        }
    }
    if names.is_empty() {
        bail!("{}: no snapshot NAME.pagetypeinfo in it; record with vm/record", folder.display());
    }
    names.sort();
    names.iter().map(|name| snapshot(folder, name)).collect()
}

fn snapshot(folder: &Path, name: &str) -> anyhow::Result<Snapshot> {
    let path = |file: &str| folder.join(format!("{name}.{file}"));
    let text = |file: &str| {
        let path = path(file);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (types, zones) = (text("pagetypeinfo")?, text("zoneinfo")?);
    let flags = flags(&path("kpageflags"))?;
    Snapshot::new(name, [&types, &zones], flags.as_deref())
        .with_context(|| path("*").display().to_string())
}

/// Page flags, which may be packed and may be missing.
fn flags(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    if path.exists() {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        return Ok(Some(bytes));
    }
    let path = path.with_extension("kpageflags.gz");
    if !path.exists() {
        return Ok(None);
    }
    let context = || format!("cannot read {}", path.display());
    let mut bytes = Vec::new();
    GzDecoder::new(fs::File::open(&path).with_context(context)?)
        .read_to_end(&mut bytes)
        .with_context(context)?;
    Ok(Some(bytes))
}
