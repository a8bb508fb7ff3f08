//! Rows in object stores, read by the program `duckdb`, which knows the stores and their credentials.

use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use super::rows::LINES;

/// Whether an argument is an address, such as `s3://bucket/rows/*.jsonl`, and no file.
pub fn is_address(argument: &str) -> bool {
    argument.contains("://")
}

/// Copies the rows at an address into a file of `folder`, whose name begins with `number`.
///
/// # Errors
/// If the address names no rows, `duckdb` is not installed, or it cannot read them.
pub fn fetch(address: &str, folder: &Path, number: usize) -> anyhow::Result<PathBuf> {
    let quoted = address.replace('\'', "''");
    let (path, sql) = if address.ends_with(".parquet") {
        let path = folder.join(format!("{number}.parquet"));
        let to = path.display().to_string().replace('\'', "''");
        let rows = format!("FROM read_parquet('{quoted}', union_by_name = true)");
        (path, format!("COPY ({rows}) TO '{to}' (FORMAT parquet, COMPRESSION zstd)"))
    } else if LINES.iter().any(|ending| address.ends_with(ending)) {
        // As text: columns of JSON would lose labels that only some rows have.
        let sql = format!("SELECT content FROM read_text('{quoted}')");
        (folder.join(format!("{number}.jsonl")), sql)
    } else {
        bail!(
            "{address}: expected the address of files, or a pattern, that ends in .jsonl or .parquet"
        );
    };
    let mut duckdb = Command::new("duckdb");
    duckdb.args(["-bail", "-noheader", "-list", "-c", &sql]).stdin(Stdio::null());
    if path.extension().is_some_and(|ending| ending == "jsonl") {
        duckdb.stdout(File::create(&path).with_context(|| path.display().to_string())?);
    }
    let output = match duckdb.output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => bail!(
            "{address}: the program duckdb is not installed, expected it for object stores; or \
             copy the files first"
        ),
        Err(error) => return Err(error).with_context(|| format!("{address}: duckdb")),
    };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it failed");
        bail!("{address}: duckdb: {}", why.trim());
    }
    Ok(path)
}
