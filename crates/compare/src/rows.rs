//! A JSON document as named numbers.
//!
//! The name of a number is its path: `frames.polluted.polluted_share`. An entry of an array is found
//! again by a field that identifies it, not by its position, which differs between documents:
//! `zones[Normal].extent.free_frames`, `systems[linux].unusable`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Numbers by name.
pub type Rows = BTreeMap<String, f64>;

/// Fields that identify an entry among its fellows, the first that is there.
const IDENTITIES: [&str; 15] = [
    "system",
    "name",
    "class",
    "zone",
    "migrate_type",
    "path",
    "order",
    "workload",
    "what",
    "experiment",
    "page_bytes",
    "from_frames",
    "source",
    "victims",
    "parameter",
];

/// Fields that tell entries of the same identity apart.
const QUALIFIERS: [&str; 4] = ["method", "target", "per_second", "value"];

/// Fields that differ between any two documents and measure nothing.
const IGNORED: [&str; 10] = [
    "schema_version",
    "provenance",
    "taken_at_unix_ns",
    "uptime_seconds",
    "pid",
    "start_pfn",
    "seed",
    "cross_checks",
    "left_out",
    "at_unix_ns",
];

/// Arrays of bare numbers longer than this are courses over time, not measures.
const MAX_POSITIONS: usize = 32;

/// The field of an entry that is a moment of a course over time. The moments of two runs differ.
const MOMENT: &str = "time_ns";

/// The numbers of a document. A text that is a whole number counts, as a setting's value does; other
/// texts, truth values, and null do not.
pub fn rows(document: &Value) -> Rows {
    let mut rows = Rows::new();
    add(document, String::new(), &mut rows);
    rows
}

fn add(value: &Value, name: String, rows: &mut Rows) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields.iter().filter(|(key, _)| !IGNORED.contains(&key.as_str())) {
                let below = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                add(value, below, rows);
            }
        }
        Value::Array(entries) => add_entries(entries, &name, rows),
        Value::Number(number) => {
            if let Some(number) = number.as_f64().filter(|number| number.is_finite()) {
                rows.insert(name, number);
            }
        }
        Value::String(text) => {
            let is_number =
                !text.is_empty() && text.len() < 16 && text.bytes().all(|b| b.is_ascii_digit());
            if let (true, Ok(number)) = (is_number, text.parse()) {
                rows.insert(name, number);
            }
        }
        Value::Bool(_) | Value::Null => {}
    }
}

fn add_entries(entries: &[Value], name: &str, rows: &mut Rows) {
    if entries.iter().any(|entry| entry.get(MOMENT).is_some()) {
        return;
    }
    let mut identities: Vec<Option<String>> = entries.iter().map(identity).collect();
    let all_known = identities.iter().all(Option::is_some);
    if all_known && identities.iter().collect::<BTreeSet<_>>().len() < entries.len() {
        for (entry, identity) in entries.iter().zip(&mut identities) {
            *identity = identity.take().map(|identity| qualified(entry, identity));
        }
    }
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (at, (entry, identity)) in entries.iter().zip(&identities).enumerate() {
        match identity.as_deref().filter(|_| all_known) {
            Some(identity) => {
                // The second of the same name is `[name#2]`.
                let count = seen.entry(identity).or_insert(0);
                *count += 1;
                let nth = if *count > 1 { format!("#{count}") } else { String::new() };
                add(entry, format!("{name}[{identity}{nth}]"), rows);
            }
            None if entries.len() <= MAX_POSITIONS => add(entry, format!("{name}[{at}]"), rows),
            None => return,
        }
    }
}

/// An identity with all that tells entries of it apart.
fn qualified(entry: &Value, identity: String) -> String {
    let words = |value: &Value| match value {
        Value::Object(fields) if fields.len() == 1 => {
            let (key, value) = fields.iter().next()?;
            Some(format!("{key} {}", value.as_str()?))
        }
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let qualifiers = QUALIFIERS.iter().filter_map(|field| words(entry.get(*field)?));
    let all: Vec<String> = std::iter::once(identity).chain(qualifiers).collect();
    all.join(" ").replace(['[', ']'], "")
}

/// What identifies an entry, without characters that names of rows use.
fn identity(entry: &Value) -> Option<String> {
    let field = |key: &&str| {
        let text = match entry.get(*key)? {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        Some(text.replace(['[', ']'], ""))
    };
    let identity = IDENTITIES.iter().find_map(field)?;
    // Zones of several nodes have the same names.
    Some(match entry.get("node").and_then(Value::as_u64) {
        Some(node) if node > 0 => format!("{node}:{identity}"),
        _ => identity,
    })
}

/// Short names of rows that people ask for most, in a survey, a row of a fleet, and a log.
/// Contiguity is that of initialized memory.
pub const ALIASES: [(&str, &[&str]); 6] = [
    (
        "unusable",
        &[
            "free_lists.indices[9].unusable_free_space_index",
            "unusable_2_mib",
            "unusable_free_space_order_9",
        ],
    ),
    (
        "polluted",
        &[
            "frames.initialized.polluted_share",
            "frames.polluted.polluted_share",
            "polluted_min",
            "polluted_pageblocks_share",
        ],
    ),
    (
        "potential",
        &[
            "frames.initialized.potential_2_mib_min",
            "potential_2_mib_min",
            "potential_2m_if_unknown_unmovable_bytes",
        ],
    ),
    ("coverage", &["huge_pages.host.anonymous_coverage", "coverage"]),
    ("unmovable", &["frames.by_mobility.unmovable", "unmovable_min", "unmovable_bytes"]),
    ("free", &["free_lists.free_frames", "free_share", "free_bytes"]),
];

/// The rows that a short name stands for: an alias, a full name, or the end of full names, such as
/// `linux.unusable` for `systems[linux].unusable`.
pub fn named<'a>(names: impl Iterator<Item = &'a String> + Clone, wanted: &str) -> Vec<&'a String> {
    let exact = |full: &str| names.clone().find(|name| *name == full);
    let alias = ALIASES.iter().find(|(alias, _)| *alias == wanted);
    if let Some(found) = alias.and_then(|(_, full)| full.iter().find_map(|full| exact(full))) {
        return vec![found];
    }
    if let Some(found) = exact(wanted) {
        return vec![found];
    }
    let parts: Vec<&str> = segments(wanted);
    names.filter(|name| is_end(&segments(name), &parts)).collect()
}

/// A name cut at dots and brackets. A dot within brackets belongs to the identity.
fn segments(name: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut inside = false;
    for (at, byte) in name.bytes().enumerate() {
        let cuts = match byte {
            b'[' => true,
            b']' => true,
            b'.' => !inside,
            _ => false,
        };
        if cuts {
            parts.push(&name[start..at]);
            start = at + 1;
        }
        inside = match byte {
            b'[' => true,
            b']' => false,
            _ => inside,
        };
    }
    parts.push(&name[start..]);
    parts.retain(|part| !part.is_empty());
    parts
}

/// Whether `wanted` occurs in `full` in this order, and ends where it ends; `polluted` also ends
/// `polluted_share`.
fn is_end(full: &[&str], wanted: &[&str]) -> bool {
    let (Some((last, before)), Some((end, above))) = (wanted.split_last(), full.split_last())
    else {
        return false;
    };
    let ends = end == last || end.strip_suffix("_share") == Some(last);
    let mut above = above.iter();
    ends && before.iter().all(|part| above.any(|found| found == part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn document() -> Value {
        json!({
            "schema": "prairie-survey",
            "schema_version": 1,
            "taken_at_unix_ns": 5,
            "frames": {"polluted": {"polluted_share": 0.25, "exact": true}},
            "zones": [
                {"node": 0, "zone": "Normal", "free": 7},
                {"node": 1, "zone": "Normal", "free": 9},
            ],
            "settings": [{"path": "/proc/sys/vm/swappiness", "value": "60"}],
            "blocks": [1, 2],
            "course": vec![1; 100],
            "samples": [{"time_ns": 5, "free": 3, "zone": "Normal"}, {"time_ns": 9, "free": 4}],
            "nothing": null,
        })
    }

    #[test]
    fn numbers_have_names_that_find_them_again() {
        let rows = rows(&document());
        let expected = [
            ("blocks[0]", 1.0),
            ("blocks[1]", 2.0),
            ("frames.polluted.polluted_share", 0.25),
            ("settings[/proc/sys/vm/swappiness].value", 60.0),
            ("zones[1:Normal].free", 9.0),
            ("zones[1:Normal].node", 1.0),
            ("zones[Normal].free", 7.0),
            ("zones[Normal].node", 0.0),
        ];
        let found: Vec<(&str, f64)> = rows.iter().map(|(name, n)| (name.as_str(), *n)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn entries_of_the_same_identity_are_told_apart() {
        let entry = |method: Value, rate: f64| json!({"workload": "memcached", "method": method, "per_second": rate, "moved": 3});
        let hardware = json!({"hardware": "cacheable"});
        let document = json!({
            "rates": [entry(hardware.clone(), 10.0), entry(hardware, 20.0), entry(json!("none"), 10.0)],
            "once": [entry(json!("none"), 10.0)],
        });
        let names: Vec<String> =
            rows(&document).into_keys().filter(|name| name.ends_with("moved")).collect();
        assert_eq!(
            names,
            [
                "once[memcached].moved",
                "rates[memcached hardware cacheable 10.0].moved",
                "rates[memcached hardware cacheable 20.0].moved",
                "rates[memcached none 10.0].moved",
            ]
        );
    }

    #[test]
    fn short_names_find_rows() {
        let rows = rows(&document());
        let found = |wanted| {
            let names = named(rows.keys(), wanted);
            names.into_iter().map(String::as_str).collect::<Vec<_>>()
        };
        assert_eq!(found("polluted"), ["frames.polluted.polluted_share"]);
        // Of initialized memory, as the first screen and rows of hosts.
        let initialized = ["frames.initialized.polluted_share", "frames.polluted.polluted_share"]
            .map(str::to_owned);
        assert_eq!(named(initialized.iter(), "polluted"), [&initialized[0]]);
        assert_eq!(found("free"), ["zones[1:Normal].free", "zones[Normal].free"]);
        assert_eq!(found("Normal.free"), ["zones[Normal].free"]);
        assert_eq!(found("zones[Normal].free"), ["zones[Normal].free"]);
        assert_eq!(found("Movable.free"), [""; 0]);
        assert_eq!(found(""), [""; 0]);
    }

    #[test]
    fn entries_of_one_name_are_numbered() {
        let rows = rows(&json!([{"name": "a", "x": 1}, {"name": "a", "x": 2}]));
        let names: Vec<&String> = rows.keys().collect();
        assert_eq!(names, ["[a#2].x", "[a].x"]);
    }
}
