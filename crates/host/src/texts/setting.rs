//! One-line files of `/sys` and `/proc/sys`: a number, or a choice with brackets around what
//! holds (`always [madvise] never`).

use super::lines;
use crate::error::ParseError;

/// What such a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Setting {
    /// One of several words.
    Choice {
        /// The one in brackets.
        chosen: String,
        /// All, in the file's order.
        choices: Vec<String>,
    },
    /// A word, a number or several, without brackets.
    Plain(String),
}

impl Setting {
    /// What holds now: the chosen word, or the whole text.
    pub fn value(&self) -> &str {
        match self {
            Setting::Choice { chosen, .. } => chosen,
            Setting::Plain(text) => text,
        }
    }
}

/// Parses the text of the setting `file`.
///
/// # Errors
/// [`ParseError`] where the text is empty, has more than one line, or has brackets that do not
/// enclose exactly one word.
pub fn parse(file: &str, text: &str) -> Result<Setting, ParseError> {
    let expected = "one line: a value, or words with one in brackets";
    let mut lines = lines(file, text);
    let Some(line) = lines.next() else {
        return Err(super::ends_early(file, text, expected));
    };
    if let Some(second) = lines.next() {
        return Err(second.error("the end"));
    }
    let text = line.text.trim();
    if !text.contains(['[', ']']) {
        return Ok(Setting::Plain(text.to_owned()));
    }
    let inner = |word: &str| word.strip_prefix('[')?.strip_suffix(']').map(str::to_owned);
    let words = || text.split_ascii_whitespace();
    let mut chosen = words().filter_map(inner);
    let (Some(chosen), None) = (chosen.next(), chosen.next()) else {
        return Err(line.error(expected));
    };
    let choices = words().map(|word| inner(word).unwrap_or_else(|| word.to_owned()));
    let choices: Vec<String> = choices.collect();
    if choices.iter().any(|word| word.is_empty() || word.contains(['[', ']'])) {
        return Err(line.error(expected));
    }
    Ok(Setting::Choice { chosen, choices })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_and_plain_values() {
        let setting = parse("enabled", "always defer [madvise] never\n").unwrap();
        assert_eq!(setting.value(), "madvise");
        let Setting::Choice { choices, .. } = setting else { panic!("not a choice") };
        assert_eq!(choices, ["always", "defer", "madvise", "never"]);
        assert_eq!(parse("x", "4096\n").unwrap(), Setting::Plain("4096".into()));
        assert_eq!(parse("x", "256\t256\t32\n").unwrap().value(), "256\t256\t32");
    }

    #[test]
    fn brackets_must_enclose_one_word() {
        for bad in ["", "\n", "[a] [b]", "a [b c] d", "a ]b[", "[]", "a\nb", "[a]]"] {
            assert!(parse("x", bad).is_err(), "{bad:?}");
        }
    }
}
