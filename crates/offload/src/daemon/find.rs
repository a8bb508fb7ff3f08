//! Which cgroups there are: those that rules name become containers, those that are gone leave.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::container::{Access, Container};
use super::{Daemon, GROUPS};
use crate::kubernetes::{Match, Pods};
use crate::status::CgroupStatus;
use crate::world::cgroup::CgroupError;
use crate::world::discover::{DirectorySet, MatchedCgroup, walk};
use crate::world::pods;

impl Daemon {
    pub(super) fn look_for_cgroups(&mut self, now: Duration) {
        let same_pods = self.read_pods();
        if same_pods && self.walked.is_current() {
            return;
        }
        let root = &self.setting.host.paths.cgroup;
        let (named, walked) = walk(root, &self.config.selectors(), &self.pods);
        let taken = || named.iter().filter(|named| named.is_taken());
        let inodes: HashMap<&str, u64> = taken().map(|named| (&*named.path, named.inode)).collect();
        let is_named = |container: &Container| {
            let inode = inodes.get(&*container.cgroup.path);
            !container.gone && inode == Some(&container.inode)
        };
        let (kept, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.containers).into_iter().partition(is_named);
        self.containers = kept;
        for container in gone {
            let mut leases = self.leases.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            leases.restore_below(&container.cgroup.directory);
            self.setting.log.note("gone", format_args!("{}", container.cgroup.path));
        }
        let path = |at: usize| (self.containers[at].cgroup.path.clone(), at);
        let known: HashMap<String, usize> = (0..self.containers.len()).map(path).collect();
        for named in taken() {
            let rule = &self.config.rules[named.rule];
            match known.get(&named.path).map(|at| &mut self.containers[*at]) {
                Some(container) => {
                    container.set_rule(named.rule, rule);
                    container.limit_calls(self.config.daemon.call_time);
                }
                None => self.open(named, now),
            }
        }
        let all: HashSet<&str> = named.iter().map(|named| &*named.path).collect();
        self.told.keep_cgroups(|path| all.contains(path));
        self.warn_of_rules(&named);
        self.list_containers();
        self.list_classes();
        // Those that could not be opened are tried again.
        let complete = taken().count() == self.containers.len();
        self.walked = if complete { walked } else { DirectorySet::default() };
    }

    /// A container's files are gone, and are looked for soon. The directory may be there still, as
    /// unchanged as all others: where the memory controller is switched off and on, other files of
    /// the same names come.
    pub(super) fn lose(&mut self, at: usize) {
        self.containers[at].gone = true;
        self.walked = DirectorySet::default();
        self.next_discovery = Duration::ZERO;
    }

    /// Reads the known pods, if a rule needs them. Returns whether nothing has changed.
    fn read_pods(&mut self) -> bool {
        if !self.config.needs_pods() {
            return std::mem::take(&mut self.pods) == Pods::default();
        }
        let (mut known, trouble) = pods::read(&self.config.kubernetes);
        if let Some(trouble) = trouble {
            self.report_once("kubernetes", trouble);
            // A file that is just being written must not make containers leave and come again.
            for (uid, pod) in std::mem::take(&mut self.pods).0 {
                known.add(uid, pod);
            }
            self.pods = known;
            return false;
        }
        let same = known == self.pods;
        self.pods = known;
        same
    }

    fn open(&mut self, named: &MatchedCgroup, now: Duration) {
        let hands = Access {
            host: &self.setting.host,
            leases: &self.leases,
            dry_run: self.setting.dry_run,
            triggers: self.config.daemon.triggers,
            return_cost: self.return_cost,
            call_time: self.config.daemon.call_time,
        };
        let rule = &self.config.rules[named.rule];
        match Container::open(self.next_id, named, rule, &hands) {
            Ok(mut container) => {
                let group = (self.next_id % u64::from(GROUPS)) as u32;
                container.due = now + rule.profile.period / GROUPS * group;
                self.next_id += 1;
                let means = container.means();
                let name = &rule.profile_name;
                let which = named.rule + 1;
                self.setting.log.note(
                    "found",
                    format_args!("{}: rule {which}, profile {name}, by {means}", named.path),
                );
                self.containers.push(container);
            }
            Err(CgroupError::Gone) => {}
            Err(trouble) => self.report_cgroup(&named.path, format!("left alone: {trouble}")),
        }
    }

    /// Patterns that match nothing, and cgroups that several rules name.
    fn warn_of_rules(&mut self, named: &[MatchedCgroup]) {
        for at in 0..self.config.rules.len() {
            let pods = &self.pods;
            let unmatched: Vec<String> = self.config.rules[at]
                .selectors
                .iter()
                .filter(|each| named.iter().all(|n| each.matches(&n.path, pods) == Match::No))
                .map(|each| each.to_string())
                .collect();
            if !unmatched.is_empty() {
                let patterns = unmatched.join(", ");
                self.report_once(
                    &format!("rule {}", at + 1),
                    format!("no cgroup matches {patterns}"),
                );
            }
        }
        for named in named.iter().filter(|named| named.undecided && !named.covered) {
            let which = named.rule + 1;
            let what = format!("left alone: rule {which} needs labels or a namespace of its pod");
            self.report_cgroup(&named.path, what);
        }
        for named in named.iter().filter(|named| !named.also.is_empty() && !named.undecided) {
            let also: Vec<String> = named.also.iter().map(|at| (at + 1).to_string()).collect();
            let (wins, also) = (named.rule + 1, also.join(", "));
            self.report_cgroup(&named.path, format!("rule {wins} wins over rule {also}"));
        }
    }

    /// Brings the list in the status in line with the containers; figures of those that stay are
    /// kept.
    fn list_containers(&mut self) {
        self.containers.sort_by(|a, b| a.cgroup.path.cmp(&b.cgroup.path));
        let mut status = self.status.lock();
        let old = std::mem::take(&mut status.cgroups).into_iter();
        let mut old: HashMap<String, CgroupStatus> =
            old.map(|entry| (entry.path.clone(), entry)).collect();
        for container in &self.containers {
            let path = &container.cgroup.path;
            let mut entry = old.remove(path).unwrap_or_default();
            let rule = &self.config.rules[container.rule];
            entry.path.clone_from(path);
            entry.rule = container.rule + 1;
            entry.profile.clone_from(&rule.profile_name);
            let class = rule.class.map(|class| self.config.classes[class].name.as_str());
            class.unwrap_or_default().clone_into(&mut entry.class);
            container.means().clone_into(&mut entry.means);
            container.backend().clone_into(&mut entry.backend);
            status.cgroups.push(entry);
        }
    }
}
