//! What a check of a host found.

use serde::Serialize;

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// Worth knowing; the daemon works.
    Note,
    /// The daemon works, but less well or with a risk.
    Warning,
    /// The daemon does not work.
    Missing,
}

/// One thing that was checked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its subject.
    pub about: &'static str,
    /// How serious it is.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it; empty if nothing is to be done.
    pub remedy: String,
}

impl Finding {
    /// A finding. `remedy` is empty if nothing is to be done.
    pub fn new(
        about: &'static str,
        verdict: Verdict,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding { about, verdict, found: found.into(), remedy: remedy.into() }
    }
}

/// Whether nothing is missing.
pub fn is_ready(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.verdict < Verdict::Missing)
}
