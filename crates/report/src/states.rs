//! State diagrams: states in a row, and what leads from one to another.

use std::fmt::Write;

use crate::palette::{INK, MUTED, Paint, Theme};
use crate::svg::{self, Text, number, text_width};

/// What leads from one state to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateEdge {
    /// From which state, as an index.
    pub from: usize,
    /// To which.
    pub to: usize,
    /// A short description.
    pub text: String,
}

/// States in a row with arrows between them: to the next above, back or past others below, to
/// itself as a loop above.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChart {
    /// The caption.
    pub title: String,
    /// From left to right: a name, and what is so in the state.
    pub states: Vec<(String, String)>,
    /// Arrows; those of one pair of states share a line. Indices beyond the states are left out.
    pub edges: Vec<StateEdge>,
}

const MARGIN: f64 = 24.0;
const SIZE: f64 = 13.0;
/// Height of a state's box, and where its upper edge is.
const BOX: f64 = 46.0;
const TOP: f64 = 110.0;
/// Between the lines of arrows that go back.
const LANE: f64 = 34.0;

impl StateChart {
    /// As SVG.
    #[must_use]
    pub fn svg(&self, theme: Theme) -> String {
        let mut out = String::new();
        text(&mut out, (MARGIN, 30.0), 15.0, true, "start", &self.title, theme);
        let places = self.places();
        for ((name, words), &(left, right)) in self.states.iter().zip(&places) {
            let (x, width) = (number(left), number(right - left));
            let stroke = svg::paint("stroke", INK, theme);
            let _ = write!(
                out,
                "<rect x=\"{x}\" y=\"{TOP}\" width=\"{width}\" height=\"{BOX}\" rx=\"6\" \
                 fill=\"none\" stroke-width=\"1.5\" {stroke}/>"
            );
            let middle = (left + right) / 2.0;
            text(&mut out, (middle, TOP + 20.0), SIZE, true, "middle", name, theme);
            text(&mut out, (middle, TOP + 37.0), 11.0, false, "middle", words, theme);
        }
        let mut lanes = 0;
        for (from, to, words) in self.arrows() {
            let (Some(&from_place), Some(&to_place)) = (places.get(from), places.get(to)) else {
                continue;
            };
            if to == from + 1 {
                let y = TOP + BOX / 2.0;
                path(
                    &mut out,
                    &format!("M{} {y}H{}", number(from_place.1), number(to_place.0)),
                    theme,
                );
                head(&mut out, (to_place.0, y), Head::Right, theme);
                let middle = (from_place.1 + to_place.0) / 2.0;
                text(&mut out, (middle, y - 8.0), SIZE, false, "middle", &words, theme);
            } else if from == to {
                let middle = (from_place.0 + from_place.1) / 2.0;
                let (left, right, above) = (middle - 18.0, middle + 18.0, TOP - 26.0);
                let line = format!("M{left} {TOP}V{above}H{right}V{TOP}");
                path(&mut out, &line, theme);
                head(&mut out, (right, TOP), Head::Down, theme);
                text(&mut out, (middle, above - 7.0), SIZE, false, "middle", &words, theme);
            } else {
                lanes += 1;
                let aside = 12.0 * f64::from(lanes);
                let middle = |(left, right): (f64, f64)| (left + right) / 2.0;
                // A lower line ends further left, so that it crosses none above it.
                let (a, b) = (middle(from_place) - aside, middle(to_place) + 24.0 - aside);
                let (low, foot) = (TOP + BOX + LANE * f64::from(lanes), TOP + BOX);
                let (a, b) = (number(a), b);
                path(&mut out, &format!("M{a} {foot}V{low}H{}V{foot}", number(b)), theme);
                head(&mut out, (b, foot), Head::Up, theme);
                let at = (middle(from_place) + middle(to_place)) / 2.0;
                text(&mut out, (at, low - 6.0), SIZE, false, "middle", &words, theme);
            }
        }
        let right = places.last().map_or(0.0, |&(_, right)| right);
        let title = text_width(&self.title, 15.0, true) + MARGIN;
        let height = TOP + BOX + LANE * f64::from(lanes) + MARGIN;
        let size = (right.max(title) + MARGIN, height);
        svg::document(size, (&self.title, &self.sentence()), theme, &out)
    }

    /// Left and right edge of each state; the label of the arrow to the next fits between.
    fn places(&self) -> Vec<(f64, f64)> {
        let mut left = MARGIN;
        let mut places = Vec::new();
        for (nth, (name, words)) in self.states.iter().enumerate() {
            let inner = text_width(name, SIZE, true).max(text_width(words, 11.0, false));
            let right = left + inner + 24.0;
            places.push((left, right));
            let next =
                self.arrows().into_iter().find(|&(from, to, _)| from == nth && to == nth + 1);
            left = right + 28.0 + next.map_or(0.0, |(.., words)| text_width(&words, SIZE, false));
        }
        places
    }

    /// One arrow for each pair of states, with all its labels.
    fn arrows(&self) -> Vec<(usize, usize, String)> {
        let mut arrows: Vec<(usize, usize, String)> = Vec::new();
        for StateEdge { from, to, text } in &self.edges {
            match arrows.iter_mut().find(|arrow| (arrow.0, arrow.1) == (*from, *to)) {
                Some((.., words)) => *words = format!("{words}; {text}"),
                None => arrows.push((*from, *to, text.clone())),
            }
        }
        arrows
    }

    /// For who hears it.
    fn sentence(&self) -> String {
        let name = |state: usize| self.states.get(state).map_or("?", |(name, _)| name.as_str());
        let edge = |edge: &StateEdge| {
            format!("from {} to {}: {}", name(edge.from), name(edge.to), edge.text)
        };
        self.edges.iter().map(edge).collect::<Vec<_>>().join("; ")
    }
}

fn text(
    out: &mut String,
    (x, y): (f64, f64),
    size: f64,
    strong: bool,
    anchor: &str,
    text: &str,
    theme: Theme,
) {
    Text { x, y, size, strong, paint: INK, anchor, text }.draw(out, theme);
}

fn path(out: &mut String, line: &str, theme: Theme) {
    let paint = |paint: Paint| svg::paint("stroke", paint, theme);
    let _ = write!(out, "<path d=\"{line}\" fill=\"none\" stroke-width=\"1.5\" {}/>", paint(MUTED));
}

/// Where an arrow points.
enum Head {
    Right,
    Down,
    Up,
}

fn head(out: &mut String, (x, y): (f64, f64), towards: Head, theme: Theme) {
    let rest = match towards {
        Head::Right => "l-8 -4v8z",
        Head::Down => "l-4 -8h8z",
        Head::Up => "l-4 8h8z",
    };
    let fill = svg::paint("fill", MUTED, theme);
    let _ = write!(out, "<path d=\"M{} {}{rest}\" {fill}/>", number(x), number(y));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(from: usize, to: usize, text: &str) -> StateEdge {
        StateEdge { from, to, text: text.to_owned() }
    }

    fn chart() -> StateChart {
        let state = |name: &str| (name.to_owned(), "words".to_owned());
        StateChart {
            title: "Life".to_owned(),
            states: vec![state("free"), state("used"), state("full")],
            edges: vec![
                edge(0, 1, "take"),
                edge(1, 2, "fill"),
                edge(1, 2, "stuff"),
                edge(2, 2, "wait"),
                edge(2, 0, "<clear>"),
            ],
        }
    }

    #[test]
    fn every_pair_of_states_has_one_arrow() {
        let svg = chart().svg(Theme::Auto);
        assert!(svg.contains(">fill; stuff<") && svg.contains("&lt;clear&gt;"));
        assert_eq!(svg.matches("fill=\"none\" stroke-width").count(), 3 + 4, "boxes and arrows");
        assert_eq!(svg.matches("z\"").count(), 4, "heads");
        assert!(svg.contains("from full to free: &lt;clear&gt;"));
        assert!(crate::raster::png(&svg, 1.0).is_ok(), "a renderer takes it");
    }

    /// The label of an arrow to the next state fits between the two boxes.
    #[test]
    fn boxes_leave_room_for_words() {
        let places = chart().places();
        let between = places[2].0 - places[1].1;
        assert!(between > text_width("fill; stuff", SIZE, false));
        assert!(places.windows(2).all(|pair| pair[0].1 < pair[1].0));
    }

    #[test]
    fn wrong_indices_and_missing_states_are_accepted() {
        let mut chart = chart();
        chart.edges.push(edge(7, 0, "from nowhere"));
        assert!(!chart.svg(Theme::Light).contains(">from nowhere<"));
        chart.states.clear();
        assert!(chart.svg(Theme::Light).contains("Life"));
    }
}
