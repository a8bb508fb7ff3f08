//! Plays a scenario of `prairie lab run` on the kernel that runs: real processes take memory, read
//! and write files, and end, as the scenario's simulated ones do. `vm/lab` runs it in a guest.
//!
//! ```text
//! play_scenario files SCENARIO FOLDER          makes the files that processes read
//! play_scenario run SCENARIO FOLDER SEED       plays the first phase; prints the results
//! ```
//!
//! What the scenario calls CPU time is slept, one slice for each CPU of the scenario at a time, so
//! that an emulated machine spends its time on memory alone.

mod files;
mod process;
mod schedule;
mod settings;
mod stream;

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use prairie_sim::machine::scenario::{self, Scenario};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["files", file, folder] => files::create(&read(file)?, Path::new(folder)),
        ["run", file, folder, seed] => {
            let scenario = read(file)?;
            settings::apply(&scenario.vm)?;
            let played = schedule::play(&scenario, file, Path::new(folder), seed.parse()?)?;
            println!("{}", serde_json::to_string_pretty(&played)?);
            Ok(())
        }
        ["process", file, folder, kind, number, seed] => {
            let (kind, number) = (kind.parse()?, number.parse()?);
            process::run(&read(file)?, Path::new(folder), kind, number, seed.parse()?)
        }
        _ => bail!("expected `files SCENARIO FOLDER` or `run SCENARIO FOLDER SEED`"),
    }
}

/// A scenario that can be played.
fn read(file: &str) -> Result<Scenario> {
    let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    let scenario = scenario::parse(&text).with_context(|| file.to_owned())?;
    ensure!(scenario.phases.len() == 1, "{file}: only scenarios of one phase can be played");
    for kind in &scenario.kernel {
        let plain = kind.order == 0 && kind.used_as == scenario::KernelUse::Unmovable;
        ensure!(plain, "{file}: kernel `{}`: only single unmovable pages can be played", kind.name);
    }
    Ok(scenario)
}
