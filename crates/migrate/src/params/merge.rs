//! A machine file laid over the default machine.

use toml::{Table, Value};

use super::{DEFAULT_MACHINE, Error};

/// The default machine with what `text` states in its place.
pub(super) fn merged(text: &str) -> Result<Table, Error> {
    let syntax =
        |error: toml::de::Error| Error::Syntax(error.to_string().trim().replace('\n', " "));
    let mut whole: Table = DEFAULT_MACHINE.parse().expect("the default machine is TOML");
    let stated: Table = text.parse().map_err(syntax)?;
    for (key, value) in stated {
        match (whole.get_mut(&key), value) {
            (None, _) => return Err(unknown(&key, whole.keys().cloned())),
            (Some(Value::String(name)), Value::String(stated)) => *name = stated,
            (Some(Value::Table(section)), Value::Table(stated)) => merge(&key, section, stated)?,
            (Some(Value::Table(_)), other) => return Err(kind(key, "a table", &other)),
            (Some(_), other) => return Err(kind(key, "a text", &other)),
        }
    }
    Ok(whole)
}

fn merge(name: &str, section: &mut Table, stated: Table) -> Result<(), Error> {
    for (key, value) in stated {
        let dotted = format!("{name}.{key}");
        if !section.contains_key(&key) {
            return Err(unknown(&dotted, section.keys().map(|known| format!("{name}.{known}"))));
        }
        if number(&value).is_none() {
            return Err(kind(dotted, "a whole number or { value = …, source = \"…\" }", &value));
        }
        section.insert(key, value);
    }
    Ok(())
}

/// The number that a leaf states: bare, or with its source.
pub(super) fn number(leaf: &Value) -> Option<u64> {
    let value = match leaf {
        Value::Table(table) => {
            let known = table.keys().all(|key| key == "value" || key == "source");
            let source = table.get("source").is_none_or(Value::is_str);
            table.get("value").filter(|_| known && source)?
        }
        bare => bare,
    };
    u64::try_from(value.as_integer()?).ok().filter(|value| *value <= u64::from(u32::MAX))
}

/// The same table with bare numbers.
pub(super) fn bare(whole: &Table) -> Table {
    let leaf = |value: &Value| Value::Integer(number(value).unwrap_or_default() as i64);
    let section = |value: &Value| match value {
        Value::Table(table) => {
            Value::Table(table.iter().map(|(key, value)| (key.clone(), leaf(value))).collect())
        }
        text => text.clone(),
    };
    whole.iter().map(|(key, value)| (key.clone(), section(value))).collect()
}

fn unknown(key: &str, known: impl Iterator<Item = String>) -> Error {
    let nearest =
        known.max_by(|a, b| strsim::jaro_winkler(a, key).total_cmp(&strsim::jaro_winkler(b, key)));
    Error::Unknown { key: key.to_owned(), nearest: nearest.unwrap_or_default() }
}

fn kind(key: String, wanted: &'static str, value: &Value) -> Error {
    let found = match value {
        Value::Integer(number) => number.to_string(),
        Value::Table(_) => value.to_string().replace('\n', " "),
        other => format!("a {}", other.type_str()),
    };
    Error::Kind { key, wanted, found }
}
