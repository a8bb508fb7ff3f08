//! What the tests of the library share.

#![allow(dead_code, reason = "no test program uses all of it")]

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

/// `libprairie_heap.so`, which Cargo has built beside this test.
pub fn library() -> PathBuf {
    let test = env::current_exe().expect("a test knows its own file");
    let library = test.with_file_name("libprairie_heap.so");
    assert!(library.exists(), "{} was not built", library.display());
    library
}

/// A program of `programs/`, compiled once.
pub fn compiled(source: &str, arguments: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let stem = source.file_stem().expect("a source has a name");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(stem);
    let fresh = program.with_extension(format!("{}", std::process::id()));
    let compiler = if source.extension().is_some_and(|end| end == "cpp") { "c++" } else { "cc" };
    let status = Command::new(compiler)
        .args(["-g", "-O1", "-w", "-o"])
        .arg(&fresh)
        .arg(&source)
        .args(arguments)
        .status()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(status.success(), "{compiler} {}", source.display());
    std::fs::rename(&fresh, &program).expect("a program can be renamed");
    program
}

pub fn traps() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("traps.c", &["-lpthread", "-ldl"]))
}

/// A command on the heap, under settings.
pub fn preloaded(program: impl AsRef<std::ffi::OsStr>, settings: &[(&str, &str)]) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library()).envs(settings.iter().copied()).stdin(Stdio::null());
    command
}

pub const NO_RSEQ: (&str, &str) = ("GLIBC_TUNABLES", "glibc.pthread.rseq=0");
/// Page heaps of two nodes that the machine need not have.
pub const TWO_NODES: (&str, &str) = ("PRAIRIE_HEAP_NUMA", "2");
pub const WAYS: [&[(&str, &str)]; 4] =
    [&[], &[NO_RSEQ], &[("PRAIRIE_PAGE_HEAP", "legacy")], &[TWO_NODES]];

pub fn messages(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a shell command with and without the library, if its first word is installed: the same
/// output, and the same status.
pub fn same_as_plain(command: &str) {
    let name = command.split_whitespace().next().expect("a command has a name");
    let installed = Command::new("sh").args(["-c", "command -v $0"]).arg(name).output().unwrap();
    if !installed.status.success() {
        prairie_testing::skip_without(name);
        return;
    }
    let plain = Command::new("sh").args(["-c", command]).stdin(Stdio::null()).output().unwrap();
    for settings in [WAYS[0], WAYS[1]] {
        let output = preloaded("sh", settings).args(["-c", command]).output().unwrap();
        assert_eq!(output.status.code(), plain.status.code(), "{command}: {}", messages(&output));
        let texts = [&output, &plain].map(|output| String::from_utf8_lossy(&output.stdout));
        assert_eq!(texts[0], texts[1], "{command}");
    }
}
