//! Policies in shared libraries, as their authors meet them: the template is copied, built, and
//! replayed; and libraries that are wrong.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use common::{run, stderr, stdout};
use prairie_frames::placement::Request;
use prairie_frames::placement::custom::{Core, Custom, Policy};
use prairie_frames::{Mobility, Pfn};
use prairie_replay::run::{Faults, Guest};
use serde_json::Value;

fn recording() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/mixed.parquet");
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// A crate of the template in a new directory, with changes to its policy.
fn library(directory: &Path, name: &str, changes: &[(&str, &str)]) -> PathBuf {
    let made = run(directory, &["allocators", "new", name]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let folder = directory.join(name);
    for file in ["src/lib.rs", "src/abi.rs"] {
        let mut source = fs::read_to_string(folder.join(file)).unwrap();
        for (old, new) in changes {
            source = source.replace(old, new);
        }
        fs::write(folder.join(file), source).unwrap();
    }
    // One folder for all, so that what they share is built once.
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--offline"]).current_dir(&folder);
    cargo.env("CARGO_TARGET_DIR", directory.join("target"));
    // A profile for coverage or cross compilation of this workspace is none of the template's.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let built = cargo.output().unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
    // Changes may leave something unused.
    assert!(!changes.is_empty() || stderr(&built).is_empty(), "{}", stderr(&built));
    directory.join("target/debug").join(format!("lib{}.so", name.replace('-', "_")))
}

/// The example of the template as a policy of this process.
#[derive(Default)]
struct Confine {
    kernel: Vec<usize>,
}

impl Policy for Confine {
    fn boot(&mut self, core: &mut Core) -> Result<(), String> {
        for region in 0..core.regions().len() {
            let (start, end) = (core.regions()[region].start, core.regions()[region].end);
            let frames = u64::from(end.0 - start.0);
            if frames >= 8192 {
                let border = core.layout().pfn(start).0 + frames / 4 * 3;
                self.kernel.push(core.divide(region, Pfn(border)).map_err(|fault| fault.0)?);
            }
        }
        Ok(())
    }

    fn allocate(&mut self, core: &mut Core, request: &Request) -> Result<Option<Pfn>, String> {
        let unmovable = request.mobility == Mobility::Unmovable;
        let mut regions = core.regions_for(request);
        regions.sort_by_key(|region| self.kernel.contains(region) != unmovable);
        for region in regions {
            let taken = core.take_block(request.order, Some(region), 0, None);
            if let Some(block) = taken.map_err(|fault| fault.0)? {
                return Ok(Some(block));
            }
        }
        Ok(None)
    }
}

fn confine() -> Guest {
    let faults = Arc::new(Faults::default());
    let report = faults.clone();
    Guest {
        name: "confine".to_owned(),
        summary: "unmovable memory in the upper quarter of each zone".to_owned(),
        build: Box::new(move |layout| {
            Box::new(Custom::new(layout, "confine", Confine::default(), report))
        }),
        stays: false,
        faults,
    }
}

#[test]
fn the_template_is_replayed_beside_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let library = library(directory.path(), "my-policy", &[]);
    let arguments = ["replay", &recording(), "--systems", "buddy", "--json", "--policy"];
    let output = run(directory.path(), &[&arguments[..], &[library.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let replay: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let names: Vec<&Value> =
        replay["systems"].as_array().unwrap().iter().map(|system| &system["system"]).collect();
    assert_eq!(names, ["buddy", "confine"]);
    let failed = &replay["systems"][1]["counts"]["failed_allocations"];
    assert_eq!(failed, &replay["systems"][0]["counts"]["failed_allocations"]);

    // The same policy in this process gives the same document, to the last bit.
    let words = ["prairie", "replay", &recording(), "--systems", "buddy"];
    let asking = prairie::Asking {
        interrupted: &false.into(),
        guests: vec![confine()],
        called_as: String::new(),
        progress: prairie::Progress::default(),
    };
    let answer = prairie::ask(words.map(Into::into).to_vec(), asking).unwrap().answer;
    assert!(answer.stopped_after.is_none());
    assert_eq!(results(&answer.document), results(&stdout(&output)));
}

/// A document without the block at its end that says where it comes from.
fn results(document: &str) -> &str {
    let (results, block) = document.split_once("\n  \"provenance\": {").expect("a block");
    assert!(block.contains("\"sha256\""), "{block}");
    results
}

#[test]
fn libraries_that_are_wrong_are_refused_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let fails = |library: &str| {
        let arguments = ["replay", &recording(), "--systems", "none", "--policy", library];
        let output = run(directory.path(), &arguments);
        assert_eq!(output.status.code(), Some(1), "{library}");
        assert_eq!(stdout(&output), "", "{library}");
        let text = stderr(&output);
        assert_eq!(text.lines().count(), 1, "{text}");
        text.trim_end().to_owned()
    };
    fs::write(directory.path().join("text.so"), "no library").unwrap();
    let text = fails("text.so");
    assert!(text.starts_with("prairie: cannot load text.so: "), "{text}");
    let version =
        library(directory.path(), "version", &[("VERSION: u32 = 1;", "VERSION: u32 = 7;")]);
    let text = fails(version.to_str().unwrap());
    assert!(text.ends_with("libversion.so: policy interface 7, expected 1"), "{text}");

    const TAKE: &str = "core.take_block(request.order, Some(region))?";
    for (name, answer, expected) in [
        ("forges", "Some(5u64)", "returned frame 0x5: "),
        ("panics", "{ if region < 99 { panic!(\"no\\nway\") } None }", ": panicked at src/lib.rs:"),
        (
            "refuses",
            "{ return Err(\"not today\".to_owned()); #[allow(unreachable_code)] None }",
            "not today",
        ),
    ] {
        let library = library(directory.path(), name, &[(TAKE, answer)]);
        let text = fails(library.to_str().unwrap());
        let text = text.lines().last().unwrap();
        assert!(text.starts_with("prairie: policy confine: allocate(order "), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_template_is_not_written_over_anything() {
    let directory = tempfile::tempdir().unwrap();
    for (folder, expected) in [
        ("taken", "prairie: cannot make the folder taken: "),
        ("1st", "prairie: 1st: `1st` cannot be a crate's name, expected letters"),
        ("missing/mine", "prairie: cannot make the folder missing/mine: "),
    ] {
        fs::create_dir_all(directory.path().join("taken")).unwrap();
        let output = run(directory.path(), &["allocators", "new", folder]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).starts_with(expected), "{}", stderr(&output));
    }
}
