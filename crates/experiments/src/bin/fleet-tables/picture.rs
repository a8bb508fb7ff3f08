//! Panels of lines with a band of one standard deviation, as SVG.

use std::fmt::Write;

/// One allocator: pinned memory in percent, mean, and standard deviation of memory in percent.
pub struct Line {
    /// The allocator.
    pub name: String,
    /// The points, by rising x.
    pub points: Vec<(f64, f64, f64)>,
}

/// One block size.
pub struct Panel {
    /// The heading.
    pub title: String,
    /// The lines.
    pub lines: Vec<Line>,
}

const WIDTH: f64 = 300.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 48.0;
const TOP: f64 = 34.0;
const GAP: f64 = 66.0;
/// Colors that remain distinct without red-green vision.
const COLORS: [&str; 2] = ["#d55e00", "#0072b2"];

/// Pinned memory from 0 to 1 %, on a square-root scale that separates the small shares.
fn x(pins: f64) -> f64 {
    pins.max(0.0).sqrt() * WIDTH
}

fn y(percent: f64) -> f64 {
    TOP + HEIGHT - percent.clamp(0.0, 100.0) / 100.0 * HEIGHT
}

/// The picture.
pub fn draw(panels: &[Panel]) -> String {
    let width = LEFT + panels.len() as f64 * (WIDTH + GAP) - GAP + 24.0;
    let height = TOP + HEIGHT + 74.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <title>Potential contiguity by pinned memory</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (at, panel) in panels.iter().enumerate() {
        let left = LEFT + at as f64 * (WIDTH + GAP);
        let _ = writeln!(out, "<g transform=\"translate({left} 0)\">");
        axes(&mut out, &panel.title);
        for (line, color) in panel.lines.iter().zip(COLORS) {
            line.draw(&mut out, color);
        }
        out.push_str("</g>\n");
    }
    let mut at = LEFT;
    for (line, color) in panels.first().map_or(&[][..], |panel| &panel.lines).iter().zip(COLORS) {
        let (y, text) = (TOP + HEIGHT + 58.0, &line.name);
        let _ = writeln!(
            out,
            "<path d=\"M{at} {y}h24\" stroke=\"{color}\" stroke-width=\"2.5\"/>\
             <text x=\"{}\" y=\"{}\">{text}</text>",
            at + 30.0,
            y + 4.0
        );
        at += 120.0;
    }
    let _ = writeln!(
        out,
        "<text x=\"{at}\" y=\"{}\" fill=\"#555\">bands: one standard deviation over the seeds</text>",
        TOP + HEIGHT + 62.0
    );
    out.push_str("</svg>\n");
    out
}

fn axes(out: &mut String, title: &str) {
    let _ = writeln!(out, "<text y=\"20\" font-weight=\"bold\">{title}</text>");
    for percent in [0.0, 25.0, 50.0, 75.0, 100.0] {
        let y = y(percent);
        let _ = writeln!(
            out,
            "<path d=\"M0 {y}H{WIDTH}\" stroke=\"#ddd\"/>\
             <text x=\"-8\" y=\"{}\" text-anchor=\"end\">{percent} %</text>",
            y + 4.0
        );
    }
    for pins in [0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0] {
        let (x, bottom) = (x(pins), TOP + HEIGHT);
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {bottom}v5\" stroke=\"#555\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\" font-size=\"10\">{pins}</text>",
            bottom + 18.0
        );
    }
    let _ = writeln!(
        out,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">pinned memory, % (square-root scale)</text>",
        WIDTH / 2.0,
        TOP + HEIGHT + 36.0
    );
}

impl Line {
    fn draw(&self, out: &mut String, color: &str) {
        let point = |pins: f64, percent: f64| format!("{:.1} {:.1}", x(pins), y(percent));
        let upper = self.points.iter().map(|&(at, mean, spread)| point(at, mean + spread));
        let lower = self.points.iter().rev().map(|&(at, mean, spread)| point(at, mean - spread));
        let band: Vec<String> = upper.chain(lower).collect();
        let _ =
            writeln!(out, "<path d=\"M{}Z\" fill=\"{color}\" opacity=\"0.22\"/>", band.join("L"));
        let line: Vec<String> = self.points.iter().map(|&(at, mean, _)| point(at, mean)).collect();
        let _ = writeln!(
            out,
            "<path d=\"M{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2.5\"/>",
            line.join("L")
        );
        for &(at, mean, _) in &self.points {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.6\" fill=\"{color}\"/>",
                x(at),
                y(mean)
            );
        }
    }
}
