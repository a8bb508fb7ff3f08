//! Memory of control groups near the root: candidates for offloading.

use serde::Serialize;

use crate::cgroup::memory_stat;
use crate::wanted::CGROUPS;
use crate::{Capture, ParseError};

/// One control group (cgroup v2), its children included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CgroupMemory {
    /// Its path below the root of the hierarchy: `system.slice/web.service`.
    pub path: String,
    /// Bytes of anonymous memory in RAM.
    pub anonymous_bytes: u64,
    /// Of them on the inactive list.
    pub inactive_anonymous_bytes: u64,
    /// Bytes of page cache, shared memory included.
    pub file_bytes: u64,
}

/// The groups that a capture has, those with the most anonymous memory first.
///
/// # Errors
/// [`ParseError`] where a `memory.stat` is malformed.
pub fn of(capture: &Capture) -> Result<Vec<CgroupMemory>, ParseError> {
    let mut groups = Vec::new();
    for (name, text) in &capture.files {
        let below = name.strip_prefix(CGROUPS).and_then(|name| name.strip_prefix('/'));
        let Some(path) = below.and_then(|name| name.strip_suffix("/memory.stat")) else { continue };
        let stat = memory_stat::parse(name, text)?;
        groups.push(CgroupMemory {
            path: path.to_owned(),
            anonymous_bytes: stat.anon,
            inactive_anonymous_bytes: stat.inactive_anon,
            file_bytes: stat.file,
        });
    }
    groups.sort_by(|a, b| {
        b.anonymous_bytes.cmp(&a.anonymous_bytes).then_with(|| a.path.cmp(&b.path))
    });
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_sorted_by_their_anonymous_memory() {
        let mut capture = Capture::default();
        for (path, anon) in [("init.scope", 1), ("system.slice/web.service", 9), ("a", 1)] {
            let name = format!("{CGROUPS}/{path}/memory.stat");
            capture.files.insert(name, format!("anon {anon}\ninactive_anon 1\nfile 3\n"));
        }
        let groups = of(&capture).unwrap();
        let paths: Vec<&str> = groups.iter().map(|group| group.path.as_str()).collect();
        assert_eq!(paths, ["system.slice/web.service", "a", "init.scope"]);
        assert_eq!((groups[0].anonymous_bytes, groups[0].file_bytes), (9, 3));
        capture.files.insert(format!("{CGROUPS}/x/memory.stat"), "anon many\n".to_owned());
        assert!(of(&capture).is_err());
    }
}
