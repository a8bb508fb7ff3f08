//! Takes a [`Capture`] of a host: reads its `/proc` and `/sys`, or copies of them elsewhere.
//!
//! Nothing here is written to, and nothing but permission is needed: what cannot be read is noted
//! in [`Capture::left_out`] with the way to get it, and the rest is taken.

use std::fs;
use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::time::SystemTime;

use prairie_frames::{Order, Pfn};
use rustix::time::{ClockId, clock_gettime};

use crate::classify::SECTION;
use crate::roots::Roots;
use crate::texts::{iomem, zoneinfo};
use crate::{
    Capture, Error, FrameRun, LeftOut, PageFlags, kpageflags, remedy, wanted, wanted_pins,
};

/// Options of a capture.
pub struct Options<'a> {
    /// Whether to read the frames (`kpageflags`): the longest part, some 70 ns a frame.
    pub frames: bool,
    /// Threads that read them, at least 1.
    pub threads: usize,
    /// How many processes, those with the most anonymous memory, to look into. The kernel walks
    /// a process's page tables for that.
    pub largest_processes: usize,
    /// Set by anyone to stop: the capture then returns [`Error::Interrupted`].
    pub interrupted: &'a AtomicBool,
    /// Called with the frames read so far, and their number as far as zones tell it (0: unknown).
    pub progress: &'a mut dyn FnMut(u64, u64),
}

/// How to read the frames alone; the fields are those of [`Options`].
pub struct FrameOptions<'a> {
    /// Threads that read, at least 1.
    pub threads: usize,
    /// Set by anyone to stop.
    pub interrupted: &'a AtomicBool,
    /// Called with the frames read so far and their number.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

/// Takes a capture and keeps its frames in memory, 32 bytes a run.
///
/// # Errors
/// As [`capture_texts`] and [`read_frames`].
pub fn capture(roots: &Roots, options: Options<'_>) -> Result<Capture, Error> {
    let mut frames = Vec::new();
    let mut capture = capture_to(roots, options, &mut |runs| frames.extend_from_slice(runs))?;
    capture.frames = (!frames.is_empty()).then_some(frames);
    Ok(capture)
}

/// Takes a capture and hands its frames to `sink`; [`Capture::frames`] stays `None`. Who needs
/// the texts to make sense of the frames calls [`capture_texts`] and [`read_frames`] instead.
///
/// # Errors
/// As [`capture_texts`] and [`read_frames`].
pub fn capture_to(
    roots: &Roots,
    options: Options<'_>,
    sink: &mut dyn FnMut(&[FrameRun]),
) -> Result<Capture, Error> {
    let mut capture = capture_texts(roots, options.largest_processes)?;
    let Options { threads, interrupted, progress, .. } = options;
    if options.frames {
        let options = FrameOptions { threads, interrupted, progress };
        read_frames(roots, &mut capture, options, sink)?;
    }
    Ok(capture)
}

/// Takes everything but the frames.
///
/// # Errors
/// [`Error::Io`] where `proc` is no directory.
pub fn capture_texts(roots: &Roots, largest_processes: usize) -> Result<Capture, Error> {
    fs::read_dir(&roots.proc).map_err(|source| Error::Io { path: roots.proc.clone(), source })?;
    let mut capture =
        Capture { page_bytes: rustix::param::page_size() as u64, ..Capture::default() };
    name_kernel(roots, &mut capture);
    // Processes first: they may take seconds, and the free lists should be of the same moment as
    // the frames that are read next.
    wanted::read_processes(roots, largest_processes, &mut capture);
    wanted_pins::read_pins(roots, &mut capture);
    capture.taken_at_unix_ns = unix_ns();
    capture.taken_at_monotonic_ns = monotonic_ns();
    wanted::read_texts(roots, &mut capture);
    Ok(capture)
}

/// Reads `proc/kpageflags` and hands the frames to `sink` as they come, ascending, so that memory
/// does not grow with the machine; [`Capture::frames`] stays as it is. Where the file cannot be
/// opened, that is noted in [`Capture::left_out`] and nothing is handed over.
///
/// # Errors
/// [`Error::Io`] where the file breaks off with an error; [`Error::PartialWord`]; [`Error::Parse`]
/// where `zoneinfo` or `iomem`, which show where frames are, are malformed; [`Error::Interrupted`].
pub fn read_frames(
    roots: &Roots,
    capture: &mut Capture,
    options: FrameOptions<'_>,
    sink: &mut dyn FnMut(&[FrameRun]),
) -> Result<(), Error> {
    let zones = match capture.files.get(zoneinfo::FILE) {
        Some(text) => zoneinfo::parse(text)?,
        None => Vec::new(),
    };
    note_hidden_memory_map(capture)?;
    let ranges = ranges_to_read(&zones);
    let total = zones.iter().map(|zone| zone.end().0).max().unwrap_or(0);
    // One past the last frame that was handed over or skipped.
    let mut reach = 0;
    let mut in_order = |runs: &[FrameRun]| {
        if let Some(gap) = gap_before(runs, reach) {
            sink(&[gap]);
        }
        reach = runs.last().map_or(reach, |run| run.start.0 + run.frames);
        sink(runs);
    };
    let reading = kpageflags::Options {
        threads: options.threads,
        clock: &monotonic_ns,
        interrupted: options.interrupted,
        progress: &mut |frames| (options.progress)(frames, total),
    };
    match kpageflags::read(&roots.path(wanted::KPAGEFLAGS), &ranges, reading, &mut in_order) {
        Ok(_) => {
            capture.left_out.extend(frames_cut(reach, total));
            Ok(())
        }
        Err(Error::Io { source, .. }) if reach == 0 => {
            capture.left_out.push(frames_left_out(&source));
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// The frames before `runs` that were too far from every zone to be requested: none exists.
fn gap_before(runs: &[FrameRun], reach: u64) -> Option<FrameRun> {
    let first = runs.first()?;
    let frames = first.start.0.checked_sub(reach).filter(|&frames| frames > 0)?;
    let (start, flags) = (Pfn(reach), PageFlags::NOPAGE);
    Some(FrameRun { start, frames, flags, read_at_ns: first.read_at_ns })
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock that `read_at_ns` and recorded events share.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Nanoseconds since 1970.
fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |elapsed| elapsed.as_nanos() as u64)
}

/// Release and architecture: from the tree, and for this host from `uname` otherwise.
fn name_kernel(roots: &Roots, capture: &mut Capture) {
    let uname = rustix::system::uname();
    let live = |word: &std::ffi::CStr| {
        if roots.is_live() { word.to_string_lossy().into_owned() } else { "unknown".to_owned() }
    };
    let read = |name| roots.text(name).map(|text: String| text.trim().to_owned());
    capture.kernel_release =
        read("proc/sys/kernel/osrelease").unwrap_or_else(|_| live(uname.release()));
    capture.machine = read("proc/sys/kernel/arch").unwrap_or_else(|_| live(uname.machine()));
}

/// Notes a memory map whose addresses the kernel hides.
fn note_hidden_memory_map(capture: &mut Capture) -> Result<(), Error> {
    let Some(text) = capture.files.get(iomem::FILE) else { return Ok(()) };
    if iomem::system_ram(text)?.is_empty() {
        capture.left_out.push(LeftOut {
            what: "the memory map, which tells holes from frames without flags".to_owned(),
            why: format!("/{}: no address of \"System RAM\" in it", iomem::FILE),
            remedy: remedy::for_refused().to_owned(),
        });
    }
    Ok(())
}

/// Why there are no frames, and the remedy.
fn frames_left_out(error: &io::Error) -> LeftOut {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "a kernel with CONFIG_PROC_PAGE_MONITOR",
        _ => remedy::for_refused(),
    };
    LeftOut {
        what: "what fills each frame: potential contiguity, unmovable memory, the map".to_owned(),
        why: format!("/{}: {error}", wanted::KPAGEFLAGS),
        remedy: remedy.to_owned(),
    }
}

/// What is missing where page flags end at the frame `reach` and zones at `total`: of another tree a
/// part may have been copied.
pub fn frames_cut(reach: u64, total: u64) -> Option<LeftOut> {
    let gib = |frames: u64| (frames * Order::BASE.bytes()) as f64 / f64::from(1 << 30);
    (reach < total).then(|| LeftOut {
        what: format!("the frames above {:.2} GiB", gib(reach)),
        why: format!("/{}: ends there, and zones at {:.2} GiB", wanted::KPAGEFLAGS, gib(total)),
        remedy: "a whole copy of the file".to_owned(),
    })
}

/// The frames to ask for: everything, but for gaps between zones so wide that reading them would
/// take longer than a second. Machines that put each node's memory at a far address have them.
fn ranges_to_read(zones: &[zoneinfo::ZoneInfo]) -> Vec<Range<u64>> {
    const WIDE_FRAMES: u64 = 1 << 24;
    let mut spans: Vec<Range<u64>> = zones
        .iter()
        .filter(|zone| zone.spanned_frames > 0)
        .map(|zone| {
            let end = zone.end().0.next_multiple_of(SECTION.frames());
            zone.start.align_down(SECTION).0..end
        })
        .collect();
    spans.sort_by_key(|span| span.start);
    let mut ranges = vec![0..0u64];
    for span in spans {
        let last = ranges.last_mut().expect("starts with one range");
        if span.start <= last.end.saturating_add(WIDE_FRAMES) {
            last.end = last.end.max(span.end);
        } else {
            ranges.push(span);
        }
    }
    // Frames beyond the last zone, up to the end of the file.
    ranges.last_mut().expect("starts with one range").end = u64::MAX;
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::texts::ZoneId;

    fn zones(spans: &[(u64, u64)]) -> Vec<zoneinfo::ZoneInfo> {
        let text: String = spans
            .iter()
            .enumerate()
            .map(|(node, (start, frames))| {
                format!("Node {node}, zone Normal\n spanned {frames}\n start_pfn: {start}\n")
            })
            .collect();
        zoneinfo::parse(&text).unwrap()
    }

    #[test]
    fn only_wide_gaps_are_passed_over() {
        assert_eq!(ranges_to_read(&[]), [0..u64::MAX]);
        assert_eq!(ranges_to_read(&zones(&[(1, 4095), (4096, 1 << 20)])), [0..u64::MAX]);
        let far = 1 << 33;
        let ranges = ranges_to_read(&zones(&[(far + 5, 1000), (0, 1 << 20), (1 << 21, 5)]));
        assert_eq!(ranges, [0..(1 << 21) + SECTION.frames(), far..u64::MAX]);
        let id = ZoneId { node: 0, kind: prairie_frames::ZoneKind::Normal };
        assert_eq!(zones(&[(far, 1)])[0].id, id);
    }
}
