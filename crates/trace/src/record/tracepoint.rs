//! The layout of a tracepoint's record, from its `format` file in tracefs.

use crate::{Error, Result};

/// A tracepoint's number and the fields of its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The event's name.
    pub name: String,
    /// The number by which `perf_event_open` knows it.
    pub id: u64,
    fields: Vec<(String, Field)>,
}

/// The position of an integer in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    offset: usize,
    size: usize,
    signed: bool,
}

impl Format {
    /// Parses the text of a `format` file.
    ///
    /// # Errors
    /// [`Error::Record`] if it has no `name:` or `ID:`, or a field's line is malformed.
    pub fn parse(text: &str) -> Result<Format> {
        let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let name = line("name:").ok_or_else(|| malformed("?", "no name"))?;
        let id = line("ID:").and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| malformed(name, "no number after ID:"))?;
        let fields = text.lines().filter_map(|line| line.trim().strip_prefix("field:"));
        let fields = fields.map(|line| parse_field(line).ok_or_else(|| malformed(name, line)));
        Ok(Format { name: name.into(), id, fields: fields.collect::<Result<_>>()? })
    }

    /// The field called `name`.
    ///
    /// # Errors
    /// [`Error::Record`] if there is none.
    pub fn field(&self, name: &str) -> Result<Field> {
        let found = self.fields.iter().find(|(field, _)| field == name);
        let missing = || malformed(&self.name, &format!("no field {name}"));
        found.map(|&(_, field)| field).ok_or_else(missing)
    }
}

fn malformed(event: &str, why: &str) -> Error {
    Error::Record {
        what: format!("the format of the kernel's tracepoint {event}"),
        why: why.into(),
        remedy: "this kernel's events are not understood; please report its release".into(),
    }
}

/// `unsigned long pfn; offset:8; size:8; signed:0;`
fn parse_field(line: &str) -> Option<(String, Field)> {
    let mut parts = line.split(';').map(str::trim);
    let declared = parts.next()?;
    let name = declared.rsplit([' ', '*']).next()?.split('[').next()?;
    let mut number = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    let signed = number("signed:").unwrap_or(0) != 0;
    Some((name.into(), Field { offset, size, signed }))
}

impl Field {
    /// The field's value in a record, sign-extended if it is signed. `None` if the record is too
    /// short, or the field is no integer.
    pub fn read(self, record: &[u8]) -> Option<i64> {
        let bytes = record.get(self.offset..self.offset.checked_add(self.size)?)?;
        Some(match (bytes.len(), self.signed) {
            (1, false) => i64::from(bytes[0]),
            (1, true) => i64::from(bytes[0] as i8),
            (2, false) => i64::from(u16::from_ne_bytes(bytes.try_into().ok()?)),
            (2, true) => i64::from(i16::from_ne_bytes(bytes.try_into().ok()?)),
            (4, false) => i64::from(u32::from_ne_bytes(bytes.try_into().ok()?)),
            (4, true) => i64::from(i32::from_ne_bytes(bytes.try_into().ok()?)),
            (8, _) => i64::from_ne_bytes(bytes.try_into().ok()?),
            _ => return None,
        })
    }
}

#[cfg(test)]
impl Field {
    /// Puts `value` where [`Field::read`] finds it.
    pub fn write(self, record: &mut [u8], value: i64) {
        let bytes = &value.to_le_bytes()[..self.size];
        record[self.offset..][..self.size].copy_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOC: &str = include_str!("../../tests/fixtures/formats/mm_page_alloc-6.18");

    #[test]
    fn reads_a_real_format() {
        let format = Format::parse(ALLOC).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("mm_page_alloc", 653));
        let mut record = [0u8; 40];
        record[8..16].copy_from_slice(&u64::MAX.to_ne_bytes());
        record[16..20].copy_from_slice(&9u32.to_ne_bytes());
        record[32..36].copy_from_slice(&(-1i32).to_ne_bytes());
        let read = |name| format.field(name).unwrap().read(&record);
        assert_eq!(read("pfn"), Some(-1));
        assert_eq!(read("order"), Some(9));
        assert_eq!(read("migratetype"), Some(-1));
        assert_eq!(format.field("pfn").unwrap().read(&record[..15]), None);
        assert!(format.field("page").is_err());
    }

    #[test]
    fn garbage_is_an_error() {
        for text in ["", "name: x", "name: x\nID: y", "name: x\nID: 1\n\tfield:int a; offset:"] {
            assert!(Format::parse(text).is_err(), "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_survived(text in ".{0,200}", cut in 0..ALLOC.len()) {
            let _ = Format::parse(&text);
            let _ = Format::parse(ALLOC.get(..cut).unwrap_or(""));
        }
    }
}
