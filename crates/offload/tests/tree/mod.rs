//! A tree of files that looks like cgroup v2 and `/proc`.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use prairie_daemon::log::{Format, Log, Verbosity};
use prairie_offload::config::Config;
use prairie_offload::daemon::{Daemon, Setting};
use prairie_offload::world::lease::Leases;
use prairie_offload::world::probe::{Host, Paths};

pub const MIB: u64 = 1 << 20;

/// The files of a cgroup.
pub const FILES: [&str; 11] = [
    "memory.current",
    "memory.stat",
    "memory.pressure",
    "io.pressure",
    "memory.swap.current",
    "memory.swap.max",
    "memory.min",
    "memory.low",
    "memory.high",
    "memory.zswap.max",
    "cgroup.procs",
];

const CALM: &str = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";

pub struct Tree {
    root: tempfile::TempDir,
}

impl Tree {
    pub fn new() -> Tree {
        let tree = Tree { root: tempfile::tempdir().unwrap() };
        for directory in ["cgroup", "proc/pressure", "sys", "debug"] {
            fs::create_dir_all(tree.root.path().join(directory)).unwrap();
        }
        fs::write(tree.root.path().join("cgroup/cgroup.controllers"), "cpu io memory\n").unwrap();
        tree.write_proc("pressure/memory", CALM);
        tree.write_proc(
            "swaps",
            "Filename Type Size Used Priority\n/dev/vda partition 1048576 0 -2\n",
        );
        tree.write_proc("meminfo", "MemTotal: 4096000 kB\nZswap: 0 kB\nZswapped: 0 kB\n");
        tree.write_proc("vmstat", "pswpout 0\n");
        tree
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join("cgroup").join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub fn write_proc(&self, name: &str, text: &str) {
        let path = self.root.path().join("proc").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// An idle container of anonymous memory.
    pub fn cgroup(&self, name: &str, bytes: u64) {
        fs::create_dir_all(self.path(name)).unwrap();
        let write = |file: &str, text: &str| self.write(&format!("{name}/{file}"), text);
        write("memory.current", &format!("{bytes}\n"));
        self.stat(name, bytes, "");
        write("memory.pressure", CALM);
        write("io.pressure", CALM);
        for zero in ["memory.swap.current", "memory.min", "memory.low"] {
            write(zero, "0\n");
        }
        for max in ["memory.swap.max", "memory.high", "memory.zswap.max"] {
            write(max, "max\n");
        }
        write("memory.reclaim", "");
        write("cgroup.procs", "");
    }

    pub fn stat(&self, name: &str, anon: u64, more: &str) {
        let text = format!("anon {anon}\nfile 0\npgscan 0\npgsteal 0\n{more}");
        self.write(&format!("{name}/memory.stat"), &text);
    }

    pub fn remove(&self, name: &str) {
        fs::remove_dir_all(self.path(name)).unwrap();
    }

    /// What was last written to `memory.reclaim`, in bytes; the probe asks for nothing.
    pub fn asked(&self, name: &str) -> Option<u64> {
        let text = fs::read_to_string(self.path(name).join("memory.reclaim")).ok()?;
        text.lines().next()?.split_whitespace().next()?.parse().ok().filter(|bytes| *bytes > 0)
    }

    pub fn forget(&self, name: &str) {
        self.write(&format!("{name}/memory.reclaim"), "");
    }

    pub fn first_line(&self, name: &str) -> String {
        let text = fs::read_to_string(self.path(name)).unwrap();
        text.lines().next().unwrap_or_default().to_owned()
    }

    pub fn record(&self) -> PathBuf {
        self.root.path().join("leases")
    }

    pub fn config(&self, text: &str) -> Config {
        Config::parse(Path::new("offload.toml"), text).unwrap()
    }

    pub fn daemon(&self, config: &str) -> Daemon {
        let log = Log::new(Format::Text, Verbosity::All, Box::new(std::io::sink()));
        self.daemon_with(config, log, false)
    }

    pub fn dry_daemon(&self, config: &str) -> Daemon {
        let log = Log::new(Format::Text, Verbosity::All, Box::new(std::io::sink()));
        self.daemon_with(config, log, true)
    }

    /// A daemon that may borrow; `cat` stands for its guardian.
    pub fn guarded_daemon(&self, config: &str) -> Daemon {
        let log = Log::new(Format::Text, Verbosity::All, Box::new(std::io::sink()));
        let leases = Leases::guarded(Path::new("cat"), &[], &self.record()).unwrap();
        Daemon::new(self.config(config), self.setting(log, false), leases).unwrap()
    }

    pub fn daemon_with(&self, config: &str, log: Log, dry_run: bool) -> Daemon {
        let setting = self.setting(log, dry_run);
        Daemon::new(self.config(config), setting, Leases::default()).unwrap()
    }

    pub fn setting(&self, log: Log, dry_run: bool) -> Setting {
        let paths = Paths {
            cgroup: self.root.path().join("cgroup"),
            proc: self.root.path().join("proc"),
            sys: self.root.path().join("sys"),
            debugfs: self.root.path().join("debug"),
        };
        Setting { host: Host::probe(paths), dry_run, workers: 0, log, alarm: None }
    }

    /// All files below the root of cgroup v2.
    pub fn snapshot(&self) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut pending = vec![self.path("")];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(&directory).unwrap().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    pending.push(path);
                } else {
                    let name = path.strip_prefix(self.path("")).unwrap();
                    files.insert(name.display().to_string(), fs::read(&path).unwrap());
                }
            }
        }
        files
    }

    /// Files that are other than they were, sorted.
    pub fn changed_since(&self, before: &BTreeMap<String, Vec<u8>>) -> Vec<String> {
        let now = self.snapshot();
        let names = before.keys().chain(now.keys().filter(|name| !before.contains_key(*name)));
        let mut changed: Vec<String> =
            names.filter(|name| before.get(*name) != now.get(*name)).cloned().collect();
        changed.sort();
        changed
    }
}

/// Where a log's lines can be read.
#[derive(Clone, Default)]
pub struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl CapturedLog {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

pub fn captured(format: Format) -> (Log, CapturedLog) {
    let told = CapturedLog::default();
    (Log::new(format, Verbosity::All, Box::new(told.clone())), told)
}
