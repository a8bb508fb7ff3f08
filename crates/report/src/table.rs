//! Tables, for the terminal and for a page.

use comfy_table::{
    Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, LineStyle, TableStyle,
};
use unicode_width::UnicodeWidthStr;

use crate::terminal::{Colors, Terminal};

/// No frame: a rule under the header is all that a table needs.
const RULED: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Rows under named columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// A title; may be empty.
    pub title: String,
    /// The columns, from the left.
    pub columns: Vec<Column>,
    /// The rows. A row shorter than the columns is filled up with empty cells; what is beyond the
    /// last column is not shown.
    pub rows: Vec<Vec<Cell>>,
    /// Remarks below the table.
    pub notes: Vec<String>,
}

/// One column.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Column {
    /// What stands above it.
    pub heading: String,
    /// The unit of its numbers, if the cells do not say it themselves; else empty.
    pub unit: String,
    /// Where its cells are aligned.
    pub align: Align,
}

/// Where text is aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Align {
    /// Text: at the left.
    #[default]
    Left,
    /// Numbers: at the right.
    Right,
}

/// One cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// How it is said.
    pub tone: Tone,
}

/// The weight of a text. Color never stands alone: the text says the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// As all others.
    #[default]
    Plain,
    /// Bold: totals, and what the reader looks for.
    Strong,
    /// Better than the others.
    Good,
    /// Worse than the others.
    Bad,
    /// Of less weight.
    Muted,
}

impl Column {
    /// A text column, aligned left.
    pub fn text(heading: impl Into<String>) -> Column {
        Column { heading: heading.into(), ..Column::default() }
    }

    /// A column of numbers, at the right.
    pub fn number(heading: impl Into<String>) -> Column {
        Column { heading: heading.into(), align: Align::Right, ..Column::default() }
    }

    /// The same column with a unit under its heading.
    pub fn with_unit(self, unit: impl Into<String>) -> Column {
        Column { unit: unit.into(), ..self }
    }
}

impl Cell {
    /// A cell with a tone.
    pub fn toned(text: impl Into<String>, tone: Tone) -> Cell {
        Cell { text: text.into(), tone }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, tone: Tone::Plain }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::from(text.to_owned())
    }
}

impl Table {
    /// A table without title and notes.
    pub fn new(columns: Vec<Column>, rows: Vec<Vec<Cell>>) -> Table {
        Table { columns, rows, ..Table::default() }
    }

    /// The cells of `row`, one for each column.
    pub(crate) fn cells<'a>(&'a self, row: &'a [Cell]) -> impl Iterator<Item = (&'a Column, Cell)> {
        self.columns
            .iter()
            .enumerate()
            .map(|(i, column)| (column, row.get(i).cloned().unwrap_or_default()))
    }

    /// The table as lines of text, at most `terminal.width` wide; long texts wrap.
    ///
    /// Ends with a line feed. Control characters in cells are shown, never sent to the terminal.
    pub fn terminal(&self, terminal: Terminal) -> String {
        let mut out = String::new();
        if !self.title.is_empty() {
            out.push_str(&emphasis(
                &wrap(&terminal.text(&self.title), terminal.width, ""),
                terminal,
            ));
            out.push('\n');
        }
        if !self.columns.is_empty() {
            for line in self.grid(terminal).lines() {
                out.push_str(line.trim_end());
                out.push('\n');
            }
        }
        for note in &self.notes {
            out.push_str(&muted(&wrap(&terminal.text(note), terminal.width, "  "), terminal));
            out.push('\n');
        }
        out
    }

    fn grid(&self, terminal: Terminal) -> String {
        let Some(widths) = self.widths(terminal) else { return self.stacked(terminal) };
        let mut grid = comfy_table::Table::new();
        grid.load_style(RULED);
        grid.set_content_arrangement(ContentArrangement::Dynamic);
        grid.set_width(terminal.width.min(usize::from(u16::MAX)) as u16);
        match terminal.colors {
            Colors::None => grid.force_no_tty(),
            Colors::Indexed | Colors::True => grid.enforce_styling(),
        };
        let header = self.columns.iter().map(|column| {
            let text = match column.unit.is_empty() {
                true => terminal.text(&column.heading),
                false => {
                    format!("{}\n{}", terminal.text(&column.heading), terminal.text(&column.unit))
                }
            };
            comfy_table::Cell::new(text).add_attribute(Attribute::Bold)
        });
        grid.set_header(header);
        for row in &self.rows {
            let cells = self.cells(row).zip(&widths);
            grid.add_row(cells.map(|((_, cell), width)| styled(&cell, *width, terminal)));
        }
        for ((column, width), shown) in self.columns.iter().zip(&widths).zip(grid.column_iter_mut())
        {
            // The column of the rule's junctions is the second space.
            shown.set_padding((0, 1));
            let width = comfy_table::Width::Fixed((width + 1).min(usize::from(u16::MAX)) as u16);
            shown.set_constraint(ColumnConstraint::Absolute(width));
            shown.set_cell_alignment(match column.align {
                Align::Left => CellAlignment::Left,
                Align::Right => CellAlignment::Right,
            });
        }
        terminal.drawn(grid.to_string())
    }

    /// The width of each column, so that no number and no short word is broken; `None` if they do
    /// not fit side by side.
    fn widths(&self, terminal: Terminal) -> Option<Vec<usize>> {
        let (least, most): (Vec<usize>, Vec<usize>) =
            (0..self.columns.len()).map(|at| self.least_and_most(at, terminal)).unzip();
        let mut widths = least;
        let used = |widths: &[usize]| widths.iter().map(|width| width + PADDING).sum::<usize>();
        let mut room = (terminal.width + 1).checked_sub(used(&widths))?;
        // The remaining width goes to the narrowest column that still wraps.
        while room > 0 {
            let wanting = (0..widths.len()).filter(|&at| widths[at] < most[at]);
            let Some(narrowest) = wanting.min_by_key(|&at| widths[at]) else { break };
            widths[narrowest] += 1;
            room -= 1;
        }
        Some(widths)
    }

    /// How wide a column must be, and how wide it is when nothing in it wraps.
    fn least_and_most(&self, at: usize, terminal: Terminal) -> (usize, usize) {
        let column = &self.columns[at];
        let longest_word =
            |text: &str| text.split_whitespace().map(UnicodeWidthStr::width).max().unwrap_or(0);
        let longest_line = |text: &str| text.lines().map(UnicodeWidthStr::width).max().unwrap_or(0);
        let heads = [&column.heading, &column.unit].map(|text| {
            let text = terminal.text(text);
            (longest_word(&text), longest_line(&text))
        });
        let cells = self.rows.iter().filter_map(|row| row.get(at)).map(|cell| {
            let text = terminal.text(&cell.text);
            match column.align {
                Align::Right => (longest_line(&text), longest_line(&text)),
                Align::Left => (longest_word(&text).min(WORD), longest_line(&text)),
            }
        });
        cells
            .chain(heads)
            .fold((1, 1), |(least, most), (word, line)| (least.max(word), most.max(line)))
    }

    /// If the columns do not fit side by side: each row as a list of its cells, below its first.
    fn stacked(&self, terminal: Terminal) -> String {
        let mut out = String::new();
        for row in &self.rows {
            let mut cells = self.cells(row);
            if let Some((_, name)) = cells.next() {
                let name = wrap(&terminal.text(&name.text), terminal.width, "");
                out.push_str(&emphasis(&name, terminal));
                out.push('\n');
            }
            for (column, cell) in cells.filter(|(_, cell)| !cell.text.is_empty()) {
                let unit = match column.unit.is_empty() {
                    true => String::new(),
                    false => format!(", {}", column.unit),
                };
                let line = match column.heading.is_empty() {
                    true => cell.text.clone(),
                    false => format!("{}{unit}: {}", column.heading, cell.text),
                };
                let line = wrap(&terminal.text(&line), terminal.width, "  ");
                out.push_str(&line);
                out.push('\n');
            }
        }
        out
    }
}

/// Columns between two columns.
const PADDING: usize = 2;

/// A longer word may be broken, so that one path does not stack a whole table.
const WORD: usize = 24;

fn styled(cell: &Cell, width: usize, terminal: Terminal) -> comfy_table::Cell {
    let shown = comfy_table::Cell::new(broken_at_signs(&terminal.text(&cell.text), width));
    match cell.tone {
        Tone::Plain => shown,
        Tone::Strong => shown.add_attribute(Attribute::Bold),
        Tone::Good => shown.fg(Color::Green),
        Tone::Bad => shown.fg(Color::Red),
        Tone::Muted => shown.fg(Color::DarkGrey),
    }
}

/// Text in bold, where the terminal has it.
pub fn emphasis(text: &str, terminal: Terminal) -> String {
    paint(text, "1", terminal)
}

/// Faint text, where the terminal has it.
pub fn muted(text: &str, terminal: Terminal) -> String {
    paint(text, "2", terminal)
}

/// Text with a tone, where the terminal has colors.
pub fn toned(text: &str, tone: Tone, terminal: Terminal) -> String {
    match tone {
        Tone::Plain => text.to_owned(),
        Tone::Strong => emphasis(text, terminal),
        Tone::Good => paint(text, "32", terminal),
        Tone::Bad => paint(text, "31", terminal),
        Tone::Muted => muted(text, terminal),
    }
}

fn paint(text: &str, sgr: &str, terminal: Terminal) -> String {
    match terminal.colors {
        Colors::None => text.to_owned(),
        Colors::Indexed | Colors::True => format!("\x1b[{sgr}m{text}\x1b[0m"),
    }
}

/// The text with words that are wider than `width` broken behind signs, as names of fields and files
/// have them, so that no syllable is.
fn broken_at_signs(text: &str, width: usize) -> String {
    if text.split_whitespace().all(|word| word.width() <= width) {
        return text.to_owned();
    }
    let (mut out, mut column) = (String::new(), 0);
    for piece in text.split_inclusive(|sign: char| " \n._/:-]".contains(sign)) {
        if column > 0 && column + piece.trim_end().width() > width {
            out.push('\n');
            column = 0;
        }
        out.push_str(piece);
        column = if piece.ends_with('\n') { 0 } else { column + piece.width() };
    }
    out
}

/// Breaks `text` at spaces into lines of at most `width` columns, each begun with `indent`. A word
/// longer than a line is not broken.
pub fn wrap(text: &str, width: usize, indent: &str) -> String {
    let mut out = String::new();
    for (i, paragraph) in text.lines().enumerate() {
        if i > 0 {
            out.push('\n');
        }
        let mut column = 0;
        for word in paragraph.split(' ').filter(|word| !word.is_empty()) {
            let needed = word.width() + usize::from(column > 0);
            if column > 0 && column + needed > width {
                out.push('\n');
                column = 0;
            }
            if column == 0 {
                out.push_str(indent);
                column = indent.width();
            } else {
                out.push(' ');
                column += 1;
            }
            out.push_str(word);
            column += word.width();
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        Table {
            title: "Free blocks".into(),
            columns: vec![
                Column::text("zone"),
                Column::number("free").with_unit("GiB"),
                Column::text("remark"),
            ],
            rows: vec![
                vec!["DMA32".into(), "2.9".into(), "whole".into()],
                vec![
                    Cell::toned("Normal", Tone::Strong),
                    "17.42".into(),
                    Cell::toned("broken", Tone::Bad),
                ],
                vec!["Movable".into()],
            ],
            notes: vec!["Counted once.".into()],
        }
    }

    #[test]
    fn plain_tables_align_numbers_at_the_right_and_hold_no_escapes() {
        let expected = "\
Free blocks
zone      free  remark
           GiB
-----------------------
DMA32      2.9  whole
Normal   17.42  broken
Movable
  Counted once.
";
        assert_eq!(sample().terminal(Terminal::PLAIN), expected);
    }

    #[test]
    fn color_is_used_where_the_terminal_has_it() {
        let colored =
            sample().terminal(Terminal { width: 80, colors: Colors::Indexed, ..Terminal::PLAIN });
        assert!(colored.contains("\x1b["));
    }

    #[test]
    fn long_texts_wrap_within_the_width() {
        let mut table = sample();
        table.rows[0][2] = "a remark that goes on for longer than a narrow window is wide".into();
        table.notes = vec!["a note that also goes on beyond the edge of a narrow window".into()];
        let text = table.terminal(Terminal { width: 40, ..Terminal::PLAIN });
        assert!(text.lines().all(|line| line.width() <= 40), "{text}");
        assert!(text.contains("window"));
    }

    #[test]
    fn names_are_broken_behind_signs() {
        let name = "systems[temeraire].stats.spans_deleted";
        assert_eq!(broken_at_signs(name, 40), name);
        assert_eq!(broken_at_signs(name, 33), "systems[temeraire].stats.spans_\ndeleted");
        assert_eq!(broken_at_signs("a b_c", 2), "a \nb_\nc");
        assert_eq!(broken_at_signs("withoutanysign", 5), "withoutanysign");
        assert_eq!(broken_at_signs("a line\nand_another_one", 12), "a line\nand_another_\none");
    }

    #[test]
    fn control_characters_are_shown_not_sent() {
        let mut table = sample();
        table.rows[0][0] = "evil\x1b[2J".into();
        let text = table.terminal(Terminal { width: 80, ..Terminal::PLAIN });
        assert!(!text.contains('\x1b'), "{text:?}");
    }

    #[test]
    fn no_number_is_broken_at_any_width() {
        let mut table = sample();
        table.columns.extend((0..3).map(|i| Column::number(format!("share of column {i}"))));
        for row in &mut table.rows[..2] {
            row.extend(["123.4 GiB", "99.999 %", "1234567"].map(Cell::from));
        }
        for width in [20, 40, 60, 80] {
            let text = table.terminal(Terminal { width, ..Terminal::PLAIN });
            assert!(text.lines().all(|line| line.width() <= width), "{width}: {text}");
            for whole in ["123.4 GiB", "99.999 %", "1234567", "17.42"] {
                assert!(text.contains(whole), "{width}: {text}");
            }
        }
        let stacked = table.terminal(Terminal { width: 40, ..Terminal::PLAIN });
        assert!(stacked.contains("\nNormal\n  free, GiB: 17.42\n  remark: broken\n"), "{stacked}");
        assert!(stacked.contains("  share of column 1: 99.999 %\n"), "{stacked}");
    }

    #[test]
    fn rows_of_wrong_length_are_accepted() {
        let mut table = sample();
        table.rows.push(vec!["x".into(); 9]);
        table.rows.push(vec![]);
        assert_eq!(table.terminal(Terminal::PLAIN).lines().count(), 10);
        table.columns.clear();
        table.terminal(Terminal::PLAIN);
    }
}
