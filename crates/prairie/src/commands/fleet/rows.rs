//! Rows of hosts from lines of JSON and from Parquet files, read with all cores.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use prairie_fleet::host_row::{self, HostRow};
use prairie_fleet::hosts::Hosts;

use super::folder::Skipped;

/// Endings of files with a row in each line.
pub const LINES: [&str; 3] = [".json", ".jsonl", ".ndjson"];

/// Whether a file is one of lines, by its name.
pub fn is_lines(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    LINES.iter().any(|ending| name.ends_with(ending))
}

/// Adds the rows of a file of lines.
///
/// # Errors
/// If it cannot be read, or if a line is no row.
pub fn read_lines(path: &Path, hosts: &mut Hosts, by: &[String]) -> anyhow::Result<()> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|_| anyhow!("{}: not UTF-8, expected lines of JSON", path.display()))?;
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let pieces = pieces(text, threads);
    // Files of one row each are many; a thread takes longer than their row.
    if let [piece] = pieces[..] {
        hosts.append(parse(piece, by).with_context(|| path.display().to_string())?);
        return Ok(());
    }
    let results: Vec<anyhow::Result<Hosts>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            pieces.into_iter().map(|piece| scope.spawn(move || parse(piece, by))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a thread has panicked"))?)
            .collect()
    });
    for result in results {
        hosts.append(result.with_context(|| path.display().to_string())?);
    }
    Ok(())
}

/// The text in about as many pieces, each of whole lines.
fn pieces(text: &str, count: usize) -> Vec<&str> {
    const SMALLEST: usize = 1 << 20;
    let size = (text.len() / count.max(1)).max(SMALLEST);
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > size {
        let end = rest.as_bytes()[size..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else { break };
        let (piece, after) = rest.split_at(size + end + 1);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

fn parse(text: &str, by: &[String]) -> anyhow::Result<Hosts> {
    let mut hosts = Hosts::new(by.to_vec());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let row: HostRow = serde_json::from_str(line)
            .map_err(|error| anyhow!("not a row of `prairie survey --summary`: {error}"))?;
        if row.schema != host_row::SCHEMA {
            bail!("a document of kind {:?}, expected {}", row.schema, host_row::SCHEMA);
        }
        if row.schema_version > host_row::SCHEMA_VERSION {
            bail!("version {} of a host's row: read it with a newer Prairie", row.schema_version);
        }
        hosts.push(&row);
    }
    Ok(hosts)
}

/// Adds the rows of those files that hold rows; returns the other files. A file that cannot be read
/// is skipped, or with `strict` an error.
///
/// # Errors
/// With `strict`, if a file cannot be read.
pub fn read<'a>(
    paths: &'a [std::path::PathBuf],
    by: &[String],
    strict: bool,
    skipped: &mut Vec<Skipped>,
) -> anyhow::Result<(Hosts, Vec<&'a Path>)> {
    let mut hosts = Hosts::new(by.to_vec());
    let mut others = Vec::new();
    for path in paths {
        let found = match is_lines(path) {
            true => read_lines(path, &mut hosts, by).map(|()| true),
            false => read_parquet(path, &mut hosts),
        };
        match found {
            Ok(true) => {}
            Ok(false) => others.push(path.as_path()),
            Err(error) if strict => return Err(error),
            Err(error) => skipped
                .push(Skipped { file: path.display().to_string(), reason: format!("{error:#}") }),
        }
    }
    Ok((hosts, others))
}

/// Whether a Parquet file holds rows of hosts. What else is wrong with a file is left to the reader of
/// surveys, which says so.
fn read_parquet(path: &Path, hosts: &mut Hosts) -> anyhow::Result<bool> {
    let rows = host_row::read_parquet(path).with_context(|| path.display().to_string())?;
    rows.iter().flatten().for_each(|row| hosts.push(row));
    Ok(rows.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_lines() {
        let text = "0123456789\n".repeat(400_000);
        let found = pieces(&text, 3);
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|piece| piece.ends_with('\n')));
        assert_eq!(found.concat(), text);
        assert_eq!(pieces("a\nb", 4), ["a\nb"]);
    }

    #[test]
    fn a_line_that_is_no_row_is_named() {
        let by = ["kernel".to_owned()];
        let error = parse("{\"host\":\"a\"}\n", &by).unwrap_err().to_string();
        assert!(error.contains("expected prairie-host-row"), "{error}");
        let error = parse("nonsense\n", &by).unwrap_err().to_string();
        assert!(error.contains("not a row of"), "{error}");
        let newer = format!("{{\"schema\":\"{}\",\"schema_version\":99}}", host_row::SCHEMA);
        assert!(parse(&newer, &by).unwrap_err().to_string().contains("newer Prairie"));
    }
}
