//! Extraction, rendering, and the rule for tables of numbers.

use std::collections::BTreeMap;

use experiments::host::{History, Host};
use experiments::registry::Entry;
use experiments::run::stored;
use experiments::stored::Stored;
use experiments::{code, extract, numbers, page};

/// An entry with the given lines of TOML besides the required ones.
fn entry(lines: &str) -> Entry {
    let required =
        "name = 'one'\ntitle = 'One'\ncommand = 'true'\nclass = 'quick'\ndeterministic = true\n";
    toml::from_str(&format!("{required}{lines}")).expect("a valid entry")
}

fn rows(entry: &Entry, output: &str) -> Vec<Vec<String>> {
    let document = extract::document(entry, output).expect("a table");
    let text = experiments::table::text;
    document.rows.iter().map(|row| row.iter().map(text).collect()).collect()
}

const MARKDOWN: &str = "first\n| a | b |\n|---|---|\n| x | 1 |\n\n## second\n| a | b | c |\n| - | - | - |\n| x | 2 | 3 |\n| y | 4 | a\\|b |\n";

#[test]
fn markdown_tables_are_found_by_the_line_above_or_by_number() {
    let second = [vec!["x", "2", "3"], vec!["y", "4", "a|b"]];
    assert_eq!(rows(&entry("from = { form = 'markdown', after = 'second' }"), MARKDOWN), second);
    assert_eq!(rows(&entry("from = { form = 'markdown', skip = 1 }"), MARKDOWN), second);
    assert_eq!(rows(&entry("from = { form = 'markdown' }"), MARKDOWN), [["x", "1"]]);
    let missing = extract::document(&entry("from = { form = 'markdown', skip = 2 }"), MARKDOWN);
    assert!(missing.unwrap_err().to_string().contains("no Markdown table"));
}

#[test]
fn columns_and_rows_are_selected_renamed_and_joined() {
    let lines = "from = { form = 'markdown', skip = 1 }\nselect = ['a', 'c']\nrows = ['y', 'x']\n\
        rename = { c = 'ours' }\nrelabel = { y = 'why' }\n\
        [[beside]]\ncolumn = 'paper'\nat = 1\nvalues = { why = '7' }\n";
    let document = extract::document(&entry(lines), MARKDOWN).expect("a table");
    let headings: Vec<String> = document.columns.iter().map(|column| column.heading()).collect();
    assert_eq!(headings, ["a", "paper", "ours"]);
    assert_eq!(rows(&entry(lines), MARKDOWN), [["why", "7", "a|b"], ["x", "", "3"]]);
    let wrong = lines.replace("why = '7'", "z = '7'");
    assert!(extract::document(&entry(&wrong), MARKDOWN).is_err(), "a label that no row has");
}

#[test]
fn rows_become_columns() {
    let lines = "from = { form = 'markdown', skip = 1 }\ntranspose = true";
    assert_eq!(rows(&entry(lines), MARKDOWN), [["b", "2", "4"], ["c", "3", "a|b"]]);
}

#[test]
fn lines_of_words_are_rows() {
    let output = "head\nname   order   ns\none two      1      2.5\nshort      7\n\ntail  1  2\n";
    let lines = "[from]\nform = 'words'\nafter = 'head'\nuntil = 'tail'\nseparator = '   '\nleast = 2\n\
        words = [{ name = 'who', at = 0 }, { name = 'time', unit = 'ns', at = -1 }]";
    let expected = [["name", "ns"], ["one two", "2.5"], ["short", "7"]];
    assert_eq!(rows(&entry(lines), output), expected);
}

#[test]
fn json_rows_are_found_by_paths_in_every_document() {
    let lines = "[from]\nform = 'json'\nrows = '/systems/*'\nfields = [\
        { name = 'system', at = '#' }, { name = 'share', unit = '%', at = '/share', scale = 100, digits = 1 },\
        { name = 'seed', at = '^/seed' }]";
    let output = "{\"seed\": 1, \"systems\": {\"a\": {\"share\": 0.5}, \"b\": {\"share\": 0.25}}}\n\
        {\"seed\": 2, \"systems\": {\"a\": {\"share\": 0.125}}}";
    let expected = [["a", "50.0", "1"], ["b", "25.0", "1"], ["a", "12.5", "2"]];
    assert_eq!(rows(&entry(lines), output), expected);
    let wrong = lines.replace("/share'", "/sahre'");
    let fault = extract::document(&entry(&wrong), output).unwrap_err().to_string();
    assert!(fault.contains("/sahre"), "{fault}");
}

#[test]
fn documents_are_found_by_name_and_validated() {
    let lines = "from = { form = 'table' }";
    let one = r#"{"name": "one", "columns": [{"name": "a"}], "rows": [[1]]}"#;
    let other = one.replace("one", "other");
    assert_eq!(rows(&entry(lines), &format!("[{other}, {one}]")), [["1"]]);
    assert!(extract::document(&entry(lines), &other).is_err(), "another result's document");
    let short = one.replace("[[1]]", "[[1, 2]]");
    assert!(extract::document(&entry(lines), &short).is_err(), "a row with too many values");
}

fn example() -> Stored {
    let root = experiments::root();
    let mut entry = entry("from = { form = 'markdown', skip = 1 }\nfiles = ['Cargo.toml']");
    entry.notes = vec!["A remark.".to_owned()];
    let document = extract::document(&entry, MARKDOWN).expect("a table");
    stored(&root, &entry, document).expect("a result")
}

#[test]
fn pages_get_the_table_and_its_source_between_markers() {
    let results = BTreeMap::from([("one".to_owned(), example())]);
    let blank = "# Page\n\n<!-- result: one -->\nold\n<!-- end result -->\n\nrest\n";
    let written = page::rendered(blank, &results).expect("a page");
    assert!(written.contains("| a | b | c |\n| --- | ---: | --- |\n| x | 2 | 3 |\n"), "{written}");
    assert!(written.contains("A remark.\n\n<sub>`true`; commit "), "{written}");
    assert!(written.ends_with("<!-- end result -->\n\nrest\n"), "{written}");
    assert_eq!(page::rendered(&written, &results).expect("a page"), written, "writing twice");
    assert!(numbers::unmarked(&written).is_empty());
    assert!(page::rendered(&blank.replace("one", "two"), &results).is_err(), "no such result");
    assert!(page::rendered("<!-- result: one -->\n", &results).is_err(), "no end");
}

#[test]
fn results_of_one_run_name_their_source_once() {
    let one = example();
    let two = Stored { name: "two".to_owned(), ..one.clone() };
    let three = Stored { name: "three".to_owned(), command: "false".to_owned(), ..one.clone() };
    let results = [one, two, three].map(|stored| (stored.name.clone(), stored));
    let page: String = results
        .iter()
        .map(|(name, _)| format!("<!-- result: {name} -->\n<!-- end result -->\n"))
        .collect();
    let written = page::rendered(&page, &BTreeMap::from(results)).expect("a page");
    let sources: Vec<_> = written.lines().filter(|line| line.starts_with("<sub>")).collect();
    assert!(sources[0].starts_with("<sub>`true`; commit "), "{written}");
    assert_eq!(sources[1], "<sub>from the run of the result above</sub>");
    assert!(sources[2].starts_with("<sub>`false`; commit "), "{written}");
}

#[test]
fn a_single_round_has_no_spread() {
    let spread = |rounds: &str| {
        let mut stored = Stored { rounds: rounds.to_owned(), ..example() };
        stored.rows[0][1] = "2.5 ± 0 %".into();
        let results = BTreeMap::from([("one".to_owned(), stored)]);
        page::rendered("<!-- result: one -->\n<!-- end result -->\n", &results).expect("a page")
    };
    let once = spread("1, interleaved; medians ± half the range");
    assert!(once.contains("| 2.5 |") && once.contains("rounds: 1, interleaved; commit"), "{once}");
    let often = spread("11, interleaved; medians ± half the range");
    assert!(often.contains("| 2.5 ± 0 % |") && often.contains("± half the range"), "{often}");
}

#[test]
fn stored_results_survive_their_file() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("results")).expect("results/");
    let mut stored = example();
    stored.host = Host { cpu: "a \"b\"".to_owned(), ..stored.host };
    stored.write(folder.path()).expect("written");
    let read = Stored::read(folder.path(), "one").expect("readable");
    assert_eq!(read, Some(stored));
}

#[test]
fn tables_of_numbers_are_found_unless_marked() {
    let numbers = "| a | b |\n|---|---|\n| x | 1.5 % |\n| y | **2** |\n";
    let words =
        "| a | b |\n|---|---|\n| `--x` | 2 of them |\n| y | none |\n| z | all |\n| w | few |\n";
    assert_eq!(numbers::unmarked(&format!("text\n\n{numbers}\n{words}")), [3]);
    for mark in [
        "<!-- constants -->",
        "<!-- from the paper -->",
        "<!-- measured outside this repository: X -->",
    ] {
        assert!(numbers::unmarked(&format!("{mark}\n\n{numbers}")).is_empty(), "{mark}");
    }
    assert!(numbers::unmarked(&format!("```\n{numbers}```\n")).is_empty(), "an example in a guide");
}

#[test]
fn hashes_follow_code_but_not_comments() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, text).expect("written");
    };
    write("crates/top/Cargo.toml", "[dependencies]\nprairie-below.workspace = true\n");
    write("crates/top/src/lib.rs", "fn one() {}\n");
    write("crates/below/Cargo.toml", "[package]\n");
    write("crates/below/src/lib.rs", "fn two() {}\n");
    let entry = entry("from = { form = 'table' }\ncrates = ['top']");
    let hash = || code::hash(folder.path(), &entry).expect("a hash");
    let first = hash();
    write("crates/top/src/lib.rs", "//! Says more.\n\nfn one() {}\n");
    write("crates/top/tests/one.rs", "fn test() {}\n");
    assert_eq!(hash(), first);
    write("crates/below/src/lib.rs", "fn two() { one() }\n");
    assert_ne!(hash(), first);
}

#[test]
fn a_commit_that_was_rebased_away_is_not_in_the_history() {
    let folder = tempfile::tempdir().expect("a folder");
    assert!(History::of(folder.path()).has("0123456789"), "outside a repository nothing is known");
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@localhost"];
        let mut command = std::process::Command::new("git");
        let output = command.arg("-C").arg(folder.path()).args(identity).args(arguments).output();
        let output = output.expect("git runs");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    git(&["init", "--quiet"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "first"]);
    let kept = git(&["rev-parse", "--short=10", "HEAD"]);
    git(&["commit", "--quiet", "--allow-empty", "--message", "second"]);
    let lost = git(&["rev-parse", "--short=10", "HEAD"]);
    git(&["reset", "--quiet", "--hard", kept.trim()]);
    let history = History::of(folder.path());
    assert!(history.has(kept.trim()) && history.has(&format!("{}+", kept.trim())));
    assert!(!history.has(lost.trim()));
}
