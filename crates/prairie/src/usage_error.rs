//! Errors in the command line, as one line like all others.

use std::fmt;

use clap::error::{ContextKind, ContextValue};

/// Arguments that contradict each other in a way that clap cannot see. The command ends with 2, as it
/// does after an error that clap finds.
#[derive(Debug)]
pub struct Misuse(pub String);

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

/// Returns a [`Misuse`], as `anyhow::bail` returns a failure.
macro_rules! refuse {
    ($($text:tt)*) => {
        return Err($crate::usage_error::Misuse(format!($($text)*)).into())
    };
}
pub(crate) use refuse;

/// What is wrong, with the nearest name if there is one. clap would print a paragraph each.
pub fn line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n");
    let words = |paragraph: &str| paragraph.split_whitespace().collect::<Vec<_>>().join(" ");
    let first = words(paragraphs.next().unwrap_or_default());
    let mut line = in_plain_words(first.strip_prefix("error: ").unwrap_or(&first), error);
    let tips = paragraphs.filter_map(|paragraph| paragraph.trim().strip_prefix("tip: "));
    // That a value may begin with a dash is no help for an option that is not there.
    for tip in tips.filter(|tip| !tip.starts_with("to pass ")) {
        line = format!("{line}; {}", words(tip));
    }
    line
}

/// The line with what was expected, in place of the reason that a library gives.
fn in_plain_words(line: &str, error: &clap::Error) -> String {
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else {
        return line.to_owned();
    };
    // The range of a number, as in `0 is not in 2..=1000`.
    let range = format!(": {value} is not in ");
    if let Some((before, range)) = line.split_once(&range) {
        return match range.split_once("..") {
            Some((least, "18446744073709551615")) => format!("{before}: expected at least {least}"),
            Some((least, most)) => {
                format!("{before}: expected {least} to {}", most.trim_start_matches('='))
            }
            None => line.to_owned(),
        };
    }
    let Some((before, reason)) = line.rsplit_once(": ") else { return line.to_owned() };
    let expected = match reason {
        "invalid digit found in string" | "cannot parse integer from empty string" => {
            "a whole number"
        }
        "number too large to fit in target type" => "a smaller number",
        "invalid float literal" | "cannot parse float from empty string" => "a number",
        "invalid socket address syntax" => "an address and a port, such as 127.0.0.1:9751",
        reason if reason.starts_with("a ") || reason.starts_with("at least ") => reason,
        _ => return line.to_owned(),
    };
    format!("{before}: expected {expected}")
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command, value_parser};

    use super::line;

    fn error(arguments: &[&str]) -> String {
        let command = Command::new("c")
            .arg(
                Arg::new("n")
                    .long("number")
                    .value_name("N")
                    .value_parser(value_parser!(u64).range(2..)),
            )
            .arg(Arg::new("share").long("share").value_name("X").value_parser(value_parser!(f64)))
            .arg(Arg::new("file").required(true).value_name("FILE"))
            .arg(Arg::new("other").required(true).value_name("OTHER"));
        line(&command.try_get_matches_from([&["c"], arguments].concat()).unwrap_err())
    }

    #[test]
    fn each_error_is_one_line() {
        let number = "invalid value 'x' for '--number <N>': expected a whole number";
        let least = "invalid value '1' for '--number <N>': expected at least 2";
        let share = "invalid value 'x' for '--share <X>': expected a number";
        let similar = "unexpected argument '--numbr' found; a similar argument exists: '--number'";
        let missing = "the following required arguments were not provided: <FILE> <OTHER>";
        let cases: [(&[&str], &str); 5] = [
            (&["--number", "x"], number),
            (&["--number", "1"], least),
            (&["--share", "x"], share),
            (&["--numbr", "3"], similar),
            (&[], missing),
        ];
        for (arguments, expected) in cases {
            assert_eq!(error(arguments), expected, "{arguments:?}");
        }
    }
}
