//! Recording of a page heap's calls (section 6.2), inside a running program.
//!
//! The calls go into a shared mapping of a file, so each costs four stores and none is lost when
//! the program is killed. The file grows window by window and is opened again for each: a program
//! that closes all unknown file descriptors closes none of ours.

use core::ffi::CStr;
use core::ptr::NonNull;

use rustix::fs::ftruncate;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use super::fatal::warn;
use super::file::File;
use crate::units::{PageId, Pages};

/// Bytes of a window: 32,768 calls.
const WINDOW: usize = 1 << 20;
/// Bytes of a call.
pub const CALL_BYTES: usize = 32;
/// Longest path, with its terminating zero byte.
pub const MAX_PATH: usize = 512;

/// A call of the page heap in the file: four words of the machine's own byte order.
///
/// A word `kind` of 0 is where the recording ends: the rest of a window that was not filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Recorded {
    /// By the kernel's monotonic clock.
    pub time_ns: u64,
    /// First page of the span, or 0.
    pub span: u64,
    /// Pages of the span, or how many to release.
    pub pages: u64,
    /// [`NEW`], [`DELETE`] or [`RELEASE`]; above its lowest byte the power of two that a new span's
    /// first page is a multiple of.
    pub kind: u64,
}

/// A span was requested and given.
pub const NEW: u64 = 1;
/// A span was given back.
pub const DELETE: u64 = 2;
/// Memory was to be released.
pub const RELEASE: u64 = 3;

impl Recorded {
    /// The calls of a recording, up to where it ends.
    pub fn of_bytes(bytes: &[u8]) -> impl Iterator<Item = Recorded> {
        let word = |call: &[u8], i: usize| {
            let bytes = call[i * 8..][..8].try_into().expect("a call has four words");
            u64::from_ne_bytes(bytes)
        };
        bytes
            .chunks_exact(CALL_BYTES)
            .map(move |call| Recorded {
                time_ns: word(call, 0),
                span: word(call, 1),
                pages: word(call, 2),
                kind: word(call, 3),
            })
            .take_while(|call| call.kind != 0)
    }
}

/// A recording under way. The holder of the page level's lock uses it.
#[derive(Debug)]
pub struct Recorder {
    path: [u8; MAX_PATH],
    /// The mapped window, and how many calls it has.
    window: NonNull<Recorded>,
    calls: usize,
    /// Where the window begins in the file.
    offset: u64,
}

// SAFETY: the mapping belongs to the recorder.
unsafe impl Send for Recorder {}

impl Recorder {
    /// Begins a recording in a file that must not exist: of a program and those that it starts,
    /// which inherit its environment, the first one gets it. `None` for all others, and if the file
    /// cannot be created, which is reported.
    pub fn begin(path: &CStr) -> Option<Recorder> {
        let mut kept = [0; MAX_PATH];
        kept.get_mut(..path.to_bytes().len())?.copy_from_slice(path.to_bytes());
        match File::create_new(path) {
            Ok(_) => {}
            Err(rustix::io::Errno::EXIST) => return None,
            Err(error) => {
                warn(format_args!("page-heap calls are not recorded in {path:?}: {error}"));
                return None;
            }
        }
        let window = map(path, 0)?;
        Some(Recorder { path: kept, window, calls: 0, offset: 0 })
    }

    /// Records a new span.
    pub fn new_span(&mut self, time_ns: u64, span: PageId, pages: Pages, align: Pages) -> bool {
        let kind = NEW | u64::from(align.0.trailing_zeros()) << 8;
        self.push(Recorded { time_ns, span: span.0, pages: pages.0, kind })
    }

    /// Records that a span is given back.
    pub fn delete(&mut self, time_ns: u64, span: PageId) -> bool {
        self.push(Recorded { time_ns, span: span.0, pages: 0, kind: DELETE })
    }

    /// Records a request to release memory.
    pub fn release(&mut self, time_ns: u64, pages: Pages) -> bool {
        self.push(Recorded { time_ns, span: 0, pages: pages.0, kind: RELEASE })
    }

    /// Whether the call was recorded; if not, the recording is over.
    fn push(&mut self, call: Recorded) -> bool {
        if self.calls == WINDOW / CALL_BYTES {
            let Ok(path) = CStr::from_bytes_until_nul(&self.path) else { return false };
            let Some(window) = map(path, self.offset + WINDOW as u64) else { return false };
            self.unmap();
            self.window = window;
            self.offset += WINDOW as u64;
            self.calls = 0;
        }
        // SAFETY: the window has room for one more call.
        unsafe { self.window.add(self.calls).write(call) };
        self.calls += 1;
        true
    }

    fn unmap(&self) {
        // SAFETY: the recorder's own mapping, which it does not use afterwards.
        let _ = unsafe { munmap(self.window.as_ptr().cast(), WINDOW) };
    }
}

impl Drop for Recorder {
    /// In a forked child this leaves the parent's file as it is.
    fn drop(&mut self) {
        self.unmap();
    }
}

fn map(path: &CStr, offset: u64) -> Option<NonNull<Recorded>> {
    let mapped = File::open_to_write(path).and_then(|file| {
        ftruncate(&file, offset + WINDOW as u64)?;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let nowhere = core::ptr::null_mut();
        // SAFETY: a new mapping at a place that the kernel picks.
        unsafe { mmap(nowhere, WINDOW, protection, MapFlags::SHARED, &file, offset) }
    });
    match mapped {
        Ok(place) => NonNull::new(place.cast()),
        Err(error) => {
            warn(format_args!("page-heap calls are no longer recorded in {path:?}: {error}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn calls_are_in_the_file_at_once_and_in_order_over_windows() {
        let folder = std::env::temp_dir().join(format!("prairie-record-{}", std::process::id()));
        let _ = std::fs::remove_file(&folder);
        let path = CString::new(folder.as_os_str().as_bytes()).unwrap();
        let mut recorder = Recorder::begin(&path).unwrap();
        // Those that a program starts leave its recording alone.
        assert!(Recorder::begin(&path).is_none());
        let count = (WINDOW / CALL_BYTES) as u64 + 10;
        assert!(recorder.release(5, Pages(7)));
        for time in 1..count {
            assert!(recorder.new_span(time, PageId(time * 3), Pages(2), Pages(8)));
        }
        assert!(recorder.delete(count, PageId(3)));
        let calls: Vec<Recorded> = Recorded::of_bytes(&std::fs::read(&folder).unwrap()).collect();
        std::fs::remove_file(&folder).unwrap();
        assert_eq!(calls.len() as u64, count + 1);
        assert_eq!(calls[0], Recorded { time_ns: 5, span: 0, pages: 7, kind: RELEASE });
        let last = count - 1;
        let new = Recorded { time_ns: last, span: last * 3, pages: 2, kind: NEW | 3 << 8 };
        assert_eq!(calls[last as usize], new);
        assert_eq!(calls[count as usize].kind, DELETE);
    }

    #[test]
    fn a_path_without_folder_is_said_and_recorded_nowhere() {
        assert!(Recorder::begin(c"/nowhere/at/all").is_none());
    }
}
