//! The capabilities of this host, probed once at start.

use std::fs;
use std::path::{Path, PathBuf};

use prairie_host::KernelVersion;
use prairie_host::cgroup::mounts;

use crate::ageing::Means;
use crate::call_size::Lists;

/// The first release whose zswap drops the compressed copy of a page that is read back
/// (`zswap_load`; "mm/zswap: only support zswap_exclusive_loads_enabled").
const COPIES_DROPPED: KernelVersion = KernelVersion::new(6, 9);

/// Where a host's files are, so that a test can give it others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// The root of cgroup v2.
    pub cgroup: PathBuf,
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
    /// debugfs.
    pub debugfs: PathBuf,
}

impl Paths {
    /// This host's, as `/proc/self/mountinfo` reports them.
    pub fn live() -> Paths {
        let mountinfo = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let find = |kind, usual: &str| {
            mounts::find(&mountinfo, kind).map_or(PathBuf::from(usual), |mount| mount.path)
        };
        Paths {
            cgroup: find("cgroup2", "/sys/fs/cgroup"),
            proc: "/proc".into(),
            sys: "/sys".into(),
            debugfs: find("debugfs", "/sys/kernel/debug"),
        }
    }
}

/// The result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Where its files are.
    pub paths: Paths,
    /// Cgroup v2 is there and has the memory controller.
    pub has_memory_controller: bool,
    /// It keeps pressure stall information.
    pub has_psi: bool,
    /// MGLRU is in the kernel and switched on.
    pub mglru: bool,
    /// `lru_gen` in debugfs can be opened for writing.
    pub lru_gen: bool,
    /// A page that is read back keeps its compressed copy, as in kernels before Linux 6.9.
    pub copies_stay: bool,
}

impl Host {
    /// Looks.
    pub fn probe(paths: Paths) -> Host {
        let controllers = fs::read_to_string(paths.cgroup.join("cgroup.controllers"));
        let controllers = controllers.unwrap_or_default();
        let release = fs::read_to_string(paths.proc.join("sys/kernel/osrelease"));
        let version = KernelVersion::of_kernel(&release.unwrap_or_default());
        Host {
            has_memory_controller: controllers.split_whitespace().any(|name| name == "memory"),
            has_psi: paths.proc.join("pressure/memory").exists(),
            mglru: mglru_is_on(&paths.sys),
            lru_gen: is_writable(&paths.debugfs.join("lru_gen")),
            copies_stay: version.is_none_or(|version| version < COPIES_DROPPED),
            paths,
        }
    }

    /// The mechanism that measures ages here. The accessed bits serve the classic lists alone: MGLRU samples
    /// pages when its generations are walked, and clearing bits beforehand was seen to make it take
    /// *more*.
    pub fn means(&self) -> Means {
        match (self.mglru, self.lru_gen) {
            (true, true) => Means::Generations,
            (true, false) => Means::None,
            (false, _) if self.can_clear_bits() => Means::AccessedBits,
            (false, _) => Means::None,
        }
    }

    /// The lists from which the kernel reclaims.
    pub fn lists(&self) -> Lists {
        if self.mglru { Lists::Mglru } else { Lists::Classic }
    }

    /// Whether other processes' accessed bits may be cleared: our own file is there in kernels with
    /// CONFIG_PROC_PAGE_MONITOR, and others' open for root.
    fn can_clear_bits(&self) -> bool {
        self.paths.proc.join("self/clear_refs").exists()
            && (rustix::process::geteuid().is_root()
                || is_writable(&self.paths.proc.join("1/clear_refs")))
    }
}

/// `/sys/kernel/mm/lru_gen/enabled` is a mask; its lowest bit is the main switch.
fn mglru_is_on(sys: &Path) -> bool {
    let text = fs::read_to_string(sys.join("kernel/mm/lru_gen/enabled")).unwrap_or_default();
    let digits = text.trim().trim_start_matches("0x");
    u32::from_str_radix(digits, 16).is_ok_and(|mask| mask & 1 != 0)
}

/// Whether a file can be opened for writing, now and by us. Nothing is written.
pub fn is_writable(path: &Path) -> bool {
    fs::OpenOptions::new().write(true).open(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, Host) {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let paths = Paths {
            cgroup: root.path().join("cgroup"),
            proc: root.path().join("proc"),
            sys: root.path().join("sys"),
            debugfs: root.path().join("debug"),
        };
        let host = Host::probe(paths);
        (root, host)
    }

    #[test]
    fn older_kernels_keep_copies() {
        let of = |release| host(&[("proc/sys/kernel/osrelease", release)]).1.copies_stay;
        assert!(of("6.1.0-56-amd64\n") && of("6.8.12\n") && !of("6.9.0\n") && !of("6.12.95\n"));
        assert!(host(&[]).1.copies_stay, "nothing is known");
    }

    #[test]
    fn generations_need_both_the_switch_and_the_file() {
        let lru_gen = ("debug/lru_gen", "");
        let on = ("sys/kernel/mm/lru_gen/enabled", "0x0007\n");
        let off = ("sys/kernel/mm/lru_gen/enabled", "0x0000\n");
        let bits = ("proc/self/clear_refs", "");
        let other = ("proc/1/clear_refs", "");
        let table: [(&[(&str, &str)], Means); 5] = [
            (&[on, lru_gen, bits, other], Means::Generations),
            (&[on, bits, other], Means::None),
            (&[off, lru_gen, bits, other], Means::AccessedBits),
            (&[bits, other], Means::AccessedBits),
            (&[off, lru_gen], Means::None),
        ];
        for (files, means) in table {
            assert_eq!(host(files).1.means(), means, "{files:?}");
        }
    }
}
