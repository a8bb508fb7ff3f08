//! The findings of a check.

use prairie_daemon::finding::{Finding, Verdict};
use prairie_report::table::wrap;

/// Columns before the text of a finding.
const INDENT: usize = 23;

/// One line each, with the remedy below; longer ones continue in the same column.
pub fn text(findings: &[Finding], width: usize) -> String {
    let mut text = String::new();
    for finding in findings {
        let word = match finding.verdict {
            Verdict::Good => "good",
            Verdict::Note => "note",
            Verdict::Warning => "warning",
            Verdict::Missing => "MISSING",
        };
        text += &hanging(&format!("{word:<8} {:<13} ", finding.about), &finding.found, width);
        if !finding.remedy.is_empty() {
            text += &remedy(&finding.remedy, width);
        }
    }
    text
}

/// What to do about it, below.
pub fn remedy(remedy: &str, width: usize) -> String {
    hanging(&format!("{:INDENT$}→ ", ""), remedy, width)
}

/// Text behind `head`, wrapped within its column.
pub fn hanging(head: &str, text: &str, width: usize) -> String {
    let indent = " ".repeat(head.chars().count());
    let wrapped = wrap(text, width, &indent);
    let text = wrapped.strip_prefix(&indent).unwrap_or(&wrapped);
    format!("{head}{text}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_findings_continue_in_their_column() {
        let finding = Finding {
            about: "swap",
            verdict: Verdict::Missing,
            found: "no swap device and no zswap pool, so that nothing can be moved".into(),
            remedy: "swapon a device, or enable zswap as the guide shows".into(),
        };
        let text = text(&[finding], 60);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 60), "{text}");
        assert_eq!(lines[0], "MISSING  swap          no swap device and no zswap pool, so");
        assert!(lines[1].starts_with(&" ".repeat(INDENT)) && lines[2].contains("→ swapon"));
    }
}
