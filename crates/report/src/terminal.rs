//! Capabilities of the terminal.

use std::io::IsTerminal;
use std::sync::OnceLock;

use crate::ascii::ascii;
use crate::palette::Theme;

/// What a user asks for in place of what standard output would get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overrides {
    /// Columns.
    pub width: Option<usize>,
    /// No typographic signs.
    pub ascii: bool,
}

static OVERRIDES: OnceLock<Overrides> = OnceLock::new();

/// Sets what [`Terminal::of_stdout`] returns from now on. Later calls change nothing.
pub fn set_overrides(overrides: Overrides) {
    // The command line is read once.
    let _ = OVERRIDES.set(overrides);
}

/// How many colors may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Colors {
    /// None: a pipe, a file, or a reader who set `NO_COLOR`.
    #[default]
    None,
    /// The 256 indexed colors of xterm.
    Indexed,
    /// 24-bit color.
    True,
}

/// The width, the colors and the characters to draw with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Columns.
    pub width: usize,
    /// Colors that may be used.
    pub colors: Colors,
    /// Whether typographic signs may be used; else all is ASCII.
    pub unicode: bool,
    /// The background that colors have to stand out from.
    pub background: Theme,
}

impl Terminal {
    /// The columns that output needs at least: a number, its unit, and a word fit beside each other.
    pub const LEAST_WIDTH: usize = 40;
    /// The most columns that may be asked for.
    pub const MOST_WIDTH: usize = 1000;

    /// A pipe: 100 columns of ASCII, no color.
    pub const PLAIN: Terminal =
        Terminal { width: 100, colors: Colors::None, unicode: false, background: Theme::Dark };

    /// What standard output can show: by the environment (`NO_COLOR`, `CLICOLOR_FORCE`, `TERM`,
    /// `COLORTERM`, as `anstream` reads them), the locale and the terminal itself. A pipe gets
    /// [`Terminal::PLAIN`]. `COLUMNS` sets the width, [`set_overrides`] overrides it.
    pub fn of_stdout() -> Terminal {
        let stdout = std::io::stdout();
        let colored = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        let colors = match (colored, anstyle_query::truecolor()) {
            (false, _) => Colors::None,
            (true, false) => Colors::Indexed,
            (true, true) => Colors::True,
        };
        let is_terminal = stdout.is_terminal();
        let overrides = OVERRIDES.get().copied().unwrap_or_default();
        let set = || std::env::var("COLUMNS").ok()?.parse().ok();
        let own = || if is_terminal { columns() } else { Terminal::PLAIN.width };
        let width = overrides
            .width
            .or_else(set)
            .map_or_else(own, |width| width.clamp(Terminal::LEAST_WIDTH, Terminal::MOST_WIDTH));
        let unicode = is_terminal && has_utf8_locale() && !overrides.ascii;
        Terminal { width, colors, unicode, background: background() }
    }

    /// `text` as it may be written: control characters replaced by a visible sign, so that a
    /// process's name cannot steer the reader's terminal (line feeds stay), and typographic signs
    /// by ASCII where the terminal calls for it.
    pub fn text(self, text: &str) -> String {
        let visible = |c: char| match c.is_control() && c != '\n' {
            true if self.unicode => char::REPLACEMENT_CHARACTER,
            true => '?',
            false => c,
        };
        self.drawn(text.chars().map(visible).collect())
    }

    /// A drawing of Prairie's own, which may have colors.
    pub(crate) fn drawn(self, drawing: String) -> String {
        if self.unicode { drawing } else { ascii(&drawing) }
    }
}

/// Lines of the terminal that standard output is; `None` for a pipe or a file.
pub fn rows_of_stdout() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| terminal_size::terminal_size_of(&stdout));
    size.flatten().map(|(_, height)| height.0.into())
}

/// Whether standard error may show typographic signs.
pub fn stderr_has_unicode() -> bool {
    std::io::stderr().is_terminal() && has_utf8_locale()
}

/// Whether the locale is one of UTF-8, by the first of its variables that is set.
fn has_utf8_locale() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// The background by `PRAIRIE_BACKGROUND` (`light` or `dark`), else by `COLORFGBG`, which several
/// terminals set; dark if unknown.
fn background() -> Theme {
    let variable = |name| std::env::var(name).unwrap_or_default();
    background_of(&variable("PRAIRIE_BACKGROUND"), &variable("COLORFGBG"))
}

/// `COLORFGBG` ends in the number of the background among the 16 colors: 7 and those from 9 on
/// are light.
fn background_of(asked: &str, colorfgbg: &str) -> Theme {
    match (asked, colorfgbg.rsplit(';').next().and_then(|number| number.parse().ok())) {
        ("light", _) => Theme::Light,
        ("dark", _) => Theme::Dark,
        (_, Some(7u8 | 9..=15)) => Theme::Light,
        _ => Theme::Dark,
    }
}

/// The terminal's columns, kept within what tables and maps can use.
fn columns() -> usize {
    let columns = terminal_size::terminal_size().map_or(Terminal::PLAIN.width, |(w, _)| w.0.into());
    columns.clamp(Terminal::LEAST_WIDTH, 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_background_is_what_the_terminal_says() {
        for (asked, colorfgbg, background) in [
            ("", "", Theme::Dark),
            ("", "15;0", Theme::Dark),
            ("", "0;15", Theme::Light),
            ("", "0;default;15", Theme::Light),
            ("", "0;7", Theme::Light),
            ("", "7;8", Theme::Dark),
            ("", "0;default", Theme::Dark),
            ("light", "15;0", Theme::Light),
            ("dark", "0;15", Theme::Dark),
        ] {
            assert_eq!(background_of(asked, colorfgbg), background, "{asked:?} {colorfgbg:?}");
        }
    }

    #[test]
    fn control_characters_are_shown_not_sent() {
        let unicode = Terminal { unicode: true, ..Terminal::PLAIN };
        assert_eq!(unicode.text("a\x1b[2J\nb"), "a\u{fffd}[2J\nb");
        assert_eq!(Terminal::PLAIN.text("a\x1b[2J\nb"), "a?[2J\nb");
    }
}
