//! Conditions on a comparison, for tests that fail when a measure gets worse.
//!
//! ```text
//! polluted > 5 %                  rose by more than 5 % of what it was
//! linux.failed_kernel >= 10       rose by 10 or more
//! after(coverage) < 50 %          is below 0.5 now
//! coverage < -10 % and not (after(coverage) > 90 %)
//! "systems[linux].unusable" > 0.1 or before(free) == 0
//! ```
//!
//! A bare name is a change: relative with `%`, else absolute. `before(NAME)` and `after(NAME)` are
//! means; with `%` they are shares in percent. Of a name with several rows one is enough. Where both
//! sides have several documents, a change counts only if it exceeds their spread.

use std::fmt;

use crate::comparison::{Change, Comparison};
use crate::rows;

/// A condition that was parsed.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition(Node);

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Or(Vec<Node>),
    And(Vec<Node>),
    Not(Box<Node>),
    Test(Test),
}

#[derive(Clone, Debug, PartialEq)]
struct Test {
    side: Side,
    name: String,
    is: Relation,
    limit: f64,
    percent: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Before,
    After,
    Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Less,
    AtMost,
    Greater,
    AtLeast,
    Equal,
    Unequal,
}

/// What a condition found.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Whether it holds.
    pub holds: bool,
    /// The rows that a test in it found, with their values.
    pub because: Vec<String>,
}

/// Why a text is no condition: where, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Characters before the place.
    pub at: usize,
    /// What was expected.
    pub expected: &'static str,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expected {} after {} characters", self.expected, self.at)
    }
}

impl std::error::Error for ParseError {}

/// Parentheses and `not` within each other; deeper ones are refused, not followed.
const MAX_DEPTH: usize = 32;

impl Condition {
    /// Parses a condition.
    ///
    /// # Errors
    /// [`ParseError`] with the place.
    pub fn parse(text: &str) -> Result<Condition, ParseError> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let node = parser.or()?;
        match parser.rest().is_empty() {
            true => Ok(Condition(node)),
            false => Err(parser.error("`and`, `or`, or the end")),
        }
    }

    /// Judges a comparison.
    ///
    /// # Errors
    /// The name that no row has.
    pub fn judge(&self, comparison: &Comparison) -> Result<Finding, String> {
        let mut because = Vec::new();
        let holds = judge(&self.0, comparison, &mut because)?;
        Ok(Finding { holds, because })
    }
}

/// Every test is made, so that a wrong name is found whatever the others say.
fn judge(node: &Node, of: &Comparison, because: &mut Vec<String>) -> Result<bool, String> {
    match node {
        Node::Or(nodes) => {
            nodes.iter().try_fold(false, |any, node| Ok(judge(node, of, because)? || any))
        }
        Node::And(nodes) => {
            nodes.iter().try_fold(true, |all, node| Ok(judge(node, of, because)? && all))
        }
        Node::Not(node) => Ok(!judge(node, of, &mut Vec::new())?),
        Node::Test(test) => test.judge(of, because),
    }
}

impl Test {
    fn judge(&self, of: &Comparison, because: &mut Vec<String>) -> Result<bool, String> {
        let names = of.changes.iter().map(|change| &change.name);
        let rows = rows::named(names, &self.name);
        if rows.is_empty() {
            return Err(self.name.clone());
        }
        let mut any = false;
        for change in of.changes.iter().filter(|change| rows.contains(&&change.name)) {
            let Some(value) = self.value(change) else { continue };
            if self.is.holds(value, self.limit) {
                any = true;
                because.push(self.shown(change, value));
            }
        }
        Ok(any)
    }

    /// The value of a row that is compared; `None` where there is none, or a change that does not
    /// exceed the spread.
    fn value(&self, change: &Change) -> Option<f64> {
        let scale = if self.percent { 100.0 } else { 1.0 };
        match self.side {
            Side::Before => Some(change.before?.mean * scale),
            Side::After => Some(change.after?.mean * scale),
            Side::Change if change.exceeds_spread == Some(false) => Some(0.0),
            Side::Change if self.percent => match (change.relative, change.difference) {
                (Some(relative), _) => Some(relative * 100.0),
                // From nothing to something: more than any percentage.
                (None, Some(difference)) if difference != 0.0 => {
                    Some(difference.signum() * f64::INFINITY)
                }
                (None, difference) => difference,
            },
            Side::Change => change.difference,
        }
    }

    fn shown(&self, change: &Change, value: f64) -> String {
        let unit = if self.percent { " %" } else { "" };
        let side = match self.side {
            Side::Before => "is",
            Side::After => "is now",
            Side::Change => "changed by",
        };
        format!("{} {side} {}{unit}", change.name, (value * 1e4).round() / 1e4)
    }
}

impl Relation {
    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Relation::Less => value < limit,
            Relation::AtMost => value <= limit,
            Relation::Greater => value > limit,
            Relation::AtLeast => value >= limit,
            Relation::Equal => value == limit,
            Relation::Unequal => value != limit,
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    /// Bytes that are read.
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn or(&mut self) -> Result<Node, ParseError> {
        let mut nodes = vec![self.and()?];
        while self.word("or") {
            nodes.push(self.and()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Or(nodes) })
    }

    fn and(&mut self) -> Result<Node, ParseError> {
        let mut nodes = vec![self.not()?];
        while self.word("and") {
            nodes.push(self.not()?);
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::And(nodes) })
    }

    fn not(&mut self) -> Result<Node, ParseError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("fewer parentheses"));
        }
        let node = if self.word("not") {
            Node::Not(Box::new(self.not()?))
        } else if self.sign("(") {
            let node = self.or()?;
            if !self.sign(")") {
                return Err(self.error("`)`"));
            }
            node
        } else {
            Node::Test(self.test()?)
        };
        self.depth -= 1;
        Ok(node)
    }

    fn test(&mut self) -> Result<Test, ParseError> {
        let (side, name) = self.operand()?;
        let is = self.relation()?;
        let limit = self.number()?;
        let percent = self.sign("%");
        Ok(Test { side, name, is, limit, percent })
    }

    /// `NAME`, `before(NAME)`, or `after(NAME)`.
    fn operand(&mut self) -> Result<(Side, String), ParseError> {
        let name = self.name()?;
        let side = match name.as_str() {
            "before" => Side::Before,
            "after" => Side::After,
            "change" => Side::Change,
            _ => return Ok((Side::Change, name)),
        };
        if !self.sign("(") {
            return Ok((Side::Change, name));
        }
        let name = self.name()?;
        match self.sign(")") {
            true => Ok((side, name)),
            false => Err(self.error("`)`")),
        }
    }

    /// A name: letters, digits, and `_.[]:/#+`, or anything between double quotes.
    fn name(&mut self) -> Result<String, ParseError> {
        let rest = self.rest();
        if let Some(quoted) = rest.strip_prefix('"') {
            let Some(end) = quoted.find('"') else { return Err(self.error("a closing quote")) };
            let name = quoted[..end].to_owned();
            self.advance(end + 2);
            return Ok(name);
        }
        let is_part = |c: char| c.is_alphanumeric() || "_.[]:/#+".contains(c);
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let name = rest[..end].to_owned();
        let is_name = name.starts_with(|c: char| c.is_alphabetic());
        if !is_name || matches!(name.as_str(), "and" | "or" | "not") {
            return Err(self.error("a name"));
        }
        self.advance(end);
        Ok(name)
    }

    fn relation(&mut self) -> Result<Relation, ParseError> {
        const SIGNS: [(&str, Relation); 6] = [
            (">=", Relation::AtLeast),
            ("<=", Relation::AtMost),
            ("==", Relation::Equal),
            ("!=", Relation::Unequal),
            (">", Relation::Greater),
            ("<", Relation::Less),
        ];
        let found = SIGNS.into_iter().find(|(sign, _)| self.sign(sign));
        found.map(|(_, relation)| relation).ok_or_else(|| self.error("one of > >= < <= == !="))
    }

    fn number(&mut self) -> Result<f64, ParseError> {
        let rest = self.rest();
        let is_part = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let number = rest[..end].parse().ok().filter(|number: &f64| number.is_finite());
        let number = number.ok_or_else(|| self.error("a number"))?;
        self.advance(end);
        Ok(number)
    }

    /// Takes a sign, if it is next.
    fn sign(&mut self, sign: &str) -> bool {
        let is_next = self.rest().starts_with(sign);
        if is_next {
            self.advance(sign.len());
        }
        is_next
    }

    /// Takes a word, if it is next and ends there.
    fn word(&mut self, word: &str) -> bool {
        let rest = self.rest();
        let after = rest.strip_prefix(word).and_then(|rest| rest.chars().next());
        let ends = after.is_none_or(|c| !c.is_alphanumeric() && !"_.[:/#+".contains(c));
        let is_next = rest.starts_with(word) && ends;
        if is_next {
            self.advance(word.len());
        }
        is_next
    }

    /// What is left, without spaces at its start.
    fn rest(&mut self) -> &'a str {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        &self.text[self.at..]
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    fn error(&self, expected: &'static str) -> ParseError {
        ParseError { at: self.text[..self.at].chars().count(), expected }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rows::Rows;

    fn rows(polluted: f64, coverage: f64) -> Rows {
        let pairs = [
            ("frames.polluted.polluted_share", polluted),
            ("huge_pages.host.anonymous_coverage", coverage),
            ("systems[linux].failed", 0.0),
            ("systems[buddy].failed", polluted * 100.0),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value)).into()
    }

    fn holds(text: &str, comparison: &Comparison) -> bool {
        Condition::parse(text).unwrap().judge(comparison).unwrap().holds
    }

    #[test]
    fn conditions_on_two_documents() {
        let comparison = Comparison::new(&[rows(0.20, 0.9)], &[rows(0.22, 0.6)]);
        for (text, expected) in [
            ("polluted > 5 %", true),
            ("polluted>5%", true),
            ("polluted > 15 %", false),
            ("polluted > 0.01", true),
            ("polluted > 0.1", false),
            ("coverage < -10 %", true),
            ("after(coverage) < 70 %", true),
            ("before(coverage) < 70 %", false),
            ("after(coverage) <= 0.6", true),
            ("coverage < -10 % and polluted > 15 %", false),
            ("coverage < -10 % or polluted > 15 %", true),
            ("not (coverage < -10 %)", false),
            ("not not polluted > 5 %", true),
            // One of two rows is enough.
            ("failed > 1", true),
            ("linux.failed > 1", false),
            ("\"systems[buddy].failed\" == 2 or change(failed) > 1.5", true),
        ] {
            assert_eq!(holds(text, &comparison), expected, "{text}");
        }
    }

    #[test]
    fn the_reason_names_the_row_and_the_change() {
        let comparison = Comparison::new(&[rows(0.20, 0.9)], &[rows(0.22, 0.6)]);
        let condition = Condition::parse("polluted > 5 %").unwrap();
        let finding = condition.judge(&comparison).unwrap();
        assert_eq!(finding.because, ["frames.polluted.polluted_share changed by 10 %"]);
        let condition = Condition::parse("polluted > 5 % or unheard > 1").unwrap();
        assert_eq!(condition.judge(&comparison), Err("unheard".to_owned()));
    }

    #[test]
    fn a_change_within_the_spread_does_not_count() {
        let noisy = [rows(0.1, 0.5), rows(0.3, 0.5), rows(0.2, 0.5)];
        let later = [rows(0.12, 0.5), rows(0.32, 0.5), rows(0.22, 0.5)];
        assert!(!holds("polluted > 5 %", &Comparison::new(&noisy, &later)));
        assert!(holds("after(polluted) > 21 %", &Comparison::new(&noisy, &later)));
    }

    #[test]
    fn from_nothing_to_something_is_more_than_any_percentage() {
        let comparison = Comparison::new(&[rows(0.0, 0.5)], &[rows(0.01, 0.5)]);
        assert!(holds("polluted > 1000 %", &comparison));
        assert!(!holds("linux.failed > 0 %", &comparison));
    }

    #[test]
    fn errors_name_the_place() {
        for (text, at, expected) in [
            ("", 0, "a name"),
            ("polluted", 8, "one of > >= < <= == !="),
            ("polluted >", 10, "a number"),
            ("polluted > 5 % x", 15, "`and`, `or`, or the end"),
            ("(polluted > 5", 13, "`)`"),
            ("after(polluted > 5", 15, "`)`"),
            ("\"polluted", 0, "a closing quote"),
            ("polluted > 1e999", 11, "a number"),
            ("a > 1 and or", 10, "a name"),
        ] {
            let error = Condition::parse(text).unwrap_err();
            assert_eq!((error.at, error.expected), (at, expected), "{text}");
        }
        let deep = "(".repeat(1000) + "a > 1" + &")".repeat(1000);
        assert_eq!(Condition::parse(&deep).unwrap_err().expected, "fewer parentheses");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[a-z()<>=!%. \"0-9-]{0,40}|.{0,40}") {
            if let Ok(condition) = Condition::parse(&text) {
                let comparison = Comparison::new(&[rows(0.2, 0.9)], &[rows(0.3, 0.6)]);
                let _ = condition.judge(&comparison);
            }
        }
    }
}
