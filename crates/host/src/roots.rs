//! Where a host's files are, and how a capture names them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where a host's files are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// Its `/proc`.
    pub proc: PathBuf,
    /// Its `/sys`.
    pub sys: PathBuf,
}

impl Roots {
    /// This host.
    pub fn live() -> Roots {
        Roots { proc: "/proc".into(), sys: "/sys".into() }
    }

    /// Another `/proc` tree; its `/sys` is expected in `../sys`.
    pub fn at(proc: &Path) -> Roots {
        let beside = proc.parent().filter(|dir| !dir.as_os_str().is_empty());
        let sys = beside.unwrap_or(Path::new(if proc.is_absolute() { "/" } else { "." }));
        Roots { proc: proc.to_owned(), sys: sys.join("sys") }
    }

    /// Whether this is the machine that runs the program.
    pub fn is_live(&self) -> bool {
        self.proc == Path::new("/proc")
    }

    /// The file that a capture calls `name` (`proc/…` or `sys/…`).
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        let (root, rest) = name.split_once('/').unwrap_or((name, ""));
        match root {
            "proc" => self.proc.join(rest),
            "sys" => self.sys.join(rest),
            _ => unreachable!("captures name files below proc/ and sys/ only: {name}"),
        }
    }

    /// The text of a file; bytes that are no UTF-8 (a process may call itself anything) replaced.
    pub(crate) fn text(&self, name: &str) -> io::Result<String> {
        fs::read(self.path(name)).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The names in a directory, sorted; none where it is not there.
    pub(crate) fn list(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(name)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names
    }
}

/// Whether `name` is `prefix` and a number.
pub(crate) fn is_numbered(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).is_some_and(|number| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_has_its_sys_beside_it() {
        assert_eq!(Roots::at(Path::new("/a/proc")).sys, Path::new("/a/sys"));
        assert_eq!(Roots::at(Path::new("/proc")).sys, Path::new("/sys"));
        assert_eq!(Roots::at(Path::new("proc")).sys, Path::new("./sys"));
        assert!(Roots::at(Path::new("/proc")).is_live());
    }
}
