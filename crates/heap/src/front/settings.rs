//! What the environment says about the heap, read without the C library's help: the first call may
//! come before it has an environment.

use core::ffi::{CStr, c_char};

use super::choice::PageHeapChoice;
use super::fatal::say;
use super::file::File;
use super::record::MAX_PATH;
use crate::storage::{Mapped, Storage};

/// The settings of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Which page heap (`PRAIRIE_PAGE_HEAP`).
    pub page_heap: PageHeapChoice,
    /// The share of processes that run the experiment's arm, the legacy page heap, in per mille
    /// (`PRAIRIE_HEAP_EXPERIMENT`); nought if there is no experiment.
    pub experiment_per_mille: u64,
    /// Bytes to give back in a second by a thread of the heap's own (`PRAIRIE_HEAP_RELEASE`).
    pub release_rate: u64,
    /// Whether all frees are checked as fully as can be (`PRAIRIE_HEAP_CHECK`).
    pub check: bool,
    /// Whether plugins are opened with `RTLD_DEEPBIND` if the program says so.
    pub keep_deepbind: bool,
    /// Statistics at exit (`PRAIRIE_HEAP_STATS`).
    pub statistics: Option<ExitStatistics>,
    /// A file to record the calls of the page heap in (`PRAIRIE_HEAP_TRACE`).
    pub trace: Option<Path>,
    /// A file for the profile of the heap at exit (`PRAIRIE_HEAP_PROFILE`).
    pub profile: Option<Path>,
    /// One allocation in so many is guarded (`PRAIRIE_HEAP_GUARD`); nought is none.
    pub guard_one_in: u64,
}

/// The path of a file, with room for its final nought.
#[derive(Clone, Copy, Debug)]
pub struct Path([u8; MAX_PATH]);

impl Path {
    fn of_value(value: &[u8]) -> Option<Path> {
        let mut kept = [0; MAX_PATH];
        kept[..MAX_PATH - 1].get_mut(..value.len())?.copy_from_slice(value);
        (!value.is_empty()).then_some(Path(kept))
    }

    /// The path as a C string.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }
}

/// Text or JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Statistics at exit: how, and where.
#[derive(Clone, Copy, Debug)]
pub struct ExitStatistics {
    /// Text or JSON.
    pub format: Format,
    path: Option<Path>,
}

impl ExitStatistics {
    /// Of `text`, `json`, `text:PATH` or `json:PATH`.
    fn of_value(value: &[u8]) -> Option<ExitStatistics> {
        let (name, path) = match value.iter().position(|&byte| byte == b':') {
            Some(colon) => (&value[..colon], &value[colon + 1..]),
            None => (value, &[][..]),
        };
        let format = match name {
            b"text" => Format::Text,
            b"json" => Format::Json,
            _ => return None,
        };
        let path = if path.is_empty() { None } else { Some(Path::of_value(path)?) };
        Some(ExitStatistics { format, path })
    }

    /// The file to write to; standard error if `None`.
    pub fn path(&self) -> Option<&CStr> {
        self.path.as_ref().map(Path::as_c_str)
    }
}

impl Settings {
    /// The settings of this process. A value that is not understood is said on standard error, and
    /// the default holds.
    pub fn of_process() -> Settings {
        let mut settings = Settings::default();
        each_variable(|name, value| settings.set(name, value));
        settings
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        let understood = match name {
            b"PRAIRIE_PAGE_HEAP" => put(&mut self.page_heap, PageHeapChoice::named(value)),
            b"PRAIRIE_HEAP_EXPERIMENT" => {
                let share = number(value).filter(|&per_mille| per_mille <= 1000);
                put(&mut self.experiment_per_mille, share)
            }
            b"PRAIRIE_HEAP_RELEASE" => put(&mut self.release_rate, size(value)),
            b"PRAIRIE_HEAP_CHECK" => put(&mut self.check, switch(value)),
            b"PRAIRIE_HEAP_DEEPBIND" => {
                put(&mut self.keep_deepbind, (value == b"keep").then_some(true))
            }
            b"PRAIRIE_HEAP_STATS" => {
                put(&mut self.statistics, ExitStatistics::of_value(value).map(Some))
            }
            b"PRAIRIE_HEAP_TRACE" => put(&mut self.trace, Path::of_value(value).map(Some)),
            b"PRAIRIE_HEAP_PROFILE" => put(&mut self.profile, Path::of_value(value).map(Some)),
            b"PRAIRIE_HEAP_GUARD" => put(&mut self.guard_one_in, number(value)),
            _ => true,
        };
        if !understood {
            misunderstood(name, value);
        }
    }
}

fn put<T>(place: &mut T, value: Option<T>) -> bool {
    match value {
        Some(value) => {
            *place = value;
            true
        }
        None => false,
    }
}

fn number(text: &[u8]) -> Option<u64> {
    core::str::from_utf8(text).ok()?.parse().ok()
}

/// A size in bytes: a number, and `K`, `M` or `G` for powers of 1,024.
fn size(text: &[u8]) -> Option<u64> {
    let shift = match text.last()? {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        _ => return number(text),
    };
    number(&text[..text.len() - 1])?.checked_mul(1 << shift)
}

fn switch(text: &[u8]) -> Option<bool> {
    match text {
        b"1" => Some(true),
        b"0" => Some(false),
        _ => None,
    }
}

/// Names of the settings, and the values that are right.
const RIGHT: [(&str, &str); 9] = [
    ("PRAIRIE_PAGE_HEAP", PageHeapChoice::NAMES),
    ("PRAIRIE_HEAP_EXPERIMENT", "0 to 1000 (per mille of processes)"),
    ("PRAIRIE_HEAP_RELEASE", "bytes in a second, such as 10M"),
    ("PRAIRIE_HEAP_CHECK", "0 or 1"),
    ("PRAIRIE_HEAP_DEEPBIND", "keep"),
    ("PRAIRIE_HEAP_TRACE", "a path of at most 511 bytes"),
    ("PRAIRIE_HEAP_PROFILE", "a path of at most 511 bytes"),
    ("PRAIRIE_HEAP_GUARD", "a number of allocations, of which one is guarded"),
    ("PRAIRIE_HEAP_STATS", "text, json, text:PATH or json:PATH"),
];

fn misunderstood(name: &[u8], value: &[u8]) {
    let value = core::str::from_utf8(value).unwrap_or("…");
    for (known, right) in RIGHT {
        if known.as_bytes() == name {
            say(format_args!(
                "{known}={value} is not understood, the default holds; right is {right}"
            ));
        }
    }
}

/// Calls `act` with the name and the value of each variable.
fn each_variable(mut act: impl FnMut(&[u8], &[u8])) {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library's variable, read once; it is null before the library is ready.
    let mut place = unsafe { environ };
    if place.is_null() {
        return each_variable_of_kernel(act);
    }
    // SAFETY: the environment is an array of C strings that a null ends; during the first
    // allocation nobody changes it, as changing it allocates.
    while let Some(text) = unsafe { place.read().as_ref() } {
        // SAFETY: as above.
        split(unsafe { CStr::from_ptr(text) }.to_bytes(), &mut act);
        // SAFETY: the null that ends the array was not yet reached.
        place = unsafe { place.add(1) };
    }
}

/// The environment that the kernel gave the program.
fn each_variable_of_kernel(mut act: impl FnMut(&[u8], &[u8])) {
    const MOST: usize = 256 << 10;
    let Ok(file) = File::open(c"/proc/self/environ") else { return };
    let Ok(layout) = core::alloc::Layout::from_size_align(MOST, 4096) else { return };
    let Some(storage) = Mapped::take(layout) else { return };
    // SAFETY: the storage is ours until it is given back, and has this size.
    let text = unsafe { core::slice::from_raw_parts_mut(storage.as_ptr(), MOST) };
    let len = file.read(text);
    text[..len].split(|&byte| byte == 0).for_each(|variable| split(variable, &mut act));
    // SAFETY: the text is not used any more.
    unsafe { Mapped::give_back(storage, layout) };
}

fn split(variable: &[u8], act: &mut impl FnMut(&[u8], &[u8])) {
    if let Some(equals) = variable.iter().position(|&byte| byte == b'=') {
        act(&variable[..equals], &variable[equals + 1..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_understood_or_refused() {
        assert_eq!(size(b"10M"), Some(10 << 20));
        assert_eq!(size(b"4096"), Some(4096));
        for nonsense in [&b""[..], b"M", b"-1", b"10T", b"18446744073709551615K"] {
            assert_eq!(size(nonsense), None, "{nonsense:?}");
        }
        let asked = ExitStatistics::of_value(b"json:/tmp/a:b").unwrap();
        assert_eq!((asked.format, asked.path()), (Format::Json, Some(c"/tmp/a:b")));
        assert_eq!(ExitStatistics::of_value(b"text").unwrap().path(), None);
        assert!(ExitStatistics::of_value(b"xml").is_none());
        assert!(ExitStatistics::of_value(&[b"text:".as_slice(), &[b'a'; 600]].concat()).is_none());
    }

    #[test]
    fn a_bad_value_leaves_the_default() {
        let mut settings = Settings::default();
        settings.set(b"PRAIRIE_PAGE_HEAP", b"none");
        settings.set(b"PRAIRIE_HEAP_EXPERIMENT", b"1001");
        assert_eq!(settings.page_heap, PageHeapChoice::Temeraire);
        assert_eq!(settings.experiment_per_mille, 0);
        settings.set(b"PRAIRIE_PAGE_HEAP", b"legacy");
        assert_eq!(settings.page_heap, PageHeapChoice::Legacy);
    }
}
