//! The pages of docs/ agree with results/, and no page has a table of numbers that no command
//! wrote.

use experiments::{check, registry, root};

#[test]
fn pages_show_the_stored_results_and_no_other_tables_of_numbers() {
    let root = root();
    let entries = registry::read(&root).expect("results/registry is readable");
    let faults = check::of_pages(&root, &entries).expect("docs/ and results/ are readable");
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_result_names_code_that_exists() {
    let root = root();
    let entries = registry::read(&root).expect("results/registry is readable");
    for entry in entries.values() {
        let hash = experiments::code::hash(&root, entry);
        assert!(hash.is_ok(), "{}: {:#}", entry.name, hash.unwrap_err());
        let depends = !entry.crates.is_empty() || !entry.files.is_empty();
        assert!(depends, "{}: name the crates or files that decide its values", entry.name);
    }
}

#[test]
fn the_summary_lists_every_page() {
    let book = root().join("docs/src");
    let summary = std::fs::read_to_string(book.join("SUMMARY.md")).expect("SUMMARY.md");
    for path in check::pages(&root()).expect("docs/ is readable") {
        let page = path.strip_prefix(&book).expect("a page of the book").to_string_lossy();
        let listed = page == "SUMMARY.md" || summary.contains(&format!("({page})"));
        assert!(listed, "docs/src/SUMMARY.md does not list {page}");
    }
}

/// What a reader of the tutorial on figures runs again, `experiments check` runs in `make test`.
#[test]
fn results_of_the_tutorial_are_repeated_by_check() {
    let page = std::fs::read_to_string(root().join("docs/src/tutorials/figure.md")).expect("page");
    let runs = page.lines().filter_map(|line| line.strip_prefix("target/quick/experiments run "));
    let names: Vec<String> = runs.flat_map(str::split_whitespace).map(str::to_owned).collect();
    assert!(!names.is_empty(), "the tutorial runs no result");
    let entries = registry::read(&root()).expect("results/registry is readable");
    for entry in registry::chosen(&entries, &names).expect("the registry has the names") {
        assert!(check::is_repeated(entry), "{} is not repeated", entry.name);
    }
}

/// The book has ARCHITECTURE.md as a page: links into the book stay links, and files of the source,
/// which the book does not contain, are named. `PRAIRIE_UPDATE_DOCS=1` rewrites the page.
#[test]
fn the_book_has_the_architecture() {
    let path = root().join("docs/src/internals/architecture.md");
    let source = std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let page = in_the_book(&source);
    if std::env::var_os("PRAIRIE_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).expect("docs/ is writable");
    }
    let current = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(page == current, "run PRAIRIE_UPDATE_DOCS=1 cargo test -p experiments --test docs");
}

/// A page at the root of the repository as one of `docs/src/internals/`.
fn in_the_book(text: &str) -> String {
    let mut page = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        page += before;
        let (words, target) = link.split_once("](").expect("only links have brackets");
        assert!(!words.contains('\n'), "brackets outside of a link, before {words:?}");
        let (target, after) = target.split_once(')').expect("a link ends");
        page += &match target.strip_prefix("docs/src/") {
            Some(in_book) => format!("[{words}](../{in_book})"),
            None => format!("`{target}`"),
        };
        rest = after;
    }
    page + rest
}
