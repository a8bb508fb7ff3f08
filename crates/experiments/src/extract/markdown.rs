//! Tables that a command printed as Markdown.

use anyhow::{Result, anyhow};
use serde_json::Value;

use crate::table::{Column, Table};

/// The table after the line that contains `after`, `skip` further on.
pub fn table(output: &str, after: &str, skip: usize) -> Result<Table> {
    let mut lines = output.lines().map(str::trim);
    if !after.is_empty() && !lines.any(|line| line.contains(after)) {
        return Err(anyhow!("the output has no line with `{after}`"));
    }
    let rest: Vec<&str> = lines.collect();
    let mut blocks = rest.split(|line| !line.starts_with('|')).filter(|block| block.len() > 2);
    let block =
        blocks.nth(skip).ok_or_else(|| anyhow!("the output has no Markdown table there"))?;
    let columns = cells(block[0]).iter().map(|name| Column::plain(name)).collect();
    let rows = block[2..].iter().map(|line| cells(line).into_iter().map(Value::from).collect());
    Ok(Table { columns, rows: rows.collect() })
}

/// The cells of a line of a table. A bar within a cell is written `\|`.
pub fn cells(line: &str) -> Vec<String> {
    let inner = line.trim().trim_start_matches('|');
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let joined = inner.replace("\\|", "\u{0}");
    joined.split('|').map(|cell| cell.trim().replace('\u{0}', "|")).collect()
}
