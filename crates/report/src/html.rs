//! A report as one HTML file that needs nothing else.

mod data;
mod view;

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use sha2::{Digest, Sha256};

use crate::document::Report;
use crate::map::MapError;
use crate::palette::{self, Paint};
use crate::raster::{INTER_REGULAR, INTER_SEMI_BOLD};
use crate::write::{WriteError, write_atomically};

/// uPlot 1.6.32 by Leon Sorokin, MIT licence (`assets/uPlot-LICENSE.txt`).
const UPLOT: &str = include_str!("../assets/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../assets/uPlot.min.css");
const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");
const PAGE: &str = include_str!("html/page.html");

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
    /// A described process ([`prairie_provenance::describe`]) leaves its block at the foot of the page,
    /// also as JSON in the element `provenance`.
    ///
    /// When the page has settled, its script leaves marks on the root element: `data-charts`
    /// (`drawn/total`), `data-maps`, `data-errors`, `data-fetched` (resources asked for),
    /// `data-width` (`needed/available`, in pixels), `data-wide` (tables that scroll sideways) and
    /// `data-hints` (those marked as such).
    ///
    /// # Errors
    /// [`HtmlError::Map`] if a map cannot be drawn.
    pub fn html(&self) -> Result<String, HtmlError> {
        let mut engine = minijinja::Environment::new();
        // The two filters that the page uses. The library's own are left out of the build: they are a
        // third of it.
        engine.add_filter("safe", minijinja::Value::from_safe_string);
        engine.add_filter("length", |list: &minijinja::Value| list.len());
        // The name ends in .html, so every value is escaped unless marked safe.
        engine.add_template("page.html", PAGE)?;
        let page = view::Page {
            report: view::report(self, prairie_provenance::block().as_ref())?,
            policy: policy(),
            style: style(),
            uplot: UPLOT,
            script: SCRIPT,
        };
        Ok(engine.get_template("page.html")?.render(minijinja::value::Serde(page))?)
    }

    /// Writes [`Report::html`] to a file, whole or not at all.
    ///
    /// # Errors
    /// [`HtmlError`] if a map cannot be drawn or the file not written.
    pub fn write_html(&self, path: &Path) -> Result<(), HtmlError> {
        Ok(write_atomically(path, self.html()?.as_bytes())?)
    }
}

/// Nothing may be fetched, and no script may run but the two that the page comes with.
///
/// Styles are allowed inline without a hash: drawings carry their colors as style attributes,
/// which a policy cannot allow one by one.
fn policy() -> String {
    let hash = |script: &str| format!("'sha256-{}'", BASE64.encode(Sha256::digest(script)));
    format!(
        "default-src 'none'; script-src {} {}; style-src 'unsafe-inline'; font-src data:; \
         base-uri 'none'; form-action 'none'",
        hash(UPLOT),
        hash(SCRIPT)
    )
}

fn style() -> String {
    let face = |weight: u16, font: &[u8]| {
        format!(
            "@font-face{{font-family:Inter;font-weight:{weight};\
             src:url(data:font/otf;base64,{}) format(\"opentype\")}}\n",
            BASE64.encode(font)
        )
    };
    let variables = [
        ("ground", palette::GROUND),
        ("ink", palette::INK),
        ("muted", palette::MUTED),
        ("line", palette::LINE),
        ("soft", Paint::new(0xf3f6f8, 0x1a2129)),
        ("accent", Paint::new(0x1d63bd, 0x6aabf7)),
        ("good", Paint::new(0x0c7168, 0x45c9b9)),
        ("bad", Paint::new(0xb53d0c, 0xff8a5c)),
    ];
    let variables: String = variables
        .map(|(name, p)| format!("--{name}:light-dark({},{});", p.light.hex(), p.dark.hex()))
        .concat();
    [
        face(400, INTER_REGULAR),
        face(600, INTER_SEMI_BOLD),
        UPLOT_STYLE.to_owned(),
        format!("\n:root{{{variables}}}\n"),
        STYLE.to_owned(),
    ]
    .concat()
}
