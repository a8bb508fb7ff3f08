//! The book's list of allocators is the registry's. `PRAIRIE_UPDATE_DOCS=1` rewrites it.

use prairie_frames::placement::linux::{Modeled, RULES};
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
            entry.not_modeled.to_owned(),
            places(entry.worlds),
        ]
    };
    let head = ["allocator", "what it is", "not modeled in replay", "runs in"];
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
    table(&["option", "effect", "of", "in"], rows.into_iter().map(row).collect())
}

fn rules() -> String {
    let row = |rule: &prairie_frames::placement::linux::Rule| {
        let validated = match (rule.modeled, rule.validated_by) {
            (Modeled::NotYet, _) => "not modeled",
            (_, "") => "none",
            (_, recordings) => recordings,
        };
        vec![
            rule.since.to_string(),
            rule.area.name().to_owned(),
            rule.what.to_owned(),
            rule.effect.to_owned(),
            format!("`{}`", rule.source),
            validated.to_owned(),
        ]
    };
    let head = ["since", "area", "rule", "for contiguity", "source", "validated by"];
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
