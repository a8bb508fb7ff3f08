//! Which cgroups the configuration names: a walk of the hierarchy, level by level, along the
//! patterns, and into pods where rules select some.
//!
//! A pattern is a path below the root of cgroup v2, with `*`, `?` and `[…]` within a level and `**`
//! for any number of levels. The first rule whose pattern matches wins. Where a cgroup and one
//! below it both match, the one below is taken and the one above left alone, so that no page is
//! requested twice.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirEntryExt;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

use crate::kubernetes::{Match, PodSelector, Pods, leads_to_pods};

/// How a level is matched: `*` stays within it, and hidden names are names.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Directories that a walk looks into at most: a runaway hierarchy must not stop the daemon.
const MAX_DIRECTORIES: usize = 100_000;

/// A pattern of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupPattern {
    whole: Pattern,
    levels: Vec<Pattern>,
    /// The first level that is `**`: from there on everything may match.
    any_depth_from: Option<usize>,
}

impl CgroupPattern {
    /// Takes a pattern as written.
    ///
    /// # Errors
    /// One line that says what is wrong with it.
    pub fn new(text: &str) -> Result<CgroupPattern, String> {
        let text = text.trim_matches('/');
        if text.is_empty() {
            return Err("a pattern names a cgroup below the root, not the root itself".into());
        }
        if text.split('/').any(|level| matches!(level, "" | "." | "..")) {
            return Err(format!("{text:?} has an empty level, \".\" or \"..\""));
        }
        let pattern = |text| Pattern::new(text).map_err(|error| format!("{text:?}: {error}"));
        Ok(CgroupPattern {
            whole: pattern(text)?,
            levels: text.split('/').map(pattern).collect::<Result<_, _>>()?,
            any_depth_from: text.split('/').position(|level| level == "**"),
        })
    }

    /// The pattern as written, without slashes at its ends.
    pub fn as_str(&self) -> &str {
        self.whole.as_str()
    }

    /// Whether it names the cgroup at `path`.
    pub fn matches(&self, path: &str) -> bool {
        self.whole.matches_with(path, OPTIONS)
    }

    /// Whether it could name a cgroup below `path`, which has `depth` levels.
    fn leads_through(&self, path: &str, depth: usize) -> bool {
        let sure = self.any_depth_from.unwrap_or(usize::MAX);
        let fits = |(at, name): (usize, &str)| {
            at >= sure || self.levels.get(at).is_some_and(|level| level.matches_with(name, OPTIONS))
        };
        (depth < self.levels.len() || self.any_depth_from.is_some())
            && path.split('/').enumerate().all(fits)
    }
}

/// What a rule names cgroups by.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Selector {
    /// Their paths.
    Pattern(CgroupPattern),
    /// The pods that they belong to.
    Pods(PodSelector),
}

impl Selector {
    /// Whether it names the cgroup at `path`.
    pub fn matches(&self, path: &str, pods: &Pods) -> Match {
        match self {
            Selector::Pattern(pattern) if pattern.matches(path) => Match::Yes,
            Selector::Pattern(_) => Match::No,
            Selector::Pods(selector) => selector.matches(path, pods),
        }
    }

    fn leads_through(&self, path: &str, depth: usize) -> bool {
        match self {
            Selector::Pattern(pattern) => pattern.leads_through(path, depth),
            Selector::Pods(_) => leads_to_pods(path, depth),
        }
    }
}

/// As written, or as a phrase.
impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selector::Pattern(pattern) => write!(f, "{:?}", pattern.as_str()),
            Selector::Pods(selector) => selector.fmt(f),
        }
    }
}

/// A cgroup that a rule names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedCgroup {
    /// Its path below the root.
    pub path: String,
    /// The inode of its directory, as listed: another cgroup of the same path has another.
    pub inode: u64,
    /// The rule that wins.
    pub rule: usize,
    /// Further rules that match.
    pub also: Vec<usize>,
    /// A cgroup below it matches, too, and is taken in its stead.
    pub covered: bool,
    /// Not known yet whether the rule selects it: its pod's labels or namespace are missing.
    pub undecided: bool,
}

impl MatchedCgroup {
    /// Whether it is managed.
    pub fn is_taken(&self) -> bool {
        !self.covered && !self.undecided
    }
}

/// The directories seen by a walk, so that a cheap check can determine whether another walk would
/// see the same.
#[derive(Debug, Default)]
pub struct DirectorySet {
    directories: Vec<PathBuf>,
    sum: u64,
}

impl DirectorySet {
    /// Whether the directories that the walk looked into have the names and inodes in them that
    /// they had then. Costs a tenth of a walk.
    pub fn is_current(&self) -> bool {
        let sum = |sum: u64, directory: &PathBuf| {
            entries(directory).fold(sum, |sum, (name, inode)| sum.wrapping_add(mark(&name, inode)))
        };
        !self.directories.is_empty() && self.directories.iter().fold(0, sum) == self.sum
    }
}

/// A number for an entry of a directory; their sum stands for all of them, in whatever order.
fn mark(name: &OsStr, inode: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write_u64(inode);
    hasher.write(name.as_bytes());
    hasher.finish()
}

/// All cgroups below `root` that one of `rules` names, each rule a list of patterns, sorted by
/// path. Directories that vanish meanwhile, or cannot be read, are passed over.
pub fn discover(root: &Path, rules: &[&[CgroupPattern]]) -> Vec<MatchedCgroup> {
    let selectors = |rule: &&[CgroupPattern]| -> Vec<Selector> {
        rule.iter().cloned().map(Selector::Pattern).collect()
    };
    let rules: Vec<Vec<Selector>> = rules.iter().map(selectors).collect();
    let rules: Vec<&[Selector]> = rules.iter().map(Vec::as_slice).collect();
    walk(root, &rules, &Pods::default()).0
}

/// The same for selectors, with the known pods; also returns the visited directories.
pub fn walk(root: &Path, rules: &[&[Selector]], pods: &Pods) -> (Vec<MatchedCgroup>, DirectorySet) {
    let (mut found, mut walked) = (Vec::new(), DirectorySet::default());
    let mut pending = vec![(String::new(), 0)];
    while let Some((parent, depth)) = pending.pop() {
        if walked.directories.len() == MAX_DIRECTORIES {
            break;
        }
        let directory = root.join(&parent);
        for (name, inode) in entries(&directory) {
            walked.sum = walked.sum.wrapping_add(mark(&name, inode));
            let Ok(name) = name.into_string() else { continue };
            let path = if parent.is_empty() { name } else { format!("{parent}/{name}") };
            found.extend(name_of(&path, inode, rules, pods));
            let mut selectors = rules.iter().flat_map(|rule| rule.iter());
            if selectors.any(|selector| selector.leads_through(&path, depth + 1)) {
                pending.push((path, depth + 1));
            }
        }
        walked.directories.push(directory);
    }
    // By levels rather than bytes, so that what is below a cgroup follows it at once.
    found.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
    mark_covered(&mut found);
    (found, walked)
}

/// Marks those that have another below them. Sorted by levels, a cgroup is followed by all that
/// are below it, so those above the present one are on a stack.
fn mark_covered(found: &mut [MatchedCgroup]) {
    let mut above: Vec<usize> = Vec::new();
    for at in 0..found.len() {
        let is_above = |above: usize, found: &[MatchedCgroup]| {
            let rest = found[at].path.strip_prefix(found[above].path.as_str());
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        while above.last().is_some_and(|last| !is_above(*last, found)) {
            above.pop();
        }
        if let Some(last) = above.last() {
            found[*last].covered = true;
        }
        above.push(at);
    }
}

/// The rules that name `path`: the first wins. If it is not known whether the first does, no later
/// one takes its place: a pod that is to be spared must not be taken by the rule for all others
/// before its labels are known.
fn name_of(path: &str, inode: u64, rules: &[&[Selector]], pods: &Pods) -> Option<MatchedCgroup> {
    let matches = |(at, rule): (usize, &&[Selector])| {
        let each = || rule.iter().map(|selector| selector.matches(path, pods));
        match each().any(|found| found == Match::Yes) {
            true => Some((at, Match::Yes)),
            false => each().find(|found| *found == Match::Unknown).map(|unknown| (at, unknown)),
        }
    };
    let mut matching = rules.iter().enumerate().filter_map(matches);
    let (rule, found) = matching.next()?;
    let also = matching.filter(|(_, found)| *found == Match::Yes).map(|(at, _)| at).collect();
    let undecided = found == Match::Unknown;
    Some(MatchedCgroup { path: path.to_owned(), inode, rule, also, covered: false, undecided })
}

/// Names and inodes of the directories in `directory`, as listed, which costs no look at each.
fn entries(directory: &Path) -> impl Iterator<Item = (OsString, u64)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    entries.filter(is_directory).map(|entry| (entry.file_name(), entry.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for path in paths {
            fs::create_dir_all(root.path().join(path)).unwrap();
        }
        root
    }

    fn paths(root: &Path, rules: &[&[&str]]) -> Vec<(String, usize, Vec<usize>, bool)> {
        let rules: Vec<Vec<CgroupPattern>> = rules
            .iter()
            .map(|rule| rule.iter().map(|text| CgroupPattern::new(text).unwrap()).collect())
            .collect();
        let rules: Vec<&[CgroupPattern]> = rules.iter().map(Vec::as_slice).collect();
        let found = discover(root, &rules).into_iter();
        found.map(|named| (named.path, named.rule, named.also, named.covered)).collect()
    }

    #[test]
    fn stars_stay_within_a_level() {
        let root = tree(&["workload/web/main", "workload/db", "system.slice/a.service", "user"]);
        let found = paths(root.path(), &[&["workload/*"]]);
        assert_eq!(
            found.iter().map(|f| f.0.as_str()).collect::<Vec<_>>(),
            ["workload/db", "workload/web"]
        );
        let found = paths(root.path(), &[&["/workload/**/main/"]]);
        assert_eq!(found, [("workload/web/main".into(), 0, vec![], false)]);
        assert_eq!(paths(root.path(), &[&["*.service"]]), []);
    }

    #[test]
    fn the_first_rule_wins_and_others_are_reported() {
        let root = tree(&["a/x", "a/y"]);
        let found = paths(root.path(), &[&["a/x"], &["a/*"]]);
        assert_eq!(found, [("a/x".into(), 0, vec![1], false), ("a/y".into(), 1, vec![], false)]);
    }

    #[test]
    fn nested_cgroups_are_matched_instead() {
        let root = tree(&["a/x/deep", "a-b", "a/y"]);
        let covered = |rules: &[&[&str]]| {
            let found = paths(root.path(), rules).into_iter();
            found.filter(|f| f.3).map(|f| f.0).collect::<Vec<_>>()
        };
        assert_eq!(covered(&[&["a", "a-b"]]), Vec::<String>::new());
        assert_eq!(covered(&[&["a", "a/x/deep"]]), ["a"]);
        assert_eq!(covered(&[&["**"]]), ["a", "a/x"]);
    }

    #[test]
    fn a_quick_check_detects_changes_of_the_tree() {
        let root = tree(&["a/x", "a/y", "b/z"]);
        let pattern = [Selector::Pattern(CgroupPattern::new("a/*").unwrap())];
        let (found, walked) = walk(root.path(), &[&pattern], &Pods::default());
        assert_eq!(found.len(), 2);
        assert!(walked.is_current() && !DirectorySet::default().is_current());
        fs::create_dir(root.path().join("b/other")).unwrap();
        assert!(walked.is_current(), "no pattern leads there");
        // Another directory of the same name, which keeps the first one's inode from it.
        fs::rename(root.path().join("a/x"), root.path().join("b/x")).unwrap();
        assert!(!walked.is_current());
        fs::create_dir(root.path().join("a/x")).unwrap();
        assert!(!walked.is_current());
        fs::remove_dir(root.path().join("a/x")).unwrap();
        fs::rename(root.path().join("b/x"), root.path().join("a/x")).unwrap();
        assert!(walked.is_current());
        fs::remove_dir_all(root.path().join("a")).unwrap();
        assert!(!walked.is_current());
    }

    #[test]
    fn a_walk_enters_only_where_a_pattern_leads() {
        let pattern = CgroupPattern::new("workload/web*/main").unwrap();
        assert!(pattern.leads_through("workload", 1) && pattern.leads_through("workload/web1", 2));
        assert!(!pattern.leads_through("system", 1) && !pattern.leads_through("workload/db", 2));
        assert!(!pattern.leads_through("workload/web1/main", 3));
        let deep = CgroupPattern::new("k8s/**/app").unwrap();
        assert!(deep.leads_through("k8s/a/b/c", 4) && !deep.leads_through("other", 1));
    }

    #[test]
    fn patterns_that_name_nothing_are_refused() {
        for bad in ["", "/", "a//b", "../etc", "a/./b", "a[", "a**b"] {
            assert!(CgroupPattern::new(bad).is_err(), "{bad:?}");
        }
    }
}
