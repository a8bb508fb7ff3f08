//! What every JSON document begins with.

use serde::Serialize;

/// The first fields of a JSON document, flattened into it.
#[derive(Serialize)]
pub struct Header {
    /// The kind of document.
    schema: &'static str,
    /// The version of the kind, unless the rest of the document has it or the kind has only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    schema_version: Option<u32>,
    /// The version of Prairie.
    prairie_version: &'static str,
}

impl Header {
    /// Of a kind of document in one of its versions.
    pub fn new(schema: &'static str, version: u32) -> Header {
        Header { schema_version: Some(version), ..Header::unversioned(schema) }
    }

    /// Of a document that names no version here.
    pub fn unversioned(schema: &'static str) -> Header {
        Header { schema, schema_version: None, prairie_version: env!("CARGO_PKG_VERSION") }
    }
}
