//! Rows of hosts from lines of JSON and from Parquet files, read with all cores.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use prairie_fleet::host_row::{self, HostRow};
use prairie_fleet::hosts::Hosts;

use super::folder::{Skipped, reason_of};

/// Endings of files with a row in each line.
pub const LINES: [&str; 3] = [".json", ".jsonl", ".ndjson"];

/// Whether a file is one of lines, by its name.
pub fn is_lines(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    LINES.iter().any(|ending| name.ends_with(ending))
}

/// What lines of JSON hold.
struct Lines {
    hosts: Hosts,
    /// Lines, the blank ones included.
    count: u64,
    /// Lines that are no row.
    bad: u64,
    /// The first of these, counted from 1, and what is wrong with it.
    first_bad: Option<(u64, String)>,
}

impl Lines {
    fn new(by: &[String]) -> Lines {
        Lines { hosts: Hosts::new(by.to_vec()), count: 0, bad: 0, first_bad: None }
    }

    /// Adds the lines that follow.
    fn append(&mut self, next: Lines) {
        self.hosts.append(next.hosts);
        let before = self.count;
        let renumbered = next.first_bad.map(|(line, why)| (before + line, why));
        self.first_bad = self.first_bad.take().or(renumbered);
        self.count += next.count;
        self.bad += next.bad;
    }
}

/// Rows of one file, and its lines that were skipped.
type FileRows = (Hosts, Option<(u64, String)>);

/// The rows of a file of lines. Lines that are no row are skipped if the file has others.
///
/// # Errors
/// If it cannot be read, if no line is a row, or with `strict` if one is none.
fn read_lines(path: &Path, by: &[String], strict: bool) -> anyhow::Result<FileRows> {
    let text = fs::read(path).context("cannot read the file")?;
    let lines = parse_in_pieces(&text, by)?;
    let Some((number, why)) = lines.first_bad else { return Ok((lines.hosts, None)) };
    if let Some(kind) = kind_of_document(&text).filter(|_| lines.hosts.is_empty()) {
        bail!("a document of kind {kind:?}, expected rows of `prairie survey --summary`");
    }
    if strict || lines.hosts.is_empty() {
        bail!("line {number}: {why}");
    }
    let total = lines.hosts.len() as u64 + lines.bad;
    let reason = format!("{} of {total} lines, the first is line {number}: {why}", lines.bad);
    Ok((lines.hosts, Some((lines.bad, reason))))
}

/// What a file says that it is, if that is a document of another kind.
fn kind_of_document(text: &[u8]) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Document {
        schema: String,
    }
    let document: Document = serde_json::from_slice(text).ok()?;
    Some(document.schema).filter(|kind| kind != host_row::SCHEMA)
}

/// Reads lines with all cores.
fn parse_in_pieces(text: &[u8], by: &[String]) -> anyhow::Result<Lines> {
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let pieces = pieces(text, threads);
    // Files of one row each are many; a thread takes longer than their row.
    if let [piece] = pieces[..] {
        return Ok(parse(piece, by));
    }
    let mut all = Lines::new(by);
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            pieces.into_iter().map(|piece| scope.spawn(move || parse(piece, by))).collect();
        for thread in threads {
            all.append(thread.join().map_err(|_| anyhow!("a thread has panicked"))?);
        }
        Ok(all)
    })
}

/// The text in about as many pieces, each of whole lines.
fn pieces(text: &[u8], count: usize) -> Vec<&[u8]> {
    const SMALLEST: usize = 1 << 20;
    let size = (text.len() / count.max(1)).max(SMALLEST);
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.len() > size {
        let end = rest[size..].iter().position(|byte| *byte == b'\n');
        let Some(end) = end else { break };
        let (piece, after) = rest.split_at(size + end + 1);
        pieces.push(piece);
        rest = after;
    }
    pieces.push(rest);
    pieces
}

fn parse(text: &[u8], by: &[String]) -> Lines {
    let mut lines = Lines::new(by);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        lines.count += 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        match row(line) {
            Ok(row) => lines.hosts.push(&row),
            Err(why) => {
                lines.bad += 1;
                lines.first_bad.get_or_insert((lines.count, why));
            }
        }
    }
    lines
}

/// The row of a line, or what is wrong with it.
fn row(line: &[u8]) -> Result<HostRow, String> {
    let row: HostRow = serde_json::from_slice(line).map_err(|error| {
        // The library counts lines within this one.
        let (text, column) = (error.to_string(), error.column());
        let why = text.split(" at line ").next().unwrap_or_default();
        format!("{why} at column {column}, expected a row of `prairie survey --summary`")
    })?;
    if row.schema != host_row::SCHEMA {
        return Err(format!("a document of kind {:?}, expected {}", row.schema, host_row::SCHEMA));
    }
    if row.schema_version > host_row::SCHEMA_VERSION {
        let version = row.schema_version;
        return Err(format!("version {version} of a host's row: read it with a newer Prairie"));
    }
    if let Some((name, share)) = row.measures.impossible() {
        return Err(format!("{name} is {share}, expected a share from 0 to 1"));
    }
    Ok(row)
}

/// Adds the rows of those files that hold rows; returns the other files. A file that cannot be read
/// is skipped, as are lines that are no row, or with `strict` an error.
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
        let file = path.display().to_string();
        let found = match is_lines(path) {
            true => read_lines(path, by, strict).map(Some),
            false => read_parquet(path, by),
        };
        match found {
            Ok(Some((rows, bad))) => {
                hosts.append(rows);
                skipped.extend(bad.map(|(lines, reason)| Skipped {
                    file,
                    lines: Some(lines),
                    reason,
                }));
            }
            Ok(None) => others.push(path.as_path()),
            Err(error) if strict => bail!("{file}: {}", reason_of(path, &error)),
            Err(error) => {
                let reason = reason_of(path, &error);
                skipped.push(Skipped { file, lines: None, reason });
            }
        }
    }
    Ok((hosts, others))
}

/// The rows of a Parquet file of hosts; `None` if it holds something else. What else is wrong with
/// a file is left to the reader of surveys, which says so.
fn read_parquet(path: &Path, by: &[String]) -> anyhow::Result<Option<FileRows>> {
    let Some(rows) = host_row::read_parquet(path)? else { return Ok(None) };
    let mut hosts = Hosts::new(by.to_vec());
    rows.iter().for_each(|row| hosts.push(row));
    Ok(Some((hosts, None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_lines() {
        let text = "0123456789\n".repeat(400_000);
        let found = pieces(text.as_bytes(), 3);
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|piece| piece.ends_with(b"\n")));
        assert_eq!(found.concat(), text.as_bytes());
        assert_eq!(pieces(b"a\nb", 4), [b"a\nb"]);
    }

    #[test]
    fn a_line_that_is_no_row_is_named() {
        let why = |line: &str| row(line.as_bytes()).unwrap_err();
        let error = why("{\"host\":\"a\"}\n");
        assert!(error.contains("expected prairie-host-row"), "{error}");
        let error = why("nonsense\n");
        assert!(error.contains("expected a row of") && !error.contains("line 1"), "{error}");
        let newer = format!("{{\"schema\":\"{}\",\"schema_version\":99}}", host_row::SCHEMA);
        assert!(why(&newer).contains("newer Prairie"));
    }

    #[test]
    fn a_document_of_another_kind_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "{\n  \"schema\": \"prairie-survey\",\n  \"zones\": []\n}\n").unwrap();
        for strict in [false, true] {
            let error = read_lines(&path, &[], strict).err().unwrap().to_string();
            assert!(
                error.starts_with("a document of kind \"prairie-survey\", expected"),
                "{error}"
            );
        }
    }

    #[test]
    fn lines_are_counted_over_pieces() {
        let good = format!("{{\"schema\":\"{}\"}}\n", host_row::SCHEMA);
        let by = ["kernel".to_owned()];
        let mut lines = parse(format!("{good}\n{good}").as_bytes(), &by);
        lines.append(parse(format!("{good}\u{fffd}\n{good}half").as_bytes(), &by));
        lines.append(parse(b"last", &by));
        assert_eq!((lines.hosts.len(), lines.count, lines.bad), (4, 8, 3));
        assert_eq!(lines.first_bad.map(|(line, _)| line), Some(5));
    }
}
