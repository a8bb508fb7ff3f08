//! Programs that link `libprairie_heap.a`, however it was built.
//!
//! The compiler decides which object of the archive a function or a static lies in, and the linker
//! takes only the objects that a program references. Each program must get the heap's entries in
//! `.init_array` and `.fini_array`, without which it has no handlers for fork.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::messages;

/// Settings that decide which object contains what: name, and options of Cargo. The archives share
/// one folder and its dependencies; fat LTO needs its own ones.
const BUILDS: [(&str, &[&str]); 3] = [
    ("1", &["profile.dev.codegen-units=1", "profile.dev.incremental=false"]),
    ("256", &["profile.dev.codegen-units=256", "profile.dev.incremental=true"]),
    ("lto", &["profile.dev.lto='fat'", "profile.dev.incremental=false"]),
];

/// Builds the archive in a folder of its own.
fn archive(name: &str, settings: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("archives");
    let cargo = std::env::var_os("CARGO").expect("Cargo runs the tests");
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--frozen", "--lib", "--config", "profile.dev.debug=0"]);
    // Dependencies contain nothing that is looked for here: the same ones serve all archives.
    command.args(["--config", "profile.dev.package.'*'.codegen-units=16"]);
    command.args(settings.iter().flat_map(|setting| ["--config", setting]));
    command.arg("--target-dir").arg(&folder).current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{name}: {}", messages(&output));
    let kept = folder.join(format!("libprairie_heap_{name}.a"));
    std::fs::copy(folder.join("debug/libprairie_heap.a"), &kept).unwrap();
    kept
}

/// Links a program that allocates by `call`, and runs it.
fn is_set_up(archive: &Path, call: &str, options: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/linked.c");
    let program = archive.with_extension("program");
    let (compiler, language) = if call.is_empty() { ("c++", "c++") } else { ("cc", "c") };
    let mut command = Command::new(compiler);
    command.args(["-O1", "-w", "-x", language]).args(options).arg("-o").arg(&program);
    if !call.is_empty() {
        command.arg(format!("-DALLOCATE={call}"));
    }
    command.arg(source).args(["-x", "none"]).arg(archive);
    let output = command.args(["-lpthread", "-ldl", "-lm"]).output().unwrap();
    assert!(output.status.success(), "{}", messages(&output));
    let settings = [("PRAIRIE_HEAP_RELEASE", "1M"), ("PRAIRIE_HEAP_STATS", "text")];
    let output = Command::new(&program).envs(settings).output().unwrap();
    let said = messages(&output);
    let case = format!("{} {call} {options:?}: {said}", archive.display());
    assert!(output.status.success(), "{case}");
    assert!(said.contains("2 threads"), "not set up at load: {case}");
    assert!(said.contains("page heap temeraire"), "no statistics at exit: {case}");
}

#[test]
fn programs_are_set_up_at_load_and_report_at_exit() {
    for (name, settings) in BUILDS {
        let archive = archive(name, settings);
        for call in ["malloc(100)", "calloc(1,100)", "aligned_alloc(64,128)", ""] {
            is_set_up(&archive, call, &["-ffunction-sections", "-Wl,--gc-sections"]);
        }
        is_set_up(&archive, "malloc(100)", &[]);
        // GCC names no built-in function in the symbols of its LTO objects, so the linker does not
        // look for malloc in an archive unless it is told to.
        is_set_up(&archive, "malloc(100)", &["-flto", "-Wl,-u,malloc"]);
    }
}
