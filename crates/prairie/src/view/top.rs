//! `prairie top` on the screen: a title, meters, one of six panels, and the keys.
//!
//! [`State`] is what is shown and what a key changes; it knows no terminal. Drawing reads it alone.

mod events;
mod help;
mod map;
mod meters;
mod regions;
mod stalls;
pub mod state;
mod style;
mod unmovable;
mod zones;

use prairie_report::number;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph, Widget};

use self::style::{bold, dim, plain, selected};
pub use state::{Action, Containers, Live, Panel, Past, Stalling, State};

/// The smallest screen that shows everything.
const SMALLEST: (u16, u16) = (60, 12);

/// Draws the whole screen.
pub fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        let text = format!("at least {} columns and {} lines are needed", SMALLEST.0, SMALLEST.1);
        frame.render_widget(Paragraph::new(text), area);
        return;
    }
    let [title_area, meters_area, tabs_area, panel_area, footer_area] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(meters::height(state)),
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(1),
    ])
    .areas(area);
    frame.render_widget(title(state), title_area);
    meters::draw(state, meters_area, frame.buffer_mut());
    frame.render_widget(tabs(state), tabs_area);
    let lines = panel(state, state.panel, panel_area.width);
    state.fit(lines.len(), panel_area.height.into());
    let first = u16::try_from(state.scroll()).unwrap_or(u16::MAX);
    frame.render_widget(Paragraph::new(lines).scroll((first, 0)), panel_area);
    frame.render_widget(footer(state), footer_area);
    if state.shows_help {
        overlay(frame, panel_area);
    }
}

/// Everything at once as plain text, `width` columns wide: the meters and all panels.
pub fn text(state: &State, width: u16) -> String {
    let area = Rect::new(0, 0, width, meters::height(state));
    let mut buffer = Buffer::empty(area);
    meters::draw(state, area, &mut buffer);
    let mut lines = vec![title(state).to_string(), String::new()];
    lines
        .extend((0..area.height).map(|row| {
            (0..width).map(|column| buffer[(column, row)].symbol()).collect::<String>()
        }));
    for of in Panel::ALL {
        lines.extend([String::new(), of.name().to_owned(), "-".repeat(of.name().len())]);
        lines.extend(panel(state, of, width).iter().map(Line::to_string));
    }
    let mut out = String::new();
    for line in lines {
        let line: String = line.chars().take(width.into()).collect();
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The lines of a panel.
fn panel(state: &State, panel: Panel, width: u16) -> Vec<Line<'static>> {
    match panel {
        Panel::Map => map::lines(state, width),
        Panel::Zones => zones::lines(state),
        Panel::Unmovable => unmovable::lines(state),
        Panel::Events => events::lines(state),
        Panel::Stalls => stalls::lines(state),
        Panel::Containers => events::containers(state),
    }
}

/// Host, kernel, memory, and time.
fn title(state: &State) -> Line<'static> {
    let memory = plain(&number::bytes(state.now.count("memory_bytes")));
    let seconds = state.now.at_unix_ns.div_euclid(1_000_000_000);
    let time = chrono::DateTime::from_timestamp(seconds, 0).unwrap_or_default();
    let when = match &state.past {
        Some(past) => format!("sample {} of {}", past.at + 1, past.count),
        None if state.is_paused => "paused".to_owned(),
        None => format!("every {}", humantime::format_duration(state.interval)),
    };
    // The kernel's name may be long, and is what a narrow screen cuts.
    Line::from(vec![
        bold(format!("prairie top  {}", state.host)),
        Span::raw(format!(
            "  {} UTC  {when}  {memory}  Linux {}",
            time.format("%Y-%m-%d %H:%M:%S"),
            state.kernel_release,
        )),
    ])
}

fn tabs(state: &State) -> Line<'static> {
    let tab = |(at, panel): (usize, Panel)| {
        let name = format!(" {} {} ", at + 1, panel.name());
        if panel == state.panel { selected(name) } else { dim(name) }
    };
    Line::from(Panel::ALL.into_iter().enumerate().map(tab).collect::<Vec<_>>())
}

fn footer(state: &State) -> Line<'static> {
    if let Some(message) = &state.message {
        return Line::from(bold(message.clone()));
    }
    let keys: &[(&str, &str)] = match state.past {
        Some(_) => &[
            ("F1", "Help "),
            ("Tab", "Panel "),
            ("t", "Next "),
            ("T", "Previous "),
            ("j", "+1 h "),
            ("J", "-1 h "),
            ("F10", "Quit"),
        ],
        None => &[
            ("F1", "Help "),
            ("Tab", "Panel "),
            ("F6", "Sort "),
            ("Space", "Pause "),
            ("+/-", "Interval "),
            ("F10", "Quit"),
        ],
    };
    let spans = keys
        .iter()
        .flat_map(|(key, what)| [Span::raw((*key).to_owned()), selected((*what).to_owned())]);
    Line::from(spans.collect::<Vec<_>>())
}

fn overlay(frame: &mut Frame<'_>, area: Rect) {
    let buffer = frame.buffer_mut();
    Clear.render(area, buffer);
    Paragraph::new(help::lines()).render(area, buffer);
}

#[cfg(test)]
mod tests;
