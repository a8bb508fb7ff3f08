//! A report as a value: what it says, not how it looks.

use unicode_width::UnicodeWidthStr;

use crate::chart::{BarChart, LineChart};
use crate::map::{MapError, MapSheet};
use crate::table::{Table, emphasis, muted, wrap};
use crate::terminal::Terminal;

/// A whole report.
///
/// In every text, what stands between two backticks is set as code, and a blank line begins a new
/// paragraph. There is no other markup: all other text is shown unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The subject of the report.
    pub title: String,
    /// The machine, time, and measure; may be empty.
    pub subtitle: String,
    /// The program, its version and the command that made the report.
    pub generated_by: String,
    /// The sections, in order.
    pub sections: Vec<Section>,
}

/// A part of a report under its own heading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    /// The heading, also the entry in the table of contents.
    pub heading: String,
    /// An introduction; may be empty.
    pub intro: String,
    /// The contents.
    pub blocks: Vec<Block>,
}

impl Section {
    /// A section that consists of one table.
    pub fn of_table(heading: impl Into<String>, table: Table) -> Section {
        Section { heading: heading.into(), intro: String::new(), blocks: vec![Block::Table(table)] }
    }
}

/// One thing that a section shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// Paragraphs.
    Text(String),
    /// The few numbers to remember.
    KeyFigures(Vec<KeyFigure>),
    /// A table.
    Table(Table),
    /// Lines.
    LineChart(LineChart),
    /// Bars.
    BarChart(BarChart),
    /// One map of memory, or several side by side.
    Maps(MapSheet),
    /// Words and what they mean.
    Definitions(Vec<Definition>),
    /// Something to know when reading the figures.
    Note(String),
    /// Something that was left out or went wrong.
    Warning(String),
}

/// A number to remember.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyFigure {
    /// The number with its unit, as text: see [`crate::number`].
    pub value: String,
    /// The label of the number.
    pub label: String,
    /// How it is defined; may be empty.
    pub definition: String,
}

impl KeyFigure {
    /// A number, its label, and how it is defined.
    pub fn new(
        value: String,
        label: impl Into<String>,
        definition: impl Into<String>,
    ) -> KeyFigure {
        KeyFigure { value, label: label.into(), definition: definition.into() }
    }
}

/// A term and its definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Definition {
    /// The term.
    pub term: String,
    /// The definition.
    pub meaning: String,
}

impl Report {
    /// The report for the terminal: the same sections, tables and maps; charts as text.
    ///
    /// # Errors
    /// [`MapError`] if a map cannot be drawn.
    pub fn terminal(&self, terminal: Terminal) -> Result<String, MapError> {
        let mut out = String::new();
        let prose =
            |text: &str, indent: &str| wrap(&terminal.text(text), terminal.width, indent) + "\n";
        let title = wrap(&terminal.text(&self.title), terminal.width, "");
        out.push_str(&emphasis(&title, terminal));
        out.push('\n');
        if !self.subtitle.is_empty() {
            out.push_str(&muted(&prose(&self.subtitle, ""), terminal));
        }
        for section in &self.sections {
            let heading = terminal.text(&section.heading);
            let rule = terminal.drawn("━".repeat(heading.width().min(terminal.width)));
            out.push_str(&format!("\n{}\n{rule}\n", emphasis(&heading, terminal)));
            if !section.intro.is_empty() {
                out.push_str(&prose(&section.intro, ""));
            }
            for block in &section.blocks {
                out.push('\n');
                out.push_str(&block.terminal(terminal)?);
            }
        }
        Ok(out)
    }
}

impl Block {
    /// The block for the terminal.
    ///
    /// # Errors
    /// [`MapError`] if it is a map that cannot be drawn.
    pub fn terminal(&self, terminal: Terminal) -> Result<String, MapError> {
        let prose =
            |text: &str, indent: &str| wrap(&terminal.text(text), terminal.width, indent) + "\n";
        Ok(match self {
            Block::Text(text) => prose(text, ""),
            Block::KeyFigures(figures) => key_figures(figures, terminal),
            Block::Table(table) => table.terminal(terminal),
            Block::LineChart(chart) => chart.terminal(terminal),
            Block::BarChart(chart) => chart.terminal(terminal),
            Block::Maps(sheet) => sheet.terminal(terminal)?,
            Block::Definitions(definitions) => {
                let entry = |d: &Definition| {
                    emphasis(&terminal.text(&d.term), terminal) + "\n" + &prose(&d.meaning, "    ")
                };
                definitions.iter().map(entry).collect()
            }
            Block::Note(text) => prose(&format!("Note: {text}"), "  "),
            Block::Warning(text) => prose(&format!("Warning: {text}"), "  "),
        })
    }
}

fn key_figures(figures: &[KeyFigure], terminal: Terminal) -> String {
    let widest = figures.iter().map(|f| terminal.text(&f.value).width()).max().unwrap_or(0);
    let entry = |figure: &KeyFigure| {
        let value = terminal.text(&figure.value);
        let gap = " ".repeat(widest - value.width());
        let indent = " ".repeat(widest + 2);
        let label = wrap(&terminal.text(&figure.label), terminal.width, &indent);
        let mut lines = format!("{gap}{}  {}\n", emphasis(&value, terminal), label.trim_start());
        if !figure.definition.is_empty() {
            let definition = wrap(&terminal.text(&figure.definition), terminal.width, &indent);
            lines += &(muted(&definition, terminal) + "\n");
        }
        lines
    };
    figures.iter().map(entry).collect()
}
