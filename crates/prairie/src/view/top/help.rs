//! The keys.

use ratatui::text::{Line, Span};

use super::style::bold;

const KEYS: [(&str, &str); 14] = [
    ("F1 h ?", "this help"),
    ("F10 q Ctrl-C", "quit"),
    ("1 to 6", "choose a panel"),
    ("Tab Shift-Tab, left, right", "next or previous panel"),
    ("up, down, PgUp, PgDn", "scroll the panel"),
    ("Home End", "its first or last line"),
    ("F6 > s", "sort events by rate, or in the kernel's order"),
    ("Space p", "pause"),
    ("F5 r", "read now, page flags as well"),
    ("+ -", "longer or shorter interval"),
    ("", ""),
    ("t T", "in a log: next or previous sample"),
    ("j J", "in a log: an hour later or earlier"),
    ("", ""),
];

/// The help, as lines.
pub fn lines() -> Vec<Line<'static>> {
    let key = |(keys, what): &(&'static str, &'static str)| {
        Line::from(vec![bold(format!("  {keys:<28}")), Span::raw(*what)])
    };
    let about = "  m movable, U unmovable, ? unknown, . free. Guide: docs/src/guide/top.md";
    KEYS.iter().map(key).chain([Line::from(about)]).collect()
}
