//! The end of commands that simulate one part after another: what is done is printed, and the page is
//! written if nothing is missing.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use prairie_report::{Report, number};
use serde::Serialize;

use crate::commands::seeds::Wanted;
use crate::{interrupt, output};

/// Prints and writes `report`, or the document for `--json`, of the parts that are done: their
/// number, and what one is.
pub fn finish(
    wanted: &Wanted<'_>,
    document: &impl Serialize,
    report: &Report,
    (done, part): (usize, &str),
    interrupted: &AtomicBool,
) -> anyhow::Result<ExitCode> {
    if wanted.json {
        output::print_json(document)?;
    } else if done > 0 {
        output::print_report(report)?;
    }
    if interrupted.load(Ordering::Relaxed) {
        let done = number::counted(done as u64, part);
        output::say(format_args!("interrupted after {done}"));
        return Ok(ExitCode::from(interrupt::EXIT_CODE));
    }
    output::write_html(report, wanted.html)?;
    Ok(ExitCode::SUCCESS)
}
