//! Tables of numbers that no command wrote.

use crate::extract::cells;
use crate::page::marker;
use crate::table::is_number;

/// Marks of tables that hold no measurements of this repository, in the line above them.
const MARKS: [&str; 3] =
    ["<!-- constants", "<!-- from the paper", "<!-- measured outside this repository:"];

/// The first lines (counted from 1) of the page's tables of numbers outside markers.
///
/// A table is one of numbers if more than a third of its filled cells, without the heading and
/// the first column, begin with a number.
pub fn unmarked(page: &str) -> Vec<usize> {
    let lines: Vec<&str> = page.lines().map(str::trim).collect();
    let (mut found, mut at) = (Vec::new(), 0);
    let (mut generated, mut code) = (false, false);
    while at < lines.len() {
        let line = lines[at];
        code ^= line.starts_with("```");
        generated = generated && line != "<!-- end result -->" || marker(line).is_some();
        if code || !line.starts_with('|') {
            at += 1;
            continue;
        }
        let length = lines[at..].iter().take_while(|line| line.starts_with('|')).count();
        let above = lines[..at].iter().rev().find(|line| !line.is_empty()).unwrap_or(&"");
        let marked = MARKS.iter().any(|mark| above.starts_with(mark));
        if !generated && !marked && mostly_numbers(&lines[at..at + length]) {
            found.push(at + 1);
        }
        at += length;
    }
    found
}

fn mostly_numbers(table: &[&str]) -> bool {
    let values = table.iter().skip(2).flat_map(|line| cells(line).into_iter().skip(1));
    let filled: Vec<String> = values.filter(|cell| !cell.is_empty()).collect();
    let numbers = filled.iter().filter(|cell| is_number(cell)).count();
    numbers * 3 > filled.len()
}
