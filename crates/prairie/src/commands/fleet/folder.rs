//! A folder of simulated and surveyed servers, read with all cores.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, anyhow, bail};
use prairie_fleet::part::{Header, Part};
use prairie_fleet::row::Row;
use prairie_host::layout::Layout;
use prairie_host::survey::FrameReport;
use prairie_host::survey::frame_report::Potential;
use prairie_host::{Capture, FrameTally, Survey};
use prairie_model::sample::BlocksBySize;
use serde::Serialize;

use crate::commands::wrong_kind;

/// Files that a report is about.
const EXPECTED: &str = "rows of `prairie survey --summary`, parts of `prairie fleet run`, or files \
                        of `prairie survey --save`";

/// The contents of a folder.
pub struct Folder {
    /// Its servers, by file name.
    pub rows: Vec<Row>,
    /// Files that could not be read.
    pub skipped: Vec<Skipped>,
    /// Shards of the study whose parts are not in the folder.
    pub missing_shards: Vec<u64>,
}

/// A file that could not be read, or lines of one.
#[derive(Clone, Debug, Serialize)]
pub struct Skipped {
    /// The file's name.
    pub file: String,
    /// How many of its lines were skipped; `None` if the whole file was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<u64>,
    /// Why not.
    pub reason: String,
}

/// The contents of one file.
enum Content {
    Part(Part),
    Host(Box<Row>),
}

impl Folder {
    /// Reads parts of a study and saved surveys. An unreadable file is skipped, or with `strict` an
    /// error. `name` is where the files come from, for messages.
    ///
    /// # Errors
    /// If no file can be read, or if parts belong to different studies.
    pub fn read(name: &str, paths: &[&Path], strict: bool) -> anyhow::Result<Folder> {
        let mut found =
            Folder { rows: Vec::new(), skipped: Vec::new(), missing_shards: Vec::new() };
        let mut parts: Vec<(&Path, Header)> = Vec::new();
        for (path, content) in paths.iter().zip(read_all(paths)?) {
            match content {
                Ok(Content::Part(part)) => {
                    parts.push((path, part.header));
                    found.rows.extend(part.rows);
                }
                Ok(Content::Host(row)) => {
                    found.rows.push(Row { server: found.rows.len() as u64, ..*row });
                }
                Err(error) if strict => {
                    bail!("{}: {}", path.display(), reason_of(path, &error));
                }
                Err(error) => found.skipped.push(Skipped {
                    file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                    lines: None,
                    reason: reason_of(path, &error),
                }),
            }
        }
        if found.rows.is_empty() {
            bail!(nothing_read(name, paths.len(), &found.skipped));
        }
        found.missing_shards = missing(name, &parts)?;
        Ok(found)
    }
}

/// What is wrong with a file, without its name, which stands beside it.
pub fn reason_of(path: &Path, error: &anyhow::Error) -> String {
    let name = path.display().to_string();
    let text = crate::joined_causes(error);
    let text = text.strip_prefix(&format!("{name}: ")).map(str::to_owned).unwrap_or(text);
    match text.strip_prefix(&format!("cannot read {name}: ")) {
        Some(why) => format!("cannot read the file: {why}"),
        None => text,
    }
}

/// Why none of some files could be read.
pub fn nothing_read(name: &str, files: usize, skipped: &[Skipped]) -> String {
    match skipped.first() {
        None => format!("{name}: empty, expected {EXPECTED}"),
        Some(Skipped { file, reason, .. }) if files == 1 && name.ends_with(file.as_str()) => {
            format!("{name}: {reason}")
        }
        Some(Skipped { file, reason, .. }) => {
            format!("{name}: no file of {files} can be read: {file}: {reason}")
        }
    }
}

/// The Parquet files of a folder, by name.
///
/// # Errors
/// If the folder cannot be read.
pub fn parquet_files(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read the folder {}", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if path.extension().is_some_and(|ending| ending == "parquet") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads files on all cores; the results are in the order of the paths.
fn read_all(paths: &[&Path]) -> anyhow::Result<Vec<anyhow::Result<Content>>> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(paths.len()));
    let work = || {
        let mut own = Vec::new();
        while let Some((at, path)) = {
            let at = next.fetch_add(1, Ordering::Relaxed);
            paths.get(at).map(|path| (at, path))
        } {
            own.push((at, content(path)));
        }
        if let Ok(mut results) = results.lock() {
            results.extend(own);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    std::thread::scope(|scope| {
        (0..threads.min(paths.len())).for_each(|_| {
            scope.spawn(work);
        });
    });
    let mut results = results.into_inner().map_err(|_| anyhow!("a thread has panicked"))?;
    results.sort_by_key(|(at, _)| *at);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

fn content(path: &Path) -> anyhow::Result<Content> {
    match Part::read(path)? {
        Some(part) => Ok(Content::Part(part)),
        None => Ok(Content::Host(Box::new(of_host(path)?))),
    }
}

/// A real server, from its saved survey. Only what counts frames is decoded.
fn of_host(path: &Path) -> anyhow::Result<Row> {
    let reader =
        prairie_trace::Reader::open(path).map_err(|error| wrong_kind::named(error, EXPECTED))?;
    let Some(capture) = &reader.metadata().before else {
        bail!("no description of a machine, expected a file of `prairie survey --save`");
    };
    let mut tally = FrameTally::new(Layout::of(capture)?, prairie_frames::Order::GIGANTIC);
    let mut any = false;
    for run in reader.frame_flags() {
        tally.push(run?)?;
        any = true;
    }
    if !any {
        bail!("a survey without frames, expected one saved by root");
    }
    let counts = tally.finish();
    Ok(row(path, capture, &FrameReport::of(&counts.zones.iter().collect::<Vec<_>>())))
}

fn row(path: &Path, capture: &Capture, frames: &FrameReport) -> Row {
    let free = |order: u8| {
        frames.available.iter().find(|found| found.order == order).map_or(0, |found| found.blocks)
    };
    // As `survey` does: all shares are of initialized memory.
    let memory = frames.initialized.frames;
    let uninitialized = frames.uninitialized_frames();
    let initialized = |blocks: u64, order: u8| blocks.saturating_sub(uninitialized >> order);
    let potential = |of: &dyn Fn(&Potential) -> u64| {
        let blocks = |order: u8| {
            let found = frames.potential.iter().find(|found| found.order == order);
            found.map_or(0, of).min(memory >> order)
        };
        BlocksBySize { mib_2: blocks(9), mib_32: blocks(13), gib_1: blocks(18) }
    };
    Row {
        workload: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        system: "host".to_owned(),
        uptime_s: Survey::uptime_of(capture).unwrap_or(f64::NAN),
        server: 0,
        frames: memory,
        free_frames: frames.by_mobility.free,
        free_2_mib: free(9),
        free_4_mib: free(10),
        free_32_mib: free(13),
        free_1_gib: free(18),
        potential_min: potential(&|found| found.unknown_unmovable.blocks),
        potential_max: potential(&|found| initialized(found.unknown_movable.blocks, found.order)),
        unmovable_frames: frames.by_mobility.unmovable,
        unknown_frames: frames.by_mobility.unknown.saturating_sub(uninitialized),
        polluted_min: frames.polluted.polluted_blocks,
        polluted_max: initialized(frames.polluted_if_unknown_unmovable.polluted_blocks, 9),
        simulated: None,
    }
}

/// The shards without a part.
///
/// # Errors
/// If the parts are not parts of one study, or if two hold the same servers.
fn missing(folder: &str, parts: &[(&Path, Header)]) -> anyhow::Result<Vec<u64>> {
    let Some(((first, header), others)) = parts.split_first() else { return Ok(Vec::new()) };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut there = vec![header.shard.index];
    for (path, other) in others {
        let conflict = header.conflict(other).or_else(|| {
            there.contains(&other.shard.index).then(|| format!("shard {} twice", other.shard))
        });
        if let Some(conflict) = conflict {
            let (one, two) = (name(first), name(path));
            bail!("{folder}: parts of different studies: {one} and {two}: {conflict}");
        }
        there.push(other.shard.index);
    }
    Ok((0..header.shard.of).filter(|index| !there.contains(index)).collect())
}
