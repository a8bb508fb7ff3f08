//! No command replaces a file that it reads, or writes two outputs into one file, however the
//! files are named.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;

use common::{files_in, prairie, run, stderr};

/// Each pair of file arguments of each command, one of them an output. `A` becomes the file beside
/// the command, `B` every other name of it.
const PAIRS: [(&str, &str); 42] = [
    ("survey --html A --save B", "a.png"),
    ("survey --html A --map B", "a.png"),
    ("survey --map A --save B", "a.png"),
    ("survey --from A --html B", "a.png"),
    ("survey --from A --map B", "a.png"),
    ("survey --proc folder --html B", "folder/buddyinfo"),
    ("survey --proc folder --save B", "folder/net/stat"),
    ("record --output A -- ./B", "a.png"),
    ("replay A --out B", "a.png"),
    ("replay A --html B", "a.png"),
    ("replay trace --out A --html B", "a.png"),
    ("replay A --against folder --html B", "a.png"),
    ("replay trace --against folder --html B", "folder/boot.pagetypeinfo"),
    ("sources A --html B", "a.png"),
    ("import A --output B", "a.png"),
    ("lab run A --out B", "a.png"),
    ("lab run A --html B", "a.png"),
    ("lab run scenario --out A --html B", "a.png"),
    ("lab explain A --picture B", "a.png"),
    ("lab explain A --html B", "a.png"),
    ("lab explain scenario --picture A --html B", "a.png"),
    ("fleet report folder --html B", "folder/a.parquet"),
    ("fleet run --out folder --workloads B", "folder/part-00000-of-00001.parquet"),
    ("migrate sim A --html B", "a.png"),
    ("migrate sim --trace A --html B", "a.png"),
    ("migrate paper A --html B", "a.png"),
    ("migrate paper --pictures folder --html B", "folder/entries.svg"),
    ("migrate paper --pictures folder B", "folder/nginx-tail.png"),
    ("heap driver --sizes A --out B", "a.png"),
    ("heap driver --load A --out B", "a.png"),
    ("heap driver --load A --html B", "a.png"),
    ("heap driver --out A --html B", "a.png"),
    ("heap playback A --html B", "a.png"),
    ("heap run --trace A --profile B -- true", "a.png"),
    ("heap run --trace A --stats json:B -- true", "a.png"),
    ("heap run --profile A --stats text:B -- true", "a.png"),
    ("heap run --library A --trace B -- true", "a.png"),
    ("heap run --library A --profile B -- true", "a.png"),
    ("heap run --library A --stats json:B -- true", "a.png"),
    ("heap run --trace A -- ./B", "a.png"),
    ("heap run --profile A -- ./B", "a.png"),
    ("offload run --dry-run --config B", "leases.toml"),
];

/// Of them those of two outputs, which need not exist yet.
const OUTPUTS: [&str; 10] = [
    "survey --html A --save B",
    "survey --html A --map B",
    "survey --map A --save B",
    "replay trace --out A --html B",
    "lab run scenario --out A --html B",
    "lab explain scenario --picture A --html B",
    "heap driver --out A --html B",
    "heap run --trace A --profile B -- true",
    "heap run --trace A --stats json:B -- true",
    "heap run --profile A --stats text:B -- true",
];

#[test]
fn a_file_that_exists_is_not_replaced_under_any_name() {
    for (command, file) in PAIRS {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        fs::create_dir_all(root.join("folder/net")).unwrap();
        fs::create_dir(root.join("sub")).unwrap();
        let path = root.join(file);
        // As a configuration of the daemon it names itself as the record of leases.
        let config = "[daemon]\nleases = \"leases.toml\"\n[[rule]]\ncgroups = [\"a.slice\"]\n";
        fs::write(&path, config).unwrap();
        let ending = path.extension().map_or(String::new(), |e| format!(".{}", e.display()));
        fs::hard_link(&path, root.join(format!("hard{ending}"))).unwrap();
        symlink(&path, root.join(format!("soft{ending}"))).unwrap();
        let mut names = vec![
            file.to_owned(),
            format!("./{file}"),
            format!("sub/../{file}"),
            path.display().to_string(),
            format!("soft{ending}"),
        ];
        // Only the files that stand in a tree are known as the tree's.
        if !command.contains("--proc") {
            names.push(format!("hard{ending}"));
        }
        for name in names {
            is_refused(root, command, file, &name);
        }
    }
}

#[test]
fn two_outputs_that_do_not_exist_yet_are_not_one_file() {
    for command in OUTPUTS {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        symlink("new.png", dir.path().join("soft.png")).unwrap();
        symlink("..", dir.path().join("sub/up")).unwrap();
        for name in ["new.png", "./new.png", "sub/../new.png", "soft.png", "sub/up/new.png"] {
            is_refused(dir.path(), command, "new.png", name);
        }
    }
}

#[test]
fn standard_output_counts_as_an_output() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["survey --json --html out", "replay trace --json --out ./out"] {
        let arguments: Vec<&str> = command.split(' ').collect();
        let mut command = prairie(dir.path(), &arguments);
        let output = command.stdout(File::create(dir.path().join("out")).unwrap());
        let output = output.output().unwrap();
        let said = stderr(&output);
        assert!(said.contains("same file as standard output"), "{command:?}: {said}");
        assert_eq!(output.status.code(), Some(1));
    }
}

/// Runs `command` with `A` and `B` replaced: it must fail and leave every file as it was.
fn is_refused(root: &Path, command: &str, file: &str, name: &str) {
    let before = contents(root);
    let word = |word: &str| match word {
        "A" => file.to_owned(),
        // An absolute name stays one: `.//tmp/a` is no other name of `/tmp/a`.
        "./B" => root.join(name).display().to_string(),
        word => word.replace('B', name),
    };
    let arguments: Vec<String> = command.split(' ').map(word).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = run(root, &arguments);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    assert!(said.contains(": same file as "), "{arguments:?}: {said}");
    assert!(said.ends_with(", expected another file\n"), "{arguments:?}: {said}");
    assert_eq!(contents(root), before, "{arguments:?}");
}

fn contents(root: &Path) -> Vec<(String, Option<Vec<u8>>)> {
    let read = |path: std::path::PathBuf| (path.display().to_string(), fs::read(path).ok());
    files_in(root).into_iter().map(read).collect()
}
