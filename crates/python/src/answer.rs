//! The answer of a command: its document, and its report.

use prairie_provenance::Run;
use prairie_report::{Block, MapError, Report, Theme};
use pyo3::prelude::*;

use crate::error::PrairieError;

/// What a command found.
#[pyclass(frozen, module = "prairie._prairie")]
pub struct Answer {
    json: String,
    report: Report,
    run: Run,
}

impl Answer {
    /// The answer of the command's code.
    pub fn new(found: prairie::Answered) -> Answer {
        let prairie::Answered { answer, run } = found;
        Answer { json: answer.document, report: answer.report, run }
    }
}

/// A table of a report as text: title, headings, rows.
type TextTable = (String, Vec<String>, Vec<Vec<String>>);

#[pymethods]
impl Answer {
    /// The document as `--json` prints it.
    #[getter]
    fn json(&self) -> &str {
        &self.json
    }

    /// The title of the report, and the line below it.
    fn titles(&self) -> (&str, &str) {
        (&self.report.title, &self.report.subtitle)
    }

    /// The report as a page that needs nothing else.
    fn html(&self, py: Python<'_>) -> PyResult<String> {
        let page = py.detach(|| self.run.within(|| self.report.html()));
        page.map_err(|error| PrairieError::new_err(error.to_string()))
    }

    /// The maps of memory as SVG, `light`, `dark`, or as the reader's screen is.
    #[pyo3(signature = (theme="auto"))]
    fn maps(&self, py: Python<'_>, theme: &str) -> PyResult<Vec<String>> {
        let theme = match theme {
            "auto" => Theme::Auto,
            "light" => Theme::Light,
            "dark" => Theme::Dark,
            _ => {
                let text = format!("theme {theme:?}: expected auto, light, or dark");
                return Err(PrairieError::new_err(text));
            }
        };
        let maps = self.blocks().filter_map(|block| match block {
            Block::Maps(sheet) => Some(sheet),
            _ => None,
        });
        let maps: Vec<_> = maps.collect();
        let drawn: Result<_, MapError> =
            py.detach(|| maps.iter().map(|sheet| sheet.svg(theme)).collect());
        drawn.map_err(|error| PrairieError::new_err(error.to_string()))
    }

    /// The tables of the report as text.
    fn tables(&self) -> Vec<TextTable> {
        let tables = self.blocks().filter_map(|block| match block {
            Block::Table(table) => Some(table),
            _ => None,
        });
        let text = |table: &prairie_report::Table| {
            let headings = table.columns.iter().map(|column| match column.unit.is_empty() {
                true => column.heading.clone(),
                false => format!("{} ({})", column.heading, column.unit),
            });
            let rows = table.rows.iter();
            let rows = rows.map(|row| row.iter().map(|cell| cell.text.clone()).collect());
            (table.title.clone(), headings.collect(), rows.collect())
        };
        tables.map(text).collect()
    }

    /// What to know when reading the figures.
    fn warnings(&self) -> Vec<String> {
        let warnings = self.blocks().filter_map(|block| match block {
            Block::Warning(text) => Some(text.clone()),
            _ => None,
        });
        warnings.collect()
    }
}

impl Answer {
    fn blocks(&self) -> impl Iterator<Item = &Block> {
        self.report.sections.iter().flat_map(|section| &section.blocks)
    }
}
