//! Policies that replays run after the allocators of their own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::ensure;
use prairie_frames::placement::custom::Custom;
use prairie_model::allocator::Allocator;
use prairie_policy::Library;
use prairie_replay::run::{Faults, Guest};

/// The policies of shared libraries, and the others after them.
///
/// # Errors
/// If a library cannot be loaded, if two results would have one name, or if there is nothing to run.
pub fn all(
    systems: &[Allocator],
    libraries: &[PathBuf],
    others: Vec<Guest>,
) -> anyhow::Result<Vec<Guest>> {
    let libraries = libraries.iter().map(|path| library(path));
    let mut guests = libraries.collect::<anyhow::Result<Vec<_>>>()?;
    guests.extend(others);
    ensure!(
        !(systems.is_empty() && guests.is_empty()),
        "--systems none: nothing to replay, expected allocators or a --policy"
    );
    let mut names: Vec<&str> = systems.iter().map(Allocator::name).collect();
    for guest in &guests {
        ensure!(!names.contains(&guest.name.as_str()), "`{}` is named twice", guest.name);
        names.push(&guest.name);
    }
    Ok(guests)
}

/// A policy of a shared library.
fn library(path: &Path) -> anyhow::Result<Guest> {
    let library = Library::load(path)?;
    let faults = Arc::new(Faults::default());
    let (name, report) = (library.name().to_owned(), faults.clone());
    Ok(Guest {
        summary: library.summary().to_owned(),
        build: Box::new({
            let name = name.clone();
            move |layout| Box::new(Custom::new(layout, &name, library.policy(), report))
        }),
        name,
        stays: false,
        faults,
    })
}
