//! The decisions of a kernel with a movable border (`kernel/`), from the text of its tracepoints:
//! tracefs, `trace-cmd report`, and `perf script` print the same fields, and a recording has them as
//! notes.

use std::collections::BTreeMap;
use std::fmt;

use prairie_frames::Order;
use prairie_trace::{EventKind, EventSource};
use thiserror::Error;

use super::{Action, Decider, WakeUp, WakeUps};

const DECIDE: &str = "contiguitas_decide:";
const MOVE: &str = "contiguitas_move:";
const WAIT: &str = "contiguitas_wait:";

/// What a line lacks whose event has no time.
const TIME: &str = "a time in seconds, such as 12.345678:, before the event";

/// An event that no kernel prints.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: expected {expected}")]
pub struct TraceError {
    /// Its place.
    pub place: Place,
    /// What it lacks.
    pub expected: String,
}

/// Where an event stands, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of a text.
    Line(usize),
    /// An event of a recording.
    Event(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(number) => write!(f, "line {number}"),
            Place::Event(number) => write!(f, "event {number}"),
        }
    }
}

impl Place {
    fn error(self, expected: &str) -> TraceError {
        TraceError { place: self, expected: expected.to_owned() }
    }
}

/// Why a recording's decisions cannot be shown.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] prairie_trace::Error),
    /// A note is not what a kernel prints.
    #[error(transparent)]
    Note(#[from] TraceError),
}

/// Whether a text has a decision of such a kernel.
pub fn has_decisions(text: &str) -> bool {
    text.contains(DECIDE)
}

/// The wake-ups in a text. Pages that moved and reversals that were delayed are not traced: the former
/// are 0, the latter count as staying.
///
/// # Errors
/// [`TraceError`] where an event lacks its time or a field.
pub fn kernel(text: &str) -> Result<WakeUps, TraceError> {
    let mut found = Decisions::default();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        if let Some((name, before, fields)) = split(line) {
            let place = Place::Line(at + 1);
            let time_ns = time_ns(before).ok_or_else(|| place.error(TIME))?;
            found.take(name, &Event { place, time_ns, fields })?;
        }
    }
    Ok(found.finish())
}

/// The wake-ups in a recording's notes; none if another kernel was recorded.
///
/// # Errors
/// If reading fails, or a note lacks a field.
pub fn recorded(source: &mut dyn EventSource) -> Result<WakeUps, RecordingError> {
    let (mut found, mut number) = (Decisions::default(), 0);
    while let Some(batch) = source.next_batch()? {
        let batch = batch.to_vec();
        for event in batch {
            number += 1;
            let EventKind::Marker { text } = event.what else { continue };
            if let Some((name, "", fields)) = split(source.texts().get(text)) {
                let place = Place::Event(number);
                found.take(name, &Event { place, time_ns: event.time_ns, fields })?;
            }
        }
    }
    Ok(found.finish())
}

/// The name of an event of the border in a line, and what stands before and behind it.
fn split(line: &str) -> Option<(&'static str, &str, &str)> {
    [DECIDE, MOVE, WAIT].into_iter().find_map(|name| {
        let (before, fields) = line.split_once(name)?;
        Some((name, before, fields))
    })
}

/// The last word before an event's name: `123.456789:`. `perf script` puts the system's name between.
fn time_ns(before: &str) -> Option<u64> {
    let before = before.trim_end().trim_end_matches("contiguitas:").trim_end();
    let word = before.rsplit(char::is_whitespace).next()?;
    let (seconds, part) = word.strip_suffix(':')?.split_once('.')?;
    let digits = u32::try_from(part.len()).ok().filter(|digits| (1..=9).contains(digits))?;
    let part = part.parse::<u64>().ok()? * 10_u64.pow(9 - digits);
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(part)
}

#[derive(Default)]
struct Decisions {
    wake_ups: Vec<WakeUp>,
    origin_ns: Option<u64>,
    /// Requests that waited since the last wake-up, by node.
    waits: BTreeMap<u16, u64>,
}

impl Decisions {
    fn take(&mut self, name: &str, event: &Event<'_>) -> Result<(), TraceError> {
        match name {
            DECIDE => self.decide(event)?,
            MOVE => self.moved(event)?,
            _ => *self.waits.entry(event.node()?).or_default() += 1,
        }
        Ok(())
    }

    fn finish(mut self) -> WakeUps {
        self.wake_ups.sort_by_key(|wake_up| wake_up.time_ns);
        WakeUps { decider: Decider::Kernel, interrupted: false, wake_ups: self.wake_ups }
    }

    fn decide(&mut self, event: &Event<'_>) -> Result<(), TraceError> {
        let (node, now) = (event.node()?, event.time_ns);
        let frames = |name| event.number(name).map(|frames: u64| frames_bytes(frames));
        let [free, movable_free] = event.pair("available")?.map(frames_bytes);
        let [low, movable_low] = event.pair("low")?.map(frames_bytes);
        let [unmovable, movable] = event.pair("pressure")?.map(|thousandths| {
            // Thousandths of time.
            thousandths.min(1000) as f64 / 1000.0
        });
        let action = match event.field("resize")? {
            "stay" => Action::Stay,
            "grow" => Action::Grow,
            "shrink" => Action::Shrink,
            "yield" => Action::Yield,
            _ => return Err(event.error("resize=stay, grow, shrink, or yield")),
        };
        self.wake_ups.push(WakeUp {
            time_ns: now.saturating_sub(*self.origin_ns.get_or_insert(now)),
            node,
            action,
            region_bytes: frames("size")?,
            free_bytes: free,
            low_bytes: low,
            movable_free_bytes: movable_free,
            movable_low_bytes: movable_low,
            pressure_unmovable: unmovable,
            pressure_movable: movable,
            pageblocks: 0,
            pages_moved: 0,
            waited: self.waits.remove(&node).unwrap_or(0),
        });
        Ok(())
    }

    /// A move belongs to the decision before it; before the first one, to none.
    fn moved(&mut self, event: &Event<'_>) -> Result<(), TraceError> {
        let (node, pages) = (event.node()?, event.number::<u64>("pages")?);
        let has_moved = event.number::<i64>("error")? == 0;
        let decision = self.wake_ups.iter_mut().rev().find(|wake_up| wake_up.node == node);
        if let Some(decision) = decision.filter(|_| has_moved) {
            decision.pageblocks += pages / Order::HUGE.frames();
        }
        Ok(())
    }
}

fn frames_bytes(frames: u64) -> u64 {
    frames.saturating_mul(Order::BASE.bytes())
}

/// One event: its time, and what stands behind its name.
struct Event<'a> {
    place: Place,
    time_ns: u64,
    fields: &'a str,
}

impl<'a> Event<'a> {
    fn error(&self, expected: &str) -> TraceError {
        self.place.error(expected)
    }

    fn field(&self, name: &str) -> Result<&'a str, TraceError> {
        let mut words = self.fields.split_ascii_whitespace();
        let value = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.ok_or_else(|| self.error(&format!("the field {name}=")))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T, TraceError> {
        let value = self.field(name)?.parse();
        value.map_err(|_| self.error(&format!("{name}= and a number")))
    }

    /// Two numbers: of unmovable and of movable memory.
    fn pair(&self, name: &str) -> Result<[u64; 2], TraceError> {
        let numbers = self.field(name)?.split_once(',');
        let numbers = numbers.and_then(|(a, b)| Some([a.parse().ok()?, b.parse().ok()?]));
        numbers.ok_or_else(|| self.error(&format!("{name}= and two numbers")))
    }

    fn node(&self) -> Result<u16, TraceError> {
        self.number("node")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TRACE: &str = "\
# tracer: nop
       kcontigd0-45      [001] .....    12.000500: contiguitas_move: node=0 start=0x1fe00 pages=512 direction=up error=0 ns=90
       kcontigd0-45      [001] .....    12.345678: contiguitas_decide: node=0 size=126912 available=8000,306944 low=9216,6144 high=36864 pressure=3,0 resize=grow beyond=0 border=0x20000
       kcontigd0-45      [001] .....    12.345700: contiguitas_move: node=0 start=0x20000 pages=2048 direction=up error=0 ns=31000000
       kcontigd0-45      [001] .....    12.345800: contiguitas_move: node=0 start=0x20800 pages=512 direction=up error=-16 ns=9
 CPU:0 [LOST 3 EVENTS]
              dd-77      [000] .....    12.400000: contiguitas_wait: node=0 pages=1 moved=1 ns=900000
    kcontigd0 45 [001] 13.345678:   contiguitas:contiguitas_decide: node=0 size=128960 available=40000,304896 low=9216,6144 high=36864 pressure=0,12 resize=yield beyond=5 border=0x20800
       kcontigd1-46  [000]    13.5: contiguitas_retire: node=1 from=0x40000 border=0x40200
";

    #[test]
    fn decisions_have_their_moves_and_waits() {
        assert!(has_decisions(TRACE) && !has_decisions("phases = []"));
        let found = kernel(TRACE).unwrap().wake_ups;
        let [grown, yielded] = &found[..] else { panic!("{found:?}") };
        assert_eq!((grown.time_ns, grown.action, grown.pageblocks), (0, Action::Grow, 4));
        assert_eq!((grown.region_bytes, grown.free_bytes), (126_912 << 12, 8000 << 12));
        assert_eq!((grown.low_bytes, grown.movable_low_bytes), (9216 << 12, 6144 << 12));
        assert_eq!((grown.pressure_unmovable, grown.waited), (0.003, 0));
        assert_eq!((yielded.time_ns, yielded.action), (1_000_000_000, Action::Yield));
        assert_eq!((yielded.pressure_movable, yielded.waited), (0.012, 1));
        assert_eq!(yielded.movable_free_bytes, 304_896 << 12);
    }

    #[test]
    fn bad_events_are_named() {
        for (from, to, line, expected) in [
            ("12.345678:", "soon:", 3, "a time in seconds"),
            ("12.345678:", "12345678:", 3, "a time in seconds"),
            ("size=126912", "size=-1", 3, "size= and a number"),
            ("available=8000,306944", "available=8000", 3, "available= and two numbers"),
            ("resize=grow", "resize=jump", 3, "resize=stay"),
            ("pages=2048", "", 4, "the field pages="),
            ("wait: node=0", "wait: node=99999", 7, "node= and a number"),
        ] {
            let error = kernel(&TRACE.replacen(from, to, 1)).unwrap_err();
            assert_eq!(error.place, Place::Line(line), "{from}: {error}");
            assert!(error.expected.starts_with(expected), "{from}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_wake_ups_or_one_error(
            start in 0..TRACE.len(),
            text in "[0-9a-z_=,.: \n-]{0,40}",
            end in 0..TRACE.len(),
        ) {
            let damaged = [&TRACE[..start], &text, &TRACE[end..]].concat();
            if let Err(error) = kernel(&damaged) {
                prop_assert!(!error.to_string().contains('\n'));
            }
        }
    }
}
