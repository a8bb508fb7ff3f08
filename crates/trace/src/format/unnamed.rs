//! A file that has no name until it is complete.

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use tempfile::NamedTempFile;

/// A file being written in the directory of the place that it will have.
///
/// Where the file system can do it (`O_TMPFILE`: ext4, XFS, Btrfs, tmpfs and others), it has no
/// name, so that nothing stays behind whatever ends the program, `kill -9` included. Elsewhere it
/// has a name beginning with `.prairie-`, and is removed when this value is dropped.
#[derive(Debug)]
pub enum UnnamedFile {
    WithoutName(File),
    Hidden(NamedTempFile),
}

impl UnnamedFile {
    /// Creates a file in `directory`, with the permissions of any new file.
    ///
    /// # Errors
    /// I/O errors of the system.
    pub fn create_in(directory: &Path) -> io::Result<UnnamedFile> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::open(directory, flags, Mode::from_raw_mode(0o666)) {
            Ok(file) => Ok(UnnamedFile::WithoutName(file.into())),
            // The file system knows no files without names.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => {
                UnnamedFile::hidden_in(directory)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn hidden_in(directory: &Path) -> io::Result<UnnamedFile> {
        use std::os::unix::fs::PermissionsExt;
        tempfile::Builder::new()
            .prefix(".prairie-")
            .suffix(".partial")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(directory)
            .map(UnnamedFile::Hidden)
            .map_err(without_path)
    }

    /// The file.
    pub fn as_file(&self) -> &File {
        match self {
            UnnamedFile::WithoutName(file) => file,
            UnnamedFile::Hidden(file) => file.as_file(),
        }
    }

    /// Gives the file its name; what had it before is replaced.
    ///
    /// # Errors
    /// I/O errors of the system; then nothing is left behind.
    pub fn persist(self, path: &Path) -> io::Result<()> {
        match self {
            UnnamedFile::WithoutName(file) => name(&file, path),
            UnnamedFile::Hidden(file) => file.persist(path).map(drop).map_err(|e| e.error),
        }
    }
}

/// An error without the hidden name, which is not the one that the caller gave.
fn without_path(error: io::Error) -> io::Error {
    error.kind().into()
}

/// Links a file without a name to `path`. A link cannot replace a file, a rename can: so the file
/// gets a passing name first.
fn name(file: &File, path: &Path) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    let linked = tempfile::Builder::new().prefix(".prairie-").suffix(".partial").make_in(
        directory,
        |passing| {
            rustix::fs::linkat(CWD, &descriptor, CWD, passing, AtFlags::SYMLINK_FOLLOW)
                .map_err(io::Error::from)
        },
    );
    let linked = linked.map_err(without_path)?;
    linked.into_temp_path().persist(path).map_err(|e| e.error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn an_error_does_not_name_the_hidden_file() {
        for create in [UnnamedFile::create_in, UnnamedFile::hidden_in] {
            let error = create(Path::new("/nope")).map(drop).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert!(!error.to_string().contains(".prairie-"), "{error}");
        }
    }

    /// Both kinds: no file is visible before the end, and the end replaces the previous file.
    #[test]
    fn is_seen_when_it_is_complete() {
        for create in [UnnamedFile::create_in, UnnamedFile::hidden_in] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("trace");
            std::fs::write(&path, "old").unwrap();
            let file = create(directory.path()).unwrap();
            file.as_file().write_all(b"new").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"old");
            file.persist(&path).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"new");
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn an_aborted_file_leaves_nothing() {
        for create in [UnnamedFile::create_in, UnnamedFile::hidden_in] {
            let directory = tempfile::tempdir().unwrap();
            drop(create(directory.path()).unwrap());
            assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn an_unnamed_file_is_invisible() {
        let directory = tempfile::tempdir().unwrap();
        let file = UnnamedFile::create_in(directory.path()).unwrap();
        let entries = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(entries, usize::from(matches!(file, UnnamedFile::Hidden(_))));
    }
}
