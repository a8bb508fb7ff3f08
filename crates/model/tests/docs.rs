//! The book's list of allocators is the registry's. `PRAIRIE_UPDATE_DOCS=1` rewrites it.

use prairie_frames::placement::linux::{Evidence, Modeled, RULES, Rule};
use prairie_model::allocator::{ALLOCATORS, Switch, Worlds};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/concepts/allocators.md");
const VERSIONS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/concepts/linux-versions.md");

fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let head: Vec<String> = head.iter().map(|&name| name.to_owned()).collect();
    let rule = vec!["---".to_owned(); head.len()];
    line(&head) + &line(&rule) + &rows.iter().map(|row| line(row)).collect::<String>()
}

fn places(worlds: Worlds) -> String {
    let named = [(worlds.replay, "replay"), (worlds.fleet, "fleet"), (worlds.machine, "lab")];
    let names: Vec<&str> = named.iter().filter(|(runs, _)| *runs).map(|(_, name)| *name).collect();
    names.join(", ")
}

fn allocators() -> String {
    let row = |entry: &prairie_model::allocator::Entry| {
        vec![
            format!("`{}`", entry.name),
            entry.description.to_owned(),
            entry.purpose.to_owned(),
            if entry.not_modeled.is_empty() { "nothing" } else { entry.not_modeled }.to_owned(),
            places(entry.worlds),
        ]
    };
    let head = ["allocator", "policy", "choose it for", "never modeled in replay", "runs in"];
    table(&head, ALLOCATORS.iter().map(row).collect())
}

fn options() -> String {
    let mut rows: Vec<(&Switch, Vec<&str>)> = Vec::new();
    for entry in &ALLOCATORS {
        for switch in entry.switches() {
            match rows.iter_mut().find(|(known, _)| known.name == switch.name) {
                Some((_, allocators)) => allocators.push(entry.name),
                None => rows.push((switch, vec![entry.name])),
            }
        }
    }
    let row = |(switch, allocators): (&Switch, Vec<&str>)| {
        vec![
            format!("`+{}`", switch.usage()),
            switch.effect.to_owned(),
            allocators.join(", "),
            places(switch.worlds),
        ]
    };
    table(&["option", "effect", "allocators", "runs in"], rows.into_iter().map(row).collect())
}

/// Recordings and logs of a kernel, or else tests of the model or a reader.
fn evidence(rule: &Rule) -> String {
    let names = |shown: fn(&Evidence) -> Option<String>| {
        rule.validated_by.iter().filter_map(shown).collect::<Vec<_>>().join(", ")
    };
    let kernel = names(|evidence| match evidence {
        Evidence::Recording(name) | Evidence::KernelLog(name) => Some((*name).to_owned()),
        Evidence::PartlyRecorded { recording, shown } => Some(format!("{recording} ({shown})")),
        _ => None,
    });
    let tests = names(|evidence| match evidence {
        Evidence::ModelTest { name, .. } => Some((*name).to_owned()),
        _ => None,
    });
    match (rule.modeled, kernel.as_str(), tests.as_str()) {
        (Modeled::NotYet, ..) => "not modeled".to_owned(),
        (_, "", tests) => format!("no recording; test `{tests}`"),
        (_, kernel, "") => kernel.to_owned(),
        (_, kernel, tests) => format!("{kernel}; test `{tests}`"),
    }
}

fn rules() -> String {
    let row = |rule: &Rule| {
        vec![
            rule.since.to_string(),
            rule.area.name().to_owned(),
            rule.what.to_owned(),
            rule.effect.to_owned(),
            rule.commit.to_owned(),
            match rule.functions {
                "" => String::new(),
                functions => format!("`{}`", functions.replace(", ", "`, `")),
            },
            evidence(rule),
        ]
    };
    let head =
        ["since", "area", "change", "effect on contiguity", "commit", "functions", "validated by"];
    table(&head, RULES.iter().map(row).collect())
}

/// The page with what stands between the markers of `name` replaced.
fn with(page: &str, name: &str, text: &str) -> String {
    let begin = format!("<!-- generated: {name} -->\n");
    let (before, rest) = page.split_once(&begin).expect("the page has the marker");
    let end = "<!-- end generated -->";
    let (_, after) = rest.split_once(end).expect("the marker ends");
    format!("{before}{begin}{text}{end}{after}")
}

/// Rewrites the blocks of a page, or demands that they are current.
fn assert_current(path: &str, blocks: &[(&str, String)]) {
    let page = std::fs::read_to_string(path).unwrap();
    let current = blocks.iter().fold(page.clone(), |page, (name, text)| with(&page, name, text));
    if std::env::var_os("PRAIRIE_UPDATE_DOCS").is_some() {
        return std::fs::write(path, &current).unwrap();
    }
    assert!(page == current, "run PRAIRIE_UPDATE_DOCS=1 cargo test -p prairie-model --test docs");
}

#[test]
fn the_page_lists_the_registry() {
    assert_current(PAGE, &[("allocators", allocators()), ("options", options())]);
}

#[test]
fn the_page_lists_the_rules_of_linux() {
    assert_current(VERSIONS, &[("rules", rules())]);
}

#[test]
fn the_evidence_of_the_rules_exists() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for rule in &RULES {
        for evidence in rule.validated_by {
            let exists = match *evidence {
                Evidence::Recording(name) | Evidence::PartlyRecorded { recording: name, .. } => {
                    root.join(format!("data/{name}/trace.parquet")).exists()
                }
                Evidence::KernelLog(name) => {
                    root.join(format!("crates/host/tests/fixtures/kernel-logs/{name}.log")).exists()
                }
                Evidence::ModelTest { file, name } => std::fs::read_to_string(root.join(file))
                    .is_ok_and(|text| text.contains(&format!("fn {name}()"))),
                _ => false,
            };
            assert!(exists, "{}: {evidence:?}", rule.what);
        }
    }
}
