//! The files that `prairie fleet report` reads: named ones, those of directories, those of patterns.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};

use super::rows::is_lines;
use super::stores::is_address;

/// Directories within each other that are read: `date=2026-01-01/rack=7/`.
const MAX_DEPTH: usize = 8;

/// The files that the arguments name, each once, in order; addresses of object stores name none.
///
/// # Errors
/// If an argument names nothing, or is a wrong pattern.
pub fn files(arguments: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for argument in arguments.iter().filter(|argument| !is_address(argument)) {
        let before = files.len();
        let path = Path::new(argument);
        if path.is_dir() {
            add(path, MAX_DEPTH, &mut files)?;
        } else if argument.contains(['*', '?', '[']) && !path.exists() {
            let found =
                glob::glob(argument).map_err(|error| anyhow!("{argument}: {}", error.msg))?;
            for path in found {
                let path = path.with_context(|| argument.clone())?;
                match path.is_dir() {
                    true => add(&path, MAX_DEPTH, &mut files)?,
                    false => files.push(path),
                }
            }
        } else {
            fs::metadata(path).with_context(|| format!("cannot read {argument}"))?;
            files.push(path.to_owned());
        }
        if files.len() == before {
            bail!(
                "{argument}: no file to read, expected rows of `prairie survey --summary`, parts of \
                 `prairie fleet run`, or files of `prairie survey --save`"
            );
        }
    }
    files.sort();
    files.dedup();
    Ok(files)
}

/// Adds the files of a directory and of those below it.
fn add(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let cannot = || format!("cannot read the directory {}", folder.display());
    for entry in fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if path.is_dir() && depth > 0 {
            add(&path, depth - 1, files)?;
        } else if path.extension().is_some_and(|ending| ending == "parquet") || is_lines(&path) {
            files.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_patterns_name_files() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("date=1/rack=2")).unwrap();
        for name in ["date=1/rack=2/a.jsonl", "date=1/b.parquet", "c.json", "d.txt"] {
            fs::write(root.join(name), "").unwrap();
        }
        let names = |argument: String| -> Vec<String> {
            let found = files(&[argument]).unwrap();
            let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
            found.iter().map(name).collect()
        };
        let at = |rest: &str| format!("{}/{rest}", root.display());
        assert_eq!(names(at("")), ["c.json", "b.parquet", "a.jsonl"]);
        assert_eq!(names(at("date=*")), ["b.parquet", "a.jsonl"]);
        assert_eq!(names(at("d.txt")), ["d.txt"]);
        let error = |argument: &str| files(&[argument.to_owned()]).unwrap_err().to_string();
        assert!(error(&at("x*")).contains("no file to read"));
        assert!(error(&at("missing")).contains("cannot read"));
    }
}
