//! Probes that the recorded kernel refused, and what a recording without them leaves open.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context;

/// What each probe of `vm/record` reports.
const PROBES: [(&str, &str); 14] = [
    ("prairie_bulk", "what is allocated in bulk"),
    ("prairie_bulked", "what is allocated in bulk"),
    ("prairie_limits", "when settings change the limits of per-CPU lists"),
    ("prairie_fraction", "when settings change the limits of per-CPU lists"),
    ("prairie_decay", "when the limits of per-CPU lists decay"),
    ("prairie_listed", "when freed blocks arrive on per-CPU lists"),
    ("prairie_passed", "when freed blocks arrive on per-CPU lists"),
    ("prairie_isolate", "what compaction takes from the free lists"),
    ("prairie_isolated", "what compaction takes from the free lists"),
    ("prairie_pageblock", "when a pageblock changes its type"),
    ("prairie_offline", "which memory goes offline"),
    ("prairie_isolation", "which memory goes offline"),
    ("prairie_removed", "which memory goes offline"),
    ("prairie_offlined", "which memory goes offline"),
];

/// What is not known of a recording, from the file `refused` of its folder: the definitions of the
/// probes, one a line.
pub fn left_open(folder: &Path) -> anyhow::Result<Vec<&'static str>> {
    let path = folder.join("refused");
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text =
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut open = BTreeSet::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        open.insert(reported(line).with_context(|| {
            format!("{}: {line:?}, expected a probe of vm/record", path.display())
        })?);
    }
    Ok(open.into_iter().collect())
}

/// What the probe reports that a line defines, such as `p:prairie_bulk alloc_pages_bulk_noprof`.
fn reported(line: &str) -> Option<&'static str> {
    let (_, name) = line.split_whitespace().next()?.split_once(':')?;
    PROBES.iter().find(|(probe, _)| *probe == name).map(|(_, reports)| *reports)
}
