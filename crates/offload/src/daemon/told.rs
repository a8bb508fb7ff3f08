//! What was reported already: the same text about the same thing is a line of the log once.

use std::collections::HashMap;

/// The last text about each cgroup, by path, and about all else.
#[derive(Debug, Default)]
pub(super) struct Told {
    cgroups: HashMap<String, String>,
    others: HashMap<String, String>,
}

impl Told {
    /// Whether this is not the last thing said about a cgroup.
    pub fn is_new_of_cgroup(&mut self, path: &str, what: &str) -> bool {
        is_new(&mut self.cgroups, path, what)
    }

    /// The same about anything else, such as a rule.
    pub fn is_new(&mut self, about: &str, what: &str) -> bool {
        is_new(&mut self.others, about, what)
    }

    /// Forgets cgroups that are gone: hosts that start jobs have new ones every day.
    pub fn keep_cgroups(&mut self, is_present: impl Fn(&str) -> bool) {
        self.cgroups.retain(|path, _| is_present(path));
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Told::default();
    }
}

fn is_new(told: &mut HashMap<String, String>, about: &str, what: &str) -> bool {
    match told.get_mut(about) {
        Some(last) if last == what => return false,
        Some(last) => what.clone_into(last),
        None => drop(told.insert(about.to_owned(), what.to_owned())),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_until_the_cgroup_is_gone() {
        let mut told = Told::default();
        assert!(told.is_new_of_cgroup("work/a", "left alone"));
        assert!(!told.is_new_of_cgroup("work/a", "left alone"));
        assert!(told.is_new("work/a", "left alone"), "not the cgroup");
        assert!(told.is_new_of_cgroup("work/a", "refused"));
        assert!(told.is_new_of_cgroup("work/b", "refused"));
        told.keep_cgroups(|path| path == "work/b");
        assert!(told.is_new_of_cgroup("work/a", "refused"));
        assert!(!told.is_new_of_cgroup("work/b", "refused"));
        assert!(!told.is_new("work/a", "left alone"));
        assert_eq!(told.cgroups.len(), 2);
    }
}
