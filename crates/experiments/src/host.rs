//! The host and the moment of a measurement.

use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The machine on which a result was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// Model name of the processor.
    pub cpu: String,
    /// Processors that a program may use.
    pub cores: usize,
    /// Memory in GiB, rounded.
    pub memory_gib: u64,
    /// Release of the kernel.
    pub kernel: String,
}

impl Host {
    /// This host.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
            line.split_once(':').map_or_else(String::new, |(_, value)| value.trim().to_owned())
        };
        let memory = field(&read("/proc/meminfo"), "MemTotal");
        let kib = memory.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0);
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_gib: (kib + (1 << 19)) >> 20,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

/// What git prints; `None` if it fails.
fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The commit that is checked out, with `+` if tracked files were changed since.
pub fn commit(root: &Path) -> String {
    let Some(commit) = git(root, &["rev-parse", "--short=10", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let changed =
        git(root, &["status", "--porcelain", "--untracked-files=no", "--", "crates", "bench"]);
    if changed.is_some_and(|changed| !changed.is_empty()) { commit + "+" } else { commit }
}

/// The commits that lead to what is checked out.
pub struct History(Option<String>);

impl History {
    /// Asks git. Where it does not know all of the history, as in a shallow clone or outside a
    /// repository, every commit may be part of it.
    pub fn of(root: &Path) -> History {
        let shallow = git(root, &["rev-parse", "--is-shallow-repository"]);
        let whole = shallow.is_some_and(|shallow| shallow == "false");
        History(whole.then(|| git(root, &["rev-list", "HEAD"])).flatten())
    }

    /// Whether a stored commit is one of them.
    pub fn has(&self, commit: &str) -> bool {
        let commit = commit.trim_end_matches('+');
        self.0.as_ref().is_none_or(|all| all.lines().any(|line| line.starts_with(commit)))
    }
}

/// Today in UTC, `2026-11-22`.
pub fn today() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs() as i64);
    chrono::DateTime::from_timestamp(seconds, 0)
        .map_or_else(String::new, |now| now.format("%Y-%m-%d").to_string())
}
