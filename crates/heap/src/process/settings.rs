//! Settings from the environment, read without the C library: the first call may come before it has
//! an environment.

use core::ffi::{CStr, c_char};
use core::fmt::{self, Write as _};

use crate::front::choice::PageHeapChoice;
use crate::front::fatal::warn;
use crate::front::file::File;
use crate::front::record::MAX_PATH;
use crate::memory::node::MAX_NODES;
use crate::storage::with_scratch;

/// The settings of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Which page heap (`PRAIRIE_PAGE_HEAP`).
    pub page_heap: PageHeapChoice,
    /// The share of processes that run the experiment's arm, the legacy page heap, in per mille
    /// (`PRAIRIE_HEAP_EXPERIMENT`); 0 if there is no experiment.
    pub experiment_per_mille: u64,
    /// Bytes per second that a background thread gives back (`PRAIRIE_HEAP_RELEASE`).
    pub release_rate: u64,
    /// The soft limit on the heap's memory (`PRAIRIE_HEAP_LIMIT`).
    pub limit: Option<Limit>,
    /// Whether all frees are fully checked (`PRAIRIE_HEAP_CHECK`).
    pub check: bool,
    /// Page heaps by NUMA node (`PRAIRIE_HEAP_NUMA`).
    pub numa: Numa,
    /// Whether `RTLD_DEEPBIND` is kept when a program opens a plugin with it.
    pub keep_deepbind: bool,
    /// Statistics at exit (`PRAIRIE_HEAP_STATS`).
    pub statistics: Option<ExitStatistics>,
    /// A file to record the calls of the page heap in (`PRAIRIE_HEAP_TRACE`).
    pub trace: Option<Path>,
    /// A file for the profile of the heap at exit (`PRAIRIE_HEAP_PROFILE`).
    pub profile: Option<Path>,
    /// Whether allocations are sampled for readers of live profiles (`PRAIRIE_HEAP_SAMPLE`).
    pub sample: bool,
    /// 1 in N allocations is guarded (`PRAIRIE_HEAP_GUARD`); 0 means none.
    pub guard_one_in: u64,
    /// The process that writes files at exit (`PRAIRIE_HEAP_OWNER`).
    pub owner: Option<u64>,
}

/// How many page heaps there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numa {
    /// One for each NUMA node that the process may use.
    #[default]
    ByNode,
    /// One.
    One,
    /// As many, to which CPUs belong in turn: for tests on machines of one node.
    InTurn(usize),
}

impl Numa {
    /// 1 is by node, 0 is one, and larger numbers are page heaps in turn.
    pub fn of_value(value: &[u8]) -> Option<Numa> {
        match number(value)? {
            0 => Some(Numa::One),
            1 => Some(Numa::ByNode),
            count if count <= MAX_NODES as u64 => Some(Numa::InTurn(count as usize)),
            _ => None,
        }
    }
}

/// A soft limit as the environment states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Bytes.
    Bytes(u64),
    /// Percent of the smallest limit of the process's cgroups, or of the machine's memory.
    Percent(u64),
}

impl Limit {
    /// The limit of a text such as `2G` or `80%`.
    pub fn of_value(value: &[u8]) -> Option<Limit> {
        match value.strip_suffix(b"%") {
            Some(percent) => {
                number(percent).filter(|percent| (1..=100).contains(percent)).map(Limit::Percent)
            }
            None => size(value).filter(|&bytes| bytes > 0).map(Limit::Bytes),
        }
    }
}

/// The path of a file, with room for its terminating zero byte.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    bytes: [u8; MAX_PATH],
    len: usize,
}

impl Default for Path {
    fn default() -> Self {
        Path { bytes: [0; MAX_PATH], len: 0 }
    }
}

impl fmt::Write for Path {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.push(text.as_bytes()) { Ok(()) } else { Err(fmt::Error) }
    }
}

impl Path {
    pub(super) fn of_value(value: &[u8]) -> Option<Path> {
        let mut path = Path::default();
        (!value.is_empty() && path.push(value)).then_some(path)
    }

    /// A path that may have the patterns of a file written at exit.
    pub fn of_pattern(value: &[u8]) -> Option<Path> {
        let mut rest = value.iter();
        while let Some(byte) = rest.next() {
            if *byte == b'%' && !matches!(rest.next(), Some(b'p' | b'c' | b'%')) {
                return None;
            }
        }
        Path::of_value(value)
    }

    pub(super) fn of(text: fmt::Arguments<'_>) -> Option<Path> {
        let mut path = Path::default();
        path.write_fmt(text).ok().map(|()| path)
    }

    /// Appends bytes. False if there is no room for them.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let Some(room) = self.bytes[..MAX_PATH - 1].get_mut(self.len..self.len + bytes.len())
        else {
            return false;
        };
        room.copy_from_slice(bytes);
        self.len += bytes.len();
        true
    }

    /// Whether the name differs between processes.
    pub(super) fn is_pattern(&self) -> bool {
        let mut rest = self.bytes[..self.len].iter();
        // Each percent sign and what follows it are one pattern.
        while rest.by_ref().any(|&byte| byte == b'%') {
            if rest.next() != Some(&b'%') {
                return true;
            }
        }
        false
    }

    /// The path as a C string.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

/// Text or JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
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
    /// Of `text`, `json`, `text:FILE` or `json:FILE`.
    pub fn of_value(value: &[u8]) -> Option<ExitStatistics> {
        let (name, path) = match value.iter().position(|&byte| byte == b':') {
            Some(colon) => (&value[..colon], &value[colon + 1..]),
            None => (value, &[][..]),
        };
        let format = match name {
            b"text" => Format::Text,
            b"json" => Format::Json,
            _ => return None,
        };
        let path = if path.is_empty() { None } else { Some(Path::of_pattern(path)?) };
        Some(ExitStatistics { format, path })
    }

    /// The file to write to; standard error if `None`.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_ref()
    }
}

impl Settings {
    /// The settings of this process. An invalid value is reported on standard error, and the
    /// default applies.
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
            b"PRAIRIE_HEAP_LIMIT" => put(&mut self.limit, Limit::of_value(value).map(Some)),
            b"PRAIRIE_HEAP_CHECK" => put(&mut self.check, switch(value)),
            b"PRAIRIE_HEAP_NUMA" => put(&mut self.numa, Numa::of_value(value)),
            b"PRAIRIE_HEAP_DEEPBIND" => {
                put(&mut self.keep_deepbind, (value == b"keep").then_some(true))
            }
            b"PRAIRIE_HEAP_STATS" => {
                put(&mut self.statistics, ExitStatistics::of_value(value).map(Some))
            }
            b"PRAIRIE_HEAP_TRACE" => put(&mut self.trace, Path::of_value(value).map(Some)),
            b"PRAIRIE_HEAP_PROFILE" => put(&mut self.profile, Path::of_pattern(value).map(Some)),
            b"PRAIRIE_HEAP_SAMPLE" => put(&mut self.sample, switch(value)),
            b"PRAIRIE_HEAP_GUARD" => put(&mut self.guard_one_in, number(value)),
            b"PRAIRIE_HEAP_OWNER" => put(&mut self.owner, number(value).map(Some)),
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

pub(super) fn number(text: &[u8]) -> Option<u64> {
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

/// Names of the settings, and their valid values.
const RIGHT: [(&str, &str); 13] = [
    ("PRAIRIE_PAGE_HEAP", PageHeapChoice::NAMES),
    ("PRAIRIE_HEAP_EXPERIMENT", "0 to 1000 (per mille of processes)"),
    ("PRAIRIE_HEAP_RELEASE", "bytes per second, such as 10M"),
    ("PRAIRIE_HEAP_LIMIT", "bytes such as 2G, or a share of the cgroup's limit such as 80%"),
    ("PRAIRIE_HEAP_CHECK", "0 or 1"),
    ("PRAIRIE_HEAP_NUMA", "0, 1, or 2 to 16 (page heaps, for tests)"),
    ("PRAIRIE_HEAP_DEEPBIND", "keep"),
    ("PRAIRIE_HEAP_TRACE", "a path of at most 511 bytes"),
    ("PRAIRIE_HEAP_PROFILE", "a path of at most 511 bytes, with %p, %c and %% in it"),
    ("PRAIRIE_HEAP_SAMPLE", "0 or 1"),
    ("PRAIRIE_HEAP_OWNER", "a process ID"),
    ("PRAIRIE_HEAP_GUARD", "a number N: 1 in N allocations is guarded"),
    ("PRAIRIE_HEAP_STATS", "text, json, text:FILE or json:FILE, with %p, %c, and %% in FILE"),
];

fn misunderstood(name: &[u8], value: &[u8]) {
    let value = core::str::from_utf8(value).unwrap_or("…");
    for (known, right) in RIGHT {
        if known.as_bytes() == name {
            warn(format_args!(
                "{known}={value}: invalid value, expected {right}; the default applies"
            ));
        }
    }
}

/// Calls `act` with the name and the value of each variable.
pub(super) fn each_variable(mut act: impl FnMut(&[u8], &[u8])) {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library's variable, read once; it is null before the library is ready.
    let mut place = unsafe { environ };
    if place.is_null() {
        return each_variable_of_kernel(act);
    }
    // SAFETY: the environment is an array of C strings that a null ends; no thread changes it
    // during the first allocation, because changing it allocates.
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
    with_scratch(MOST, |text| {
        let len = file.read(text);
        split_variables(&text[..len], &mut act);
    });
}

/// Calls `act` with the name and the value of each variable of a `/proc/PID/environ`.
pub(super) fn split_variables(environment: &[u8], act: &mut impl FnMut(&[u8], &[u8])) {
    environment.split(|&byte| byte == 0).for_each(|variable| split(variable, act));
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
        assert_eq!(asked.format, Format::Json);
        assert_eq!(asked.path().map(Path::as_c_str), Some(c"/tmp/a:b"));
        assert!(ExitStatistics::of_value(b"text").unwrap().path().is_none());
        for wrong in [&b"xml"[..], b"json:/tmp/%x", b"json:/tmp/%"] {
            assert!(ExitStatistics::of_value(wrong).is_none());
        }
        for (name, differs) in [("a%p", true), ("%c", true), ("%%p", false), ("%%%p", true)] {
            assert_eq!(Path::of_pattern(name.as_bytes()).unwrap().is_pattern(), differs, "{name}");
        }
        assert!(ExitStatistics::of_value(&[b"text:".as_slice(), &[b'a'; 600]].concat()).is_none());
    }

    #[test]
    fn limits_are_bytes_or_percent() {
        assert_eq!(Limit::of_value(b"2G"), Some(Limit::Bytes(2 << 30)));
        assert_eq!(Limit::of_value(b"80%"), Some(Limit::Percent(80)));
        for nonsense in [&b""[..], b"0", b"0%", b"101%", b"%", b"80 %", b"-1", b"2T"] {
            assert_eq!(Limit::of_value(nonsense), None, "{nonsense:?}");
        }
    }

    #[test]
    fn page_heaps_are_by_node_one_or_in_turn() {
        for (value, numa) in [("0", Numa::One), ("1", Numa::ByNode), ("2", Numa::InTurn(2))] {
            assert_eq!(Numa::of_value(value.as_bytes()), Some(numa));
        }
        assert_eq!([&b""[..], b"17", b"-1", b"on"].map(Numa::of_value), [None; 4]);
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
