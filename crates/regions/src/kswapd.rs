//! The priority of kswapd, the kernel threads that free memory in the background.
//!
//! kswapd shares its CPU with the tasks that use memory up. While it waits for the CPU, memory pressure
//! lasts, and a request for huge pages may end because nothing was freed in time.

use std::fs;
use std::io;

use prairie_host::Roots;
use rustix::process::{Pid, getpriority_process, setpriority_process};

/// `priority` in `/proc/PID/stat` of a task whose nice value is 0.
const NORMAL: i32 = 20;

/// kthreadd, the parent of all kernel threads. A program may call itself kswapd0, but cannot have this
/// parent.
const KTHREADD: &str = "2";

/// The priorities of all kswapds by node, with commas between them: 20 + nice value.
///
/// # Errors
/// I/O errors of the system; there is none in a container.
pub fn read(roots: &Roots) -> io::Result<String> {
    let threads = threads(roots)?;
    let priority = |pid: &Pid| Ok((NORMAL + getpriority_process(Some(*pid))?).to_string());
    Ok(threads.iter().map(priority).collect::<io::Result<Vec<_>>>()?.join(","))
}

/// Sets the priorities.
///
/// # Errors
/// I/O errors of the system, and another number of priorities than there are kswapds.
pub fn write(roots: &Roots, priorities: &str) -> io::Result<()> {
    let (threads, parsed) = (threads(roots)?, parse(priorities));
    if threads.len() != parsed.len() {
        return Err(io::Error::other(format!("{} kswapds: {priorities}", threads.len())));
    }
    for (pid, priority) in threads.iter().zip(parsed) {
        setpriority_process(Some(*pid), priority - NORMAL)?;
    }
    Ok(())
}

/// The same priorities, but all as urgent as that nice value at least.
pub fn raised(priorities: &str, nice: i32) -> String {
    let raise = |priority: i32| priority.min(NORMAL + nice).to_string();
    parse(priorities).into_iter().map(raise).collect::<Vec<_>>().join(",")
}

fn parse(priorities: &str) -> Vec<i32> {
    priorities.split(',').map(|word| word.parse().unwrap_or(NORMAL)).collect()
}

/// All kswapds, by node.
fn threads(roots: &Roots) -> io::Result<Vec<Pid>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(&roots.proc)? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        // A process may have ended meanwhile.
        let Ok(stat) = fs::read_to_string(roots.proc.join(name).join("stat")) else { continue };
        found.extend(node(&stat).zip(Pid::from_raw(pid)));
    }
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no kswapd"));
    }
    found.sort_unstable_by_key(|(node, _)| *node);
    Ok(found.into_iter().map(|(_, pid)| pid).collect())
}

/// The node of a kswapd with that `/proc/PID/stat`; nothing for other tasks.
fn node(stat: &str) -> Option<u32> {
    let (before, after) = stat.rsplit_once(") ")?;
    let node = before.split_once(" (kswapd")?.1.parse().ok()?;
    (after.split(' ').nth(1) == Some(KTHREADD)).then_some(node)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_kernel_threads_of_that_name_are_kswapds() {
        assert_eq!(node("56 (kswapd0) S 2 0 0 0 -1 2230336 0"), Some(0));
        assert_eq!(node("57 (kswapd12) R 2 0 0"), Some(12));
        for other in [
            "56 (kswapd0) S 1 0 0",
            "56 (kswapd) S 2 0 0",
            "56 (kswapd0x) S 2 0 0",
            "56 (a (kswapd0) S 2) S 1 0",
            "56 (kcompactd0) S 2 0 0",
            "",
        ] {
            assert_eq!(node(other), None, "{other}");
        }
    }

    #[test]
    fn priorities_are_only_raised() {
        assert_eq!(raised("20", -10), "10");
        assert_eq!(raised("20,5,15", -10), "10,5,10");
    }

    #[test]
    fn priorities_are_those_of_the_tasks() {
        let mut task = Command::new("sleep").arg("60").spawn().unwrap();
        let root = tempfile::tempdir().unwrap();
        let roots = Roots::at(&root.path().join("proc"));
        fs::create_dir_all(&roots.proc).unwrap();
        assert_eq!(read(&roots).unwrap_err().kind(), io::ErrorKind::NotFound);
        let folder = roots.proc.join(task.id().to_string());
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("stat"), format!("{} (kswapd0) S 2 0 0", task.id())).unwrap();
        let before = read(&roots).unwrap();
        // Anybody may make a task less urgent.
        let less = (parse(&before)[0] + 1).to_string();
        write(&roots, &less).unwrap();
        assert_eq!(read(&roots).unwrap(), less);
        assert!(write(&roots, "20,20").unwrap_err().to_string().contains("1 kswapds"));
        task.kill().unwrap();
        task.wait().unwrap();
    }
}
