//! Statistics for other processes: texts that lie in this one's memory and are read from there.
//!
//! A process writes them while it works, at most four times a second, so a reader needs neither a
//! signal nor a thread in the process it looks at, and a process that hangs can be looked at too.

use core::cell::UnsafeCell;
use core::fmt::{self, Write as _};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};

use super::choice::SystemClock;
use super::protocol::flag::Flag;
use super::protocol::sequence::Sequence;
use super::statistics::Statistics;
use crate::page_heap::Clock;

/// Bytes of the JSON text, and of the plain one.
pub const JSON_BYTES: usize = 48 << 10;
/// Bytes of the plain text.
pub const TEXT_BYTES: usize = 16 << 10;
/// What a reader looks for at the start of each page of a process's data.
pub const MAGIC: [u8; 8] = *b"PrHeap\x01\x7f";
/// Published at most so often.
const EVERY_NS: u64 = 250_000_000;

/// What is published, as it lies in memory.
#[repr(C, align(4096))]
pub struct Published {
    /// [`MAGIC`] once something is published.
    pub magic: AtomicU64,
    /// Odd while the texts are written.
    pub sequence: Sequence,
    /// Bytes of the JSON text in use.
    pub json_len: AtomicU32,
    /// Bytes of the plain text in use.
    pub text_len: AtomicU32,
    /// Operations of the page level since the texts were written.
    pub operations_since: AtomicU32,
    /// When they were written, by the kernel's monotonic clock.
    pub written_ns: AtomicU64,
    json: UnsafeCell<[u8; JSON_BYTES]>,
    text: UnsafeCell<[u8; TEXT_BYTES]>,
}

impl Published {
    /// Where the JSON text lies in it.
    pub const JSON_OFFSET: usize = core::mem::offset_of!(Published, json);
    /// Where the plain text lies in it.
    pub const TEXT_OFFSET: usize = core::mem::offset_of!(Published, text);
}

// SAFETY: the texts are written by the thread that has set `WRITING` alone, and are read by other
// processes only.
unsafe impl Sync for Published {}

/// What this process has published.
#[unsafe(no_mangle)]
pub static PRAIRIE_HEAP_PUBLISHED: Published = Published {
    magic: AtomicU64::new(0),
    sequence: Sequence::new(),
    json_len: AtomicU32::new(0),
    text_len: AtomicU32::new(0),
    operations_since: AtomicU32::new(0),
    written_ns: AtomicU64::new(0),
    json: UnsafeCell::new([0; JSON_BYTES]),
    text: UnsafeCell::new([0; TEXT_BYTES]),
};

static WRITING: Flag = Flag::new();

/// Notes an operation of the page level; from time to time, publishes. The caller holds no lock.
#[inline]
pub fn tick() {
    let published = &PRAIRIE_HEAP_PUBLISHED;
    // The clock is asked for every eighth operation: the first one publishes nothing.
    if published.operations_since.fetch_add(1, Relaxed) % 8 == 7 {
        let now = SystemClock.now_ns();
        if now - published.written_ns.load(Relaxed).min(now) >= EVERY_NS {
            write(now);
        }
    }
}

/// Publishes the statistics as they are now.
#[cold]
fn write(now: u64) {
    let published = &PRAIRIE_HEAP_PUBLISHED;
    if !WRITING.raise() {
        return;
    }
    published.written_ns.store(now, Relaxed);
    if let Some(statistics) = Statistics::of_process() {
        published.sequence.begin();
        // SAFETY: `WRITING` was ours to set, so nobody else in this process uses the texts.
        let (json, text) = unsafe { (&mut *published.json.get(), &mut *published.text.get()) };
        let mut json = Text::over(json);
        let json_whole = serde_json::to_writer(&mut json, &statistics).is_ok();
        let mut text = Text::over(text);
        let _ = write!(text, "{statistics}");
        published.json_len.store(if json_whole { json.len as u32 } else { 0 }, Relaxed);
        published.text_len.store(text.len as u32, Relaxed);
        published.operations_since.store(0, Relaxed);
        published.magic.store(u64::from_le_bytes(MAGIC), Relaxed);
        published.sequence.end();
    }
    WRITING.lower();
}

/// Forgets, in a forked child, that another thread was about to publish.
pub fn after_fork() {
    let published = &PRAIRIE_HEAP_PUBLISHED;
    if WRITING.lower() && published.sequence.is_odd() {
        published.json_len.store(0, Relaxed);
        published.text_len.store(0, Relaxed);
        published.sequence.end();
    }
}

/// A text in a piece of memory; writing past its end fails.
struct Text<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Text<'a> {
    fn over(bytes: &'a mut [u8]) -> Text<'a> {
        Text { bytes, len: 0 }
    }
}

impl std::io::Write for Text<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let room = &mut self.bytes[self.len..];
        let len = bytes.len().min(room.len());
        room[..len].copy_from_slice(&bytes[..len]);
        self.len += len;
        Ok(len)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        std::io::Write::write_all(self, text.as_bytes()).map_err(|_| fmt::Error)
    }
}
