//! SHA-256 of input files.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

/// Files that are listed one by one. More of them are listed as one.
const MAX_LISTED: usize = 32;

/// A file that was read, or many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Input {
    /// Its path, or `N files`.
    pub path: String,
    /// Its size in bytes, or the sum of the sizes.
    pub bytes: u64,
    /// Its SHA-256 in hexadecimal digits; of many files that of the lines that `sha256sum` prints.
    pub sha256: String,
}

/// The regular files among `paths` that can be read, in their order.
pub fn inputs(paths: &[PathBuf]) -> Vec<Input> {
    let one = |path: &PathBuf| {
        let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
        is_file.then(|| hashed(path).ok()).flatten()
    };
    let found: Vec<Input> = paths.iter().filter_map(one).collect();
    match found.len() {
        0..=MAX_LISTED => found,
        _ => vec![combined(&found)],
    }
}

fn combined(inputs: &[Input]) -> Input {
    let mut hasher = Sha256::new();
    for input in inputs {
        hasher.update(format!("{}  {}\n", input.sha256, input.path));
    }
    Input {
        path: format!("{} files", inputs.len()),
        bytes: inputs.iter().map(|input| input.bytes).sum(),
        sha256: digits(&hasher.finalize()),
    }
}

fn hashed(path: &Path) -> io::Result<Input> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 18];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => {
                hasher.update(&buffer[..read]);
                bytes += read as u64;
            }
        }
    }
    Ok(Input { path: path.display().to_string(), bytes, sha256: digits(&hasher.finalize()) })
}

fn digits(hash: &[u8]) -> String {
    hash.iter().fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_files_are_one_line() {
        let directory = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = (0..40)
            .map(|at| {
                let path = directory.path().join(at.to_string());
                std::fs::write(&path, at.to_string()).unwrap();
                path
            })
            .collect();
        assert_eq!(inputs(&paths[..32]).len(), 32);
        let all = inputs(&paths);
        assert_eq!((all.len(), all[0].path.as_str(), all[0].bytes), (1, "40 files", 70));
        std::fs::write(&paths[7], "x").unwrap();
        assert_ne!(inputs(&paths)[0].sha256, all[0].sha256);
        assert_eq!(inputs(&[directory.path().to_owned()]), []);
    }
}
