//! Tracepoints of a kernel with a movable border (`kernel/`), as the notes of a recording: each event
//! is a line of text, as the kernel itself prints it.

use std::fmt::Write;

use super::tracepoint::{Field, Format};
use crate::Result;

/// A tracepoint of such a kernel (`kernel/source/include/trace/events/contiguitas.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BorderPoint {
    /// The resizer decided.
    Decide,
    /// The border moved, or failed to.
    Move,
    /// Pageblocks were retired or recalled.
    Retire,
    /// A request waited for the border.
    Wait,
}

/// How a value is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Decimal,
    Hexadecimal,
    /// A word for each number.
    Word(&'static [&'static str]),
}

/// A name as printed, the fields that hold its values, and their form.
type Printed = (&'static str, &'static [&'static str], Form);

const RESIZES: Form = Form::Word(&["stay", "grow", "shrink", "yield"]);
const DIRECTIONS: Form = Form::Word(&["down", "up"]);

impl BorderPoint {
    /// Every point.
    pub const ALL: [BorderPoint; 4] =
        [BorderPoint::Decide, BorderPoint::Move, BorderPoint::Retire, BorderPoint::Wait];

    /// The tracepoint's directory below `events` in tracefs.
    pub const fn path(self) -> &'static str {
        match self {
            BorderPoint::Decide => "contiguitas/contiguitas_decide",
            BorderPoint::Move => "contiguitas/contiguitas_move",
            BorderPoint::Retire => "contiguitas/contiguitas_retire",
            BorderPoint::Wait => "contiguitas/contiguitas_wait",
        }
    }

    const fn printed(self) -> &'static [Printed] {
        use Form::{Decimal, Hexadecimal};
        const NODE: Printed = ("node", &["nid"], Decimal);
        match self {
            BorderPoint::Decide => &[
                NODE,
                ("size", &["size"], Decimal),
                ("available", &["available_unmovable", "available_movable"], Decimal),
                ("low", &["low_unmovable", "low_movable"], Decimal),
                ("high", &["high"], Decimal),
                ("pressure", &["pressure_unmovable", "pressure_movable"], Decimal),
                ("resize", &["resize"], RESIZES),
                ("beyond", &["beyond"], Decimal),
                ("border", &["border"], Hexadecimal),
            ],
            BorderPoint::Move => &[
                NODE,
                ("start", &["start"], Hexadecimal),
                ("pages", &["pages"], Decimal),
                ("direction", &["up"], DIRECTIONS),
                ("error", &["error"], Decimal),
                ("ns", &["took"], Decimal),
            ],
            BorderPoint::Retire => {
                &[NODE, ("from", &["from"], Hexadecimal), ("border", &["border"], Hexadecimal)]
            }
            BorderPoint::Wait => &[
                NODE,
                ("pages", &["pages"], Decimal),
                ("moved", &["moved"], Decimal),
                ("ns", &["waited"], Decimal),
            ],
        }
    }
}

/// The offsets of a point's fields.
#[derive(Clone, Debug)]
pub struct BorderLayout {
    name: String,
    values: Vec<(&'static str, Vec<Field>, Form)>,
}

impl BorderLayout {
    /// The layout of `point`'s records as `format` describes them.
    ///
    /// # Errors
    /// [`Error::Record`](crate::Error::Record) if the format lacks a field.
    pub fn new(point: BorderPoint, format: &Format) -> Result<BorderLayout> {
        let value = |&(name, fields, form): &Printed| {
            let fields = fields.iter().map(|field| format.field(field)).collect::<Result<_>>()?;
            Ok((name, fields, form))
        };
        let values = point.printed().iter().map(value).collect::<Result<_>>()?;
        Ok(BorderLayout { name: format.name.clone(), values })
    }

    /// What a record says, such as `contiguitas_wait: node=0 pages=1 moved=1 ns=900000`. `None` if it
    /// is too short or a number has no word.
    pub fn decode(&self, raw: &[u8]) -> Option<String> {
        let mut note = format!("{}:", self.name);
        for (name, fields, form) in &self.values {
            let mut separator = '=';
            write!(note, " {name}").ok()?;
            for field in fields {
                note.push(separator);
                let value = field.read(raw)?;
                match form {
                    Form::Decimal => write!(note, "{value}"),
                    Form::Hexadecimal => write!(note, "{value:#x}"),
                    Form::Word(words) => {
                        write!(note, "{}", words.get(usize::try_from(value).ok()?)?)
                    }
                }
                .ok()?;
                separator = ',';
            }
        }
        Some(note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The format of `contiguitas_decide` on a kernel that `kernel/build 6.12` built.
    const DECIDE: &str = include_str!("../../tests/fixtures/formats/contiguitas_decide-6.12");

    /// A record with `value` in each field.
    fn record(format: &Format, values: &[(&str, i64)]) -> Vec<u8> {
        let mut raw = vec![0; 128];
        for (name, value) in values {
            format.field(name).unwrap().write(&mut raw, *value);
        }
        raw
    }

    #[test]
    fn a_decision_as_the_kernel_prints_it() {
        let format = Format::parse(DECIDE).unwrap();
        let layout = BorderLayout::new(BorderPoint::Decide, &format).unwrap();
        let mut values = vec![
            ("nid", 0),
            ("size", 126_912),
            ("available_unmovable", 8000),
            ("available_movable", 306_944),
            ("low_unmovable", 9216),
            ("low_movable", 6144),
            ("high", 36_864),
            ("pressure_unmovable", 3),
            ("resize", 1),
            ("border", 0x20000),
        ];
        let printed = "contiguitas_decide: node=0 size=126912 available=8000,306944 low=9216,6144 \
                       high=36864 pressure=3,0 resize=grow beyond=0 border=0x20000";
        assert_eq!(layout.decode(&record(&format, &values)).as_deref(), Some(printed));
        assert_eq!(layout.decode(&record(&format, &values)[..40]), None);
        values.push(("resize", 4));
        assert_eq!(layout.decode(&record(&format, &values)), None);
        assert!(BorderLayout::new(BorderPoint::Move, &format).is_err());
    }
}
