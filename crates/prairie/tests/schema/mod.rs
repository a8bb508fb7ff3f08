//! A validator of JSON documents.
//!
//! It knows the keywords that the schemas use and refuses others, so that no schema has a keyword
//! that nothing checks. Fields that a schema does not name are errors here, though not for readers:
//! a new field is a compatible change, but belongs into the schema.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

/// The folder of the schemas.
pub fn schemas() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schemas")
}

/// One of them.
pub fn schema(name: &str) -> Value {
    let path = schemas().join(format!("{name}.json"));
    let text =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// What is wrong with a value, by the path to it; at most as many lines as a reader takes in.
pub fn errors(root: &Value, schema: &Value, value: &Value, path: &str, found: &mut Vec<String>) {
    if found.len() > 20 {
        return;
    }
    let fields = schema.as_object().expect("a schema is an object");
    if fields.is_empty() {
        return;
    }
    if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
        let name = reference.strip_prefix("#/$defs/").expect("a reference within the schema");
        return errors(root, &root["$defs"][name], value, path, found);
    }
    for (keyword, limit) in fields {
        match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => {}
            "type" if !is_of(limit, value) => found.push(format!("{path}: {value} is no {limit}")),
            "type" => {}
            "const" if limit != value => found.push(format!("{path}: {value}, expected {limit}")),
            "const" => {}
            "enum" if !limit.as_array().unwrap().contains(value) => {
                found.push(format!("{path}: {value} is none of {limit}"));
            }
            "enum" => {}
            "minimum" if value.as_f64().is_some_and(|v| v < limit.as_f64().unwrap()) => {
                found.push(format!("{path}: {value} is below {limit}"));
            }
            "maximum" if value.as_f64().is_some_and(|v| v > limit.as_f64().unwrap()) => {
                found.push(format!("{path}: {value} is above {limit}"));
            }
            "minimum" | "maximum" => {}
            "required" => {
                let Some(object) = value.as_object() else { continue };
                for name in limit.as_array().unwrap().iter().filter_map(Value::as_str) {
                    if !object.contains_key(name) {
                        found.push(format!("{path}: no {name}"));
                    }
                }
            }
            "properties" | "additionalProperties" => {}
            "items" => {
                for (at, item) in value.as_array().into_iter().flatten().enumerate() {
                    errors(root, limit, item, &format!("{path}[{at}]"), found);
                }
            }
            "anyOf" => {
                let fits = |option: &Value| {
                    let mut own = Vec::new();
                    errors(root, option, value, path, &mut own);
                    own.is_empty()
                };
                if !limit.as_array().unwrap().iter().any(fits) {
                    found.push(format!("{path}: fits none of {limit}"));
                }
            }
            other => {
                found.push(format!("{path}: the schema has a keyword that is not checked: {other}"))
            }
        }
    }
    let Some(object) = value.as_object() else { return };
    let none = Map::new();
    let properties = fields.get("properties").and_then(Value::as_object).unwrap_or(&none);
    for (name, value) in object {
        let path = format!("{path}.{name}");
        match (properties.get(name), fields.get("additionalProperties")) {
            (Some(schema), _) => errors(root, schema, value, &path, found),
            (None, Some(schema)) if schema.is_object() => errors(root, schema, value, &path, found),
            (None, _) if fields.contains_key("anyOf") => {}
            (None, _) => found.push(format!("{path}: not in the schema")),
        }
    }
}

fn is_of(wanted: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => panic!("no type {name}"),
    };
    match wanted {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => panic!("a type is a name or a list of names: {wanted}"),
    }
}

/// Checks a document against the schema that it names; the name.
pub fn check(document: &Value) -> String {
    let name = document["schema"].as_str().unwrap_or_else(|| panic!("no schema: {document}"));
    let schema = schema(name);
    let mut found = Vec::new();
    errors(&schema, &schema, document, "", &mut found);
    assert!(found.is_empty(), "{name}:\n{}", found.join("\n"));
    name.to_owned()
}
