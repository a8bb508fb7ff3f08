//! Sequence charts: who does what to whom, from top to bottom.

use std::fmt::Write;

use crate::palette::{INK, MUTED, Theme};
use crate::svg::{self, Text, number, text_width};

/// One step of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceStep {
    /// The sender, as an index into the agents.
    pub from: usize,
    /// The receiver; equal to the sender for an internal step.
    pub to: usize,
    /// A short label.
    pub text: String,
}

/// A sequence of steps between agents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceChart {
    /// The caption.
    pub title: String,
    /// From left to right.
    pub agents: Vec<String>,
    /// From top to bottom. Indices beyond the agents are drawn at the last one.
    pub steps: Vec<SequenceStep>,
    /// The first step of an infinite repetition, if any.
    pub repeats_from: Option<usize>,
    /// The conclusion.
    pub ending: String,
}

/// Pixels between two agents, and between two steps.
const COLUMN: f64 = 96.0;
const ROW: f64 = 26.0;
const MARGIN: f64 = 24.0;
const SIZE: f64 = 13.0;

/// Characters between two agents in text.
const CELLS: usize = 11;

impl SequenceChart {
    /// As SVG.
    #[must_use]
    pub fn svg(&self, theme: Theme) -> String {
        let words = MARGIN + COLUMN * self.agents.len() as f64;
        let widest = |text: &str| text_width(text, SIZE, false);
        let longest = self.steps.iter().map(|step| widest(&step.text)).fold(0.0, f64::max);
        // The reader's fonts may be wider than those that were measured.
        let title = 1.15 * text_width(&self.title, 15.0, true);
        let ending = 2.0 * MARGIN + 1.15 * text_width(&self.ending, SIZE, true);
        let width = (words + longest + MARGIN + 30.0).max(title + 2.0 * MARGIN).max(ending);
        let top = 84.0;
        let bottom = top + ROW * self.steps.len() as f64;
        let mut out = String::new();
        let text = |out: &mut String, x, y, size, strong, anchor, text: &str| {
            Text { x, y, size, strong, paint: INK, anchor, text }.draw(out, theme);
        };
        text(&mut out, MARGIN, 30.0, 15.0, true, "start", &self.title);
        for (nth, agent) in self.agents.iter().enumerate() {
            let x = self.at(nth);
            text(&mut out, x, 60.0, SIZE, true, "middle", agent);
            line(
                &mut out,
                (x, 68.0),
                (x, bottom),
                "stroke-width=\"1\" stroke-dasharray=\"3 4\"",
                theme,
            );
        }
        for (nth, step) in self.steps.iter().enumerate() {
            let y = top + ROW * nth as f64 + 4.0;
            self.arrow(&mut out, step, y, theme);
            let label = format!("{}  {}", nth + 1, step.text);
            text(&mut out, words, y + 4.0, SIZE, false, "start", &label);
        }
        if let Some(from) = self.repeats_from.filter(|&from| from < self.steps.len()) {
            let y = top + ROW * from as f64 - 10.0;
            line(&mut out, (MARGIN, y), (width - MARGIN, y), "stroke-width=\"1.5\"", theme);
            text(&mut out, MARGIN, y - 3.0, 10.0, true, "start", "forever:");
        }
        text(&mut out, MARGIN, bottom + 22.0, SIZE, true, "start", &self.ending);
        svg::document((width, bottom + 40.0), (&self.title, &self.ending), theme, &out)
    }

    /// Where an agent's line stands.
    fn at(&self, agent: usize) -> f64 {
        let agent = agent.min(self.agents.len().saturating_sub(1));
        MARGIN + COLUMN * (agent as f64 + 0.5)
    }

    fn arrow(&self, out: &mut String, step: &SequenceStep, y: f64, theme: Theme) {
        let (from, to) = (self.at(step.from), self.at(step.to));
        let fill = svg::paint("fill", INK, theme);
        if from == to {
            let (x, y) = (number(from - 5.0), number(y - 5.0));
            let _ = write!(out, "<rect x=\"{x}\" y=\"{y}\" width=\"10\" height=\"10\" {fill}/>");
            return;
        }
        line(out, (from, y), (to, y), "stroke-width=\"1.5\"", theme);
        let back = if to > from { -8.0 } else { 8.0 };
        let _ = write!(
            out,
            "<path d=\"M{} {}l{} -4v8z\" {fill}/>",
            number(to),
            number(y),
            number(back)
        );
    }

    /// As text, for a terminal: a line for each step, its words to the right.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("{}\n\n    ", self.title);
        for agent in &self.agents {
            let agent: String = agent.chars().take(CELLS - 1).collect();
            let _ = write!(out, "{agent:^CELLS$}");
        }
        out = out.trim_end().to_owned() + "\n";
        for (nth, step) in self.steps.iter().enumerate() {
            if self.repeats_from == Some(nth) {
                out.push_str("    forever:\n");
            }
            let _ = writeln!(out, "{:>3} {}  {}", nth + 1, self.row(step), step.text);
        }
        let _ = writeln!(out, "    {}", self.ending);
        out
    }

    fn row(&self, step: &SequenceStep) -> String {
        let last = self.agents.len().saturating_sub(1);
        let place = |agent: usize| agent.min(last) * CELLS + CELLS / 2;
        let mut cells = vec![' '; self.agents.len() * CELLS];
        for agent in 0..self.agents.len() {
            cells[place(agent)] = '│';
        }
        let (from, to) = (place(step.from), place(step.to));
        let (left, right) = (from.min(to), from.max(to));
        if let Some(between) = cells.get_mut(left..=right) {
            between.fill('─');
        }
        if let Some(end) = cells.get_mut(to) {
            *end = match from.cmp(&to) {
                std::cmp::Ordering::Less => '▶',
                std::cmp::Ordering::Greater => '◀',
                std::cmp::Ordering::Equal => '●',
            };
        }
        cells.into_iter().collect()
    }
}

fn line(out: &mut String, from: (f64, f64), to: (f64, f64), style: &str, theme: Theme) {
    let paint = if style.contains("dash") { MUTED } else { INK };
    let _ = write!(
        out,
        "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {style} {}/>",
        number(from.0),
        number(from.1),
        number(to.0),
        number(to.1),
        svg::paint("stroke", paint, theme),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart() -> SequenceChart {
        let step = |from, to, text: &str| SequenceStep { from, to, text: text.to_owned() };
        SequenceChart {
            title: "A lost write".to_owned(),
            agents: ["OS", "core 0", "LLC"].map(str::to_owned).to_vec(),
            steps: vec![step(0, 2, "Migrate"), step(2, 1, "grant <M>"), step(1, 1, "writes")],
            repeats_from: Some(1),
            ending: "stale".to_owned(),
        }
    }

    #[test]
    fn text_shows_who_and_whom() {
        let expected = "\
A lost write

        OS       core 0      LLC
  1      ──────────────────────▶       Migrate
    forever:
  2      │          ◀───────────       grant <M>
  3      │          ●          │       writes
    stale
";
        let drawn = chart().text();
        let squeezed = |text: &str| {
            text.lines()
                .map(|l| l.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
        };
        assert_eq!(squeezed(&drawn), squeezed(expected));
        let column = |row: usize, c| drawn.lines().nth(row).unwrap().chars().position(|x| x == c);
        assert_eq!(column(3, '▶'), column(6, '│').map(|first| first + 2 * CELLS));
        assert_eq!(column(5, '◀'), column(6, '●'));
    }

    #[test]
    fn svg_is_well_formed() {
        let svg = chart().svg(Theme::Auto);
        assert!(svg.contains("grant &lt;M&gt;") && svg.contains("forever"));
        assert_eq!(svg.matches("<path").count(), 2, "two arrows");
        assert!(crate::raster::png(&svg, 1.0).is_ok(), "a renderer takes it");
    }

    #[test]
    fn wrong_indices_and_missing_agents_are_accepted() {
        let mut chart = chart();
        chart.steps[0].to = 99;
        assert!(chart.text().contains("Migrate"));
        chart.agents.clear();
        assert!(chart.text().contains("Migrate") && chart.svg(Theme::Dark).contains("Migrate"));
    }
}
