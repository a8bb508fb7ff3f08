//! Every Parquet file carries the block of provenance.
#![allow(missing_docs)]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{files_in, run, stderr, write_proc};

/// The key of the block in the footer of a file.
const KEY: &str = "prairie.provenance";

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in files_in(folder) {
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|ending| ending == "rs") => found.push(path),
            false => {}
        }
    }
}

/// `prairie-columns` gives each file the block, and nothing else makes Parquet files.
#[test]
fn whatever_writes_parquet_has_the_block() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for folder in files_in(&crates) {
        if folder.join("src").is_dir() {
            sources(&folder.join("src"), &mut files);
        }
    }
    let mut writers = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        // Tests within a file come last.
        let text = text.split("#[cfg(test)]").next().unwrap();
        if text.contains("SerializedFileWriter::new(") || text.contains("ArrowWriter::try_new") {
            writers.push((file, text.contains("prairie_provenance::pair()")));
        }
    }
    let [(file, true)] = &writers[..] else { panic!("writers of Parquet: {writers:?}") };
    assert!(file.ends_with("columns/src/lib.rs"), "{file:?}");
}

#[test]
fn files_of_commands_have_the_block() {
    let folder = tempfile::tempdir().unwrap();
    let free = "Node 0, zone   Normal 1 1 1 1 1 1 1 1 2 1 1\n";
    write_proc(folder.path(), &[("buddyinfo", free)]);
    let event = "  cc1-7 [001] .... 1.000001: mm_page_alloc: page=0x0 pfn=0x200 order=0 \
                 migratetype=1 gfp_flags=GFP_KERNEL\n";
    fs::write(folder.path().join("trace.txt"), event).unwrap();
    for (command, out) in [
        ("log run log --once --proc proc", "log"),
        ("survey --proc proc --save survey.parquet", "survey.parquet"),
        ("survey --proc proc --host h1 --summary rows.parquet", "rows.parquet"),
        ("import trace.txt -o trace.parquet", "trace.parquet"),
        ("heap driver --heap 4M --time 1s --out heap.parquet", "heap.parquet"),
        ("fleet run --out study --servers 1 --memory 128M --days 0.01 --workloads web", "study"),
    ] {
        let words: Vec<&str> = command.split(' ').collect();
        let output = run(folder.path(), &words);
        assert!(output.status.success(), "{command}: {}", stderr(&output));
        let out = folder.path().join(out);
        let files = if out.is_dir() { files_in(&out) } else { vec![out.clone()] };
        let is_parquet = |path: &&PathBuf| path.extension().is_some_and(|end| end == "parquet");
        let mut count = 0;
        for file in files.iter().filter(is_parquet) {
            let bytes = fs::read(file).unwrap();
            let found = bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes());
            assert!(found, "{command}: {}: no {KEY}", file.display());
            count += 1;
        }
        assert!(count > 0, "{command}: no Parquet file in {}", out.display());
    }
}

/// The seed is in the block also where the command line does not name one.
#[test]
fn the_block_names_seeds_that_were_not_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    write_proc(folder.path(), &[("buddyinfo", "Node 0, zone Normal 1 1 1 1 1 1 1 1 2 1 1\n")]);
    let output = run(folder.path(), &["log", "run", "log", "--once", "--proc", "proc"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let is_parquet = |path: &PathBuf| path.extension().is_some_and(|end| end == "parquet");
    let file = files_in(&folder.path().join("log")).into_iter().find(is_parquet).unwrap();
    let bytes = fs::read(file).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let (_, seed) = text.split_once("\"seed\":").expect("a seed");
    assert!(seed.starts_with(|first: char| first.is_ascii_digit()), "{:.20}", seed);

    let scenario = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/small.toml");
    let arguments = ["lab", "explain", scenario.to_str().unwrap(), "--json"];
    let output = run(folder.path(), &arguments);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["provenance"]["seed"], 3);
}
