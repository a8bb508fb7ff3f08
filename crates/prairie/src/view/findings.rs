//! The findings of a check.

use std::fmt::Write;

use prairie_daemon::finding::{Finding, Verdict};

/// One line each, with the remedy below.
pub fn text(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let word = match finding.verdict {
            Verdict::Good => "good",
            Verdict::Note => "note",
            Verdict::Warning => "warning",
            Verdict::Missing => "MISSING",
        };
        let _ = write!(text, "{word:<8} {:<13} {}", finding.about, finding.found);
        if !finding.remedy.is_empty() {
            let _ = write!(text, "\n{:23}→ {}", "", finding.remedy);
        }
        text.push('\n');
    }
    text
}
