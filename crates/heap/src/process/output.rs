//! Files written at exit: their names, and which process writes them.
//!
//! Children inherit the environment and with it the name. Only the process that was started with it
//! writes the file, unless the name tells processes apart: `%p` is the process's number, `%c` the
//! name of its program, `%%` a percent sign.

use core::fmt::Write as _;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::settings::{Path, Settings, each_variable, split_variables};
use crate::front::fatal::warn;
use crate::front::file::File;
use crate::storage::with_scratch;

/// ID of the started process, or 0: this process inherited its environment.
static STARTED: AtomicU32 = AtomicU32::new(0);
/// An environment is read up to this length.
const ENVIRONMENT_BYTES: usize = 256 << 10;
/// The variable by which `prairie heap run` names the process that it becomes.
pub const OWNER: &str = "PRAIRIE_HEAP_OWNER";

/// Determines whether this process was started with the settings, if they name a file. Later its
/// parent may have ended.
#[inline]
pub fn note_start(settings: &Settings) {
    let statistics = settings.statistics.as_ref().and_then(|asked| asked.path());
    let plain = |path: &Path| !path.is_pattern();
    if statistics.is_some_and(plain) || settings.profile.as_ref().is_some_and(plain) {
        note_owner(settings);
    }
}

/// Apart from [`note_start`], so that its code is resident only where it runs.
#[cold]
#[inline(never)]
fn note_owner(settings: &Settings) {
    let own = own_number();
    let started = match settings.owner {
        Some(owner) => owner == u64::from(own),
        None => !is_inherited(),
    };
    STARTED.store(if started { own } else { 0 }, Relaxed);
}

fn own_number() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get().unsigned_abs()
}

/// Whether the parent was started with the same files and the same preloaded libraries.
fn is_inherited() -> bool {
    let Some(parent) = rustix::process::getppid() else { return false };
    let Some(path) = Path::of(format_args!("/proc/{}/environ", parent.as_raw_nonzero())) else {
        return false;
    };
    let Ok(file) = File::open(path.as_c_str()) else { return false };
    with_scratch(ENVIRONMENT_BYTES, |text| {
        let len = file.read(text);
        let mut inherited = true;
        each_variable(|name, value| {
            if [&b"LD_PRELOAD"[..], b"PRAIRIE_HEAP_STATS", b"PRAIRIE_HEAP_PROFILE"].contains(&name)
            {
                let mut found = false;
                split_variables(&text[..len], &mut |n, v| found |= n == name && v == value);
                inherited &= found;
            }
        });
        inherited
    })
    .unwrap_or(false)
}

/// Creates the file of a name, if this process writes it. Reports failures.
pub fn create(path: &Path, what: &str) -> Option<File> {
    if !path.is_pattern() && STARTED.load(Relaxed) != own_number() {
        return None;
    }
    let Some(name) = expand(path) else {
        warn(format_args!("{what} not written to {:?}: name too long", path.as_c_str()));
        return None;
    };
    let created = File::create(name.as_c_str());
    if let Err(error) = created {
        warn(format_args!("{what} not written to {:?}: {error}", name.as_c_str()));
    }
    created.ok()
}

/// The path with its patterns replaced.
fn expand(path: &Path) -> Option<Path> {
    let mut program = [0; 64];
    let mut expanded = Path::default();
    let mut bytes = path.as_c_str().to_bytes().iter();
    while let Some(&byte) = bytes.next() {
        let done = match byte {
            b'%' => match bytes.next() {
                Some(b'p') => write!(expanded, "{}", own_number()).is_ok(),
                Some(b'c') => expanded.push(program_name(&mut program)),
                _ => expanded.push(b"%"),
            },
            _ => expanded.push(&[byte]),
        };
        if !done {
            return None;
        }
    }
    Some(expanded)
}

/// The name of the running program, as `ps` shows it, without slashes.
fn program_name(text: &mut [u8; 64]) -> &[u8] {
    let len = File::open(c"/proc/self/comm").map_or(0, |file| file.read(text));
    let len = text[..len].trim_ascii_end().len();
    let name = &mut text[..len];
    name.iter_mut().filter(|byte| **byte == b'/').for_each(|byte| *byte = b'_');
    if name.is_empty() { b"unknown" } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_replaced() {
        let expanded = |name: &str| {
            let path = expand(&Path::of_value(name.as_bytes())?)?;
            Some(path.as_c_str().to_str().unwrap().to_owned())
        };
        let pid = std::process::id();
        assert_eq!(expanded("/a/%p.json"), Some(format!("/a/{pid}.json")));
        assert_eq!(expanded("100%%"), Some("100%".to_owned()));
        let comm = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(expanded("%c-%p"), Some(format!("{}-{pid}", comm.trim_end())));
        assert_eq!(expanded(&"%p".repeat(255)), None);
    }
}
