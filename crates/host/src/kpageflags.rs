//! Reads `/proc/kpageflags`: every frame's flags, as runs, at the rate at which the kernel can
//! tell them.
//!
//! The kernel spends some 60 ns on each frame; everything here is small against that, and the only
//! way to be faster is to ask on several threads. The file is cut into stretches; thread `i` of `n`
//! reads stretches `i`, `i + n`, … and hands their runs over through a short channel of its own.
//! The consumer takes from the channels one after another, so runs arrive in order of frames, and
//! no thread gets further ahead than its channel is long: memory does not grow with the machine.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use prairie_frames::Pfn;

use crate::{Error, FrameRun, PageFlags};

/// Bytes of one frame's word.
const WORD: usize = size_of::<u64>();
/// Frames of one read. 64 KiB stay in the cache until they are coded, and half a millisecond
/// passes between the clock's look and the last frame; larger reads are no faster.
const READ_FRAMES: u64 = 8192;
/// Reads in a stretch: 4 MiB of the file, some 30 ms, so that handing over costs nothing.
const STRETCH_READS: u64 = 64;
/// Stretches that a thread may be ahead of the consumer.
const AHEAD: usize = 2;

/// How to read.
pub struct Options<'a> {
    /// Threads that read, at least 1.
    pub threads: usize,
    /// `CLOCK_MONOTONIC` in nanoseconds, asked before each read.
    pub clock: &'a (dyn Fn() -> u64 + Sync),
    /// Set by anyone to stop: the reader then returns [`Error::Interrupted`].
    pub interrupted: &'a AtomicBool,
    /// Called on the consumer's thread with the number of frames delivered so far.
    pub progress: &'a mut dyn FnMut(u64),
}

/// Reads the frames of `ranges` (ascending, without overlap) from the page-flags file at `path`
/// and gives them to `sink` in order, run by run, in slices of one stretch. A range may reach past
/// the file's end; what is not in the file is not delivered. Returns the number of frames read.
///
/// Runs are split where one read ended and the next began, because the two were read at different
/// times. For the whole file pass one range to [`u64::MAX`].
///
/// # Errors
/// [`Error::Io`] where the file cannot be opened or read, [`Error::PartialWord`] where it ends
/// inside a word, [`Error::Interrupted`]; some runs may have been delivered by then.
pub fn read(
    path: &Path,
    ranges: &[Range<u64>],
    options: Options<'_>,
    sink: &mut dyn FnMut(&[FrameRun]),
) -> Result<u64, Error> {
    let io_error = |source| Error::Io { path: path.to_owned(), source };
    let file = File::open(path).map_err(io_error)?;
    let threads = options.threads.max(1);
    let stop = AtomicBool::new(false);
    let worker = |index: usize, channel: SyncSender<Stretch>| {
        let cancelled =
            || stop.load(Ordering::Relaxed) || options.interrupted.load(Ordering::Relaxed);
        for stretch in stretches(ranges).skip(index).step_by(threads) {
            let read = read_stretch(&file, path, stretch, options.clock, &cancelled);
            let failed = read.is_err();
            if channel.send(read).is_err() || failed {
                return;
            }
        }
    };
    thread::scope(|scope| {
        let start = |index| {
            let (sender, receiver) = sync_channel(AHEAD);
            let worker = &worker;
            let body = move || worker(index, sender);
            let started = thread::Builder::new().spawn_scoped(scope, body).map(|_| receiver);
            started.map_err(|error| {
                io::Error::new(error.kind(), format!("cannot start {threads} threads: {error}"))
            })
        };
        let started: io::Result<Vec<Receiver<Stretch>>> = (0..threads).map(start).collect();
        let result = started
            .map_err(io_error)
            .and_then(|channels| consume(&channels, stretches(ranges), options.progress, sink));
        // A thread that waits has lost its channel; this ends those that still read.
        stop.store(true, Ordering::Relaxed);
        result
    })
}

/// The runs of one section of the file.
type Stretch = Result<Vec<FrameRun>, Error>;

/// Takes the stretches in order. The first that is shorter than requested ends its range, as the
/// file ends there.
fn consume(
    channels: &[Receiver<Stretch>],
    stretches: impl Iterator<Item = Range<u64>>,
    progress: &mut dyn FnMut(u64),
    sink: &mut dyn FnMut(&[FrameRun]),
) -> Result<u64, Error> {
    let mut frames = 0;
    for (asked, channel) in stretches.zip(channels.iter().cycle()) {
        let Ok(runs) = channel.recv() else { break };
        let runs = runs?;
        let found: u64 = runs.iter().map(|run| run.frames).sum();
        frames += found;
        sink(&runs);
        progress(frames);
        if found < asked.end - asked.start {
            break;
        }
    }
    Ok(frames)
}

/// Cuts the ranges into stretches, each of at most `STRETCH_READS` reads.
fn stretches(ranges: &[Range<u64>]) -> impl Iterator<Item = Range<u64>> {
    let length = READ_FRAMES * STRETCH_READS;
    ranges.iter().flat_map(move |range| {
        let (start, end) = (range.start, range.end);
        let after = move |at: &u64| at.checked_add(length).filter(|&next| next < end);
        std::iter::successors((start < end).then_some(start), after)
            .map(move |at| at..at.saturating_add(length).min(end))
    })
}

/// Reads one stretch, or as much of it as there is.
fn read_stretch(
    file: &File,
    path: &Path,
    stretch: Range<u64>,
    clock: &(dyn Fn() -> u64 + Sync),
    cancelled: &dyn Fn() -> bool,
) -> Stretch {
    let mut runs = Vec::new();
    let mut buffer = vec![0; READ_FRAMES as usize * WORD];
    let mut at = stretch.start;
    while at < stretch.end {
        if cancelled() {
            return Err(Error::Interrupted);
        }
        let wanted = (stretch.end - at).min(READ_FRAMES) as usize * WORD;
        let read_at_ns = clock();
        let got = read_at(file, &mut buffer[..wanted], at.saturating_mul(WORD as u64))
            .map_err(|source| Error::Io { path: path.to_owned(), source })?;
        if got % WORD != 0 {
            let bytes = at * WORD as u64 + got as u64;
            return Err(Error::PartialWord { path: path.to_owned(), bytes });
        }
        encode(Pfn(at), &buffer[..got], read_at_ns, &mut runs);
        at += (got / WORD) as u64;
        if got < wanted {
            break;
        }
    }
    Ok(runs)
}

/// Fills `buffer` from `offset` on, or as far as the file goes. An offset beyond what the system
/// can name is beyond the end.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    if i64::try_from(offset).is_err() {
        return Ok(0);
    }
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// Appends the runs of consecutive words. The first word belongs to frame `start`. Bytes after the
/// last whole word are skipped.
///
/// Linear in the number of words.
pub fn encode(start: Pfn, bytes: &[u8], read_at_ns: u64, runs: &mut Vec<FrameRun>) {
    let mut words =
        bytes.chunks_exact(WORD).map(|word| u64::from_ne_bytes(word.try_into().unwrap()));
    let Some(mut flags) = words.next() else { return };
    let mut run_start = start.0;
    let mut at = start.0 + 1;
    let mut run = |start: u64, end: u64, flags| {
        let flags = PageFlags(flags);
        runs.push(FrameRun { start: Pfn(start), frames: end - start, flags, read_at_ns });
    };
    for word in words {
        if word != flags {
            run(run_start, at, flags);
            (run_start, flags) = (at, word);
        }
        at += 1;
    }
    run(run_start, at, flags);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    fn read_words(
        bytes: &[u8],
        threads: usize,
        ranges: &[Range<u64>],
    ) -> Result<Vec<FrameRun>, Error> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let mut runs = Vec::new();
        let mut seen = 0;
        let mut progress = |frames| seen = frames;
        let options = Options {
            threads,
            clock: &|| 7,
            interrupted: &AtomicBool::new(false),
            progress: &mut progress,
        };
        let frames = read(file.path(), ranges, options, &mut |part| runs.extend_from_slice(part))?;
        assert_eq!(frames, runs.iter().map(|run| run.frames).sum::<u64>());
        assert_eq!(frames, seen);
        Ok(runs)
    }

    fn bytes_of(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn words_of(runs: &[FrameRun]) -> Vec<(u64, u64)> {
        runs.iter()
            .flat_map(|run| (run.start.0..run.start.0 + run.frames).map(|pfn| (pfn, run.flags.0)))
            .collect()
    }

    #[test]
    fn a_large_file_is_the_same_on_any_number_of_threads() {
        // Three stretches and a bit, with runs of all lengths.
        let frames = 3 * READ_FRAMES * STRETCH_READS + 12_345;
        let words: Vec<u64> = (0..frames).map(|pfn| ((pfn * pfn) >> 20) % 3).collect();
        let bytes = bytes_of(&words);
        let expected: Vec<(u64, u64)> = (0..).zip(words).collect();
        let one = read_words(&bytes, 1, &[0..u64::MAX]).unwrap();
        assert!(one.iter().all(|run| run.frames <= READ_FRAMES && run.read_at_ns == 7));
        assert!(words_of(&one) == expected);
        for threads in [2, 3, 8] {
            assert!(read_words(&bytes, threads, &[0..u64::MAX]).unwrap() == one);
        }
        let two = read_words(&bytes, 2, &[5..10, 1_000_000..u64::MAX]).unwrap();
        let wanted =
            expected.into_iter().filter(|(pfn, _)| (5..10).contains(pfn) || *pfn >= 1_000_000);
        assert!(words_of(&two).into_iter().eq(wanted));
    }

    #[test]
    fn a_file_that_ends_inside_a_word_is_refused() {
        let mut bytes = bytes_of(&[1, 2, 3]);
        bytes.pop();
        let error = read_words(&bytes, 2, &[0..u64::MAX]).unwrap_err();
        assert!(matches!(error, Error::PartialWord { bytes: 23, .. }), "{error}");
        assert!(read_words(&[], 2, &[0..u64::MAX]).unwrap().is_empty());
    }

    #[test]
    fn interruption_ends_the_reading() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(64 << 20).unwrap();
        let interrupted = AtomicBool::new(false);
        let mut progress = |_| interrupted.store(true, Ordering::Relaxed);
        let options = Options {
            threads: 2,
            clock: &|| 0,
            interrupted: &interrupted,
            progress: &mut progress,
        };
        let error = read(file.path(), &[0..u64::MAX], options, &mut |_| {}).unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
    }

    proptest! {
        #[test]
        fn runs_equal_the_words(words in prop::collection::vec(0u64..3, 0..200), start in 0u64..1 << 40) {
            let mut runs = Vec::new();
            encode(Pfn(start), &bytes_of(&words), 0, &mut runs);
            prop_assert_eq!(words_of(&runs), (start..).zip(words).collect::<Vec<_>>());
            prop_assert!(runs.windows(2).all(|pair| pair[0].flags != pair[1].flags));
        }
    }
}
