//! Forms in which commands print a table.

use serde::Deserialize;

/// The form of a command's output.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "form", rename_all = "lowercase", deny_unknown_fields)]
pub enum Form {
    /// One or more [`Document`](crate::table::Document)s; the one with the entry's name is taken.
    Table,
    /// A Markdown table: the first after the line that contains `after`.
    Markdown {
        /// Text of a line in front of the table; empty for the first table.
        #[serde(default)]
        after: String,
        /// How many tables to skip from there.
        #[serde(default)]
        skip: usize,
    },
    /// Lines of words: a row per line of at least `least` words, a column for each of `words`.
    Words {
        /// Text of the line above the first; empty to begin with the first line.
        #[serde(default)]
        after: String,
        /// Text of the line below the last; empty for the end of the output.
        #[serde(default)]
        until: String,
        /// What stands between words; empty for any space.
        #[serde(default)]
        separator: String,
        /// Fewest words of a row.
        least: usize,
        /// The columns.
        words: Vec<Word>,
    },
    /// One or more JSON documents: one row for each value at `rows`, one column for each field.
    Json {
        /// Path of the rows: `/key/0/*`, `*` for every element or value. Empty for the document.
        rows: String,
        /// The columns.
        fields: Vec<Field>,
    },
}

/// A column of [`Form::Json`]: where its value stands, and how it is printed.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// Heading.
    pub name: String,
    /// Unit.
    #[serde(default)]
    pub unit: String,
    /// Path below the row (`/means/overhead`); below the document with a leading `^`; `#` is the
    /// key under which the row stands.
    pub at: String,
    /// Factor applied to a number.
    #[serde(default)]
    pub scale: Option<f64>,
    /// Whether the cell stays empty where the document has no value.
    #[serde(default)]
    pub optional: bool,
    /// Decimal places of a number; as in the document if not given.
    #[serde(default)]
    pub digits: Option<usize>,
}

/// A column of [`Form::Words`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Word {
    /// Heading.
    pub name: String,
    /// Unit.
    #[serde(default)]
    pub unit: String,
    /// Which word of the line: from 0, or from the end with -1.
    pub at: isize,
}
