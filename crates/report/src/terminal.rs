//! What the terminal at hand can show.

use std::io::IsTerminal;

/// How many colours may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Colours {
    /// None: a pipe, a file, or a reader who set `NO_COLOR`.
    #[default]
    None,
    /// The 256 indexed colours of xterm.
    Indexed,
    /// 24-bit colour.
    True,
}

/// The width and the colours to draw for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terminal {
    /// Columns.
    pub width: usize,
    /// Colours that may be used.
    pub colours: Colours,
}

impl Terminal {
    /// A pipe: 100 columns, no colour.
    pub const PLAIN: Terminal = Terminal { width: 100, colours: Colours::None };

    /// Looks at standard output and the environment (`NO_COLOR`, `CLICOLOR_FORCE`, `TERM`,
    /// `COLORTERM`, as `anstream` reads them). A pipe gets [`Terminal::PLAIN`].
    pub fn of_stdout() -> Terminal {
        let stdout = std::io::stdout();
        let coloured = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
        let colours = match (coloured, anstyle_query::truecolor()) {
            (false, _) => Colours::None,
            (true, false) => Colours::Indexed,
            (true, true) => Colours::True,
        };
        let width = if stdout.is_terminal() { columns() } else { Terminal::PLAIN.width };
        Terminal { width, colours }
    }
}

/// The terminal's columns, kept within what tables and maps can use.
fn columns() -> usize {
    let columns = terminal_size::terminal_size().map_or(Terminal::PLAIN.width, |(w, _)| w.0.into());
    columns.clamp(40, 200)
}
