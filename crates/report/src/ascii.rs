//! Prairie's typography in ASCII, for pipes and for locales without UTF-8.

/// `text` with every typographic sign that Prairie writes replaced by ASCII. Numbers lose the
/// spaces between their digits, so that a script can parse them. Other characters stay: names of
/// files and processes are not ours to change.
///
/// ```
/// assert_eq!(prairie_report::ascii("−12\u{202f}345\u{202f}µs"), "-12345 us");
/// ```
pub fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut last = None;
    while let Some(character) = characters.next() {
        match character {
            '\u{202f}' => {
                let is_digit = |c: Option<&char>| c.is_some_and(char::is_ascii_digit);
                if !(is_digit(last.as_ref()) && is_digit(characters.peek())) {
                    out.push(' ');
                }
            }
            ' ' if characters.peek() == Some(&'·') => {
                characters.next();
                out.push(',');
            }
            sign => match replacement(sign) {
                Some(text) => out.push_str(text),
                None => out.push(sign),
            },
        }
        last = Some(character);
    }
    out
}

fn replacement(sign: char) -> Option<&'static str> {
    Some(match sign {
        '\u{a0}' => " ",
        '−' | '–' | '—' | '─' => "-",
        '━' => "=",
        '│' => "|",
        '·' => ",",
        '…' => "...",
        '←' => "<-",
        '→' => "->",
        '◀' => "<",
        '▶' => ">",
        '●' => "*",
        '×' => "x",
        '±' => "+/-",
        '≤' => "<=",
        '≥' => ">=",
        'µ' => "u",
        '²' => "^2",
        // Charts: the course of a line, and bars.
        '▁' => "_",
        '▂' => ".",
        '▃' => ",",
        '▄' => "-",
        '▅' => "=",
        '▆' => "+",
        '▇' => "*",
        '█' => "#",
        '▉' | '▊' | '▋' | '▌' | '▍' | '▎' | '▏' => "|",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::number;

    #[test]
    fn numbers_can_be_parsed() {
        assert_eq!(ascii(&number::count(1_234_567)), "1234567");
        assert_eq!(ascii(&number::bytes(2 << 20)), "2 MiB");
        assert_eq!(ascii(&number::percent(-0.05)), "-5.0 %");
        assert_eq!(ascii(&number::percent(1e-9)), "< 0.001 %");
        assert_eq!(ascii(&number::duration(125_000_000_000)), "2 min 5 s");
        assert_eq!(ascii(number::NONE), "-");
        assert_eq!(ascii("4 cores · 1\u{202f}000 requests"), "4 cores, 1000 requests");
    }

    #[test]
    fn names_stay_as_they_are() {
        assert_eq!(ascii("größe.parquet"), "größe.parquet");
    }
}
