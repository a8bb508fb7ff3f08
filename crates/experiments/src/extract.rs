//! Taking a table out of what a command printed.

mod json;
mod markdown;
mod words;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;

pub use markdown::cells;

use crate::form::Form;
use crate::registry::Entry;
use crate::table::{Column, Document, Table, text};

/// The table and remarks that `output` of the entry's command holds.
pub fn document(entry: &Entry, output: &str) -> Result<Document> {
    let mut document = match &entry.from {
        Form::Table => printed(&entry.name, output)?,
        Form::Markdown { after, skip } => plain(markdown::table(output, after, *skip)?),
        Form::Words { after, until, separator, least, words } => {
            plain(words::table(output, (after, until), (separator, *least), words)?)
        }
        Form::Json { rows, fields } => plain(json::table(output, rows, fields)?),
    };
    let table = arrange(entry, Table { columns: document.columns, rows: document.rows })?;
    table.validate().map_err(|reason| anyhow!("{}: {reason}", entry.name))?;
    (document.columns, document.rows) = (table.columns, table.rows);
    Ok(document)
}

fn plain(table: Table) -> Document {
    Document {
        name: String::new(),
        columns: table.columns,
        rows: table.rows,
        notes: Vec::new(),
        rounds: String::new(),
        command: String::new(),
        seconds: 0.0,
    }
}

/// The document with the name, or the only one.
fn printed(name: &str, output: &str) -> Result<Document> {
    let mut documents = Vec::new();
    for value in serde_json::Deserializer::from_str(output).into_iter::<Value>() {
        match value.context("the output is not a table document")? {
            Value::Array(several) => documents.extend(several),
            one => documents.push(one),
        }
    }
    let documents: Vec<Document> =
        documents.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?;
    let single = documents.len() == 1;
    documents
        .into_iter()
        .find(|one| one.name == name || (single && one.name.is_empty()))
        .ok_or_else(|| anyhow!("the output has no table named `{name}`"))
}

/// Applies what the entry says about columns and rows.
fn arrange(entry: &Entry, mut table: Table) -> Result<Table> {
    let columns = table.columns.clone();
    let at = |name: &String| {
        let found = columns.iter().position(|column| column.name == *name);
        found.ok_or_else(|| anyhow!("{}: no column `{name}`", entry.name))
    };
    for (name, values) in &entry.only {
        let at = at(name)?;
        table.rows.retain(|row| values.contains(&text(&row[at])));
    }
    if !entry.select.is_empty() {
        let order = entry.select.iter().map(at).collect::<Result<Vec<usize>>>()?;
        table.columns = order.iter().map(|at| columns[*at].clone()).collect();
        for row in &mut table.rows {
            *row = order.iter().map(|at| row[*at].clone()).collect();
        }
    }
    for column in &mut table.columns {
        if let Some(name) = entry.rename.get(&column.name) {
            column.name.clone_from(name);
        }
    }
    if !entry.rows.is_empty() {
        let row = |first: &String| {
            let found = table.rows.iter().find(|row| text(&row[0]) == *first);
            found.cloned().ok_or_else(|| anyhow!("{}: no row `{first}`", entry.name))
        };
        table.rows = entry.rows.iter().map(row).collect::<Result<_>>()?;
    }
    for row in &mut table.rows {
        if let Some(label) = entry.relabel.get(&text(&row[0])) {
            row[0] = label.clone().into();
        }
    }
    if entry.transpose {
        table = table.transposed();
    }
    beside(entry, table)
}

/// Inserts the declared columns.
fn beside(entry: &Entry, mut table: Table) -> Result<Table> {
    for beside in &entry.beside {
        if beside.at > table.columns.len() {
            bail!("{}: column `{}` is placed behind the last", entry.name, beside.column);
        }
        for first in beside.values.keys() {
            if !table.rows.iter().any(|row| text(&row[0]) == *first) {
                bail!("{}: column `{}`: no row `{first}`", entry.name, beside.column);
            }
        }
        table.columns.insert(beside.at, Column::plain(&beside.column));
        for row in &mut table.rows {
            let value = beside.values.get(&text(&row[0])).cloned().unwrap_or_default();
            row.insert(beside.at, value.into());
        }
    }
    Ok(table)
}
