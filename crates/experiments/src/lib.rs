//! The tables of measured numbers in `docs/`, each written by a command.
//!
//! `results/registry/*.toml` declares one entry per table ([`registry`]). [`run`] executes an
//! entry's command, [`extract`] takes the table out of its output, and [`stored`] keeps it as
//! `results/NAME.json` with the commit, the host and a hash of the code that it depends on
//! ([`code`]). [`page`] writes stored results into Markdown pages between markers, and [`numbers`]
//! finds tables of numbers outside markers. `results/README.md` describes the formats.

pub mod check;
pub mod code;
pub mod document;
pub mod extract;
pub mod form;
pub mod host;
pub mod load;
pub mod measure;
pub mod numbers;
pub mod page;
pub mod registry;
pub mod run;
pub mod stored;
pub mod table;

use std::path::{Path, PathBuf};

/// The repository's root: the folder above `crates/`, where commands run and paths begin.
pub fn root() -> PathBuf {
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    above.expect("crates/ stands in the root").to_owned()
}

/// All files below `folder`, sorted, so that their order is the same on every host.
pub fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
