//! Where a result comes from: one block for every Parquet, JSON, and HTML output of a program.
//!
//! The block is a property of the process, as its arguments are, and therefore global: a program
//! calls [`describe`] once, and whatever writes a file asks for [`block`] or [`pair`]. Before that,
//! and in libraries that nothing described, there is none. A program that does the work of several,
//! as a module that Python calls, describes each as a [`Run`] instead.
#![forbid(unsafe_code)]

mod hash;

use std::cell::RefCell;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use serde::Serialize;

pub use hash::Input;

/// The key of the block in the metadata of a Parquet file. Its value is the block as JSON.
pub const KEY: &str = "prairie.provenance";

/// What a program knows of itself when it starts.
pub struct Program {
    /// Its name and arguments in one line, as by [`command_line`].
    pub command: String,
    /// Its version.
    pub version: String,
    /// The commit that it was built from; `None` if the build did not know it.
    pub commit: Option<String>,
    /// The files that it reads. They are hashed when the first output asks for the block.
    pub inputs: Vec<PathBuf>,
}

/// Where a result comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Provenance {
    /// The command line, quoted for a shell.
    pub command: String,
    /// The version of the program.
    pub version: String,
    /// The commit that the program was built from, with `-dirty` if files had changed since; null in
    /// debug builds and builds without git.
    pub commit: Option<String>,
    /// The host's name; null if it cannot be read.
    pub host: Option<String>,
    /// The release of the running kernel; null if it cannot be read.
    pub kernel: Option<String>,
    /// The regular files that were read.
    pub inputs: Vec<Input>,
    /// The random seed; null for a program that uses none.
    pub seed: Option<u64>,
}

/// A program's run. Clones are the same run.
#[derive(Clone)]
pub struct Run(Arc<Described>);

struct Described {
    program: Program,
    inputs: OnceLock<Vec<Input>>,
    seed: RwLock<Option<u64>>,
}

static PROCESS: OnceLock<Run> = OnceLock::new();

thread_local! {
    /// What this thread works for, where that is not the process.
    static WITHIN: RefCell<Option<Run>> = const { RefCell::new(None) };
}

impl Run {
    /// A run of a program.
    pub fn new(program: Program) -> Run {
        let (inputs, seed) = (OnceLock::new(), RwLock::new(None));
        Run(Arc::new(Described { program, inputs, seed }))
    }

    /// Works for this run: what the work writes on this thread carries the run's block.
    pub fn within<T>(&self, work: impl FnOnce() -> T) -> T {
        /// Puts back what was before, also after a panic.
        struct Before(Option<Run>);
        impl Drop for Before {
            fn drop(&mut self) {
                WITHIN.set(self.0.take());
            }
        }
        let _before = Before(WITHIN.replace(Some(self.clone())));
        work()
    }

    /// Its block. The first call reads the inputs.
    pub fn block(&self) -> Provenance {
        let Described { program, inputs, seed } = &*self.0;
        Provenance {
            command: program.command.clone(),
            version: program.version.clone(),
            commit: program.commit.clone(),
            host: kernel_text("hostname"),
            kernel: kernel_text("osrelease"),
            inputs: inputs.get_or_init(|| hash::inputs(&program.inputs)).clone(),
            seed: *seed.read().unwrap_or_else(PoisonError::into_inner),
        }
    }

    /// Sets its random seed.
    pub fn set_seed(&self, seed: u64) {
        *self.0.seed.write().unwrap_or_else(PoisonError::into_inner) = Some(seed);
    }

    /// The run that this thread works for.
    fn current() -> Option<Run> {
        WITHIN.with_borrow(Clone::clone).or_else(|| PROCESS.get().cloned())
    }
}

/// Describes the running program. Later calls change nothing.
pub fn describe(program: Program) {
    // The first description is that of the process; a second would describe the same.
    let _ = PROCESS.set(Run::new(program));
}

/// Sets the random seed of the run, also when the command line did not name it.
pub fn set_seed(seed: u64) {
    if let Some(run) = Run::current() {
        run.set_seed(seed);
    }
}

/// The block; `None` before [`describe`] and outside a [`Run`]. The first call reads the inputs.
pub fn block() -> Option<Provenance> {
    Run::current().map(|run| run.block())
}

/// The block as a pair for the metadata of a Parquet file: [`KEY`] and JSON.
pub fn pair() -> Option<(String, String)> {
    let json = serde_json::to_string(&block()?).expect("strings and numbers are valid JSON");
    Some((KEY.to_owned(), json))
}

fn kernel_text(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok()?;
    Some(text.trim_end().to_owned())
}

/// The arguments in one line that a shell reads as the same arguments.
pub fn command_line(arguments: &[OsString]) -> String {
    let quoted = |argument: &OsString| {
        let text = argument.to_string_lossy();
        let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,+%@^".contains(c);
        match !text.is_empty() && text.chars().all(is_plain) {
            true => text.into_owned(),
            false => format!("'{}'", text.replace('\'', r"'\''")),
        }
    };
    arguments.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_the_same_arguments() {
        let line =
            |words: &[&str]| command_line(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(line(&["prairie", "--every", "500ms"]), "prairie --every 500ms");
        assert_eq!(line(&["prairie", "a b", "", "it's"]), r"prairie 'a b' '' 'it'\''s'");
        assert_eq!(line(&["$(reboot)"]), "'$(reboot)'");
    }

    /// In one test, because the description is that of the process.
    #[test]
    fn the_block_has_every_part() {
        assert_eq!(pair(), None);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("input");
        fs::write(&path, "abc").unwrap();
        describe(Program {
            command: "prairie replay".into(),
            version: "1.2.3".into(),
            commit: Some("abc".into()),
            inputs: vec![path.clone(), directory.path().join("missing")],
        });
        assert_eq!(block().unwrap().seed, None);
        set_seed(0);
        let (key, json) = pair().unwrap();
        assert_eq!(key, KEY);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["version"], &json["seed"]), (&"1.2.3".into(), &0.into()));
        let input = &json["inputs"][0];
        assert_eq!(input["path"], path.to_str().unwrap());
        // FIPS 180-4's example.
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(input["sha256"], sha256);
        assert_eq!(json["inputs"].as_array().unwrap().len(), 1);

        let call = || Program {
            command: "replay()".into(),
            version: "1".into(),
            commit: None,
            inputs: Vec::new(),
        };
        let (outer, inner) = (Run::new(call()), Run::new(call()));
        outer.within(|| {
            assert_eq!(block().unwrap().seed, None);
            set_seed(1);
            inner.within(|| set_seed(2));
            let panics = std::panic::catch_unwind(|| inner.within(|| panic!("inside")));
            assert!(panics.is_err());
            assert_eq!(block().unwrap().seed, Some(1));
            let other = std::thread::spawn(|| block().unwrap().command).join().unwrap();
            assert_eq!(
                (block().unwrap().command.as_str(), other.as_str()),
                ("replay()", "prairie replay")
            );
        });
        assert_eq!(inner.block().seed, Some(2));
        assert_eq!(block().unwrap().seed, Some(0));
    }
}
