//! The files that one command reads and writes. No output may be an input or another output.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use anyhow::bail;

use crate::usage_error::refuse;

/// Every file argument of a command, registered before any of them is opened.
#[derive(Default)]
pub struct Files {
    named: Vec<Named>,
}

/// One file argument.
struct Named {
    /// The option or argument that names it.
    argument: String,
    path: PathBuf,
    role: Role,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Input,
    /// A directory whose files may all be read.
    InputTree,
    Output,
    /// An output in a directory that the command creates if it is missing.
    OutputInNew,
}

impl Files {
    /// Adds inputs: none, one, or several under the same argument.
    pub fn input<'a, P: AsRef<Path> + ?Sized + 'a>(
        self,
        argument: &str,
        paths: impl IntoIterator<Item = &'a P>,
    ) -> Files {
        self.with(argument, paths.into_iter().map(AsRef::as_ref), Role::Input)
    }

    /// Adds outputs: none, one, or several under the same argument.
    pub fn output<'a, P: AsRef<Path> + ?Sized + 'a>(
        self,
        argument: &str,
        paths: impl IntoIterator<Item = &'a P>,
    ) -> Files {
        self.with(argument, paths.into_iter().map(AsRef::as_ref), Role::Output)
    }

    /// Adds the files of a directory whose names end in one of `endings`. A directory that cannot
    /// be listed adds nothing: the command reports it when it reads it.
    pub fn input_files_in(self, argument: &str, folder: &Path, endings: &[&str]) -> Files {
        let is_read = |name: &OsStr| {
            let name = name.to_string_lossy();
            endings.iter().any(|ending| name.ends_with(ending))
        };
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let paths: Vec<PathBuf> =
            entries.filter(|entry| is_read(&entry.file_name())).map(|entry| entry.path()).collect();
        self.with(argument, paths.iter().map(PathBuf::as_path), Role::Input)
    }

    /// Adds a directory tree whose files may all be read.
    pub fn input_tree<'a>(
        self,
        argument: &str,
        folder: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Files {
        self.with(argument, folder.into_iter().map(PathBuf::as_path), Role::InputTree)
    }

    /// Adds outputs in directories that the command creates if they are missing.
    pub fn output_in_new<'a, P: AsRef<Path> + ?Sized + 'a>(
        self,
        argument: &str,
        paths: impl IntoIterator<Item = &'a P>,
    ) -> Files {
        self.with(argument, paths.into_iter().map(AsRef::as_ref), Role::OutputInNew)
    }

    /// The files that are read, without those of directory trees.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let inputs = self.named.iter().filter(|named| named.role == Role::Input);
        inputs.map(|named| named.path.clone()).collect()
    }

    /// Whether an argument names `path`, or something in it.
    #[cfg(test)]
    pub fn names(&self, path: &Path) -> bool {
        self.named.iter().any(|named| named.path.starts_with(path))
    }

    fn with<'a>(
        mut self,
        argument: &str,
        paths: impl Iterator<Item = &'a Path>,
        role: Role,
    ) -> Files {
        self.named.extend(paths.map(|path| Named {
            argument: argument.to_owned(),
            path: path.to_owned(),
            role,
        }));
        self
    }

    /// Refuses an output that is an input or another output, that is a directory, or whose
    /// directory is missing.
    pub fn check(&self) -> anyhow::Result<()> {
        let identities: Vec<Identity> =
            self.named.iter().map(|named| Identity::of(&named.path)).collect();
        let stdout = Identity::of_stdout();
        for (at, output) in self.named.iter().enumerate() {
            if !matches!(output.role, Role::Output | Role::OutputInNew) {
                continue;
            }
            let (name, path) = (&output.argument, output.path.display());
            if output.path == Path::new("-") {
                refuse!("{name} -: not written to standard output, expected a file");
            }
            if output.role == Role::Output {
                can_be_written(&output.path)?;
            }
            if stdout.as_ref().is_some_and(|stdout| identities[at].is_same_file(stdout)) {
                bail!("{name} {path}: same file as standard output, expected another file");
            }
            for (other_at, other) in self.named.iter().enumerate() {
                let clashes = match other.role {
                    Role::InputTree => identities[at].lies_in(&identities[other_at]),
                    _ => identities[at].is_same(&identities[other_at]),
                };
                if other_at != at && clashes {
                    let (other_name, other_path) = (&other.argument, other.path.display());
                    bail!(
                        "{name} {path}: same file as {other_name} {other_path}, expected another \
                         file"
                    );
                }
            }
        }
        Ok(())
    }
}

/// Whether an output can be created. Checked before the work, which may take long.
fn can_be_written(path: &Path) -> anyhow::Result<()> {
    if path.is_dir() {
        bail!("cannot write {}: is a directory, expected a file", path.display());
    }
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    if !dir.is_dir() {
        bail!("cannot write {}: there is no directory {}", path.display(), dir.display());
    }
    let is_device = fs::metadata(path).is_ok_and(|metadata| !metadata.is_file());
    // Outputs are written beside their place and renamed, so the directory has to accept new files.
    if !is_device && let Err(error) = tempfile::tempfile_in(dir) {
        let kind = match error.kind() {
            // What /proc and /sys return.
            std::io::ErrorKind::NotFound => "its file system does not allow new files".to_owned(),
            kind => kind.to_string(),
        };
        bail!("cannot write {}: no new file in {}: {kind}", path.display(), dir.display());
    }
    Ok(())
}

/// The identity of a file, to compare paths.
struct Identity {
    /// Device and inode of an existing regular file; `None` for devices, pipes, and directories,
    /// which may be named twice.
    inode: Option<(u64, u64)>,
    exists: bool,
    /// The absolute path without symbolic links, also of a file that does not exist yet.
    resolved: PathBuf,
}

impl Identity {
    fn of(path: &Path) -> Identity {
        let metadata = fs::metadata(path).ok();
        Identity {
            inode: metadata.as_ref().and_then(regular),
            exists: metadata.is_some(),
            resolved: resolved(path, 0),
        }
    }

    /// Standard output, where it is a regular file.
    fn of_stdout() -> Option<Identity> {
        let file = fs::File::from(std::io::stdout().as_fd().try_clone_to_owned().ok()?);
        let inode = regular(&file.metadata().ok()?)?;
        Some(Identity { inode: Some(inode), exists: true, resolved: PathBuf::new() })
    }

    fn is_same_file(&self, other: &Identity) -> bool {
        self.inode.is_some() && self.inode == other.inode
    }

    fn is_same(&self, other: &Identity) -> bool {
        let neither_exists = !self.exists && !other.exists;
        self.is_same_file(other) || (neither_exists && self.resolved == other.resolved)
    }

    /// Whether this is a file that exists in the tree `folder`.
    fn lies_in(&self, folder: &Identity) -> bool {
        self.inode.is_some() && self.resolved.starts_with(&folder.resolved)
    }
}

fn regular(metadata: &Metadata) -> Option<(u64, u64)> {
    metadata.is_file().then(|| (metadata.dev(), metadata.ino()))
}

/// The number of symbolic links that Linux follows.
const MAX_LINKS: u32 = 40;

/// The absolute path without symbolic links. Unlike [`fs::canonicalize`] it resolves paths that do
/// not exist: the existing part by links, the rest by its text.
fn resolved(path: &Path, links: u32) -> PathBuf {
    if let Ok(path) = fs::canonicalize(path) {
        return path;
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let Some(last) = absolute.components().next_back() else { return absolute };
    let parent = absolute.parent().map(|parent| resolved(parent, links)).unwrap_or_default();
    match last {
        Component::ParentDir => parent.parent().map(Path::to_owned).unwrap_or(parent),
        last => {
            let joined = parent.join(last);
            match fs::read_link(&joined) {
                Ok(target) if links < MAX_LINKS => resolved(&parent.join(target), links + 1),
                _ => joined,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_do_not_exist_are_resolved() {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap();
        fs::create_dir(root.join("a")).unwrap();
        std::os::unix::fs::symlink("a", root.join("b")).unwrap();
        std::os::unix::fs::symlink("new", root.join("a/link")).unwrap();
        std::os::unix::fs::symlink("loop", root.join("loop")).unwrap();
        let new = root.join("a/new");
        for same in ["a/new", "a/./new", "b/new", "a/../a/new", "c/../b/new", "b/link"] {
            assert_eq!(resolved(&root.join(same), 0), new, "{same}");
        }
        assert_eq!(resolved(&root.join("loop"), 0), root.join("loop"));
        assert_ne!(resolved(&root.join("new"), 0), new);
    }

    #[test]
    fn devices_can_be_named_twice() {
        let null = ["/dev/null"];
        Files::default().output("--html", null).output("--out", null).check().unwrap();
    }

    #[test]
    fn a_directory_without_new_files_is_refused_by_name() {
        let error = Files::default().output("--out", ["/proc/a.parquet"]).check().unwrap_err();
        let expected = "cannot write /proc/a.parquet: no new file in /proc: its file system does not allow new files";
        assert_eq!(error.to_string(), expected);
    }

    #[test]
    fn a_file_of_an_input_tree_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("net")).unwrap();
        let inside = dir.path().join("net/stat");
        let tree = dir.path().to_owned();
        let files = || Files::default().input_tree("--proc", [&tree]).output("--html", [&inside]);
        files().check().unwrap();
        fs::write(&inside, "").unwrap();
        let error = files().check().unwrap_err().to_string();
        assert!(error.contains("same file as --proc"), "{error}");
    }
}
