//! systemd-oomd, which kills what is reclaimed from: whether it runs, and what it watches.

use std::fs;
use std::process::{Command, Stdio};

use prairie_daemon::finding::{Finding, Verdict};

use super::read;
use crate::config::Config;
use crate::world::discover::walk;
use crate::world::pods;
use crate::world::probe::Host;

/// What findings about it are named.
pub const ABOUT: &str = "systemd-oomd";

/// A list of cgroups that it watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    /// Where swap runs out, the one that uses most is killed.
    Swap,
    /// Where pressure is high, the one that was scanned most is killed.
    Pressure,
}

/// Whether it runs.
pub fn running(host: &Host) -> Option<Finding> {
    let entries = fs::read_dir(&host.paths.proc).ok()?.flatten();
    let is_oomd = |entry: &fs::DirEntry| {
        read(&entry.path().join("comm")).is_some_and(|comm| comm.starts_with("systemd-oomd"))
    };
    entries
        .filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit())
        .find(is_oomd)?;
    let found = "runs: it ranks its victims by pages scanned, which offloading raises";
    let remedy =
        "ManagedOOMPreference=avoid for the units, or ManagedOOMMemoryPressure=auto above them";
    Some(Finding::new(ABOUT, Verdict::Warning, found, remedy))
}

/// What `oomctl` says of it; nothing where that cannot be asked.
pub fn dump() -> String {
    let mut command = Command::new("oomctl");
    command.arg("dump").stdin(Stdio::null()).stderr(Stdio::null());
    let said = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&said).into_owned()
}

/// The cgroups that systemd-oomd watches, themselves or through an ancestor. `dump` is the output
/// of `oomctl`.
pub fn ancestors(host: &Host, config: &Config, dump: &str) -> Vec<Finding> {
    let watched = watched(dump);
    let (pods, _) = pods::read(&config.kubernetes);
    let (named, _) = walk(&host.paths.cgroup, &config.selectors(), &pods);
    let mut findings = Vec::new();
    for path in named.iter().filter(|named| named.is_taken()).map(|named| named.path.as_str()) {
        for (watch, above) in watched.iter().filter(|(_, above)| is_above(above, path)) {
            let why = match watch {
                Watch::Swap => "by use of swap, which offloading raises",
                Watch::Pressure => "by pressure and pages scanned",
            };
            let found = format!("{path}: {above} is watched {why}");
            let unit = path.rsplit('/').next().unwrap_or(path);
            let remedy = format!("systemctl set-property {unit} ManagedOOMPreference=avoid");
            findings.push(Finding::new(ABOUT, Verdict::Warning, found, remedy));
        }
    }
    findings
}

/// The lists of paths under the headings of `oomctl dump`.
fn watched(dump: &str) -> Vec<(Watch, String)> {
    let mut watch = None;
    let mut found = Vec::new();
    for line in dump.lines() {
        if line.starts_with("Swap Monitored CGroups") {
            watch = Some(Watch::Swap);
        } else if line.starts_with("Memory Pressure Monitored CGroups") {
            watch = Some(Watch::Pressure);
        } else if let (Some(watch), Some(path)) = (watch, line.trim_start().strip_prefix("Path: "))
        {
            found.push((watch, path.trim_end().to_owned()));
        }
    }
    found
}

/// Whether a cgroup as oomd names it, from the root's `/`, is this path or above it.
fn is_above(above: &str, path: &str) -> bool {
    let above = above.trim_matches('/');
    let rest = path.strip_prefix(above);
    above.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::probe::Paths;

    /// As systemd 252 prints it.
    const DUMP: &str = "\
Dry Run: no
Swap Used Limit: 90.00%
Default Memory Pressure Limit: 60.00%
Default Memory Pressure Duration: 30s
System Context:
        Memory: Used: 5.3G Total: 15.5G
        Swap: Used: 0B Total: 8.0G
Swap Monitored CGroups:
        Path: /
                Swap Usage: (see System Context)
Memory Pressure Monitored CGroups:
        Path: /work.slice
                Memory Pressure Limit: 50.00%
                Pressure: Avg10: 0.00 Avg60: 0.00 Avg300: 0.00 Total: 0
                Current Memory Usage: 1.2G
";

    #[test]
    fn both_lists_are_read() {
        let expected = [(Watch::Swap, "/".to_owned()), (Watch::Pressure, "/work.slice".to_owned())];
        assert_eq!(watched(DUMP), expected);
        assert_eq!(watched("Path: /before any heading\n\0\n"), []);
    }

    #[test]
    fn above_is_by_whole_levels() {
        assert!(is_above("/", "a/b") && is_above("/a", "a/b") && is_above("/a/b", "a/b"));
        assert!(!is_above("/a", "ab") && !is_above("/a/b/c", "a/b"));
    }

    #[test]
    fn a_container_below_a_watched_cgroup_is_reported() {
        let root = tempfile::tempdir().unwrap();
        for cgroup in ["work.slice/web.service", "other.slice/x.service"] {
            let directory = root.path().join("cgroup").join(cgroup);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("memory.current"), "1\n").unwrap();
        }
        let sub = |name: &str| root.path().join(name);
        let host = Host::probe(Paths {
            cgroup: sub("cgroup"),
            proc: sub("proc"),
            sys: sub("sys"),
            debugfs: sub("debug"),
        });
        let text = "[[rule]]\ncgroups = [\"*/*.service\"]\n";
        let config = Config::parse("offload.toml".as_ref(), text).unwrap();
        let pressure_only = DUMP.replace("Path: /\n", "");
        let found = ancestors(&host, &config, &pressure_only);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].found.starts_with("work.slice/web.service: /work.slice is watched"));
        assert_eq!(ancestors(&host, &config, DUMP).len(), 3);
    }
}
