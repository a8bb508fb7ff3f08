//! A pager for reports that are longer than the terminal, chosen as git chooses its own.

use std::io::Write;
use std::process::{Command, Stdio};

use prairie_report::terminal::rows_of_stdout;

use super::{display, write_out};

/// Exit code of a shell that does not find a program.
const NOT_FOUND: i32 = 127;

/// Shows text: through a pager on a terminal that is too small for it, else directly.
pub fn show(text: &str) -> anyhow::Result<()> {
    let is_long = rows_of_stdout().is_some_and(|rows| text.lines().count() >= rows);
    let pager =
        if is_long && !display().no_pager { pager(|name| std::env::var(name).ok()) } else { None };
    match pager {
        Some(pager) if page(&pager, text) => Ok(()),
        _ => write_out(text),
    }
}

/// `PRAIRIE_PAGER`, `PAGER`, or `less`; `None` if the first that is set is empty or `cat`.
fn pager(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let set = ["PRAIRIE_PAGER", "PAGER"].into_iter().find_map(variable);
    let pager = set.unwrap_or_else(|| "less".to_owned());
    (!matches!(pager.trim(), "" | "cat")).then_some(pager)
}

/// Whether a pager showed the text. It may have been closed before the end.
fn page(pager: &str, text: &str) -> bool {
    let mut command = Command::new("sh");
    command.arg("-c").arg(pager).stdin(Stdio::piped());
    // As git: leave short texts, keep colors, leave the screen as it is.
    if std::env::var_os("LESS").is_none() {
        command.env("LESS", "FRX");
    }
    let Ok(mut child) = command.spawn() else { return false };
    if let Some(mut stdin) = child.stdin.take() {
        // A reader who has seen enough closes the pager.
        let _ = stdin.write_all(text.as_bytes());
    }
    let status = child.wait();
    status.is_ok_and(|status| status.code() != Some(NOT_FOUND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_decides() {
        let chosen = |own: Option<&str>, general: Option<&str>| {
            pager(|name| match name {
                "PRAIRIE_PAGER" => own.map(str::to_owned),
                _ => general.map(str::to_owned),
            })
        };
        assert_eq!(chosen(None, None).as_deref(), Some("less"));
        assert_eq!(chosen(None, Some("more -s")).as_deref(), Some("more -s"));
        assert_eq!(chosen(Some("most"), Some("more")).as_deref(), Some("most"));
        assert_eq!(chosen(Some(""), Some("more")), None);
        assert_eq!(chosen(None, Some("cat")), None);
    }

    #[test]
    fn a_pager_that_is_missing_is_noticed() {
        assert!(page("cat >/dev/null", "text"));
        assert!(page("true", &"text\n".repeat(100_000)));
        assert!(!page("prairie-has-no-such-pager 2>/dev/null", "text"));
    }
}
