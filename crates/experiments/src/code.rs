//! A hash of the code that a result depends on, which shows when the result is older than it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use crate::registry::Entry;

/// Parts of a crate that do not decide what its library and programs compute.
const IGNORED: [&str; 5] = ["tests", "examples", "benches", "README.md", "Cargo.toml"];

/// The hash of the entry's crates, of the workspace crates that they use, and of its files.
pub fn hash(root: &Path, entry: &Entry) -> Result<String> {
    let mut crates = BTreeSet::new();
    for name in &entry.crates {
        with_dependencies(root, name, &mut crates)?;
    }
    let mut hash = Sha256::new();
    for name in &crates {
        let folder = root.join("crates").join(name);
        for path in crate::files(&folder).with_context(|| folder.display().to_string())? {
            let inner = path.strip_prefix(&folder)?;
            if !IGNORED.iter().any(|ignored| inner.starts_with(ignored)) {
                add(&mut hash, root, &path)?;
            }
        }
    }
    for name in &entry.files {
        let path = root.join(name);
        let paths = if path.is_dir() { crate::files(&path)? } else { vec![path] };
        for path in paths {
            add(&mut hash, root, &path)?;
        }
    }
    Ok(hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// Adds a file's name and contents; of Rust code without comments and empty lines.
fn add(hash: &mut Sha256, root: &Path, path: &Path) -> Result<()> {
    let contents = std::fs::read(path).with_context(|| path.display().to_string())?;
    hash.update(path.strip_prefix(root)?.to_string_lossy().as_bytes());
    hash.update([0]);
    match std::str::from_utf8(&contents) {
        Ok(code) if path.extension().is_some_and(|extension| extension == "rs") => {
            for line in code.lines().map(str::trim) {
                if !line.is_empty() && !line.starts_with("//") {
                    hash.update(line.as_bytes());
                    hash.update(b"\n");
                }
            }
        }
        _ => hash.update(&contents),
    }
    hash.update([0]);
    Ok(())
}

/// Adds the crate and the crates of this workspace that it uses.
fn with_dependencies(root: &Path, name: &str, found: &mut BTreeSet<String>) -> Result<()> {
    if !found.insert(name.to_owned()) {
        return Ok(());
    }
    let manifest = root.join("crates").join(name).join("Cargo.toml");
    let text =
        std::fs::read_to_string(&manifest).with_context(|| manifest.display().to_string())?;
    let manifest: toml::Table = toml::from_str(&text)?;
    let Some(dependencies) = manifest.get("dependencies").and_then(toml::Value::as_table) else {
        return Ok(());
    };
    for dependency in dependencies.keys() {
        let folder = dependency.strip_prefix("prairie-").unwrap_or(dependency);
        if root.join("crates").join(folder).join("Cargo.toml").exists() {
            with_dependencies(root, folder, found)?;
        }
    }
    Ok(())
}
