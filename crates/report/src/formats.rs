//! A report in formats for mails, spreadsheets, and papers: Markdown, CSV, pictures.

use crate::ascii::ascii;
use crate::document::{Block, Report};
use crate::map::MapError;
use crate::palette::Theme;
use crate::table::{Align, Table};
use crate::terminal::Terminal;

impl Report {
    /// The report as Markdown, with tables as GitHub reads them; charts and maps as text.
    ///
    /// # Errors
    /// [`MapError`] if a map cannot be drawn.
    pub fn markdown(&self) -> Result<String, MapError> {
        let mut out = format!("# {}\n", line(&self.title));
        if !self.subtitle.is_empty() {
            out += &format!("\n{}\n", line(&self.subtitle));
        }
        for section in &self.sections {
            out += &format!("\n## {}\n", line(&section.heading));
            if !section.intro.is_empty() {
                out += &format!("\n{}\n", prose(&section.intro));
            }
            for block in &section.blocks {
                out += &format!("\n{}\n", markdown(block)?.trim_end());
            }
        }
        if !self.generated_by.is_empty() {
            out += &format!("\n*{}*\n", line(&self.generated_by));
        }
        Ok(out)
    }

    /// Every cell of every table, and the values of charts, one a line: section, table, row, column,
    /// value. One form for tables of any shape, which a spreadsheet or a data frame can pivot.
    pub fn csv(&self) -> String {
        let mut out = "section,table,row,column,value\n".to_owned();
        for section in &self.sections {
            for block in &section.blocks {
                let (title, table) = match block {
                    Block::Table(table) => (&table.title, table.clone()),
                    Block::LineChart(chart) => (&chart.title, chart.table()),
                    Block::BarChart(chart) => (&chart.title, chart.table()),
                    _ => continue,
                };
                rows(&section.heading, title, &table, &mut out);
            }
        }
        out
    }

    /// The charts and maps as SVG files, with names made of their titles.
    ///
    /// # Errors
    /// [`MapError`] if a map cannot be drawn.
    pub fn charts(&self) -> Result<Vec<(String, String)>, MapError> {
        let mut charts: Vec<(String, String)> = Vec::new();
        for section in &self.sections {
            for block in &section.blocks {
                let (title, svg) = match block {
                    Block::LineChart(chart) => (&chart.title, chart.svg(Theme::Auto)),
                    Block::BarChart(chart) => (&chart.title, chart.svg(Theme::Auto)),
                    Block::Maps(sheet) => (&sheet.title, sheet.svg(Theme::Auto)?),
                    _ => continue,
                };
                let title = if title.is_empty() { &section.heading } else { title };
                charts.push((format!("{:02}-{}", charts.len() + 1, file_name(title)), svg));
            }
        }
        Ok(charts)
    }
}

/// A title as the name of a file: words of letters and digits, joined by hyphens.
fn file_name(title: &str) -> String {
    const MAX_CHARS: usize = 60;
    let lower = ascii(title).to_lowercase();
    let words: Vec<&str> =
        lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let name: String = words.join("-").chars().take(MAX_CHARS).collect();
    if name.is_empty() { "chart".to_owned() } else { name.trim_end_matches('-').to_owned() }
}

fn rows(section: &str, title: &str, table: &Table, out: &mut String) {
    for row in &table.rows {
        let mut cells = table.cells(row);
        let name = cells.next().map(|(_, cell)| cell.text).unwrap_or_default();
        for (column, cell) in cells.filter(|(_, cell)| !cell.text.is_empty()) {
            let heading = match column.unit.is_empty() {
                true => column.heading.clone(),
                false => format!("{} ({})", column.heading, column.unit),
            };
            let fields = [section, title, &name, &heading, &cell.text];
            let fields: Vec<String> = fields.iter().map(|field| quoted(&ascii(field))).collect();
            out.push_str(&fields.join(","));
            out.push('\n');
        }
    }
}

/// A field as RFC 4180 writes it.
fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

fn markdown(block: &Block) -> Result<String, MapError> {
    let plain = |text: String| format!("```text\n{}\n```", text.trim_end());
    Ok(match block {
        Block::Text(text) => prose(text),
        Block::Note(text) => format!("> **Note:** {}", line(text)),
        Block::Warning(text) => format!("> **Warning:** {}", line(text)),
        Block::Table(table) => grid(table),
        Block::KeyFigures(figures) => {
            let figure = |f: &crate::KeyFigure| {
                let text =
                    format!("- **{}** {}. {}", line(&f.value), line(&f.label), line(&f.definition));
                text.trim_end().to_owned()
            };
            figures.iter().map(figure).collect::<Vec<_>>().join("\n")
        }
        Block::Definitions(definitions) => {
            let entry =
                |d: &crate::Definition| format!("- **{}**: {}", line(&d.term), line(&d.meaning));
            definitions.iter().map(entry).collect::<Vec<_>>().join("\n")
        }
        Block::LineChart(_) | Block::BarChart(_) | Block::Maps(_) => {
            plain(block.terminal(Terminal::PLAIN)?)
        }
    })
}

fn grid(table: &Table) -> String {
    let mut out = String::new();
    if !table.title.is_empty() {
        out += &format!("**{}**\n\n", line(&table.title));
    }
    let bar = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    if !table.columns.is_empty() {
        let head = |column: &crate::Column| match column.unit.is_empty() {
            true => cell(&column.heading),
            false => format!("{} ({})", cell(&column.heading), cell(&column.unit)),
        };
        out += &bar(table.columns.iter().map(head).collect());
        let rule = |column: &crate::Column| match column.align {
            Align::Left => "---".to_owned(),
            Align::Right => "---:".to_owned(),
        };
        out += &bar(table.columns.iter().map(rule).collect());
        for row in &table.rows {
            out += &bar(table.cells(row).map(|(_, found)| cell(&found.text)).collect());
        }
    }
    for note in &table.notes {
        out += &format!("\n{}\n", line(note));
    }
    out
}

/// Text of a cell: in one line, without what ends a cell.
fn cell(text: &str) -> String {
    line(text).replace('|', "\\|")
}

/// Text in one line.
fn line(text: &str) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    ascii(text).chars().map(visible).collect::<String>().trim().to_owned()
}

/// Paragraphs, each in one line.
fn prose(text: &str) -> String {
    text.split("\n\n").map(line).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BarChart, BarSeries, Column, LineChart, Section, Series};

    fn report() -> Report {
        let table = Table {
            title: "Free, by \"zone\"".into(),
            columns: vec![Column::text("zone"), Column::number("free").with_unit("GiB")],
            rows: vec![vec!["a|b".into(), "1\u{202f}234".into()], vec!["x,y".into()]],
            notes: vec!["Counted once.".into()],
        };
        let lines = LineChart {
            title: "F_u by order: share".into(),
            series: vec![Series { name: "buddy".into(), points: vec![(0.0, 0.0), (1.0, 1.0)] }],
            ..LineChart::default()
        };
        let bars = BarChart {
            categories: vec!["one".into()],
            series: vec![BarSeries { name: "s".into(), values: vec![2.0] }],
            ..BarChart::default()
        };
        Report {
            title: "A report".into(),
            sections: vec![Section {
                heading: "Memory".into(),
                blocks: vec![Block::Table(table), Block::LineChart(lines), Block::BarChart(bars)],
                ..Section::default()
            }],
            ..Report::default()
        }
    }

    #[test]
    fn markdown_keeps_its_cells_apart() {
        let text = report().markdown().unwrap();
        for part in [
            "# A report\n",
            "## Memory\n",
            "| --- | ---: |\n",
            "| a\\|b | 1234 |\n",
            "| x,y |  |\n",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
        assert!(text.is_ascii(), "{text}");
    }

    #[test]
    fn csv_is_one_table() {
        let text = report().csv();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("section,table,row,column,value"));
        assert_eq!(lines.next(), Some("Memory,\"Free, by \"\"zone\"\"\",a|b,free (GiB),1234"));
        assert!(text.contains("Memory,F_u by order: share,buddy,first,0\n"), "{text}");
        assert!(text.contains(",one,s,2\n"), "{text}");
    }

    #[test]
    fn charts_are_files() {
        let names: Vec<String> = report().charts().unwrap().into_iter().map(|c| c.0).collect();
        assert_eq!(names, ["01-f-u-by-order-share", "02-memory"]);
    }
}
