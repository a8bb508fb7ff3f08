//! What makes two studies the same study.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Every parameter that changes a row of a study, by name. Two parts belong together if and only if
/// they have the same parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Identity(BTreeMap<String, Value>);

impl Identity {
    pub(super) fn new<const N: usize>(parameters: [(&str, Value); N]) -> Identity {
        Identity(parameters.map(|(name, value)| (name.to_owned(), value)).into())
    }

    /// The parameters as one JSON object.
    pub fn json(&self) -> String {
        serde_json::to_string(&self.0).expect("strings and JSON values")
    }

    /// Reads what [`json`](Identity::json) wrote.
    pub fn from_json(text: &str) -> Option<Identity> {
        serde_json::from_str(text).ok().map(Identity)
    }

    /// The first 16 hexadecimal digits of the parameters' SHA-256.
    pub fn hash(&self) -> String {
        hash(&self.json())
    }

    /// The parameters in which two studies differ, such as `seed (1 and 2)`; `None` if in none.
    pub fn difference(&self, other: &Identity) -> Option<String> {
        let names = self.0.keys().chain(other.0.keys().filter(|name| !self.0.contains_key(*name)));
        let shown = |of: &Identity, name| of.0.get(name).map_or("none".into(), Value::to_string);
        let differing = names.filter(|name| self.0.get(*name) != other.0.get(*name));
        let texts: Vec<String> = differing
            .map(|name| format!("{name} ({} and {})", shown(self, name), shown(other, name)))
            .collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }
}

/// The first 16 hexadecimal digits of a text's SHA-256.
pub(super) fn hash(text: &str) -> String {
    Sha256::digest(text).iter().take(8).fold(String::new(), |mut digits, byte| {
        let _ = write!(digits, "{byte:02x}");
        digits
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_names_the_parameter_and_both_values() {
        let one = Identity::new([("seed", 1.into()), ("servers", 8.into())]);
        let two = Identity::new([("seed", 2.into()), ("servers", 8.into())]);
        assert_eq!(one.difference(&one), None);
        assert_eq!(one.difference(&two).unwrap(), "seed (1 and 2)");
        assert_eq!(Identity::from_json(&one.json()).unwrap(), one);
        assert_ne!(one.hash(), two.hash());
        assert_eq!(one.hash().len(), 16);
    }
}
