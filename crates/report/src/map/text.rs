//! Maps in the terminal: two pixels to a character with color, letters without.

use super::{Layout, MapError, MapSheet, MemoryMap};
use crate::number;
use crate::palette::{Rgb, Theme};
use crate::table::{emphasis, muted};
use crate::terminal::{Colors, Terminal};

/// Characters that one map may be high.
const ROWS_MAX: usize = 32;

impl MapSheet {
    /// The maps, one below the other, each as wide as the terminal allows; cells that share a
    /// place are mixed by their number. Ends with a legend.
    ///
    /// # Errors
    /// [`MapError`] if the sheet cannot be drawn.
    pub fn terminal(&self, terminal: Terminal) -> Result<String, MapError> {
        self.validate()?;
        let mut out = String::new();
        let lines = [(&self.title, true), (&self.subtitle, false)];
        heading(&mut out, &lines, terminal);
        for map in &self.maps {
            heading(&mut out, &[(&map.title, true), (&map.subtitle, false)], terminal);
            let picture = match terminal.paints() {
                false => letters(map, terminal),
                true => half_blocks(map, terminal),
            };
            out.push_str(&picture);
        }
        self.terminal_legend(&mut out, terminal);
        Ok(out)
    }

    fn terminal_legend(&self, out: &mut String, terminal: Terminal) {
        let entries = self.legend_entries();
        let widest = entries.iter().map(|e| e.class.name.chars().count()).max().unwrap_or(0);
        for entry in entries {
            let sign = match (terminal.paints(), entry.class.paint) {
                (false, _) | (_, None) => entry.class.letter.to_string(),
                (true, Some(paint)) => {
                    let color = paint.on(terminal.background);
                    format!("{}█\x1b[0m", foreground(color, terminal.colors))
                }
            };
            let name = terminal.text(&entry.class.name);
            let gap = widest - entry.class.name.chars().count();
            let sizes: Vec<String> = entry
                .sizes
                .iter()
                .map(|s| {
                    let bytes = terminal.text(&number::bytes(s.bytes));
                    format!("{bytes:>9}  {:>9}", terminal.text(&number::percent(s.share)))
                })
                .collect();
            // As many maps to a line as fit: beside the name, or below it if there is no room for one.
            let beside = widest + 4;
            let is_narrow = terminal.width < beside + 20;
            let indent = if is_narrow { 2 } else { beside };
            let to_a_line = ((terminal.width + 3).saturating_sub(indent) / 23).max(1);
            for (at, sizes) in sizes.chunks(to_a_line).enumerate() {
                match at {
                    0 if is_narrow => out.push_str(&format!("{sign} {name}\n{:indent$}", "")),
                    0 => out.push_str(&format!("{sign} {name}{:gap$}  ", "")),
                    _ => out.push_str(&format!("{:indent$}", "")),
                }
                out.push_str(sizes.join("   ").trim_end());
                out.push('\n');
            }
        }
        out.push_str(&muted(
            &crate::table::wrap(&terminal.text(&self.scale_text()), terminal.width, ""),
            terminal,
        ));
        out.push('\n');
    }
}

impl Terminal {
    /// Whether maps are painted with block characters; otherwise letters are drawn.
    fn paints(self) -> bool {
        self.unicode && self.colors != Colors::None
    }
}

fn heading(out: &mut String, lines: &[(&String, bool)], terminal: Terminal) {
    for (text, strong) in lines.iter().filter(|(text, _)| !text.is_empty()) {
        let text = terminal.text(text);
        out.push_str(&if *strong { emphasis(&text, terminal) } else { muted(&text, terminal) });
        out.push('\n');
    }
}

/// Fewer, larger places that share out the cells of a map evenly.
struct Shrunk<'a> {
    map: &'a MemoryMap,
    classes: Vec<u8>,
    layout: Layout,
    background: Theme,
}

impl<'a> Shrunk<'a> {
    /// At most `columns` by `rows` places, `aspect` times as many columns as rows.
    fn to_fit(
        map: &'a MemoryMap,
        (columns, rows): (usize, usize),
        aspect: f64,
        background: Theme,
    ) -> Shrunk<'a> {
        let classes: Vec<u8> = map.cells().map(|(_, class)| class).collect();
        let columns = columns.min((rows as f64 * aspect) as usize).max(2);
        let places = (columns * (columns as f64 / aspect) as usize).clamp(1, classes.len());
        let mut layout = Layout::new(places, aspect);
        // The rectangle may come out a little wider than requested.
        let mut fewer = places;
        while layout.columns > columns && fewer > 1 {
            fewer -= (fewer / 50).max(1);
            layout = Layout::new(fewer, aspect);
        }
        Shrunk { map, classes, layout, background }
    }

    /// The classes of the cells at one place.
    fn cells(&self, place: usize) -> &[u8] {
        let (all, places) = (self.classes.len(), self.layout.places.len());
        &self.classes[place * all / places..(place + 1) * all / places]
    }

    /// The mean of the cells' paints, by light; none where nothing is present.
    fn color(&self, place: usize) -> Option<Rgb> {
        let paints = self
            .cells(place)
            .iter()
            .filter_map(|class| self.map.classes[usize::from(*class)].paint);
        let (mut sum, mut count) = ([0.0; 3], 0.0);
        for Rgb(red, green, blue) in paints.map(|paint| paint.on(self.background)) {
            // Light adds up in proportion to about the square of the stored value.
            for (sum, part) in sum.iter_mut().zip([red, green, blue]) {
                *sum += f64::from(part).powi(2);
            }
            count += 1.0;
        }
        let [red, green, blue] = sum.map(|sum: f64| (sum / count).sqrt().round() as u8);
        (count > 0.0).then_some(Rgb(red, green, blue))
    }

    /// The letter of the commonest class; of the later class when two are as common.
    fn letter(&self, place: usize) -> char {
        let mut counts = [0usize; 64];
        self.cells(place).iter().for_each(|class| counts[usize::from(*class)] += 1);
        let (class, _) = counts.iter().enumerate().max_by_key(|(_, n)| **n).unwrap_or((0, &0));
        let class = &self.map.classes[class.min(self.map.classes.len() - 1)];
        if class.paint.is_some() { class.letter } else { ' ' }
    }
}

fn half_blocks(map: &MemoryMap, terminal: Terminal) -> String {
    let shrunk = Shrunk::to_fit(map, (terminal.width, 2 * ROWS_MAX), 2.0, terminal.background);
    let grid = shrunk.layout.grid(None, |place| shrunk.color(place));
    let columns = shrunk.layout.columns;
    let rows: Vec<&[Option<Rgb>]> = grid.chunks(columns).collect();
    let mut out = String::new();
    for pair in rows.chunks(2) {
        let below = |x: usize| pair.get(1).and_then(|row| row[x]);
        let mut last = (None, None);
        for (x, above) in pair[0].iter().enumerate() {
            let colors = (*above, below(x));
            if colors != last {
                out.push_str("\x1b[0m");
                out.push_str(&match colors {
                    (Some(a), Some(b)) => {
                        foreground(a, terminal.colors) + &background(b, terminal.colors)
                    }
                    (Some(one), None) | (None, Some(one)) => foreground(one, terminal.colors),
                    (None, None) => String::new(),
                });
                last = colors;
            }
            out.push(match colors {
                (None, None) => ' ',
                (None, Some(_)) => '▄',
                (Some(_), _) => '▀',
            });
        }
        out.push_str("\x1b[0m\n");
    }
    out
}

fn letters(map: &MemoryMap, terminal: Terminal) -> String {
    // A character is about twice as high as wide, so a picture of 2 : 1 has 4 columns to a row.
    let shrunk = Shrunk::to_fit(map, (terminal.width, ROWS_MAX), 4.0, terminal.background);
    let grid = shrunk.layout.grid(' ', |place| shrunk.letter(place));
    let rows = grid.chunks(shrunk.layout.columns);
    rows.map(|row| row.iter().collect::<String>().trim_end().to_owned() + "\n").collect()
}

fn foreground(color: Rgb, depth: Colors) -> String {
    escape(38, color, depth)
}

fn background(color: Rgb, depth: Colors) -> String {
    escape(48, color, depth)
}

fn escape(plane: u8, color: Rgb, depth: Colors) -> String {
    match depth {
        Colors::None => String::new(),
        Colors::Indexed => format!("\x1b[{plane};5;{}m", indexed(color)),
        Colors::True => format!("\x1b[{plane};2;{};{};{}m", color.0, color.1, color.2),
    }
}

/// The nearest of xterm's fixed colors: its cube of 6 × 6 × 6 and its 24 grays.
fn indexed(Rgb(red, green, blue): Rgb) -> u8 {
    const STEPS: [i32; 6] = [0, 95, 135, 175, 215, 255];
    let nearest =
        |part: u8| (0..6).min_by_key(|i| (STEPS[*i] - i32::from(part)).abs()).unwrap_or(0);
    let cube = [red, green, blue].map(nearest);
    let mean = (i32::from(red) + i32::from(green) + i32::from(blue)) / 3;
    let gray = ((mean - 8 + 5) / 10).clamp(0, 23);
    let far = |shown: [i32; 3]| -> i32 {
        shown.iter().zip([red, green, blue]).map(|(a, b)| (a - i32::from(b)).pow(2)).sum()
    };
    match far(cube.map(|i| STEPS[i])) <= far([8 + 10 * gray; 3]) {
        true => (16 + 36 * cube[0] + 6 * cube[1] + cube[2]) as u8,
        false => 232 + gray as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::{MapClass, MapSegment};
    use crate::palette::{FREE, MOVABLE};

    fn map(cells: Vec<u8>) -> MemoryMap {
        let class = |name: &str, paint, letter| MapClass {
            name: name.into(),
            definition: String::new(),
            paint,
            letter,
        };
        MemoryMap {
            title: "host".into(),
            frame_bytes: 4096,
            frames_per_cell: 512,
            segments: vec![MapSegment { start_pfn: 0, cells }],
            classes: vec![
                class("free", Some(FREE), '.'),
                class("movable", Some(MOVABLE[0]), 'm'),
                class("absent", None, ' '),
            ],
            ..MemoryMap::default()
        }
    }

    #[test]
    fn letters_show_the_commonest_class_and_fit_the_width() {
        let cells = (0..12_288u32).map(|cell| if cell < 6_144 { 0 } else { 1 }).collect();
        let sheet = MapSheet::from(map(cells));
        let text = sheet.terminal(Terminal { width: 80, ..Terminal::PLAIN }).unwrap();
        let rows: Vec<&str> = text.lines().skip(1).take_while(|l| !l.contains("free")).collect();
        assert!(rows.iter().all(|row| row.chars().count() <= 80), "{text}");
        let count = |letter| rows.iter().flat_map(|r| r.chars()).filter(|c| *c == letter).count();
        assert!(count('.').abs_diff(count('m')) <= 1, "{text}");
        assert!(count('.') > 400 && !text.contains('\x1b'));
    }

    #[test]
    fn a_legend_of_several_maps_fits_the_width() {
        let one = MapSheet::from(map(vec![0, 1, 2, 0]));
        let sheet = MapSheet { maps: vec![one.maps[0].clone(); 3], ..one };
        for (width, lines) in [(60, 2), (80, 1), (40, 3), (30, 4)] {
            let text = sheet.terminal(Terminal { width, ..Terminal::PLAIN }).unwrap();
            let lengths: Vec<usize> = text.lines().map(str::len).collect();
            assert!(lengths.iter().all(|length| *length <= width), "{text}");
            let free = text.lines().skip_while(|line| !line.starts_with(". free"));
            let of_free = free.take_while(|line| !line.starts_with("m ")).count();
            assert_eq!(of_free, lines, "{text}");
        }
    }

    #[test]
    fn half_blocks_paint_two_cells_to_a_character() {
        let sheet = MapSheet::from(map(vec![0, 1, 1, 0]));
        for (background, a, b) in [
            (Theme::Dark, FREE.dark, MOVABLE[0].dark),
            (Theme::Light, FREE.light, MOVABLE[0].light),
        ] {
            let terminal = Terminal { width: 80, colors: Colors::True, unicode: true, background };
            let text = sheet.terminal(terminal).unwrap();
            let picture: String =
                text.lines().skip(1).take_while(|l| !l.contains("free")).collect();
            // Two by two: the curve goes down, right, up.
            is_painted(&picture, a, b);
            let legend = format!("\x1b[38;2;{};{};{}m█\x1b[0m free", a.0, a.1, a.2);
            assert!(text.contains(&legend), "{text}");
        }
    }

    fn is_painted(picture: &str, a: Rgb, b: Rgb) {
        let pair = |p: Rgb, q: Rgb| {
            format!("\x1b[38;2;{};{};{}m\x1b[48;2;{};{};{}m▀", p.0, p.1, p.2, q.0, q.1, q.2)
        };
        assert_eq!(
            picture,
            format!("\x1b[0m{}\x1b[0m{}\x1b[0m", pair(a, b), pair(a, b)).replace(
                &format!("{}\x1b[0m{}", pair(a, b), pair(a, b)),
                &format!("{}▀", pair(a, b)),
            )
        );
    }

    #[test]
    fn the_256_colors_are_the_nearest() {
        assert_eq!(indexed(Rgb(0, 0, 0)), 16);
        assert_eq!(indexed(Rgb(255, 255, 255)), 231);
        assert_eq!(indexed(Rgb(255, 0, 0)), 196);
        assert_eq!(indexed(Rgb(118, 118, 118)), 243);
    }
}
