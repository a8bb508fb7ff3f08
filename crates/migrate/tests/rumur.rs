//! The protocol a second time, by hand, in Murphi: Rumur counts the same states, and finds a
//! injected bug that is built in. Skipped where `rumur` (Debian has it) or a C compiler is missing.

use std::path::Path;
use std::process::Command;

use prairie_migrate::check::{Layer, Result, Shape, safety};
use prairie_migrate::checker::search::Limits;
use prairie_migrate::protocol::design::Design;

const MODEL: &str = include_str!("../murphi/contiguitas.m");

fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        prairie_testing::skip_without(program);
    }
    found
}

/// What Rumur says of a model, and whether it found no error.
fn rumur(model: &str, directory: &Path) -> (String, bool) {
    let at = |name| directory.join(name);
    std::fs::write(at("model.m"), model).unwrap();
    let mut generate = Command::new("rumur");
    generate.args(["--deadlock-detection", "off", "--threads", "1", "--colour", "off"]);
    generate.arg("--output").arg(at("model.c")).arg(at("model.m"));
    assert!(generate.status().unwrap().success(), "Rumur understands the model");
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-march=native", "-std=c11", "-o"]).arg(at("model")).arg(at("model.c"));
    compile.arg("-lpthread");
    if cfg!(target_arch = "x86_64") {
        compile.arg("-mcx16");
    }
    assert!(compile.status().unwrap().success(), "what Rumur generates is C");
    let output = Command::new(at("model")).output().unwrap();
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
}

#[test]
fn rumur_counts_the_same_states_and_finds_a_mistake() {
    if !is_there("rumur") || !is_there("cc") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (said, fine) = rumur(MODEL, directory.path());
    assert!(fine, "{said}");
    let shape = Shape { cores: 2, devices: 1, lines: 1 };
    let design = Design { symmetry: false, ..Design::default() };
    let ours = safety(Layer::Transaction, shape, design, Limits::default(), &mut |_| true).unwrap();
    assert_eq!(ours.result, Result::Holds);
    assert!(
        said.contains(&format!("{} states", ours.states)),
        "{} states here: {said}",
        ours.states
    );

    // A victim under the name that it was cached by.
    let mistake =
        MODEL.replace("memory[home(f)] := victim_fresh[c];", "memory[f] := victim_fresh[c];");
    assert_ne!(mistake, MODEL);
    let (said, fine) = rumur(&mistake, directory.path());
    assert!(!fine, "{said}");
}
