//! Sets the probes that see pins, and removes them at the end.

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use prairie_frames::KernelVersion;
use prairie_host::Roots;

use super::decode::Tracepoint;
use super::pins::{PinFlags, PinFunction, see_all_pins};
use super::tracefs::Tracefs;
use crate::{Error, Result};

/// The kernel's list of probes, in tracefs.
const LIST: &str = "kprobe_events";

/// Probes in the kernel; removed on drop, unless another recording uses them.
pub(super) struct Probes {
    tracefs: Tracefs,
    flags: PinFlags,
    functions: Vec<PinFunction>,
}

impl Probes {
    /// Sets them.
    ///
    /// # Errors
    /// [`Error::Record`] if the kernel takes no probes, or hides a function that pins memory. No probe is
    /// left then.
    pub(super) fn set(roots: &Roots, mounts: &Path) -> Result<Probes> {
        let release = fs::read_to_string(roots.proc.join("sys/kernel/osrelease"));
        let release = release.unwrap_or_default();
        let flags = KernelVersion::of_kernel(&release).and_then(PinFlags::of).ok_or_else(|| {
            unseen(format!("Linux {} is not known to report them", release.trim()))
        })?;
        let mut probes =
            Probes { tracefs: Tracefs::open(mounts)?, flags, functions: PinFunction::ALL.to_vec() };
        if !probes.tracefs.root.join(LIST).exists() {
            return Err(unseen("it has none (CONFIG_KPROBE_EVENTS)".into()));
        }
        // What a killed recorder, perhaps of another version, has left.
        probes.remove();
        probes.functions.clear();
        for function in present(roots)? {
            match probes.write(&function.probe(flags)) {
                // Another recording uses it.
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(unseen(format!("{}: {error}", function.symbol())));
                }
                _ => probes.functions.push(function),
            }
        }
        if see_all_pins(&probes.functions) {
            return Ok(probes);
        }
        let names: Vec<_> = probes.functions.iter().map(|function| function.symbol()).collect();
        Err(unseen(format!("of the functions for pins the kernel shows only {}", names.join(", "))))
    }

    /// What can be recorded with them.
    pub(super) fn tracepoints(&self) -> impl Iterator<Item = Tracepoint> {
        self.functions.iter().map(|function| Tracepoint::Pin(*function, self.flags))
    }

    /// Adds a line to the kernel's list of probes. Without appending, opening the list empties it.
    fn write(&self, line: &str) -> io::Result<()> {
        let list = self.tracefs.root.join(LIST);
        let mut list = OpenOptions::new().append(true).open(list)?;
        list.write_all(format!("{line}\n").as_bytes())
    }

    fn remove(&self) {
        for function in &self.functions {
            // It fails where there is no such probe, or where another recording uses it.
            let _ = self.write(&format!("-:{}", function.path()));
        }
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.remove();
    }
}

/// The functions that the kernel has under their own names. What the compiler has split or inlined has
/// another name, or none.
fn present(roots: &Roots) -> Result<Vec<PinFunction>> {
    let path = roots.proc.join("kallsyms");
    let text = fs::read_to_string(&path).map_err(Error::read(&path))?;
    let names: HashSet<&str> =
        text.lines().filter_map(|line| line.split_ascii_whitespace().nth(2)).collect();
    if !names.contains("vmemmap_base") {
        return Err(unseen("it does not say where page descriptors begin (vmemmap_base)".into()));
    }
    Ok(PinFunction::ALL.into_iter().filter(|f| names.contains(f.symbol())).collect())
}

fn unseen(why: String) -> Error {
    Error::Record {
        what: "long-term pins, which need probes (kprobes) in the kernel".into(),
        why,
        remedy: "a replay of the recording pins nothing".into(),
    }
}
