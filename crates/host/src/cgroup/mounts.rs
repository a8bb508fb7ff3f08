//! `/proc/self/mountinfo`: where cgroup v2 and debugfs are (`show_mountinfo`,
//! `fs/proc_namespace.c`).

use std::path::PathBuf;

/// The first mount of a file system of `kind` (`cgroup2`, `debugfs`), and whether it may be written
/// to. Lines of another form are skipped.
pub fn find(mountinfo: &str, kind: &str) -> Option<Mount> {
    mountinfo.lines().filter_map(mount).find(|(found, _)| *found == kind).map(|(_, mount)| mount)
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its root.
    pub path: PathBuf,
    /// Mounted `ro`: even root may not write, as in most containers.
    pub read_only: bool,
}

/// `36 35 98:0 /root /point options [tags …] - kind source super-options`
fn mount(line: &str) -> Option<(&str, Mount)> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(4);
    let (point, options) = (left.next()?, left.next()?);
    let mut right = right.split(' ');
    let (kind, super_options) = (right.next()?, right.nth(1).unwrap_or(""));
    let is_ro = |options: &str| options.split(',').any(|option| option == "ro");
    let read_only = is_ro(options) || is_ro(super_options);
    Some((kind, Mount { path: unescape(point).into(), read_only }))
}

/// The kernel writes space, tab, newline and backslash as three octal digits.
fn unescape(word: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(word.to_owned(), |word, (from, to)| word.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_a_kind() {
        let text = "22 1 0:21 / /proc rw,nosuid - proc proc rw\n\
                    30 1 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n\
                    31 1 0:27 / /mnt/a\\040b rw - cgroup2 cgroup2 rw\n\
                    32 1 0:7 / /sys/kernel/debug ro,nosuid - debugfs none rw\n\
                    broken line\n";
        let cgroup = find(text, "cgroup2").unwrap();
        assert_eq!((cgroup.path.to_str(), cgroup.read_only), (Some("/sys/fs/cgroup"), false));
        assert!(find(text, "debugfs").unwrap().read_only);
        assert_eq!(find(text, "tracefs"), None);
        assert_eq!(find("1 2 3 / /a\\040b rw - x y rw", "x").unwrap().path, PathBuf::from("/a b"));
        assert_eq!(find("- - -\n - x", "x"), None);
    }
}
