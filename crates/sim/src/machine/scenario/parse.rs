//! From text to a scenario.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::{Bytes, Invalid, Nanoseconds, Scenario};
use prairie_model::random::{Quantity, Size, Time};

/// An error in a scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioError {
    /// It is no TOML, or has keys or values that a scenario does not have.
    #[error("{0}")]
    Syntax(String),
    /// A value is out of its range.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

/// Reads and checks a scenario.
///
/// # Errors
/// One line that names the line, the key and what would be right.
pub fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    let scenario: Scenario = from_toml(text)?;
    scenario.check()?;
    Ok(scenario)
}

/// Reads a value from TOML; an error names the line, and the key that was meant.
pub(crate) fn from_toml<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, ScenarioError> {
    toml::from_str(text).map_err(|error| syntax(text, &error))
}

fn syntax(text: &str, error: &toml::de::Error) -> ScenarioError {
    let message = error.message().replace('\n', " ");
    let hint = nearest(&message).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
    let place = error.span().map_or(String::new(), |span| {
        let line = 1 + text[..span.start.min(text.len())].matches('\n').count();
        format!("line {line}: ")
    });
    ScenarioError::Syntax(format!("{place}{message}{hint}"))
}

/// Of the keys that serde lists after an unknown one, the most similar.
fn nearest(message: &str) -> Option<&str> {
    let mut quoted = message.strip_prefix("unknown field ")?.split('`').skip(1).step_by(2);
    let unknown = quoted.next()?;
    let similarity = |key: &&str| (strsim::jaro_winkler(unknown, key) * 1000.0) as u32;
    quoted.max_by_key(similarity).filter(|key| similarity(key) > 700)
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Size::parse(&text).map(|bytes| Bytes(bytes as u64)).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Nanoseconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Time::parse(&text).map(|time| Nanoseconds(time as u64)).map_err(D::Error::custom)
    }
}
