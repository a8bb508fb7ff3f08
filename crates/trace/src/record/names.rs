//! What processes are called: as they call themselves, or not at all.

use std::collections::{HashMap, HashSet};
use std::fs;

use prairie_host::Roots;

use crate::{Text, Texts};

/// The name of processes whose name is hidden.
pub const OTHER: &str = "other";

/// The thread from which the kernel forks its own.
const KTHREADD: i32 = 2;

/// The name of each process, as far as it may be recorded.
pub struct Names {
    texts: Texts,
    by_pid: HashMap<i32, Text>,
    /// Processes that go by their own names; `None` if all do.
    told: Option<HashSet<i32>>,
    own: i32,
}

/// A process that ran when the recording began.
pub struct Running {
    pub pid: i32,
    pub name: String,
    /// Whether it is a thread of the kernel.
    pub of_kernel: bool,
}

impl Names {
    /// Of every process; or, with `hide_others`, only of the kernel's threads, of `own` and of
    /// what `own` starts.
    pub fn new(hide_others: bool, own: i32) -> Names {
        let told = hide_others.then(|| HashSet::from([0, KTHREADD, own]));
        Names { texts: Texts::default(), by_pid: HashMap::new(), told, own }
    }

    /// The table of the names, and of other texts of the recording.
    pub fn texts(&mut self) -> &mut Texts {
        &mut self.texts
    }

    /// Whether a process goes by its own name.
    pub fn may_be_reported(&self, pid: i32) -> bool {
        self.told.as_ref().is_none_or(|told| told.contains(&pid))
    }

    /// A process that runs already. Returns the name to write down if it is new.
    pub fn running(&mut self, process: &Running) -> Option<Text> {
        if let (Some(told), true) = (&mut self.told, process.of_kernel) {
            told.insert(process.pid);
        }
        self.named(process.pid, &process.name)
    }

    /// A process was named. Returns the name to write down if it is new.
    pub fn named(&mut self, pid: i32, name: &str) -> Option<Text> {
        let name = self.texts.intern(if self.may_be_reported(pid) { name } else { OTHER });
        (self.by_pid.insert(pid, name) != Some(name)).then_some(name)
    }

    /// A process ended: its number may become another's.
    pub fn forget(&mut self, pid: i32) {
        self.by_pid.remove(&pid);
        if let Some(told) = &mut self.told
            && ![0, KTHREADD, self.own].contains(&pid)
        {
            told.remove(&pid);
        }
    }

    /// A process was forked: it has its parent's name. Returns it if it is to be written down.
    pub fn forked(&mut self, pid: i32, parent: i32) -> Option<Text> {
        if let Some(told) = &mut self.told {
            // The number may have been another's.
            match told.contains(&parent) {
                true => told.insert(pid),
                false => told.remove(&pid),
            };
        }
        let name = self.by_pid.get(&parent).copied().unwrap_or(Text::EMPTY);
        let name = self.texts.get(name).to_owned();
        self.named(pid, &name)
    }
}

/// The processes that run now; the idle task, which has no directory, is known as `swapper`.
pub fn running(roots: &Roots) -> Vec<Running> {
    let mut found = vec![Running { pid: 0, name: "swapper".to_owned(), of_kernel: true }];
    for entry in fs::read_dir(&roots.proc).into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(comm) = fs::read(entry.path().join("comm")) else { continue };
        let stat = fs::read(entry.path().join("stat")).unwrap_or_default();
        found.push(Running {
            pid,
            name: String::from_utf8_lossy(&comm).trim_end_matches('\n').to_owned(),
            of_kernel: pid == KTHREADD || parent(&stat) == Some(KTHREADD),
        });
    }
    found.sort_by_key(|process| process.pid);
    found
}

/// The parent by a `/proc/PID/stat`: `PID (NAME) STATE PARENT …`, where a name may hold anything.
fn parent(stat: &[u8]) -> Option<i32> {
    let text = String::from_utf8_lossy(stat);
    let (_, after_name) = text.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: i32 = 100;

    /// Names that a history of starts, forks and namings leads to, by process.
    fn after(hide_others: bool, tells: &[(&str, i32, i32)]) -> HashMap<i32, String> {
        let mut names = Names::new(hide_others, OWN);
        for &(what, pid, parent) in tells {
            let of_kernel = what.starts_with('k');
            let process = || Running { pid, name: what.to_owned(), of_kernel };
            match (what, parent) {
                ("fork", _) => drop(names.forked(pid, parent)),
                (_, 0) => drop(names.running(&process())),
                (name, _) => drop(names.named(pid, name)),
            }
        }
        let by_pid = names.by_pid.clone();
        by_pid.into_iter().map(|(pid, name)| (pid, names.texts.get(name).to_owned())).collect()
    }

    const HISTORY: [(&str, i32, i32); 11] = [
        ("kthreadd", 2, 0),
        ("kswapd0", 50, 0),
        ("login", 60, 0),
        ("prairie", OWN, 0),
        ("fork", 101, OWN),
        ("tar", 101, -1),
        ("fork", 102, 101),
        ("fork", 51, 2),
        ("kworker", 51, -1),
        ("fork", 61, 60),
        ("secret", 61, -1),
    ];

    #[test]
    fn all_names_unless_others_are_hidden() {
        let all = after(false, &HISTORY);
        assert_eq!(
            (all[&60].as_str(), all[&61].as_str(), all[&102].as_str()),
            ("login", "secret", "tar")
        );
        let told = after(true, &HISTORY);
        for (pid, name) in [(2, "kthreadd"), (50, "kswapd0"), (51, "kworker")] {
            assert_eq!(told[&pid], name);
        }
        for (pid, name) in [(OWN, "prairie"), (101, "tar"), (102, "tar")] {
            assert_eq!(told[&pid], name);
        }
        assert_eq!((told[&60].as_str(), told[&61].as_str()), (OTHER, OTHER));
    }

    #[test]
    fn a_number_used_again_is_another_process() {
        let mut history = HISTORY.to_vec();
        history.extend([("fork", 101, 60), ("secret", 101, -1)]);
        assert_eq!(after(true, &history)[&101], OTHER);
    }

    /// The fork that uses the number again may be lost, or traced after the name.
    #[test]
    fn a_process_that_ended_gives_its_right_up_with_its_number() {
        let mut names = Names::new(true, OWN);
        names.forked(101, OWN);
        assert!(names.may_be_reported(101));
        for pid in [101, OWN] {
            names.forget(pid);
        }
        let name = names.named(101, "secret").unwrap();
        assert_eq!(names.texts().get(name), OTHER);
        assert!(names.may_be_reported(OWN), "a thread of the recorder ends");
    }

    #[test]
    fn a_name_is_written_down_once() {
        let mut names = Names::new(false, OWN);
        assert!(names.named(7, "tar").is_some());
        assert!(names.named(7, "tar").is_none());
        assert!(names.forked(8, 7).is_some());
        assert!(names.named(8, "sh").is_some());
    }

    #[test]
    fn parents_by_the_kernels_text() {
        assert_eq!(parent(b"15 (kworker/0:1) I 2 0 0 0"), Some(2));
        assert_eq!(parent(b"15 (a) b (c) S 77 0"), Some(77));
        assert_eq!(parent(b""), None);
    }
}
