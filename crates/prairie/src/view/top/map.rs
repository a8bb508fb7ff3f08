//! The map of memory.

use std::collections::BTreeSet;

use prairie_host::FrameClass;
use prairie_observe::summary::MapCell;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::State;
use super::style::{cell_color, dim};
use crate::view::colors;

/// The map, a letter a cell, and its legend below.
pub fn lines(state: &State, width: u16) -> Vec<Line<'static>> {
    let cells: Vec<MapCell> = state.now.cells().collect();
    if cells.is_empty() {
        return no_map(state);
    }
    let letters: Vec<char> = colors::map_classes().iter().map(|class| class.letter).collect();
    let letter = |cell: &MapCell| match cell.is_polluted {
        true => letters[usize::from(colors::POLLUTED)],
        false => letters[cell.class.index()],
    };
    let drawn = |row: &[MapCell]| {
        let span = |run: &[MapCell]| {
            let text: String = run.iter().map(letter).collect();
            Span::styled(text, Style::new().fg(Color::Black).bg(ground(run[0])))
        };
        Line::from(row.chunk_by(|a, b| a == b).map(span).collect::<Vec<_>>())
    };
    let mut lines: Vec<Line<'static>> = cells.chunks(width.max(1).into()).map(drawn).collect();
    lines.extend(legend(&cells, &letters, width.into()));
    lines
}

fn ground(cell: MapCell) -> Color {
    if cell.class == FrameClass::Absent { Color::Reset } else { cell_color(cell) }
}

/// The letters that occur, and what they mean.
fn legend(cells: &[MapCell], letters: &[char], width: usize) -> Vec<Line<'static>> {
    let present: BTreeSet<FrameClass> =
        cells.iter().filter(|cell| !cell.is_polluted).map(|cell| cell.class).collect();
    let named = present.into_iter().filter(|class| *class != FrameClass::Absent);
    let mut entries: Vec<(MapCell, String)> = named
        .map(|class| {
            let text = format!("{} {}", letters[class.index()], class.label());
            (MapCell { class, is_polluted: false }, text)
        })
        .collect();
    if let Some(polluted) = cells.iter().find(|cell| cell.is_polluted) {
        entries.push((*polluted, "! polluted by unmovable frames".to_owned()));
    }
    let (mut lines, mut spans, mut used) = (Vec::new(), Vec::new(), 0);
    for (cell, text) in entries {
        if used > 0 && used + text.len() + 2 > width {
            lines.push(Line::from(std::mem::take(&mut spans)));
            used = 0;
        }
        used += text.len() + 2;
        let style = Style::new().fg(Color::Black).bg(cell_color(cell));
        let (letter, rest) = text.split_at(1);
        spans.push(Span::styled(letter.to_owned(), style));
        spans.push(Span::raw(format!("{rest}  ")));
    }
    lines.push(Line::from(spans));
    lines
}

fn no_map(state: &State) -> Vec<Line<'static>> {
    let left_out = state.live.iter().flat_map(|live| live.left_out.iter().cloned());
    let mut lines = vec![Line::from("No page flags were read, so there is no map.")];
    lines.extend(left_out.map(|why| Line::from(dim(why))));
    lines
}
