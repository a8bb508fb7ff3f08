//! Arguments shared by the driver and playback: page heaps, release rate, output.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use prairie_heap::playback::{Options, Release, Results, System};
use prairie_report::number;
use serde::Serialize;
use serde_json::Value;

use crate::commands::seeds::Wanted;
use crate::commands::survey::generated_by;
use crate::commands::value;
use crate::files::Files;
use crate::view::heap as view;
use crate::{interrupt, output};

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

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    schema_version: u32,
    prairie_version: &'static str,
    source: &'a str,
    page_bytes: u64,
    #[serde(flatten)]
    results: &'a Results,
}

fn document<'a>(source: &'a str, results: &'a Results) -> Document<'a> {
    Document {
        schema: "prairie-heap-playback",
        schema_version: 1,
        prairie_version: env!("CARGO_PKG_VERSION"),
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

    /// Where results over several seeds go.
    pub fn wanted(&self) -> Wanted<'_> {
        Wanted { json: self.json, html: self.html.as_deref() }
    }

    /// The document that `--json` prints.
    pub fn document(&self, source: &str, results: &Results) -> anyhow::Result<Value> {
        Ok(serde_json::to_value(document(source, results))?)
    }

    /// Prints and writes as asked.
    pub fn finish(
        &self,
        source: &str,
        results: &Results,
        interrupted: bool,
    ) -> anyhow::Result<ExitCode> {
        let report = view::report(source, results, generated_by());
        if self.json {
            output::print_json(&document(source, results))?;
        } else {
            output::print_report(&report)?;
        }
        if interrupted {
            output::say(format_args!(
                "interrupted after {}",
                number::counted(results.events, "event")
            ));
            return Ok(ExitCode::from(interrupt::EXIT_CODE));
        }
        output::write_html(&report, self.html.as_deref())?;
        Ok(ExitCode::SUCCESS)
    }
}
