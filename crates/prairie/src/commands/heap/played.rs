//! Arguments shared by the driver and playback: page heaps, release rate, output.

use std::path::PathBuf;
use std::str::FromStr;

use prairie_heap::playback::{Options, Release, Results, System};
use serde::Serialize;

use crate::called_as::generated_by;
use crate::commands::value;
use crate::files::Files;
use crate::output::{Answer, Done, Header, Wanted};
use crate::view::heap as view;

/// The page heaps, and where the results go.
#[derive(clap::Args)]
pub struct PlayedArgs {
    /// Page heaps, separated by commas, or `all`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = value::name, default_value = "legacy,temeraire")]
    page_heap: Vec<String>,

    /// Print JSON instead of the report
    #[arg(long)]
    json: bool,

    /// Write the report as a self-contained HTML file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// The names of the page heaps, for the help of both commands.
pub const PAGE_HEAPS: &str = "\
Page heaps:
  legacy                     best fit over pages, oblivious of huge pages
  temeraire                  TEMERAIRE; its filler keeps the longest free ranges
  temeraire:fullness         the same with a filler that takes the fullest huge page first
  temeraire:fullness-chunks  the same by eight chunks of fullness
  temeraire:best-fit         the same, but the filler takes the best fit of all huge pages";

/// A rate of release, or `off`.
#[derive(Clone, Copy)]
pub struct Rate(pub Release);

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        match text {
            "off" => Ok(Rate(Release::Off)),
            "recorded" => Ok(Rate(Release::Recorded)),
            _ => value::bytes(text)
                .filter(|&rate| rate >= prairie_heap::Pages::SIZE)
                .map(|rate| Rate(Release::BytesPerSecond(rate)))
                .ok_or_else(|| "a rate a second such as 10M, or off, or recorded".to_owned()),
        }
    }
}

/// What `--json` prints.
#[derive(Serialize)]
pub struct Document {
    #[serde(flatten)]
    header: Header,
    source: String,
    page_bytes: u64,
    #[serde(flatten)]
    results: Results,
}

/// The results with their report.
pub fn answer(source: String, results: Results, interrupted: bool) -> Answer<Document> {
    let report = view::report(&source, &results, generated_by());
    let stopped_after = interrupted.then_some(Done { count: results.events, part: "event" });
    Answer { document: document(source, results), report, stopped_after }
}

/// The results as `--json` prints them.
pub fn document(source: String, results: Results) -> Document {
    Document {
        header: Header::new("prairie-heap-playback", 1),
        source,
        page_bytes: prairie_heap::Pages::SIZE,
        results,
    }
}

impl PlayedArgs {
    /// Adds the files that it writes.
    pub fn files(&self, files: Files) -> Files {
        files.output("--html", &self.html)
    }

    /// The page heaps.
    pub fn options(&self, release: Release) -> anyhow::Result<Options> {
        let all = System::ALL.map(System::name);
        let systems = value::named("--page-heap", &self.page_heap, &all)?;
        Ok(Options { systems, release })
    }

    /// Where the results go.
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted { json: self.json, html: self.html.as_deref() }
    }
}
