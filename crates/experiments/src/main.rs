//! Runs the commands behind the tables of the docs, and writes the tables.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use experiments::registry::{self, Class, Entry};
use experiments::run::{self, Runner};
use experiments::{check, extract, page, root};

/// Produce the tables of numbers in docs/.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// List results with their class and command
    List,
    /// Run results, store them in results/, and write them into the pages
    Run {
        /// Names; `heap-*` for all that begin so [default: all of class quick and minutes]
        names: Vec<String>,
        /// Run all of class long
        #[arg(long, conflicts_with = "names")]
        long: bool,
        /// Run only results older than their code
        #[arg(long)]
        stale: bool,
    },
    /// Store the table documents in a file that a script of bench/ wrote
    Import {
        /// File with one or more JSON documents
        file: PathBuf,
        /// The file is the output of these results' command
        #[arg(long = "as", value_name = "NAME")]
        names: Vec<String>,
    },
    /// Write stored results into the pages of docs/
    Render,
    /// Re-run quick deterministic results; compare results, pages and code
    Check {
        /// Compare pages and results only; run nothing
        #[arg(long)]
        pages: bool,
    },
}

fn main() -> Result<ExitCode> {
    match Arguments::parse().command {
        Task::List => list(),
        Task::Run { names, long, stale } => run_results(&names, long, stale),
        Task::Import { file, names } => import(&file, &names),
        Task::Render => render(),
        Task::Check { pages } => check_all(pages),
    }
}

fn list() -> Result<ExitCode> {
    for entry in registry::read(&root())?.values() {
        let class = format!("{:?}", entry.class).to_lowercase();
        println!("{:<32} {class:<8} {}", entry.name, entry.command.trim().replace('\n', " "));
    }
    Ok(ExitCode::SUCCESS)
}

fn run_results(names: &[String], long: bool, stale: bool) -> Result<ExitCode> {
    let root = root();
    let entries = registry::read(&root)?;
    let mut chosen = if names.is_empty() {
        entries.values().filter(|entry| (entry.class == Class::Long) == long).collect()
    } else {
        registry::chosen(&entries, names)?
    };
    if stale {
        let old = check::stale(&root, &entries)?;
        chosen.retain(|entry| old.iter().any(|line| line.starts_with(&format!("{}:", entry.name))));
    }
    let mut runner = Runner::new(&root);
    let mut failed = 0;
    for entry in chosen {
        match runner.run(entry).and_then(|stored| stored.write(&root).map(|()| stored.seconds)) {
            Ok(seconds) => println!("{}: {seconds} s", entry.name),
            Err(fault) => {
                failed += 1;
                eprintln!("{}: {fault:#}", entry.name);
            }
        }
    }
    render()?;
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn import(file: &PathBuf, names: &[String]) -> Result<ExitCode> {
    let root = root();
    let entries = registry::read(&root)?;
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let chosen = if names.is_empty() {
        let named = |entry: &&Entry| text.contains(&format!("\"{}\"", entry.name));
        entries.values().filter(named).collect()
    } else {
        registry::chosen(&entries, names)?
    };
    if chosen.is_empty() {
        bail!("{}: no document with a name of the registry", file.display());
    }
    for entry in chosen {
        let document = extract::document(entry, &text)?;
        run::stored(&root, entry, document)?.write(&root)?;
        println!("{}: stored", entry.name);
    }
    render()
}

fn render() -> Result<ExitCode> {
    let root = root();
    let results = check::results(&root, &registry::read(&root)?)?;
    let mut failed = false;
    for path in check::pages(&root)? {
        let text = std::fs::read_to_string(&path)?;
        match page::rendered(&text, &results) {
            Ok(rendered) if rendered != text => std::fs::write(&path, rendered)?,
            Ok(_) => {}
            Err(fault) => {
                failed = true;
                eprintln!("{}: {fault}", path.display());
            }
        }
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn check_all(pages: bool) -> Result<ExitCode> {
    let root = root();
    let entries = registry::read(&root)?;
    let mut faults = check::of_pages(&root, &entries)?;
    if !pages {
        faults.extend(check::repeat(&root, &entries)?);
    }
    let mut stale = check::stale(&root, &entries)?;
    if pages {
        stale.iter().for_each(|line| println!("warning: {line}"));
    } else {
        // What was repeated above is not old. One line, because the log of a failing CI may be cut.
        stale.retain(|line| {
            let name = line.split(':').next().unwrap_or_default();
            !check::is_repeated(&entries[name]) || line.ends_with("yet")
        });
        println!(
            "{} of {} results are not of this code; `experiments check --pages` lists them",
            stale.len(),
            entries.len()
        );
    }
    for fault in &faults {
        eprintln!("error: {fault}");
    }
    Ok(if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
