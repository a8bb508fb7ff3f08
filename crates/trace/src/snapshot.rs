//! A host's memory at one moment as a file: what `survey --save` writes and `--from` reads.

use std::path::Path;

use prairie_host::Capture;

use crate::{Error, Metadata, Origin, Reader, Result, Writer};

/// Writes a capture, its frames as rows and the rest as the file's metadata.
///
/// # Errors
/// [`Error::Write`]; nothing is left behind then.
pub fn save(path: &Path, capture: &Capture) -> Result<crate::Summary> {
    let mut writer = Writer::create(path)?;
    for run in capture.frames.iter().flatten() {
        writer.frames(run)?;
    }
    writer.finish(Metadata {
        origin: Origin::Survey,
        kernel_release: capture.kernel_release.clone(),
        page_bytes: capture.page_bytes,
        before: Some(Capture { frames: None, ..capture.clone() }),
        ..Metadata::default()
    })
}

/// Reads the capture of a file: one that [`save`] wrote, or the state from which a recording
/// starts.
///
/// # Errors
/// Those of [`Reader::open`], and [`Error::Foreign`] if the trace describes no machine.
pub fn load(path: &Path) -> Result<Capture> {
    let reader = Reader::open(path)?;
    let Some(capture) = reader.metadata().before.clone() else {
        let reason = "it holds events only, and no description of a machine".into();
        return Err(Error::Foreign { path: path.into(), reason });
    };
    let runs = reader.frame_runs().collect::<Result<Vec<_>>>()?;
    let frames = (!runs.is_empty()).then_some(runs);
    Ok(Capture { frames, ..capture })
}
