//! Files that appear whole or not at all.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Why a file could not be written; nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct WriteError {
    /// The file that was to be written.
    pub path: PathBuf,
    /// The error of the system.
    pub source: std::io::Error,
}

/// Writes `contents` to `path`: first to a temporary file next to it, then by renaming that.
///
/// A reader sees the old file or the new one, never a part; a full disk leaves the old one. The
/// new file has the permissions that a plain creation would have given it.
///
/// # Errors
/// [`WriteError`] with the path and the system's reason.
pub fn write_atomically(path: &Path, contents: &[u8]) -> Result<(), WriteError> {
    try_write(path, contents).map_err(|source| WriteError { path: path.to_owned(), source })
}

fn try_write(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    if path.is_dir() {
        return Err(std::io::Error::from(std::io::ErrorKind::IsADirectory));
    }
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    // A rename cannot replace a device or pipe (`/dev/stdout`).
    if path.exists() && !path.is_file() {
        return std::fs::write(path, contents);
    }
    let mut builder = tempfile::Builder::new();
    builder.prefix(".prairie-").suffix(".part");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // Narrowed by the process's umask, as for any new file.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    // Without the hidden name, which means nothing to who asked for another.
    let mut file = builder.tempfile_in(directory).map_err(|e| std::io::Error::from(e.kind()))?;
    file.write_all(contents)?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_a_file_whole_and_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out.svg");
        write_atomically(&path, b"old").unwrap();
        write_atomically(&path, b"new").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn an_error_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("missing/out.svg");
        let error = write_atomically(&path, b"x").unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot write {}: ", path.display())), "{error}");
        assert!(!error.contains(".prairie-"), "{error}");
        let error = write_atomically(dir.path(), b"x").unwrap_err().to_string();
        assert!(error.contains("is a directory"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_device_is_written_in_place() {
        write_atomically(Path::new("/dev/null"), b"x").unwrap();
        assert!(!Path::new("/dev/null").is_file());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_leaves_the_old_file() {
        // /dev/full is the kernel's own full disk.
        let error = write_atomically(Path::new("/dev/full"), b"x").unwrap_err().to_string();
        assert!(error.contains("/dev/full") && error.contains("No space left"), "{error}");
    }
}
