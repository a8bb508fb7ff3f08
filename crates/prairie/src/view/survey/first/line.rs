//! Text in the columns of the first screen: cut, wrapped, or below.

use prairie_report::Terminal;
use prairie_report::table::wrap;

/// Columns of the screen.
pub const WIDTH: usize = 80;
/// Columns that text needs beside other text; with fewer it stands below.
const LEAST_ROOM: usize = 24;

/// `text` after `left`, which takes `columns`; below it where the terminal has too little room.
pub fn beside(left: &str, columns: usize, text: &str, terminal: Terminal) -> String {
    let is_narrow = terminal.width < WIDTH && terminal.width < columns + LEAST_ROOM;
    match is_narrow {
        true => format!("{}\n  {}", left.trim_end(), fit(text, 2, terminal)),
        false => left.to_owned() + &fit(text, columns, terminal),
    }
}

/// What stands in a line after `before` columns: cut at the end of a screen, wrapped where the
/// terminal is narrower.
pub fn fit(text: &str, before: usize, terminal: Terminal) -> String {
    let text = terminal.text(text);
    let room = terminal.width.saturating_sub(before);
    if text.chars().count() <= room {
        return text;
    }
    if terminal.width < WIDTH {
        return wrap(&text, terminal.width, &" ".repeat(before)).trim_start().to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(3)).collect();
    kept.trim_end().to_owned() + "..."
}
