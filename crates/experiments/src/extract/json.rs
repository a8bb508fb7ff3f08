//! Tables taken out of JSON documents by paths.

use anyhow::{Result, anyhow};
use serde_json::Value;

use crate::form::Field;
use crate::table::{Column, Table, text};

/// A row per value at `path` in each document of `output`.
pub fn table(output: &str, path: &str, fields: &[Field]) -> Result<Table> {
    let columns =
        fields.iter().map(|field| Column { name: field.name.clone(), unit: field.unit.clone() });
    let mut rows = Vec::new();
    for document in serde_json::Deserializer::from_str(output).into_iter::<Value>() {
        let document = document?;
        for (key, row) in at(&document, path) {
            rows.push(
                fields
                    .iter()
                    .map(|field| field.value(&document, &key, row))
                    .collect::<Result<_>>()?,
            );
        }
    }
    Ok(Table { columns: columns.collect(), rows })
}

/// Every value at `path`, with the key or index of its last step.
fn at<'a>(document: &'a Value, path: &str) -> Vec<(String, &'a Value)> {
    let mut found = vec![(String::new(), document)];
    for step in path.split('/').skip(1) {
        found = found.into_iter().flat_map(|(_, value)| steps(value, step)).collect();
    }
    found
}

fn steps<'a>(value: &'a Value, step: &str) -> Vec<(String, &'a Value)> {
    match (value, step) {
        (Value::Array(values), "*") => {
            values.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect()
        }
        (Value::Object(values), "*") => {
            values.iter().map(|(key, value)| (key.clone(), value)).collect()
        }
        (Value::Array(values), step) => {
            let found = step.parse().ok().and_then(|at: usize| values.get(at));
            found.map(|value| (step.to_owned(), value)).into_iter().collect()
        }
        (value, step) => {
            value.get(step).map(|value| (step.to_owned(), value)).into_iter().collect()
        }
    }
}

/// The value at `path`. A step `KEY=TEXT` leads to the member of an array that has that text there.
fn found<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('/').skip(1).try_fold(value, |value, step| match (value, step.split_once('=')) {
        (Value::Array(members), Some((key, text))) => {
            members.iter().find(|member| member.get(key).is_some_and(|name| name == text))
        }
        (Value::Array(members), None) => members.get(step.parse::<usize>().ok()?),
        (other, _) => other.get(step),
    })
}

impl Field {
    fn value(&self, document: &Value, key: &str, row: &Value) -> Result<Value> {
        if self.at == "#" {
            return Ok(key.into());
        }
        let value = match self.at.strip_prefix('^') {
            Some(path) => found(document, path),
            None => found(row, &self.at),
        };
        let Some(found) = value else {
            return if self.optional {
                Ok("".into())
            } else {
                Err(anyhow!("no value at `{}`", self.at))
            };
        };
        Ok(match (found, found.as_f64()) {
            (Value::Null, _) => "".into(),
            (Value::String(_), _) => found.clone(),
            (Value::Object(pairs), _) => {
                let words = pairs.iter().map(|(key, value)| format!("{key}, {}", text(value)));
                words.collect::<Vec<_>>().join("; ").into()
            }
            (_, Some(number)) => self.number(found, number),
            (other, None) => other.to_string().into(),
        })
    }

    fn number(&self, found: &Value, number: f64) -> Value {
        let scaled = number * self.scale.unwrap_or(1.0);
        match self.digits {
            Some(digits) => format!("{scaled:.digits$}").into(),
            None if self.scale.is_none() => found.clone(),
            None => scaled.into(),
        }
    }
}
