//! A comparison as a report.

use std::collections::HashMap;

use prairie_compare::rows::ALIASES;
use prairie_compare::{Change, Comparison, Spread};
use prairie_observe::journal::KIND;
use prairie_report::{Block, Cell, Column, Report, Section, Table, Tone, number};

/// What is compared, and how much of it is shown.
pub struct Subject<'a> {
    /// The kind of documents.
    pub kind: &'a str,
    /// The files before and after.
    pub names: [&'a str; 2],
    /// Relative changes below this are left out.
    pub threshold: f64,
    /// Show all rows.
    pub all: bool,
    /// The command.
    pub generated_by: String,
}

/// Rows of the table of a report that is not asked for all.
const MAX_ROWS: usize = 40;

/// The whole report.
pub fn report(comparison: &Comparison, subject: Subject) -> Report {
    let of_log = subject.kind == KIND;
    let several = comparison.documents_before > 1 || comparison.documents_after > 1;
    let main_rows = main_rows(comparison);
    let is_main = |change: &Change| main_rows.contains(&change.name.as_str());
    let main: Vec<&Change> = comparison.changes.iter().filter(|change| is_main(change)).collect();
    let mut others: Vec<&Change> = comparison
        .changes
        .iter()
        .filter(|change| subject.all || is_shown(change, subject.threshold))
        .filter(|change| !is_main(change))
        .collect();
    let mut parts = 0;
    if !subject.all {
        let shown = main.iter().filter(|change| is_shown(change, subject.threshold)).chain(&others);
        let shown: HashMap<&str, &Change> =
            shown.map(|change| (change.name.as_str(), *change)).collect();
        let repeats = |part: &Change| {
            let whole = whole(&part.name).and_then(|whole| shown.get(whole));
            whole.is_some_and(|whole| is_nearly_all(part, whole))
        };
        let listed = others.len();
        others.retain(|change| !repeats(change));
        parts = listed - others.len();
        others.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    }
    let changed = others.len();
    if !subject.all {
        others.truncate(MAX_ROWS);
    }
    let mut sections = Vec::new();
    if !main.is_empty() {
        sections.push(Section {
            heading: "Main measures".to_owned(),
            blocks: vec![Block::Table(table(&main, short_name, several))],
            ..Section::default()
        });
    }
    let left = changed - others.len();
    let unchanged = comparison.changes.len() - comparison.changed().count();
    let mut note = format!("{} did not change.", number::counted(unchanged as u64, "row"));
    if left > 0 {
        note += &format!(
            " {} with smaller changes: --all shows them.",
            number::counted(left as u64, "row")
        );
    }
    if parts > 0 {
        note += &format!(
            " {} left out, because the machine's row changed alike: --all shows them.",
            match parts {
                1 => "1 zone's row is".to_owned(),
                parts => format!("{} zones' rows are", number::count(parts as u64)),
            }
        );
    }
    let heading = if subject.all { "Other rows" } else { "Other rows that changed" }.to_owned();
    let mut blocks = Vec::new();
    if !others.is_empty() {
        blocks.push(Block::Table(table(&others, str::to_owned, several)));
    }
    blocks.push(Block::Note(note));
    sections.push(Section { heading, intro: intro(several, of_log).to_owned(), blocks });
    let [before, after] = subject.names;
    let noun = if of_log { "row" } else { "document" };
    let documents = |count: usize| number::counted(count as u64, noun);
    Report {
        title: format!("Comparison of {before} and {after}"),
        subtitle: format!(
            "{}: {} before, {} after",
            subject.kind,
            documents(comparison.documents_before),
            documents(comparison.documents_after)
        ),
        generated_by: subject.generated_by,
        sections,
    }
}

const fn intro(several: bool, of_log: bool) -> &'static str {
    match several {
        true if of_log => {
            "Means of the rows on each side. The interval holds the difference of the means with 95 % \
             confidence (Welch, fewer measurements where neighboring rows are correlated). A change \
             exceeds the spread if the interval does not contain 0."
        }
        true => {
            "Means of each side. The interval holds the difference of the means with 95 % confidence \
             (Welch). A change exceeds the spread if the interval does not contain 0."
        }
        false => "One document on each side: nothing shows how much repeated runs differ.",
    }
}

/// The row that each short name stands for: the first of its full names that is there.
fn main_rows(comparison: &Comparison) -> Vec<&'static str> {
    let is_there = |name: &str| comparison.changes.iter().any(|change| change.name == name);
    let first = |names: &&[&'static str]| names.iter().copied().find(|name| is_there(name));
    ALIASES.iter().filter_map(|(_, names)| first(names)).collect()
}

/// The machine's row of which this zone's row is a part.
fn whole(name: &str) -> Option<&str> {
    name.strip_prefix("zones[")?.split_once("].").map(|(_, row)| row)
}

/// Whether a zone's change is that of the machine, within a tenth (*chosen*).
fn is_nearly_all(zone: &Change, machine: &Change) -> bool {
    match (zone.difference, machine.difference) {
        (Some(zone), Some(machine)) => (zone - machine).abs() <= machine.abs() / 10.0,
        (None, None) => true,
        _ => false,
    }
}

/// Whether a change is at least as large as the threshold, and beyond the spread where that is known.
fn is_shown(change: &Change, threshold: f64) -> bool {
    let is_large = match (change.difference, change.relative) {
        (Some(0.0), _) => false,
        (Some(_), Some(relative)) => relative.abs() >= threshold,
        _ => true,
    };
    is_large && change.exceeds_spread != Some(false)
}

/// Larger for changes that matter more: the relative change; rows of one side only come last.
fn weight(change: &Change) -> f64 {
    match (change.difference, change.relative) {
        (Some(_), Some(relative)) => relative.abs(),
        (Some(_), None) => f64::MAX,
        (None, _) => -1.0,
    }
}

fn table(changes: &[&Change], heading: fn(&str) -> String, several: bool) -> Table {
    let row = |change: &&Change| {
        let unit = Unit::of_row(change);
        let mean = |spread: &Option<Spread>| {
            spread.map_or(number::NONE.to_owned(), |spread| unit.text(spread.mean))
        };
        let mut row = vec![
            Cell::from(heading(&change.name)),
            mean(&change.before).into(),
            mean(&change.after).into(),
            change.difference.map_or(number::NONE.to_owned(), |d| unit.difference(d)).into(),
            Cell::toned(
                change.relative.map_or(number::NONE.to_owned(), |r| number::change(r, 1)),
                Tone::Strong,
            ),
        ];
        if several {
            row.push(
                change
                    .interval
                    .map_or(number::NONE.to_owned(), |interval| {
                        format!(
                            "{} to {}",
                            unit.difference(interval.low),
                            unit.difference(interval.high)
                        )
                    })
                    .into(),
            );
            row.push(match change.exceeds_spread {
                Some(true) => Cell::toned("yes", Tone::Strong),
                Some(false) => Cell::toned("no", Tone::Muted),
                None => number::NONE.into(),
            });
        }
        row
    };
    let mut columns = vec![
        Column::text("row"),
        Column::number("before"),
        Column::number("after"),
        Column::number("difference"),
        Column::number("change"),
    ];
    if several {
        columns.push(Column::number("95 % interval").with_unit("of the difference"));
        columns.push(Column::text("exceeds").with_unit("the spread"));
    }
    Table { columns, rows: changes.iter().map(row).collect(), ..Table::default() }
}

/// A main measure by its short name.
fn short_name(name: &str) -> String {
    let alias = ALIASES.iter().find(|(_, names)| names.contains(&name));
    alias.map_or(name.to_owned(), |(alias, _)| (*alias).to_owned())
}

/// What the number of a row counts, by its name.
#[derive(Clone, Copy, PartialEq)]
enum Unit {
    Bytes,
    Share,
    Nanoseconds,
    Frames,
    None,
}

impl Unit {
    fn of(name: &str) -> Unit {
        const SHARES: [&str; 8] = [
            "_share",
            "share_of_memory",
            "share_of_free",
            "coverage",
            "_index",
            "_min",
            "_max",
            "unusable_2_mib",
        ];
        let last = name.rsplit('.').next().unwrap_or_default();
        let ends = |endings: &[&str]| endings.iter().any(|ending| last.ends_with(ending));
        if ends(&["_bytes"]) || last == "bytes" {
            Unit::Bytes
        } else if ends(&SHARES) || last.starts_with("unusable_free_space_order_") {
            Unit::Share
        } else if ends(&["_ns"]) {
            Unit::Nanoseconds
        } else if ends(&["_frames"]) || last == "frames" || name.contains("frames.by_mobility.") {
            Unit::Frames
        } else {
            Unit::None
        }
    }
}

impl Unit {
    /// Of a row. The name of a number that is no share may end as those of shares do.
    fn of_row(change: &Change) -> Unit {
        let means = [change.before, change.after].into_iter().flatten().map(|spread| spread.mean);
        match Unit::of(&change.name) {
            Unit::Share if means.into_iter().any(|mean| mean.abs() > 1.0) => Unit::None,
            unit => unit,
        }
    }

    /// A value in this unit.
    fn text(self, value: f64) -> String {
        let sign = if value < 0.0 { "−" } else { "" };
        match self {
            Unit::Bytes => format!("{sign}{}", number::bytes(value.abs().round() as u64)),
            Unit::Share => number::percent(value),
            Unit::Nanoseconds => format!("{sign}{}", number::duration(value.abs().round() as u64)),
            Unit::Frames if value.abs() == 1.0 => format!("{} frame", plain(value)),
            Unit::Frames => format!("{} frames", plain(value)),
            Unit::None => plain(value),
        }
    }

    /// A difference with its sign; of shares, in percentage points.
    fn difference(self, difference: f64) -> String {
        let mut text = self.text(difference);
        if let Some(share) = text.strip_suffix('%').filter(|_| self == Unit::Share) {
            text = format!("{share}pp");
        }
        if difference > 0.0 { format!("+{text}") } else { text }
    }
}

/// A number without a unit.
fn plain(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e6 {
        let sign = if value < 0.0 { "−" } else { "" };
        format!("{sign}{}", number::count(value.abs() as u64))
    } else {
        number::short(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prairie_compare::rows::Rows;

    fn document(value: f64) -> Rows {
        let rows = [
            ("frames.polluted.polluted_share", value),
            ("huge_pages.host.anonymous_bytes", value * 1e9),
            ("tiny", 1.0 + value / 1e6),
            ("same", 1.0),
        ];
        rows.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn shown(comparison: &Comparison, all: bool) -> String {
        let subject = Subject {
            kind: "prairie-survey",
            names: ["a", "b"],
            threshold: 0.01,
            all,
            generated_by: String::new(),
        };
        report(comparison, subject).terminal(prairie_report::Terminal::PLAIN).unwrap()
    }

    #[test]
    fn changed_rows_are_shown_and_others_counted() {
        let comparison = Comparison::new(&[document(0.2)], &[document(0.3)]);
        let text = shown(&comparison, false);
        let line = text.lines().find(|line| line.starts_with("polluted")).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["polluted", "20.0", "%", "30.0", "%", "+10.0", "pp", "+50.0", "%"]);
        assert!(text.contains("+95.4 MiB") && !text.contains("tiny"), "{text}");
        assert!(text.contains("1 row did not change"), "{text}");
        assert!(shown(&comparison, true).contains("tiny"));
    }

    #[test]
    fn a_short_name_stands_for_one_row() {
        let document = |share: f64| -> Rows {
            let rows = [
                ("frames.initialized.polluted_share", share),
                ("frames.polluted.polluted_share", share / 2.0),
                ("frames.by_mobility.unmovable", share * 1000.0),
            ];
            rows.map(|(name, value)| (name.to_owned(), value)).into()
        };
        let text = shown(&Comparison::new(&[document(0.2)], &[document(0.3)]), false);
        let starts = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
        assert_eq!(starts("polluted "), 1, "{text}");
        assert_eq!(starts("frames.polluted.polluted_share"), 1, "{text}");
        assert!(text.contains("200 frames") && text.contains("+100 frames"), "{text}");
    }

    #[test]
    fn a_zone_s_row_is_left_out_beside_the_machine_s() {
        let document = |taken: f64, moved: f64| -> Rows {
            let rows = [
                ("free_lists.free_frames", 1000.0 - taken),
                ("zones[Normal].free_lists.free_frames", 900.0 - taken),
                ("frames.kernel", 100.0 + moved / 10.0),
                ("zones[Normal].frames.kernel", 50.0 - moved),
                ("zones[1:Normal].frames.kernel", 50.0 + moved * 1.1),
                ("frames.by_mobility.unmovable", 200.0),
                ("zones[Normal].frames.by_mobility.unmovable", 120.0 - moved),
                ("zones[1:Normal].frames.by_mobility.unmovable", 80.0 + moved),
            ];
            rows.map(|(name, value)| (name.to_owned(), value)).into()
        };
        let comparison = Comparison::new(&[document(0.0, 0.0)], &[document(100.0, 20.0)]);
        let text = shown(&comparison, false);
        let count = |name: &str| text.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!(count("free "), 1, "{text}");
        assert_eq!(count("zones[Normal].free_lists"), 0, "{text}");
        assert!(text.contains("1 zone's row is left out"), "{text}");
        // What moves between zones changes the machine's row little, or not at all.
        assert_eq!(count("zones[Normal].frames") + count("zones[1:Normal].frames"), 4, "{text}");
        assert!(shown(&comparison, true).contains("zones[Normal].free_lists"));
    }

    #[test]
    fn a_row_has_one_unit() {
        let document = |blocks: f64, factor: f64| -> Rows {
            let rows = [
                ("free_blocks_order_9", blocks),
                ("unusable_free_space_order_8", blocks / 8.0),
                ("factor_max", factor),
                ("left_frames", blocks),
            ];
            rows.map(|(name, value)| (name.to_owned(), value)).into()
        };
        let text = shown(&Comparison::new(&[document(1.0, 1.5)], &[document(2.0, 1.8)]), true);
        let cells = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .skip(1)
                .take(3)
                .collect()
        };
        let expected: [(&str, Vec<&str>); 4] = [
            ("free_blocks_order_9", vec!["1", "2", "+1"]),
            ("unusable_free_space_order_8", vec!["12.5 %", "25.0 %", "+12.5 pp"]),
            ("factor_max", vec!["1.50", "1.80", "+0.30"]),
            ("left_frames", vec!["1 frame", "2 frames", "+1 frame"]),
        ];
        for (name, row) in expected {
            let found: Vec<&str> = cells(name);
            assert_eq!(found, row, "{text}");
        }
    }

    #[test]
    fn several_documents_show_intervals() {
        let before: Vec<Rows> = [0.20, 0.21, 0.19].map(document).into();
        let after: Vec<Rows> = [0.30, 0.31, 0.29].map(document).into();
        let text = shown(&Comparison::new(&before, &after), false);
        assert!(text.contains("exceeds") && text.contains("yes"), "{text}");
    }
}
