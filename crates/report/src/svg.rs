//! SVG elements that the pictures share.

use std::fmt::Write;

use crate::palette::{GROUND, INK, Paint, Theme};

/// Inter is bundled for PNG files; a browser that lacks it takes what is near.
const FONTS: &str = "Inter, system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

/// Escapes text for an element or a quoted attribute.
///
/// Characters that XML 1.0 forbids (most controls) become U+FFFD.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\t' | '\n' | '\r' => out.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A length with at most two decimals.
pub fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    match text.trim_end_matches('0').trim_end_matches('.') {
        "-0" => "0".to_owned(),
        text => text.to_owned(),
    }
}

/// The attribute that gives `property` (`fill`, `stroke`) the paint under a theme.
pub fn paint(property: &str, paint: Paint, theme: Theme) -> String {
    let (light, dark) = (paint.light.hex(), paint.dark.hex());
    match theme {
        Theme::Light => format!("{property}=\"{light}\""),
        Theme::Dark => format!("{property}=\"{dark}\""),
        Theme::Auto => {
            format!("{property}=\"{light}\" style=\"{property}:light-dark({light},{dark})\"")
        }
    }
}

/// A line of text on a picture.
pub struct Text<'a> {
    pub x: f64,
    /// The base line.
    pub y: f64,
    /// In pixels.
    pub size: f64,
    pub strong: bool,
    pub paint: Paint,
    /// `start`, `middle` or `end`.
    pub anchor: &'a str,
    pub text: &'a str,
}

impl Text<'_> {
    pub fn draw(&self, out: &mut String, theme: Theme) {
        let _ = write!(
            out,
            "<text x=\"{}\" y=\"{}\" font-size=\"{}\"{}{} {}>{}</text>",
            number(self.x),
            number(self.y),
            number(self.size),
            if self.strong { " font-weight=\"600\"" } else { "" },
            match self.anchor {
                "start" => String::new(),
                anchor => format!(" text-anchor=\"{anchor}\""),
            },
            paint("fill", self.paint, theme),
            escape(self.text),
        );
    }
}

/// About how wide a text is in Inter, in pixels; good to a few percent.
pub fn text_width(text: &str, size: f64, strong: bool) -> f64 {
    let em = |c: char| match c {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.27,
        ' ' | 'f' | 't' | 'r' | '(' | ')' | '-' | '/' => 0.36,
        '\u{2009}' | '\u{202f}' => 0.2,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '—' => 0.88,
        'A'..='Z' | '0'..='9' | '–' | '·' | '+' | '<' | '>' | '=' => 0.66,
        'a'..='z' => 0.57,
        c if (c as u32) < 0x2e80 => 0.66,
        _ => 1.0,
    };
    let ems: f64 = text.chars().map(em).sum();
    ems * size * if strong { 1.05 } else { 1.0 }
}

/// A complete SVG file: `content` on a background, with a title and description for readers who
/// hear it.
pub fn document(
    (width, height): (f64, f64),
    (title, description): (&str, &str),
    theme: Theme,
    content: &str,
) -> String {
    let (w, h) = (number(width), number(height));
    let scheme = match theme {
        Theme::Auto => " style=\"color-scheme:light dark\"",
        Theme::Light | Theme::Dark => "",
    };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" \
         viewBox=\"0 0 {w} {h}\" font-family=\"{FONTS}\" role=\"img\"{scheme}>\n\
         <title>{}</title>\n<desc>{}</desc>\n<rect width=\"{w}\" height=\"{h}\" {}/>\n\
         <g {}>\n{content}</g>\n</svg>\n",
        escape(title),
        escape(description),
        paint("fill", GROUND, theme),
        paint("fill", INK, theme),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_element() {
        let escaped = escape("</text><script a='b' c=\"d\">&\x1b");
        let entities = "&lt;/text&gt;&lt;script a=&#39;b&#39; c=&quot;d&quot;&gt;&amp;\u{fffd}";
        assert_eq!(escaped, entities);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(1.0), "1");
        assert_eq!(number(0.5), "0.5");
        assert_eq!(number(-0.001), "0");
        assert_eq!(number(10.126), "10.13");
        assert_eq!(number(100.0), "100");
    }
}
