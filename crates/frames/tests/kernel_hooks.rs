//! The hooks of `kernel/patches`: what fails without each, as the patches, the cases of
//! `kernel/test`, and the page about them say.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The case that each patch of a folder names, by the patch's name.
fn named(folder: &str) -> BTreeMap<String, String> {
    let files = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "cocci"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap();
            let case = text.lines().find_map(|line| line.strip_prefix("// without: "));
            let case = case.unwrap_or_else(|| panic!("{name}: no line `// without:`"));
            (name, case.to_owned())
        })
        .collect()
}

#[test]
fn each_patch_names_a_case_that_exists() {
    let guest = read("kernel/tests/guest.sh");
    for folder in ["kernel/patches", "kernel/patches/6.12", "kernel/patches/6.1"] {
        let patches = named(folder);
        assert!(!patches.is_empty(), "{folder}: no patches");
        for (name, case) in patches {
            let is_case = guest.lines().any(|line| *line == format!("{case}() {{"));
            assert!(is_case || case == "build", "{name}: {case}: no case of kernel/tests/guest.sh");
        }
    }
}

#[test]
fn the_page_has_each_patch_of_6_12_with_its_case() {
    let mut patches = named("kernel/patches");
    patches.extend(named("kernel/patches/6.12"));
    let page = read("docs/src/results/tables/kernel-cases.md");
    let (_, table) = page.split_once("| without | case | what happens |\n").expect("a table");
    let rows: BTreeMap<String, String> = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| {
            let cells: Vec<&str> =
                line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
            (cells[1].to_owned(), cells[2].to_owned())
        })
        .collect();
    assert_eq!(rows, patches);
}
