//! Advice as a table and in one line.

use prairie_host::advice::Advice;
use prairie_report::{Cell, Column, Table, Tone};

/// What to change, how, and why.
pub fn table(advice: &[Advice]) -> Table {
    let row = |advice: &Advice| {
        let subject = Cell::toned(advice.subject, Tone::Strong);
        vec![subject, advice.action.as_str().into(), advice.reason.as_str().into()]
    };
    Table::new(columns(), advice.iter().map(row).collect())
}

/// The same with the source of each rule.
pub fn table_with_sources(advice: &[Advice]) -> Table {
    let mut table = table(advice);
    table.columns.push(Column::text("source"));
    for (row, advice) in table.rows.iter_mut().zip(advice) {
        row.push(advice.source.into());
    }
    table
}

fn columns() -> Vec<Column> {
    ["what", "action", "reason"].map(Column::text).into()
}

/// Action and reason in at most `room` characters, as whole sentences: without room for both, the
/// action alone, and of that what is before the colon of its examples. A command's name already is
/// the action.
pub fn line(advice: &Advice, room: usize) -> String {
    let both = match advice.subject.starts_with("prairie ") {
        true => advice.reason.clone(),
        false => format!("{}; {}", advice.action, advice.reason),
    };
    let first_clause = advice.action.split(": ").next().unwrap_or_default();
    let fits = |text: &&str| text.chars().count() <= room;
    [&both, advice.action.as_str()].into_iter().find(fits).unwrap_or(first_clause).to_owned()
}
