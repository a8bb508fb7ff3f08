//! The files that processes read.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use prairie_model::random::Random;
use prairie_sim::machine::scenario::{FileSet, Scenario};

/// Files of one folder.
const PER_FOLDER: u32 = 200;

/// Where a file of a copy of a set is.
pub(crate) fn path(folder: &Path, set: &FileSet, copy: u32, number: u32) -> PathBuf {
    let place = format!("{}/{copy}/{}/{number}", set.name, number / PER_FOLDER);
    folder.join(place)
}

/// Makes all files of a scenario; the sizes depend on the scenario's seed.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn create(scenario: &Scenario, folder: &Path) -> Result<()> {
    let mut random = Random::new(scenario.seed);
    for set in &scenario.files {
        for copy in 0..set.copies {
            for number in 0..set.count {
                let file = path(folder, set, copy, number);
                if number % PER_FOLDER == 0 {
                    fs::create_dir_all(file.parent().unwrap_or(folder))?;
                }
                let bytes = set.size.sample(&mut random).max(1.0) as usize;
                fs::write(&file, vec![1; bytes]).with_context(|| file.display().to_string())?;
            }
        }
    }
    fs::create_dir_all(folder.join("written"))?;
    Ok(())
}
