//! The experiments, by name.

mod balance;
mod coldness;
mod devices;
mod judges;
mod savings;
mod sensitivity;
mod tax;
mod terms;
pub mod web;
pub mod workload;

use super::app::App;
use super::backend::{Backend, Ssd};
use super::container::{Container, ContainerParts};
use super::findings::Findings;
use super::kernel::Kernel;
use prairie_model::random::Random;

/// Real pages that a page of an application stands for: 64 KiB.
const REAL_PAGES: u32 = 16;

/// An experiment's name, and what it runs from a seed.
type Named = (&'static str, fn(u64) -> Findings);

/// All experiments, in the order of the paper.
const ALL: [Named; 11] = [
    ("figure-2", coldness::run),
    ("figure-9", savings::run),
    ("figure-10", tax::run),
    ("figure-11", web::run),
    ("figure-12", devices::run),
    ("agents", judges::run),
    ("phase-change", judges::run_change),
    ("zipf", judges::run_zipf),
    ("terms", terms::run),
    ("balance", balance::run),
    ("sensitivity", sensitivity::run),
];

/// The names of all experiments.
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name)
}

/// Runs the experiment of that name; `None` if there is none.
pub fn run(name: &str, seed: u64) -> Option<Findings> {
    let (name, run) = ALL.iter().find(|(known, _)| *known == name)?;
    Some(Findings { name, ..run(seed) })
}

/// An application of the given size in a container.
fn container(app: &App, backend: Backend, kernel: Kernel, seed: u64) -> Container {
    let mut random = Random::new(seed);
    let pages = (app.bytes / 4096 / u64::from(REAL_PAGES)) as usize;
    let made = ContainerParts {
        pages: app.pages(pages, &mut random),
        real_pages: REAL_PAGES,
        compression: app.compression,
        busy_tasks: app.busy_tasks,
        backend,
        disk: Ssd::fast(),
        swap_bytes: app.bytes,
        kernel,
    };
    Container::new(made, seed)
}
