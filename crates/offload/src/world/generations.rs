//! Ages by MGLRU's generations: `lru_gen` in debugfs, read once a period for all cgroups.

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use prairie_daemon::file::{Buffer, Held, Words};
use prairie_host::cgroup::lru_gen::{self, Node};

use crate::balance;

/// The last contents of the file.
#[derive(Debug)]
pub struct Generations {
    file: Held,
    command: Arc<Held>,
    read_at: Option<Duration>,
    cgroups: HashMap<String, Vec<Node>>,
}

impl Generations {
    /// Opens the file below debugfs.
    ///
    /// # Errors
    /// I/O errors of the system: not there, no permission, kernel lockdown.
    pub fn open(debugfs: &Path) -> io::Result<Generations> {
        let path = debugfs.join("lru_gen");
        let (file, command) = (Held::open(&path)?, Arc::new(Held::open_for_writing(&path)?));
        Ok(Generations { file, command, read_at: None, cgroups: HashMap::new() })
    }

    /// Reads the file, unless it was read within `fresh`.
    ///
    /// # Errors
    /// I/O errors of the system, or a text that is not the kernel's (`InvalidData`); the known
    /// generations are then forgotten.
    pub fn refresh(
        &mut self,
        now: Duration,
        fresh: Duration,
        buffer: &mut Buffer,
    ) -> io::Result<()> {
        if self.read_at.is_some_and(|at| at <= now && now - at < fresh) {
            return Ok(());
        }
        self.cgroups.values_mut().for_each(Vec::clear);
        self.read_at = None;
        let text = self.file.read(buffer)?;
        let cgroups = &mut self.cgroups;
        let parsed = lru_gen::parse(text, &mut |path, node| {
            let path = path.trim_start_matches('/');
            match cgroups.get_mut(path) {
                Some(nodes) => nodes.push(*node),
                None => drop(cgroups.insert(path.to_owned(), vec![*node])),
            }
        });
        if let Err(error) = parsed {
            cgroups.clear();
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        // Cgroups that are gone leave empty lists behind; now and then they are swept out.
        if cgroups.len() > 64 && cgroups.values().filter(|nodes| nodes.is_empty()).count() > 64 {
            cgroups.retain(|_, nodes| !nodes.is_empty());
        }
        self.read_at = Some(now);
        Ok(())
    }

    /// The nodes of the cgroup at `path` (without a leading slash).
    pub fn of(&self, path: &str) -> &[Node] {
        self.cgroups.get(path).map_or(&[], Vec::as_slice)
    }

    /// Bytes of the cgroup that have been idle for `min_age`, or nothing where it is not listed.
    pub fn idle_bytes(&self, path: &str, min_age: Duration, file_only: bool) -> Option<u64> {
        let nodes = self.of(path);
        if nodes.is_empty() {
            return None;
        }
        let pages = nodes.iter().flat_map(|node| node.idle(min_age.as_millis() as u64));
        let pages = pages.map(|generation| match file_only {
            true => generation.file_pages,
            false => generation.file_pages + generation.anon_pages,
        });
        Some(pages.sum::<u64>().saturating_mul(4096))
    }

    /// The commands that begin a new generation of the cgroup on each node:
    /// `+ memcg node max_gen can_swap force_scan`.
    pub fn beginnings(&self, path: &str) -> Vec<Words> {
        let begin = |node: &Node| {
            let youngest = node.youngest()?.sequence;
            Some(Words::of(format_args!("+ {} {} {youngest} 1 1", node.memcg, node.node)))
        };
        self.of(path).iter().filter_map(begin).collect()
    }

    /// The file that takes commands.
    pub fn command(&self) -> Arc<Held> {
        self.command.clone()
    }

    /// The commands that evict `bytes` of the cgroup's memory that has been idle for `min_age`,
    /// oldest first. The weight of an anonymous page decides how many are of which kind
    /// (`balance::anon_pages`); without one, all are of the page cache.
    pub fn evictions(
        &self,
        path: &str,
        min_age: Duration,
        bytes: u64,
        anon_weight: Option<f64>,
    ) -> Vec<Eviction> {
        let mut rest = bytes / 4096;
        let mut evictions = Vec::new();
        for node in self.of(path) {
            let idle = node.idle(min_age.as_millis() as u64);
            let Some(last) = idle.last() else { continue };
            let anon: u64 = idle.iter().map(|generation| generation.anon_pages).sum();
            let files: u64 = idle.iter().map(|generation| generation.file_pages).sum();
            let anon =
                anon_weight.map_or(0, |weight| balance::anon_pages(rest, anon, files, weight));
            let files = files.min(rest - anon);
            rest -= anon + files;
            let evict = |pages, swappiness| {
                let (memcg, node, sequence) = (node.memcg, node.node, last.sequence);
                (pages > 0).then_some(Eviction { memcg, node, sequence, swappiness, pages })
            };
            evictions.extend(evict(files, FILE_ONLY));
            evictions.extend(evict(anon, ANON_FIRST));
        }
        evictions
    }
}

/// With this swappiness the kernel evicts page cache alone.
const FILE_ONLY: u32 = 0;

/// With this one it evicts page cache only if no anonymous page is old enough.
const ANON_FIRST: u32 = 200;

/// One command to evict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The kernel's number of the cgroup.
    pub memcg: u64,
    /// The node.
    pub node: u32,
    /// From this generation and all older ones.
    pub sequence: u64,
    /// How strongly anonymous memory is preferred to page cache, 0 to 200.
    pub swappiness: u32,
    /// A number of pages.
    pub pages: u64,
}

impl Eviction {
    /// `- memcg node min_gen swappiness pages`
    pub fn command(&self, pages: u64) -> Words {
        let Eviction { memcg, node, sequence, swappiness, .. } = self;
        Words::of(format_args!("- {memcg} {node} {sequence} {swappiness} {pages}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "memcg     1 /\n node     0\n          0     140213          0        6452\n\
                        memcg    14 /w/x\n node     0\n   5  180250  65606  10\n   6 120100 5 7\n \
                        7 60050 49211 12\n  8 10 4 0\n";

    fn opened(text: &str) -> (tempfile::TempDir, Generations) {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("lru_gen"), text).unwrap();
        let mut generations = Generations::open(root.path()).unwrap();
        generations.refresh(Duration::ZERO, Duration::ZERO, &mut Buffer::default()).unwrap();
        (root, generations)
    }

    #[test]
    fn idle_memory_and_the_commands_that_take_it() {
        let (_root, generations) = opened(TEXT);
        let age = Duration::from_secs(110);
        assert_eq!(generations.idle_bytes("w/x", age, false), Some((65_606 + 10) * 4096));
        assert_eq!(generations.idle_bytes("w/x", age, true), Some(10 * 4096));
        assert_eq!(generations.idle_bytes("w", age, false), None);
        let evictions = generations.evictions("w/x", age, 576 * 4096, Some(0.5));
        assert_eq!(evictions.len(), 2);
        assert_eq!(evictions[0].command(1).as_str(), "- 14 0 5 0 1");
        assert_eq!(evictions[1].command(575).as_str(), "- 14 0 5 200 575");
        let pages = |bytes, weight| -> Vec<(u32, u64)> {
            let evictions = generations.evictions("w/x", age, bytes, weight);
            evictions.iter().map(|each| (each.swappiness, each.pages)).collect()
        };
        assert_eq!(pages(1 << 40, None), [(0, 10)]);
        assert_eq!(pages(1 << 40, Some(0.0)), [(0, 10), (200, 65_606)]);
        assert_eq!(pages(8 * 4096, Some(0.0)), [(0, 8)]);
        assert_eq!(generations.evictions("w/x", Duration::from_secs(600), 4096, Some(0.5)), []);
    }

    #[test]
    fn a_generation_is_begun_on_the_cgroup_alone() {
        let (_root, generations) = opened(TEXT);
        let commands = generations.beginnings("w/x");
        let commands: Vec<&str> = commands.iter().map(Words::as_str).collect();
        assert_eq!(commands, ["+ 14 0 8 1 1"]);
        assert!(generations.beginnings("elsewhere").is_empty());
    }

    #[test]
    fn garbage_is_ignored_and_reported() {
        let (root, mut generations) = opened(TEXT);
        std::fs::write(root.path().join("lru_gen"), "memcg 14 /w/x\n node 0\n nonsense\n").unwrap();
        let refreshed = generations.refresh(Duration::ZERO, Duration::ZERO, &mut Buffer::default());
        assert_eq!(refreshed.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(generations.of("w/x"), []);
    }
}
