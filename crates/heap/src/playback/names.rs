//! The names of spans in a trace, as small numbers that are used again.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use prairie_trace::page_heap::{Call, Event};
use serde::Serialize;

use crate::units::Pages;

/// A call with the number of its span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbered {
    New { span: u32, pages: Pages, align: Pages },
    Delete { span: u32 },
    Release { pages: Pages },
}

/// A numbered call, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimedCall {
    pub time_ns: u64,
    pub call: Numbered,
}

/// Impossible calls in a trace: signs that calls are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Oddities {
    /// Deletes of spans that the trace did not create: they are left out.
    pub deletes_of_unknown_spans: u64,
    /// News of spans that were not deleted: those are deleted first.
    pub news_of_live_spans: u64,
}

/// Numbers for the live spans of a trace.
#[derive(Default)]
pub(super) struct Names {
    numbers: HashMap<u64, u32, BuildHasherDefault<Mixer>>,
    spare: Vec<u32>,
    next: u32,
    calls: Vec<TimedCall>,
    oddities: Oddities,
}

impl Names {
    /// The events as calls with numbers.
    pub fn number(&mut self, events: &[Event]) -> &[TimedCall] {
        self.calls.clear();
        for event in events {
            self.take(event);
        }
        &self.calls
    }

    pub fn oddities(&self) -> Oddities {
        self.oddities
    }

    fn take(&mut self, event: &Event) {
        let call = match event.call {
            Call::New { span, pages, align_log2 } => {
                let align = Pages(1u64.checked_shl(align_log2.into()).unwrap_or(u64::MAX));
                let number = self.spare.pop().unwrap_or_else(|| {
                    self.next += 1;
                    self.next - 1
                });
                if let Some(old) = self.numbers.insert(span, number) {
                    self.oddities.news_of_live_spans += 1;
                    self.push(event, Numbered::Delete { span: old });
                    self.spare.push(old);
                }
                Numbered::New { span: number, pages: Pages(pages), align }
            }
            Call::Delete { span } => match self.numbers.remove(&span) {
                Some(number) => {
                    self.spare.push(number);
                    Numbered::Delete { span: number }
                }
                None => {
                    self.oddities.deletes_of_unknown_spans += 1;
                    return;
                }
            },
            Call::Release { pages } => Numbered::Release { pages: Pages(pages) },
        };
        self.push(event, call);
    }

    fn push(&mut self, event: &Event, call: Numbered) {
        self.calls.push(TimedCall { time_ns: event.time_ns, call });
    }
}

/// Multiplication by a large odd number, high half onto low half: page numbers need no more, and
/// the trace's author gains nothing by collisions.
#[derive(Default)]
pub(super) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_be_given_again_and_oddities_are_counted() {
        let mut names = Names::default();
        let new = |span| Call::New { span, pages: 2, align_log2: 3 };
        let calls = [new(7), Call::Delete { span: 9 }, new(7), Call::Delete { span: 7 }, new(7)];
        let events = calls.map(|call| Event { time_ns: 1, call });
        let numbered: Vec<Numbered> =
            names.number(&events).iter().map(|timed| timed.call).collect();
        let new = |span| Numbered::New { span, pages: Pages(2), align: Pages(8) };
        let delete = |span| Numbered::Delete { span };
        assert_eq!(numbered, [new(0), delete(0), new(1), delete(1), new(1)]);
        let expected = Oddities { deletes_of_unknown_spans: 1, news_of_live_spans: 1 };
        assert_eq!(names.oddities(), expected);
    }
}
