//! Reads page flags within a budget of CPU time.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use prairie_frames::{Order, Pfn};
use prairie_host::classify::SECTION;
use prairie_host::layout::Layout;
use prairie_host::{Capture, ClassRun, Error, FrameTally, LeftOut, Roots, frames_cut, kpageflags};
use rustix::time::{ClockId, clock_gettime};

use crate::block::{BlockReader, Flags};
use crate::budget::{Budget, Plan};
use crate::figures::Figures;
use crate::population::{Population, choose};
use crate::sample::SampleTally;

/// Pageblocks that are read to learn what one costs here: two milliseconds.
const TRIAL: u64 = 64;

/// Frames of one read of a full walk: 64 KiB of the file.
const READ_FRAMES: u64 = 8192;

/// Walks the frames of the host at `roots`, whose zones and memory map `capture` holds. The seed
/// determines the sample. Without zones, or with a budget of nothing, there are no figures.
///
/// # Errors
/// [`Error::Io`] where the flags cannot be read; [`Error::Parse`] and [`Error::FrameLimit`] where
/// zones or memory map are malformed; [`Error::Interrupted`].
pub fn walk(
    roots: &Roots,
    capture: &Capture,
    budget: Budget,
    seed: u64,
    interrupted: &AtomicBool,
) -> Result<Option<Figures>, Error> {
    let layout = Layout::of(capture)?;
    let population = Population::new(&layout);
    if population.is_empty() || budget.share <= 0.0 {
        return Ok(None);
    }
    let walker = Walker::open(roots, interrupted)?;
    let started = cpu_seconds();
    let block_seconds = walker.trial(&population, seed)?;
    let mut figures = match budget.plan(population.len(), block_seconds) {
        Plan::Full => walker.full(layout, population.len())?,
        Plan::Sample(size) => walker.sample(layout, &population, size, seed)?,
    };
    figures.cpu_seconds = cpu_seconds() - started;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    figures.at_unix_ns = now.map_or(0, |now| now.as_nanos() as u64);
    Ok(Some(figures))
}

/// What is missing of the figures of a walk because the flags end before the zones do, as in a copy of
/// a part of another host's file.
pub fn missing(roots: &Roots, capture: &Capture) -> Option<LeftOut> {
    let layout = Layout::of(capture).ok()?;
    let end = layout.zones().iter().map(|zone| zone.end.0).max()?;
    let file = File::open(roots.proc.join("kpageflags")).ok()?;
    let mut last = [0; 8];
    let is_whole = (&file).read(Pfn(end.checked_sub(1)?), &mut last).ok()? > 0;
    // A file of /proc has no length.
    let reach = file.metadata().ok()?.len() / 8;
    frames_cut(reach, end).filter(|_| !is_whole)
}

struct Walker<'a> {
    path: PathBuf,
    file: File,
    interrupted: &'a AtomicBool,
}

impl Walker<'_> {
    fn open<'a>(roots: &Roots, interrupted: &'a AtomicBool) -> Result<Walker<'a>, Error> {
        let path = roots.proc.join("kpageflags");
        match File::open(&path) {
            Ok(file) => Ok(Walker { path, file, interrupted }),
            Err(source) => Err(Error::Io { path, source }),
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Io { path: self.path.clone(), source }
    }

    fn check(&self) -> Result<(), Error> {
        if self.interrupted.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// CPU seconds of one pageblock, by some drawn at random.
    fn trial(&self, population: &Population, seed: u64) -> Result<f64, Error> {
        // Another seed than the sample's, which must not depend on what was read before.
        let chosen = choose(population.len(), TRIAL, !seed);
        let mut reader = BlockReader::new(&self.file);
        let started = cpu_seconds();
        for number in &chosen {
            let start = population.unit(*number).start;
            reader.classes(start, &mut |_| {}).map_err(|error| self.failed(error))?;
        }
        Ok((cpu_seconds() - started) / chosen.len() as f64)
    }

    fn sample(
        &self,
        layout: Layout,
        population: &Population,
        size: u64,
        seed: u64,
    ) -> Result<Figures, Error> {
        let frames = layout.frames_by_zone().iter().sum();
        let mut tally = SampleTally::new(layout, frames);
        let mut reader = BlockReader::new(&self.file);
        let mut runs: Vec<ClassRun> = Vec::new();
        for number in choose(population.len(), size, seed) {
            self.check()?;
            let unit = population.unit(number);
            runs.clear();
            let mut take = |run| runs.push(run);
            reader.classes(unit.start, &mut take).map_err(|error| self.failed(error))?;
            tally.add(unit, &runs);
        }
        Ok(tally.finish(population.len()))
    }

    fn full(&self, layout: Layout, pageblocks: u64) -> Result<Figures, Error> {
        let ranges = ranges(&layout);
        let frames = layout.frames_by_zone().iter().sum();
        let mut tally = FrameTally::new(layout, Figures::map_cell(frames));
        let mut bytes = vec![0; READ_FRAMES as usize * 8];
        let mut runs = Vec::new();
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                self.check()?;
                let wanted = (range.end - at).min(READ_FRAMES) as usize * 8;
                let read = (&self.file).read(Pfn(at), &mut bytes[..wanted]);
                let read = read.map_err(|error| self.failed(error))?;
                runs.clear();
                kpageflags::encode(Pfn(at), &bytes[..read], 0, &mut runs);
                runs.iter().try_for_each(|run| tally.push(*run))?;
                if read < wanted {
                    break;
                }
                at += (read / 8) as u64;
            }
        }
        Ok(Figures::counted(tally.finish(), pageblocks))
    }
}

impl Flags for &File {
    fn read(&mut self, from: Pfn, words: &mut [u8]) -> io::Result<usize> {
        let offset = from.0.saturating_mul(8);
        let mut filled = 0;
        while filled < words.len() {
            match self.read_at(&mut words[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        // A file that ends inside a word ends before it.
        Ok(filled / 8 * 8)
    }
}

/// The frames to read: every section that a zone reaches into, without overlap.
fn ranges(layout: &Layout) -> Vec<Range<u64>> {
    let section = SECTION.frames();
    let mut ranges: Vec<Range<u64>> = Vec::new();
    // Zones ascend by their first frame.
    for zone in layout.zones() {
        let start = zone.start.align_down(SECTION).0;
        let end = zone.end.0.next_multiple_of(section);
        match ranges.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => ranges.push(start..end),
        }
    }
    ranges
}

/// CPU time of this thread.
fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// CPU seconds of a full walk over `bytes` of memory, at the cost of the walk with these figures.
pub fn full_walk_seconds(figures: &Figures, bytes: f64) -> f64 {
    let read = figures.pageblocks_read.max(1) as f64 * Order::HUGE.bytes() as f64;
    figures.cpu_seconds / read * bytes
}
