//! Contiguitas's kernel beside its model: the demand that the kernel served, replayed under the
//! simulator's `contiguitas`, which begins with the same memory and the same border; and the same
//! demand under other allocators.
//!
//! ```text
//! kernel_model FOLDER...
//! ```
//!
//! Each folder is what one boot of `kernel/model` left: `trace.parquet`, a survey made after it
//! (`end.parquet`), and `samples` with a line a second of words such as
//! `at=31.5 border=262144 pgmigrate_success=12`.

mod boot;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use boot::{Boot, Potential, Side};
use experiments::document::Document;
use prairie_model::allocator::{Allocator, World};
use prairie_replay::replay::Initial;
use prairie_replay::run::{self, Options};

/// What serves the demand of the kernel in simulation.
const ALLOCATORS: &str = "linux@6.12,linux@6.12+regions,contiguitas,superpageblocks,linux-defrag";

fn main() -> Result<()> {
    let folders: Vec<String> = std::env::args().skip(1).collect();
    anyhow::ensure!(!folders.is_empty(), "expected FOLDER...");
    let read = |folder: &String| Boot::read(Path::new(folder)).with_context(|| folder.clone());
    let boots = folders.iter().map(read).collect::<Result<Vec<_>>>()?;
    let pairs = boots.iter().map(Boot::compare).collect::<Result<Vec<_>>>()?;
    let documents = [beside(&pairs), demand(&boots, &pairs)?];
    println!("{}", serde_json::to_string_pretty(&documents)?);
    Ok(())
}

/// The kernel beside its model, a pair of columns for each boot.
fn beside(pairs: &[[Side; 2]]) -> Document {
    let names: Vec<[String; 2]> = (1..=pairs.len())
        .map(|boot| [format!("boot {boot}, kernel"), format!("boot {boot}, model")])
        .collect();
    let names = names.iter().flatten().map(String::as_str);
    let columns: Vec<&str> = std::iter::once("").chain(names).collect();
    let mut document = Document::new("kernel-model", &columns, format!("{} boots", pairs.len()));
    let mut row = |name: &str, cell: &dyn Fn(&Side) -> String| {
        document.row(name, pairs.iter().flatten().map(cell).collect::<Vec<_>>());
    };
    for (part, name) in
        ["at the start", "after a quarter", "after half", "after three quarters", "at the end"]
            .iter()
            .enumerate()
    {
        let name = format!("unmovable region {name}, MiB");
        row(&name, &|side| whole(side.region[(side.region.len() - 1) * part / 4]));
    }
    row("at most, MiB", &|side| whole(side.region.iter().copied().fold(0.0, f64::max)));
    row("pageblocks up", &|side| whole(side.moves[0]));
    row("pageblocks down", &|side| whole(side.moves[1]));
    row("pages migrated, in the kernel by compaction, too", &|side| whole(side.pages_moved));
    row("requests that waited", &|side| whole(side.waits));
    for (size, name) in ["2 MiB", "32 MiB", "1 GiB"].iter().enumerate() {
        let name = format!("{name} blocks without an unmovable frame, MiB");
        row(&name, &|side| bounds(side.potential.blocks[size]));
    }
    row("unmovable memory, MiB", &|side| bounds(side.potential.unmovable));
    for (boot, [kernel, model]) in pairs.iter().enumerate() {
        let (boot, distance) = (boot + 1, mean_distance(&kernel.region, &model.region));
        document.note(format!(
            "In boot {boot} the regions of kernel and model differ by {distance:.1} MiB on average."
        ));
    }
    let kernels: Vec<&[f64]> = pairs.iter().map(|[kernel, _]| &kernel.region[..]).collect();
    if let Some(note) = spread(&kernels) {
        document.note(note);
    }
    document
}

/// How far the kernel's regions in two boots differ; nothing if there is one boot.
fn spread(kernels: &[&[f64]]) -> Option<String> {
    let pairs = (0..kernels.len()).flat_map(|one| (0..one).map(move |other| [one, other]));
    let distances = pairs.map(|pair| pair.map(|boot| kernels[boot]));
    let mut distances: Vec<f64> = distances.map(|[one, other]| mean_distance(one, other)).collect();
    distances.sort_by(f64::total_cmp);
    let (least, most, count) = (distances.first()?, distances.last()?, distances.len());
    Some(match count {
        1 => format!("The kernel's regions in the two boots differ by {least:.1} MiB on average."),
        _ => format!(
            "The kernel's regions in two boots differ by {least:.1} to {most:.1} MiB on average \
             ({count} pairs)."
        ),
    })
}

/// The kernel's demand under several allocators, which placed all memory in use again as they would
/// have since boot; a row for each, with the boots' results.
fn demand(boots: &[Boot], pairs: &[[Side; 2]]) -> Result<Document> {
    let columns = ["", "2 MiB blocks, MiB", "32 MiB blocks, MiB", "1 GiB blocks, MiB"];
    let mut document = Document::new("kernel-demand", &columns, format!("{} boots", boots.len()));
    let kernels: Vec<Potential> = pairs.iter().map(|[kernel, _]| kernel.potential).collect();
    document.row("Contiguitas in Linux 6.12, measured", cells(&kernels));
    let systems = Allocator::parse_list(ALLOCATORS, World::Replay)?;
    let results = boots.iter().map(|boot| replayed(boot, &systems)).collect::<Result<Vec<_>>>()?;
    for (at, system) in systems.iter().enumerate() {
        let of_boots: Vec<Potential> = results.iter().map(|of_boot| of_boot[at]).collect();
        document.row(format!("`{}`, simulated", system.name()), cells(&of_boots));
    }
    Ok(document)
}

/// What each allocator leaves of a boot's demand.
fn replayed(boot: &Boot, systems: &[Allocator]) -> Result<Vec<Potential>> {
    let options = Options {
        systems: systems.to_vec(),
        initial: Initial::Replaced,
        kernelcore: None,
        sample_every_ns: None,
        expected_ns: None,
        parallel: false,
        compact: false,
        reclaim: false,
    };
    let never = AtomicBool::new(false);
    let results = run::run(&boot.found, &mut boot.events(), &options, &mut |_| {}, &never)?;
    let last = |system: &run::SystemResult| {
        let sample = system.samples.last().context("no sample")?;
        let unmovable = [sample.unmovable_frames + sample.unknown_frames, sample.unmovable_frames];
        let (least, most) = (sample.potential_blocks_at_least, sample.potential_blocks);
        Ok(Potential::new(least, most, unmovable))
    };
    results.systems.iter().map(last).collect()
}

/// A cell for each size, with the values of the boots one after the other.
fn cells(boots: &[Potential]) -> [String; 3] {
    [0, 1, 2].map(|size| {
        let values = boots.iter().map(|boot| bounds(boot.blocks[size]));
        values.collect::<Vec<_>>().join(", ")
    })
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}

fn bounds([one, other]: [f64; 2]) -> String {
    let (least, most) = (one.min(other), one.max(other));
    if least == most { whole(least) } else { format!("{least:.0}–{most:.0}") }
}

fn mean_distance(one: &[f64], other: &[f64]) -> f64 {
    let count = one.len().min(other.len()).max(1) as f64;
    one.iter().zip(other).map(|(one, other)| (one - other).abs()).sum::<f64>() / count
}
